// The public routines of level 3 beside the product: checks a call and brings it to one side. See
// tc/blas.h.
//
//   row-major, transposed     strides change places
//   x * a on the right        a^T * x^T on the left
//   upper, symmetric          lower, with strides in each other's place
//
// So what follows knows views and columns alone.
// Threads: thread-safe, pure.
#include "kernels/blas/level3.h"

#include <tc/blas.h>

#include "kernels/blas/gemm.h"
#include "kernels/blas/operand.h"
#include "runtime/status.h"

#define FAIL(...) tc_fail(TC_ERR_ARG, op, 0, __VA_ARGS__)

static tc_blas_operand operand_of(const tc_blas3_call *g, char name, int64_t rows, int64_t cols) {
  tc_blas_operand x = {.name = {name}, .length = rows, .lines = cols};
  x.at = name == 'a' ? g->a : name == 'b' ? g->b : g->c;
  x.ld = name == 'a' ? g->lda : name == 'b' ? g->ldb : g->ldc;
  if (g->order == TC_ROW_MAJOR) {
    x.length = cols;
    x.lines = rows;
  }
  return x;
}

static tc_blas_view view_of(const tc_blas3_call *g, const tc_blas_operand *x) {
  bool is_row_major = g->order == TC_ROW_MAJOR;
  return (tc_blas_view){(void *)(uintptr_t)x->at, is_row_major ? x->ld : 1, is_row_major ? 1 : x->ld};
}

// ---- Checks ----

static tc_status check_words(const char *op, const tc_blas3_call *g) {
  if (!g) return FAIL("the call is NULL");
  if ((unsigned)g->order > TC_ROW_MAJOR) return FAIL("order is %d", (int)g->order);
  if ((unsigned)g->side > TC_RIGHT) return FAIL("side is %d", (int)g->side);
  if ((unsigned)g->uplo > TC_UPPER) return FAIL("uplo is %d", (int)g->uplo);
  if ((unsigned)g->trans > TC_TRANS) return FAIL("trans is %d", (int)g->trans);
  if ((unsigned)g->diag > TC_UNIT) return FAIL("diag is %d", (int)g->diag);
  if (g->type != TC_F32 && g->type != TC_F64)
    return tc_fail(TC_ERR_DTYPE, op, 0, "type is %d; TC_F32 or TC_F64 expected", (int)g->type);
  if (g->max_threads < 0) return FAIL("max_threads is %d", g->max_threads);
  return TC_OK;
}

static tc_status check_size(const char *op, char name, int64_t size) {
  return size < 0 ? FAIL("%c is %lld; it may not be negative", name, (long long)size) : TC_OK;
}

// ops[0] is c; the others are operands. reads: whether these are looked at.
static tc_status check_operands(const char *op, const tc_blas3_call *g, const tc_blas_operand *ops, int n_ops,
                                bool works, bool reads) {
  int64_t bytes = g->type == TC_F64 ? 8 : 4;
  uintptr_t end;
  for (int i = 1; i < n_ops; i++) TC_TRY(tc_blas_check_operand(op, &ops[i], works && reads));
  TC_TRY(tc_blas_check_operand(op, &ops[0], works));
  if (works && !tc_blas_find_end(&ops[0], bytes, &end)) return FAIL("the operands exceed the address space");
  for (int i = 1; i < n_ops && works && reads; i++) TC_TRY(tc_blas_check_apart(op, &ops[0], &ops[i], bytes));
  return TC_OK;
}

static double rounded(const tc_blas3_call *g, double x) {
  return g->type == TC_F32 ? (double)(float)x : x;
}

// ---- Triangular ----

static tc_status run_triangular(const char *op, const tc_blas3_call *g, bool is_product) {
  TC_TRY(check_words(op, g));
  TC_TRY(check_size(op, 'm', g->m));
  TC_TRY(check_size(op, 'n', g->n));
  bool is_right = g->side == TC_RIGHT, works = g->m > 0 && g->n > 0;
  int64_t order = is_right ? g->n : g->m;
  tc_blas_operand ops[2] = {operand_of(g, 'c', g->m, g->n), operand_of(g, 'a', order, order)};
  double alpha = rounded(g, g->alpha);
  TC_TRY(check_operands(op, g, ops, 2, works, alpha != 0));
  if (!works) return TC_OK;
  tc_blas_triangular t = {.type = g->type, .n = order, .count = is_right ? g->m : g->n, .alpha = alpha};
  bool turns = is_right != (g->trans == TC_TRANS);
  t.is_product = is_product;
  t.is_unit = g->diag == TC_UNIT;
  t.is_upper = (g->uplo == TC_UPPER) != turns;
  t.a = view_of(g, &ops[1]);
  t.x = view_of(g, &ops[0]);
  if (turns) t.a = tc_blas_view_transposed(t.a);
  if (is_right) t.x = tc_blas_view_transposed(t.x);
  t.max_threads = g->max_threads;
  return tc_blas_run_triangular(op, &t);
}

