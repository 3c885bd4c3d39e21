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

#ifdef __cplusplus
}
#endif

#endif
