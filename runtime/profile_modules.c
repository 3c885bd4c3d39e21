// Modules of code, found by dl_iterate_phdr. See profile_modules.h.
#include "runtime/profile_modules.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST 256

static struct {
  uint64_t begin, end;
} told[MOST];
static int n_told;

static bool is_told(uint64_t address) {
  for (int i = 0; i < n_told; i++)
    if (address >= told[i].begin && address < told[i].end) return true;
  return false;
}

typedef struct search {
  uint64_t address;
  tc_profile_module found;
} search;

// The note of a build id, in hex.
static void read_build_id(const struct dl_phdr_info *info, const ElfW(Phdr) * p, char *out, size_t bytes) {
  const char *at = (const char *)(uintptr_t)(info->dlpi_addr + p->p_vaddr), *end = at + p->p_memsz;
  while (end - at >= (ptrdiff_t)sizeof(ElfW(Nhdr))) {
    const ElfW(Nhdr) *n = (const ElfW(Nhdr) *)(const void *)at;
    const unsigned char *id = (const unsigned char *)at + sizeof *n + ((n->n_namesz + 3) & ~3u);
    if (n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4 && memcmp(at + sizeof *n, "GNU", 4) == 0) {
      for (size_t i = 0; i < n->n_descsz && 2 * i + 2 < bytes; i++) snprintf(out + 2 * i, 3, "%02x", id[i]);
      return;
    }
    at = (const char *)id + ((n->n_descsz + 3) & ~3u);
  }
}

static int look_at_module(struct dl_phdr_info *info, size_t size, void *arg) {
  search *s = arg;
  uint64_t begin = UINT64_MAX, end = 0;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type != PT_LOAD) continue;
    if (info->dlpi_addr + p->p_vaddr < begin) begin = info->dlpi_addr + p->p_vaddr;
    if (info->dlpi_addr + p->p_vaddr + p->p_memsz > end) end = info->dlpi_addr + p->p_vaddr + p->p_memsz;
  }
  if (s->address < begin || s->address >= end) return 0;
  s->found = (tc_profile_module){.begin = begin, .end = end, .bias = info->dlpi_addr};
  snprintf(s->found.path, sizeof s->found.path, "%s", info->dlpi_name);
  for (int i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_NOTE && !s->found.build_id[0])
      read_build_id(info, &info->dlpi_phdr[i], s->found.build_id, sizeof s->found.build_id);
  if (!s->found.path[0]) {  // the program itself
    ssize_t n = readlink("/proc/self/exe", s->found.path, sizeof s->found.path - 1);
    s->found.path[n > 0 ? n : 0] = 0;
  }
  return 1;
}

void tc_profile_modules_each_new(void *const *address, int n, void (*tell)(const tc_profile_module *m)) {
  for (int i = 0; i < n; i++) {
    search s = {.address = (uint64_t)(uintptr_t)address[i]};
    if (is_told(s.address) || n_told == MOST || !dl_iterate_phdr(look_at_module, &s)) continue;
    told[n_told].begin = s.found.begin, told[n_told].end = s.found.end;
    n_told++;
    tell(&s.found);
  }
}

void tc_profile_modules_forget(void) {
  n_told = 0;
}
