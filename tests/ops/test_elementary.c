// The f32 functions that kernels compute by polynomials, against libm in double on every 4,099th
// float, or on all with TC_TEST_ALL=1, as ./dev soak has it: no result is further off than
// docs/numerics.md says.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tc/tc.h>

#include "runtime/options.h"

#define STEP 4099  // prime, so that every exponent and sign meets every kind of fraction
#define N (UINT32_MAX / STEP + 1)

// A unit in the last place of the f32 nearest to v.
static double unit(double v) {
  int exponent;
  (void)frexp(v, &exponent);
  return ldexp(1, exponent - 24 < -149 ? -149 : exponent - 24);
}

// Off by at most `units`, or by `least` where that is more. The sign of zero is not looked at.
static bool is_right(double got, double want, double units, double least) {
  if (isnan(want)) return isnan(got);
  float nearest = (float)want;
  if (isinf(nearest) || isinf(got)) return got == (double)nearest || fabs(want) > 0x1.fffffep127 * (1 - 0x1p-22);
  return fabs(got - want) <= fmax(units * unit(want), least);
}

// Of the floats first, first + STEP, ..
static void check_from(uint32_t first, const char *name, tc_tensor (*f)(tc_tensor), double (*exact)(double),
                       double units, double least) {
  float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
  cr_assert(x && y);
  for (uint32_t i = 0; i < N; i++) {
    uint32_t bits = i * STEP + first;
    memcpy(&x[i], &bits, sizeof bits);
  }
  tc_scope scope = tc_scope_begin();
  cr_assert_eq(tc_to_host(f(tc_from_host(x, TC_SHAPE(N), TC_F32)), y, N * sizeof *y), TC_OK);
  tc_scope_end(scope);
  for (uint32_t i = 0; i < N; i++) {
    double want = exact((double)x[i]);
    cr_assert(is_right((double)y[i], want, units, least), "%s(%a) is %a, not %a", name, (double)x[i], (double)y[i],
              want);
  }
  free(x);
  free(y);
}

static void check(const char *name, tc_tensor (*f)(tc_tensor), double (*exact)(double), double units, double least) {
  uint32_t n = getenv("TC_TEST_ALL") ? STEP : 1;
  for (uint32_t first = 0; first < n; first++) check_from(first, name, f, exact, units, least);
}

static tc_tensor exp_of(tc_tensor x) {
  return tc_exp(x);
}
static tc_tensor log_of(tc_tensor x) {
  return tc_log(x);
}
static tc_tensor sin_of(tc_tensor x) {
  return tc_sin(x);
}
static tc_tensor cos_of(tc_tensor x) {
  return tc_cos(x);
}
static tc_tensor tanh_of(tc_tensor x) {
  return tc_tanh(x);
}
static tc_tensor erf_of(tc_tensor x) {
  return tc_erf(x);
}
static tc_tensor sigmoid_of(tc_tensor x) {
  return tc_sigmoid(x);
}
static tc_tensor gelu_of(tc_tensor x) {
  return tc_gelu(x);
}
static tc_tensor gelu_of_size(tc_tensor x) {
  return tc_gelu(tc_abs(x));
}
static double gelu(double x) {
  return x == -INFINITY ? 0 : 0.5 * x * erfc(-x * M_SQRT1_2);
}
static double gelu_of_fabs(double x) {
  return gelu(fabs(x));
}
static tc_tensor gelu_tanh_of(tc_tensor x) {
  return tc_gelu_tanh(x);
}
static tc_tensor gelu_tanh_of_size(tc_tensor x) {
  return tc_gelu_tanh(tc_abs(x));
}
static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}
static double gelu_tanh(double x) {
  return x == -INFINITY ? 0 : x * sigmoid(M_SQRT2 * M_2_SQRTPI * x * (1 + 0.044715 * x * x));
}
static double gelu_tanh_of_fabs(double x) {
  return gelu_tanh(fabs(x));
}

Test(elementary, exp_is_within_its_bound) {
  check("exp", exp_of, exp, 0.9, 0);
}
Test(elementary, log_is_within_its_bound) {
  check("log", log_of, log, 1, 0);
}
static void check_sines(void) {
  const float x[2] = {-0.0f, 0};
  float y[2];
  tc_scope scope = tc_scope_begin();
  cr_assert_eq(tc_to_host(tc_sin(tc_from_host(x, TC_SHAPE(2), TC_F32)), y, sizeof y), TC_OK);
  tc_scope_end(scope);
  cr_assert(memcmp(x, y, sizeof x) == 0, "sines of -0 and 0 are %a and %a", (double)y[0], (double)y[1]);
  check("sin", sin_of, sin, 0.9, 0x1p-30);
  check("cos", cos_of, cos, 0.9, 0x1p-30);
}

