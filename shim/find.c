// Finds the routine that a caller would have had without the shim, and the bits of its integers.
// In: an entry, a return address. Out: a callee, kept for the caller's module, or for all callers
// where the global scope has the name after the shim.
// Order: TC_BLAS_LIB; RTLD_NEXT; the closure of the caller's module, as of a library that Python
// opened; every module.
// Invariants: never the shim itself. A provider stays loaded once it is found. What is known of
// callers is forgotten when a module is closed, since another may come to lie where it was.
// Threads: any; two that look for the same find the same.
#include "shim/find.h"

#include <dlfcn.h>
#include <errno.h>
#include <fnmatch.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/options.h"

// Around the exported entries (stubs.S, generate.py).
extern const char tc_shim_entries_begin[], tc_shim_entries_end[];

static const struct {
  const char *pattern;
  uint8_t bits;
} providers[] = {
#define PROVIDER(pattern, bits) {pattern, bits},
#include "shim/providers.def"
#undef PROVIDER
};

static bool is_ours(const void *address) {
  return (const char *)address >= tc_shim_entries_begin && (const char *)address < tc_shim_entries_end;
}

void *tc_shim_memory(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

// Small pieces of such memory. Who comes meanwhile, a handler of signals, too, gets a page.
static tc_shim_callee *callee_memory(void) {
  enum { PIECES = 256 };
  static tc_shim_callee first[PIECES], *pieces = first;
  static uint32_t n;
  static int busy;
  if (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE)) return tc_shim_memory(sizeof *pieces);
  tc_shim_callee *fresh = n == PIECES ? tc_shim_memory(PIECES * sizeof *fresh) : NULL;
  if (fresh) {
    pieces = fresh;
    n = 0;
  }
  tc_shim_callee *c = n < PIECES ? &pieces[n++] : NULL;
  __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
  return c;
}

// ---- Modules ----

typedef struct module_query {
  uintptr_t address, base, end;
  char *path;
  size_t path_bytes;
  bool found;
} module_query;

static int match_module(struct dl_phdr_info *info, size_t size, void *query) {
  module_query *q = query;
  uintptr_t low = UINTPTR_MAX, high = 0;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type != PT_LOAD) continue;
    if (info->dlpi_addr + p->p_vaddr < low) low = info->dlpi_addr + p->p_vaddr;
    if (info->dlpi_addr + p->p_vaddr + p->p_memsz > high) high = info->dlpi_addr + p->p_vaddr + p->p_memsz;
  }
  if (q->address < low || q->address >= high) return 0;
  q->base = low;
  q->end = high;
  q->found = true;
  snprintf(q->path, q->path_bytes, "%s", info->dlpi_name ? info->dlpi_name : "");
  return 1;
}

bool tc_shim_module_of(uintptr_t address, char *path, size_t path_bytes, uintptr_t *out_base, uintptr_t *out_end) {
  module_query q = {.address = address, .path = path, .path_bytes = path_bytes};
  dl_iterate_phdr(match_module, &q);
  *out_base = q.base;
  *out_end = q.end;
  return q.found;
}

// ---- Where a name is defined ----

static int (*real_dlclose)(void *);

// Keeps the library that defines a function, which the slot's callee will point to.
static void keep_provider(const void *function) {
  char path[4096] = "";
  uintptr_t base, end;
  if (tc_shim_module_of((uintptr_t)function, path, sizeof path, &base, &end) && *path)
    (void)dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
}

// What a module or one of its dependences defines. The module itself may go as it would without the
// shim.
static void *find_in_module(const char *path, const char *name) {
  void *handle = *path ? dlopen(path, RTLD_NOLOAD | RTLD_LAZY) : NULL;
  void *found = handle ? dlsym(handle, name) : NULL;
  if (found && is_ours(found)) found = NULL;
  if (found) keep_provider(found);
  if (handle && real_dlclose) real_dlclose(handle);
  return found;
}

typedef struct module_list {
  char *text;  // paths, each with its 0
  size_t n, cap;
} module_list;

static int list_module(struct dl_phdr_info *info, size_t size, void *list) {
  module_list *l = list;
  size_t bytes = info->dlpi_name ? strlen(info->dlpi_name) + 1 : 1;
  (void)size;
  if (bytes > 1 && bytes <= l->cap - l->n) {
    memcpy(l->text + l->n, info->dlpi_name, bytes);
    l->n += bytes;
  }
  return 0;
}

// Names come first and are opened later, since no module may be opened during the walk.
static void *find_in_any(const char *name) {
  module_list list = {.cap = 1 << 20};
  void *found = NULL;
  list.text = tc_shim_memory(list.cap);
  if (!list.text) return NULL;
  dl_iterate_phdr(list_module, &list);
  for (size_t at = 0; at < list.n && !found; at += strlen(list.text + at) + 1)
    found = find_in_module(list.text + at, name);
  munmap(list.text, list.cap);
  return found;
}

// In the library that TC_BLAS_LIB names. Threads that come first at once open it twice.
static void *find_in_forced(const char *library, const char *name) {
  static void *handle;
  static bool failed;
  void *h = __atomic_load_n(&handle, __ATOMIC_ACQUIRE);
  if (!h && !__atomic_load_n(&failed, __ATOMIC_RELAXED)) {
    h = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (h)
      __atomic_store_n(&handle, h, __ATOMIC_RELEASE);
    else if (!__atomic_exchange_n(&failed, true, __ATOMIC_RELAXED))
      tc_shim_say("TC_BLAS_LIB cannot be opened, and is passed over: %s", dlerror());
  }
  void *found = h ? dlsym(h, name) : NULL;
  return found && !is_ours(found) ? found : NULL;
}

