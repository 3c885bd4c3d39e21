// Direct products: matrices where they lie, written in place, now. No tensor, trace or plan takes
// part, and nothing is compiled.
//
//   tc_gemm_call call = {.type = TC_F64, .m = m, .n = n, .k = k, .alpha = 1, .a = a, .lda = m,
//                        .b = b, .ldb = k, .beta = 0, .c = c, .ldc = m};
//   if (tc_gemm(&call) != TC_OK) fprintf(stderr, "%s\n", tc_last_error()->message);
//
// A field that is not named is zero, the usual choice: column-major, not transposed, one product,
// as many threads as the process may use.
// Threads: thread-safe; any number of threads may call at once, also inside OpenMP regions.
// Source: the BLAS reference (netlib), whose rules for NaN these are.
#ifndef TC_BLAS_H
#define TC_BLAS_H

#include <tc/tc.h>

#ifdef __cplusplus
extern "C" {
#endif

// Where element (i, j) of a matrix stands: at i + j * ld, or at i * ld + j.
typedef enum tc_blas_order { TC_COL_MAJOR = 0, TC_ROW_MAJOR = 1 } tc_blas_order;
typedef enum tc_blas_trans { TC_NO_TRANS = 0, TC_TRANS = 1 } tc_blas_trans;

// Many products of equal sizes: product i has its matrices stride_a, stride_b and stride_c elements
// after those of product i - 1. A list, one pointer a product, takes the place of a pointer and its
// stride; NULL: there is no list.
typedef struct tc_gemm_batch {
  int64_t count;
  int64_t stride_a, stride_b, stride_c;
  const void *const *a_list;
  const void *const *b_list;
  void *const *c_list;
} tc_gemm_batch;

// c = alpha * op(a) * op(b) + beta * c; op(a) is [m, k], op(b) is [k, n], c is [m, n].
typedef struct tc_gemm_call {
  tc_type type;  // of a and b: TC_F32 or TC_F64, and c has it too; or TC_F16 or TC_BF16, and c is TC_F32
  tc_blas_order order;  // of all three
  tc_blas_trans transa, transb;
  int64_t m, n, k;
  double alpha;  // rounded to the type of c, as beta is
  const void *a;
  int64_t lda;  // in elements; at least the length of a column, in row-major order of a row, and 1
  const void *b;
  int64_t ldb;
  double beta;
  void *c;
  int64_t ldc;
  const tc_gemm_batch *batch;  // NULL: one product
  int max_threads;  // 0: as many as tc_num_threads says
} tc_gemm_call;

// Computes a product, or a batch of them. Blocks.
// beta 0: c is not read, so a NaN in it is overwritten. alpha 0 or k 0: a and b are not read and
// may be NULL. m, n or count 0: nothing is done. Elements between columns (rows) are not touched.
// The order in which an element is summed depends on k alone. So its bits do not depend on threads,
// m, n, transpositions, order or leading dimensions; on whether the processor has fused
// multiply-add they do.
// c may not overlap a or b, nor another c of the batch. Two matrices overlap if their ranges of
// bytes do, from the first element to the last one. Blocks of one matrix do not, if they have no
// row in common: their leading dimensions are equally many bytes. A batch by lists is looked at
// product by product.
// Rounding is to nearest. Small products follow the thread's own mode and raise its exception
// flags, as arithmetic does. The mode of the caller never changes.
// TC_ERR_ARG: a negative size, a small leading dimension, NULL, an overlap, or matrices beyond the
// address space. TC_ERR_DTYPE: another type. TC_ERR_MEMORY: none for packed operands. After an
// error c is as it was.
TC_MUST_USE TC_API tc_status tc_gemm(const tc_gemm_call *call);

// ---- Level 3: triangular and symmetric matrices ----

typedef enum tc_blas_side { TC_LEFT = 0, TC_RIGHT = 1 } tc_blas_side;
typedef enum tc_blas_uplo { TC_LOWER = 0, TC_UPPER = 1 } tc_blas_uplo;
typedef enum tc_blas_diag { TC_NON_UNIT = 0, TC_UNIT = 1 } tc_blas_diag;

// What a routine does not name it does not read.
//
//   routine   computes                                            a         b         c
//   tc_trsm   c = alpha * op(a)^-1 * c, right: c * op(a)^-1       triangle            [m, n]
//   tc_trmm   c = alpha * op(a) * c,    right: c * op(a)          triangle            [m, n]
//   tc_symm   c = alpha * a * b + beta * c, right: b * a          triangle  [m, n]    [m, n]
//   tc_syrk   c = alpha * op(a) * op(a)^T + beta * c              [n, k]              triangle
//   tc_syr2k  c = alpha * op(a) * op(b)^T + alpha * op(b) * op(a)^T + beta * c, op(b) [n, k]
//
// trsm and trmm work in c, which is BLAS's b. A triangle has as many rows as m says on the left, n
// on the right, and n in syrk and syr2k.
typedef struct tc_blas3_call {
  tc_type type;         // of all matrices: TC_F32 or TC_F64
  tc_blas_order order;  // of all matrices
  tc_blas_side side;    // where a stands: trsm, trmm, symm
  tc_blas_uplo uplo;    // the triangle that is read of a, in syrk and syr2k of c; the other one is not touched
  tc_blas_trans trans;  // op(a): trsm, trmm, and syrk and syr2k, where a transposed a (and b) is [k, n]
  tc_blas_diag diag;    // trsm, trmm: TC_UNIT, the diagonal is ones and is not read
  int64_t m, n;         // m: not of syrk and syr2k
  int64_t k;            // syrk, syr2k
  double alpha;         // rounded to the type, as beta is
  const void *a;
  int64_t lda;  // in elements; at least the length of a column as stored, in row-major order of a row, and 1
  const void *b;
  int64_t ldb;
  double beta;  // symm, syrk, syr2k
  void *c;
  int64_t ldc;
  int max_threads;  // 0: as many as tc_num_threads says
} tc_blas3_call;

// Compute in place, as tc_gemm does, and block. The other triangle of a, or of c, and what lies
// between columns (rows) is neither read nor written.
// beta 0: c is not read. alpha 0, in syrk and syr2k also k 0: a and b are not read and may be NULL;
// c becomes beta * c, in trsm and trmm 0. A size of c that is 0: nothing is done.
// trsm substitutes; no block of a is inverted. Diagonal elements are multiplied by as reciprocals
// where all of a block have normal ones, else divided by. A zero on the diagonal gives infinities
// and NaN, not an error. Zeros in c hide no NaN of a.
// The order in which an element is summed depends on the triangle's size, or k, alone; so its bits do
// not depend on threads.
// c may not overlap a or b: their ranges of bytes, from the first element to the last one of the
// whole square or rectangle. Blocks of one matrix without a common row (in row-major order column)
// do not overlap, as in tc_gemm.
// TC_ERR_ARG: a negative size, a small leading dimension, NULL, an overlap, or matrices beyond the
// address space. TC_ERR_DTYPE: another type. TC_ERR_MEMORY: none for packed operands. After an
// error c is as it was.
TC_MUST_USE TC_API tc_status tc_trsm(const tc_blas3_call *call);
TC_MUST_USE TC_API tc_status tc_trmm(const tc_blas3_call *call);
TC_MUST_USE TC_API tc_status tc_symm(const tc_blas3_call *call);
TC_MUST_USE TC_API tc_status tc_syrk(const tc_blas3_call *call);
TC_MUST_USE TC_API tc_status tc_syr2k(const tc_blas3_call *call);

#ifdef __cplusplus
}
#endif

#endif
