// Polynomials and table lookups behind math.h.
#include "lowering/kir/math.h"

#include <math.h>

#include "lowering/kir/builder_shorthand.h"
#include "lowering/kir/lookup_tables.h"
#include "runtime/options.h"

tc_val tc_kir_call_libm(tc_kir_builder *e, int64_t fn, tc_val a, tc_val b, bool two) {
  tc_type type = tc_build_type(e, a);
  int lanes = two ? tc_kir_widest(e, a, b) : tc_build_lanes(e, a);
  a = tc_build_cast(e, tc_build_splat(e, a, lanes), TC_F64);
  if (two) b = tc_build_cast(e, tc_build_splat(e, b, lanes), TC_F64);
  return tc_build_cast(e, tc_build_raw(e, TC_IR_CALL, TC_F64, lanes, a, two ? b : TC_NONE, TC_NONE, fn), type);
}

static tc_val polynomial(tc_kir_builder *e, tc_val x, int n, const double *c) {
  tc_val y = F(c[0]);
  for (int i = 1; i < n; i++) y = tc_build_fma(e, y, x, F(c[i]));
  return y;
}

// 1.5 * 2^23. Adding it to a float of at most 2^22 rounds that to a whole number, which the sum's
// low bits hold.
#define ROUNDER 12582912.0

static tc_val bits_of(tc_kir_builder *e, tc_val x) {
  return tc_build_raw(e, TC_IR_BITCAST, TC_I32, tc_build_lanes(e, x), x, TC_NONE, TC_NONE, 0);
}

static tc_val float_of(tc_kir_builder *e, tc_val bits) {
  return tc_build_raw(e, TC_IR_BITCAST, TC_F32, tc_build_lanes(e, bits), bits, TC_NONE, TC_NONE, 0);
}

static tc_val int_op(tc_kir_builder *e, tc_kir_op op, tc_val a, int64_t b) {
  return tc_build_bin(e, op, a, tc_build_const_i(e, TC_I32, b));
}

#define LOG2_E 1.44269504088896341

// Clamps x from below and from above; NaN passes through.
static tc_val at_least(tc_kir_builder *e, tc_val x, double bound) {
  return tc_build_select(e, tc_build_bin(e, TC_IR_LT, x, F(bound)), F(bound), x);
}

static tc_val at_most(tc_kir_builder *e, tc_val x, double bound) {
  return tc_build_select(e, tc_build_bin(e, TC_IR_GT, x, F(bound)), F(bound), x);
}

// e^x in f32, within 0.9 ULP. x lies in [-104, 88.8], where the result is 0 and infinity, or in
// [-104, 0] if negative.
// x = n ln 2 + r with |r| <= ln 2 / 2, and ln 2 in two parts. The polynomial begins with 1 + r and
// has minimal greatest relative error, 3e-9.
static tc_val exp_within(tc_kir_builder *e, tc_val x, bool negative) {
  static const double c[] = {1.3814557673896733e-3,
                             8.3687357731938100e-3,
                             4.1668389904897250e-2,
                             1.6666520475477750e-1,
                             4.9999993437193063e-1,
                             1.0,
                             1.0};
  tc_val n = SUB(tc_build_fma(e, x, F(LOG2_E), F(ROUNDER)), F(ROUNDER));
  tc_val r = tc_build_fma(e, n, F(-0.693359375), x);
  r = tc_build_fma(e, n, F(2.12194440e-4), r);
  return tc_build_raw(e, TC_IR_LDEXP, TC_F32, tc_build_lanes(e, x), polynomial(e, r, 7, c), n, TC_NONE, negative);
}

tc_val tc_kir_exp_f32(tc_kir_builder *e, tc_val x) {
  return exp_within(e, at_most(e, at_least(e, x, -104.0), 88.8), false);
}

