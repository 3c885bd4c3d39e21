// Products over the shapes where the generated code differs: tiles and panels cut short, operands
// that are packed, long k in chunks, batches, types, and work that follows. Expected values are
// sums in double, by three loops. tc:cpu only.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tc/tc.h>

#include "runtime/topology.h"

typedef struct shape {
  int batch, m, n, k;
  bool a_transposed, b_transposed;  // the operand is stored transposed
} shape;

static const shape shapes[] = {
    {1, 1, 1, 1, false, false},       {1, 6, 64, 8, false, false},       {1, 7, 65, 9, false, false},
    {1, 5, 3, 17, true, true},        {3, 13, 33, 21, false, false},     {2, 13, 33, 21, true, false},
    {2, 13, 33, 21, false, true},     {1, 1, 200, 300, false, true},     {1, 200, 1, 300, true, false},
    {1, 100, 130, 70, false, false},  {1, 37, 1100, 40, false, false},   {1, 37, 1100, 40, false, true},
    {1, 1100, 30, 300, true, false},  {1, 1030, 200, 600, true, false},  {1, 1030, 200, 600, true, true},
    {1, 50, 70, 2048, false, false},  {1, 50, 70, 2049, false, false},   {1, 50, 70, 3000, false, true},
    {1, 1100, 70, 2500, true, false}, {1, 300, 300, 2100, false, false}, {4, 60, 60, 60, true, true},
    {1, 24, 16, 5, false, false},     {1, 25, 20, 5, false, false},      {1, 2, 10, 128, false, true},
    {2, 5, 70, 37, false, true},      {1, 1, 130, 65, false, true},      {1, 3, 50, 97, true, true},
    {1, 64, 300, 1600, true, true},   {1, 47, 90, 1100, true, false},    {1, 1, 1100, 498, false, false},
    {1, 2, 1100, 498, false, false},  {1, 3, 777, 399, false, false},    {1, 1061, 90, 1000, false, true},
    {2, 33, 66, 38, false, false},    {2, 33, 66, 38, true, true},       {1, 16, 83, 70, false, true},
    {1, 40, 16, 128, true, false},    {1, 100, 63, 2, false, false},     {1, 40, 20, 2, false, true},
    {3, 16, 500, 2, true, false},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static uint32_t draws;
// whole numbers from -8 to 8 over 8: products and short sums are exact in every type with 11 bits
static double draw(void) {
  draws = draws * 1664525u + 1013904223u;
  return ((int)(draws >> 16) % 17 - 8) / 8.0;
}

typedef struct problem {
  shape s;
  double *a, *b;  // as stored
  tc_tensor x, y; // as [batch, m, k] and [batch, k, n]
} problem;

static tc_tensor stored(const double *v, int batch, int rows, int cols, bool transposed, tc_type type) {
  tc_dims d = transposed ? tc_dims_of(3, (const int64_t[]){batch, cols, rows})
                         : tc_dims_of(3, (const int64_t[]){batch, rows, cols});
  tc_tensor t = tc_cast(tc_from_host(v, d, TC_F64), type);
  cr_assert_eq(tc_eval(1, &t), TC_OK);
  return transposed ? tc_transpose(t, 1, 2) : t;
}

static problem make(shape s, tc_type type) {
  problem p = {.s = s};
  size_t na = (size_t)s.batch * (size_t)s.m * (size_t)s.k, nb = (size_t)s.batch * (size_t)s.k * (size_t)s.n;
  p.a = malloc(na * sizeof *p.a), p.b = malloc(nb * sizeof *p.b);
  for (size_t i = 0; i < na; i++) p.a[i] = draw() * (type == TC_I32 ? 8 : 1);
  for (size_t i = 0; i < nb; i++) p.b[i] = draw() * (type == TC_I32 ? 8 : 1);
  p.x = stored(p.a, s.batch, s.m, s.k, s.a_transposed, type),
  p.y = stored(p.b, s.batch, s.k, s.n, s.b_transposed, type);
  return p;
}

static double a_at(const problem *p, int q, int i, int k) {
  const shape *s = &p->s;
  return p->a[s->a_transposed ? ((size_t)q * (size_t)s->k + (size_t)k) * (size_t)s->m + (size_t)i
                              : ((size_t)q * (size_t)s->m + (size_t)i) * (size_t)s->k + (size_t)k];
}

static double b_at(const problem *p, int q, int k, int j) {
  const shape *s = &p->s;
  return p->b[s->b_transposed ? ((size_t)q * (size_t)s->n + (size_t)j) * (size_t)s->k + (size_t)k
                              : ((size_t)q * (size_t)s->k + (size_t)k) * (size_t)s->n + (size_t)j];
}

// Compares elements with their sums; f: what follows. Of large products every 37th, of the largest
// every 149th, which meets every row and column of every tile.
static void check(const problem *p, tc_tensor out, double (*f)(double), double tolerance, const char *what) {
  const shape *s = &p->s;
  size_t n = (size_t)s->batch * (size_t)s->m * (size_t)s->n, terms = n * (size_t)s->k;
  size_t step = terms > 40000000 ? 149 : terms > 1000000 ? 37 : 1;
  double *got = malloc(n * sizeof *got);
  tc_tensor wide = tc_cast(out, TC_F64);
  cr_assert_eq(tc_to_host(wide, got, n * sizeof *got), TC_OK, "%s: %s", what, tc_last_error()->message);
  for (size_t at = 0; at < n; at += step) {
    int j = (int)(at % (size_t)s->n), i = (int)(at / (size_t)s->n % (size_t)s->m),
        q = (int)(at / (size_t)s->n / (size_t)s->m);
    double sum = 0;
    for (int k = 0; k < s->k; k++) sum += a_at(p, q, i, k) * b_at(p, q, k, j);
    double want = f(sum);
    cr_assert(fabs(got[at] - want) <= tolerance * fmax(fabs(want), 1),
              "%s %dx[%d,%d]@[%d,%d]%s%s: element %d,%d,%d is %.9g, should be %.9g", what, s->batch, s->m, s->k, s->k,
              s->n, s->a_transposed ? " a transposed" : "", s->b_transposed ? " b transposed" : "", q, i, j, got[at],
              want);
  }
  free(got);
}

static double same(double x) {
  return x;
}

static double relu_plus_half(double x) {
  return x + 0.5 > 0 ? x + 0.5 : 0;
}

// With sanitizers kernels are interpreted, and the largest products only take longer than others.
static bool is_left_out(int i) {
#ifdef __SANITIZE_ADDRESS__
  return (double)shapes[i].m * shapes[i].n * shapes[i].k > 11e6;
#else
  return (void)i, false;
#endif
}

// Whether to look at a shape: of f32 every second, of other types a fourth, by turns, of bf16 those
// besides that go by pairs, or all with TC_TEST_ALL=1.
static bool is_taken(int i, tc_type type) {
  if (is_left_out(i)) return false;
  if (type == TC_BF16 && i >= N_SHAPES - 7) return true;
  return (type == TC_F32 ? i % 2 == 0 : i % 4 == (int)type % 4) || getenv("TC_TEST_ALL");
}

static void each(tc_type type, double tolerance) {
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  for (int i = 0; i < N_SHAPES; i++) {
    if (!is_taken(i, type)) continue;
    // sums lose more than a test can tell from a mistake
    if ((type == TC_F16 || type == TC_BF16) && shapes[i].k > 700) continue;
    tc_scope scope = tc_scope_begin();
    problem p = make(shapes[i], type);
    check(&p, tc_matmul(p.x, p.y), same, tolerance, tc_type_name(type));
    tc_tensor follows = tc_relu(tc_add(tc_matmul(p.x, p.y), 0.5));
    if ((type == TC_F32 || type == TC_F64))
      check(&p, follows, relu_plus_half, tolerance, "followed by elementwise work");
    free(p.a), free(p.b);
    tc_scope_end(scope);
  }
}

Test(products, f32_are_exact_sums) {
  each(TC_F32, 0);
}

Test(products, f64_are_exact_sums) {
  each(TC_F64, 0);
}

Test(products, i32_are_exact_sums) {
  each(TC_I32, 0);
}

// Any byte of the type, often an extreme one.
static double draw_byte(tc_type type) {
  draws = draws * 1664525u + 1013904223u;
  uint32_t v = draws >> 16, low = type == TC_I8 ? 128 : 0;
  return (double)(v % 7 == 0 ? (v & 64 ? 255 : 0) : v >> 3 & 255) - low;
}

static problem make_bytes(shape s, tc_type left, tc_type right) {
  problem p = {.s = s};
  size_t na = (size_t)s.batch * (size_t)s.m * (size_t)s.k, nb = (size_t)s.batch * (size_t)s.k * (size_t)s.n;
  p.a = malloc(na * sizeof *p.a), p.b = malloc(nb * sizeof *p.b);
  for (size_t i = 0; i < na; i++) p.a[i] = draw_byte(left);
  for (size_t i = 0; i < nb; i++) p.b[i] = draw_byte(right);
  p.x = stored(p.a, s.batch, s.m, s.k, s.a_transposed, left);
  p.y = stored(p.b, s.batch, s.k, s.n, s.b_transposed, right);
  return p;
}

static double times_two(double x) {
  return 2 * x;
}

// Products of bytes of every pair of types, alone and with work that follows; every shape, or each
// second one, and so on.
static void each_of_bytes(int every) {
  static const tc_type types[] = {TC_I8, TC_U8};
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  for (int i = 0; i < 4 * N_SHAPES; i++) {
    tc_type left = types[i & 1], right = types[i >> 1 & 1];
    shape s = shapes[i / 4];
    if (is_left_out(i / 4) || ((i % 4 != i / 4 % 4 || i / 4 / 4 % every) && !getenv("TC_TEST_ALL"))) continue;
    for (int whole = 0; whole < 2; whole++) {
      tc_scope scope = tc_scope_begin();
      if (whole) s.k = (s.k + 3) / 4 * 4;
      problem p = make_bytes(s, left, right);
      tc_tensor y = tc_matmul(p.x, p.y);
      cr_assert_eq(tc_dtype(y), TC_I32);
      check(&p, y, same, 0, tc_type_name(left));
      check(&p, tc_mul(tc_cast(tc_matmul(p.x, p.y), TC_F64), 2), times_two, 0, "followed by elementwise work");
      free(p.a), free(p.b);
      tc_scope_end(scope);
    }
  }
}

Test(products, bytes_are_exact_sums_in_i32) {
  each_of_bytes(1);
}

Test(products, bytes_are_exact_sums_on_avx2) {
  setenv("TC_ISA", "avx2", 1);
  each_of_bytes(2);
}

Test(products, bytes_are_exact_sums_on_bare_x86_64) {
  setenv("TC_ISA", "baseline", 1);
  each_of_bytes(3);
}

Test(products, bytes_are_exact_sums_where_interpreted) {
  setenv("TC_COMPILER", "interp", 1);
  each_of_bytes(2);
}

// 255 times 255 would not fit 16 bits, in which some processors add such products; 33030 of them
// pass 2^31.
Test(products, sums_of_bytes_wrap) {
  enum { K = 33100, M = 3, N = 40 };
  static uint8_t a[M * K], b[K * N];
  int32_t got[M * N];
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  memset(a, 255, sizeof a), memset(b, 255, sizeof b);
  tc_tensor y = tc_matmul(tc_from_host(a, TC_SHAPE(M, K), TC_U8), tc_from_host(b, TC_SHAPE(K, N), TC_U8));
  cr_assert_eq(tc_to_host(y, got, sizeof got), TC_OK);
  for (int i = 0; i < M * N; i++) cr_assert_eq(got[i], (int32_t)(INT64_C(255) * 255 * K), "[%d] is %d", i, got[i]);
}

// i8 and u8 are no mix to widen; a byte and a wider integer are, as everywhere.
Test(products, types_of_products_of_integers) {
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  static const struct {
    tc_type left, right, sum;
  } cases[] = {{TC_I8, TC_I8, TC_I32},   {TC_U8, TC_I8, TC_I32},        {TC_I8, TC_U8, TC_I32},
               {TC_U8, TC_U8, TC_I32},   {TC_I8, TC_I16, TC_I16},       {TC_U8, TC_I32, TC_I32},
               {TC_I16, TC_I16, TC_I16}, {TC_I64, TC_I8, TC_I64},       {TC_BOOL, TC_U8, TC_I32},
               {TC_I8, TC_F32, TC_F32},  {TC_BOOL, TC_BOOL, TC_N_TYPES}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (int rank = 2; rank < 4; rank++) {
      tc_dims da = rank == 2 ? TC_SHAPE(2, 4) : TC_SHAPE(3, 2, 4), db = rank == 2 ? TC_SHAPE(4, 5) : TC_SHAPE(3, 4, 5);
      tc_tensor y = tc_matmul(tc_full(da, 1, cases[i].left), tc_full(db, 1, cases[i].right));
      if (cases[i].sum == TC_N_TYPES) {
        cr_assert_eq(tc_eval(1, &y), TC_ERR_DTYPE);
        cr_assert(strstr(tc_last_error()->message, "bool has no matmul; cast it first"));
        continue;
      }
      cr_assert_eq(tc_dtype(y), cases[i].sum, "%s @ %s is %s", tc_type_name(cases[i].left),
                   tc_type_name(cases[i].right), tc_type_name(tc_dtype(y)));
      cr_assert_eq(tc_eval(1, &y), TC_OK);
    }
}

// A weight of bytes that later runs find in panels, whose content is then another.
Test(products, weights_of_bytes_are_kept_in_panels_and_made_anew) {
  enum { M = 5, K = 512, N = 192 };
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  for (int along = 0; along < 2; along++)
    for (int content = 0; content < 2; content++) {
      shape s = {1, M, N, K, false, along == 1};
      problem p = make_bytes(s, content ? TC_I8 : TC_U8, TC_I8);
      tc_tensor x = tc_reshape(p.x, TC_SHAPE(M, K)), w = tc_reshape(p.y, TC_SHAPE(K, N));
      for (int run = 0; run < 4; run++)
        check(&p, tc_reshape(tc_matmul(x, w), TC_SHAPE(1, M, N)), same, 0, "a weight in panels");
      free(p.a), free(p.b);
    }
}

Test(products, bf16_accumulate_in_f32_and_round_once) {
  each(TC_BF16, 1.0 / 256);
}

// As for a processor with dot products of pairs, whatever this one has.
Test(products, bf16_by_pairs_are_exact_sums_too) {
  setenv("TC_ISA", "avx512bf16", 1), setenv("TC_COMPILER", "interp", 1);
  each(TC_BF16, 1.0 / 256);
}

Test(products, f16_accumulate_in_f32_and_round_once) {
  each(TC_F16, 1.0 / 2048);
}

// ---- right factors made of a narrower tensor where they are read ----

// The problem's right factor as whole numbers of a narrow type, made to be b again: by a scale a
// column, in u8 after a zero point is taken away.
static tc_tensor widened(const problem *p, tc_type narrow, tc_type wide) {
  const shape *s = &p->s;
  size_t n = (size_t)s->batch * (size_t)s->k * (size_t)s->n;
  double *v = calloc(n, sizeof *v), zero = narrow == TC_U8 ? 100 : 0;
  for (size_t i = 0; i < n; i++) v[i] = p->b[i] * 8 + zero;
  tc_tensor t = tc_cast(stored(v, s->batch, s->k, s->n, s->b_transposed, narrow), wide);
  free(v);
  if (narrow == TC_U8) t = tc_sub(t, tc_full(TC_SHAPE(s->n), zero, wide));
  tc_tensor scale = tc_full(TC_SHAPE(s->n), 0.125, wide);
  cr_assert_eq(tc_eval(1, &scale), TC_OK);
  return tc_mul(t, scale);
}

// Patches of an image as rows, whose elements lie in pieces, by a weight whose own lie side by
// side: what an embedding of patches is.
static void expect_patches(int down, int across, int size, int n, tc_type type) {
  int height = down * size, width = across * size, m = down * across, k = size * size;
  double *image = malloc((size_t)(height * width) * sizeof *image), *weight = malloc((size_t)(n * k) * sizeof *weight);
  double *got = malloc((size_t)(m * n) * sizeof *got);
  for (int i = 0; i < height * width; i++) image[i] = draw();
  for (int i = 0; i < n * k; i++) weight[i] = draw();
  tc_tensor x = tc_cast(tc_from_host(image, TC_SHAPE(down, size, across, size), TC_F64), type);
  tc_tensor w = tc_cast(tc_from_host(weight, TC_SHAPE(n, k), TC_F64), type);
  cr_assert_eq(tc_eval(2, (tc_tensor[]){x, w}), TC_OK);
  tc_tensor rows = tc_reshape(tc_permute(x, TC_AXES(0, 2, 1, 3)), TC_SHAPE(m, k));
  cr_assert_eq(tc_to_host(tc_cast(tc_matmul(rows, tc_transpose(w, 0, 1)), TC_F64), got, (size_t)(m * n) * sizeof *got),
               TC_OK);
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      double want = 0;
      for (int r = 0; r < size; r++)
        for (int c = 0; c < size; c++)
          want += image[(i / across * size + r) * width + i % across * size + c] * weight[j * k + r * size + c];
      cr_expect_eq(got[i * n + j], want, "%d by %d patches of %d, %d columns, %s: [%d, %d] is %g, should be %g", down,
                   across, size, n, tc_type_name(type), i, j, got[i * n + j], want);
    }
  free(image), free(weight), free(got);
}

Test(products, of_few_patches_are_exact_sums) {
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  for (int down = 1; down <= 3; down++)
    for (int n = 16; n <= 70; n += 54) expect_patches(down, 2, 8, n, TC_F32), expect_patches(down, 3, 16, n, TC_F32);
  expect_patches(2, 2, 8, 16, TC_F64);
}

Test(products, of_narrow_weights_are_exact_sums) {
  static const tc_type types[] = {TC_I8, TC_U8, TC_BF16, TC_F16};
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  for (int t = 0; t < 4; t++)
    for (int i = 0; i < N_SHAPES; i++) {
      if (!is_taken(i, types[t])) continue;
      tc_scope scope = tc_scope_begin();
      problem p = make(shapes[i], TC_F32);
      check(&p, tc_matmul(p.x, widened(&p, types[t], TC_F32)), same, 0, tc_type_name(types[t]));
      free(p.a), free(p.b);
      tc_scope_end(scope);
    }
}

Test(products, of_bytes_widened_to_bf16_round_once) {
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  for (int i = 0; i < N_SHAPES; i++) {
    if (shapes[i].k > 700 || is_left_out(i) || (i % 2 && i < N_SHAPES - 7 && !getenv("TC_TEST_ALL"))) continue;
    tc_scope scope = tc_scope_begin();
    problem p = make(shapes[i], TC_BF16);
    check(&p, tc_matmul(p.x, widened(&p, TC_I8, TC_BF16)), same, 1.0 / 256, "i8 as bf16");
    free(p.a), free(p.b);
    tc_scope_end(scope);
  }
}

enum { BIASED_K = 32, BIASED_N = 72, BIASED_MOST = 40 };

// tc:cpu's and the reference's layer of these rows: the sum with the bias, which is exact in f32,
// rounded as a cast does. Counts what rounding the sum first would have made another number.
static int check_biased(const char *device, tc_type type, int m) {
  float x[BIASED_MOST * BIASED_K], w[BIASED_N * BIASED_K], bias[BIASED_N], once[BIASED_MOST * BIASED_N],
      sums[BIASED_MOST * BIASED_N], got[BIASED_MOST * BIASED_N];
  int n_other = 0, n = m * BIASED_N;
  for (int i = 0; i < m * BIASED_K; i++) x[i] = (float)(draw() + (type == TC_F16 ? draw() / 64 : 0));
  for (int i = 0; i < BIASED_N * BIASED_K; i++) w[i] = (float)draw();
  for (int j = 0; j < BIASED_N; j++) bias[j] = (float)(j % 128 - 64) / 256;
  for (int i = 0; i < n; i++) {
    sums[i] = 0;
    for (int k = 0; k < BIASED_K; k++) sums[i] += x[i / BIASED_N * BIASED_K + k] * w[i % BIASED_N * BIASED_K + k];
    once[i] = sums[i] + bias[i % BIASED_N];
  }
  cr_assert_eq(tc_set_default_device(device), TC_OK);
  tc_scope scope = tc_scope_begin();
  tc_dims d = TC_SHAPE(m, BIASED_N);
  tc_tensor tx = tc_cast(tc_from_host(x, TC_SHAPE(m, BIASED_K), TC_F32), type),
            tw = tc_cast(tc_from_host(w, TC_SHAPE(BIASED_N, BIASED_K), TC_F32), type);
  tc_tensor tb = tc_cast(tc_from_host(bias, TC_SHAPE(BIASED_N), TC_F32), type);
  tc_tensor twice_rounded = tc_add(tc_cast(tc_from_host(sums, d, TC_F32), type), tb);
  cr_assert_eq(tc_to_host(tc_cast(twice_rounded, TC_F32), sums, (size_t)n * sizeof(float)), TC_OK);
  cr_assert_eq(
      tc_to_host(tc_cast(tc_cast(tc_from_host(once, d, TC_F32), type), TC_F32), once, (size_t)n * sizeof(float)),
      TC_OK);
  tc_tensor y = tc_linear(tx, tw, tb);
  cr_assert_eq(tc_dtype(y), type);
  cr_assert_eq(tc_to_host(tc_cast(y, TC_F32), got, (size_t)n * sizeof(float)), TC_OK);
  for (int i = 0; i < n; i++)
    cr_assert_eq(got[i], once[i], "%s on %s, %d rows: element %d", tc_type_name(type), device, m, i);
  for (int i = 0; i < n; i++) n_other += sums[i] != once[i];
  tc_scope_end(scope);
  return n_other;
}

Test(products, of_narrow_types_with_a_bias_round_once) {
  static const int rows[] = {1, 3, BIASED_MOST};
  for (int t = 0; t < 2; t++)
    for (int r = 0; r < 2; r++) {
      int n_other = 0;
      for (int i = 0; i < 3; i++) n_other += check_biased(r ? "tc:ref" : "tc:cpu", t ? TC_F16 : TC_BF16, rows[i]);
      cr_expect_gt(n_other, 0, "no sum that tells one rounding from two");
    }
}

// The first half of the axis twice, the second time negated or not: of such factors' sums nothing
// is left but what rounding made of them, in whatever order.
static tc_tensor twice(tc_tensor t, int axis, int64_t n, bool negated) {
  tc_tensor half = tc_slice(t, axis, 0, n / 2, 1);
  return n % 2 ? t : tc_cat(2, (tc_tensor[]){half, negated ? tc_neg(half) : half}, axis);
}

// A scale of any bits, so that the element is rounded before it is multiplied.
static void check_prologue(const shape *s, tc_type narrow, tc_type type) {
  size_t bytes = (size_t)s->batch * (size_t)s->m * (size_t)s->n * sizeof(float);
  float *first = malloc(bytes), *next = malloc(bytes);
  tc_scope scope = tc_scope_begin();
  tc_dims d = s->b_transposed ? tc_dims_of(3, (const int64_t[]){s->batch, s->n, s->k})
                              : tc_dims_of(3, (const int64_t[]){s->batch, s->k, s->n});
  tc_tensor x = tc_randn(tc_dims_of(3, (const int64_t[]){s->batch, s->m, s->k}), type),
            scale = tc_rand(TC_SHAPE(s->n), type);
  tc_tensor w = tc_cast(tc_mul(tc_randn(d, TC_F32), 30), narrow);
  if (type == TC_BF16) x = twice(x, 2, s->k, true), w = twice(w, s->b_transposed ? 2 : 1, s->k, false);
  cr_assert_eq(tc_eval(3, (tc_tensor[]){x, w, scale}), TC_OK);
  tc_tensor wide = tc_cast(w, type);
  if (s->b_transposed) wide = tc_transpose(wide, 1, 2);
  wide = tc_mul(tc_sub(wide, 3.3), scale);
  tc_set_num_threads(1);
  cr_assert_eq(tc_to_host(tc_cast(tc_matmul(x, wide), TC_F32), first, bytes), TC_OK);
  tc_set_num_threads(0);
  cr_assert_eq(tc_to_host(tc_cast(tc_matmul(x, wide), TC_F32), next, bytes), TC_OK);
  cr_assert_arr_eq(first, next, bytes, "threads");
  cr_assert_eq(tc_eval(1, &wide), TC_OK);
  cr_assert_eq(tc_to_host(tc_cast(tc_matmul(x, wide), TC_F32), next, bytes), TC_OK);
  cr_assert_arr_eq(first, next, bytes, "stored first");
  tc_scope_end(scope);
  free(first), free(next);
}

Test(products, of_narrow_weights_have_the_bits_of_stored_ones) {
  static const tc_type types[] = {TC_I8, TC_U8, TC_BF16, TC_F16};
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  for (int t = 0; t < 4; t++)
    for (int i = 0; i < N_SHAPES; i++)
      if (is_taken(i, types[t])) check_prologue(&shapes[i], types[t], TC_F32);
}

// Patches of h x w as rows in pieces of w, and stored first.
static void check_patches(int h, int w) {
  enum { DOWN = 4, ACROSS = 5, M = DOWN * ACROSS, N = 40 };
  float first[M * N], next[M * N];
  tc_scope scope = tc_scope_begin();
  tc_tensor x = twice(tc_randn(TC_SHAPE(DOWN, h, ACROSS, w), TC_BF16), 1, h, true),
            weight = twice(tc_randn(TC_SHAPE(h * w, N), TC_BF16), 0, h * w, false);
  cr_assert_eq(tc_eval(2, (tc_tensor[]){x, weight}), TC_OK);
  tc_tensor rows = tc_reshape(tc_permute(x, TC_AXES(0, 2, 1, 3)), TC_SHAPE(M, h * w));
  cr_assert_eq(tc_to_host(tc_cast(tc_matmul(rows, weight), TC_F32), first, sizeof first), TC_OK);
  cr_assert_eq(tc_eval(1, &rows), TC_OK);
  cr_assert_eq(tc_to_host(tc_cast(tc_matmul(rows, weight), TC_F32), next, sizeof next), TC_OK);
  cr_assert_arr_eq(first, next, sizeof first, "patches of %d x %d", h, w);
  tc_scope_end(scope);
}

// By pairs, whatever this processor has.
Test(products, of_pairs_have_the_bits_of_stored_ones) {
  static const tc_type types[] = {TC_I8, TC_U8, TC_F16};
  setenv("TC_ISA", "avx512bf16", 1), setenv("TC_COMPILER", "interp", 1);
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  for (int t = 0; t < 3; t++)
    for (int i = 0; i < N_SHAPES; i++)
      if (is_taken(i, TC_BF16)) check_prologue(&shapes[i], types[t], TC_BF16);
  check_patches(8, 8), check_patches(10, 9), check_patches(4, 16);
}

// Bits in f32, to which bf16 converts exactly.
static void check_bits(const shape *s, tc_type type) {
  size_t bytes = (size_t)s->batch * (size_t)s->m * (size_t)s->n * sizeof(float);
  float *first = malloc(bytes), *next = malloc(bytes);
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_randn(tc_dims_of(3, (const int64_t[]){s->batch, s->m, s->k}), type);
  tc_tensor y = tc_randn(tc_dims_of(3, (const int64_t[]){s->batch, s->k, s->n}), type);
  cr_assert_eq(tc_eval(2, (tc_tensor[]){x, y}), TC_OK);
  tc_set_num_threads(1);
  cr_assert_eq(tc_to_host(tc_cast(tc_matmul(x, y), TC_F32), first, bytes), TC_OK);
  tc_set_num_threads(0);
  cr_assert_eq(tc_to_host(tc_cast(tc_matmul(x, y), TC_F32), next, bytes), TC_OK);
  cr_assert_arr_eq(first, next, bytes, "threads");
  cr_assert_eq(tc_to_host(tc_cast(tc_neg(tc_matmul(x, y)), TC_F32), next, bytes), TC_OK);
  for (size_t k = 0; k < bytes / sizeof(float); k++) cr_assert(next[k] == -first[k], "followed by neg");
  cr_assert_eq(tc_to_host(tc_cast(tc_transpose(tc_matmul(tc_transpose(y, 1, 2), tc_transpose(x, 1, 2)), 1, 2), TC_F32),
                          next, bytes),
               TC_OK);
  cr_assert_arr_eq(first, next, bytes, "transposed");
  tc_scope_end(scope);
  free(first), free(next);
}

Test(products, bits_do_not_depend_on_threads_or_on_what_follows) {
  static const tc_type types[] = {TC_F32, TC_BF16, TC_F16};
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  for (int t = 0; t < 3; t++)
    for (int i = 0; i < N_SHAPES; i++)
      if (types[t] == TC_F32 ? !is_left_out(i) && (i % 2 == 1 || getenv("TC_TEST_ALL")) : is_taken(i, types[t]))
        check_bits(&shapes[i], types[t]);
}

enum { WIDE = 1024, NARROW = 16 };

// A product of 4 MiB that is read again, behind another product, when others as large have put it
// out of the caches; each stored by itself, if asked.
static void read_late(bool apart, float *out) {
  size_t n = tc_topology_get()->l3_bytes / (sizeof(float) * WIDE * WIDE) + 3;
  tc_scope scope = tc_scope_begin();
  tc_seed(7);
  tc_tensor x = tc_randn(TC_SHAPE(WIDE, NARROW), TC_F32), w = tc_randn(TC_SHAPE(NARROW, WIDE), TC_F32),
            bias = tc_randn(TC_SHAPE(WIDE), TC_F32);
  tc_tensor in[] = {x, w, bias};
  cr_assert_eq(tc_eval(3, in), TC_OK);
  tc_tensor early = tc_tanh(tc_add(tc_matmul(x, w), bias)), h = tc_tanh(tc_sub(tc_matmul(x, w), bias));
  if (apart) cr_assert_eq(tc_eval(1, &early), TC_OK);
  for (size_t i = 0; i < n && i < 100; i++) {
    if (apart) cr_assert_eq(tc_eval(1, &h), TC_OK);
    tc_tensor t = tc_mul(tc_matmul(h, tc_transpose(w, 0, 1)), 0.01);
    if (apart) cr_assert_eq(tc_eval(1, &t), TC_OK);
    h = tc_tanh(tc_add(tc_matmul(t, w), bias));
  }
  if (apart) cr_assert_eq(tc_eval(1, &h), TC_OK);
  cr_assert_eq(tc_to_host(tc_add(tc_matmul(tc_mul(tc_matmul(h, tc_transpose(w, 0, 1)), 0.01), w), early), out,
                          sizeof(float) * WIDE * WIDE),
               TC_OK);
  tc_scope_end(scope);
}

Test(products, what_is_written_past_the_caches_is_the_same) {
  float *whole = malloc(sizeof(float) * WIDE * WIDE), *apart = malloc(sizeof(float) * WIDE * WIDE);
  cr_assert(whole && apart);
  read_late(false, whole);
  read_late(true, apart);
  cr_assert_arr_eq(whole, apart, sizeof(float) * WIDE * WIDE);
  free(whole), free(apart);
}
