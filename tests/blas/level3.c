// Triangular and symmetric products (tc/blas.h) against sums in long double: every combination of
// flags, odd sizes, gaps that stay as they are, triangles that are not read, and threads.
//
// A result may differ by (k + 8) roundings of the sum of its terms' magnitudes. For solves this
// holds for the residual, element by element, which is what substitution promises.
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tc/blas.h>

#include "tests/expect.h"

#define GUARD 8  // elements before and after a matrix

typedef enum routine { TRSM, TRMM, SYMM, SYRK, SYR2K, N_ROUTINES } routine;
static const char *const routine_names[] = {"trsm", "trmm", "symm", "syrk", "syr2k"};
static tc_status (*const routines[])(const tc_blas3_call *) = {tc_trsm, tc_trmm, tc_symm, tc_syrk, tc_syr2k};

typedef enum region { ALL, LOWER, UPPER, STRICTLY_LOWER, STRICTLY_UPPER } region;

// A matrix with gaps and guards of NaN; `region` holds numbers.
typedef struct matrix {
  tc_type type;
  tc_blas_order order;
  int64_t rows, cols, ld;
  region region;
  size_t bytes;
  char *memory, *before;  // before: what memory held when the call was made
} matrix;

static uint64_t seed = 1;

static double draw(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(int64_t)(seed >> 11) / (double)(1ll << 52) - 1;
}

static int size_of(tc_type type) {
  return type == TC_F64 ? 8 : 4;
}

static int64_t place(const matrix *x, int64_t i, int64_t j) {
  return GUARD + (x->order == TC_ROW_MAJOR ? i * x->ld + j : i + j * x->ld);
}

static double value_at(const matrix *x, const char *memory, int64_t i, int64_t j) {
  int64_t at = place(x, i, j);
  return x->type == TC_F64 ? ((const double *)memory)[at] : (double)((const float *)memory)[at];
}

static double get(const matrix *x, int64_t i, int64_t j) {
  return value_at(x, x->memory, i, j);
}

static void set(matrix *x, int64_t i, int64_t j, double value) {
  int64_t at = place(x, i, j);
  if (x->type == TC_F64)
    ((double *)x->memory)[at] = value;
  else
    ((float *)x->memory)[at] = (float)value;
}

static bool is_in(region region, int64_t i, int64_t j) {
  switch (region) {
    case LOWER: return i >= j;
    case UPPER: return i <= j;
    case STRICTLY_LOWER: return i > j;
    case STRICTLY_UPPER: return i < j;
    default: return true;
  }
}

static matrix make(tc_type type, tc_blas_order order, int64_t rows, int64_t cols, region region, int64_t gap) {
  matrix x = {.type = type, .order = order, .rows = rows, .cols = cols, .region = region};
  int64_t length = order == TC_ROW_MAJOR ? cols : rows, lines = order == TC_ROW_MAJOR ? rows : cols;
  x.ld = (length > 0 ? length : 1) + gap;
  x.bytes = (size_t)((x.ld * lines + 2 * GUARD) * size_of(type));
  x.memory = malloc(x.bytes);
  x.before = malloc(x.bytes);
  memset(x.memory, 0xff, x.bytes);
  for (int64_t j = 0; j < cols; j++)
    for (int64_t i = 0; i < rows; i++)
      if (is_in(region, i, j)) set(&x, i, j, draw());
  return x;
}

static void drop(matrix *x) {
  free(x->memory);
  free(x->before);
}

static void *start(const matrix *x) {
  return x->memory + GUARD * size_of(x->type);
}

// Whether nothing but x's region changed since `before`, as bits.
static bool rest_is_kept(matrix *x, bool is_output) {
  char *copy = malloc(x->bytes);
  memcpy(copy, x->memory, x->bytes);
  int bytes = size_of(x->type);
  for (int64_t j = 0; is_output && j < x->cols; j++)
    for (int64_t i = 0; i < x->rows; i++)
      if (is_in(x->region, i, j)) memcpy(copy + place(x, i, j) * bytes, x->before + place(x, i, j) * bytes, bytes);
  bool same = memcmp(copy, x->before, x->bytes) == 0;
  free(copy);
  return same;
}

// ---- One call ----

