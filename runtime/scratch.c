// See scratch.h.
#include "runtime/scratch.h"

#include <stdint.h>
#include <sys/mman.h>

#include "runtime/arena.h"

#define LINE 64
#define HUGE_PAGE ((size_t)2 << 20)
// Scratch memory of this size or more is in huge pages. Measured: small pages cost a matmul a tenth
// of its speed, because packed operands are read so often.
#define HUGE_SCRATCH ((size_t)256 << 10)

void tc_scratch_free(tc_scratch *s) {
  tc_free(s->base);
  *s = (tc_scratch){0};
}

bool tc_scratch_grow(tc_scratch *s, size_t bytes) {
  tc_scratch_free(s);
  size_t align = bytes >= HUGE_SCRATCH ? HUGE_PAGE : LINE;
  if (bytes > SIZE_MAX - 2 * align) return false;
  bytes = (bytes + align - 1) & ~(align - 1);
  void *base = tc_malloc(bytes + align);
  if (!base) return false;
  *s = (tc_scratch){base, (void *)(((uintptr_t)base + align - 1) & ~(uintptr_t)(align - 1)), bytes};
  if (align == HUGE_PAGE) madvise(s->aligned, bytes, MADV_HUGEPAGE);
  return true;
}
