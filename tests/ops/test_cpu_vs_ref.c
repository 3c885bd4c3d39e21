// A device (tests/near.h; here called cpu) against tc:ref for every row of ops.def that has a
// sample (tests/op_cases.h), and the random ops, whose streams must be the same bits on both. Tests
// are made from ops.def: a row cannot be missing.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TC_NO_SITES
#include <tc/tc.h>

#include "tests/op_cases.h"

// ---- One comparison ----

typedef struct result {
  tc_status status;
  tc_type type;
  tc_dims dims;
  void *data;
  char message[200];
} result;

static result run_on(const char *device, const op_row *op, const op_call *c) {
  result r;
  memset(&r, 0, sizeof r);
  cr_assert_eq(tc_set_default_device(device), TC_OK, "%s", tc_last_error()->message);
  tc_clear_error();
  tc_scope scope = tc_scope_begin();
  tc_tensor x[3] = {{0, 0}};
  for (int k = 0; k < c->n; k++) x[k] = near_present(c->x[k].data, c->x[k].dims, c->x[k].type, c->x[k].how);
  tc_tensor y = op_row_call(op, c, x);
  r.type = tc_dtype(y), r.dims = tc_shape(y);
  if (tc_is_valid(y)) {
    size_t bytes = (size_t)near_count(r.dims) * tc_type_bytes(r.type);
    r.data = calloc(bytes + 1, 1);
    r.status = tc_to_host(y, r.data, bytes);
  } else {
    r.status = tc_last_error()->status;
  }
  snprintf(r.message, sizeof r.message, "%s", tc_last_error()->message);
  tc_scope_end(scope);
  return r;
}

static int n_compared;

static void compare(const op_row *op, const op_call *c, void *arg) {
  result ref = run_on("tc:ref", op, c), cpu = run_on(near_device(), op, c);
  char what[400];
  (void)arg;
  (void)op_call_text(op, c, what, sizeof what);
  // Both may refuse a type (negating bools), but then alike.
  cr_expect_eq(ref.status, cpu.status, "%s: %s on tc:ref (%s), %s on tc:cpu (%s)", what, tc_status_text(ref.status),
               ref.message, tc_status_text(cpu.status), cpu.message);
  cr_expect(ref.status == TC_OK || ref.status == TC_ERR_DTYPE, "%s: %s", what, ref.message);
  if (ref.status == TC_OK && cpu.status == TC_OK) {
    cr_expect_eq(ref.type, cpu.type, "%s: types differ", what);
    cr_expect(near_dims_equal(ref.dims, cpu.dims), "%s: shapes differ", what);
    int64_t i = ref.type != cpu.type ? -1
                                     : near_find(ref.type, cpu.data, ref.data, near_count(ref.dims),
                                                 op_row_tolerance(op, ref.type, c->folded));
    cr_expect(i < 0, "%s: element %lld is %.17g on tc:cpu, %.17g on tc:ref", what, (long long)i,
              i < 0 ? 0 : near_get(cpu.type, cpu.data, i), i < 0 ? 0 : near_get(ref.type, ref.data, i));
    n_compared++;
  }
  free(ref.data), free(cpu.data);
}

// ---- One test per row: every case with TC_TEST_ALL=1, as where kernels are interpreted. Compiled
// ones take a hundred times as long: all in ./dev soak ----

static void run_row(const char *name) {
  n_compared = 0;
  op_row_each(op_row_of(name), getenv("TC_TEST_ALL") != NULL, compare, NULL);
  cr_expect(n_compared > 0, "%s: every type was refused", name);
}

