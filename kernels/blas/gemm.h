// The product that every direct call ends in. See gemm.c.
// Threads: thread-safe. Owner: none.
#pragma once

#include <stdbool.h>
#include <stddef.h>

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

// Computes a batch. TC_ERR_MEMORY, before anything is written: none for packed operands.
// pre: m and n are not 0.
tc_status tc_blas_gemm_batch(const tc_blas_batch *batch);
// Computes one product that is not small; errors as above.
tc_status tc_blas_gemm_large(tc_type type, const tc_blas_product *product, int max_threads);
// The size of the second-level cache, half of which packed rows of a take.
int64_t tc_blas_l2_bytes(void);
// c = beta * c.
void tc_blas_scale(const tc_blas_product *p, int bytes);

#define TC_BLAS_PACKED_B_BYTES (INT64_C(4) << 20)
#define TC_BLAS_CHUNK_BYTES 2560  // the longest chunk of k: 320 f64, 640 f32
// A product of at most so many multiply-adds, and of such sizes, is done on the caller's thread,
// where its operands lie.
#define TC_BLAS_SMALL_WORK (INT64_C(80) * 80 * 80)
#define TC_BLAS_SMALL_LENGTH 4096

// ---- Arithmetic of blocks ----

static inline int64_t tc_blas_divide_up(int64_t n, int64_t by) {
  return n / by + (n % by != 0);
}

// Returns the length of pieces that n is cut in: equal ones, at most `most`, multiples of `unit`.
static inline int64_t tc_blas_even_pieces(int64_t n, int64_t most, int64_t unit) {
  most = most / unit * unit < unit ? unit : most / unit * unit;
  int64_t pieces = tc_blas_divide_up(n, most);
  return tc_blas_divide_up(tc_blas_divide_up(n, pieces < 1 ? 1 : pieces), unit) * unit;
}

// Packed operands begin at multiples of a cache line.
static inline size_t tc_blas_align_up(int64_t bytes) {
  return ((size_t)bytes + 63) / 64 * 64;
}

static inline const void *tc_blas_element(const void *base, int64_t index, int bytes) {
  return (const char *)base + index * bytes;
}

// ---- Small products ----

static inline bool tc_blas_reads_nothing(const tc_blas_product *p) {
  return p->alpha == 0 || p->k == 0;
}

// Whether tc_blas_run_small does the product.
static inline bool tc_blas_is_small(tc_type type, const tc_blas_kernels *kernels, const tc_blas_product *p) {
  if (tc_blas_reads_nothing(p)) return true;
  if ((type != TC_F32 && type != TC_F64) || p->m > TC_BLAS_SMALL_LENGTH || p->n > TC_BLAS_SMALL_LENGTH) return false;
  int64_t k_most = p->a_row == 1 ? TC_BLAS_CHUNK_BYTES / kernels->bytes : TC_BLAS_DIRECT_K;
  return p->k <= k_most && p->m * p->n * p->k <= TC_BLAS_SMALL_WORK;
}

// It takes no memory and no thread.
static inline void tc_blas_run_small(const tc_blas_kernels *kernels, const tc_blas_product *p) {
  if (tc_blas_reads_nothing(p))
    tc_blas_scale(p, kernels->bytes);
  else
    kernels->direct(p, NULL);
}

// Computes one product.
static inline tc_status tc_blas_gemm(tc_type type, const tc_blas_product *product, int max_threads) {
  const tc_blas_kernels *kernels = tc_blas_kernels_of(type);
  if (!tc_blas_is_small(type, kernels, product)) return tc_blas_gemm_large(type, product, max_threads);
  tc_blas_run_small(kernels, product);
  return TC_OK;
}
