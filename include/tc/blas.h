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

// How a matrix lies; ld is its leading dimension.
typedef enum tc_blas_order {
  TC_COL_MAJOR = 0,  // element (i, j) stands at i + j * ld
  TC_ROW_MAJOR = 1,  // at i * ld + j
} tc_blas_order;
// What is multiplied.
typedef enum tc_blas_trans {
  TC_NO_TRANS = 0,  // the matrix
  TC_TRANS = 1,  // its transpose
} tc_blas_trans;

// Many products of equal sizes. A list has one pointer a product and takes the place of a pointer
// of the call and its stride; NULL: there is no list.
typedef struct tc_gemm_batch {
  int64_t count;  // how many
  int64_t stride_a;  // elements from a of one product to a of the next; may be 0 or negative
  int64_t stride_b;  // the same of b
  int64_t stride_c;  // the same of c; not 0
  const void *const *a_list;  // each a
  const void *const *b_list;  // each b
  void *const *c_list;  // each c
} tc_gemm_batch;

// c = alpha * op(a) * op(b) + beta * c.
typedef struct tc_gemm_call {
  tc_type type;  // of a and b: TC_F32 or TC_F64, and c has it too; or TC_F16 or TC_BF16, and c is TC_F32
  tc_blas_order order;  // of all three
  tc_blas_trans transa;  // op(a)
  tc_blas_trans transb;  // op(b)
  int64_t m;  // rows of op(a) and c
  int64_t n;  // columns of op(b) and c
  int64_t k;  // columns of op(a), rows of op(b)
  double alpha;  // rounded to the type of c
  const void *a;  // [m, k], or [k, m] if it is transposed
  int64_t lda;  // in elements; at least the length of a column, in row-major order of a row, and 1
  const void *b;  // [k, n], or [n, k] if it is transposed
  int64_t ldb;  // as lda
  double beta;  // rounded to the type of c
  void *c;  // [m, n]
  int64_t ldc;  // as lda
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
// row in common: their leading dimensions are equally many bytes. Nor do matrices of a batch of
// equal strides in bytes, if each has a place of its own in one stride. A batch by lists is looked
// at product by product.
// Rounding is to nearest. Small products follow the thread's own mode and raise its exception
// flags, as arithmetic does. The mode of the caller never changes.
// TC_ERR_ARG: a negative size, a small leading dimension, NULL, an overlap, or matrices beyond the
// address space. TC_ERR_DTYPE: another type. TC_ERR_MEMORY: none for packed operands. After an
// error c is as it was.
TC_API tc_status tc_gemm(const tc_gemm_call *call) TC_MUST_USE;

// ---- Level 3: triangular and symmetric matrices ----

// Where the triangle or the symmetric matrix stands in a product.
typedef enum tc_blas_side {
  TC_LEFT = 0,  // before the other matrix
  TC_RIGHT = 1,  // after it
} tc_blas_side;
// The triangle that is stored, with its diagonal.
typedef enum tc_blas_uplo {
  TC_LOWER = 0,  // elements (i, j) with i >= j
  TC_UPPER = 1,  // those with i <= j
} tc_blas_uplo;
// What stands on a triangle's diagonal.
typedef enum tc_blas_diag {
  TC_NON_UNIT = 0,  // what is stored
  TC_UNIT = 1,  // ones, whatever is stored
} tc_blas_diag;

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
  tc_type type;  // of all matrices: TC_F32 or TC_F64
  tc_blas_order order;  // of all matrices
  tc_blas_side side;  // where a stands: trsm, trmm, symm
  tc_blas_uplo uplo;  // the triangle of a, in syrk and syr2k of c; the other one is not touched
  tc_blas_trans trans;  // op: trsm, trmm, syrk, syr2k
  tc_blas_diag diag;  // of a: trsm, trmm
  int64_t m;  // rows of c; not of syrk and syr2k
  int64_t n;  // columns of c
  int64_t k;  // columns of op(a): syrk, syr2k
  double alpha;  // rounded to the type
  const void *a;  // as the table says; transposed a (and b) of syrk and syr2k is stored as [k, n]
  int64_t lda;  // in elements; at least the length of a column, in row-major order of a row, and 1
  const void *b;  // symm, syr2k
  int64_t ldb;  // as lda
  double beta;  // rounded to the type: symm, syrk, syr2k
  void *c;  // read and written
  int64_t ldc;  // as lda
  int max_threads;  // 0: as many as tc_num_threads says
} tc_blas3_call;

// Compute in place, as tc_gemm does, and block. The other triangle of a, or of c, and what lies
// between columns (rows) is neither read nor written.
// beta 0: c is not read. alpha 0, or k 0 of syrk and syr2k: a and b are not read and may be NULL.
// Then c becomes beta * c, in trsm and trmm 0. A size of c that is 0: nothing is done.
// trsm substitutes; no block of a is inverted. Diagonal elements are multiplied by as reciprocals
// where all of a block have normal ones, else divided by. A zero on the diagonal gives infinities
// and NaN, not an error. Zeros in c hide no NaN of a.
// The order in which an element is summed depends on the triangle's size, or k, alone. So its bits
// do not depend on threads.
// c may not overlap a or b: their ranges of bytes, from the first element to the last one of the
// whole square or rectangle. Blocks of one matrix without a common row (in row-major order column)
// do not overlap, as in tc_gemm.
// TC_ERR_ARG: a negative size, a small leading dimension, NULL, an overlap, or matrices beyond the
// address space. TC_ERR_DTYPE: another type. TC_ERR_MEMORY: none for packed operands. After an
// error c is as it was.
TC_API tc_status tc_trsm(const tc_blas3_call *call) TC_MUST_USE;
TC_API tc_status tc_trmm(const tc_blas3_call *call) TC_MUST_USE;
TC_API tc_status tc_symm(const tc_blas3_call *call) TC_MUST_USE;
TC_API tc_status tc_syrk(const tc_blas3_call *call) TC_MUST_USE;
TC_API tc_status tc_syr2k(const tc_blas3_call *call) TC_MUST_USE;

