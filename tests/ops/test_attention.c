// Attention over the shapes where the generated code differs: one row, tiles and panels cut short,
// several blocks of keys, heads of 1 to 256 elements, key heads shared, masks that broadcast, valid
// keys counted at run time, operands that lie as projections leave them. Expected values are sums
// in double, by plain loops; gradients, those of the same formula. On tc:cpu; those sums also on
// the device that TC_TEST_DEVICE names.
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tc/tc.h>

#include "lowering/target/cpu_target.h"
#include "runtime/options.h"
#include <unistd.h>

#define NONE ((tc_tensor){0, 0})

enum mask { NO_MASK, BOOLS, FLOATS };

typedef struct shape {
  int n, hq, hkv, l, s, e, ev;
  bool causal;
  int length;
  enum mask mask;
  int mask_dims;  // of n, hq, l, s which the mask has, as bits from the right
  bool projected;  // operands are parts of [n, rows, heads * elements]
} shape;

static const shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 1, false, 0, NO_MASK, 0, false},       {2, 3, 3, 5, 7, 8, 8, false, 0, NO_MASK, 0, false},
    {1, 2, 2, 13, 13, 16, 16, true, 0, NO_MASK, 0, true},     {2, 2, 2, 70, 70, 64, 64, true, 0, NO_MASK, 0, true},
    {1, 1, 1, 6, 64, 64, 64, false, 0, NO_MASK, 0, false},    {1, 1, 1, 100, 131, 10, 3, true, 0, NO_MASK, 0, false},
    {1, 4, 2, 9, 40, 24, 80, true, 0, NO_MASK, 0, false},     {1, 6, 2, 1, 77, 32, 32, false, 50, NO_MASK, 0, false},
    {2, 4, 1, 1, 600, 64, 64, true, 513, NO_MASK, 0, true},   {1, 2, 1, 3, 40, 64, 64, true, 33, NO_MASK, 0, false},
    {1, 2, 2, 7, 1100, 16, 20, false, 0, NO_MASK, 0, false},  {1, 2, 2, 37, 1030, 8, 8, true, 1000, NO_MASK, 0, false},
    {1, 1, 1, 520, 520, 40, 40, true, 0, NO_MASK, 0, false},  {1, 1, 1, 30, 300, 256, 200, true, 0, NO_MASK, 0, false},
    {1, 1, 1, 5, 300, 129, 256, false, 0, NO_MASK, 0, false}, {2, 3, 1, 11, 19, 8, 8, false, 0, BOOLS, 15, false},
    {2, 3, 3, 11, 19, 8, 8, true, 0, BOOLS, 1, false},        {2, 2, 2, 11, 70, 8, 8, false, 0, FLOATS, 3, false},
    {2, 2, 2, 20, 600, 8, 8, true, 580, FLOATS, 9, false},    {1, 2, 2, 6, 33, 8, 8, false, 20, BOOLS, 2, false},
    {1, 3, 3, 4, 2, 8, 8, true, 1, NO_MASK, 0, false},        {3, 8, 2, 1, 64, 16, 16, true, 64, FLOATS, 5, true},
    {2, 2, 2, 7, 40, 8, 8, false, 0, FLOATS, 14, false},      {2, 3, 3, 7, 40, 8, 8, false, 0, BOOLS, 6, false},
    {1, 16, 16, 1024, 4, 64, 64, false, 0, NO_MASK, 0, true},  // results of 4 MiB, which pass the caches by
    {1, 3, 3, 1, 700, 40, 24, false, 0, NO_MASK, 0, false},   {2, 2, 2, 2, 45, 72, 72, true, 31, NO_MASK, 0, true},
    {1, 4, 2, 1, 33, 20, 20, false, 0, BOOLS, 15, false},     {1, 2, 2, 2, 600, 64, 64, true, 590, FLOATS, 3, false},
    {1, 2, 2, 1, 5, 0, 3, false, 0, NO_MASK, 0, false},       {1, 12, 12, 1, 256, 64, 64, false, 255, NO_MASK, 0, true},
    {1, 4, 2, 5, 3, 0, 2, true, 0, NO_MASK, 0, false},        {1, 2, 2, 5, 3, 4, 0, false, 0, NO_MASK, 0, false},
    {1, 2, 1, 5, 0, 4, 3, false, 0, BOOLS, 15, false},        {2, 1, 1, 3, 0, 0, 0, true, 0, NO_MASK, 0, false},
    {1, 3, 3, 128, 128, 64, 64, true, 0, NO_MASK, 0, true},   {1, 1, 1, 9, 600, 32, 200, false, 0, NO_MASK, 0, false},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0], RESULTS = 4 };