typedef struct trial {
  routine routine;
  tc_blas3_call call;
  matrix a, b, c;
} trial;

static region triangle_of(const tc_blas3_call *g, bool unit) {
  if (unit) return g->uplo == TC_LOWER ? STRICTLY_LOWER : STRICTLY_UPPER;
  return g->uplo == TC_LOWER ? LOWER : UPPER;
}

// Element (i, j) of a as the routine takes it: triangular, with its diagonal; symmetric; transposed.
static double operand(const trial *t, const matrix *x, int64_t i, int64_t j) {
  const tc_blas3_call *g = &t->call;
  if (t->routine >= SYRK) return g->trans == TC_TRANS ? get(x, j, i) : get(x, i, j);
  if (t->routine == SYMM) return is_in(x->region, i, j) ? get(x, i, j) : get(x, j, i);
  if (i == j && g->diag == TC_UNIT) return 1;
  if (g->trans == TC_TRANS) {
    int64_t row = i;
    i = j;
    j = row;
  }
  return is_in(x->region, i, j) ? get(x, i, j) : 0;
}

// Dense copies, rows side by side, so that sums are short to write and quick.
static double *dense_operand(const trial *t, const matrix *x, int64_t rows, int64_t cols) {
  double *out = malloc((size_t)(rows * cols + 1) * sizeof *out);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++) out[i * cols + j] = operand(t, x, i, j);
  return out;
}

static double *transpose(const double *x, int64_t rows, int64_t cols) {
  double *out = malloc((size_t)(rows * cols + 1) * sizeof *out);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++) out[j * rows + i] = x[i * cols + j];
  return out;
}

static double *plain(const matrix *x, const char *memory) {
  double *out = malloc((size_t)(x->rows * x->cols + 1) * sizeof *out);
  for (int64_t i = 0; i < x->rows; i++)
    for (int64_t j = 0; j < x->cols; j++) out[i * x->cols + j] = value_at(x, memory, i, j);
  return out;
}

// Adds sum_p x[p] * y[p] to *sum, and magnitudes to *size.
static void add_terms(const double *x, const double *y, int64_t k, long double *sum, long double *size) {
  for (int64_t p = 0; p < k; p++) {
    long double term = (long double)x[p] * (long double)y[p];
    *sum += term;
    *size += fabsl(term);
  }
}

// left * right^T, both as rows of k.
typedef struct product {
  double *left, *right;
  int64_t k;
} product;

static int products_of(const trial *t, product out[2]) {
  const tc_blas3_call *g = &t->call;
  int64_t m = t->c.rows, n = t->c.cols;
  if (t->routine >= SYRK) {
    out[0].k = g->k;
    out[0].left = dense_operand(t, &t->a, n, g->k);
    out[0].right = dense_operand(t, t->routine == SYRK ? &t->a : &t->b, n, g->k);
    out[1] = (product){out[0].right, out[0].left, g->k};
    return t->routine == SYRK ? 1 : 2;
  }
  // The matrix beside a: b, what c was, or for a solve what c became.
  const matrix *other = t->routine == SYMM ? &t->b : &t->c;
  double *beside = plain(other, t->routine == TRMM ? other->before : other->memory);
  int64_t order = g->side == TC_RIGHT ? n : m;
  double *a = dense_operand(t, &t->a, order, order);
  out[0].k = order;
  out[0].left = g->side == TC_RIGHT ? beside : a;
  out[0].right = g->side == TC_RIGHT ? transpose(a, n, n) : transpose(beside, m, n);
  free(g->side == TC_RIGHT ? a : beside);
  return 1;
}

// Whether an element is as near as it must be.
static bool is_right(const trial *t, const product *products, int n_products, int64_t i, int64_t j) {
  const tc_blas3_call *g = &t->call;
  double eps = g->type == TC_F64 ? DBL_EPSILON / 2 : FLT_EPSILON / 2;
  long double sum = 0, size = 0, was = value_at(&t->c, t->c.before, i, j);
  double is = get(&t->c, i, j);
  for (int p = 0; p < n_products; p++)
    add_terms(products[p].left + i * products[p].k, products[p].right + j * products[p].k, products[p].k, &sum, &size);
  long double bound = (long double)(products[0].k * n_products + 8) * eps;
  if (t->routine == TRSM) return fabsl(sum - g->alpha * was) <= bound * (size + fabsl(g->alpha * was));
  long double want = g->alpha * sum, all = fabsl((long double)g->alpha) * size;
  if (t->routine != TRMM && g->beta != 0) {
    want += g->beta * was;
    all += fabsl(g->beta * was);
  }
  return fabsl(is - want) <= bound * all;
}

