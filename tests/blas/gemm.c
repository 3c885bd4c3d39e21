// tc_gemm against sums in long double: types, orders, transpositions, sizes around those of tiles,
// alpha and beta. Operands end or begin at a page that must not be touched, and gaps between
// columns keep their bytes. Bits are the same by every road; wrong calls are refused.
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <tc/blas.h>
#include <unistd.h>

#include "runtime/arena.h"
#include "tests/expect.h"

static uint64_t seed = 1;

static uint32_t draw(uint32_t below) {
  seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (uint32_t)(seed >> 33) % below;
}

static size_t bytes_of(tc_type type) {
  return type == TC_F64 ? 8 : type == TC_F32 ? 4 : 2;
}

// Memory between two pages that nobody may touch.
enum { ROOM = 1 << 21 };
typedef struct room {
  char *at;
} room;

static room room_make(void) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *all = mmap(NULL, ROOM + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(all != MAP_FAILED && mprotect(all + page, ROOM, PROT_READ | PROT_WRITE) == 0, "no memory");
  return (room){all + page};
}

// Where a matrix of so many bytes lies: at the end of the room, or at its beginning.
static void *room_place(room r, int64_t bytes, bool at_end) {
  return at_end ? r.at + ROOM - bytes : r.at;
}

static double element(tc_type type, const void *p, int64_t i) {
  if (type == TC_F64) return ((const double *)p)[i];
  if (type == TC_F32) return (double)((const float *)p)[i];
  uint16_t h = ((const uint16_t *)p)[i];
  if (type == TC_BF16) {
    uint32_t bits = (uint32_t)h << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
  }
  double x = h >> 10 & 31 ? ldexp(1024 + (h & 1023), (h >> 10 & 31) - 25) : ldexp(h & 1023, -24);
  return h & 0x8000 ? -x : x;
}

// Numbers from -1 to 1; halves of all sizes but for infinities and NaN.
static void set_element(tc_type type, void *p, int64_t i) {
  double x = (double)draw(20001) / 10000 - 1;
  if (type == TC_F64)
    ((double *)p)[i] = x;
  else if (type == TC_F32)
    ((float *)p)[i] = (float)x;
  else if (type == TC_F16)
    ((uint16_t *)p)[i] = (uint16_t)(draw(2) << 15 | draw(16 << 10));
  else
    ((uint16_t *)p)[i] = (uint16_t)(draw(2) << 15 | (120 + draw(8)) << 7 | draw(128));
}

typedef struct matrix {
  int64_t rows, cols, ld;  // as it lies: columns of unit stride
  tc_type type;
  void *at;
} matrix;

static int64_t length(const matrix *x) {
  return x->rows == 0 || x->cols == 0 ? 0 : (x->cols - 1) * x->ld + x->rows;
}

static matrix matrix_make(room r, tc_type type, int64_t rows, int64_t cols, int64_t pad) {
  matrix x = {rows, cols, (rows ? rows : 1) + pad, type, NULL};
  x.at = room_place(r, length(&x) * (int64_t)bytes_of(type), draw(2));
  for (int64_t i = 0; i < length(&x); i++) set_element(type, x.at, i);
  return x;
}

typedef struct problem {
  tc_gemm_call call;
  matrix a, b, c;
} problem;

static problem problem_make(const room *rooms, tc_gemm_call g, int64_t pad) {
  bool row = g.order == TC_ROW_MAJOR, ta = (g.transa == TC_TRANS) != row, tb = (g.transb == TC_TRANS) != row;
  problem p = {.call = g};
  p.a = matrix_make(rooms[0], g.type, ta ? g.k : g.m, ta ? g.m : g.k, pad);
  p.b = matrix_make(rooms[1], g.type, tb ? g.n : g.k, tb ? g.k : g.n, pad);
  p.c = matrix_make(rooms[2], g.type == TC_F64 ? TC_F64 : TC_F32, row ? g.n : g.m, row ? g.m : g.n, pad);
  p.call.a = p.a.at;
  p.call.lda = p.a.ld;
  p.call.b = p.b.at;
  p.call.ldb = p.b.ld;
  p.call.c = p.c.at;
  p.call.ldc = p.c.ld;
  return p;
}

