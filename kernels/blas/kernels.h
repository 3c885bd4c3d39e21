// The kernels that direct products are made of: one table for each element type and instruction
// set.
//
// Matrices are column-major here: c has unit stride along m. a and b are given by two strides, one
// of which is 1.
// Invariants: an element of c is one chain over k from zero, then alpha * sum + beta * c. So every
// kernel of a set gives the same bits, whatever the tile that the element lies in.
// Threads: thread-safe, pure. Owner: static tables.
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <tc/tc.h>

// The most rows of a tile, and the most columns.
#define TC_BLAS_MR_MOST 48
#define TC_BLAS_NR_MOST 8
// The longest sum that `direct` takes where it transposes a on its stack.
#define TC_BLAS_DIRECT_K 64

// c = alpha * a * b + beta * c. Strides are in elements.
typedef struct tc_blas_product {
  int64_t m, n, k;
  double alpha, beta;  // beta 0: c is not read
  const void *a;
  int64_t a_row, a_col;
  const void *b;
  int64_t b_row, b_col;
  void *c;
  int64_t ldc;
} tc_blas_product;

typedef struct tc_blas_kernels {
  int bytes;  // of an element
  int mr, nr;  // rows and columns of a tile
  // Packs m x k of a in panels of mr rows: an element stands at [panel][k][row]. Rows beyond m are
  // zero up to a whole vector. out is aligned to 64 bytes.
  void (*pack_a)(void *out, const void *a, int64_t row, int64_t col, int64_t m, int64_t k);
  // Packs k x n of b in panels of nr columns: an element stands at [panel][k][column]. Columns
  // beyond n, and out, are as for pack_a.
  void (*pack_b)(void *out, const void *b, int64_t row, int64_t col, int64_t k, int64_t n);
  // The product of packed a and b; only c, ldc, m, n, k, alpha and beta of p are read.
  void (*packed)(const tc_blas_product *p, const void *a, const void *b);
  // The product where a and b lie. panel: memory for mr x k elements, aligned to 64 bytes. It is
  // needed where a_row is not 1 and k is greater than TC_BLAS_DIRECT_K.
  void (*direct)(const tc_blas_product *p, void *panel);
} tc_blas_kernels;

// Expands X for each instruction set that has kernels. TC_BLAS_TABLE_OF: of tables called
// tc_blas_<name>_<type>_<isa>, the one of the set and type of `kernels`.
#if defined(__x86_64__)
#define TC_BLAS_EACH_SET(X) X(baseline) X(avx2) X(avx512)
#define TC_BLAS_TABLE_OF(kernels, name) \
  ((kernels) == &tc_blas_f64_avx512   ? &tc_blas_##name##_f64_avx512 \
   : (kernels) == &tc_blas_f32_avx512 ? &tc_blas_##name##_f32_avx512 \
   : (kernels) == &tc_blas_f64_avx2   ? &tc_blas_##name##_f64_avx2 \
   : (kernels) == &tc_blas_f32_avx2   ? &tc_blas_##name##_f32_avx2 \
   : (kernels)->bytes == 8            ? &tc_blas_##name##_f64_baseline \
                                      : &tc_blas_##name##_f32_baseline)
#else
#define TC_BLAS_EACH_SET(X) X(baseline)
#define TC_BLAS_TABLE_OF(kernels, name) \
  ((kernels)->bytes == 8 ? &tc_blas_##name##_f64_baseline : &tc_blas_##name##_f32_baseline)
#endif

#define TC_BLAS_SET(isa) extern const tc_blas_kernels tc_blas_f32_##isa, tc_blas_f64_##isa;
TC_BLAS_EACH_SET(TC_BLAS_SET)
#undef TC_BLAS_SET

// The tables of an instruction set.
typedef struct tc_blas_set {
  const tc_blas_kernels *f32, *f64;
} tc_blas_set;

// The set of tc_blas_choose; NULL: not chosen yet.
extern _Atomic(const tc_blas_set *) tc_blas_chosen;
// Chooses this machine's widest instruction set, or at most the one that TC_ISA names.
const tc_blas_set *tc_blas_choose(void);

// type: TC_F64; any other has the kernels of f32.
static inline const tc_blas_kernels *tc_blas_kernels_of(tc_type type) {
  const tc_blas_set *set = atomic_load_explicit(&tc_blas_chosen, memory_order_relaxed);
  if (__builtin_expect(!set, 0)) set = tc_blas_choose();
  return type == TC_F64 ? set->f64 : set->f32;
}
