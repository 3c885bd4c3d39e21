// Vectors, and a matrix with vectors (tc/blas.h), against loops in long double: increments of either
// sign and 0, gaps that stay as they are, sums that keep their digits, norms that do not overflow.
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tc/blas.h>

#include "tests/expect.h"

#define GUARD 4
#define MOST 6000  // elements that a vector takes, gaps included

static uint64_t seed = 7;

static double draw(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(int64_t)(seed >> 11) / (double)(1ll << 52) - 1;
}

// A vector with gaps and guards of NaN, and what it held when a call was made.
typedef struct vector {
  tc_type type;
  int64_t n, inc;
  double memory[MOST + 2 * GUARD], before[MOST + 2 * GUARD];  // floats take half of it
} vector;

static int size_of(tc_type type) {
  return type == TC_F64 ? 8 : 4;
}

static int64_t place(const vector *x, int64_t i) {
  return GUARD + (x->inc < 0 ? (i - x->n + 1) * x->inc : i * x->inc);
}

static double value_at(const vector *x, const void *memory, int64_t i) {
  return x->type == TC_F64 ? ((const double *)memory)[place(x, i)] : (double)((const float *)memory)[place(x, i)];
}

static double get(const vector *x, int64_t i) {
  return value_at(x, x->memory, i);
}

static double was(const vector *x, int64_t i) {
  return value_at(x, x->before, i);
}

static void set(vector *x, int64_t i, double value) {
  if (x->type == TC_F64)
    x->memory[place(x, i)] = value;
  else
    ((float *)x->memory)[place(x, i)] = (float)value;
}

static void *start(vector *x) {
  return (char *)x->memory + GUARD * size_of(x->type);
}

static void fill(vector *x, tc_type type, int64_t n, int64_t inc) {
  x->type = type;
  x->n = n;
  x->inc = inc;
  memset(x->memory, 0xff, sizeof x->memory);
  for (int64_t i = 0; i < n; i++) set(x, i, draw());
  memcpy(x->before, x->memory, sizeof x->before);
}

// Whether nothing but the elements changed.
static bool gaps_are_kept(vector *x) {
  static double copy[MOST + 2 * GUARD];
  memcpy(copy, x->memory, sizeof copy);
  int bytes = size_of(x->type);
  for (int64_t i = 0; i < x->n; i++)
    memcpy((char *)copy + place(x, i) * bytes, (char *)x->before + place(x, i) * bytes, bytes);
  return memcmp(copy, x->before, sizeof copy) == 0;
}

static double eps_of(tc_type type) {
  return type == TC_F64 ? DBL_EPSILON : FLT_EPSILON;
}

static double rounded(tc_type type, double x) {
  return type == TC_F64 ? x : (double)(float)x;
}

static const int64_t lengths[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 129, 200, 1999};
static const int64_t increments[] = {1, 2, -1, -3, 0};
static const double factors[] = {1, 0, -1, 2.5};
#define N_LENGTHS ((int)(sizeof lengths / sizeof *lengths))

static vector x, y;

// ---- Two vectors ----

static void check_axpy(tc_type type, int64_t n, int64_t incx, int64_t incy, double alpha) {
  fill(&x, type, n, incx);
  fill(&y, type, n, incy);
  EXPECT_OK(tc_blas_axpy(type, n, alpha, start(&x), incx, start(&y), incy));
  EXPECT(gaps_are_kept(&y) && memcmp(x.memory, x.before, sizeof x.memory) == 0, "n %d", (int)n);
  static double want[2000];
  double one = n > 0 ? was(&y, 0) : 0;
  for (int64_t i = 0; i < n; i++) {
    double term = rounded(type, alpha * was(&x, i));
    one = rounded(type, (incy == 0 ? one : was(&y, i)) + term);
    want[i] = one;
  }
  for (int64_t i = 0; i < n; i++)
    EXPECT(get(&y, i) == (incy == 0 ? one : want[i]), "axpy n %d inc %d %d at %d: %g", (int)n, (int)incx, (int)incy,
           (int)i, get(&y, i));
}

