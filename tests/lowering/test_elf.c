// The loader runs what gcc and LLVM would have made, and refuses everything else without touching
// memory it does not own.
// The objects are made by hand here, so that the loader's tests need no compiler.
#include <criterion/criterion.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "lowering/codegen/elf_loader.h"

#if defined(__x86_64__)

enum { N_RELOCATIONS = 2 };

typedef struct object {
  Elf64_Ehdr head;
  uint8_t text[64];
  uint64_t rodata[2];
  Elf64_Rela rela[N_RELOCATIONS];
  Elf64_Sym sym[4];
  char strings[64];
  Elf64_Shdr section[6];
} object;

enum { S_NULL, S_TEXT, S_RODATA, S_RELA, S_SYMTAB, S_STRTAB };

static uint32_t add_string(object *o, const char *text) {
  static const char empty[1];
  uint32_t at = 1;
  while (memcmp(o->strings + at, empty, 1) != 0) at += (uint32_t)strlen(o->strings + at) + 1;
  strcpy(o->strings + at, text);
  return at;
}

static Elf64_Shdr section(object *o, const char *name, uint32_t type, uint64_t flags, size_t offset, size_t size) {
  return (Elf64_Shdr){.sh_name = add_string(o, name),
                      .sh_type = type,
                      .sh_flags = flags,
                      .sh_offset = offset,
                      .sh_size = size,
                      .sh_addralign = 8};
}

// int64_t f(void *to, const void *from, size_t n): memcpy(to, from, n); return the 8 bytes at
// rodata + 8.
static object *make_object(void) {
  static const uint8_t code[] = {
      0x48, 0x83, 0xec, 0x08,                    // sub rsp, 8
      0xe8, 0,    0,    0,    0,                          // call memcpy
      0x48, 0x8b, 0x05, 0,    0,    0, 0,              // mov rax, [rip + rodata + 8]
      0x48, 0x83, 0xc4, 0x08, 0xc3,              // add rsp, 8; ret
  };
  object *o = calloc(1, sizeof *o);
  memcpy(o->text, code, sizeof code);
  o->rodata[1] = 0x1122334455667788;
  o->rela[0] = (Elf64_Rela){.r_offset = 5, .r_info = ELF64_R_INFO(2, R_X86_64_PLT32), .r_addend = -4};
  o->rela[1] = (Elf64_Rela){.r_offset = 12, .r_info = ELF64_R_INFO(3, R_X86_64_PC32), .r_addend = 8 - 4};
  o->sym[1] =
      (Elf64_Sym){.st_name = add_string(o, "f"), .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = S_TEXT};
  o->sym[2] = (Elf64_Sym){.st_name = add_string(o, "memcpy"), .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE)};
  o->sym[3] = (Elf64_Sym){.st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION), .st_shndx = S_RODATA};
  o->section[S_TEXT] =
      section(o, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, offsetof(object, text), sizeof code);
  o->section[S_RODATA] = section(o, ".rodata", SHT_PROGBITS, SHF_ALLOC, offsetof(object, rodata), sizeof o->rodata);
  o->section[S_RELA] = section(o, ".rela", SHT_RELA, 0, offsetof(object, rela), sizeof o->rela);
  o->section[S_RELA].sh_link = S_SYMTAB;
  o->section[S_RELA].sh_info = S_TEXT;
  o->section[S_SYMTAB] = section(o, ".symtab", SHT_SYMTAB, 0, offsetof(object, sym), sizeof o->sym);
  o->section[S_SYMTAB].sh_link = S_STRTAB;
  o->section[S_STRTAB] = section(o, ".str", SHT_STRTAB, 0, offsetof(object, strings), sizeof o->strings);
  o->head = (Elf64_Ehdr){.e_type = ET_REL,
                         .e_machine = EM_X86_64,
                         .e_shoff = offsetof(object, section),
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shnum = 6,
                         .e_shstrndx = S_STRTAB};
  memcpy(o->head.e_ident, ELFMAG, SELFMAG);
  o->head.e_ident[EI_CLASS] = ELFCLASS64;
  o->head.e_ident[EI_DATA] = ELFDATA2LSB;
  return o;
}

typedef int64_t test_fn(void *to, const void *from, size_t n);

static tc_status load_bytes(const void *bytes, size_t n, tc_elf_code **code, test_fn **f) {
  void *p = NULL;
  char *copy = malloc(n + 1);  // its own block, at an odd address, so that a sanitizer sees each read beyond
  memcpy(copy + 1, bytes, n);
  tc_status st = tc_elf_load(copy + 1, n, "f", code, &p);
  free(copy);
  if (f != NULL) memcpy(f, &p, sizeof p);
  cr_assert((st == TC_OK) == (p != NULL) && (st == TC_OK) == (*code != NULL));
  tc_clear_error();
  return st;
}

static tc_status load(const object *o) {
  tc_elf_code *code = NULL;
  tc_status st = load_bytes(o, sizeof *o, &code, NULL);
  tc_elf_unload(code);
  return st;
}

