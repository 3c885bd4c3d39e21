// In the place of libtc: its direct products as plain loops in double, so that what the shim hands over is tested by
// itself.
#include <stdlib.h>
#include <string.h>
#include <tc/blas.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static size_t place(tc_blas_order order, int64_t i, int64_t j, int64_t ld) {
  return (size_t)(order == TC_ROW_MAJOR ? i * ld + j : i + j * ld);
}

static double get(tc_type type, const void *p, size_t at) {
  return type == TC_F32 ? (double)((const float *)p)[at] : ((const double *)p)[at];
}

static void set(tc_type type, void *p, size_t at, double x) {
  if (type == TC_F32)
    ((float *)p)[at] = (float)x;
  else
    ((double *)p)[at] = x;
}

// No signal handler may bring a second call of one thread. STANDIN_JUMPS: some leave a call.
static __thread int inside;

static void enter(void) {
  if (inside++ && !getenv("STANDIN_JUMPS")) abort();
}

// STANDIN_SLOW: to open it takes a while.
__attribute__((constructor)) static void open_slowly(void) {
  if (getenv("STANDIN_SLOW")) usleep(300000);
}

EXPORT tc_status tc_gemm(const tc_gemm_call *g) {
  enter();
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++) {
      double sum = 0;
      for (int64_t l = 0; l < g->k; l++)
        sum += get(g->type, g->a, g->transa ? place(g->order, l, i, g->lda) : place(g->order, i, l, g->lda)) *
               get(g->type, g->b, g->transb ? place(g->order, j, l, g->ldb) : place(g->order, l, j, g->ldb));
      size_t at = place(g->order, i, j, g->ldc);
      set(g->type, g->c, at, g->alpha * sum + (g->beta == 0 ? 0 : g->beta * get(g->type, g->c, at)));
    }
  inside--;
  return TC_OK;
}

// An element of a matrix of which one triangle is stored.
static double symmetric(const tc_blas3_call *g, int64_t i, int64_t j) {
  int swap = g->uplo == TC_UPPER ? i > j : i < j;
  return get(g->type, g->a, swap ? place(g->order, j, i, g->lda) : place(g->order, i, j, g->lda));
}

// An element of op(a) where a is triangular.
static double triangular(const tc_blas3_call *g, int64_t i, int64_t j) {
  int64_t row = g->trans ? j : i, column = g->trans ? i : j;
  if (row == column) return g->diag == TC_UNIT ? 1 : get(g->type, g->a, place(g->order, row, column, g->lda));
  if (g->uplo == TC_UPPER ? row > column : row < column) return 0;
  return get(g->type, g->a, place(g->order, row, column, g->lda));
}

EXPORT tc_status tc_symm(const tc_blas3_call *g) {
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++) {
      double sum = 0;
      for (int64_t l = 0; l < (g->side == TC_LEFT ? g->m : g->n); l++)
        sum += g->side == TC_LEFT ? symmetric(g, i, l) * get(g->type, g->b, place(g->order, l, j, g->ldb))
                                  : get(g->type, g->b, place(g->order, i, l, g->ldb)) * symmetric(g, l, j);
      size_t at = place(g->order, i, j, g->ldc);
      set(g->type, g->c, at, g->alpha * sum + (g->beta == 0 ? 0 : g->beta * get(g->type, g->c, at)));
    }
  return TC_OK;
}

static double operand(const tc_blas3_call *g, const void *p, int64_t ld, int64_t i, int64_t l) {
  return get(g->type, p, g->trans ? place(g->order, l, i, ld) : place(g->order, i, l, ld));
}

static tc_status rank_k(const tc_blas3_call *g, const void *b, int64_t ldb) {
  for (int64_t i = 0; i < g->n; i++)
    for (int64_t j = 0; j < g->n; j++) {
      if (g->uplo == TC_UPPER ? i > j : i < j) continue;
      double sum = 0;
      for (int64_t l = 0; l < g->k; l++) {
        sum += operand(g, g->a, g->lda, i, l) * operand(g, b ? b : g->a, b ? ldb : g->lda, j, l);
        if (b) sum += operand(g, b, ldb, i, l) * operand(g, g->a, g->lda, j, l);
      }
      size_t at = place(g->order, i, j, g->ldc);
      set(g->type, g->c, at, g->alpha * sum + (g->beta == 0 ? 0 : g->beta * get(g->type, g->c, at)));
    }
  return TC_OK;
}

EXPORT tc_status tc_syrk(const tc_blas3_call *g) {
  return rank_k(g, NULL, 0);
}

EXPORT tc_status tc_syr2k(const tc_blas3_call *g) {
  return rank_k(g, g->b, g->ldb);
}

// c as m by n doubles in rows, and back.
static double *copy_in(const tc_blas3_call *g) {
  double *x = malloc((size_t)(g->m * g->n) * sizeof *x);
  for (int64_t i = 0; x && i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++) x[i * g->n + j] = get(g->type, g->c, place(g->order, i, j, g->ldc));
  return x;
}

static void copy_out(const tc_blas3_call *g, double *x) {
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++) set(g->type, g->c, place(g->order, i, j, g->ldc), x[i * g->n + j]);
  free(x);
}

EXPORT tc_status tc_trmm(const tc_blas3_call *g) {
  double *x = copy_in(g), *y = copy_in(g);
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++) {
      double sum = 0;
      for (int64_t l = 0; l < (g->side == TC_LEFT ? g->m : g->n); l++)
        sum += g->side == TC_LEFT ? triangular(g, i, l) * x[l * g->n + j] : x[i * g->n + l] * triangular(g, l, j);
      y[i * g->n + j] = g->alpha * sum;
    }
  free(x);
  copy_out(g, y);
  return TC_OK;
}

// Whether rows of op(a) are solved from the first.
static int is_lower(const tc_blas3_call *g) {
  return (g->uplo == TC_UPPER) == (g->trans != 0);
}

EXPORT tc_status tc_trsm(const tc_blas3_call *g) {
  double *x = copy_in(g);
  int64_t n = g->side == TC_LEFT ? g->m : g->n, others = g->side == TC_LEFT ? g->n : g->m;
  int64_t step = g->side == TC_LEFT ? g->n : 1, other_step = g->side == TC_LEFT ? 1 : g->n;
  int forward = is_lower(g) == (g->side == TC_LEFT);
  for (int64_t o = 0; o < others; o++)
    for (int64_t s = 0; s < n; s++) {
      int64_t i = forward ? s : n - 1 - s;
      double sum = g->alpha * x[i * step + o * other_step];
      for (int64_t t = 0; t < s; t++) {
        int64_t l = forward ? t : n - 1 - t;
        sum -= (g->side == TC_LEFT ? triangular(g, i, l) : triangular(g, l, i)) * x[l * step + o * other_step];
      }
      x[i * step + o * other_step] = sum / triangular(g, i, i);
    }
  copy_out(g, x);
  return TC_OK;
}
