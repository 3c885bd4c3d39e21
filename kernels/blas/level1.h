// The kernels of levels 1 and 2: one table for each element type and instruction set, beside those
// of kernels.h. Vectors begin at their first element in the order of the call; increments may be
// negative or 0.
// Threads: thread-safe, pure. Owner: static tables.
#pragma once

#include <stdbool.h>

#include "kernels/blas/triangles.h"

typedef struct tc_blas_vector_kernels {
  void (*axpy)(int64_t n, double alpha, const void *x, int64_t incx, void *y, int64_t incy);
  void (*copy)(int64_t n, const void *x, int64_t incx, void *y, int64_t incy);
  void (*swap)(int64_t n, void *x, int64_t incx, void *y, int64_t incy);
  void (*scal)(int64_t n, double alpha, void *x, int64_t incx);
  double (*dot)(int64_t n, const void *x, int64_t incx, const void *y, int64_t incy);
  double (*asum)(int64_t n, const void *x, int64_t incx);
  double (*nrm2)(int64_t n, const void *x, int64_t incx);
  int64_t (*iamax)(int64_t n, const void *x, int64_t incx);
  // y = alpha * a * x + beta * y, of columns of unit stride; transposed: a^T.
  void (*gemv)(bool is_trans, int64_t m, int64_t n, double alpha, const void *a, int64_t lda, const void *x,
               int64_t incx, double beta, void *y, int64_t incy);
  // a = a + alpha * x * y^T.
  void (*ger)(int64_t m, int64_t n, double alpha, const void *x, int64_t incx, const void *y, int64_t incy, void *a,
              int64_t lda);
  // Solves for, or multiplies, one right-hand side in place, as t says; t holds nothing packed.
  void (*triangle)(const tc_blas_triangle *t, const void *a, int64_t row, int64_t col, void *x, int64_t inc);
} tc_blas_vector_kernels;

#define TC_BLAS_SET(isa) extern const tc_blas_vector_kernels tc_blas_vector_f32_##isa, tc_blas_vector_f64_##isa;
TC_BLAS_EACH_SET(TC_BLAS_SET)
#undef TC_BLAS_SET

// type: TC_F64; any other has the kernels of f32.
static inline const tc_blas_vector_kernels *tc_blas_vector_kernels_of(tc_type type) {
  const tc_blas_kernels *kernels = tc_blas_kernels_of(type);
  return TC_BLAS_TABLE_OF(kernels, vector);
}
