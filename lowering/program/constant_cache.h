// Prepared values: what kernels made of contents that stay the same from run to run, such as a
// parameter transposed or packed, kept for the next run.
//
// A value is found by the kernel that made it, its scalars, and the stamps of what it read
// (device/buffer.h); a value made of prepared ones reads their stamps in turn. Plans share values:
// another batch size finds the same. A value goes when a content it was made of goes or is written
// over, at tc_trim, or when memory is short; a run that uses it holds it until its end. A run that
// has no room for all that it reads does without (prepare.c).
// Always: content with stamp 0 is no key, so what others may write is never kept. Owns a reference
// to each buffer and kernel. Threads: thread-safe.
#ifndef TC_LOWERING_PROGRAM_CONSTANT_CACHE_H
#define TC_LOWERING_PROGRAM_CONSTANT_CACHE_H

#include "device/buffer.h"
#include "lowering/jit/kernel_cache.h"

typedef struct tc_constant_key {
  tc_kernel *kernel;
  int64_t extent;  // units of the kernel's outermost range
  const uint64_t *num;  // its scalars
  uint32_t n_num;
  const uint64_t *stamp;  // of what it reads, in its order
  uint32_t n_stamp;
} tc_constant_key;

// The n_out results kept under the key, retained; false if there are none.
bool tc_constant_cache_find(const tc_constant_key *key, uint32_t n_out, tc_buffer **out);
// Keeps results under the key, in the place of those with other scalars. in: the buffers with the
// key's stamps. Without memory nothing is kept.
void tc_constant_cache_keep(const tc_constant_key *key, uint32_t n_out, tc_buffer *const *out, tc_buffer *const *in);
void tc_constant_cache_clear(void);

#endif