tc_status tc_trsm(const tc_blas3_call *g) {
  return run_triangular("trsm", g, false);
}

tc_status tc_trmm(const tc_blas3_call *g) {
  return run_triangular("trmm", g, true);
}

// ---- Symmetric ----

tc_status tc_symm(const tc_blas3_call *g) {
  const char *op = "symm";
  TC_TRY(check_words(op, g));
  TC_TRY(check_size(op, 'm', g->m));
  TC_TRY(check_size(op, 'n', g->n));
  bool is_right = g->side == TC_RIGHT, works = g->m > 0 && g->n > 0;
  int64_t order = is_right ? g->n : g->m;
  double alpha = rounded(g, g->alpha);
  tc_blas_operand ops[3] = {operand_of(g, 'c', g->m, g->n), operand_of(g, 'a', order, order),
                            operand_of(g, 'b', g->m, g->n)};
  TC_TRY(check_operands(op, g, ops, 3, works, alpha != 0));
  if (!works) return TC_OK;
  tc_blas_view c = view_of(g, &ops[0]), a = view_of(g, &ops[1]), b = view_of(g, &ops[2]);
  // Lines of an operand are its rows on the left, and its columns on the right. packed.h reads the
  // triangle where a line's number is the greater one.
  if ((g->uplo == TC_UPPER) != is_right) a = tc_blas_view_transposed(a);
  tc_blas_symmetric_job job = {.type = g->type, .max_threads = g->max_threads};
  job.product =
      tc_blas_product_of(g->m, g->n, order, alpha, is_right ? b : a, is_right ? a : b, rounded(g, g->beta), c);
  bool swaps = c.row != 1;
  job.symmetric = is_right == swaps ? TC_BLAS_A : TC_BLAS_B;
  return tc_blas_run_symmetric(op, &job);
}

// b_name: 'a' where both operands are one.
static tc_status run_update(const char *op, const tc_blas3_call *g, char b_name) {
  TC_TRY(check_words(op, g));
  TC_TRY(check_size(op, 'n', g->n));
  TC_TRY(check_size(op, 'k', g->k));
  bool is_trans = g->trans == TC_TRANS, is_one = b_name == 'a';
  int64_t rows = is_trans ? g->k : g->n, cols = is_trans ? g->n : g->k;
  tc_blas_operand ops[3] = {operand_of(g, 'c', g->n, g->n), operand_of(g, 'a', rows, cols),
                            operand_of(g, b_name, rows, cols)};
  double alpha = rounded(g, g->alpha), beta = rounded(g, g->beta);
  TC_TRY(check_operands(op, g, ops, is_one ? 2 : 3, g->n > 0, alpha != 0 && g->k > 0));
  if (g->n == 0) return TC_OK;
  tc_blas_view c = view_of(g, &ops[0]), a = view_of(g, &ops[1]), b = view_of(g, &ops[2]);
  if (is_trans) {
    a = tc_blas_view_transposed(a);
    b = tc_blas_view_transposed(b);
  }
  tc_blas_symmetric_job job = {.type = g->type, .max_threads = g->max_threads};
  job.product = tc_blas_product_of(g->n, g->n, g->k, alpha, a, tc_blas_view_transposed(b), beta, c);
  tc_blas_product second = tc_blas_product_of(g->n, g->n, g->k, alpha, b, tc_blas_view_transposed(a), 1, c);
  if (!is_one) job.second = &second;
  bool swaps = c.row != 1;
  job.part = (g->uplo == TC_LOWER) != swaps ? TC_BLAS_LOWER : TC_BLAS_UPPER;
  return tc_blas_run_symmetric(op, &job);
}

tc_status tc_syrk(const tc_blas3_call *g) {
  return run_update("syrk", g, 'a');
}

tc_status tc_syr2k(const tc_blas3_call *g) {
  return run_update("syr2k", g, 'b');
}
