// Products of few elements and many steps of k, split for a GPU. Threads: thread-compatible.
#ifndef TC_LOWERING_GPU_SPLIT_H
#define TC_LOWERING_GPU_SPLIT_H

#include "lowering/graph.h"

#define TC_GPU_FEW 8  // rows or columns of a product for which no tile is made (product_narrow.c)

// Parts that k is split into, by shape alone; 1: it is whole.
int64_t tc_gpu_parts_of(int64_t batch, int64_t m, int64_t n, int64_t k);
// Makes products of the parts of k, and their sum, of the products that should be split. False without memory.
bool tc_gpu_split_products(tc_graph *g);

#endif