#define ROW_TEST(name) \
  Test(cpu_vs_ref, name) { \
    run_row(#name); \
  }
#define TEST_none(name)
#define TEST_any ROW_TEST
#define TEST_tail ROW_TEST
#define TEST_unit ROW_TEST
#define TEST_positive ROW_TEST
#define TEST_nonzero ROW_TEST
#define TEST_above_one ROW_TEST
#define TEST_integer ROW_TEST
#define TEST_pair ROW_TEST
#define TEST_pair_near ROW_TEST
#define TEST_pair_nonzero ROW_TEST
#define TEST_pair_positive ROW_TEST
#define TEST_pair_integer ROW_TEST
#define TEST_pair_shift ROW_TEST
#define TEST_select ROW_TEST
#define TEST_reduce ROW_TEST
#define TEST_scan ROW_TEST
#define TEST_order ROW_TEST
#define TEST_contract ROW_TEST
#define TEST_index ROW_TEST
#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, autocast, lower, reference, sample) TEST_##sample(name)
#include <tc/ops.def>
#undef TC_OP

// ---- Where the quotient rounds up to a whole number: numpy.floor_divide(float32([1, 0.3, -1, 6,
// 0.7]), float32([0.1, 0.1, 0.1, 0.1, -0.1])) ----

Test(cpu_vs_ref, floor_divide_is_not_the_floor_of_a_rounded_quotient) {
  static const float a[] = {1, 0.3f, -1, 6, 0.7f}, b[] = {0.1f, 0.1f, 0.1f, 0.1f, -0.1f}, want[] = {9, 3, -10, 59, -7};
  const char *const devices[] = {"tc:ref", near_device()};
  for (int k = 0; k < 2; k++) {
    float got[5];
    cr_assert_eq(tc_set_default_device(devices[k]), TC_OK);
    tc_scope scope = tc_scope_begin();
    cr_assert_eq(tc_to_host(tc_floor_divide(tc_from_host(a, TC_SHAPE(5), TC_F32), tc_from_host(b, TC_SHAPE(5), TC_F32)),
                            got, sizeof got),
                 TC_OK);
    tc_scope_end(scope);
    for (int i = 0; i < 5; i++)
      cr_expect_eq(got[i], want[i], "%s: %g // %g is %g, not %g", devices[k], a[i], b[i], want[i], got[i]);
  }
}

Test(cpu_vs_ref, integers_divided_by_zero_are_zero) {
  static tc_tensor (*const ops[])(tc_tensor, tc_tensor) = {tc_remainder, tc_fmod, tc_floor_divide};
  static const tc_type types[] = {TC_U8, TC_I8, TC_I16, TC_I32, TC_I64};
  static const double a[] = {5, 7, 0, 100, 3, 9}, b[] = {0, 0, 0, 0, 0, 2}, last[] = {1, 1, 4};
  const char *devices[] = {"tc:ref", near_device()};
  for (int k = 0; k < 2; k++) {
    cr_assert_eq(tc_set_default_device(devices[k]), TC_OK);
    for (size_t i = 0; i < 5; i++) {
      for (int op = 0; op < 3; op++) {
        double got[6];
        tc_scope scope = tc_scope_begin();
        tc_tensor x = tc_cast(tc_from_host(a, TC_SHAPE(6), TC_F64), types[i]),
                  y = tc_cast(tc_from_host(b, TC_SHAPE(6), TC_F64), types[i]);
        cr_expect_eq(tc_to_host(tc_cast(ops[op](x, y), TC_F64), got, sizeof got), TC_OK, "%s",
                     tc_last_error()->message);
        for (int n = 0; n < 6; n++)
          cr_expect_eq(got[n], n < 5 ? 0 : last[op], "%s: op %d, type %d: %g, %g", devices[k], op, (int)types[i], a[n],
                       got[n]);
        tc_scope_end(scope);
      }
    }
  }
}

// ---- Random ops: the same stream on both backends ----

static void draw(const char *device, double *out, int64_t n) {
  cr_assert_eq(tc_set_default_device(device), TC_OK);
  tc_seed(42);
  tc_scope scope = tc_scope_begin();
  tc_dims d = tc_dims_of(1, &n);
  const tc_tensor draws[] = {tc_rand(d, TC_F64),
                             tc_randn(d, TC_F64),
                             tc_cast(tc_randint(-5, 9, d, TC_I64), TC_F64),
                             tc_cast(tc_bernoulli(0.25, d), TC_F64),
                             tc_cast(tc_randperm(n), TC_F64),
                             tc_cast(tc_rand(d, TC_F32), TC_F64)};
  for (int k = 0; k < 6; k++)
    cr_expect_eq(tc_to_host(draws[k], out + k * n, (size_t)n * 8), TC_OK, "%s", tc_last_error()->message);
  tc_scope_end(scope);
}

Test(cpu_vs_ref, random_streams_agree_and_have_their_distributions) {
  enum { N = 4099 };
  static double ref[6 * N], cpu[6 * N], again[6 * N];
  draw("tc:ref", ref, N), draw(near_device(), cpu, N), draw(near_device(), again, N);
  cr_expect_eq(memcmp(cpu, again, sizeof cpu), 0, "one seed, two streams");
  cr_expect_eq(near_find(TC_F64, cpu, ref, 6 * N, (near_tol){4, 1e-14, false}), -1);
  double sum[6] = {0}, square = 0, seen = 0;
  for (int i = 0; i < N; i++) {
    for (int k = 0; k < 6; k++) sum[k] += cpu[k * N + i] / N;
    square += cpu[N + i] * cpu[N + i] / N, seen += cpu[4 * N + i];
    cr_expect(cpu[i] >= 0 && cpu[i] < 1 && cpu[5 * N + i] >= 0 && cpu[5 * N + i] < 1, "rand is in [0, 1)");
    cr_expect(cpu[2 * N + i] >= -5 && cpu[2 * N + i] < 9, "randint is in [low, high)");
  }
  // Five standard deviations of each mean.
  cr_expect(fabs(sum[0] - 0.5) < 0.023 && fabs(sum[5] - 0.5) < 0.023 && fabs(sum[1]) < 0.079 && fabs(square - 1) < 0.11,
            "means %g %g %g, square %g", sum[0], sum[5], sum[1], square);
  cr_expect(fabs(sum[2] - 1.5) < 0.32 && fabs(sum[3] - 0.25) < 0.034, "means %g %g", sum[2], sum[3]);
  cr_expect_eq(seen, (double)N * (N - 1) / 2, "randperm holds every number");
}