// ---- Levels 2 and 1: vectors ----
// Their names have blas in them, since tc_dot is an op. One thread computes; nothing is allocated.
// Element i of a vector stands at i * inc, if inc is negative at (i - n + 1) * inc: so x is always
// the lowest address. Bits do not depend on where vectors lie, nor on increments.

// y = alpha * op(a) * x + beta * y.
typedef struct tc_blas_gemv_call {
  tc_type type;  // of all: TC_F32 or TC_F64
  tc_blas_order order;  // of a
  tc_blas_trans trans;  // op
  int64_t m;  // rows of a
  int64_t n;  // columns of a
  double alpha;  // rounded to the type
  const void *a;  // [m, n]
  int64_t lda;  // as in tc_gemm_call
  const void *x;  // [n], transposed [m]
  int64_t incx;  // may be negative or 0
  double beta;  // rounded to the type
  void *y;  // [m], transposed [n]
  int64_t incy;  // not 0
} tc_blas_gemv_call;

// a = a + alpha * x * y^T.
typedef struct tc_blas_ger_call {
  tc_type type;  // of all: TC_F32 or TC_F64
  tc_blas_order order;  // of a
  int64_t m;  // rows of a
  int64_t n;  // columns of a
  double alpha;  // rounded to the type
  const void *x;  // [m]
  int64_t incx;  // may be negative or 0
  const void *y;  // [n]
  int64_t incy;  // may be negative or 0
  void *a;  // [m, n]
  int64_t lda;  // as in tc_gemm_call
} tc_blas_ger_call;

// Compute in place, and block. beta 0: y is not read. alpha 0, or no element to sum: a and x are
// not read and may be NULL, and y becomes beta * y. ger with alpha 0 does nothing. Zeros in x or y
// hide no NaN.
// What is written may not overlap what is read, by the rule of tc_blas3_call. A vector with an
// increment counts as a row of a matrix with that leading dimension.
// TC_ERR_ARG: a negative size, a small leading dimension, NULL, an overlap, incy 0 of gemv, or
// operands beyond the address space. TC_ERR_DTYPE: another type.
TC_API tc_status tc_blas_gemv(const tc_blas_gemv_call *call) TC_MUST_USE;
TC_API tc_status tc_blas_ger(const tc_blas_ger_call *call) TC_MUST_USE;

// y = alpha * x + y; alpha 0: x is not read. y = x. x and y change places. Increments may be 0.
// Vectors may overlap: then elements are computed one after another, as in the BLAS reference.
// TC_ERR_ARG: n is negative, NULL, or a vector beyond the address space. TC_ERR_DTYPE: a type that
// is neither TC_F32 nor TC_F64.
TC_API tc_status tc_blas_axpy(tc_type type, int64_t n, double alpha, const void *x, int64_t incx, void *y,
                              int64_t incy) TC_MUST_USE;
TC_API tc_status tc_blas_copy(tc_type type, int64_t n, const void *x, int64_t incx, void *y, int64_t incy) TC_MUST_USE;
TC_API tc_status tc_blas_swap(tc_type type, int64_t n, void *x, int64_t incx, void *y, int64_t incy) TC_MUST_USE;
// x = alpha * x; alpha 0 keeps NaN. incx below 1 is TC_ERR_ARG here and in what follows.
TC_API tc_status tc_blas_scal(tc_type type, int64_t n, double alpha, void *x, int64_t incx) TC_MUST_USE;

// Sums; out is 0 of no elements and after an error. Sums of f32 are added in double from short
// parts and given unrounded. nrm2, the square root of the sum of squares, neither overflows nor
// vanishes on the way.
// Errors as above, and TC_ERR_ARG if out is NULL.
TC_API tc_status tc_blas_dot(tc_type type, int64_t n, const void *x, int64_t incx, const void *y, int64_t incy,
                             double *out) TC_MUST_USE;
TC_API tc_status tc_blas_asum(tc_type type, int64_t n, const void *x, int64_t incx, double *out) TC_MUST_USE;
TC_API tc_status tc_blas_nrm2(tc_type type, int64_t n, const void *x, int64_t incx, double *out) TC_MUST_USE;
// The index of the first element of the greatest magnitude, from 0; -1 of none. NaN are passed
// over, but at index 0 one is the answer, as in the BLAS reference. TC_ERR_ARG and TC_ERR_DTYPE as
// for sums.
TC_API tc_status tc_blas_iamax(tc_type type, int64_t n, const void *x, int64_t incx, int64_t *out) TC_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
