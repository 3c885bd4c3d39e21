// Loads a relocatable ELF object into executable memory.
//
// Idea: an object of one function has few parts. Allocated sections are laid out one behind the
// other in one mapping. Stubs for library functions, which a 32-bit branch may not reach, lie at
// its end. Relocations are applied while the mapping is writable; then it becomes executable for
// good.
// Writable data are refused: generated kernels have none.
// Debuggers read a copy of the object, in which sections have the addresses they were loaded at.
// Invariants: the object is not trusted. Every offset is checked against what it points into.
// Headers are copied before use, for the object may be unaligned. Nothing outside the mapping is
// written.
// Source: System V ABI, AMD64 supplement (table 4.9) and ELF for the Arm 64-bit architecture
// (section 5.7).
#include "lowering/codegen/elf_loader.h"

#include <elf.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "lowering/codegen/loaded_code.h"
#include "lowering/codegen/perf_files.h"
#include "lowering/target/isa.h"
#include "runtime/arena.h"
#include "runtime/status.h"

#define MAX_SECTIONS 4096
#define MAX_CODE_BYTES (UINT64_C(64) << 20)
#define STUB_BYTES 16

struct tc_elf_code {
  void *map;
  size_t bytes;
  bool is_told;
  tc_loaded_code told;  // what debuggers and profilers are told; owns the copy of the object
};

// What generated code may call by name: what LLVM makes of copies, and of rounding and fma where
// the target has no instruction.
typedef struct library_function {
  const char *name;
  void (*address)(void);
} library_function;

#define ROW(f) {#f, (void (*)(void))f}
static const library_function library[] = {
    ROW(memcpy), ROW(memmove), ROW(memset), ROW(fma),    ROW(fmaf), ROW(floor), ROW(floorf),
    ROW(ceil),   ROW(ceilf),   ROW(trunc),  ROW(truncf), ROW(rint), ROW(rintf),
};
#undef ROW
#define N_LIBRARY (sizeof library / sizeof *library)

// One load at work.
typedef struct loader {
  const uint8_t *object;
  uint64_t bytes;
  Elf64_Ehdr head;
  Elf64_Shdr *section;   // copies, head.e_shnum of them
  uint64_t *place;       // offset of each section in the mapping; UINT64_MAX: not loaded
  uint64_t stub_at, total;
  uint8_t *map;
} loader;

static tc_status bad(const char *what) {
  return TC_FAIL(TC_ERR_COMPILE, "object is not loadable: %s", what);
}

static bool inside(uint64_t offset, uint64_t bytes, uint64_t limit) {
  return offset <= limit && bytes <= limit - offset;
}

// The string at `at` of string table `table`, or NULL.
static const char *string_at(const loader *l, uint32_t table, uint32_t at) {
  if (table >= l->head.e_shnum || l->section[table].sh_type != SHT_STRTAB) return NULL;
  const Elf64_Shdr *s = &l->section[table];
  if (at >= s->sh_size) return NULL;
  const char *text = (const char *)l->object + s->sh_offset + at;
  return memchr(text, 0, s->sh_size - at) != NULL ? text : NULL;
}

static tc_status read_headers(loader *l) {
  if (l->bytes < sizeof l->head) return bad("too short");
  memcpy(&l->head, l->object, sizeof l->head);
  const Elf64_Ehdr *h = &l->head;
  if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64 ||
      h->e_ident[EI_DATA] != ELFDATA2LSB)
    return bad("no 64-bit little-endian ELF");
  if (h->e_type != ET_REL || h->e_machine != TC_HOST_MACHINE) return bad("wrong type or machine");
  if (h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shnum == 0 || h->e_shnum > MAX_SECTIONS)
    return bad("bad section table");
  if (!inside(h->e_shoff, h->e_shnum * sizeof(Elf64_Shdr), l->bytes)) return bad("section table is cut off");
  l->section = tc_malloc(h->e_shnum * sizeof *l->section);
  l->place = tc_malloc(h->e_shnum * sizeof *l->place);
  if (l->section == NULL || l->place == NULL) return TC_FAIL(TC_ERR_MEMORY, "%u sections", h->e_shnum);
  memcpy(l->section, l->object + h->e_shoff, h->e_shnum * sizeof(Elf64_Shdr));
  for (uint32_t i = 0; i < h->e_shnum; i++) {
    const Elf64_Shdr *s = &l->section[i];
    if (s->sh_type != SHT_NOBITS && s->sh_type != SHT_NULL && !inside(s->sh_offset, s->sh_size, l->bytes))
      return bad("section is cut off");
  }
  return TC_OK;
}

