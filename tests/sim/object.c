// Loads what the simulated compilers make: a source that the simulator runs itself, or a
// relocatable x86-64 or AArch64 object, into executable memory. What it calls is looked up in the
// simulator's own table of words (run_words.c) and nowhere else, so that a kernel cannot reach the
// process, nor the thread sanitizer where that is linked.
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/sim/code.h"
#include "tests/sim/core.h"
#include "tests/sim/image.h"
#include "tests/sim/run.h"

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_NONE
#endif

enum { STUB_BYTES = 16, MAX_SECTIONS = 256 };

typedef struct loader {
  const uint8_t *file;
  const Elf64_Shdr *section;
  const Elf64_Sym *symbol;
  const char *names;
  int n_sections, n_symbols;
  uint8_t *at[MAX_SECTIONS];  // where a section lies in memory; NULL: it does not
  uint8_t *base, *stub, *slot;  // a jump and an address for every symbol
  size_t bytes;
} loader;

static bool read_sections(loader *l) {
  const Elf64_Ehdr *head = (const void *)l->file;
  if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_machine != MACHINE || head->e_type != ET_REL ||
      head->e_shnum > MAX_SECTIONS)
    return false;
  l->section = (const void *)(l->file + head->e_shoff);
  l->n_sections = head->e_shnum;
  size_t bytes = 0;
  for (int i = 0; i < l->n_sections; i++) {
    const Elf64_Shdr *s = &l->section[i];
    if (s->sh_type == SHT_SYMTAB) {
      l->symbol = (const void *)(l->file + s->sh_offset);
      l->n_symbols = (int)(s->sh_size / sizeof(Elf64_Sym));
      l->names = (const char *)l->file + l->section[s->sh_link].sh_offset;
    }
    bytes += s->sh_flags & SHF_ALLOC ? s->sh_size + s->sh_addralign : 0;
  }
  l->bytes = (bytes + 64 + (size_t)l->n_symbols * (STUB_BYTES + 8) + 4095) / 4096 * 4096;
  return l->symbol != NULL;
}