// Element (i, j) of op(x), or of c.
static int64_t at(const matrix *x, tc_blas_order order, tc_blas_trans trans, int64_t i, int64_t j) {
  return (order == TC_ROW_MAJOR) != (trans == TC_TRANS) ? i * x->ld + j : i + j * x->ld;
}

// Whether c is right within the bound of a sum of k rounded products; `before` is c before the call.
// Sets its elements in `before` to those of c, so that gaps alone are left to compare.
static bool is_right(const problem *p, void *before) {
  const tc_gemm_call *g = &p->call;
  size_t bytes = bytes_of(p->c.type);
  double eps = p->c.type == TC_F64 ? 0x1p-53 : 0x1p-24;
  bool right = true;
  for (int64_t j = 0; j < g->n; j++)
    for (int64_t i = 0; i < g->m; i++) {
      long double sum = 0, size = 0;
      for (int64_t l = 0; l < g->k && g->alpha != 0; l++) {
        long double x = element(g->type, p->a.at, at(&p->a, g->order, g->transa, i, l));
        long double y = element(g->type, p->b.at, at(&p->b, g->order, g->transb, l, j));
        sum += x * y;
        size += fabsl(x * y);
      }
      int64_t here = at(&p->c, g->order, TC_NO_TRANS, i, j);
      long double old = g->beta == 0 ? 0 : (long double)element(p->c.type, before, here) * g->beta;
      long double error = fabsl(g->alpha * sum + old - element(p->c.type, p->c.at, here));
      if (!(error <= (long double)(g->k + 4) * eps * (fabsl(g->alpha * size) + fabsl(old)))) right = false;
      memcpy((char *)before + (size_t)here * bytes, (char *)p->c.at + (size_t)here * bytes, bytes);
    }
  return right;
}

static void check(const room *rooms, tc_gemm_call g, int64_t pad) {
  problem p = problem_make(rooms, g, pad);
  size_t c_bytes = (size_t)length(&p.c) * bytes_of(p.c.type);
  if (g.beta == 0 && c_bytes) memset(p.c.at, 0xff, c_bytes);  // NaN, gaps too
  void *before = malloc(c_bytes + 1);
  if (c_bytes) memcpy(before, p.c.at, c_bytes);
  EXPECT_OK(tc_gemm(&p.call));
  bool right = is_right(&p, before);
  EXPECT(right && (c_bytes == 0 || memcmp(before, p.c.at, c_bytes) == 0),
         "type %d order %d trans %d %d m %d n %d k %d alpha %g beta %g pad %d threads %d: %s", (int)g.type,
         (int)g.order, (int)g.transa, (int)g.transb, (int)g.m, (int)g.n, (int)g.k, g.alpha, g.beta, (int)pad,
         g.max_threads, right ? "a gap was written" : "wrong values");
  free(before);
}

static void values_are_right(const room *rooms) {
  static const int16_t sizes[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 0, 100, 129, 300};
  static const double scalars[] = {0, 1, -1, 2.5};
  static const tc_type types[] = {TC_F64, TC_F32, TC_F64, TC_F32, TC_F16, TC_BF16};
  for (int i = 0; i < 4000; i++) {
    uint32_t most = i % 64 == 0 ? 19 : i % 8 == 0 ? 16 : 12;
    tc_gemm_call g = {.type = types[draw(6)], .order = draw(2), .transa = draw(2), .transb = draw(2)};
    g.m = sizes[draw(most)];
    g.n = sizes[draw(most)];
    g.k = i % 512 == 0 ? 700 : sizes[draw(most)];
    g.alpha = scalars[draw(8) < 6 ? 1 + draw(3) : 0];
    g.beta = scalars[draw(4)];
    g.max_threads = (int)draw(3);
    check(rooms, g, draw(2) * 3);
  }
}

// ---- Bits ----

// The bytes of c without gaps, column-major.
static void *result_of(const problem *p) {
  size_t bytes = bytes_of(p->c.type);
  char *out = malloc((size_t)(p->call.m * p->call.n) * bytes + 1);
  EXPECT_OK(tc_gemm(&p->call));
  for (int64_t j = 0; j < p->call.n; j++)
    for (int64_t i = 0; i < p->call.m; i++)
      memcpy(out + (size_t)(i + j * p->call.m) * bytes,
             (char *)p->c.at + (size_t)at(&p->c, p->call.order, TC_NO_TRANS, i, j) * bytes, bytes);
  return out;
}