static tc_val looked_up(tc_kir_builder *e, tc_kir_table_row row, tc_val at) {
  return tc_build_raw(e, TC_IR_LOOKUP, TC_F32, tc_build_lanes(e, at), bits_of(e, at), TC_NONE, TC_NONE, row);
}

// 2^(n / 16) for n in the low bits of t; valid from 2^-126 on.
// n is shifted so that its whole part adds to the exponent. The rest adds to the entry's mantissa,
// from which it was subtracted beforehand.
static tc_val nearest_power(tc_kir_builder *e, tc_val t) {
  return float_of(e, tc_build_bin(e, TC_IR_ADD, bits_of(e, looked_up(e, TC_KIR_TABLE_POWER, t)),
                                  int_op(e, TC_IR_SHL, bits_of(e, t), 19)));
}

// e^x in f32 of x <= 0, within 1 ULP, but 0 below 2^-126. As exp_within, in sixteenths of ln 2.
static tc_val exp_looked_up(tc_kir_builder *e, tc_val x) {
  tc_val t = tc_build_fma(e, x, F(16 * LOG2_E), F(ROUNDER)), n = SUB(t, F(ROUNDER));
  tc_val r = tc_build_fma(e, n, F(2.12194440e-4 / 16), tc_build_fma(e, n, F(-0.693359375 / 16), x));
  tc_val m = tc_build_fma(e, MUL(r, r), tc_build_fma(e, r, F(0x1.55583cp-3), F(0x1.00022p-1)), r),
         near = nearest_power(e, t);
  return tc_build_select(e, tc_build_bin(e, TC_IR_LT, x, F(-87.3365402)), F(0), tc_build_fma(e, near, m, near));
}

tc_val tc_build_exp_of_negative(tc_kir_builder *e, tc_type type, tc_val x) {
  bool fast = type == TC_F32 && !tc_options_get()->strict;
  if (fast && e->lookups) return exp_looked_up(e, x);
  return fast ? exp_within(e, at_least(e, x, -104.0), true) : tc_kir_call_libm(e, TC_KIR_MATH_EXP, x, 0, false);
}

// e^x - 1 in f32 for |x| <= 30, within an ULP or two, also near 0. As exp_within, but 2^n
// multiplies e^r - 1, and 2^n - 1 is added.
static tc_val expm1_within(tc_kir_builder *e, tc_val x) {
  static const double c[] = {1.3882502669392278e-3, 8.3666148612738630e-3, 4.1667202901764434e-2, 1.6666542921611371e-1,
                             4.9999998138261250e-1};
  tc_val t = tc_build_fma(e, x, F(LOG2_E), F(ROUNDER)), n = SUB(t, F(ROUNDER));
  tc_val r = tc_build_fma(e, n, F(-0.69314718055994531), x);
  tc_val m = tc_build_fma(e, MUL(r, r), polynomial(e, r, 5, c), r);
  // The shift leaves only n's bits.
  tc_val power = float_of(e, int_op(e, TC_IR_ADD, int_op(e, TC_IR_SHL, bits_of(e, t), 23), 0x3F800000));
  return tc_build_fma(e, power, m, SUB(power, F(1)));
}

// |y| with the sign of x; NaN stays NaN.
static tc_val with_sign_of(tc_kir_builder *e, tc_val y, tc_val x) {
  tc_val sign = int_op(e, TC_IR_AND, bits_of(e, x), INT32_MIN);
  return float_of(e, tc_build_bin(e, TC_IR_OR, int_op(e, TC_IR_AND, bits_of(e, y), INT32_MAX), sign));
}