static void describe(const trial *t, char *out, size_t bytes) {
  const tc_blas3_call *g = &t->call;
  snprintf(out, bytes, "%s %s%s%s%s%s%s m %lld n %lld k %lld alpha %g beta %g", routine_names[t->routine],
           g->type == TC_F64 ? "f64" : "f32", g->order ? " row" : " col", g->side ? " right" : " left",
           g->uplo ? " upper" : " lower", g->trans ? " trans" : "", g->diag ? " unit" : "", (long long)g->m,
           (long long)g->n, (long long)g->k, g->alpha, g->beta);
}

static void check(trial *t) {
  char what[200];
  describe(t, what, sizeof what);
  EXPECT(rest_is_kept(&t->a, false) && rest_is_kept(&t->b, false), "%s: an operand changed", what);
  EXPECT(rest_is_kept(&t->c, true), "%s: what is not c's changed", what);
  if (t->call.alpha == 0 || (t->routine >= SYRK && t->call.k == 0)) {
    double beta = t->routine <= TRMM ? 0 : t->call.beta;
    for (int64_t i = 0; i < t->c.rows; i++)
      for (int64_t j = 0; j < t->c.cols; j++) {
        if (!is_in(t->c.region, i, j)) continue;
        double want = beta == 0 ? 0 : beta * value_at(&t->c, t->c.before, i, j);
        if (t->call.type == TC_F32) want = (float)want;
        EXPECT(get(&t->c, i, j) == want, "%s: (%lld, %lld) is %g", what, (long long)i, (long long)j, get(&t->c, i, j));
      }
    return;
  }
  product products[2];
  int n_products = products_of(t, products), wrong = 0;
  for (int64_t i = 0; i < t->c.rows; i++)
    for (int64_t j = 0; j < t->c.cols; j++)
      if (is_in(t->c.region, i, j) && !is_right(t, products, n_products, i, j) && wrong++ == 0)
        EXPECT(false, "%s: (%lld, %lld) is %g", what, (long long)i, (long long)j, get(&t->c, i, j));
  free(products[0].left);
  free(products[0].right);
}

// Diagonals that keep solutions from growing without bound.
static void strengthen(matrix *a) {
  for (int64_t i = 0; i < a->rows; i++)
    if (is_in(a->region, i, i)) set(a, i, i, (draw() < 0 ? -1 : 1) * (1 + fabs(draw())) * (1 + sqrt(a->rows) / 2));
  for (int64_t j = 0; j < a->cols; j++)
    for (int64_t i = 0; i < a->rows; i++)
      if (i != j && is_in(a->region, i, j) && a->region >= STRICTLY_LOWER) set(a, i, j, get(a, i, j) / a->rows);
}

static trial make_trial(routine r, const tc_blas3_call *call, int64_t gap) {
  trial t = {.routine = r, .call = *call};
  tc_blas3_call *g = &t.call;
  bool is_update = r >= SYRK, swaps = is_update && g->trans == TC_TRANS;
  int64_t order = g->side == TC_RIGHT ? g->n : g->m;
  if (is_update)
    t.a = make(g->type, g->order, swaps ? g->k : g->n, swaps ? g->n : g->k, ALL, gap);
  else
    t.a = make(g->type, g->order, order, order, triangle_of(g, r <= TRMM && g->diag == TC_UNIT), gap);
  if (r == TRSM) strengthen(&t.a);
  if (is_update)
    t.b = make(g->type, g->order, t.a.rows, t.a.cols, ALL, gap + 1);
  else
    t.b = make(g->type, g->order, g->m, g->n, ALL, gap + 1);
  if (is_update) g->m = g->n;
  t.c = make(g->type, g->order, g->m, g->n, is_update ? triangle_of(g, false) : ALL, gap + 2);
  bool overwrites = r > TRMM && g->beta == 0;
  for (int64_t i = 0; overwrites && i < g->m && i < g->n; i++) set(&t.c, i, i, NAN);
  g->a = start(&t.a);
  g->lda = t.a.ld;
  if (r == SYMM || r == SYR2K) {
    g->b = start(&t.b);
    g->ldb = t.b.ld;
  }
  if (g->alpha == 0) {
    g->a = NULL;
    g->b = NULL;
  }
  g->c = start(&t.c);
  g->ldc = t.c.ld;
  return t;
}

