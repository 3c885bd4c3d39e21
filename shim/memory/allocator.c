// malloc and its kin: large ones are blocks, the others are the C library's.
// In: what programs ask. Out: memory as the C library's rules have it. Invariants: whatever was
// taken here or there is given back there. Names are looked up at the first call alone: the dynamic
// linker may call at any time. Threads: any.
#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/memory/block.h"
#include "shim/memory/guard.h"
#include "shim/memory/thread.h"

#define EXPORT __attribute__((visibility("default")))

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

// The allocator behind: the C library's, or one that the program is linked to, such as jemalloc.
// That one has functions of its own for its memory, so that no block is taken beside it.
static struct {
  void *(*malloc)(size_t), *(*calloc)(size_t, size_t), *(*realloc)(void *, size_t), *(*memalign)(size_t, size_t);
  void (*free)(void *);
  bool is_found, is_other;
} next = {__libc_malloc, __libc_calloc, __libc_realloc, __libc_memalign, __libc_free, false, false};

static void find_next(void) {
  next.is_found = true;
  Dl_info libc, found;
  void *f = tc_shim_next_function("malloc");
  if (!f || !dladdr(f, &found) || !dladdr((const void *)(uintptr_t)gnu_get_libc_version, &libc) ||
      found.dli_fbase == libc.dli_fbase)
    return;
  next.is_other = true;
  next.malloc = (__typeof__(next.malloc))f;
  next.calloc = (__typeof__(next.calloc))tc_shim_next_function("calloc");
  next.realloc = (__typeof__(next.realloc))tc_shim_next_function("realloc");
  next.memalign = (__typeof__(next.memalign))tc_shim_next_function("memalign");
  next.free = (__typeof__(next.free))tc_shim_next_function("free");
}

bool tc_shim_allocator_is_other(void) {
  return next.is_other;
}

// The first call comes before the program's second thread, and finds who is behind.
static void *take_block(size_t bytes) {
  if (!next.is_found) find_next();
  return bytes >= TC_BLOCK_BYTES && !next.is_other ? tc_shim_block_take(bytes) : NULL;
}

EXPORT void *malloc(size_t bytes) {
  void *p = take_block(bytes);
  return p ? p : next.malloc(bytes);
}

EXPORT void *calloc(size_t n, size_t each) {
  size_t bytes;
  void *p = take_block(__builtin_mul_overflow(n, each, &bytes) ? 0 : bytes);
  return p ? p : next.calloc(n, each);
}

// free keeps errno.
static void free_block(tc_shim_block *b) {
  tc_shim_drop(b);
  tc_shim_block_give(b);
}

// The block that begins there. What the C library gave never lies in one.
static tc_shim_block *block_of(const void *p) {
  return ((uintptr_t)p & (TC_HUGE_BYTES - 1)) == 0 && p ? tc_shim_block_find(p) : NULL;
}

EXPORT void free(void *p) {
  tc_shim_block *b = block_of(p);
  if (b)
    free_block(b);
  else
    next.free(p);
}

EXPORT void cfree(void *p) {
  free(p);
}

EXPORT void *realloc(void *p, size_t bytes) {
  tc_shim_block *b = block_of(p);
  if (!p) return malloc(bytes);
  if (!b && (bytes < TC_BLOCK_BYTES || next.is_other)) return next.realloc(p, bytes);
  if (!bytes) return free(p), NULL;
  if (b && bytes >= TC_BLOCK_BYTES) {
    tc_shim_settle_range(p, b->bytes, true);
    void *moved = b->guard == TC_GUARD_NONE && !b->value ? tc_shim_block_resize(b, bytes) : NULL;
    if (moved) return moved;
  }
  size_t old = b ? b->asked : malloc_usable_size(p);
  void *fresh = malloc(bytes);
  if (!fresh) return NULL;
  memcpy(fresh, p, old < bytes ? old : bytes);
  free(p);
  return fresh;
}

EXPORT void *reallocarray(void *p, size_t n, size_t each) {
  size_t bytes;
  if (!__builtin_mul_overflow(n, each, &bytes)) return realloc(p, bytes);
  errno = ENOMEM;
  return NULL;
}

EXPORT void *memalign(size_t align, size_t bytes) {
  void *p = take_block(align <= TC_HUGE_BYTES ? bytes : 0);
  return p ? p : next.memalign(align, bytes);
}

EXPORT void *aligned_alloc(size_t align, size_t bytes) {
  return memalign(align, bytes);
}

EXPORT int posix_memalign(void **out, size_t align, size_t bytes) {
  if (align % sizeof(void *) != 0 || align == 0 || (align & (align - 1)) != 0) return EINVAL;
  int kept = errno;
  void *p = memalign(align, bytes);
  errno = kept;
  if (!p) return ENOMEM;
  *out = p;
  return 0;
}

EXPORT void *valloc(size_t bytes) {
  return memalign(4096, bytes);
}

EXPORT void *pvalloc(size_t bytes) {
  return memalign(4096, bytes > PTRDIFF_MAX ? bytes : (bytes + 4095) & ~(size_t)4095);
}

// Exactly what was asked, so that whole blocks are what programs think they are.
EXPORT size_t malloc_usable_size(void *p) {
  static size_t (*real)(void *);
  tc_shim_block *b = block_of(p);
  if (b) return b->asked;
  if (!p) return 0;
  if (!real) real = (size_t (*)(void *))tc_shim_next_function("malloc_usable_size");
  return real(p);
}