// ln x in f32, within 1 ULP: Cephes logf. Denormals are scaled up first.
tc_val tc_kir_log_f32(tc_kir_builder *e, tc_val x) {
  static const double c[] = {7.0376836292e-2,  -1.1514610310e-1, 1.1676998740e-1,  -1.2420140846e-1, 1.4249322787e-1,
                             -1.6668057665e-1, 2.0000714765e-1,  -2.4999993993e-1, 3.3333331174e-1};
  tc_val tiny = tc_build_bin(e, TC_IR_LT, x, F(0x1p-126));
  tc_val y = tc_build_select(e, tiny, MUL(x, F(0x1p24)), x);
  tc_val bits = bits_of(e, y), ex = int_op(e, TC_IR_SUB, int_op(e, TC_IR_SHR, bits, 23), 126);
  tc_val m = float_of(e, int_op(e, TC_IR_OR, int_op(e, TC_IR_AND, bits, 0x7FFFFF), 0x3F000000));
  tc_val k = tc_build_cast(e, ex, TC_F32);
  k = tc_build_select(e, tiny, SUB(k, F(24)), k);
  tc_val low = tc_build_bin(e, TC_IR_LT, m, F(0.70710678118654752440));
  k = tc_build_select(e, low, SUB(k, F(1)), k);
  m = SUB(tc_build_select(e, low, ADD(m, m), m), F(1));
  tc_val z = MUL(m, m), p = MUL(MUL(polynomial(e, m, 9, c), m), z);
  p = tc_build_fma(e, k, F(-2.12194440e-4), p);
  p = tc_build_fma(e, z, F(-0.5), p);
  p = tc_build_fma(e, k, F(0.693359375), ADD(m, p));
  p = tc_build_select(e, tc_build_bin(e, TC_IR_EQ, x, F(INFINITY)), x, p);
  p = tc_build_select(e, tc_build_bin(e, TC_IR_EQ, x, F(0)), F(-INFINITY), p);
  return tc_build_select(e, tc_build_bin(e, TC_IR_LT, x, F(0)), F(NAN),
                         tc_build_select(e, tc_build_bin(e, TC_IR_NE, x, x), x, p));
}

// tanh in f32, within 2.6 ULP: E / (E + 2) with E = e^2|x| - 1; from 9.1 on it is 1.
tc_val tc_kir_tanh_f32(tc_kir_builder *e, tc_val x) {
  tc_val a = at_most(e, tc_build_un(e, TC_IR_ABS, x), 9.1), m = expm1_within(e, ADD(a, a));
  return with_sign_of(e, DIV(m, ADD(m, F(2))), x);
}

// erf in f32, within 1.9 ULP: 1 - e^q with q = ln erfc(|x|), a polynomial up to 4, from where erf
// rounds to 1.
// The coefficients have the least greatest relative error of erf, 4e-9, also near 0. The term -|x|
// stays outside of them, so that it is exact.
tc_val tc_kir_erf_f32(tc_kir_builder *e, tc_val x) {
  static const double c[] = {9.250155241596955e-06,   -1.1758432099310713e-04, 6.3262389503293310e-04,
                             -1.6666162293976928e-03, 1.5995641650523286e-04,  1.9153322828573117e-02,
                             -1.0277790897521921e-01, -6.3661937160539970e-01, -1.2837917199977605e-01};
  tc_val a = at_most(e, tc_build_un(e, TC_IR_ABS, x), 4.0);
  tc_val q = tc_build_fma(e, a, polynomial(e, a, 9, c), tc_build_un(e, TC_IR_NEG, a));
  return with_sign_of(e, expm1_within(e, q), x);
}

tc_val tc_build_power_of_sixteenths(tc_kir_builder *e, tc_val t, tc_val r) {
  static const double c[] = {0x1.c6b46ap-5, 0x1.ebfff4p-3, 0x1.62e43p-1};
  tc_val near = nearest_power(e, t);
  return tc_build_fma(e, near, MUL(r, polynomial(e, r, 3, c)), near);
}