// Of unwind tables x86-64 has a type of its own.
static bool is_loaded(const Elf64_Shdr *s) {
  return (s->sh_type == SHT_PROGBITS || s->sh_type == SHT_X86_64_UNWIND) && (s->sh_flags & SHF_ALLOC);
}

static tc_status lay_out(loader *l) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < l->head.e_shnum; i++) {
    const Elf64_Shdr *s = &l->section[i];
    const char *name = string_at(l, l->head.e_shstrndx, s->sh_name);
    l->place[i] = UINT64_MAX;
    if (!is_loaded(s)) {
      if (s->sh_type == SHT_NOBITS && s->sh_size > 0) return bad("zero-initialised data");
      continue;
    }
    if (name == NULL) return bad("section without a name");
    if ((s->sh_flags & SHF_WRITE) && s->sh_size > 0) return bad("writable data");
    uint64_t align = s->sh_addralign > 0 ? s->sh_addralign : 1;
    if ((align & (align - 1)) != 0 || align > 4096) return bad("bad alignment");
    at = (at + align - 1) & ~(align - 1);
    if (s->sh_size > MAX_CODE_BYTES || at > MAX_CODE_BYTES) return bad("too large");
    l->place[i] = at;
    at += s->sh_size;
  }
  l->stub_at = (at + STUB_BYTES - 1) & ~(uint64_t)(STUB_BYTES - 1);
  l->total = l->stub_at + N_LIBRARY * STUB_BYTES;
  return TC_OK;
}

// A jump through an address that follows it.
static void write_stub(uint8_t *at, void (*target)(void)) {
#if defined(__aarch64__)
  // Ldr x16, .+8; br x16.
  static const uint8_t jump[8] = {0x50, 0x00, 0x00, 0x58, 0x00, 0x02, 0x1f, 0xd6};
  memcpy(at, jump, 8);
  memcpy(at + 8, &target, 8);
#else
  static const uint8_t jump[6] = {0xff, 0x25, 0, 0, 0, 0};  // jmp *0(%rip)
  memcpy(at, jump, 6);
  memcpy(at + 6, &target, 8);
#endif
}

