// malloc and its kin: large ones are blocks, the others are the C library's.
// In: what programs ask. Out: memory as the C library's rules have it. Invariants: whatever was
// taken here or there is given back there; nothing is looked up, so that the dynamic linker may
// call at any time. Threads: any.
#include <errno.h>
#include <malloc.h>
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

EXPORT void *malloc(size_t bytes) {
  void *p = bytes >= TC_BLOCK_BYTES ? tc_shim_block_take(bytes) : NULL;
  return p ? p : __libc_malloc(bytes);
}

EXPORT void *calloc(size_t n, size_t each) {
  size_t bytes;
  if (!__builtin_mul_overflow(n, each, &bytes) && bytes >= TC_BLOCK_BYTES) {
    void *p = tc_shim_block_take(bytes);
    if (p) return p;
  }
  return __libc_calloc(n, each);
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
    __libc_free(p);
}

EXPORT void cfree(void *p) {
  free(p);
}

EXPORT void *realloc(void *p, size_t bytes) {
  tc_shim_block *b = block_of(p);
  if (!p) return malloc(bytes);
  if (!b && bytes < TC_BLOCK_BYTES) return __libc_realloc(p, bytes);
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
  void *p = bytes >= TC_BLOCK_BYTES && align <= TC_HUGE_BYTES ? tc_shim_block_take(bytes) : NULL;
  return p ? p : __libc_memalign(align, bytes);
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
  return memalign(4096, (bytes + 4095) & ~(size_t)4095);
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
