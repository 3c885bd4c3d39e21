// What the passes split_k and split_kv share on a GPU.
// They split matmuls of few elements and a large k, and attention of few rows and many keys.
// Threads: thread-safe, pure.
#pragma once

#include "lowering/graph/graph.h"
#include "lowering/kir/index_expr.h"

#define TC_GPU_FEW 8  // at most so many rows or columns are a gemv (emit/gpu/gemv.c)

// Parts that k is split into, by shape alone; 1: it is whole.
int64_t tc_gpu_parts_of(int64_t batch, int64_t m, int64_t n, int64_t k);

// Attributes of an attention op that makes parts. attr[3] is 1: heads are outside. attr[4] is the
// number of parts, the first axis of its results, which are of the accumulators' type. ATTENTION
// makes the mix of values, not yet divided by the sum of weights. ATTENTION_LSE makes the greatest
// score, -inf where none is seen, and that sum.
#define TC_ATTENTION_ATTRS 5
#define TC_GPU_KEYS 64  // that every chunk of keys divides

// Keys of each part but the last; there may be fewer parts then.
static inline int64_t tc_gpu_part_keys(int64_t keys, int64_t parts) {
  return tc_ceil_div(tc_ceil_div(keys, parts), TC_GPU_KEYS) * TC_GPU_KEYS;
}