// Gives the operands of `to` the values that those of `from` have.
static void copy_operand(const problem *from, const problem *to, bool is_a) {
  const matrix *x = is_a ? &from->a : &from->b, *y = is_a ? &to->a : &to->b;
  int64_t rows = is_a ? from->call.m : from->call.k, cols = is_a ? from->call.k : from->call.n;
  size_t bytes = bytes_of(x->type);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++)
      memcpy(
          (char *)y->at + (size_t)at(y, to->call.order, is_a ? to->call.transa : to->call.transb, i, j) * bytes,
          (char *)x->at + (size_t)at(x, from->call.order, is_a ? from->call.transa : from->call.transb, i, j) * bytes,
          bytes);
}

// The same product by other orders, transpositions, leading dimensions and threads; and a block of
// it alone.
static void bits_are_equal(const room *rooms) {
  static const int16_t sizes[][3] = {{8, 8, 8},       {30, 17, 50},    {100, 90, 110},
                                     {161, 170, 150}, {300, 260, 180}, {70, 300, 700}};
  for (int s = 0; s < 6; s++)
    for (int t = 0; t < 4; t++) {
      static const tc_type types[] = {TC_F64, TC_F32, TC_F16, TC_BF16};
      tc_gemm_call g = {.type = types[t], .m = sizes[s][0], .n = sizes[s][1], .k = sizes[s][2], .alpha = 1.7};
      size_t bytes = t == 0 ? 8 : 4;
      g.max_threads = 1;
      problem first = problem_make(rooms, g, 0);
      char *want = result_of(&first);
      for (int way = 0; way < 8; way++) {
        g.max_threads = way % 3 == 1 ? 1 : 2;
        g.order = way & 1;
        g.transa = way >> 1 & 1;
        g.transb = way >> 2 & 1;
        problem other = problem_make(rooms + 3, g, way % 3);
        copy_operand(&first, &other, true);
        copy_operand(&first, &other, false);
        char *got = result_of(&other);
        EXPECT(memcmp(want, got, (size_t)(g.m * g.n) * bytes) == 0, "sizes %d type %d way %d", s, t, way);
        free(got);
      }
      problem block = first;
      block.call.m -= 5;
      block.call.n = block.call.n / 2 + 1;
      block.call.a = (char *)first.a.at + 5 * bytes_of(g.type);
      char *got = result_of(&block);
      for (int64_t j = 0; j < block.call.n; j++)
        EXPECT(memcmp(want + (size_t)(5 + j * first.call.m) * bytes, got + (size_t)(j * block.call.m) * bytes,
                      (size_t)block.call.m * bytes) == 0,
               "sizes %d type %d: column %d of a block", s, t, (int)j);
      free(got);
      free(want);
    }
}

// ---- Rules ----

#define REFUSES(call, code, words) \
  do { \
    tc_clear_error(); \
    tc_status st = tc_gemm(call); \
    EXPECT(st == (code) && strstr(tc_last_error()->message, words), "status %d, should say \"%s\"", (int)st, words); \
    tc_clear_error(); \
  } while (0)

static void nan_rules_hold(void) {
  double a[4] = {NAN, NAN, NAN, NAN}, b[4] = {1, 2, 3, 4}, c[4] = {NAN, NAN, NAN, NAN};
  tc_gemm_call g = {
      .type = TC_F64, .m = 2, .n = 2, .k = 2, .alpha = 0, .a = a, .lda = 2, .b = b, .ldb = 2, .c = c, .ldc = 2};
  EXPECT_OK(tc_gemm(&g));
  EXPECT(c[0] == 0 && c[3] == 0, "alpha 0 and beta 0 give %g", c[0]);
  c[0] = 3;
  g.beta = -2;
  g.a = g.b = NULL;
  EXPECT_OK(tc_gemm(&g));
  EXPECT(c[0] == -6, "beta -2 gives %g", c[0]);
  g.alpha = 1;
  g.k = 0;
  EXPECT_OK(tc_gemm(&g));
  EXPECT(c[0] == 12, "k 0 gives %g", c[0]);
  g.k = 2;
  g.a = a;
  g.b = b;
  g.beta = 0;
  EXPECT_OK(tc_gemm(&g));
  EXPECT(isnan(c[0]) && isnan(c[3]), "NaN in a gives %g", c[0]);
  a[0] = 1, a[1] = INFINITY, a[2] = 0, a[3] = 0;
  b[0] = 0;
  EXPECT_OK(tc_gemm(&g));
  EXPECT(c[0] == 0 && isnan(c[1]), "infinity times 0 gives %g", c[1]);
}