static void drop_trial(trial *t) {
  drop(&t->a);
  drop(&t->b);
  drop(&t->c);
}

static void keep(trial *t) {
  memcpy(t->a.before, t->a.memory, t->a.bytes);
  memcpy(t->b.before, t->b.memory, t->b.bytes);
  memcpy(t->c.before, t->c.memory, t->c.bytes);
}

// The same call with other numbers of threads gives the same bits.
static void check_threads(trial *t) {
  char *first = malloc(t->c.bytes);
  memcpy(first, t->c.memory, t->c.bytes);
  for (int threads = 2; threads <= 4; threads++) {
    memcpy(t->c.memory, t->c.before, t->c.bytes);
    t->call.max_threads = threads;
    EXPECT_OK(routines[t->routine](&t->call));
    EXPECT(memcmp(first, t->c.memory, t->c.bytes) == 0, "%s: %d threads give other bits", routine_names[t->routine],
           threads);
  }
  free(first);
}

static void run(routine r, tc_blas3_call call, int64_t gap, bool with_threads) {
  call.max_threads = 1;
  trial t = make_trial(r, &call, gap);
  keep(&t);
  EXPECT_OK(routines[r](&t.call));
  check(&t);
  if (with_threads) check_threads(&t);
  drop_trial(&t);
}

// ---- Combinations ----

static const int64_t sizes[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 129, 200};
static const double factors[] = {1, 0, -1, 2.5};
#define N_SIZES ((int)(sizeof sizes / sizeof *sizes))

static tc_blas3_call flags_of(int bits) {
  tc_blas3_call g = {.type = bits & 1 ? TC_F32 : TC_F64};
  g.order = bits >> 1 & 1;
  g.uplo = bits >> 2 & 1;
  g.side = bits >> 3 & 1;
  g.trans = bits >> 4 & 1;
  g.diag = bits >> 5 & 1;
  return g;
}

#ifdef __SANITIZE_ADDRESS__
enum { APART = 3 };  // each access is looked at: a size of three for the flags, by turns
#else
enum { APART = 1 };
#endif

static void test_combinations(routine r) {
  int count = 0;
  for (int bits = 0; bits < 64; bits++) {
    tc_blas3_call g = flags_of(bits);
    if (r >= SYMM && g.diag == TC_UNIT) continue;
    if (r == SYMM && g.trans == TC_TRANS) continue;
    if (r >= SYRK && g.side == TC_RIGHT) continue;
    for (int i = bits % APART; i < N_SIZES; i += APART) {
      // Large sizes meet each other a quarter of the time.
      int other = (i * 7 + bits * 5 + r) % N_SIZES;
      if (sizes[i] >= 100 && (bits + i) % 4 != 0) other %= 9;
      g.m = sizes[i];
      g.n = sizes[other];
      g.k = sizes[(i * 3 + bits) % (sizes[i] >= 100 ? 9 : N_SIZES)];
      g.alpha = factors[count % 4];
      g.beta = factors[count / 4 % 4];
      if (g.alpha == 0 && i % 3 != 0) g.alpha = 1;
      count++;
      run(r, g, count % 3 * 2, false);
    }
  }
}

// Several blocks of the triangle and of k, in every direction; and threads.
static void test_blocks(routine r) {
  static const int64_t large[][3] = {{300, 77, 350}, {70, 410, 50}, {401, 130, 660}};
  for (int bits = 0; bits < 64; bits++) {
    tc_blas3_call g = flags_of(bits);
    if ((bits * 5 + r) % 3 != 0) continue;
    const int64_t *size = large[bits / 3 % 3];
    g.m = size[0];
    g.n = size[1];
    g.k = size[2];
    g.alpha = -1;
    g.beta = 2.5;
    if (r >= SYMM) g.diag = TC_NON_UNIT;
    if (r == SYMM) g.trans = TC_NO_TRANS;
    if (r >= SYRK) g.side = TC_LEFT;
    run(r, g, 1, true);
  }
}

