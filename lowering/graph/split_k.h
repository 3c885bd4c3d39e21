// What the passes split_k and split_kv make of matmuls of few elements and many steps of k, and of
// attention of few rows and many keys, for a GPU.
#ifndef TC_LOWERING_GRAPH_SPLIT_K_H
#define TC_LOWERING_GRAPH_SPLIT_K_H

#include "lowering/graph/graph.h"
#include "lowering/kir/index_expr.h"

#define TC_GPU_FEW 8  // rows or columns of a product for which no tile is made (emit/gpu/gemv.c)

// Parts that k is split into, by shape alone; 1: it is whole.
int64_t tc_gpu_parts_of(int64_t batch, int64_t m, int64_t n, int64_t k);

// Of a row of attention that makes parts: attr[3] is 1, heads being outside, and attr[4] how many
// parts; results have them as their first axis, are of the accumulators' type, and are the mix that
// is not divided by the sum of weights, and the greatest score, -inf where none is seen, with that
// sum.
#define TC_ATTENTION_ATTRS 5
#define TC_GPU_KEYS 64  // that every chunk of keys divides

// Keys of each part but the last, of parts that there are no more of.
static inline int64_t tc_gpu_part_keys(int64_t keys, int64_t parts) {
  return tc_ceil_div(tc_ceil_div(keys, parts), TC_GPU_KEYS) * TC_GPU_KEYS;
}

#endif