static void check_moves(tc_type type, int64_t n, int64_t incx, int64_t incy) {
  fill(&x, type, n, incx);
  fill(&y, type, n, incy);
  EXPECT_OK(tc_blas_copy(type, n, start(&x), incx, start(&y), incy));
  EXPECT(gaps_are_kept(&y) && memcmp(x.memory, x.before, sizeof x.memory) == 0, "n %d", (int)n);
  for (int64_t i = 0; i < n; i++)
    EXPECT(get(&y, i) == was(&x, incy == 0 ? n - 1 : i), "copy n %d inc %d %d at %d", (int)n, (int)incx, (int)incy,
           (int)i);
  if (incx == 0 || incy == 0) return;
  fill(&y, type, n, incy);
  EXPECT_OK(tc_blas_swap(type, n, start(&x), incx, start(&y), incy));
  EXPECT(gaps_are_kept(&x) && gaps_are_kept(&y), "n %d", (int)n);
  for (int64_t i = 0; i < n; i++)
    EXPECT(get(&x, i) == was(&y, i) && get(&y, i) == was(&x, i), "swap n %d at %d", (int)n, (int)i);
}

static void check_dot(tc_type type, int64_t n, int64_t incx, int64_t incy) {
  fill(&x, type, n, incx);
  fill(&y, type, n, incy);
  double got = NAN;
  EXPECT_OK(tc_blas_dot(type, n, start(&x), incx, start(&y), incy, &got));
  long double sum = 0, size = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += (long double)get(&x, i) * get(&y, i);
    size += fabsl((long double)get(&x, i) * get(&y, i));
  }
  EXPECT(fabsl(got - sum) <= 32 * eps_of(type) * size, "dot n %d inc %d %d: %g, not %Lg", (int)n, (int)incx, (int)incy,
         got, sum);
}

// ---- One vector ----

static void check_one(tc_type type, int64_t n, int64_t inc, double alpha) {
  fill(&x, type, n, inc);
  long double sum = 0, squares = 0;
  int64_t greatest = -1, index = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += fabs(get(&x, i));
    squares += (long double)get(&x, i) * get(&x, i);
    if (greatest < 0 || fabs(get(&x, i)) > fabs(get(&x, greatest))) greatest = i;
  }
  double got = NAN;
  EXPECT_OK(tc_blas_asum(type, n, start(&x), inc, &got));
  EXPECT(fabsl(got - sum) <= 32 * eps_of(type) * sum, "asum n %d: %g, not %Lg", (int)n, got, sum);
  EXPECT_OK(tc_blas_nrm2(type, n, start(&x), inc, &got));
  EXPECT(fabsl(got - sqrtl(squares)) <= 8 * eps_of(TC_F64) * (1 + (double)n / 8) * sqrtl(squares),
         "nrm2 n %d: %g, not %Lg", (int)n, got, sqrtl(squares));
  EXPECT_OK(tc_blas_iamax(type, n, start(&x), inc, &index));
  EXPECT(index == greatest, "iamax n %d: %d, not %d", (int)n, (int)index, (int)greatest);
  EXPECT_OK(tc_blas_scal(type, n, alpha, start(&x), inc));
  EXPECT(gaps_are_kept(&x), "scal n %d", (int)n);
  for (int64_t i = 0; i < n; i++)
    EXPECT(get(&x, i) == rounded(type, alpha * was(&x, i)), "scal n %d at %d", (int)n, (int)i);
}

static void test_vectors(tc_type type) {
  for (int l = 0; l < N_LENGTHS; l++)
    for (int i = 0; i < 5; i++)
      for (int j = 0; j < 5; j++) {
        int64_t n = lengths[l];
        check_axpy(type, n, increments[i], increments[j], factors[(i + j + l) % 4]);
        check_moves(type, n, increments[i], increments[j]);
        check_dot(type, n, increments[i], increments[j]);
        if (i < 4) check_one(type, n, j % 3 + 1, factors[i]);
      }
}