// 2^x in f32 for x in [-126, 0], within 4e-9 and rounding. The whole part is added to the
// exponent's bits.
static tc_val power_of_two(tc_kir_builder *e, tc_val x) {
  static const double c[] = {1.55946778e-4, 1.34066434e-3, 9.61769279e-3, 5.55031039e-2, 0.240226522, 0.693147242, 1};
  const double rounder = e->lookups ? TC_EMIT_ROUNDER_OF_SIXTEENTHS : ROUNDER;
  tc_val t = ADD(x, F(rounder)), r = SUB(x, SUB(t, F(rounder)));
  if (e->lookups) return tc_build_power_of_sixteenths(e, t, r);
  return float_of(
      e, tc_build_bin(e, TC_IR_ADD, bits_of(e, polynomial(e, r, 7, c)), int_op(e, TC_IR_SHL, bits_of(e, t), 23)));
}

// gelu in f32: relu(x) - a h. a = |x|; h = 2^y is the normal distribution's mass beyond a; y is a
// polynomial.
// The polynomial's absolute error of h is 8e-9. The result is within 2 ULP above 0, 5.5e-8 below.
// a is clamped where h is 2e-34. So the tail is 0 in effect, and infinity times 0 gives no NaN.
tc_val tc_kir_gelu_f32(tc_kir_builder *e, tc_val x) {
  static const double of_y[] = {-2.834912575827841e-6, 3.9377688469543046e-5, -1.861802284199574e-4,
                                -1.369363981761736e-4, 7.063420160524996e-3,  -5.249617836637481e-2,
                                -4.592081966569563e-1, -1.1511052053031499,   -1};
  tc_val a = at_most(e, tc_build_un(e, TC_IR_ABS, x), 9.75), h = power_of_two(e, polynomial(e, a, 9, of_y));
  return tc_build_fma(e, tc_build_un(e, TC_IR_NEG, a), h, at_least(e, x, 0));
}

// gelu in double: x / 2 erfc(-x / sqrt 2). Where that is -inf times 0, the result is 0.
tc_val tc_kir_gelu_f64(tc_kir_builder *e, tc_val x) {
  tc_val p = tc_kir_call_libm(e, TC_KIR_MATH_ERFC, MUL(x, F(-0.70710678118654752440)), 0, false);
  return tc_build_select(e, tc_build_bin(e, TC_IR_EQ, p, F(0)), F(-0.0), MUL(MUL(x, F(0.5)), p));
}

// Range reduction of sin and cos: x is divided into equal parts of a turn, and h, the nearest
// number of parts, is subtracted.
// rounder: ROUNDER plus the most parts allowed. Adding it rounds to a whole number, held in the
// sum's low bits.
// If x has more parts or is not a number, bits of `far` differ between the sum and ROUNDER.
// A part is the sum of two floats, the first rounded down. So the remainder is also two floats,
// exact - rest.
// exact, x minus h times the first float, has no rounding error. rest, h times the second, has the
// sign of h, so -0 stays -0.
typedef struct turn {
  double of_one;  // number of parts in 1
  double rounder;
  int64_t far;
  int quarter;  // number of parts in a quarter turn, the phase of a cosine
} turn;

#define QUARTERS 0.63661977236758134  // quarter turns in 1
#define ROUNDER_BITS 0x4B400000

static const turn by_quarters = {QUARTERS, ROUNDER + 8192, -0x4000, 1},
                  by_sixteenths = {4 * QUARTERS, ROUNDER + 32768, -0x10000, 4};

// The parts of x plus the rounder; a cosine adds a quarter turn.
static tc_val parts_of(tc_kir_builder *e, tc_val x, const turn *by, bool cosine) {
  return tc_build_fma(e, x, F(by->of_one), F(by->rounder + (cosine ? by->quarter : 0)));
}

