// Numbers that a program may change at each step are arguments of a plan, not a part of it: twenty
// values make one plan, forward and with the gradient, and give what they should.
#include <math.h>
#include <stdlib.h>

#include "tests/expect.h"

enum { N = 24, M = 20, STEPS = 20 };

static tc_tensor x;
static float data[N * M];

typedef tc_tensor fn(int k);
static tc_tensor roll_rows(int k) {
  return tc_roll(x, k - 7, 0);
}
static tc_tensor roll_columns(int k) {
  return tc_roll(tc_mul(x, 2), 3 * k, -1);
}
static tc_tensor roll_twice(int k) {
  return tc_add(tc_roll(tc_roll(x, k, 0), -k, 1), x);
}
static tc_tensor kth_of_column(int k) {
  return tc_kthvalue(x, k + 1, 0, true);
}
static tc_tensor kth_of_row(int k) {
  return tc_kthvalue(tc_neg(x), k + 1, 1, false);
}
static tc_tensor select_row(int k) {
  return tc_select(x, 0, k);
}
static tc_tensor sliced(int k) {
  return tc_slice(x, 0, k, k + 4, 1);
}
static tc_tensor diagonal_of(int k) {
  return tc_diagonal(tc_slice(x, 0, 0, 1, 1), k);
}
static tc_tensor triangles(int k) {
  return tc_add(tc_tril(x, k - 5), tc_triu(x, 9 - k));
}
static tc_tensor numbers(int k) {
  return tc_clamp(tc_add(tc_mul(x, 1 + 0.01 * k), tc_arange(k, k + M, 1, TC_F32)), -1 - k, 30 + k);
}
static tc_tensor filled(int k) {
  return tc_masked_fill(tc_mul(x, tc_full(TC_SHAPE(N, M), k, TC_F32)), tc_gt(x, 0.1 * k), 2.5 * k);
}
static tc_tensor losses(int k) {
  return tc_add(tc_huber_loss(x, tc_mul(x, 2), 1.0 + k),
                tc_sum(tc_leaky_relu(tc_elu(x, 1 + 0.1 * k), 0.01 * k), TC_ALL, false));
}
static tc_tensor padded_by(int k) {
  return tc_pad(x, TC_SHAPE(0, 1), TC_SHAPE(1, 0), 0.5 * k);
}
static tc_tensor shifted_by(int k) {
  return tc_pad(tc_mul(x, 2), TC_SHAPE(3, k), TC_SHAPE(0, STEPS - k), 0.5);
}
static tc_tensor variances(int k) {
  return tc_add(tc_var(x, TC_AXES(0), 0.1 * k, false),
                tc_mean(tc_layer_norm(x, (tc_tensor){0, 0}, (tc_tensor){0, 0}, 1e-5 * (k + 1)), TC_AXES(0), false));
}

static const struct {
  const char *name;
  fn *f;
} ops[] = {
    {"roll_rows", roll_rows},   {"roll_columns", roll_columns},
    {"roll_twice", roll_twice}, {"kth_of_column", kth_of_column},
    {"kth_of_row", kth_of_row}, {"select_row", select_row},
    {"sliced", sliced},         {"diagonal", diagonal_of},
    {"triangles", triangles},   {"numbers", numbers},
    {"filled", filled},         {"losses", losses},
    {"padded_by", padded_by},   {"shifted_by", shifted_by},
    {"variances", variances},
};

static void one_plan(size_t i, bool gradient) {
  tc_cache_clear();
  tc_cache_info first = tc_cache_stats(), last;
  for (int k = 0; k < STEPS; k++) {
    if (k == 1) first = tc_cache_stats();
    tc_scope s = tc_scope_begin();
    tc_tensor y = ops[i].f(k);
    if (gradient) EXPECT_OK(tc_grads_of(tc_sum(tc_mul(y, y), TC_ALL, false), &x, 1, &y, 0));
    EXPECT_OK(tc_eval(1, &y));
    tc_scope_end(s);
  }
  last = tc_cache_stats();
  EXPECT(last.plan_misses == first.plan_misses, "%s%s: %d more plans", ops[i].name, gradient ? ", gradient" : "",
         (int)(last.plan_misses - first.plan_misses));
}