// Norms and positions of values that squares do not hold, and of NaN.
static void test_extremes(void) {
  double out = 0;
  int64_t index = 0;
  double huge[] = {3e300, -4e300, 0}, tiny[] = {3e-310, 4e-310}, far[] = {1e-200, 1e200}, none[] = {0, -0.0};
  EXPECT_OK(tc_blas_nrm2(TC_F64, 3, huge, 1, &out));
  EXPECT(fabs(out / 5e300 - 1) < 1e-15, "%g", out);
  EXPECT_OK(tc_blas_nrm2(TC_F64, 2, tiny, 1, &out));
  EXPECT(fabs(out / 5e-310 - 1) < 1e-13, "%g", out);
  EXPECT_OK(tc_blas_nrm2(TC_F64, 2, far, 1, &out));
  EXPECT(fabs(out / 1e200 - 1) < 1e-15, "%g", out);
  EXPECT_OK(tc_blas_nrm2(TC_F64, 2, none, 1, &out));
  EXPECT(out == 0, "%g", out);
  double special[] = {1, INFINITY, 2}, nan[] = {1, NAN, -3, 3}, leading[] = {NAN, 5};
  EXPECT_OK(tc_blas_nrm2(TC_F64, 3, special, 1, &out));
  EXPECT(out == INFINITY, "%g", out);
  EXPECT_OK(tc_blas_nrm2(TC_F64, 4, nan, 1, &out));
  EXPECT(isnan(out), "%g", out);
  EXPECT_OK(tc_blas_iamax(TC_F64, 4, nan, 1, &index));
  EXPECT(index == 2, "%d", (int)index);
  EXPECT_OK(tc_blas_iamax(TC_F64, 2, leading, 1, &index));
  EXPECT(index == 0, "%d", (int)index);
  EXPECT_OK(tc_blas_scal(TC_F64, 4, 0, nan, 1));
  EXPECT(isnan(nan[1]) && nan[0] == 0, "%g", nan[1]);
  float wide[] = {3e30f, 4e30f};
  EXPECT_OK(tc_blas_nrm2(TC_F32, 2, wide, 1, &out));
  EXPECT(fabs(out / 5e30 - 1) < 1e-6, "%g", out);
  EXPECT_OK(tc_blas_axpy(TC_F64, 2, 0, NULL, 1, far, 1));
}

// A million of one f32 number: sums keep six digits, where one chain would keep two.
static void test_long_sums(void) {
  int64_t n = 1 << 20, index = 0;
  float *v = malloc((size_t)n * sizeof *v);
  double out = 0;
  for (int64_t i = 0; i < n; i++) v[i] = i == n - 5 ? -0.7f : 0.1f;
  double sum = (double)(n - 1) * 0.1f + 0.7f;
  EXPECT_OK(tc_blas_asum(TC_F32, n, v, 1, &out));
  EXPECT(fabs(out / sum - 1) < 2e-6, "%g, not %g", out, sum);
  EXPECT_OK(tc_blas_dot(TC_F32, n, v, 1, v, 1, &out));
  sum = (double)(n - 1) * ((double)0.1f * 0.1f) + 0.49;
  EXPECT(fabs(out / sum - 1) < 2e-6, "%g, not %g", out, sum);
  EXPECT_OK(tc_blas_iamax(TC_F32, n, v, 1, &index));
  EXPECT(index == n - 5, "%d", (int)index);
  free(v);
}

// Overlapping vectors: as in the reference, one element after another.
static void test_overlaps(void) {
  double v[40], w[40];
  for (int i = 0; i < 40; i++) v[i] = w[i] = i;
  EXPECT_OK(tc_blas_copy(TC_F64, 30, v, 1, v + 1, 1));
  for (int i = 0; i < 31; i++) EXPECT(v[i] == 0, "%d: %g", i, v[i]);
  EXPECT_OK(tc_blas_axpy(TC_F64, 30, 1, w, 1, w + 1, 1));
  for (int i = 0; i < 31; i++) EXPECT(w[i] == i * (i + 1) / 2, "%d: %g", i, w[i]);
  EXPECT_OK(tc_blas_axpy(TC_F64, 40, 1, w, 1, w, 1));
  EXPECT(w[3] == 12, "%g", w[3]);
}

// ---- A matrix and vectors ----

typedef struct matrix {
  int64_t m, n, ld;
  bool is_row_major;
  size_t bytes;
  char *memory, *before;
} matrix;

static double element(const matrix *a, const char *memory, tc_type type, int64_t i, int64_t j) {
  int64_t at = a->is_row_major ? i * a->ld + j : i + j * a->ld;
  return type == TC_F64 ? ((const double *)memory)[at] : (double)((const float *)memory)[at];
}