static uint32_t draws;
static double draw(void) {
  draws = draws * 1664525u + 1013904223u;
  return ((int)(draws >> 16) % 33 - 16) / 16.0;
}

typedef struct problem {
  shape c;
  double *q, *k, *v, *w, *mask;  // as [n, heads, rows, elements]; w: by which the result is multiplied for the gradient
  double *want[RESULTS];  // out, dq, dk, dv
  size_t count[RESULTS];
  tc_tensor tq, tk, tv, tw, tmask;
  tc_type type;
} problem;

static double *drawn(size_t n, tc_type type) {
  double *x = malloc((n + 1) * sizeof *x);
  for (size_t i = 0; i < n; i++) x[i] = draw();
  (void)type;  // sixteenths from -1 to 1 are numbers of every type
  return x;
}

static tc_tensor given(const double *x, const shape *c, int heads, int rows, int columns, tc_type type) {
  const int64_t d[4] = {c->n, heads, rows, columns}, moved[4] = {0, 2, 1, 3};
  tc_tensor t = tc_cast(tc_from_host(x, tc_dims_of(4, d), TC_F64), type);
  if (c->projected) t = tc_permute(t, tc_dims_of(4, moved));
  cr_assert_eq(tc_eval(1, &t), TC_OK, "%s", tc_last_error()->message);
  return c->projected ? tc_permute(t, tc_dims_of(4, moved)) : t;
}

static size_t mask_at(const shape *c, int n, int h, int i, int j) {
  const int at[4] = {n, h, i, j}, dim[4] = {c->n, c->hq, c->l, c->s};
  size_t flat = 0;
  for (int d = 0; d < 4; d++)
    if (c->mask_dims >> (3 - d) & 1) flat = flat * (size_t)dim[d] + (size_t)at[d];
  return flat;
}

static bool sees(const problem *p, int n, int h, int i, int j, double *bias) {
  const shape *c = &p->c;
  int count = c->length ? c->length : c->s;
  *bias = c->mask == FLOATS ? p->mask[mask_at(c, n, h, i, j)] : 0;
  if (j >= count || (c->causal && j > (c->length ? count - c->l : 0) + i)) return false;
  return c->mask != BOOLS || p->mask[mask_at(c, n, h, i, j)] != 0;
}

// One row of queries: its part of every result.
static void expect_row(problem *p, int n, int h, int i, double *weight) {
  const shape *c = &p->c;
  size_t row = ((size_t)n * (size_t)c->hq + (size_t)h) * (size_t)c->l + (size_t)i,
         head = (size_t)n * (size_t)c->hkv + (size_t)(h / (c->hq / c->hkv));
  const double *q = p->q + row * (size_t)c->e, *w = p->w + row * (size_t)c->ev;
  double scale = 1 / sqrt(c->e), sum = 0, most = -INFINITY, delta = 0, bias;
  for (int j = 0; j < c->s; j++) {
    const double *k = p->k + (head * (size_t)c->s + (size_t)j) * (size_t)c->e;
    weight[j] = -INFINITY;
    if (!sees(p, n, h, i, j, &bias)) continue;
    weight[j] = bias;
    for (int x = 0; x < c->e; x++) weight[j] += q[x] * k[x] * scale;
    most = fmax(most, weight[j]);
  }
  for (int j = 0; j < c->s; j++) sum += weight[j] = most == -INFINITY ? 0 : exp(weight[j] - most);
  double *out = p->want[0] + row * (size_t)c->ev;
  for (int j = 0; j < c->s && sum > 0; j++) {
    const double *v = p->v + (head * (size_t)c->s + (size_t)j) * (size_t)c->ev;
    weight[j] /= sum;
    for (int x = 0; x < c->ev; x++) out[x] += weight[j] * v[x];
  }
  for (int x = 0; x < c->ev; x++) delta += out[x] * w[x];
  for (int j = 0; j < c->s; j++) {
    size_t key = head * (size_t)c->s + (size_t)j;
    double slope = -delta;
    if (weight[j] == 0) continue;
    for (int x = 0; x < c->ev; x++)
      slope += w[x] * p->v[key * (size_t)c->ev + (size_t)x],
          p->want[3][key * (size_t)c->ev + (size_t)x] += weight[j] * w[x];
    slope *= weight[j] * scale;
    for (int x = 0; x < c->e; x++) {
      p->want[1][row * (size_t)c->e + (size_t)x] += slope * p->k[key * (size_t)c->e + (size_t)x];
      p->want[2][key * (size_t)c->e + (size_t)x] += slope * q[x];
    }
  }
}