static float at(int i, int j) {
  return data[(i % N + N) % N * M + (j % M + M) % M];
}

static void rolled_values(void) {
  static float y[N * M], g[N * M];
  for (int k = -N; k <= 2 * N; k += 7) {
    tc_scope s = tc_scope_begin();
    tc_tensor weight = tc_reshape(tc_arange(1, N * M + 1, 1, TC_F32), TC_SHAPE(N, M)), r = tc_roll(x, k, 0),
              c = tc_roll(x, k, 1), gr;
    bool right = true;
    expect_floats(r, y, N * M);
    for (int i = 0; i < N * M; i++) right &= y[i] == at(i / M - k, i % M);
    EXPECT(right, "rows rolled by %d", k);
    expect_floats(c, y, N * M);
    for (int i = 0; i < N * M; i++) right &= y[i] == at(i / M, i % M - k);
    EXPECT(right, "columns rolled by %d", k);
    EXPECT_OK(tc_grads_of(tc_sum(tc_mul(tc_roll(x, k, 0), weight), TC_ALL, false), &x, 1, &gr, 0));
    expect_floats(gr, g, N * M);
    for (int i = 0; i < N * M; i++) right &= g[i] == (float)(((i / M + k) % N + N) % N * M + i % M + 1);
    EXPECT(right, "gradient of rows rolled by %d", k);
    tc_scope_end(s);
  }
}

// The same by two pieces, whose lengths are the plan's.
static tc_tensor by_pieces(tc_tensor t, int64_t shift, int axis) {
  int64_t n = tc_shape(t).dim[axis], s = (shift % n + n) % n;
  if (s == 0) return t;
  return tc_cat(2, (tc_tensor[]){tc_slice(t, axis, n - s, n, 1), tc_slice(t, axis, 0, n - s, 1)}, axis);
}

typedef tc_tensor roll_fn(tc_tensor t, int64_t shift, int axis);
static tc_tensor plainly(tc_tensor t, int64_t shift, int axis) {
  return tc_roll(t, shift, axis);
}

// A roll among other work: of what is computed and read in one kernel, on both sides of products,
// folds and moves, of other types.
static tc_tensor within(int kind, int64_t k, roll_fn *roll) {
  switch (kind) {
    case 0: return tc_sum(roll(tc_mul(x, 2), k, 0), TC_AXES(1), false);
    case 1: return tc_matmul(roll(x, k, 1), tc_transpose(roll(x, -k, 0), 0, 1));
    case 2: return tc_reshape(tc_permute(roll(roll(x, k, 0), k, 1), TC_AXES(1, 0)), TC_SHAPE(8, -1));
    case 3: return roll(tc_softmax(roll(x, k, 1), 1), k, 0);
    case 4: return roll(tc_cast(tc_slice(x, 1, 1, M, 2), TC_F16), k, 1);
    case 5: return roll(tc_gt(x, 0), k, 0);
    case 6:
      return tc_conv2d(roll(tc_reshape(x, TC_SHAPE(1, 2, 12, 20)), k, 2),
                       tc_reshape(tc_slice(x, 0, 0, 9, 1), TC_SHAPE(10, 2, 3, 3)), (tc_tensor){0, 0},
                       (tc_conv_options){.padding = TC_SHAPE(1)});
    default: return tc_cumsum(roll(x, k, 1), 1);
  }
}

static void rolled_within(void) {
  static float values[2][2][N * M * 5];
  for (int kind = 0; kind < 8; kind++)
    for (int k = -3; k < N + 4; k += 9) {
      int64_t n[2] = {0};
      for (int way = 0; way < 2; way++) {
        tc_scope s = tc_scope_begin();
        tc_tensor y = within(kind, k, way ? plainly : by_pieces), g = tc_cast(y, TC_F32);
        n[0] = expect_floats(y, values[way][0], N * M * 5);
        if (kind != 5) {
          EXPECT_OK(tc_grads_of(tc_sum(tc_mul(g, tc_add(g, 0.5)), TC_ALL, false), &x, 1, &g, 0));
          n[1] = expect_floats(g, values[way][1], N * M);
        }
        tc_scope_end(s);
      }
      EXPECT(memcmp(values[0][0], values[1][0], (size_t)n[0] * sizeof(float)) == 0, "kind %d, by %d", kind, k);
      EXPECT(memcmp(values[0][1], values[1][1], (size_t)n[1] * sizeof(float)) == 0, "gradient of kind %d, by %d", kind,
             k);
    }
}