static uint8_t provider_bits(const char *path) {
  const char *name = strrchr(path, '/');
  name = name ? name + 1 : path;
  for (size_t i = 0; i < sizeof providers / sizeof *providers; i++)
    if (fnmatch(providers[i].pattern, name, 0) == 0) return providers[i].bits;
  return 0;
}

// As the dynamic linker ends a program that calls what nobody defines: without the shim it would
// have.
static void end_undefined(const char *module, const char *name) {
  fprintf(
      stderr,
      "%s: symbol lookup error: %s: undefined symbol: %s (of BLAS; the preloaded tc-shim found no library with it)\n",
      program_invocation_name, *module ? module : program_invocation_name, name);
  _exit(127);
}

// ---- Callees ----

static bool has_local_callees, has_left_out;

bool tc_shim_has_left_out(void) {
  return __atomic_load_n(&has_left_out, __ATOMIC_RELAXED);
}

static tc_shim_callee *newest;  // of all callees, those that were forgotten among them

static void list_callee(tc_shim_callee *c) {
  tc_shim_slot *slot = &tc_shim_slots[c->entry];
  tc_shim_callee *first = __atomic_load_n(&slot->callees, __ATOMIC_ACQUIRE);
  do __atomic_store_n(&c->next, first, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&slot->callees, &first, c, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
}

// One that was forgotten and says the same is listed again: nothing that a thread may still read is
// written over. NULL: no memory.
static const tc_shim_callee *add_callee(const tc_shim_callee *like) {
  for (tc_shim_callee *c = __atomic_load_n(&newest, __ATOMIC_ACQUIRE); c; c = c->older) {
    if (c->entry != like->entry || c->from != like->from || c->bytes != like->bytes || c->real != like->real ||
        c->bits != like->bits || c->left_alone != like->left_alone ||
        __atomic_exchange_n(&c->is_listed, true, __ATOMIC_ACQ_REL))
      continue;
    list_callee(c);
    return c;
  }
  tc_shim_callee *c = callee_memory();
  if (!c) return NULL;
  *c = *like;
  c->is_listed = true;
  c->older = __atomic_load_n(&newest, __ATOMIC_ACQUIRE);
  while (!__atomic_compare_exchange_n(&newest, &c->older, c, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) continue;
  list_callee(c);
  return c;
}

const tc_shim_callee *tc_shim_find(uint32_t entry, uintptr_t caller) {
  const tc_shim_options *o = tc_shim_read_options();
  const char *name = tc_shim_entry_name(entry);
  char path[4096] = "", provider[4096] = "";
  uintptr_t from, end, base;
  bool for_all = true;
  int kept = errno;
  if (!real_dlclose) real_dlclose = (int (*)(void *))dlsym(RTLD_NEXT, "dlclose");
  bool is_in_module = tc_shim_module_of(caller, path, sizeof path, &from, &end);
  void *real = o->library ? find_in_forced(o->library, name) : NULL;
  if (!real) real = dlsym(RTLD_NEXT, name);
  if (!real) {
    for_all = false;
    if (is_in_module) real = find_in_module(path, name);
    if (!real) real = find_in_any(name);
  }
  if (!real) end_undefined(path, name);
  if (for_all) keep_provider(real);
  tc_shim_module_of((uintptr_t)real, provider, sizeof provider, &base, &base);
  const char *slash = strrchr(path, '/');
  uint8_t bits = tc_shim_entries[entry].bits;
  bool by_module = o->only || o->except;
  tc_shim_callee c = {
      .entry = entry, .bytes = UINTPTR_MAX, .real = real, .bits = bits ? bits : provider_bits(provider)};
  const char *module = *path ? slash ? slash + 1 : path : program_invocation_short_name;
  bool is_left_out = by_module && !tc_shim_is_asked(o, module);
  if (is_left_out) __atomic_store_n(&has_left_out, true, __ATOMIC_RELAXED);
  c.left_alone = !c.bits || is_left_out;
  if (!for_all || by_module) {
    c.from = is_in_module ? from : caller & ~(uintptr_t)4095;  // code that a program made itself: its page
    c.bytes = is_in_module ? end - from : 4096;
    __atomic_store_n(&has_local_callees, true, __ATOMIC_RELAXED);
  }
  const tc_shim_callee *added = add_callee(&c);
  errno = kept;
  if (added) return added;
  static tc_shim_callee spare;  // no memory: as if nothing were known
  spare = c;
  return &spare;
}

// Another module may come to lie where this one did, with another BLAS.
static void forget_callees(void) {
  if (!__atomic_load_n(&has_local_callees, __ATOMIC_RELAXED)) return;
  for (uint32_t i = 0; i < tc_shim_n_entries; i++) {
    if (!__atomic_load_n(&tc_shim_slots[i].callees, __ATOMIC_RELAXED)) continue;
    tc_shim_callee *c = __atomic_exchange_n(&tc_shim_slots[i].callees, NULL, __ATOMIC_ACQ_REL);
    while (c) {
      tc_shim_callee *next = c->next;  // before another thread may list it
      __atomic_store_n(&c->is_listed, false, __ATOMIC_RELEASE);
      c = next;
    }
  }
}

__attribute__((visibility("default"))) int dlclose(void *handle) {
  if (!real_dlclose) real_dlclose = (int (*)(void *))dlsym(RTLD_NEXT, "dlclose");
  forget_callees();
  int rc = real_dlclose(handle);
  forget_callees();
  return rc;
}