static tc_tensor mask_of(problem *p) {
  const shape *c = &p->c;
  const int dim[4] = {c->n, c->hq, c->l, c->s};
  tc_dims d = {.rank = 4};
  size_t count = 1;
  for (int i = 0; i < 4; i++) d.dim[i] = c->mask_dims >> (3 - i) & 1 ? dim[i] : 1, count *= (size_t)d.dim[i];
  if (c->mask == NO_MASK) return NONE;
  p->mask = drawn(count, TC_F64);
  for (size_t i = 0; i < count; i++)
    p->mask[i] = c->mask == FLOATS ? (i % 7 == 3 ? -INFINITY : p->mask[i]) : p->mask[i] > -0.4;
  return tc_cast(tc_from_host(p->mask, d, TC_F64), c->mask == FLOATS ? p->type : TC_BOOL);
}

static problem make(const shape *c, tc_type type, bool expect) {
  size_t rows = (size_t)c->n * (size_t)c->hq * (size_t)c->l, keys = (size_t)c->n * (size_t)c->hkv * (size_t)c->s;
  problem p = {.c = *c,
               .type = type,
               .count = {rows * (size_t)c->ev, rows * (size_t)c->e, keys * (size_t)c->e, keys * (size_t)c->ev}};
  draws = 1;
  p.q = drawn(p.count[1], type), p.k = drawn(p.count[2], type), p.v = drawn(p.count[3], type),
  p.w = drawn(p.count[0], type);
  p.tq = given(p.q, c, c->hq, c->l, c->e, type), p.tk = given(p.k, c, c->hkv, c->s, c->e, type);
  p.tv = given(p.v, c, c->hkv, c->s, c->ev, type), p.tw = given(p.w, c, c->hq, c->l, c->ev, type);
  p.tmask = mask_of(&p);
  for (int i = 0; i < RESULTS; i++) p.want[i] = calloc(p.count[i] + 1, sizeof(double));
  double *weight = malloc((size_t)c->s * sizeof *weight);
  for (int n = 0; n < c->n && expect; n++)
    for (int h = 0; h < c->hq; h++)
      for (int i = 0; i < c->l; i++) expect_row(&p, n, h, i, weight);
  free(weight);
  return p;
}

static void drop(problem *p) {
  for (int i = 0; i < RESULTS; i++) free(p->want[i]);
  free(p->q), free(p->k), free(p->v), free(p->w), free(p->mask);
}

static tc_tensor attend(const problem *p) {
  return tc_scaled_dot_product_attention(p->tq, p->tk, p->tv, p->tmask,
                                         (tc_attention_options){.causal = p->c.causal, .key_length = p->c.length});
}

// The result and the gradients of its product with w.
static void results(const problem *p, tc_tensor *out) {
  tc_tensor x[3] = {p->tq, p->tk, p->tv};
  for (int i = 0; i < 3; i++) cr_assert_eq(tc_set_requires_grad(x[i], true), TC_OK);
  out[0] = attend(p);
  cr_assert_eq(tc_grads_of(tc_sum(tc_cast(tc_mul(out[0], p->tw), TC_F64), TC_ALL, false), x, 3, out + 1, 0), TC_OK,
               "%s", tc_last_error()->message);
}

