// The product that every direct call ends in. See gemm.c.
// Threads: thread-safe. Owner: none.
#pragma once

#include "kernels/blas/kernels.h"

// Products of equal sizes, checked. The first one is `product`; see tc_gemm_call for the rest.
typedef struct tc_blas_batch {
  tc_type type;
  tc_blas_product product;
  int max_threads;  // 0: the process' setting
  int64_t count;  // at least 1
  int64_t stride_a, stride_b, stride_c;  // in elements
  const void *const *a_list, *const *b_list;
  void *const *c_list;
} tc_blas_batch;

// Computes the batch. TC_ERR_MEMORY, before anything is written: none for packed operands.
tc_status tc_blas_gemm(const tc_blas_batch *batch);