// A diagonal of tiny and huge numbers, and one whose reciprocals are infinite, keep small residuals.
static void test_hard_triangles(void) {
  for (int bits = 0; bits < 32; bits++)
    for (int kind = 0; kind < 3; kind++) {
      tc_blas3_call g = flags_of(bits);
      bool is_right = g.side == TC_RIGHT;
      g.m = is_right ? 19 : 67;
      g.n = is_right ? 67 : 19;
      g.alpha = 1;
      trial t = make_trial(TRSM, &g, 1);
      bool is_f32 = g.type == TC_F32;
      for (int64_t i = 0; i < 67; i++) {
        double d = get(&t.a, i, i);
        if (kind == 0) set(&t.a, i, i, ldexp(d, i % 2 ? 12 : -2));
        if (kind == 2 && i % 5 == 2) set(&t.a, i, i, is_f32 ? 0x1p-140 : 0x1p-1070);
        for (int64_t j = 0; j < 67; j++)
          // kind 1: rows that grow by 2^i where blocks are inverted; kind 2: a small diagonal alone.
          if (i != j && is_in(t.a.region, i, j)) set(&t.a, i, j, kind == 1 ? -1 : kind == 2 ? 0 : get(&t.a, i, j));
        if (kind == 1) set(&t.a, i, i, 1 + (double)(i % 3));
      }
      double scale = kind == 2 ? (is_f32 ? 0x1p-130 : 0x1p-1040) : 1;
      for (int64_t i = 0; i < t.c.rows; i++)
        for (int64_t j = 0; j < t.c.cols; j++) set(&t.c, i, j, kind == 2 ? scale : get(&t.c, i, j));
      keep(&t);
      EXPECT_OK(tc_trsm(&t.call));
      for (int64_t i = 0; kind == 2 && i < t.c.rows; i++)
        for (int64_t j = 0; j < t.c.cols; j++)
          EXPECT(isfinite(get(&t.c, i, j)), "a small diagonal: (%d, %d) is %g", (int)i, (int)j, get(&t.c, i, j));
      if (kind != 2) check(&t);
      drop_trial(&t);
    }
}

// Elements that the triangle does not meet keep a NaN or an infinity of c's away.
static void test_nan_stays(void) {
  for (int bits = 0; bits < 64; bits++)
    for (routine r = TRSM; r <= TRMM; r++) {
      tc_blas3_call g = flags_of(bits);
      g.m = g.n = 21;
      g.alpha = 1;
      trial t = make_trial(r, &g, 0);
      // Of a solve or a product lines from this one on may be reached, or up to it.
      int64_t line = 10;
      bool is_right = g.side == TC_RIGHT;
      for (int64_t j = 0; j < 21; j++) set(&t.c, is_right ? j : line, is_right ? line : j, bits & 1 ? INFINITY : NAN);
      EXPECT_OK(routines[r](&t.call));
      bool is_upper = (g.uplo == TC_UPPER) != (is_right != (g.trans == TC_TRANS));
      for (int64_t i = 0; i < 21; i++)
        for (int64_t j = 0; j < 21; j++) {
          bool finite = isfinite(is_right ? get(&t.c, j, i) : get(&t.c, i, j));
          EXPECT(finite == (is_upper ? i > line : i < line), "%s: NaN in line 10 and line %lld: bits %d",
                 routine_names[r], (long long)i, bits);
        }
      drop_trial(&t);
    }
}

// ---- Errors ----

static void expect_refused(routine r, const tc_blas3_call *call, tc_status status, const char *text) {
  tc_status got = routines[r](call);
  const char *message = tc_last_error() ? tc_last_error()->message : "";
  EXPECT(got == status && strstr(message, text), "%s: status %d, \"%s\" without \"%s\"", routine_names[r], (int)got,
         message, text);
}