static void one(int shape, tc_type type, double tolerance) {
  static const char *const name[] = {"out", "dq", "dk", "dv"};
  tc_scope scope = tc_scope_begin();
  problem p = make(&shapes[shape], type, true);
  tc_tensor got[RESULTS];
  results(&p, got);
  for (int r = 0; r < RESULTS; r++) {
    double *x = malloc(p.count[r] * sizeof *x), size = 0;
    cr_assert_eq(tc_to_host(tc_cast(got[r], TC_F64), x, p.count[r] * sizeof *x), TC_OK, "%s", tc_last_error()->message);
    for (size_t k = 0; k < p.count[r]; k++) size = fmax(size, fabs(p.want[r][k]));
    for (size_t k = 0; k < p.count[r]; k++)
      cr_assert(fabs(x[k] - p.want[r][k]) <= tolerance * (0.05 + size),
                "shape %d, %s: element %zu is %.9g, should be %.9g", shape, name[r], k, x[k], p.want[r][k]);
    free(x);
  }
  drop(&p);
  tc_scope_end(scope);
}

// Of bf16 all shapes, of f32 a third, of other types a sixth, by turns, or all with TC_TEST_ALL=1.
static void each(tc_type type, double tolerance) {
  const char *device = getenv("TC_TEST_DEVICE");
  cr_assert_eq(tc_set_default_device(device ? device : "tc:cpu"), TC_OK, "%s", tc_last_error()->message);
  int every = type == TC_BF16 ? 1 : type == TC_F32 ? 3 : 6;
  for (int i = 0; i < N_SHAPES; i++)
    if (i % every == (int)type % every || getenv("TC_TEST_ALL")) one(i, type, tolerance);
}

Test(attention, f32) {
  each(TC_F32, 4e-6);
}

Test(attention, strict_f32) {
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  setenv("TC_STRICT", "1", 1);
  tc_options_reload();
  one(0, TC_F32, 4e-6);
}

Test(attention, f64) {
  each(TC_F64, 1e-14);
}

// Pairs of bf16 are multiplied where the processor has an instruction for it, and weights are
// rounded to bf16 then.
Test(attention, bf16) {
  each(TC_BF16, 0.012);
}

Test(attention, f16_computes_in_f32) {
  each(TC_F16, 0.0015);
}

// ---- The same bits ----

// From one shape to the next: every third, or all with TC_TEST_ALL=1.
static int step(void) {
  return getenv("TC_TEST_ALL") ? 1 : 3;
}

static size_t bytes_of_all(tc_type type) {
  size_t bytes = 0;
  for (int i = 0; i < N_SHAPES; i += step()) {
    const shape *c = &shapes[i];
    bytes += ((size_t)c->n * (size_t)c->hq * (size_t)c->l + (size_t)c->n * (size_t)c->hkv * (size_t)c->s) *
             (size_t)(c->e + c->ev) * tc_type_bytes(type);
  }
  return bytes;
}

static void compute_all(tc_type type, char *to) {
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  for (int i = 0; i < N_SHAPES; i += step()) {
    tc_scope scope = tc_scope_begin();
    problem p = make(&shapes[i], type, false);
    tc_tensor got[RESULTS];
    results(&p, got);
    for (int r = 0; r < RESULTS; r++) {
      size_t bytes = p.count[r] * tc_type_bytes(type);
      cr_assert_eq(tc_to_host(got[r], to, bytes), TC_OK, "%s", tc_last_error()->message);
      to += bytes;
    }
    drop(&p);
    tc_scope_end(scope);
  }
}

static bool take(int from, char *to, size_t bytes) {
  while (bytes) {
    ssize_t n = read(from, to, bytes);
    if (n <= 0) return false;
    to += n, bytes -= (size_t)n;
  }
  return true;
}

// All results by a process of its own, with a variable set.
static void compute_apart(const char *variable, const char *value, tc_type type, char *to, size_t bytes) {
  int ends[2], status;
  cr_assert_eq(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    setenv(variable, value, 1);
    compute_all(type, to);
    for (size_t at = 0; at < bytes;) {
      ssize_t n = write(ends[1], to + at, bytes - at);
      if (n <= 0) _exit(1);
      at += (size_t)n;
    }
    _exit(0);
  }
  close(ends[1]);
  bool whole = take(ends[0], to, bytes);
  close(ends[0]);
  cr_assert_eq(waitpid(child, &status, 0), child);
  cr_assert(whole && status == 0, "%s=%s", variable, value);
}