static void wrong_calls_are_refused(void) {
  float x[64] = {0}, y[64] = {0}, z[64] = {0};
  const tc_gemm_call good = {.type = TC_F32,
                             .m = 4,
                             .n = 4,
                             .k = 4,
                             .alpha = 1,
                             .a = x,
                             .lda = 4,
                             .b = y,
                             .ldb = 4,
                             .beta = 1,
                             .c = z,
                             .ldc = 4};
  EXPECT_OK(tc_gemm(&good));
  REFUSES(NULL, TC_ERR_ARG, "NULL");
#define WRONG(field, value, code, words) \
  do { \
    tc_gemm_call g = good; \
    g.field = (value); \
    REFUSES(&g, code, words); \
  } while (0)
  WRONG(type, TC_I32, TC_ERR_DTYPE, "type");
  WRONG(order, (tc_blas_order)2, TC_ERR_ARG, "order is 2");
  WRONG(transa, (tc_blas_trans)7, TC_ERR_ARG, "transa is 7");
  WRONG(m, -1, TC_ERR_ARG, "m is -1");
  WRONG(n, -1, TC_ERR_ARG, "n -1");
  WRONG(k, INT64_MIN, TC_ERR_ARG, "negative");
  WRONG(max_threads, -1, TC_ERR_ARG, "max_threads -1");
  WRONG(lda, 3, TC_ERR_ARG, "lda is 3; at least 4");
  WRONG(ldb, 3, TC_ERR_ARG, "ldb is 3; at least 4");
  WRONG(ldc, 0, TC_ERR_ARG, "ldc is 0; at least 4");
  WRONG(a, NULL, TC_ERR_ARG, "a is NULL");
  WRONG(b, NULL, TC_ERR_ARG, "b is NULL");
  WRONG(c, NULL, TC_ERR_ARG, "c is NULL");
  WRONG(c, x, TC_ERR_ARG, "c overlaps a");
  WRONG(c, x + 15, TC_ERR_ARG, "c overlaps a");
  WRONG(b, z + 15, TC_ERR_ARG, "c overlaps b");
  for (int i = 0; i < 64; i++) EXPECT(z[i] == 0, "element %d was written", i);
}

// Blocks of one matrix, as a factorization updates it: a22 -= a21 * a12.
static void blocks_of_one_matrix(void) {
  enum { N = 12, B = 4 };
  double s[N * N];
  for (int i = 0; i < N * N; i++) s[i] = i % 7 - 3;
  double want = s[N * N - 1];
  for (int l = 0; l < B; l++) want -= s[N - 1 + l * N] * s[l + (N - 1) * N];
  tc_gemm_call g = {.type = TC_F64,
                    .m = N - B,
                    .n = N - B,
                    .k = B,
                    .alpha = -1,
                    .a = s + B,
                    .lda = N,
                    .b = s + B * N,
                    .ldb = N,
                    .beta = 1,
                    .c = s + B + B * N,
                    .ldc = N};
  EXPECT_OK(tc_gemm(&g));
  EXPECT(s[N * N - 1] == want, "%g, not %g", s[N * N - 1], want);
  g.b = s + 1 + B * N;  // its last row is the first one of c
  REFUSES(&g, TC_ERR_ARG, "c overlaps b");
  g.ldb = N + 1;
  g.b = s + B * N;
  REFUSES(&g, TC_ERR_ARG, "c overlaps b");
}

