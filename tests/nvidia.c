// Read from the ELF sections of the cubin: .nv.info has the frames and registers of functions,
// .nv.shared.NAME is the block's memory. Where there is a section .nv.shared.reserved.0 that begins
// with the 1024 bytes that the system keeps from sm_90 on, which no device counts among those that
// a block may have. See nvidia.h.
#include "tests/nvidia.h"

#include <elf.h>
#include <stdint.h>
#include <string.h>

enum { SIZED = 4, FRAME = 0x11, REGISTERS = 0x2f };  // how an attribute is written, and which it is
enum { RESERVED = 1024 };

static void take(int *most, uint32_t value) {
  if ((int)value > *most) *most = (int)value;
}

static void read_info(const unsigned char *at, size_t bytes, cubin_facts *out) {
  for (const unsigned char *end = at + bytes; at + 4 <= end;) {
    uint32_t value[2];  // the function's symbol, and what is said of it
    unsigned size = at[0] == SIZED ? at[2] | (unsigned)at[3] << 8 : 0;
    if (size == sizeof value && at + 4 + size <= end) {
      memcpy(value, at + 4, sizeof value);
      if (at[1] == FRAME) take(&out->stack, value[1]);
      if (at[1] == REGISTERS) take(&out->registers, value[1]);
    }
    at += 4 + size;
  }
}

bool cubin_read(const void *image, size_t bytes, cubin_facts *out) {
  const Elf64_Ehdr *h = image;
  *out = (cubin_facts){-1, -1, 0};
  if (bytes < sizeof *h || memcmp(image, ELFMAG, SELFMAG) != 0 ||
      h->e_shoff + (size_t)h->e_shnum * sizeof(Elf64_Shdr) > bytes)
    return false;
  const Elf64_Shdr *section = (const void *)((const char *)image + h->e_shoff);
  const char *names = (const char *)image + section[h->e_shstrndx].sh_offset;
  bool reserves = false;
  for (int i = 0; i < h->e_shnum; i++) {
    const char *name = names + section[i].sh_name;
    if (strcmp(name, ".nv.info") == 0)
      read_info((const unsigned char *)image + section[i].sh_offset, section[i].sh_size, out);
    bool of_system = strcmp(name, ".nv.shared.reserved.0") == 0;
    reserves |= of_system;
    if (strncmp(name, ".nv.shared.", 11) == 0 && !of_system) take(&out->shared, (uint32_t)section[i].sh_size);
  }
  if (reserves && out->shared >= RESERVED) out->shared -= RESERVED;
  return out->registers >= 0 && out->stack >= 0;
}
