// The constant cache: results of kernels whose operands do not change between runs, such as a
// parameter transposed or packed. They are reused by later runs.
// An entry is found by its kernel, its scalars, and the stamps of its operands (device/buffer.h). A
// constant derived from cached ones uses their stamps in turn. Plans share entries: another batch
// size finds the same ones. An entry is evicted when an operand is freed or overwritten, at
// tc_trim, or when memory is short. A run holds the entries it uses until its end. A run without
// memory for all of them does without (run.c).
// Invariants: content with stamp 0 is no key, so values that others may write are never cached.
// Threads: thread-safe. Owner: owns a reference to each buffer and kernel.
#pragma once

#include "device/buffer.h"
#include "lowering/jit/kernel_cache.h"

typedef struct tc_constant_key {
  tc_kernel *kernel;
  int64_t extent;  // units of the kernel's outermost range
  const uint64_t *num;  // the kernel's scalars
  uint32_t n_num;
  const uint64_t *stamp;  // stamps of its operands, in the kernel's order
  uint32_t n_stamp;
} tc_constant_key;

// Retains the n_out results cached under the key in out; false if there are none.
bool tc_constant_cache_find(const tc_constant_key *key, uint32_t n_out, tc_buffer **out);
// Caches results under the key, replacing those with other scalars. in: the buffers that have the
// key's stamps. Without memory nothing is cached.
void tc_constant_cache_keep(const tc_constant_key *key, uint32_t n_out, tc_buffer *const *out, tc_buffer *const *in);
void tc_constant_cache_clear(void);