static void check_gelus(void) {
  check("gelu of |x|", gelu_of_size, gelu_of_fabs, 2, 0);
  check("gelu", gelu_of, gelu, 2, 5.5e-8);
  check("gelu_tanh of |x|", gelu_tanh_of_size, gelu_tanh_of_fabs, 2.2, 0);
  check("gelu_tanh", gelu_tanh_of, gelu_tanh, 2.2, 5.5e-8);
}

Test(elementary, sin_and_cos_are_within_their_bounds) {
  check_sines();
}
Test(elementary, gelu_is_within_its_bounds) {
  check_gelus();
}

// Without tables, and with them as for a processor that looks numbers up, whatever this one does.
Test(elementary, without_tables_bounds_are_the_same) {
  setenv("TC_ISA", "avx2", 1);
  check_sines();
  check_gelus();
}
Test(elementary, looked_up_bounds_are_the_same) {
  setenv("TC_ISA", "avx512", 1), setenv("TC_COMPILER", "interp", 1);
  check_sines();
  check_gelus();
}

enum { N_LARGE = 256 };

static void sines(const float *x, float *y) {
  tc_scope scope = tc_scope_begin();
  cr_assert_eq(tc_to_host(tc_sin(tc_from_host(x, TC_SHAPE(N_LARGE), TC_F32)), y, N_LARGE * sizeof *y), TC_OK);
  tc_scope_end(scope);
}

// Polynomials end at some 12,867: whether a value's neighbours need libm's function is nothing to
// it.
Test(elementary, a_large_argument_changes_no_other_sine) {
  float x[N_LARGE], alike[N_LARGE], want[N_LARGE], got[N_LARGE];
  for (int i = 0; i < N_LARGE; i++) x[i] = 8000 + 25.37f * (float)i;
  sines(x, want);
  for (int at = 0; at < N_LARGE; at += 5) {
    float was = x[at];
    x[at] = at % 2 ? 1e30f : NAN;
    sines(x, got);
    x[at] = was;
    for (int i = 0; i < N_LARGE; i++)
      cr_assert(i == at || memcmp(&want[i], &got[i], sizeof(float)) == 0, "%d beside %d", i, at);
  }
  for (int i = 0; i < N_LARGE; i++) {
    for (int k = 0; k < N_LARGE; k++) alike[k] = x[i];
    sines(alike, got);
    cr_assert(memcmp(&want[i], &got[i], sizeof(float)) == 0, "sin(%a) is %a and %a", (double)x[i], (double)want[i],
              (double)got[i]);
  }
}

Test(elementary, tanh_is_within_its_bound) {
  check("tanh", tanh_of, tanh, 2.6, 0);
}
Test(elementary, erf_is_within_its_bound) {
  check("erf", erf_of, erf, 1.9, 0);
}
Test(elementary, sigmoid_is_within_its_bound) {
  check("sigmoid", sigmoid_of, sigmoid, 2.5, 0);
}

// Where its two terms cancel: at -3.5 they are 2.3e-4 and -3.05e-3.
Test(elementary, gelu_s_slope_of_narrow_types_is_rounded_once) {
  static const tc_type types[] = {TC_BF16, TC_F16};
  float x[256], got[256];
  for (int i = 0; i < 256; i++) x[i] = (float)(i - 192) / 32;
  for (int t = 0; t < 2; t++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor a = tc_param(tc_cast(tc_from_host(x, TC_SHAPE(256), TC_F32), types[t])), g;
    cr_assert_eq(tc_grads_of(tc_sum(tc_gelu(a), TC_ALL, false), &a, 1, &g, 0), TC_OK);
    cr_assert_eq(tc_to_host(tc_cast(g, TC_F32), got, sizeof got), TC_OK);
    for (int i = 0; i < 256; i++) {
      double v = (double)x[i], want = 0.5 * erfc(-v * M_SQRT1_2) + v * exp(-v * v / 2) * 0.39894228040143268;
      double allowed = ldexp(fabs(want), types[t] == TC_BF16 ? -8 : -11) + 1e-7;  // half a unit, and f32's sum
      cr_assert(fabs((double)got[i] - want) <= allowed, "%s: at %g it is %g, not %g", tc_type_name(types[t]), v,
                (double)got[i], want);
    }
    tc_release(a);
    tc_scope_end(scope);
  }
}

// Each bound is that of double's function rounded to f32.
Test(elementary, strict_functions_are_within_one_unit) {
  setenv("TC_STRICT", "1", 1);
  tc_options_reload();
  check("exp", exp_of, exp, 1, 0);
  check("log", log_of, log, 1, 0);
  check("sin", sin_of, sin, 1, 0);
  check("cos", cos_of, cos, 1, 0);
  check("tanh", tanh_of, tanh, 1, 0);
  check("erf", erf_of, erf, 1, 0);
  check("sigmoid", sigmoid_of, sigmoid, 1, 0);
  check("gelu", gelu_of, gelu, 1, 0);
  check("gelu_tanh", gelu_tanh_of, gelu_tanh, 1, 0);
}