// sin and cos in f32 by quarter turns, within 0.9 ULP (absolute 2^-30 below 2^-6) where t is not
// far.
// x = h pi/2 + r with |r| <= pi/4. If h is even the result is sin r = exact - (rest + r z p), else
// cos r = 1 + z p.
// z is r^2, and p a polynomial in z (Cephes sinf, cosf). Terms rounded before the last sum are
// small beside it.
static tc_val sin_of_quarters(tc_kir_builder *e, tc_val x, tc_val t, bool cosine) {
  static const double of_sin[] = {1.9515295891e-4, -8.3321608736e-3, 1.6666654611e-1};
  static const double of_cos[] = {-1.388731625493765e-3, 4.166664568298827e-2, -0.5};
  tc_val h = SUB(t, F(by_quarters.rounder + cosine));
  tc_val exact = tc_build_fma(e, h, F(-1.57079625129699707), x), rest = MUL(h, F(7.54978995489188e-8)),
         r = SUB(exact, rest);
  tc_val z = tc_build_fma(e, exact, exact, tc_build_un(e, TC_IR_NEG, MUL(rest, ADD(exact, r)))),
         quarter = bits_of(e, t);
  tc_val odd = tc_build_bin(e, TC_IR_NE, int_op(e, TC_IR_AND, quarter, 1), tc_build_const_i(e, TC_I32, 0));
  tc_val p = tc_build_select(e, odd, tc_build_fma(e, z, F(2.443315711809948e-5), F(of_cos[0])), F(of_sin[0]));
  for (int i = 1; i < 3; i++) p = tc_build_fma(e, p, z, tc_build_select(e, odd, F(of_cos[i]), F(of_sin[i])));
  p = tc_build_fma(e, p, tc_build_select(e, odd, z, MUL(r, z)), tc_build_select(e, odd, F(1), rest));
  tc_val s = tc_build_select(e, odd, p, SUB(exact, p)),
         sign = int_op(e, TC_IR_AND, int_op(e, TC_IR_SHL, quarter, 30), INT32_MIN);
  return float_of(e, tc_build_bin(e, TC_IR_XOR, bits_of(e, s), sign));
}

// sin and cos in f32 by sixteenths of a turn, with three quarters of the operations.
// x = h pi/8 + r with |r| <= pi/16. Sine and cosine of h pi/8 are looked up (SINE and so on in
// lookup_tables.def). odd is a polynomial for (sin r - r) / -z.
//   SINE + (cosine (exact - rest) + (SINE_REST - z (cosine odd + SQUARE + FOURTH z)))
static tc_val sin_of_sixteenths(tc_kir_builder *e, tc_val x, tc_val t, bool cosine) {
  tc_val h = SUB(t, F(by_sixteenths.rounder + (cosine ? by_sixteenths.quarter : 0)));
  tc_val exact = tc_build_fma(e, h, F(-1.57079625129699707 / 4), x), less = MUL(h, F(-7.54978995489188e-8 / 4)),
         r = ADD(exact, less), z = MUL(r, r);
  tc_val c = looked_up(e, TC_KIR_TABLE_COSINE, t),
         odd = MUL(r, tc_build_fma(e, z, F(-0x1.10b702p-7), F(0x1.555544p-3)));
  tc_val even = tc_build_fma(e, looked_up(e, TC_KIR_TABLE_FOURTH, t), z, looked_up(e, TC_KIR_TABLE_SQUARE, t));
  tc_val p = tc_build_fma(e, c, odd, even);
  tc_val s = tc_build_fma(e, tc_build_un(e, TC_IR_NEG, p), z, looked_up(e, TC_KIR_TABLE_SINE_REST, t));
  s = tc_build_fma(e, c, exact, tc_build_fma(e, c, less, s));
  return ADD(looked_up(e, TC_KIR_TABLE_SINE, t), s);
}

// Nonzero in the bits of turn.far if t has more parts than are exact, or is not a number.
static tc_val far_bits(tc_kir_builder *e, tc_val t) {
  return int_op(e, TC_IR_XOR, bits_of(e, t), ROUNDER_BITS);
}

static tc_val is_far(tc_kir_builder *e, tc_val bits, const turn *by) {
  return tc_build_bin(e, TC_IR_NE, int_op(e, TC_IR_AND, bits, by->far), tc_build_const_i(e, TC_I32, 0));
}