Test(elf, a_function_reads_constants_and_calls_memcpy) {
  object *o = make_object();
  tc_elf_code *code = NULL;
  test_fn *f = NULL;
  char to[4] = "";
  cr_assert_eq(load_bytes(o, sizeof *o, &code, &f), TC_OK);
  cr_assert_eq(f(to, "abc", 4), 0x1122334455667788);
  cr_assert_str_eq(to, "abc");
  tc_elf_unload(code);
  free(o);
}

Test(elf, absolute_relocations_in_constants_work) {
  object *o = make_object();
  tc_elf_code *code = NULL;
  test_fn *f = NULL;
  o->section[S_RELA].sh_info = S_RODATA;
  o->rela[0] = (Elf64_Rela){.r_offset = 8, .r_info = ELF64_R_INFO(3, R_X86_64_64), .r_addend = 3};
  o->rela[1] = (Elf64_Rela){.r_offset = 0, .r_info = ELF64_R_INFO(3, R_X86_64_64)};
  // rax = [a] - [b], addresses below
  memcpy(o->text, (uint8_t[]){0x48, 0x8b, 0x05, 0, 0, 0, 0, 0x48, 0x2b, 0x05, 0, 0, 0, 0, 0xc3}, 15);
  o->section[S_TEXT].sh_size = 24;  // rodata follows: [24] and [32]
  int32_t a = 32 - 7, b = 24 - 14;
  memcpy(o->text + 3, &a, 4);
  memcpy(o->text + 10, &b, 4);
  cr_assert_eq(load_bytes(o, sizeof *o, &code, &f), TC_OK);
  cr_assert_eq(f(NULL, NULL, 0), 3);
  tc_elf_unload(code);
  free(o);
}

#define REFUSES(name, change) \
  Test(elf, refuses_##name) { \
    object *o = make_object(); \
    change; \
    cr_assert_eq(load(o), TC_ERR_COMPILE); \
    free(o); \
  }
REFUSES(other_machines, o->head.e_machine = EM_SPARC)
REFUSES(linked_files, o->head.e_type = ET_DYN)
REFUSES(unknown_relocations, o->rela[1].r_info = ELF64_R_INFO(3, R_X86_64_TPOFF32))
REFUSES(unknown_symbols, o->sym[2].st_name = o->sym[1].st_name)
REFUSES(relocations_at_the_end_of_a_section, o->rela[1].r_offset = o->section[S_TEXT].sh_size - 3)
REFUSES(relocations_far_outside, o->rela[1].r_offset = UINT64_MAX - 1)
REFUSES(addends_out_of_reach, o->rela[1].r_addend = INT64_C(1) << 40)
REFUSES(a_32_bit_address_out_of_reach, o->rela[1].r_info = ELF64_R_INFO(3, R_X86_64_32))
REFUSES(symbols_outside_their_section, o->sym[3].st_value = 17)
REFUSES(symbol_numbers_out_of_range, o->rela[1].r_info = ELF64_R_INFO(4, R_X86_64_PC32))
REFUSES(writable_data, o->section[S_RODATA].sh_flags |= SHF_WRITE)
REFUSES(zero_initialised_data, o->section[S_RODATA].sh_type = SHT_NOBITS)
REFUSES(huge_sections, o->section[S_RODATA].sh_size = UINT64_MAX - 100)
REFUSES(odd_alignments, o->section[S_RODATA].sh_addralign = 24)
REFUSES(a_function_in_constants, o->sym[1].st_shndx = S_RODATA)
REFUSES(a_function_behind_its_section, o->sym[1].st_value = o->section[S_TEXT].sh_size)
REFUSES(a_missing_function, o->sym[1].st_name = 0)
REFUSES(a_string_table_without_end, memset(o->strings, 'x', sizeof o->strings))

Test(elf, every_truncation_is_refused) {
  object *o = make_object();
  for (size_t n = 0; n < sizeof *o; n++) {
    tc_elf_code *code = NULL;
    cr_assert_eq(load_bytes(o, n, &code, NULL), TC_ERR_COMPILE, "%zu bytes", n);
  }
  free(o);
}

// A flipped bit may leave a loadable object (in code, say); what counts is that loading stays
// inside its own memory.
Test(elf, flipped_bits_never_crash, .timeout = 120) {
  object *o = make_object();
  uint64_t state = 1;
  for (size_t bit = 0; bit < 8 * sizeof *o; bit++) {
    ((uint8_t *)o)[bit / 8] ^= (uint8_t)(1u << bit % 8);
    tc_status st = load(o);
    cr_assert(st == TC_OK || st == TC_ERR_COMPILE, "bit %zu: %d", bit, (int)st);
    ((uint8_t *)o)[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  for (int round = 0; round < 20000; round++) {
    object broken = *o;
    for (int k = 0; k < 1 + round % 6; k++) {
      state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
      ((uint8_t *)&broken)[(state >> 33) % sizeof broken] = (uint8_t)(state >> 25);
    }
    tc_status st = load(&broken);
    cr_assert(st == TC_OK || st == TC_ERR_COMPILE, "round %d: %d", round, (int)st);
  }
  free(o);
}

#else
Test(elf, needs_x86_64) {
  cr_skip_test("objects here are x86-64 code");
}
#endif

Test(elf, unload_accepts_null) {
  tc_elf_unload(NULL);
}