static matrix make_matrix(tc_type type, bool is_row_major, int64_t m, int64_t n) {
  matrix a = {.m = m, .n = n, .is_row_major = is_row_major};
  int64_t length = is_row_major ? n : m, lines = is_row_major ? m : n;
  a.ld = length + 3;
  a.bytes = (size_t)(a.ld * (lines + 1) * size_of(type));
  a.memory = malloc(a.bytes);
  a.before = malloc(a.bytes);
  memset(a.memory, 0xff, a.bytes);
  for (int64_t j = 0; j < lines; j++)
    for (int64_t i = 0; i < length; i++) {
      if (type == TC_F64)
        ((double *)a.memory)[i + j * a.ld] = draw();
      else
        ((float *)a.memory)[i + j * a.ld] = (float)draw();
    }
  memcpy(a.before, a.memory, a.bytes);
  return a;
}

static void check_gemv(tc_type type, int bits, int64_t m, int64_t n, int64_t incx, int64_t incy, double alpha,
                       double beta) {
  matrix a = make_matrix(type, bits & 1, m, n);
  bool is_trans = bits & 2;
  int64_t x_length = is_trans ? m : n, y_length = is_trans ? n : m;
  fill(&x, type, x_length, incx);
  fill(&y, type, y_length, incy);
  for (int64_t i = 0; beta == 0 && i < y_length; i++) set(&y, i, NAN);
  tc_blas_gemv_call g = {.type = type, .order = bits & 1, .trans = is_trans, .m = m, .n = n, .alpha = alpha};
  g.a = alpha == 0 ? NULL : a.memory;
  g.lda = a.ld;
  g.x = alpha == 0 ? NULL : start(&x);
  g.incx = incx;
  g.beta = beta;
  g.y = start(&y);
  g.incy = incy;
  EXPECT_OK(tc_blas_gemv(&g));
  EXPECT(gaps_are_kept(&y) && memcmp(a.memory, a.before, a.bytes) == 0, "gemv %d x %d", (int)m, (int)n);
  for (int64_t i = 0; i < y_length; i++) {
    long double sum = 0, size = 0;
    for (int64_t p = 0; p < x_length; p++) {
      long double term = (long double)element(&a, a.memory, type, is_trans ? p : i, is_trans ? i : p) * get(&x, p);
      sum += term;
      size += fabsl(term);
    }
    long double want = alpha * sum + (beta == 0 ? 0 : beta * was(&y, i));
    long double bound = (long double)(x_length + 8) * eps_of(type) / 2 * (fabs(alpha) * size + fabs(beta * was(&y, i)));
    EXPECT(fabsl(get(&y, i) - want) <= bound, "gemv f%d bits %d %d x %d inc %d %d at %d: %g, not %Lg",
           size_of(type) * 8, bits, (int)m, (int)n, (int)incx, (int)incy, (int)i, get(&y, i), want);
  }
  free(a.memory);
  free(a.before);
}

static void check_ger(tc_type type, bool is_row_major, int64_t m, int64_t n, int64_t incx, int64_t incy, double alpha) {
  matrix a = make_matrix(type, is_row_major, m, n);
  fill(&x, type, m, incx);
  fill(&y, type, n, incy);
  tc_blas_ger_call g = {.type = type, .order = is_row_major, .m = m, .n = n, .alpha = alpha, .lda = a.ld};
  g.x = start(&x);
  g.incx = incx;
  g.y = start(&y);
  g.incy = incy;
  g.a = a.memory;
  EXPECT_OK(tc_blas_ger(&g));
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double old = element(&a, a.before, type, i, j), term = alpha * get(&x, i) * get(&y, j);
      double is = element(&a, a.memory, type, i, j);
      EXPECT(fabs(is - (old + term)) <= 2 * eps_of(type) * (fabs(old) + fabs(term)), "ger %d x %d at %d %d", (int)m,
             (int)n, (int)i, (int)j);
      int64_t at = (is_row_major ? i * a.ld + j : i + j * a.ld) * size_of(type);
      memcpy(a.memory + at, a.before + at, (size_t)size_of(type));
    }
  EXPECT(memcmp(a.memory, a.before, a.bytes) == 0, "ger writes gaps of %d x %d", (int)m, (int)n);
  free(a.memory);
  free(a.before);
}

