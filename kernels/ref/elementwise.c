// Elementwise reference kernels: every row is an expression on doubles and one on int64s, run over
// spans converted from and to the real types.
//
// The last operand's type chooses. Floats compute in double and are rounded once on storing.
// Integers and bools compute in int64 and wrap on storing; bools become != 0, so adding bools is
// or. A result of another type (comparisons, cast) needs nothing more.
// Threads: thread-safe, pure.
// Owner: nothing.
#include <math.h>

#include "kernels/math.h"
#include "kernels/ref/convert.h"
#include "kernels/ref/walk.h"

// Computes one span: operand k's elements are x[k][0..n).
typedef void f64_fn(int64_t n, double (*x)[TC_SPAN], double *out);
typedef void i64_fn(int64_t n, int64_t (*x)[TC_SPAN], int64_t *out);

static void begin_map(tc_walk *w, const tc_ref_call *call) {
  tc_walk_init(w, call->out.rank, call->out.dim, TC_SPAN);
  tc_walk_add(w, call->out.stride);
  for (int k = 0; k < call->n_in; k++) tc_walk_add(w, call->in[k].stride);
  tc_walk_begin(w);
}

static void map_f64(const tc_ref_call *call, f64_fn *fn) {
  double x[3][TC_SPAN], out[TC_SPAN];
  tc_walk w;
  begin_map(&w, call);
  while (tc_walk_next(&w)) {
    for (int k = 0; k < call->n_in; k++)
      tc_load_f64(call->in[k].type, call->in[k].ptr, w.offset[k + 1], w.step[k + 1], w.n, x[k]);
    fn(w.n, x, out);
    tc_store_f64(call->out.type, call->out.ptr, w.offset[0], w.step[0], w.n, out);
  }
}

static void map_i64(const tc_ref_call *call, i64_fn *fn) {
  int64_t x[3][TC_SPAN], out[TC_SPAN];
  tc_walk w;
  begin_map(&w, call);
  while (tc_walk_next(&w)) {
    for (int k = 0; k < call->n_in; k++)
      tc_load_i64(call->in[k].type, call->in[k].ptr, w.offset[k + 1], w.step[k + 1], w.n, x[k]);
    fn(w.n, x, out);
    tc_store_i64(call->out.type, call->out.ptr, w.offset[0], w.step[0], w.n, out);
  }
}

// A row without the wanted function uses the other one: sqrt of integers computes in double, and
// bitwise rows know integers only.
static tc_status map_spans(const tc_ref_call *call, f64_fn *f64, i64_fn *i64) {
  TC_ASSERT(call->n_in >= 1 && call->n_in <= 3);
  bool is_float = tc_ref_is_float(call->in[call->n_in - 1].type);
  if (f64 && (is_float || !i64))
    map_f64(call, f64);
  else
    map_i64(call, i64);
  return TC_OK;
}

// a, b, c name the operands' elements in the expressions below.
#define SPAN_FN(name, suffix, ctype, operands, expression) \
  static void name##_##suffix(int64_t n, ctype(*x)[TC_SPAN], ctype *out) { \
    for (int64_t i = 0; i < n; i++) { \
      operands(ctype) out[i] = (expression); \
    } \
  }
#define ONE(ctype) ctype a = x[0][i];
#define TWO(ctype) ctype a = x[0][i], b = x[1][i];
#define THREE(ctype) ctype a = x[0][i], b = x[1][i], c = x[2][i];

#define ROW(name, operands, f64_expression, i64_expression) \
  SPAN_FN(name, f64, double, operands, f64_expression) \
  SPAN_FN(name, i64, int64_t, operands, i64_expression) \
  tc_status tc_ref_##name(const tc_ref_call *call) { \
    return map_spans(call, name##_f64, name##_i64); \
  }
#define FLOAT_ROW(name, operands, f64_expression) \
  SPAN_FN(name, f64, double, operands, f64_expression) \
  tc_status tc_ref_##name(const tc_ref_call *call) { \
    return map_spans(call, name##_f64, NULL); \
  }