static void sizes_have_64_bits(void) {
  const int64_t huge = INT64_C(1) << 40, beyond = (INT64_C(1) << 31) + 5;
  double x[4] = {1, 2, 3, 4};
  EXPECT_OK(tc_gemm(
      &(tc_gemm_call){.type = TC_F64, .m = 0, .n = huge, .k = huge, .alpha = 1, .lda = 1, .ldb = huge, .ldc = 1}));
  EXPECT_OK(tc_gemm(&(tc_gemm_call){
      .type = TC_F64, .m = beyond, .n = 0, .k = 5, .alpha = 1, .lda = beyond, .ldb = 5, .ldc = beyond}));
  EXPECT_OK(tc_gemm(&(tc_gemm_call){
      .type = TC_F64, .m = 2, .n = 2, .k = beyond, .alpha = 0, .lda = 2, .ldb = beyond, .beta = 2, .c = x, .ldc = 2}));
  EXPECT(x[0] == 2 && x[3] == 8, "%g %g", x[0], x[3]);
  // An int would take lda for 4, and be content.
  REFUSES(&((tc_gemm_call){.type = TC_F64,
                           .m = 4,
                           .n = 1,
                           .k = 1,
                           .alpha = 1,
                           .a = x,
                           .lda = (INT64_C(1) << 32) + 4,
                           .b = x,
                           .ldb = 1,
                           .c = x,
                           .ldc = 4}),
          TC_ERR_ARG, "overlaps");
  REFUSES(&((tc_gemm_call){.type = TC_F64,
                           .m = huge,
                           .n = huge,
                           .k = 1,
                           .alpha = 1,
                           .a = x,
                           .lda = huge,
                           .b = x,
                           .ldb = 1,
                           .c = x,
                           .ldc = huge}),
          TC_ERR_ARG, "address space");
  REFUSES(&((tc_gemm_call){.type = TC_F64,
                           .m = INT64_MAX,
                           .n = 2,
                           .k = INT64_MAX,
                           .alpha = 1,
                           .a = x,
                           .lda = INT64_MAX,
                           .b = x,
                           .ldb = INT64_MAX,
                           .c = x,
                           .ldc = INT64_MAX}),
          TC_ERR_ARG, "address space");
}

// ---- Batches ----

enum { COUNT = 23, SIZE = 13 };

static void batches_are_products(void) {
  static float a[COUNT][SIZE * SIZE], b[COUNT][SIZE * SIZE], c[COUNT][SIZE * SIZE], want[COUNT][SIZE * SIZE];
  const void *as[COUNT], *bs[COUNT];
  void *cs[COUNT];
  tc_gemm_call g = {.type = TC_F32,
                    .order = TC_ROW_MAJOR,
                    .transb = TC_TRANS,
                    .m = SIZE,
                    .n = SIZE - 1,
                    .k = SIZE,
                    .alpha = 2,
                    .lda = SIZE,
                    .ldb = SIZE,
                    .beta = 0,
                    .ldc = SIZE};
  for (int i = 0; i < COUNT; i++) {
    for (int e = 0; e < SIZE * SIZE; e++) {
      set_element(TC_F32, a[i], e);
      set_element(TC_F32, b[i], e);
    }
    as[i] = a[i], bs[i] = b[COUNT - 1 - i], cs[i] = c[i];
    g.a = a[i], g.b = b[i], g.c = want[i];
    EXPECT_OK(tc_gemm(&g));
  }
  tc_gemm_batch strided = {COUNT, SIZE * SIZE, SIZE * SIZE, SIZE * SIZE, NULL, NULL, NULL};
  g.a = a, g.b = b, g.c = c;
  g.batch = &strided;
  EXPECT_OK(tc_gemm(&g));
  EXPECT(memcmp(c, want, sizeof c) == 0, "a batch by strides");
  memset(c, 0, sizeof c);
  tc_gemm_batch listed = {COUNT, 0, -SIZE * SIZE, 0, as, NULL, cs};
  for (int i = 0; i < COUNT; i++) as[i] = a[COUNT - 1 - i], cs[i] = c[COUNT - 1 - i];
  g.a = g.c = NULL;
  g.b = b[COUNT - 1];
  g.batch = &listed;
  EXPECT_OK(tc_gemm(&g));
  EXPECT(memcmp(c, want, sizeof c) == 0, "a batch by lists");
  listed.b_list = bs;
  cs[3] = NULL;
  REFUSES(&g, TC_ERR_ARG, "product 3 is NULL");
  cs[3] = a[COUNT - 4];
  REFUSES(&g, TC_ERR_ARG, "c overlaps a");
  strided.stride_c = SIZE;
  g.a = a, g.b = b, g.c = c;
  g.batch = &strided;
  REFUSES(&g, TC_ERR_ARG, "matrices c of the batch overlap");
  strided.count = -1;
  REFUSES(&g, TC_ERR_ARG, "count of the batch is -1");
  strided.count = 0;
  EXPECT_OK(tc_gemm(&g));
  // The matrices of a product side by side, products one after another.
  static double all[3][3][4];
  for (int i = 0; i < 3; i++) all[i][0][0] = all[i][0][3] = i + 1, all[i][1][2] = 5;
  g = (tc_gemm_call){.type = TC_F64,
                     .m = 2,
                     .n = 2,
                     .k = 2,
                     .alpha = 1,
                     .a = all[0][0],
                     .lda = 2,
                     .b = all[0][1],
                     .ldb = 2,
                     .c = all[0][2],
                     .ldc = 2};
  g.batch = &(tc_gemm_batch){3, 12, 12, 12, NULL, NULL, NULL};
  EXPECT_OK(tc_gemm(&g));
  EXPECT(all[2][2][2] == 15 && all[2][2][0] == 0, "%g", all[2][2][2]);
  g.b = all[0][1] + 1;
  REFUSES(&g, TC_ERR_ARG, "c overlaps b");
  // Matrices side by side: columns of one are between those of the other.
  g = (tc_gemm_call){
      .type = TC_F32, .m = 2, .n = 3, .k = 1, .alpha = 1, .a = a, .lda = 2, .b = b, .ldb = 1, .c = c, .ldc = 8};
  tc_gemm_batch sides = {4, 2, 3, 2, NULL, NULL, NULL};
  g.batch = &sides;
  EXPECT_OK(tc_gemm(&g));
  EXPECT(c[0][6] == a[0][6] * b[0][9] && c[0][23] == a[0][7] * b[0][11], "%g", (double)c[0][23]);
}

