// The kernels of triangular solves and products: one table for each element type and instruction
// set, beside those of kernels.h.
// Threads: thread-safe, pure. Owner: static tables.
#pragma once

#include <stdbool.h>

#include "kernels/blas/kernels.h"

// A packed triangle of n unknowns, in blocks of nr.
typedef struct tc_blas_triangle {
  int64_t n;
  bool is_upper, is_unit;  // is_unit: the diagonal is ones, and is not read
  bool is_product;  // true: x = alpha * a * x; false: x = alpha * (a \ x)
  bool divides;  // false: the diagonal is stored as reciprocals
  double alpha;
  void *sides;  // [block][n][nr]: what a block's rows have beside its corner; n * n rounded up to blocks
  void *corners;  // [block][nr][nr]: rows, with the diagonal; n * nr rounded up to blocks
} tc_blas_triangle;

typedef struct tc_blas_triangle_kernels {
  // Packs a triangle into t's sides and corners. One of the strides is 1.
  void (*pack)(const tc_blas_triangle *t, const void *a, int64_t row, int64_t col);
  bool (*has_reciprocals)(const void *diagonal, int64_t step, int64_t n);
  // Runs `count` right-hand sides in place: unknown i of side j stands at i * row + j * col. One of
  // the strides is 1. panel: aligned to 64 bytes, mr elements for each unknown, rounded up to
  // blocks.
  void (*run)(const tc_blas_triangle *t, void *b, int64_t row, int64_t col, int64_t count, void *panel);
} tc_blas_triangle_kernels;

#define TC_BLAS_SET(isa) extern const tc_blas_triangle_kernels tc_blas_triangle_f32_##isa, tc_blas_triangle_f64_##isa;
TC_BLAS_EACH_SET(TC_BLAS_SET)
#undef TC_BLAS_SET

// The table of the set that `kernels` belongs to.
static inline const tc_blas_triangle_kernels *tc_blas_triangle_kernels_of(const tc_blas_kernels *kernels) {
  return TC_BLAS_TABLE_OF(kernels, triangle);
}