static void same_bits_elsewhere(tc_type type) {
  static const char *const variables[][2] = {{"TC_COMPILER", "interp"}, {"TC_EAGER", "1"}, {"TC_NUM_THREADS", "1"}};
  size_t bytes = bytes_of_all(type);
  char *here = malloc(bytes), *apart = malloc(bytes);
  for (int i = 0; i < 3; i++) {  // before this process uses the library
    compute_apart(variables[i][0], variables[i][1], type, i ? apart : here, bytes);
    if (i) cr_assert_arr_eq(here, apart, bytes, "the interpreter and %s", variables[i][0]);
  }
  compute_all(type, here);
  cr_assert_arr_eq(here, apart, bytes, "two threads");
  free(here), free(apart);
}

Test(attention, interpreter_and_one_thread_give_the_same_bits) {
  same_bits_elsewhere(TC_F32);
}

Test(attention, interpreter_and_one_thread_give_the_same_bits_of_bf16) {
  same_bits_elsewhere(TC_BF16);
}

// What the widest vectors alone do is left out: scores by pairs, and powers looked up.
Test(attention, narrower_vectors_give_the_same_bits) {
  size_t bytes = bytes_of_all(TC_F32);
  setenv("TC_STRICT", "1", 1);
  char *here = malloc(bytes), *apart = malloc(bytes);
  compute_apart("TC_ISA", "avx2", TC_F32, apart, bytes);
  compute_all(TC_F32, here);
  cr_assert_arr_eq(here, apart, bytes);
  free(here), free(apart);
}

// ---- Scores by pairs ----

enum { ROWS = 100, HEAD = 72, KEYS = 600 };  // tiles and columns that are not whole, two blocks of keys

typedef struct heads {
  float q[ROWS * HEAD], k[KEYS * HEAD], v[KEYS * HEAD];
} heads;

static float normal(void) {
  double sum = 0;
  for (int i = 0; i < 12; i++) draws = draws * 1664525u + 1013904223u, sum += draws * 0x1p-32;
  return (float)(sum - 6);
}

static void draw_heads(heads *h) {
  for (int i = 0; i < ROWS * HEAD; i++) h->q[i] = normal();
  for (int i = 0; i < KEYS * HEAD; i++) h->k[i] = normal(), h->v[i] = normal();
}

static void attend_heads(const heads *h, const char *winograd, float *out) {
  setenv("TC_WINOGRAD", winograd, 1);
  tc_options_reload();
  tc_cache_clear();
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  tc_scope scope = tc_scope_begin();
  tc_tensor q = tc_from_host(h->q, TC_SHAPE(ROWS, HEAD), TC_F32), k = tc_from_host(h->k, TC_SHAPE(KEYS, HEAD), TC_F32),
            v = tc_from_host(h->v, TC_SHAPE(KEYS, HEAD), TC_F32);
  cr_assert_eq(tc_to_host(tc_scaled_dot_product_attention(q, k, v, NONE, (tc_attention_options){0}), out, sizeof h->q),
               TC_OK);
  tc_scope_end(scope);
}

// The greatest error of the result, against sums in double.
static double error_of(const heads *h, const float *out) {
  double greatest = 0;
  for (int i = 0; i < ROWS; i++) {
    double weight[KEYS], sum = 0;
    for (int j = 0; j < KEYS; j++) {
      weight[j] = 0;
      for (int x = 0; x < HEAD; x++) weight[j] += (double)h->q[i * HEAD + x] * (double)h->k[j * HEAD + x];
      sum += weight[j] = exp(weight[j] / sqrt(HEAD));
    }
    for (int x = 0; x < HEAD; x++) {
      double want = 0;
      for (int j = 0; j < KEYS; j++) want += weight[j] * (double)h->v[j * HEAD + x];
      greatest = fmax(greatest, fabs(want / sum - (double)out[i * HEAD + x]));
    }
  }
  return greatest;
}

static bool made_by_pairs(const heads *h) {
  static float out[ROWS * HEAD], sums[ROWS * HEAD];
  attend_heads(h, "1", out), attend_heads(h, "0", sums);
  return memcmp(out, sums, sizeof out) != 0;
}