static void test_matrices(tc_type type) {
  int count = 0;
  for (int i = 0; i < N_LENGTHS; i++)
    for (int bits = 0; bits < 4; bits++)
      for (int pair = 0; pair < 20; pair++, count++) {
        int64_t m = lengths[i], n = lengths[(i * 5 + pair + bits) % (m > 200 ? 6 : N_LENGTHS - 1)];
        if (count % 2) {
          int64_t other = m;
          m = n;
          n = other;
        }
        int64_t incx = increments[pair % 5], incy = increments[pair / 5];
        check_gemv(type, bits, m, n, incx, incy, factors[count % 4], factors[count / 4 % 4]);
        if (bits < 2) check_ger(type, bits, m, n, incx, incy, factors[count % 4]);
      }
  check_gemv(type, 2, 2500, 9, 2, 1, 1, 2.5);
  check_gemv(type, 0, 2500, 9, 2, 1, 1, 2.5);
}

static void test_errors(void) {
  double v[32] = {0}, out = 1;
  int64_t index;
  EXPECT(tc_blas_dot(TC_I32, 1, v, 1, v, 1, &out) == TC_ERR_DTYPE && out == 0, "a type");
  EXPECT(tc_blas_dot(TC_F64, -1, v, 1, v, 1, &out) == TC_ERR_ARG, "a size");
  EXPECT(tc_blas_dot(TC_F64, 1, NULL, 1, v, 1, &out) == TC_ERR_ARG, "NULL");
  EXPECT(tc_blas_dot(TC_F64, 1, v, 1, v, 1, NULL) == TC_ERR_ARG, "NULL out");
  EXPECT(tc_blas_axpy(TC_F64, INT64_MAX, 1, v, 1, v, 1) == TC_ERR_ARG, "beyond the address space");
  EXPECT(tc_blas_scal(TC_F64, 1, 2, v, 0) == TC_ERR_ARG && tc_blas_asum(TC_F64, 1, v, -1, &out) == TC_ERR_ARG,
         "an increment");
  EXPECT(tc_blas_nrm2(TC_F64, 1, NULL, 1, &out) == TC_ERR_ARG && tc_blas_iamax(TC_F64, 1, v, 1, NULL) == TC_ERR_ARG,
         "NULL");
  EXPECT_OK(tc_blas_iamax(TC_F64, 0, NULL, 1, &index));
  EXPECT(index == -1, "%d", (int)index);
  tc_blas_gemv_call g = {.type = TC_F64, .m = 2, .n = 2, .alpha = 1, .a = v, .lda = 2, .x = v + 8, .incx = 1};
  g.y = v + 16;
  EXPECT(tc_blas_gemv(&g) == TC_ERR_ARG, "incy 0");
  g.incy = 1;
  EXPECT_OK(tc_blas_gemv(&g));
  g.y = v + 9;
  EXPECT(tc_blas_gemv(&g) == TC_ERR_ARG && strstr(tc_last_error()->message, "y overlaps x"), "an overlap");
  g.y = v + 3;
  EXPECT(tc_blas_gemv(&g) == TC_ERR_ARG && strstr(tc_last_error()->message, "y overlaps a"), "an overlap");
  EXPECT(tc_blas_gemv(NULL) == TC_ERR_ARG && tc_blas_ger(NULL) == TC_ERR_ARG, "NULL");
  // Rows of one matrix: row 3 takes a product of rows 0 to 2.
  tc_blas_gemv_call row = {.type = TC_F64, .trans = TC_TRANS, .m = 3, .n = 4, .alpha = 1, .a = v, .lda = 4, .incx = 1};
  row.x = v + 20;
  row.y = v + 3;
  row.incy = 4;
  EXPECT_OK(tc_blas_gemv(&row));
}

int main(void) {
  for (tc_type type = TC_F32;; type = TC_F64) {
    test_vectors(type);
    test_matrices(type);
    if (type == TC_F64) break;
  }
  test_extremes();
  test_long_sums();
  test_overlaps();
  test_errors();
  return expect_done("blas-level12");
}