static void test_errors(void) {
  double memory[64] = {1}, other[64] = {1};
  for (routine r = TRSM; r < N_ROUTINES; r++) {
    tc_blas3_call good = {.type = TC_F64, .m = 4, .n = 4, .k = 4, .alpha = 1, .a = memory, .lda = 4, .ldc = 4};
    good.c = other;
    good.b = memory;
    good.ldb = 4;
    EXPECT_OK(routines[r](&good));
    EXPECT(routines[r](NULL) == TC_ERR_ARG, "%s takes NULL", routine_names[r]);
#define REFUSE(field, value, status, text) \
  do { \
    tc_blas3_call bad = good; \
    bad.field = value; \
    expect_refused(r, &bad, status, text); \
  } while (0)
    REFUSE(type, TC_I32, TC_ERR_DTYPE, "type");
    REFUSE(order, 2, TC_ERR_ARG, "order");
    REFUSE(side, 2, TC_ERR_ARG, "side");
    REFUSE(uplo, 2, TC_ERR_ARG, "uplo");
    REFUSE(trans, 2, TC_ERR_ARG, "trans");
    REFUSE(diag, 2, TC_ERR_ARG, "diag");
    REFUSE(n, -1, TC_ERR_ARG, "negative");
    REFUSE(lda, 3, TC_ERR_ARG, "lda");
    REFUSE(ldc, 3, TC_ERR_ARG, "ldc");
    REFUSE(a, NULL, TC_ERR_ARG, "a is NULL");
    REFUSE(c, NULL, TC_ERR_ARG, "c is NULL");
    REFUSE(max_threads, -1, TC_ERR_ARG, "max_threads");
    REFUSE(c, memory + 8, TC_ERR_ARG, "c overlaps a");
    REFUSE(ldc, INT64_MAX / 2, TC_ERR_ARG, "address space");
    if (r <= SYMM) REFUSE(m, -1, TC_ERR_ARG, "negative");
    if (r >= SYRK) REFUSE(k, -1, TC_ERR_ARG, "negative");
    if (r == SYMM || r == SYR2K) {
      REFUSE(b, NULL, TC_ERR_ARG, "b is NULL");
      REFUSE(b, other + 2, TC_ERR_ARG, "c overlaps b");
      REFUSE(ldb, 3, TC_ERR_ARG, "ldb");
    }
#undef REFUSE
  }
}

// A panel of one matrix updates the block below it: rows differ, and bytes interleave.
static void test_blocks_of_one_matrix(void) {
  double x[12 * 12];
  for (int i = 0; i < 144; i++) x[i] = i % 13 == 0 ? 4 : 0.25;
  tc_blas3_call solve = {
      .type = TC_F64, .side = TC_RIGHT, .trans = TC_TRANS, .m = 8, .n = 4, .alpha = 1, .lda = 12, .ldc = 12};
  solve.a = x;
  solve.c = x + 4;
  EXPECT_OK(tc_trsm(&solve));
  tc_blas3_call update = {.type = TC_F64, .n = 8, .k = 4, .alpha = -1, .beta = 1, .lda = 12, .ldc = 12};
  update.a = x + 4;
  update.c = x + 4 + 4 * 12;
  EXPECT_OK(tc_syrk(&update));
  // Each row of the panel is 0.25 * (1, 1, 1, 1) over the triangle.
  double want[4], sum = 0;
  for (int j = 0; j < 4; j++) {
    want[j] = 0.25;
    for (int p = 0; p < j; p++) want[j] -= 0.25 * want[p];
    want[j] /= 4;
    sum += want[j] * want[j];
    EXPECT(fabs(x[7 + j * 12] - want[j]) < 1e-15, "column %d is %g, not %g", j, x[7 + j * 12], want[j]);
  }
  EXPECT(fabs(x[4 + 4 * 12] - (4 - sum)) < 1e-14, "the updated diagonal is %g", x[4 + 4 * 12]);
}

int main(void) {
  EXPECT_OK(tc_set_num_threads(4));
  for (routine r = TRSM; r < N_ROUTINES; r++) test_combinations(r);
  for (routine r = TRSM; r < N_ROUTINES; r++) test_blocks(r);
  test_hard_triangles();
  test_nan_stays();
  test_errors();
  test_blocks_of_one_matrix();
  return expect_done("blas-level3");
}