Test(attention, scores_by_pairs_are_as_near_as_sums) {
  static heads h;
  static float out[ROWS * HEAD];
  draw_heads(&h);
  cr_assert_eq(made_by_pairs(&h), tc_compiler_isa()->pairs);
  attend_heads(&h, "1", out);
  cr_expect_leq(error_of(&h, out), 1e-6);
  for (int i = 0; i < ROWS * HEAD; i++) h.q[i] *= 1e-3f;
  attend_heads(&h, "1", out);
  cr_expect_leq(error_of(&h, out), 1e-6);
  // Keys of elements of one size, as large as goes by pairs: what is added and taken away again is
  // some hundred times a score.
  for (int i = 0; i < KEYS * HEAD; i++) h.k[i] = 2.5f + 0.05f * normal();
  cr_assert_eq(made_by_pairs(&h), tc_compiler_isa()->pairs);
  attend_heads(&h, "1", out);
  cr_expect_leq(error_of(&h, out), 3e-6);
  for (int i = 0; i < KEYS * HEAD; i++) h.k[i] *= 4;
  cr_expect(!made_by_pairs(&h), "keys of large sums of squares");
}

// One is enough in a block of keys, of which there are two, or in each tile of rows.
Test(attention, rows_and_keys_of_large_elements_are_sums) {
  static const float large[] = {100, -1e20f, INFINITY, -INFINITY, NAN};
  static heads h;
  for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
    draw_heads(&h);
    for (int j = 0; j < KEYS; j += KEYS - 1) h.k[j * HEAD + 33] = large[i];
    cr_expect(!made_by_pairs(&h), "a key with %g", (double)large[i]);
    draw_heads(&h);
    for (int r = 0; r < ROWS; r++) h.q[r * HEAD + r % 64] = large[i];
    cr_expect(!made_by_pairs(&h), "rows with %g", (double)large[i]);
  }
}

// ---- Decoding ----

Test(attention, a_longer_cache_makes_no_new_plan_and_is_not_read_beyond_its_length) {
  enum { S = 96, E = 16, HEADS = 2 };
  static float cache[HEADS * S * E], query[HEADS * E], got[HEADS * E], want[HEADS * E];
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  for (int i = 0; i < HEADS * S * E; i++) cache[i] = i / E % S < 50 ? (float)draw() : NAN;
  for (int i = 0; i < HEADS * E; i++) query[i] = (float)draw();
  tc_tensor q = tc_from_host(query, TC_SHAPE(HEADS, 1, E), TC_F32),
            k = tc_from_host(cache, TC_SHAPE(HEADS, S, E), TC_F32);
  uint64_t before = 0;
  for (int length = 40; length < 50; length++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor out =
        tc_scaled_dot_product_attention(q, k, k, NONE, (tc_attention_options){.causal = true, .key_length = length});
    cr_assert_eq(tc_to_host(out, got, sizeof got), TC_OK);
    if (length == 40) before = tc_cache_stats().plan_misses;
    cr_expect_eq(tc_cache_stats().plan_misses, before, "a new plan");
    tc_scope_end(scope);
  }
  tc_tensor valid = tc_slice(k, 1, 0, 49, 1);
  cr_assert_eq(
      tc_to_host(tc_scaled_dot_product_attention(q, valid, valid, NONE, (tc_attention_options){0}), want, sizeof want),
      TC_OK);
  for (int i = 0; i < HEADS * E; i++)
    cr_expect(fabsf(got[i] - want[i]) <= 1e-6f, "%g, should be %g", (double)got[i], (double)want[i]);
}

// ---- Masks ----