#define INT_ROW(name, operands, i64_expression) \
  SPAN_FN(name, i64, int64_t, operands, i64_expression) \
  tc_status tc_ref_##name(const tc_ref_call *call) { \
    return map_spans(call, NULL, name##_i64); \
  }

// ---- Arithmetic that wraps ----

static int64_t wrap_neg(int64_t a) {
  return (int64_t)(0 - (uint64_t)a);
}

static int64_t wrap_mul(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}

// Computes by repeated squaring. A negative exponent gives 0, except for the bases 1 and -1.
static int64_t int_pow(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 ? -1 : 1;
    return 0;
  }
  int64_t power = 1;
  for (; exponent; exponent >>= 1) {
    if (exponent & 1) power = wrap_mul(power, base);
    base = wrap_mul(base, base);
  }
  return power;
}

// Integer division by zero gives 0 for quotient and remainder; the smallest integer divided by -1
// wraps.
static int64_t int_fmod(int64_t a, int64_t b) {
  return b == 0 || b == -1 ? 0 : a % b;
}

static int64_t int_remainder(int64_t a, int64_t b) {
  int64_t rest = int_fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static int64_t int_floor_divide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return wrap_neg(a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

// The result has the sign of the divisor, as in Python. Source: PyTorch, BinaryOpsKernel.cpp,
// remainder_kernel.
static double float_remainder(double a, double b) {
  double rest = fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// This is not floor(a / b), which may round up to an integer first. Source: PyTorch,
// c10/util/generic_math.h, div_floor_floating.
static double float_floor_divide(double a, double b) {
  if (b == 0) return a / b;
  double rest = fmod(a, b), quotient = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return copysign(0, a / b);
  double floored = floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

// Counts outside 0..63 give 0, or the sign when shifting right. Bits beyond a narrower type are
// dropped on storing.
static int64_t shift_left(int64_t a, int64_t b) {
  return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b);
}

static int64_t shift_right(int64_t a, int64_t b) {
  return b < 0 || b > 63 ? -(a < 0) : a >> b;
}

// The argument of exp is never positive, so it does not overflow.
static double sigmoid(double a) {
  if (a >= 0) return 1 / (1 + exp(-a));
  double e = exp(a);
  return e / (1 + e);
}

// lgamma writes a global sign; this one does not.
static double log_gamma(double a) {
  int sign;
  return lgamma_r(a, &sign);
}

// ---- One operand ----

ROW(neg, ONE, -a, wrap_neg(a))
ROW(abs, ONE, fabs(a), a < 0 ? wrap_neg(a) : a)
ROW(sign, ONE, (double)((a > 0) - (a < 0)), (a > 0) - (a < 0))
ROW(floor, ONE, floor(a), a)
ROW(ceil, ONE, ceil(a), a)
ROW(round, ONE, rint(a), a)
ROW(trunc, ONE, trunc(a), a)
ROW(square, ONE, a *a, wrap_mul(a, a))
FLOAT_ROW(sqrt, ONE, sqrt(a))
FLOAT_ROW(rsqrt, ONE, 1 / sqrt(a))
FLOAT_ROW(reciprocal, ONE, 1 / a)
FLOAT_ROW(exp, ONE, exp(a))
FLOAT_ROW(exp2, ONE, exp2(a))
FLOAT_ROW(expm1, ONE, expm1(a))
FLOAT_ROW(log, ONE, log(a))
FLOAT_ROW(log2, ONE, log2(a))
FLOAT_ROW(log10, ONE, log10(a))
FLOAT_ROW(log1p, ONE, log1p(a))
FLOAT_ROW(sin, ONE, sin(a))
FLOAT_ROW(cos, ONE, cos(a))
FLOAT_ROW(tan, ONE, tan(a))
FLOAT_ROW(asin, ONE, asin(a))
FLOAT_ROW(acos, ONE, acos(a))
FLOAT_ROW(atan, ONE, atan(a))
FLOAT_ROW(sinh, ONE, sinh(a))
FLOAT_ROW(cosh, ONE, cosh(a))
FLOAT_ROW(tanh, ONE, tanh(a))
FLOAT_ROW(asinh, ONE, asinh(a))
FLOAT_ROW(acosh, ONE, acosh(a))
FLOAT_ROW(atanh, ONE, atanh(a))
FLOAT_ROW(erf, ONE, erf(a))
FLOAT_ROW(erfinv, ONE, tc_math_erfinv(a))
FLOAT_ROW(lgamma, ONE, log_gamma(a))
FLOAT_ROW(sigmoid, ONE, sigmoid(a))
FLOAT_ROW(gelu, ONE, a == -INFINITY ? -0.0 : 0.5 * a * erfc(-a * M_SQRT1_2))
FLOAT_ROW(gelu_tanh, ONE, a == -INFINITY ? -0.0 : a * sigmoid(M_SQRT2 * M_2_SQRTPI * a * (1 + 0.044715 * a * a)))
ROW(relu, ONE, a > 0 || isnan(a) ? a : 0, a > 0 ? a : 0)
ROW(isnan, ONE, isnan(a) != 0, a != a)
ROW(logical_not, ONE, a == 0, a == 0)
ROW(cast, ONE, a, a)

tc_status tc_ref_polygamma(const tc_ref_call *call) {
  double x[TC_SPAN], out[TC_SPAN], n = (double)call->attr[0];
  tc_walk w;
  begin_map(&w, call);
  while (tc_walk_next(&w)) {
    tc_load_f64(call->in[0].type, call->in[0].ptr, w.offset[1], w.step[1], w.n, x);
    for (int64_t i = 0; i < w.n; i++) out[i] = tc_math_polygamma(n, x[i]);
    tc_store_f64(call->out.type, call->out.ptr, w.offset[0], w.step[0], w.n, out);
  }
  return TC_OK;
}

SPAN_FN(bitwise_not, i64, int64_t, ONE, ~a)
tc_status tc_ref_bitwise_not(const tc_ref_call *call) {
  // ~1 is not 0, so bools have their own function.
  return map_spans(call, NULL, call->in[0].type == TC_BOOL ? logical_not_i64 : bitwise_not_i64);
}

// ---- Two operands. The larger and smaller are NaN if either is NaN, and 0 and -0 are equal ----

ROW(add, TWO, a + b, (int64_t)((uint64_t)a + (uint64_t)b))
ROW(sub, TWO, a - b, (int64_t)((uint64_t)a - (uint64_t)b))
ROW(mul, TWO, a *b, wrap_mul(a, b))
FLOAT_ROW(div, TWO, a / b)
ROW(pow, TWO, pow(a, b), int_pow(a, b))
ROW(maximum, TWO, a > b || isnan(a) ? a : b, a > b ? a : b)
ROW(minimum, TWO, a < b || isnan(a) ? a : b, a < b ? a : b)
ROW(fmod, TWO, fmod(a, b), int_fmod(a, b))
ROW(remainder, TWO, float_remainder(a, b), int_remainder(a, b))
ROW(floor_divide, TWO, float_floor_divide(a, b), int_floor_divide(a, b))
FLOAT_ROW(atan2, TWO, atan2(a, b))
ROW(eq, TWO, a == b, a == b)
ROW(ne, TWO, a != b, a != b)
ROW(lt, TWO, a < b, a < b)
ROW(le, TWO, a <= b, a <= b)
ROW(gt, TWO, a > b, a > b)
ROW(ge, TWO, a >= b, a >= b)
ROW(logical_and, TWO, a != 0 && b != 0, a != 0 && b != 0)
ROW(logical_or, TWO, a != 0 || b != 0, a != 0 || b != 0)
ROW(logical_xor, TWO, (a != 0) != (b != 0), (a != 0) != (b != 0))
INT_ROW(bitwise_and, TWO, a &b)
INT_ROW(bitwise_or, TWO, a | b)
INT_ROW(bitwise_xor, TWO, a ^ b)
INT_ROW(shift_left, TWO, shift_left(a, b))
INT_ROW(shift_right, TWO, shift_right(a, b))

// ---- Three operands: condition, then, else ----

ROW(where, THREE, a != 0 ? b : c, a != 0 ? b : c)