static tc_status map_sections(loader *l) {
  void *map = mmap(NULL, l->total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return TC_FAIL(TC_ERR_MEMORY, "%llu bytes of code", (unsigned long long)l->total);
  l->map = map;
  for (uint32_t i = 0; i < l->head.e_shnum; i++)
    if (l->place[i] != UINT64_MAX && l->section[i].sh_size > 0)
      memcpy(l->map + l->place[i], l->object + l->section[i].sh_offset, l->section[i].sh_size);
  for (size_t k = 0; k < N_LIBRARY; k++) write_stub(l->map + l->stub_at + k * STUB_BYTES, library[k].address);
  return TC_OK;
}

static tc_status read_symbol(const loader *l, uint32_t table, uint64_t index, Elf64_Sym *out) {
  if (table >= l->head.e_shnum || l->section[table].sh_type != SHT_SYMTAB) return bad("no symbol table");
  const Elf64_Shdr *s = &l->section[table];
  if (index >= s->sh_size / sizeof *out) return bad("symbol out of range");
  memcpy(out, l->object + s->sh_offset + index * sizeof *out, sizeof *out);
  return TC_OK;
}

static tc_status find_address(const loader *l, uint32_t table, uint64_t index, uint64_t *out) {
  Elf64_Sym sym;
  TC_TRY(read_symbol(l, table, index, &sym));
  if (sym.st_shndx != SHN_UNDEF) {
    if (sym.st_shndx >= l->head.e_shnum || l->place[sym.st_shndx] == UINT64_MAX)
      return bad("symbol in no loaded section");
    if (sym.st_value > l->section[sym.st_shndx].sh_size) return bad("symbol outside its section");
    *out = (uint64_t)(uintptr_t)l->map + l->place[sym.st_shndx] + sym.st_value;
    return TC_OK;
  }
  const char *name = string_at(l, l->section[table].sh_link, sym.st_name);
  for (size_t k = 0; name != NULL && k < N_LIBRARY; k++) {
    if (strcmp(name, library[k].name) != 0) continue;
    *out = (uint64_t)(uintptr_t)(l->map + l->stub_at + k * STUB_BYTES);
    return TC_OK;
  }
  return TC_FAIL(TC_ERR_COMPILE, "object needs unknown symbol %.64s", name != NULL ? name : "?");
}

static bool fits_signed(uint64_t value, unsigned bits) {
  int64_t v = (int64_t)value, limit = INT64_C(1) << (bits - 1);
  return v >= -limit && v < limit;
}

#if defined(__aarch64__)
static void patch32(uint8_t *at, uint32_t keep, uint64_t bits) {
  uint32_t word;
  memcpy(&word, at, 4);
  word = (word & keep) | (uint32_t)bits;
  memcpy(at, &word, 4);
}

// s: symbol plus addend; p: address of the field. at: where to write, `room` bytes up to the
// section's end.
static tc_status apply_relocation(uint32_t type, uint64_t s, uint64_t p, uint8_t *at, uint64_t room) {
  uint64_t pages = (s & ~UINT64_C(0xfff)) - (p & ~UINT64_C(0xfff)), low = s & 0xfff;
  if (room < (type == R_AARCH64_ABS64 || type == R_AARCH64_PREL64 ? 8u : 4u))
    return bad("relocation outside its section");
  switch (type) {
    case R_AARCH64_NONE: return TC_OK;
    case R_AARCH64_ABS64: memcpy(at, &s, 8); return TC_OK;
    case R_AARCH64_PREL64:
      s -= p;
      memcpy(at, &s, 8);
      return TC_OK;
    case R_AARCH64_PREL32:
      if (!fits_signed(s - p, 32)) return bad("relocation out of reach");
      patch32(at, 0, (s - p) & UINT32_MAX);
      return TC_OK;
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
      if (!fits_signed(s - p, 28) || ((s - p) & 3) != 0) return bad("relocation out of reach");
      patch32(at, 0xfc000000, ((s - p) >> 2) & 0x3ffffff);
      return TC_OK;
    case R_AARCH64_ADR_PREL_PG_HI21:
      if (!fits_signed(pages, 33)) return bad("relocation out of reach");
      patch32(at, 0x9f00001f, ((pages >> 12 & 3) << 29) | ((pages >> 14 & 0x7ffff) << 5));
      return TC_OK;
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC: patch32(at, 0xffc003ff, low << 10); return TC_OK;
    case R_AARCH64_LDST16_ABS_LO12_NC: patch32(at, 0xffc003ff, low >> 1 << 10); return TC_OK;
    case R_AARCH64_LDST32_ABS_LO12_NC: patch32(at, 0xffc003ff, low >> 2 << 10); return TC_OK;
    case R_AARCH64_LDST64_ABS_LO12_NC: patch32(at, 0xffc003ff, low >> 3 << 10); return TC_OK;
    case R_AARCH64_LDST128_ABS_LO12_NC: patch32(at, 0xffc003ff, low >> 4 << 10); return TC_OK;
    default: return TC_FAIL(TC_ERR_COMPILE, "object uses unknown relocation %u", type);
  }
}
#else
// s: symbol plus addend; p: address of the field. at: where to write, `room` bytes up to the
// section's end.
static tc_status apply_relocation(uint32_t type, uint64_t s, uint64_t p, uint8_t *at, uint64_t room) {
  bool is_wide = type == R_X86_64_64 || type == R_X86_64_PC64, in_reach;
  if (type == R_X86_64_NONE) return TC_OK;
  if (room < (is_wide ? 8u : 4u)) return bad("relocation outside its section");
  switch (type) {
    case R_X86_64_64: memcpy(at, &s, 8); return TC_OK;
    case R_X86_64_PC64:
      s -= p;
      memcpy(at, &s, 8);
      return TC_OK;
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
      s -= p;
      in_reach = fits_signed(s, 32);
      break;
    case R_X86_64_32: in_reach = s <= UINT32_MAX; break;
    case R_X86_64_32S: in_reach = fits_signed(s, 32); break;
    default: return TC_FAIL(TC_ERR_COMPILE, "object uses unknown relocation %u", type);
  }
  if (!in_reach) return bad("relocation out of reach");
  memcpy(at, &s, 4);  // the lower half
  return TC_OK;
}
#endif

static tc_status relocate_section(const loader *l, const Elf64_Shdr *s) {
  // Relocations of a section that was not loaded are skipped.
  if (s->sh_info >= l->head.e_shnum || l->place[s->sh_info] == UINT64_MAX) return TC_OK;
  uint64_t place = l->place[s->sh_info], limit = l->section[s->sh_info].sh_size;
  if (s->sh_type != SHT_RELA) return bad("relocations without addends");
  for (uint64_t k = 0; k < s->sh_size / sizeof(Elf64_Rela); k++) {
    Elf64_Rela r;
    uint64_t address = 0;
    memcpy(&r, l->object + s->sh_offset + k * sizeof r, sizeof r);
    if (r.r_offset > limit) return bad("relocation outside its section");
    TC_TRY(find_address(l, s->sh_link, ELF64_R_SYM(r.r_info), &address));
    uint8_t *at = l->map + place + r.r_offset;
    TC_TRY(apply_relocation((uint32_t)ELF64_R_TYPE(r.r_info), address + (uint64_t)r.r_addend, (uint64_t)(uintptr_t)at,
                            at, limit - r.r_offset));
  }
  return TC_OK;
}

static tc_status relocate(const loader *l) {
  for (uint32_t i = 0; i < l->head.e_shnum; i++)
    if (l->section[i].sh_type == SHT_RELA || l->section[i].sh_type == SHT_REL)
      TC_TRY(relocate_section(l, &l->section[i]));
  return TC_OK;
}

static tc_status find_function(const loader *l, const char *name, tc_loaded_code *out) {
  for (uint32_t i = 0; i < l->head.e_shnum; i++) {
    if (l->section[i].sh_type != SHT_SYMTAB) continue;
    for (uint64_t k = 0; k < l->section[i].sh_size / sizeof(Elf64_Sym); k++) {
      Elf64_Sym sym;
      TC_TRY(read_symbol(l, i, k, &sym));
      if (ELF64_ST_BIND(sym.st_info) != STB_GLOBAL || sym.st_shndx == SHN_UNDEF || sym.st_shndx >= l->head.e_shnum)
        continue;
      const char *text = string_at(l, l->section[i].sh_link, sym.st_name);
      if (text == NULL || strcmp(text, name) != 0) continue;
      const Elf64_Shdr *s = &l->section[sym.st_shndx];
      if (l->place[sym.st_shndx] == UINT64_MAX || !(s->sh_flags & SHF_EXECINSTR) || sym.st_value >= s->sh_size)
        return bad("the function is not in code");
      uint64_t room = s->sh_size - sym.st_value;
      out->at = l->map + l->place[sym.st_shndx] + sym.st_value;
      out->bytes = sym.st_size > 0 && sym.st_size < room ? sym.st_size : room;
      return TC_OK;
    }
  }
  return TC_FAIL(TC_ERR_COMPILE, "object has no function %s", name);
}

// Copies the object for debuggers; without memory they are told nothing.
static void copy_object(const loader *l, tc_loaded_code *out) {
  out->object = tc_malloc(l->bytes);
  if (out->object == NULL) return;
  out->object_bytes = l->bytes;
  memcpy(out->object, l->object, l->bytes);
  for (uint32_t i = 0; i < l->head.e_shnum; i++) {
    const Elf64_Shdr *s = &l->section[i];
    const char *name = string_at(l, l->head.e_shstrndx, s->sh_name);
    bool is_plain = s->sh_type == SHT_PROGBITS && !(s->sh_flags & SHF_COMPRESSED);
    if (is_plain && name != NULL && strcmp(name, ".debug_line") == 0) {
      out->lines = out->object + s->sh_offset;
      out->lines_bytes = s->sh_size;
    }
    if (l->place[i] == UINT64_MAX) continue;
    uint64_t address = (uint64_t)(uintptr_t)l->map + l->place[i];
    memcpy(out->object + l->head.e_shoff + i * sizeof *s + offsetof(Elf64_Shdr, sh_addr), &address, sizeof address);
  }
}

tc_status tc_elf_load(const void *object, size_t bytes, const char *name, tc_elf_code **out, void **out_fn) {
  loader l = {.object = object, .bytes = bytes};
  tc_loaded_code told = {.at = NULL};
  tc_elf_code *code = NULL;
  tc_status st;
  *out = NULL;
  *out_fn = NULL;
  if ((st = read_headers(&l)) != TC_OK) goto done;
  if ((st = lay_out(&l)) != TC_OK) goto done;
  if ((st = map_sections(&l)) != TC_OK) goto done;
  if ((st = relocate(&l)) != TC_OK) goto done;
  if ((st = find_function(&l, name, &told)) != TC_OK) goto done;
  if ((code = tc_malloc(sizeof *code)) == NULL) {
    st = TC_FAIL(TC_ERR_MEMORY, "%zu bytes", sizeof *code);
  } else if (mprotect(l.map, l.total, PROT_READ | PROT_EXEC) != 0) {
    st = TC_FAIL(TC_ERR_COMPILE, "this system does not let memory become executable");
  } else {
    __builtin___clear_cache((char *)l.map, (char *)l.map + l.total);
    copy_object(&l, &told);
    snprintf(told.name, sizeof told.name, "%s", name);
    *code = (tc_elf_code){.map = l.map, .bytes = l.total, .told = told};
    *out_fn = told.at;
    *out = code;
    code = NULL;
    l.map = NULL;  // handed over
  }
done:
  tc_free(code);
  if (l.map != NULL) munmap(l.map, l.total);
  tc_free(l.section);
  tc_free(l.place);
  return st;
}

void tc_elf_announce(tc_elf_code *code, const tc_kir *kir) {
  if (code->told.object == NULL) return;
  tc_loaded_code_add(&code->told, kir);
  code->is_told = true;
}

size_t tc_elf_bytes(const tc_elf_code *code) {
  return code->bytes + code->told.object_bytes;
}

// Gives the memory back. While perf's map is written the addresses stay reserved, so that none of
// them is ever named twice.
static void unmap(void *map, size_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (tc_perf_keeps_addresses() && mmap(map, bytes, PROT_NONE, flags, -1, 0) != MAP_FAILED) return;
  munmap(map, bytes);
}

void tc_elf_unload(tc_elf_code *code) {
  if (code == NULL) return;
  if (code->is_told) tc_loaded_code_remove(&code->told);
  unmap(code->map, code->bytes);
  tc_free(code->told.object);
  tc_free(code);
}
