// Products over a long k have the bits of the documented order, whatever road makes them: chains of
// 512 steps from zero, added one after another in groups of 131072 steps, and the groups likewise.
// Beside it, sums that one chain would lose: of ones, of one number, of what comes again, and of
// uniform numbers. And a sum beside an update in place has the bits of a sum alone.
#include <math.h>
#include <stdlib.h>

#include "lowering/target/cpu_target.h"
#include "tests/expect.h"

enum { CHAIN = 512, WHOLE = 4096, GROUP = 131072 };

typedef struct problem {
  const char *name;
  int64_t m, k, n;
  bool a_turned, b_turned, widened;  // widened: b is made of bytes
} problem;

static const problem problems[] = {
    {"one chain", 5, 4096, 70, false, false, false},
    {"one row", 1, 4999, 200, false, false, false},
    {"one row, b along k", 1, 4500, 50, false, true, false},
    {"one row, bytes", 1, 4499, 130, false, false, true},
    {"few rows", 5, 4097, 130, false, false, false},
    {"few rows, b along k", 3, 4613, 70, false, true, false},
    {"few rows, a turned", 4, 4613, 33, true, true, false},
    {"tiles", 40, 5000, 70, false, false, false},
    {"tiles, b along k", 45, 5003, 70, false, true, false},
    {"tiles, both turned", 33, 4620, 40, true, true, false},
    {"a weight's gradient", 40, 20000, 24, true, false, false},
    {"narrow", 300, 5000, 7, false, false, false},
    {"one column", 70, 4800, 1, false, false, false},
    {"groups", 3, 300000, 5, true, false, false},
    {"groups, one row", 1, 270000, 9, false, true, false},
    {"groups of tiles", 17, 140000, 33, true, false, false},
};
enum { N_PROBLEMS = sizeof problems / sizeof problems[0] };

static float *numbers(int64_t n, uint32_t seed, bool bytes) {
  float *v = malloc((size_t)n * sizeof *v);
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    v[i] = bytes ? (float)((int)(seed >> 24) - 128) : (float)(seed >> 8) * 0x1p-24F + 0.25F;
  }
  return v;
}

static tc_tensor stored(const float *v, int64_t rows, int64_t cols, bool turned, bool bytes) {
  tc_tensor t = tc_from_host(v, turned ? TC_SHAPE(cols, rows) : TC_SHAPE(rows, cols), TC_F32);
  if (bytes) t = tc_cast(t, TC_I8);
  EXPECT_OK(tc_eval(1, &t));
  if (bytes) t = tc_cast(t, TC_F32);
  return turned ? tc_transpose(t, 0, 1) : t;
}

// The documented order.
static float sum_of(const float *a, int64_t a_step, const float *b, int64_t b_step, int64_t k, bool fused) {
  int64_t chain = k > WHOLE ? CHAIN : k;
  float all = 0, group = 0, sum = 0;
  for (int64_t from = 0; from < k; from += chain) {
    int64_t to = from + chain < k ? from + chain : k;
    sum = 0;
    for (int64_t i = from; i < to; i++) {
      float x = a[i * a_step], y = b[i * b_step];
      if (fused)
        sum = fmaf(x, y, sum);
      else
        sum += x * y;
    }
    group = from % GROUP == 0 ? sum : group + sum;
    if (to == k || to % GROUP == 0) all = from < GROUP ? group : all + group;
  }
  return all;
}

static void has_the_documented_bits(const problem *p) {
  float *a = numbers(p->m * p->k, 3, false), *b = numbers(p->k * p->n, 5, p->widened),
        *got = malloc((size_t)(p->m * p->n) * sizeof *got);
  tc_scope s = tc_scope_begin();
  tc_tensor y = tc_matmul(stored(a, p->m, p->k, p->a_turned, false), stored(b, p->k, p->n, p->b_turned, p->widened));
  EXPECT_OK(tc_to_host(y, got, (size_t)(p->m * p->n) * sizeof *got));
  bool fused = tc_compiler_isa()->fma;
  int n_wrong = 0;
  for (int64_t i = 0; i < p->m; i++)
    for (int64_t j = 0; j < p->n; j++) {
      float want = sum_of(a + (p->a_turned ? i : i * p->k), p->a_turned ? p->m : 1, b + (p->b_turned ? j * p->k : j),
                          p->b_turned ? 1 : p->n, p->k, fused);
      if (want != got[i * p->n + j] && n_wrong++ == 0)
        printf("%s [%d, %d]: %.9g, not %.9g\n", p->name, (int)i, (int)j, (double)got[i * p->n + j], (double)want);
    }
  EXPECT(n_wrong == 0, "%s: %d of %d", p->name, n_wrong, (int)(p->m * p->n));
  tc_scope_end(s);
  free(a), free(b), free(got);
}

// x -= y / 4 and the sum of its squares, each in a kernel of its own, and in one that writes over x.
static void sums_alike_beside_an_update(int64_t n, tc_type type) {
  size_t bytes = (size_t)n * (type == TC_F64 ? sizeof(double) : sizeof(float));
  float *v = numbers(n, 7, false), *w = numbers(n, 11, false);
  void *alone = malloc(bytes), *beside = malloc(bytes);
  double sum[2] = {0, 1};
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_cast(tc_from_host(v, TC_SHAPE(n), TC_F32), type),
            y = tc_cast(tc_from_host(w, TC_SHAPE(n), TC_F32), type);
  tc_tensor z = tc_sub(x, tc_mul_num(y, tc_num_float(.25)));
  EXPECT_OK(tc_eval(3, (tc_tensor[]){x, y, z}));
  EXPECT_OK(tc_item_f64(tc_sum(tc_mul(z, z), TC_ALL, false), &sum[0]));
  EXPECT_OK(tc_to_host(z, alone, bytes));
  tc_tensor next = tc_sub(x, tc_mul_num(y, tc_num_float(.25))), total = tc_sum(tc_mul(next, next), TC_ALL, false);
  EXPECT_OK(tc_assign(x, next));
  EXPECT_OK(tc_eval(2, (tc_tensor[]){x, total}));
  EXPECT_OK(tc_item_f64(total, &sum[1]));
  EXPECT_OK(tc_to_host(x, beside, bytes));
  EXPECT(sum[0] == sum[1], "%d: %.17g alone, %.17g beside", (int)n, sum[0], sum[1]);
  EXPECT(memcmp(alone, beside, bytes) == 0, "%d: another update", (int)n);
  tc_scope_end(s);
  free(v), free(w), free(alone), free(beside);
}

int main(void) {
  static const int64_t lengths[] = {37, 100, 5000, 70001, 1000000, 1 << 20};
  for (int i = 0; i < 6; i++) {
    sums_alike_beside_an_update(lengths[i], TC_F64);
    sums_alike_beside_an_update(lengths[i], TC_F32);
  }
  for (int i = 0; i < N_PROBLEMS; i++) has_the_documented_bits(&problems[i]);
  return expect_done("numerics-summation_order");
}