// ---- The thread's state ----

static void *without_memory(void *arg) {
  (void)arg;
  enum { N = 200 };
  double *a = calloc(N * N, 8), *c = calloc(N * N, 8);
  tc_gemm_call g = {.type = TC_F64,
                    .transa = TC_TRANS,
                    .m = N,
                    .n = N,
                    .k = N,
                    .alpha = 1,
                    .a = a,
                    .lda = N,
                    .b = a,
                    .ldb = N,
                    .beta = 0,
                    .c = c,
                    .ldc = N,
                    .max_threads = 1};
  c[7] = 5;
  tc_alloc_fail_at(1, 1);
  tc_status st = tc_gemm(&g);
  tc_alloc_fail_at(0, 0);
  EXPECT(st == TC_ERR_MEMORY && c[7] == 5, "status %d, c is %g", (int)st, c[7]);
  EXPECT_OK(tc_gemm(&g));
  EXPECT(c[7] == 0, "c is %g", c[7]);
  free(a);
  free(c);
  return NULL;
}

static void thread_state_is_kept(const room *rooms) {
  tc_gemm_call g = {.type = TC_F64, .m = 190, .n = 190, .k = 300, .alpha = 1};
  problem p = problem_make(rooms, g, 0);
  char *want = result_of(&p);
  fesetround(FE_UPWARD);
  feclearexcept(FE_ALL_EXCEPT);
  EXPECT_OK(tc_gemm(&p.call));
  EXPECT(fegetround() == FE_UPWARD && !fetestexcept(FE_ALL_EXCEPT), "rounding %d, flags %d", fegetround(),
         fetestexcept(FE_ALL_EXCEPT));
  fesetround(FE_TONEAREST);
  EXPECT(memcmp(want, p.c.at, (size_t)(g.m * g.n) * 8) == 0, "the caller's rounding mode decided");
  free(want);
}

int main(void) {
  room rooms[6];
  for (int i = 0; i < 6; i++) rooms[i] = room_make();
  values_are_right(rooms);
  bits_are_equal(rooms);
  nan_rules_hold();
  wrong_calls_are_refused();
  blocks_of_one_matrix();
  sizes_have_64_bits();
  batches_are_products();
  thread_state_is_kept(rooms);
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, without_memory, NULL) == 0 && pthread_join(thread, NULL) == 0, "no thread");
  return expect_done("gemm");
}