// sin or cos with a rare path: if any lane's argument is far, libm computes the far lanes. One test
// serves all lanes, since masks are expensive.
tc_val tc_kir_trig_f32(tc_kir_builder *e, tc_val x, bool cosine) {
  const turn *by = e->lookups ? &by_sixteenths : &by_quarters;
  tc_val t = parts_of(e, x, by, cosine),
         v = e->lookups ? sin_of_sixteenths(e, x, t, cosine) : sin_of_quarters(e, x, t, cosine);
  tc_val var = tc_build_var(e, v), any = far_bits(e, t);
  if (tc_build_lanes(e, any) > 1) any = tc_build_raw(e, TC_IR_REDUCE, TC_I32, 1, any, TC_NONE, TC_NONE, TC_IR_OR);
  (void)tc_build_raw(e, TC_IR_IF, TC_BOOL, 1, is_far(e, any, by), TC_NONE, TC_NONE, 0);
  // Recomputed here: keeping the value alive across the common path costs more.
  tc_val far = is_far(e, far_bits(e, parts_of(e, x, by, cosine)), by);
  tc_build_set(
      e, var,
      tc_build_select(e, far, tc_kir_call_libm(e, cosine ? TC_KIR_MATH_COS : TC_KIR_MATH_SIN, x, 0, false), var));
  tc_build_end(e, TC_IR_ENDIF);
  return var;
}

// 1 / (1 + e^-x). e^-|x| never overflows, so both tails are right: below zero, e / (1 + e) goes
// down through the denormals.
tc_val tc_kir_sigmoid(tc_kir_builder *e, tc_val x, tc_type type) {
  tc_val down = tc_build_un(e, TC_IR_NEG, tc_build_un(e, TC_IR_ABS, x));
  tc_val ex = type == TC_F32 ? exp_within(e, at_least(e, down, -104.0), true)
                             : tc_kir_call_libm(e, TC_KIR_MATH_EXP, down, 0, false);
  // -0 counts as below zero: e^-0 is 1 as well.
  tc_val below = type == TC_F32 ? int_op(e, TC_IR_LT, bits_of(e, x), 0) : tc_build_bin(e, TC_IR_LT, x, F(0));
  tc_val top = tc_build_select(e, below, ex, F(1));
  return DIV(top, ADD(F(1), ex));
}

#define TANH_SCALE 1.59576912160573071  // 2 sqrt(2 / pi)

// gelu's tanh form in f32: x s(y) with the sigmoid s and y = 2 sqrt(2 / pi) (x + 0.044715 x^3).
// Computed as relu(x) - a h / (1 + h) with a = |x| and h = 2^-|y / ln 2|. Within 2.2 ULP above 0,
// 5.5e-8 below. a is clamped as in gelu_f32.
tc_val tc_kir_gelu_tanh_f32(tc_kir_builder *e, tc_val x) {
  tc_val a = at_most(e, tc_build_un(e, TC_IR_ABS, x), 9.75);
  tc_val y = MUL(a, tc_build_fma(e, MUL(a, a), F(-0.044715 * TANH_SCALE * LOG2_E), F(-TANH_SCALE * LOG2_E))),
         h = power_of_two(e, y);
  return SUB(at_least(e, x, 0), DIV(MUL(a, h), ADD(F(1), h)));
}

// gelu's tanh form in double. Where it is -inf times 0, the result is 0.
tc_val tc_kir_gelu_tanh_f64(tc_kir_builder *e, tc_val x) {
  tc_val s = tc_kir_sigmoid(e, MUL(x, tc_build_fma(e, MUL(x, x), F(0.044715 * TANH_SCALE), F(TANH_SCALE))), TC_F64);
  return tc_build_select(e, tc_build_bin(e, TC_IR_EQ, s, F(0)), F(-0.0), MUL(x, s));
}
