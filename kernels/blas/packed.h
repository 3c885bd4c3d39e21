// Packed products of one thread, of operands of which a triangle is stored or wanted: what
// symmetric and triangular routines are made of.
// Threads: thread-safe, pure. Owner: none; packed operands lie in the caller's scratch memory.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "kernels/blas/kernels.h"

// A matrix where it lies; strides are in elements, and one of them is 1.
typedef struct tc_blas_view {
  void *at;  // not written where it is an operand
  int64_t row, col;
} tc_blas_view;

typedef enum tc_blas_part { TC_BLAS_ALL, TC_BLAS_LOWER, TC_BLAS_UPPER } tc_blas_part;
typedef enum tc_blas_symmetric { TC_BLAS_NEITHER, TC_BLAS_A, TC_BLAS_B } tc_blas_symmetric;

// c = alpha * a * b + beta * c.
typedef struct tc_blas_packed {
  const tc_blas_kernels *kernels;
  tc_blas_product product;
  // Its operands are added: c = alpha * (a * b + second's a * b) + beta * c. NULL: none. It has
  // the sizes of product.
  const tc_blas_product *second;
  tc_blas_symmetric symmetric;  // this operand is symmetric; its lower triangle alone is read
  // where in the symmetric operand the product's lines begin: rows of a, columns of b
  int64_t first_line;
  tc_blas_part part;  // this triangle of c alone is read and written
  int64_t diagonal;  // element (j + diagonal, j) of c lies on the triangle's diagonal
  int64_t mc, nc, kc;
} tc_blas_packed;

// The product of views; c's strides decide which operand comes first.
tc_blas_product tc_blas_product_of(int64_t m, int64_t n, int64_t k, double alpha, tc_blas_view a, tc_blas_view b,
                                   double beta, tc_blas_view c);
// An element's place.
tc_blas_view tc_blas_view_at(tc_blas_view x, int64_t i, int64_t j, int bytes);
tc_blas_view tc_blas_view_transposed(tc_blas_view x);

// Chooses the sizes of blocks for products of at most these sizes; returns the bytes of scratch
// memory that tc_blas_packed_run needs.
// Chunks of k follow from k alone, as in gemm.c, and do not depend on threads.
size_t tc_blas_packed_choose(tc_blas_packed *blocks);
// pre: scratch is aligned to 64 bytes.
void tc_blas_packed_run(const tc_blas_packed *blocks, void *scratch);
// Runs a plain product: without packing if it is small.
void tc_blas_packed_multiply(const tc_blas_kernels *kernels, const tc_blas_product *p, void *scratch);
// The bytes of scratch memory that tc_blas_packed_multiply needs for products up to these sizes.
size_t tc_blas_packed_bytes(const tc_blas_kernels *kernels, int64_t m, int64_t n, int64_t k);

// Rows of a tile are 2 or 3 vectors.
static inline int64_t tc_blas_lanes(const tc_blas_kernels *kernels) {
  return kernels->mr % 3 == 0 ? kernels->mr / 3 : kernels->mr / 2;
}