static int by_value(const void *a, const void *b) {
  float u = *(const float *)a, v = *(const float *)b;
  return (u > v) - (u < v);
}

static void kth_values(void) {
  static float y[M], sorted[N], g[N * M];
  for (int k = 1; k <= N; k += 5) {
    tc_scope s = tc_scope_begin();
    tc_tensor v = tc_kthvalue(x, k, 0, false), gr;
    expect_floats(v, y, M);
    EXPECT_OK(tc_grads_of(tc_sum(v, TC_ALL, false), &x, 1, &gr, 0));
    expect_floats(gr, g, N * M);
    for (int j = 0; j < M; j++) {
      float sum = 0;
      for (int i = 0; i < N; i++) sorted[i] = at(i, j), sum += g[i * M + j];
      qsort(sorted, N, sizeof *sorted, by_value);
      EXPECT(y[j] == sorted[k - 1], "%d. of column %d: %g, not %g", k, j, (double)y[j], (double)sorted[k - 1]);
      EXPECT(sum == 1, "gradients of column %d add up to %g", j, (double)sum);
      for (int i = 0; i < N; i++) EXPECT(g[i * M + j] == 0 || at(i, j) == sorted[k - 1], "a gradient went elsewhere");
    }
    tc_scope_end(s);
  }
  // Among equals the first, and NaN last, whatever the type; k of all, k of one.
  tc_scope s = tc_scope_begin();
  float z[2] = {0};
  tc_tensor few = tc_from_host((const float[]){2, NAN, 2, -1, 2, -INFINITY}, TC_SHAPE(6), TC_F32);
  for (int type = 0; type < 4; type++) {
    static const tc_type types[] = {TC_F64, TC_F32, TC_F16, TC_BF16};
    static const float want[] = {-INFINITY, -1, 2, 2, 2};
    tc_tensor t = tc_cast(few, types[type]);
    for (int k = 1; k <= 5; k++) {
      expect_floats(tc_kthvalue(t, k, 0, false), z, 1);
      EXPECT(z[0] == want[k - 1], "%d. is %g", k, (double)z[0]);
    }
    expect_floats(tc_kthvalue(t, 6, 0, false), z, 1);
    EXPECT(isnan(z[0]), "the last is %g", (double)z[0]);
  }
  tc_tensor whole = tc_from_host((const int64_t[]){INT64_MAX, 5, INT64_MIN, INT64_MAX - 1}, TC_SHAPE(2, 2), TC_I64);
  int64_t w[2];
  EXPECT_OK(tc_to_host(tc_kthvalue(whole, 2, 0, false), w, sizeof w));
  EXPECT(w[0] == INT64_MAX && w[1] == INT64_MAX - 1, "whole numbers");
  expect_floats(tc_kthvalue(tc_scalar(3), 1, 0, false), z, 1);
  EXPECT(z[0] == 3, "of a scalar %g", (double)z[0]);
  EXPECT_FAILS(tc_kthvalue(x, 0, 0, false), TC_ERR_ARG, "k is 0; axis 0 has 24 elements");
  EXPECT_FAILS(tc_kthvalue(x, N + 1, 0, false), TC_ERR_ARG, "k is 25; axis 0 has 24 elements");
  tc_scope_end(s);
}

int main(void) {
  const char *device = getenv("TC_TEST_DEVICE");
  if (device) EXPECT_OK(tc_set_default_device(device));
  for (int i = 0; i < N * M; i++) data[i] = (float)((i * 7919) % 1009) / 1009 - 0.5f;
  x = tc_param(tc_from_host(data, TC_SHAPE(N, M), TC_F32));
  EXPECT_OK(tc_eval(1, &x));
  for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) one_plan(i, false), one_plan(i, true);
  rolled_values();
  rolled_within();
  kth_values();
  tc_release(x);
  return expect_done("planning-arguments");
}