// The least float stands for "not seen" in many programs, but a row of nothing else has a softmax:
// that of equals.
Test(attention, a_row_whose_mask_is_the_least_float_weighs_all_keys_alike) {
  const float mask[] = {-FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX, 0, -FLT_MAX}, q[] = {1, -1}, k[] = {0.5f, -0.25f, 2},
              v[] = {3, 6, 12};
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  tc_tensor x[4] = {tc_from_host(q, TC_SHAPE(2, 1), TC_F32), tc_from_host(k, TC_SHAPE(3, 1), TC_F32),
                    tc_from_host(v, TC_SHAPE(3, 1), TC_F32), tc_from_host(mask, TC_SHAPE(2, 3), TC_F32)};
  float out[2], dq[2], dk[3], dv[3];
  for (int i = 0; i < 3; i++) cr_assert_eq(tc_set_requires_grad(x[i], true), TC_OK);
  tc_tensor y = tc_scaled_dot_product_attention(x[0], x[1], x[2], x[3], (tc_attention_options){0}), d[3];
  cr_assert_eq(tc_grads_of(tc_sum(y, TC_ALL, false), x, 3, d, 0), TC_OK);
  cr_assert_eq(tc_to_host(y, out, sizeof out), TC_OK);
  cr_expect(fabsf(out[0] - 7) <= 1e-5f && out[1] == 6, "%g and %g, should be 7, the mean, and 6", (double)out[0],
            (double)out[1]);
  cr_assert_eq(tc_to_host(d[0], dq, sizeof dq), TC_OK);
  cr_assert_eq(tc_to_host(d[1], dk, sizeof dk), TC_OK);
  cr_assert_eq(tc_to_host(d[2], dv, sizeof dv), TC_OK);
  // slopes (v - 7) / 3, by the keys
  cr_expect(fabsf(dq[0] - 2.75f) <= 1e-5f && dq[1] == 0, "dq is %g %g", (double)dq[0], (double)dq[1]);
  const float slope[] = {-4 / 3.0f, -1 / 3.0f, 5 / 3.0f}, weight[] = {1 / 3.0f, 4 / 3.0f, 1 / 3.0f};
  for (int i = 0; i < 3; i++) {
    cr_expect(fabsf(dk[i] - slope[i]) <= 1e-5f, "dk[%d] is %g, should be %g", i, (double)dk[i], (double)slope[i]);
    cr_expect(fabsf(dv[i] - weight[i]) <= 1e-5f, "dv[%d] is %g, should be %g", i, (double)dv[i], (double)weight[i]);
  }
}

// A pair of the last key and none: what is not there weighs nothing, and nothing times the last
// value's infinity is no number.
Test(attention, an_odd_number_of_keys_ends_with_an_infinite_value) {
  enum { L = 16, KEYS = 3, E = 16 };
  static const tc_type types[] = {TC_BF16, TC_F32};
  float v[KEYS * E], out[L * E];
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  for (int i = 0; i < KEYS * E; i++) v[i] = i < (KEYS - 1) * E ? 1 : INFINITY;
  for (int t = 0; t < 2; t++) {
    tc_tensor q = tc_cast(tc_ones(TC_SHAPE(L, E), TC_F32), types[t]),
              k = tc_cast(tc_ones(TC_SHAPE(KEYS, E), TC_F32), types[t]);
    tc_tensor y = tc_scaled_dot_product_attention(q, k, tc_cast(tc_from_host(v, TC_SHAPE(KEYS, E), TC_F32), types[t]),
                                                  NONE, (tc_attention_options){0});
    cr_assert_eq(tc_to_host(tc_cast(y, TC_F32), out, sizeof out), TC_OK);
    for (int i = 0; i < L * E; i++)
      cr_assert(isinf(out[i]) && out[i] > 0, "%s: element %d is %g", tc_type_name(types[t]), i, (double)out[i]);
  }
}

// The first row of a causal cache of no keys yet, whose one value is infinite, and the second,
// which sees it.
Test(attention, a_row_that_sees_nothing_is_zeros_whatever_the_values) {
  enum { L = 2, E = 4 };
  float v[E] = {INFINITY, NAN, 1, 2}, out[L * E];
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  tc_tensor q = tc_ones(TC_SHAPE(1, 1, L, E), TC_F32), k = tc_ones(TC_SHAPE(1, 1, 1, E), TC_F32),
            x = tc_from_host(v, TC_SHAPE(1, 1, 1, E), TC_F32);
  tc_tensor y = tc_scaled_dot_product_attention(q, k, x, NONE, (tc_attention_options){.causal = true, .key_length = 1});
  cr_assert_eq(tc_to_host(y, out, sizeof out), TC_OK);
  for (int i = 0; i < E; i++) cr_expect_eq(out[i], 0, "element %d is %g", i, (double)out[i]);
  cr_expect(isinf(out[E]) && isnan(out[E + 1]) && out[E + 2] == 1 && out[E + 3] == 2);
}

// ---- Memory ----