static bool map_sections(loader *l) {
  void *p = mmap(NULL, l->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return false;
  l->base = p;
  uintptr_t next = (uintptr_t)p;
  for (int i = 0; i < l->n_sections; i++) {
    const Elf64_Shdr *s = &l->section[i];
    if (!(s->sh_flags & SHF_ALLOC) || s->sh_size == 0) continue;
    uintptr_t align = s->sh_addralign ? s->sh_addralign : 1;
    next = (next + align - 1) / align * align;
    l->at[i] = (uint8_t *)next;
    if (s->sh_type != SHT_NOBITS) memcpy(l->at[i], l->file + s->sh_offset, s->sh_size);
    next += s->sh_size;
  }
  next = (next + 15) / 16 * 16;
  l->stub = (uint8_t *)next;
  l->slot = l->stub + (size_t)l->n_symbols * STUB_BYTES;
  return true;
}

// Where the symbol is; 0: a name that no kernel may use, which is told.
static uint64_t address_of(const loader *l, uint32_t i) {
  const Elf64_Sym *s = &l->symbol[i];
  if (s->st_shndx != SHN_UNDEF)
    return s->st_shndx < l->n_sections && l->at[s->st_shndx] ? (uint64_t)l->at[s->st_shndx] + s->st_value : 0;
  uint64_t at = (uint64_t)sim_word(l->names + s->st_name);
  if (!at) sim_fault(i + 1000u, "a kernel calls %s, which is no word of the dialect", l->names + s->st_name);
  return at;
}

// A jump to s, near the code.
static uint64_t stub_for(const loader *l, uint32_t i, uint64_t s) {
  uint8_t *at = l->stub + (size_t)i * STUB_BYTES;
#if defined(__aarch64__)
  static const uint8_t jump[8] = {0x50, 0x00, 0x00, 0x58, 0x00, 0x02, 0x1f, 0xd6};  // ldr x16, .+8; br x16
#else
  static const uint8_t jump[8] = {0xff, 0x25, 2, 0, 0, 0, 0x90, 0x90};  // jmp *2(%rip); its address follows at 8
#endif
  memcpy(at, jump, sizeof jump);
  memcpy(at + 8, &s, 8);
  return (uint64_t)at;
}

static uint64_t slot_for(const loader *l, uint32_t i, uint64_t s) {
  uint8_t *at = l->slot + (size_t)i * 8;
  memcpy(at, &s, 8);
  return (uint64_t)at;
}

static bool put_signed32(uint8_t *at, uint64_t v) {
  int32_t narrow = (int32_t)(uint32_t)v;
  memcpy(at, &narrow, 4);
  return (int64_t)v == narrow;
}

#if defined(__aarch64__)
static bool put_field(uint8_t *at, uint32_t keep, uint64_t bits) {
  uint32_t word;
  memcpy(&word, at, 4);
  word = (word & keep) | (uint32_t)bits;
  memcpy(at, &word, 4);
  return true;
}

static bool put_page(uint8_t *at, uint64_t s, uint64_t p) {
  int64_t pages = ((int64_t)(s & ~4095ull) - (int64_t)(p & ~4095ull)) >> 12;
  return put_field(at, 0x9f00001f, ((uint64_t)pages & 3) << 29 | ((uint64_t)pages >> 2 & 0x7ffff) << 5);
}

static bool apply(const loader *l, uint32_t type, uint32_t i, uint64_t s, int64_t addend, uint8_t *at) {
  uint64_t p = (uint64_t)at, v = s + (uint64_t)addend, low = v & 4095;
  switch (type) {
    case R_AARCH64_NONE: return true;
    case R_AARCH64_ABS64: memcpy(at, &v, 8); return true;
    case R_AARCH64_PREL32: return put_signed32(at, v - p);
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
      if (l->symbol[i].st_shndx == SHN_UNDEF) v = stub_for(l, i, s) + (uint64_t)addend;
      return put_field(at, 0xfc000000, (v - p) >> 2 & 0x3ffffff);
    case R_AARCH64_ADR_PREL_PG_HI21: return put_page(at, v, p);
    case R_AARCH64_ADR_GOT_PAGE: return put_page(at, slot_for(l, i, s), p);
    case R_AARCH64_LD64_GOT_LO12_NC: return put_field(at, 0xffc003ff, (slot_for(l, i, s) & 4095) >> 3 << 10);
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC: return put_field(at, 0xffc003ff, low << 10);
    case R_AARCH64_LDST16_ABS_LO12_NC: return put_field(at, 0xffc003ff, low >> 1 << 10);
    case R_AARCH64_LDST32_ABS_LO12_NC: return put_field(at, 0xffc003ff, low >> 2 << 10);
    case R_AARCH64_LDST64_ABS_LO12_NC: return put_field(at, 0xffc003ff, low >> 3 << 10);
    case R_AARCH64_LDST128_ABS_LO12_NC: return put_field(at, 0xffc003ff, low >> 4 << 10);
    default: return false;
  }
}
#else
static bool apply(const loader *l, uint32_t type, uint32_t i, uint64_t s, int64_t addend, uint8_t *at) {
  uint64_t p = (uint64_t)at, v = s + (uint64_t)addend;
  switch (type) {
    case R_X86_64_NONE: return true;
    case R_X86_64_64: memcpy(at, &v, 8); return true;
    case R_X86_64_PLT32:
    case R_X86_64_PC32:
      if (l->symbol[i].st_shndx == SHN_UNDEF) v = stub_for(l, i, s) + (uint64_t)addend;
      return put_signed32(at, v - p);
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX: return put_signed32(at, slot_for(l, i, s) + (uint64_t)addend - p);
    default: return false;
  }
}
#endif

static bool relocate(const loader *l) {
  for (int k = 0; k < l->n_sections; k++) {
    const Elf64_Shdr *s = &l->section[k];
    if (s->sh_type != SHT_RELA || s->sh_info >= (uint32_t)l->n_sections || !l->at[s->sh_info]) continue;
    // What runs at loading is the thread sanitizer's own start.
    if (l->section[s->sh_info].sh_type == SHT_INIT_ARRAY) continue;
    const Elf64_Rela *r = (const void *)(l->file + s->sh_offset);
    for (size_t n = s->sh_size / sizeof *r; n > 0; n--, r++) {
      uint32_t i = (uint32_t)ELF64_R_SYM(r->r_info), type = (uint32_t)ELF64_R_TYPE(r->r_info);
      uint64_t at = address_of(l, i);
      if (at && apply(l, type, i, at, r->r_addend, l->at[s->sh_info] + r->r_offset)) continue;
      if (at) sim_fault(900 + type, "a kernel's object has a relocation of kind %u", type);
      return false;
    }
  }
  return true;
}

static sim_kernel *add_kernel(sim_module *m, const char *name, int threads, int param_bytes, int cluster) {
  sim_kernel *n = sim_object_new(SIM_KERNEL, m->object.device, sizeof *n);
  if (!n) return NULL;
  n->module = m;
  n->name = strdup(name);
  n->threads = threads;
  n->param_bytes = param_bytes;
  n->cluster = cluster;
  n->shared_limit = sim_is_hip ? (int)sim_option.shared_optin : 48 << 10;
  n->next = m->kernel;
  return m->kernel = n;
}

// TC_KERNEL leaves { threads, bytes of parameters, blocks of a cluster } as sim_kernel_NAME beside
// the function NAME.
static bool list_kernels(const loader *l, sim_module *m) {
  static const char mark[] = "sim_kernel_";
  for (int i = 0; i < l->n_symbols; i++) {
    const Elf64_Sym *s = &l->symbol[i];
    const char *name = l->names + s->st_name;
    if (strncmp(name, mark, sizeof mark - 1) != 0 || s->st_shndx == SHN_UNDEF) continue;
    name += sizeof mark - 1;
    for (int k = 0; k < l->n_symbols; k++) {
      if (strcmp(l->names + l->symbol[k].st_name, name) != 0 || l->symbol[k].st_shndx == SHN_UNDEF) continue;
      int facts[3];
      memcpy(facts, (const void *)address_of(l, (uint32_t)i), sizeof facts);
      sim_kernel *n = add_kernel(m, name, facts[0], facts[1], facts[2]);
      if (!n) return false;
      void *entry = (void *)address_of(l, (uint32_t)k);
      memcpy(&n->entry, &entry, sizeof entry);
    }
  }
  return true;
}

static bool list_functions(sim_module *m) {
  for (int i = 0; i < m->steps->n_functions; i++) {
    const sim_function *f = &m->steps->function[i];
    if (!f->threads) continue;
    sim_kernel *n = add_kernel(m, f->name, f->threads, f->param_bytes, 1);
    if (!n) return false;
    n->function = f;
  }
  return true;
}

// "sm_90a" is for 9.0 alone, "sm_90" as a binary, too; text is for 9.0 and newer ones.
static bool runs_here(const char *arch, bool was_text) {
  size_t gfx = strcspn(sim_option.gfx, ":");
  if (sim_is_hip) return strcspn(arch, ":") == gfx && memcmp(arch, sim_option.gfx, gfx) == 0;
  char *end;
  long n = strtol(arch + strcspn(arch, "0123456789"), &end, 10);
  return was_text && *end == 0 ? n <= sim_option.arch : n == sim_option.arch;
}

static bool load_object(sim_module *m) {
  loader l = {.file = m->image};
  bool good = read_sections(&l) && map_sections(&l);
  m->code = l.base;
  m->code_bytes = l.bytes;
  good = good && relocate(&l) && list_kernels(&l, m) && mprotect(l.base, l.bytes, PROT_READ | PROT_EXEC) == 0;
  if (good) __builtin___clear_cache((char *)l.base, (char *)l.base + l.bytes);
  return good;
}

sim_error sim_module_load(sim_device *d, const void *image, bool was_text, sim_module **out) {
  const sim_image *head = image;
  *out = NULL;
  if (memcmp(head->magic, SIM_IMAGE_MAGIC, sizeof head->magic) != 0) return SIM_INVALID_IMAGE;
  const uint8_t *object = (const uint8_t *)(head + 1);
  if (head->object_bytes > 1u << 30 || head->source_bytes > 1u << 30) return SIM_INVALID_IMAGE;
  if (sim_hash(object, head->object_bytes + head->source_bytes, 0) != head->hash) return SIM_INVALID_IMAGE;
  if (!runs_here(head->arch, was_text)) return was_text ? SIM_INVALID_PTX : SIM_NO_BINARY;
  sim_module *m = sim_object_new(SIM_MODULE, d, sizeof *m);
  if (!m) return SIM_MEMORY;
  m->image_bytes = head->object_bytes;
  m->image = malloc(head->object_bytes + 1);
  m->source = malloc(head->source_bytes + 1);
  bool good = m->image && m->source;
  if (good) {
    memcpy(m->image, object, head->object_bytes);
    memcpy(m->source, object + head->object_bytes, head->source_bytes);
    m->source[head->source_bytes] = 0;
    if (head->object_bytes) {
      good = load_object(m);
    } else {
      m->steps = sim_code_new(m->source, sim_arch_number(head->arch), sim_option.warp);
      good = m->steps && list_functions(m);
    }
  }
  if (!good) {
    sim_module_unload(m);
    return SIM_INVALID_IMAGE;
  }
  *out = m;
  return SIM_OK;
}

void sim_module_unload(sim_module *m) {
  for (sim_kernel *k = m->kernel; k; k = k->next) {
    free(k->name);
    k->name = NULL;
    sim_object_end(k);
  }
  if (m->code) munmap(m->code, m->code_bytes);
  sim_code_free(m->steps);
  free(m->image);
  free(m->source);
  m->steps = NULL;
  m->code = NULL;
  m->image = m->source = NULL;
  sim_object_end(m);
}

sim_kernel *sim_kernel_find(sim_module *m, const char *name) {
  sim_kernel *k = m->kernel;
  while (k && strcmp(k->name, name) != 0) k = k->next;
  return k;
}

// ---- places ----

static int line_of(const sim_module *m, size_t offset) {
  char path[] = "/tmp/tc-sim-XXXXXX", command[128], text[256] = "";
  int fd = mkstemp(path);
  if (fd < 0) return 0;
  bool written = write(fd, m->image, m->image_bytes) == (ssize_t)m->image_bytes;
  close(fd);
  snprintf(command, sizeof command, "addr2line -j .text -e %s %zx 2>/dev/null", path, offset);
  FILE *f = written ? popen(command, "r") : NULL;
  if (f && !fgets(text, sizeof text, f)) text[0] = 0;
  if (f) pclose(f);
  unlink(path);
  const char *colon = strrchr(text, ':');
  return colon ? atoi(colon + 1) : 0;
}

// Of the host's code, what a call comes back to.
static int line_at(const sim_module *m, const void *address) {
  size_t offset = (size_t)((const uint8_t *)address - m->code);
  if (!m->steps) return m->code && offset < m->code_bytes ? line_of(m, offset - 1) : 0;
  offset = (size_t)((const uint8_t *)address - (const uint8_t *)m->steps->step) / sizeof(sim_inst);
  return offset < m->steps->n_steps ? m->steps->line[offset] : 0;
}

const char *sim_place(const sim_module *m, const void *address) {
  static char text[256];
  text[0] = 0;
  int line = line_at(m, address);
  const char *at = m->source;
  for (int i = 1; i < line && at; i++) at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
  if (line <= 0 || !at) return text;
  while (*at == ' ') at++;
  snprintf(text, sizeof text, "line %d: %.*s", line, (int)strcspn(at, "\n"), at);
  return text;
}
