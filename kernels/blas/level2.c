// The public routines on a matrix and vectors: checks a call and brings it to columns of unit
// stride. Row-major matrices are transposed ones. See tc/blas.h.
// Threads: thread-safe, pure.
#include <tc/blas.h>

#include "kernels/blas/level1.h"
#include "kernels/blas/operand.h"
#include "runtime/status.h"

#define FAIL(...) tc_fail(TC_ERR_ARG, op, 0, __VA_ARGS__)

static tc_status check_words(const char *op, tc_type type, tc_blas_order order, tc_blas_trans trans, int64_t m,
                             int64_t n) {
  if (type != TC_F32 && type != TC_F64)
    return tc_fail(TC_ERR_DTYPE, op, 0, "type is %d; TC_F32 or TC_F64 expected", (int)type);
  if ((unsigned)order > TC_ROW_MAJOR) return FAIL("order is %d", (int)order);
  if ((unsigned)trans > TC_TRANS) return FAIL("trans is %d", (int)trans);
  if ((m | n) < 0) return FAIL("m is %lld, n %lld; none may be negative", (long long)m, (long long)n);
  return TC_OK;
}

static tc_blas_operand matrix_of(const void *a, tc_blas_order order, int64_t m, int64_t n, int64_t lda) {
  tc_blas_operand x = {.name = "a", .at = a, .length = m, .lines = n, .ld = lda};
  if (order == TC_ROW_MAJOR) {
    x.length = n;
    x.lines = m;
  }
  return x;
}

static tc_status check_vector(const char *op, const tc_blas_operand *x, bool is_used) {
  return is_used && !x->at ? FAIL("%s is NULL", x->name) : TC_OK;
}

// Where the first element lies, in the order of the call.
static void *first(const void *x, int64_t n, int64_t inc, int64_t bytes) {
  return (char *)(uintptr_t)x + (inc < 0 ? (1 - n) * inc * bytes : 0);
}

static double rounded(tc_type type, double x) {
  return type == TC_F32 ? (double)(float)x : x;
}

static tc_status check_gemv(const char *op, const tc_blas_gemv_call *g, int64_t x_length, int64_t y_length,
                            bool reads) {
  int64_t bytes = g->type == TC_F64 ? 8 : 4;
  bool works = y_length > 0;
  tc_blas_operand a = matrix_of(g->a, g->order, g->m, g->n, g->lda);
  tc_blas_operand x = tc_blas_operand_of_vector('x', g->x, x_length, g->incx);
  tc_blas_operand y = tc_blas_operand_of_vector('y', g->y, y_length, g->incy);
  if (g->incy == 0) return FAIL("incy is 0");
  TC_TRY(tc_blas_check_operand(op, &a, works && reads));
  TC_TRY(check_vector(op, &x, works && reads));
  TC_TRY(check_vector(op, &y, works));
  uintptr_t end;
  if (works && !tc_blas_find_end(&y, bytes, &end)) return FAIL("y exceeds the address space");
  if (!works || !reads) return TC_OK;
  TC_TRY(tc_blas_check_apart(op, &y, &a, bytes));
  return tc_blas_check_apart(op, &y, &x, bytes);
}

tc_status tc_blas_gemv(const tc_blas_gemv_call *g) {
  const char *op = "gemv";
  if (!g) return FAIL("the call is NULL");
  TC_TRY(check_words(op, g->type, g->order, g->trans, g->m, g->n));
  double alpha = rounded(g->type, g->alpha), beta = rounded(g->type, g->beta);
  int64_t x_length = g->trans ? g->m : g->n, y_length = g->trans ? g->n : g->m, bytes = g->type == TC_F64 ? 8 : 4;
  bool reads = alpha != 0 && x_length > 0;
  TC_TRY(check_gemv(op, g, x_length, y_length, reads));
  if (y_length == 0) return TC_OK;
  const tc_blas_vector_kernels *kernels = tc_blas_vector_kernels_of(g->type);
  void *y = first(g->y, y_length, g->incy, bytes);
  if (!reads) {
    static const double zero = 0;  // of either type, as bytes
    if (beta == 0)
      kernels->copy(y_length, &zero, 0, y, g->incy);
    else if (beta != 1)
      kernels->scal(y_length, beta, y, g->incy);
    return TC_OK;
  }
  bool is_row_major = g->order == TC_ROW_MAJOR;
  kernels->gemv(is_row_major != (g->trans == TC_TRANS), is_row_major ? g->n : g->m, is_row_major ? g->m : g->n, alpha,
                g->a, g->lda, first(g->x, x_length, g->incx, bytes), g->incx, beta, y, g->incy);
  return TC_OK;
}

tc_status tc_blas_ger(const tc_blas_ger_call *g) {
  const char *op = "ger";
  if (!g) return FAIL("the call is NULL");
  TC_TRY(check_words(op, g->type, g->order, TC_NO_TRANS, g->m, g->n));
  double alpha = rounded(g->type, g->alpha);
  int64_t bytes = g->type == TC_F64 ? 8 : 4;
  bool works = g->m > 0 && g->n > 0 && alpha != 0;
  tc_blas_operand a = matrix_of(g->a, g->order, g->m, g->n, g->lda);
  tc_blas_operand x = tc_blas_operand_of_vector('x', g->x, g->m, g->incx);
  tc_blas_operand y = tc_blas_operand_of_vector('y', g->y, g->n, g->incy);
  TC_TRY(tc_blas_check_operand(op, &a, works));
  TC_TRY(check_vector(op, &x, works));
  TC_TRY(check_vector(op, &y, works));
  if (!works) return TC_OK;
  TC_TRY(tc_blas_check_apart(op, &a, &x, bytes));
  TC_TRY(tc_blas_check_apart(op, &a, &y, bytes));
  const tc_blas_vector_kernels *kernels = tc_blas_vector_kernels_of(g->type);
  const void *first_x = first(g->x, g->m, g->incx, bytes), *first_y = first(g->y, g->n, g->incy, bytes);
  if (g->order == TC_ROW_MAJOR)
    kernels->ger(g->n, g->m, alpha, first_y, g->incy, first_x, g->incx, g->a, g->lda);
  else
    kernels->ger(g->m, g->n, alpha, first_x, g->incx, first_y, g->incy, g->a, g->lda);
  return TC_OK;
}