Test(attention, results_are_stored_as_the_outputs_they_are) {
  enum { L = 24, HEADS = 3, E = 8 };
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  tc_tensor x[3], moved[3], out[4], w = tc_randn(TC_SHAPE(1, L, HEADS * E), TC_F32);
  for (int i = 0; i < 3; i++) x[i] = tc_param(tc_randn(TC_SHAPE(1, L, HEADS, E), TC_F32));
  cr_assert_eq(tc_eval(3, x), TC_OK);
  cr_assert_eq(tc_eval(1, &w), TC_OK);
  for (int i = 0; i < 3; i++) moved[i] = tc_permute(x[i], TC_AXES(0, 2, 1, 3));
  tc_scope inner = tc_scope_begin();
  out[0] = tc_permute(
      tc_scaled_dot_product_attention(moved[0], moved[1], moved[2], NONE, (tc_attention_options){.causal = true}),
      TC_AXES(0, 2, 1, 3));
  out[0] = tc_reshape(out[0], TC_SHAPE(1, L, HEADS * E));
  tc_keep(out[0]);
  tc_scope_end(inner);
  cr_assert_eq(tc_backward_with(out[0], w, 0), TC_OK);
  for (int i = 0; i < 3; i++) out[1 + i] = tc_grad(x[i]);
  cr_assert_eq(tc_eval(4, out), TC_OK);
  tc_sync_point last;
  cr_assert_eq(tc_sync_points(1, &last), 1);
  cr_expect_eq(last.n_kernels, 3u, "%u kernels for the result, a sum of each row and the gradients", last.n_kernels);
  for (int i = 0; i < 3; i++) tc_release(x[i]);
}

Test(attention, holds_no_matrix_of_scores) {
  enum { S = 1024, E = 16, HEADS = 4 };  // scores: 16 MiB; an operand: 256 KiB
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  tc_tensor x[4];
  for (int i = 0; i < 4; i++) x[i] = tc_randn(TC_SHAPE(1, HEADS, S, E), TC_F32);
  cr_assert_eq(tc_eval(4, x), TC_OK);
  for (int i = 0; i < 3; i++) cr_assert_eq(tc_set_requires_grad(x[i], true), TC_OK);
  size_t before = tc_memory_stats().live_bytes;
  tc_tensor out[4] = {tc_scaled_dot_product_attention(x[0], x[1], x[2], NONE, (tc_attention_options){.causal = true})};
  cr_assert_eq(tc_grads_of(tc_sum(tc_mul(out[0], x[3]), TC_ALL, false), x, 3, out + 1, 0), TC_OK);
  cr_assert_eq(tc_eval(4, out), TC_OK);
  size_t most = tc_memory_stats().peak_bytes - before;
  cr_expect(most < 3u << 20, "%zu bytes for four results of 256 KiB", most);
}

// ---- Refusals ----

static void expect_refusal(tc_tensor x, tc_status status, const char *text) {
  cr_expect_eq(tc_eval(1, &x), status);
  cr_expect(strstr(tc_last_error()->message, text) != NULL, "%s, not %s", tc_last_error()->message, text);
  tc_clear_error();
}

Test(attention, refuses_what_does_not_fit) {
  tc_tensor q = tc_zeros(TC_SHAPE(1, 3, 4, 8), TC_F32), k = tc_zeros(TC_SHAPE(1, 2, 5, 8), TC_F32),
            one = tc_zeros(TC_SHAPE(1, 3, 5, 8), TC_F32);
  tc_attention_options none = {0};
  expect_refusal(tc_scaled_dot_product_attention(q, k, k, NONE, none), TC_ERR_SHAPE,
                 "q is [1, 3, 4, 8], k [1, 2, 5, 8], v [1, 2, 5, 8]");
  expect_refusal(tc_scaled_dot_product_attention(q, tc_cast(one, TC_F16), one, NONE, none), TC_ERR_DTYPE,
                 "one floating type was expected");
  expect_refusal(tc_scaled_dot_product_attention(q, one, one, tc_zeros(TC_SHAPE(3, 5), TC_BOOL), none), TC_ERR_SHAPE,
                 "the mask is [3, 5]");
  expect_refusal(tc_scaled_dot_product_attention(q, one, one, tc_zeros(TC_SHAPE(4, 5), TC_I32), none), TC_ERR_DTYPE,
                 "the mask is i32");
  expect_refusal(tc_scaled_dot_product_attention(q, one, one, NONE, (tc_attention_options){.key_length = 6}),
                 TC_ERR_ARG, "key_length is 6, not within 0 and 5");
  expect_refusal(tc_scaled_dot_product_attention(q, one, one, NONE, (tc_attention_options){.dropout = 2}), TC_ERR_ARG,
                 "dropout is 2");
}
