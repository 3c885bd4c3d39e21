// Appends instructions, and ops and functions of many instructions. See builder.h.
#include "lowering/kir/builder.h"

#include <math.h>
#include <string.h>

#include "lazy/record/record.h"
#include "lowering/kir/libm.h"
#include "lowering/kir/lookup_tables.h"
#include "runtime/arena.h"
#include "runtime/options.h"

tc_val tc_emit_raw(tc_emit *e, tc_nest_op op, tc_type type, int lanes, tc_val s0, tc_val s1, tc_val s2, int64_t imm) {
  tc_nest *n = e->nest;
  if (e->failed) return 0;
  if (n->n_inst == n->cap_inst) {
    uint32_t cap = n->cap_inst ? n->cap_inst * 2 : 256;
    tc_ninst *inst = tc_realloc(n->inst, cap * sizeof *inst);
    if (!inst) return e->failed = true, 0;
    n->inst = inst, n->cap_inst = cap;
  }
  n->inst[n->n_inst] = (tc_ninst){.op = (uint8_t)op, .dtype = (uint8_t)type, .lanes = (uint16_t)lanes, .src = {s0, s1, s2, TC_NONE}, .imm = imm};
  return n->n_inst++;
}

int tc_emit_lanes(const tc_emit *e, tc_val v) {
  return e->failed ? 1 : e->nest->inst[v].lanes;
}

tc_type tc_emit_type(const tc_emit *e, tc_val v) {
  return e->failed ? TC_F32 : (tc_type)e->nest->inst[v].dtype;
}

tc_val tc_emit_splat(tc_emit *e, tc_val v, int lanes) {
  int n = tc_emit_lanes(e, v);
  if (n == lanes) return v;
  if (n > lanes) return e->failed = e->uneven = true, 0;
  if (n == 1) return tc_emit_raw(e, TC_N_SPLAT, tc_emit_type(e, v), lanes, v, TC_NONE, TC_NONE, 0);
  return tc_emit_splat(e, tc_emit_raw(e, TC_N_INTERLEAVE, tc_emit_type(e, v), 2 * n, v, v, TC_NONE, 0), lanes);
}

tc_val tc_emit_const_i(tc_emit *e, tc_type type, int64_t v) {
  return tc_emit_raw(e, TC_N_CONST, type, 1, TC_NONE, TC_NONE, TC_NONE, v);
}

tc_val tc_emit_const_f(tc_emit *e, tc_type type, double v) {
  int64_t bits = 0;
  float f = (float)v;
  if (type == TC_F64)
    memcpy(&bits, &v, sizeof v);
  else if (type == TC_F32)
    memcpy(&bits, &f, sizeof f);
  else
    bits = (int64_t)v;
  return tc_emit_const_i(e, type, bits);
}

static bool is_compare(tc_nest_op op) {
  return op >= TC_N_EQ && op <= TC_N_GE;
}

tc_val tc_emit_un(tc_emit *e, tc_nest_op op, tc_val a) {
  return tc_emit_raw(e, op, tc_emit_type(e, a), tc_emit_lanes(e, a), a, TC_NONE, TC_NONE, 0);
}

static int widest(const tc_emit *e, tc_val a, tc_val b) {
  return TC_MAX_OF(tc_emit_lanes(e, a), tc_emit_lanes(e, b));
}

tc_val tc_emit_bin(tc_emit *e, tc_nest_op op, tc_val a, tc_val b) {
  int lanes = widest(e, a, b);
  tc_type type = is_compare(op) ? TC_BOOL : tc_emit_type(e, a);
  a = tc_emit_splat(e, a, lanes), b = tc_emit_splat(e, b, lanes);
  return tc_emit_raw(e, op, type, lanes, a, b, TC_NONE, 0);
}

tc_val tc_emit_fma(tc_emit *e, tc_val a, tc_val b, tc_val c) {
  int lanes = TC_MAX_OF(widest(e, a, b), tc_emit_lanes(e, c));
  a = tc_emit_splat(e, a, lanes), b = tc_emit_splat(e, b, lanes), c = tc_emit_splat(e, c, lanes);
  return tc_emit_raw(e, TC_N_FMA, tc_emit_type(e, a), lanes, a, b, c, 0);
}

void tc_emit_prefetch(tc_emit *e, int buf, tc_val at, bool far) {
  tc_val line = tc_emit_raw(e, TC_N_PREFETCH, TC_I64, 1, at, TC_NONE, TC_NONE, buf);
  if (far && !e->failed) e->nest->inst[line].flags = 2;
}

tc_val tc_emit_select(tc_emit *e, tc_val c, tc_val a, tc_val b) {
  int lanes = TC_MAX_OF(widest(e, a, b), tc_emit_lanes(e, c));
  c = tc_emit_splat(e, c, lanes), a = tc_emit_splat(e, a, lanes), b = tc_emit_splat(e, b, lanes);
  return tc_emit_raw(e, TC_N_SELECT, tc_emit_type(e, a), lanes, c, a, b, 0);
}

// What was rounded to a narrow type and widened is that again; NaN was made quiet then.
static tc_val before_widening(const tc_emit *e, tc_val a, tc_type to) {
  if (e->failed || (to != TC_BF16 && to != TC_F16) || e->nest->inst[a].op != TC_N_CAST || e->nest->inst[a].dtype != TC_F32) return TC_NONE;
  tc_val from = e->nest->inst[a].src[0];
  return e->nest->inst[from].op == TC_N_CAST && tc_emit_type(e, from) == to ? from : TC_NONE;
}

tc_val tc_emit_cast(tc_emit *e, tc_val a, tc_type to) {
  tc_val narrow = before_widening(e, a, to);
  if (narrow != TC_NONE) return narrow;
  return tc_emit_type(e, a) == to ? a : tc_emit_raw(e, TC_N_CAST, to, tc_emit_lanes(e, a), a, TC_NONE, TC_NONE, 0);
}

tc_val tc_emit_settled(tc_emit *e, tc_val a) {
  if (tc_emit_type(e, a) != TC_F32 || before_widening(e, a, TC_BF16) != TC_NONE) return tc_emit_cast(e, a, TC_BF16);
  return tc_emit_raw(e, TC_N_CAST, TC_BF16, tc_emit_lanes(e, a), a, TC_NONE, TC_NONE, 1);
}

tc_val tc_emit_var(tc_emit *e, tc_val init) {
  return tc_emit_raw(e, TC_N_VAR, tc_emit_type(e, init), tc_emit_lanes(e, init), init, TC_NONE, TC_NONE, 0);
}

void tc_emit_set(tc_emit *e, tc_val var, tc_val v) {
  (void)tc_emit_raw(e, TC_N_SET, tc_emit_type(e, var), tc_emit_lanes(e, var), var, tc_emit_splat(e, v, tc_emit_lanes(e, var)), TC_NONE, 0);
}

tc_val tc_emit_loop(tc_emit *e, tc_val from, tc_val to, int64_t step) {
  return tc_emit_raw(e, TC_N_LOOP, TC_I64, 1, from, to, TC_NONE, step);
}

tc_val tc_emit_load_words(tc_emit *e, int buf, tc_val at, int lanes, tc_val mask) {
  tc_val v = tc_emit_raw(e, TC_N_LOAD, TC_BF16, 2 * lanes, at, mask, TC_NONE, buf);
  return tc_emit_raw(e, TC_N_BITCAST, TC_I32, lanes, v, TC_NONE, TC_NONE, 0);
}

tc_val tc_emit_words(tc_emit *e, tc_val first, tc_val second) {
  int lanes = tc_emit_lanes(e, first);
  first = tc_emit_settled(e, first), second = tc_emit_settled(e, second);
  tc_val both = tc_emit_raw(e, TC_N_INTERLEAVE, TC_BF16, 2 * lanes, first, second, TC_NONE, 0);
  return tc_emit_raw(e, TC_N_BITCAST, TC_I32, lanes, both, TC_NONE, TC_NONE, 0);
}

tc_val tc_emit_dot(tc_emit *e, tc_val a, tc_val b, tc_val sum) {
  int lanes = tc_emit_lanes(e, sum);
  return tc_emit_raw(e, TC_N_DOT, TC_F32, lanes, tc_emit_splat(e, a, lanes), tc_emit_splat(e, b, lanes), sum, 0);
}

void tc_emit_turn(tc_emit *e, tc_val *v, int n) {
  tc_val turned[64];
  for (int stride = 1; stride < n; stride *= 2) {
    for (int i = 0; i < n; i++) turned[i] = tc_emit_raw(e, TC_N_ZIP, tc_emit_type(e, v[0]), n, v[i / 2], v[i / 2 + n / 2], TC_NONE, i % 2);
    memcpy(v, turned, (size_t)n * sizeof v[0]);
  }
}

tc_val tc_emit_halve(tc_emit *e, tc_val a, tc_val b) {
  tc_val half[2];
  for (int i = 0; i < 2; i++) half[i] = tc_emit_raw(e, TC_N_ZIP, tc_emit_type(e, a), tc_emit_lanes(e, a), a, b, TC_NONE, i);
  return tc_emit_bin(e, TC_N_ADD, half[0], half[1]);
}

void tc_emit_end(tc_emit *e, tc_nest_op op) {
  (void)tc_emit_raw(e, op, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
}

#define LIBM_COST 400.0  // lane by lane, in double

// ---- functions ----

#define F(v) tc_emit_const_f(e, tc_emit_type(e, x), (v))
#define ADD(a, b) tc_emit_bin(e, TC_N_ADD, (a), (b))
#define SUB(a, b) tc_emit_bin(e, TC_N_SUB, (a), (b))
#define MUL(a, b) tc_emit_bin(e, TC_N_MUL, (a), (b))
#define DIV(a, b) tc_emit_bin(e, TC_N_DIV, (a), (b))

static tc_val call(tc_emit *e, int64_t fn, tc_val a, tc_val b, bool two) {
  tc_type type = tc_emit_type(e, a);
  int lanes = two ? widest(e, a, b) : tc_emit_lanes(e, a);
  a = tc_emit_cast(e, tc_emit_splat(e, a, lanes), TC_F64);
  if (two) b = tc_emit_cast(e, tc_emit_splat(e, b, lanes), TC_F64);
  return tc_emit_cast(e, tc_emit_raw(e, TC_N_CALL, TC_F64, lanes, a, two ? b : TC_NONE, TC_NONE, fn), type);
}

static tc_val polynomial(tc_emit *e, tc_val x, int n, const double *c) {
  tc_val y = F(c[0]);
  for (int i = 1; i < n; i++) y = tc_emit_fma(e, y, x, F(c[i]));
  return y;
}

#define ROUNDER 12582912.0  // 1.5 * 2^23: adding it rounds a float of at most 2^22 to a whole number, which its low bits then hold

static tc_val bits_of(tc_emit *e, tc_val x) {
  return tc_emit_raw(e, TC_N_BITCAST, TC_I32, tc_emit_lanes(e, x), x, TC_NONE, TC_NONE, 0);
}

static tc_val float_of(tc_emit *e, tc_val bits) {
  return tc_emit_raw(e, TC_N_BITCAST, TC_F32, tc_emit_lanes(e, bits), bits, TC_NONE, TC_NONE, 0);
}

static tc_val int_op(tc_emit *e, tc_nest_op op, tc_val a, int64_t b) {
  return tc_emit_bin(e, op, a, tc_emit_const_i(e, TC_I32, b));
}

#define LOG2_E 1.44269504088896341

// A value not below, not above a bound; NaN passes through.
static tc_val at_least(tc_emit *e, tc_val x, double bound) {
  return tc_emit_select(e, tc_emit_bin(e, TC_N_LT, x, F(bound)), F(bound), x);
}

static tc_val at_most(tc_emit *e, tc_val x, double bound) {
  return tc_emit_select(e, tc_emit_bin(e, TC_N_GT, x, F(bound)), F(bound), x);
}

// e^x in f32, within 0.9 ULP, x from -104, where it is 0, to 88.8, where it is infinity, or to 0 where it is negative. x = n ln 2 + r with |r| <= ln 2 / 2,
// ln 2 in two parts; the polynomial has the least greatest relative error, 3e-9, of those that begin with 1 + r.
static tc_val exp_within(tc_emit *e, tc_val x, bool negative) {
  static const double c[] = {
      1.3814557673896733e-3, 8.3687357731938100e-3, 4.1668389904897250e-2, 1.6666520475477750e-1, 4.9999993437193063e-1, 1.0, 1.0};
  tc_val n = SUB(tc_emit_fma(e, x, F(LOG2_E), F(ROUNDER)), F(ROUNDER));
  tc_val r = tc_emit_fma(e, n, F(-0.693359375), x);
  r = tc_emit_fma(e, n, F(2.12194440e-4), r);
  return tc_emit_raw(e, TC_N_LDEXP, TC_F32, tc_emit_lanes(e, x), polynomial(e, r, 7, c), n, TC_NONE, negative);
}

static tc_val exp_f32(tc_emit *e, tc_val x) {
  return exp_within(e, at_most(e, at_least(e, x, -104.0), 88.8), false);
}

static tc_val looked_up(tc_emit *e, tc_nest_table_row row, tc_val at) {
  return tc_emit_raw(e, TC_N_LOOKUP, TC_F32, tc_emit_lanes(e, at), bits_of(e, at), TC_NONE, TC_NONE, row);
}

// 2^(n / 16), n being what the low bits of t hold; from 2^-126 on. Shifted, n's whole part meets the exponent, and the rest, which is added to the entry's
// digits, was taken from them.
static tc_val nearest_power(tc_emit *e, tc_val t) {
  return float_of(e, tc_emit_bin(e, TC_N_ADD, bits_of(e, looked_up(e, TC_NEST_TABLE_POWER, t)), int_op(e, TC_N_SHL, bits_of(e, t), 19)));
}

// e^x in f32, x at most 0, within 1 ULP, but 0 below 2^-126. As in exp_within, of sixteenths of ln 2.
static tc_val exp_looked_up(tc_emit *e, tc_val x) {
  tc_val t = tc_emit_fma(e, x, F(16 * LOG2_E), F(ROUNDER)), n = SUB(t, F(ROUNDER));
  tc_val r = tc_emit_fma(e, n, F(2.12194440e-4 / 16), tc_emit_fma(e, n, F(-0.693359375 / 16), x));
  tc_val m = tc_emit_fma(e, MUL(r, r), tc_emit_fma(e, r, F(0x1.55583cp-3), F(0x1.00022p-1)), r), near = nearest_power(e, t);
  return tc_emit_select(e, tc_emit_bin(e, TC_N_LT, x, F(-87.3365402)), F(0), tc_emit_fma(e, near, m, near));
}

tc_val tc_emit_exp_of_negative(tc_emit *e, tc_type type, tc_val x) {
  bool fast = type == TC_F32 && !tc_options_get()->strict;
  if (fast && e->lookups) return exp_looked_up(e, x);
  return fast ? exp_within(e, at_least(e, x, -104.0), true) : tc_emit_scalar_op(e, TC_OP_EXP, type, x, 0, 0);
}

// e^x - 1 in f32, |x| <= 30, within an ULP or two also near 0. As in exp_within, but that 2^n is a factor of e^r - 1, and 2^n - 1 is added.
static tc_val expm1_within(tc_emit *e, tc_val x) {
  static const double c[] = {1.3882502669392278e-3, 8.3666148612738630e-3, 4.1667202901764434e-2, 1.6666542921611371e-1, 4.9999998138261250e-1};
  tc_val t = tc_emit_fma(e, x, F(LOG2_E), F(ROUNDER)), n = SUB(t, F(ROUNDER));
  tc_val r = tc_emit_fma(e, n, F(-0.69314718055994531), x);
  tc_val m = tc_emit_fma(e, MUL(r, r), polynomial(e, r, 5, c), r);
  tc_val power = float_of(e, int_op(e, TC_N_ADD, int_op(e, TC_N_SHL, bits_of(e, t), 23), 0x3F800000));  // of the shifted bits only n's are left
  return tc_emit_fma(e, power, m, SUB(power, F(1)));
}

// |y| with the sign of x; NaN stays NaN.
static tc_val with_sign_of(tc_emit *e, tc_val y, tc_val x) {
  tc_val sign = int_op(e, TC_N_AND, bits_of(e, x), INT32_MIN);
  return float_of(e, tc_emit_bin(e, TC_N_OR, int_op(e, TC_N_AND, bits_of(e, y), INT32_MAX), sign));
}

// ln x in f32, within 1 ULP: Cephes logf. Denormals are scaled up first.
static tc_val log_f32(tc_emit *e, tc_val x) {
  static const double c[] = {7.0376836292e-2,  -1.1514610310e-1, 1.1676998740e-1,  -1.2420140846e-1, 1.4249322787e-1,
                             -1.6668057665e-1, 2.0000714765e-1,  -2.4999993993e-1, 3.3333331174e-1};
  tc_val tiny = tc_emit_bin(e, TC_N_LT, x, F(0x1p-126));
  tc_val y = tc_emit_select(e, tiny, MUL(x, F(0x1p24)), x);
  tc_val bits = bits_of(e, y), ex = int_op(e, TC_N_SUB, int_op(e, TC_N_SHR, bits, 23), 126);
  tc_val m = float_of(e, int_op(e, TC_N_OR, int_op(e, TC_N_AND, bits, 0x7FFFFF), 0x3F000000));
  tc_val k = tc_emit_cast(e, ex, TC_F32);
  k = tc_emit_select(e, tiny, SUB(k, F(24)), k);
  tc_val low = tc_emit_bin(e, TC_N_LT, m, F(0.70710678118654752440));
  k = tc_emit_select(e, low, SUB(k, F(1)), k);
  m = SUB(tc_emit_select(e, low, ADD(m, m), m), F(1));
  tc_val z = MUL(m, m), p = MUL(MUL(polynomial(e, m, 9, c), m), z);
  p = tc_emit_fma(e, k, F(-2.12194440e-4), p);
  p = tc_emit_fma(e, z, F(-0.5), p);
  p = tc_emit_fma(e, k, F(0.693359375), ADD(m, p));
  p = tc_emit_select(e, tc_emit_bin(e, TC_N_EQ, x, F(INFINITY)), x, p);
  p = tc_emit_select(e, tc_emit_bin(e, TC_N_EQ, x, F(0)), F(-INFINITY), p);
  return tc_emit_select(e, tc_emit_bin(e, TC_N_LT, x, F(0)), F(NAN), tc_emit_select(e, tc_emit_bin(e, TC_N_NE, x, x), x, p));
}

// tanh in f32, within 2.6 ULP: E / (E + 2) with E = e^2|x| - 1; from 9.1 on it is 1.
static tc_val tanh_f32(tc_emit *e, tc_val x) {
  tc_val a = at_most(e, tc_emit_un(e, TC_N_ABS, x), 9.1), m = expm1_within(e, ADD(a, a));
  return with_sign_of(e, DIV(m, ADD(m, F(2))), x);
}

// erf in f32, within 1.9 ULP: 1 - e^q with q = ln erfc(|x|), a polynomial up to 4, where erf rounds to 1. The coefficients have the least greatest
// relative error of erf, 4e-9, near 0 too; -|x| is kept apart from them so that its share of q is exact.
static tc_val erf_f32(tc_emit *e, tc_val x) {
  static const double c[] = {9.250155241596955e-06,   -1.1758432099310713e-04, 6.3262389503293310e-04,
                             -1.6666162293976928e-03, 1.5995641650523286e-04,  1.9153322828573117e-02,
                             -1.0277790897521921e-01, -6.3661937160539970e-01, -1.2837917199977605e-01};
  tc_val a = at_most(e, tc_emit_un(e, TC_N_ABS, x), 4.0);
  tc_val q = tc_emit_fma(e, a, polynomial(e, a, 9, c), tc_emit_un(e, TC_N_NEG, a));
  return with_sign_of(e, expm1_within(e, q), x);
}

tc_val tc_emit_power_of_sixteenths(tc_emit *e, tc_val t, tc_val r) {
  static const double c[] = {0x1.c6b46ap-5, 0x1.ebfff4p-3, 0x1.62e43p-1};
  tc_val near = nearest_power(e, t);
  return tc_emit_fma(e, near, MUL(r, polynomial(e, r, 3, c)), near);
}

// 2^x in f32 for x from -126 to 0, within 4e-9 and rounding. The whole part is added to the exponent's bits.
static tc_val power_of_two(tc_emit *e, tc_val x) {
  static const double c[] = {1.55946778e-4, 1.34066434e-3, 9.61769279e-3, 5.55031039e-2, 0.240226522, 0.693147242, 1};
  const double rounder = e->lookups ? TC_EMIT_ROUNDER_OF_SIXTEENTHS : ROUNDER;
  tc_val t = ADD(x, F(rounder)), r = SUB(x, SUB(t, F(rounder)));
  if (e->lookups) return tc_emit_power_of_sixteenths(e, t, r);
  return float_of(e, tc_emit_bin(e, TC_N_ADD, bits_of(e, polynomial(e, r, 7, c)), int_op(e, TC_N_SHL, bits_of(e, t), 23)));
}

// gelu in f32: relu(x) - a h with a = |x| and h = 2^y, the normal distribution's share beyond a; y is a polynomial, by which the absolute error of h is 8e-9.
// Within 2 ULP above 0, 5.5e-8 below. From where a is bounded h is 2e-34, so that a tail is 0 in effect, and inf no number times 0.
static tc_val gelu_f32(tc_emit *e, tc_val x) {
  static const double of_y[] = {-2.834912575827841e-6, 3.9377688469543046e-5, -1.861802284199574e-4,
                                -1.369363981761736e-4, 7.063420160524996e-3,  -5.249617836637481e-2,
                                -4.592081966569563e-1, -1.1511052053031499,   -1};
  tc_val a = at_most(e, tc_emit_un(e, TC_N_ABS, x), 9.75), h = power_of_two(e, polynomial(e, a, 9, of_y));
  return tc_emit_fma(e, tc_emit_un(e, TC_N_NEG, a), h, at_least(e, x, 0));
}

// The same in double: x / 2 erfc(-x / sqrt 2), and 0 where that is -inf times 0.
static tc_val gelu_f64(tc_emit *e, tc_val x) {
  tc_val p = call(e, TC_NEST_MATH_ERFC, MUL(x, F(-0.70710678118654752440)), 0, false);
  return tc_emit_select(e, tc_emit_bin(e, TC_N_EQ, p, F(0)), F(-0.0), MUL(MUL(x, F(0.5)), p));
}

// The parts of a turn that the argument x of a sine is reduced by: the nearest number of them, h, is taken off. `rounder` is ROUNDER and as much more as there
// may be parts: adding it to a number rounds that to a whole one, whose low bits are the sum's, and bits of `far` differ from ROUNDER's in the sum where
// there are more, or x is no number. A part is in two floats, of which the first is rounded down, and so is what is left, exact - rest: x without h of the
// first part has no rounding, and h of the second has the sign of h, so that -0 stays what it is.
typedef struct turn {
  double of_one;  // parts of 1
  double rounder;
  int64_t far;
  int quarter;  // parts of a quarter turn, which a cosine is ahead by
} turn;
#define QUARTERS 0.63661977236758134  // of a turn, in 1
#define ROUNDER_BITS 0x4B400000

static const turn by_quarters = {QUARTERS, ROUNDER + 8192, -0x4000, 1}, by_sixteenths = {4 * QUARTERS, ROUNDER + 32768, -0x10000, 4};

// Parts of x, and the rounder; of a cosine a quarter turn more.
static tc_val parts_of(tc_emit *e, tc_val x, const turn *by, bool cosine) {
  return tc_emit_fma(e, x, F(by->of_one), F(by->rounder + (cosine ? by->quarter : 0)));
}

// sin and cos in f32 of an x of t quarter turns, within 0.9 ULP (absolute 2^-30 below 2^-6) where none are far: x = h pi/2 + r with |r| <= pi/4. By the parity
// of h it is sin r = exact - (rest + r z p) or cos r = 1 + z p, z being r^2 and p a polynomial in z (Cephes sinf, cosf): what is rounded before the last sum
// is small beside it.
static tc_val sin_of_quarters(tc_emit *e, tc_val x, tc_val t, bool cosine) {
  static const double of_sin[] = {1.9515295891e-4, -8.3321608736e-3, 1.6666654611e-1};
  static const double of_cos[] = {-1.388731625493765e-3, 4.166664568298827e-2, -0.5};
  tc_val h = SUB(t, F(by_quarters.rounder + cosine));
  tc_val exact = tc_emit_fma(e, h, F(-1.57079625129699707), x), rest = MUL(h, F(7.54978995489188e-8)), r = SUB(exact, rest);
  tc_val z = tc_emit_fma(e, exact, exact, tc_emit_un(e, TC_N_NEG, MUL(rest, ADD(exact, r)))), quarter = bits_of(e, t);
  tc_val odd = tc_emit_bin(e, TC_N_NE, int_op(e, TC_N_AND, quarter, 1), tc_emit_const_i(e, TC_I32, 0));
  tc_val p = tc_emit_select(e, odd, tc_emit_fma(e, z, F(2.443315711809948e-5), F(of_cos[0])), F(of_sin[0]));
  for (int i = 1; i < 3; i++) p = tc_emit_fma(e, p, z, tc_emit_select(e, odd, F(of_cos[i]), F(of_sin[i])));
  p = tc_emit_fma(e, p, tc_emit_select(e, odd, z, MUL(r, z)), tc_emit_select(e, odd, F(1), rest));
  tc_val s = tc_emit_select(e, odd, p, SUB(exact, p)), sign = int_op(e, TC_N_AND, int_op(e, TC_N_SHL, quarter, 30), INT32_MIN);
  return float_of(e, tc_emit_bin(e, TC_N_XOR, bits_of(e, s), sign));
}

// The same of t sixteenths, by three quarters of the operations: x = h pi/8 + r with |r| <= pi/16, and of the angle h pi/8 sine and cosine are looked up. With
// lookup_tables.def's SINE, .. and odd a polynomial for (sin r - r) / -z it is SINE + (cosine (exact - rest) + (SINE_REST - z (cosine odd + SQUARE + FOURTH z))).
static tc_val sin_of_sixteenths(tc_emit *e, tc_val x, tc_val t, bool cosine) {
  tc_val h = SUB(t, F(by_sixteenths.rounder + (cosine ? by_sixteenths.quarter : 0)));
  tc_val exact = tc_emit_fma(e, h, F(-1.57079625129699707 / 4), x), less = MUL(h, F(-7.54978995489188e-8 / 4)), r = ADD(exact, less), z = MUL(r, r);
  tc_val c = looked_up(e, TC_NEST_TABLE_COSINE, t), odd = MUL(r, tc_emit_fma(e, z, F(-0x1.10b702p-7), F(0x1.555544p-3)));
  tc_val even = tc_emit_fma(e, looked_up(e, TC_NEST_TABLE_FOURTH, t), z, looked_up(e, TC_NEST_TABLE_SQUARE, t));
  tc_val p = tc_emit_fma(e, c, odd, even);
  tc_val s = tc_emit_fma(e, tc_emit_un(e, TC_N_NEG, p), z, looked_up(e, TC_NEST_TABLE_SINE_REST, t));
  s = tc_emit_fma(e, c, exact, tc_emit_fma(e, c, less, s));
  return ADD(looked_up(e, TC_NEST_TABLE_SINE, t), s);
}

// Not 0 in bits of turn's `far` where t has more parts than are exact, or is no number.
static tc_val far_bits(tc_emit *e, tc_val t) {
  return int_op(e, TC_N_XOR, bits_of(e, t), ROUNDER_BITS);
}

static tc_val is_far(tc_emit *e, tc_val bits, const turn *by) {
  return tc_emit_bin(e, TC_N_NE, int_op(e, TC_N_AND, bits, by->far), tc_emit_const_i(e, TC_I32, 0));
}

// With the rare path: a block whose arguments are all small takes the polynomial, else libm's function. One test for all lanes: masks are dear.
static tc_val trig_f32(tc_emit *e, tc_val x, bool cosine) {
  const turn *by = e->lookups ? &by_sixteenths : &by_quarters;
  tc_val t = parts_of(e, x, by, cosine), v = e->lookups ? sin_of_sixteenths(e, x, t, cosine) : sin_of_quarters(e, x, t, cosine);
  tc_val var = tc_emit_var(e, v), any = far_bits(e, t);
  if (tc_emit_lanes(e, any) > 1) any = tc_emit_raw(e, TC_N_HREDUCE, TC_I32, 1, any, TC_NONE, TC_NONE, TC_N_OR);
  (void)tc_emit_raw(e, TC_N_IF, TC_BOOL, 1, is_far(e, any, by), TC_NONE, TC_NONE, 0);
  tc_val far = is_far(e, far_bits(e, parts_of(e, x, by, cosine)), by);  // again: what waits meanwhile costs more
  tc_emit_set(e, var, tc_emit_select(e, far, call(e, cosine ? TC_NEST_MATH_COS : TC_NEST_MATH_SIN, x, 0, false), var));
  tc_emit_end(e, TC_N_ENDIF);
  return var;
}

// e^-|x| never overflows, so both tails are right: e / (1 + e) below zero goes down through the denormals.
static tc_val sigmoid(tc_emit *e, tc_val x, tc_type type) {
  tc_val down = tc_emit_un(e, TC_N_NEG, tc_emit_un(e, TC_N_ABS, x));
  tc_val ex = type == TC_F32 ? exp_within(e, at_least(e, down, -104.0), true) : call(e, TC_NEST_MATH_EXP, down, 0, false);
  tc_val below = type == TC_F32 ? int_op(e, TC_N_LT, bits_of(e, x), 0) : tc_emit_bin(e, TC_N_LT, x, F(0));  // e^-0 is 1, too
  tc_val top = tc_emit_select(e, below, ex, F(1));
  return DIV(top, ADD(F(1), ex));
}

#define TANH_SCALE 1.59576912160573071  // 2 sqrt(2 / pi)

// gelu by tanh is x s(y), s being the sigmoid and y = x (c + d x^2), 2 sqrt(2 / pi) (x + 0.044715 x^3). In f32: relu(x) - a h / (1 + h) with a = |x| and
// h = 2^-|y / ln 2|. Within 2.2 ULP above 0, 5.5e-8 below. a is bounded as in gelu_f32.
static tc_val gelu_tanh_f32(tc_emit *e, tc_val x) {
  tc_val a = at_most(e, tc_emit_un(e, TC_N_ABS, x), 9.75);
  tc_val y = MUL(a, tc_emit_fma(e, MUL(a, a), F(-0.044715 * TANH_SCALE * LOG2_E), F(-TANH_SCALE * LOG2_E))), h = power_of_two(e, y);
  return SUB(at_least(e, x, 0), DIV(MUL(a, h), ADD(F(1), h)));
}

// In double, where a tail is 0, too, and -inf no number times 0.
static tc_val gelu_tanh_f64(tc_emit *e, tc_val x) {
  tc_val s = sigmoid(e, MUL(x, tc_emit_fma(e, MUL(x, x), F(0.044715 * TANH_SCALE), F(TANH_SCALE))), TC_F64);
  return tc_emit_select(e, tc_emit_bin(e, TC_N_EQ, s, F(0)), F(-0.0), MUL(x, s));
}

// Whether a quotient that was cut towards 0 and left this remainder lies above its floor.
static tc_val is_above_floor(tc_emit *e, tc_val rem, tc_val b, tc_type type) {
  tc_val zero = tc_emit_const_i(e, type, 0), inexact = tc_emit_bin(e, TC_N_NE, rem, zero);
  return tc_emit_bin(e, TC_N_AND, inexact, tc_emit_bin(e, TC_N_LT, tc_emit_bin(e, TC_N_XOR, rem, b), zero));
}

// Round toward minus infinity of integer a / b; 0 where b is 0.
static tc_val floor_div_int(tc_emit *e, tc_val a, tc_val b, tc_type type) {
  tc_val q = DIV(a, b);
  if (type == TC_U8 || type == TC_BOOL) return q;
  tc_val above = is_above_floor(e, tc_emit_bin(e, TC_N_REM, a, b), b, type);
  return tc_emit_select(e, above, SUB(q, tc_emit_const_i(e, type, 1)), q);
}

// With the sign of b; 0 where b is 0, as REM has it.
static tc_val remainder_int(tc_emit *e, tc_val a, tc_val b, tc_type type) {
  tc_val rem = tc_emit_bin(e, TC_N_REM, a, b);
  if (type == TC_U8 || type == TC_BOOL) return rem;
  return tc_emit_select(e, is_above_floor(e, rem, b, type), ADD(rem, b), rem);
}

static tc_val remainder_float(tc_emit *e, tc_val a, tc_val b) {
  tc_val x = a, m = call(e, TC_NEST_MATH_FMOD, a, b, true);
  tc_val wrong = tc_emit_bin(e, TC_N_NE, tc_emit_bin(e, TC_N_LT, m, F(0)), tc_emit_bin(e, TC_N_LT, b, F(0)));
  return tc_emit_select(e, tc_emit_bin(e, TC_N_AND, tc_emit_bin(e, TC_N_NE, m, F(0)), wrong), ADD(m, b), m);
}

// Not floor(a / b), which may round up to a whole number first. In f64, as the reference. Source: PyTorch, c10/util/generic_math.h, div_floor_floating.
static tc_val floor_div_float(tc_emit *e, tc_val a, tc_val b, tc_type type) {
  int lanes = widest(e, a, b);
  a = tc_emit_cast(e, tc_emit_splat(e, a, lanes), TC_F64), b = tc_emit_cast(e, tc_emit_splat(e, b, lanes), TC_F64);
  tc_val x = a, plain = DIV(a, b), m = call(e, TC_NEST_MATH_FMOD, a, b, true), q = DIV(SUB(a, m), b);
  tc_val differ = tc_emit_bin(e, TC_N_NE, tc_emit_bin(e, TC_N_LT, m, F(0)), tc_emit_bin(e, TC_N_LT, b, F(0)));
  q = tc_emit_select(e, tc_emit_bin(e, TC_N_AND, tc_emit_bin(e, TC_N_NE, m, F(0)), differ), SUB(q, F(1)), q);
  tc_val floored = tc_emit_un(e, TC_N_FLOOR, q), up = tc_emit_bin(e, TC_N_GT, SUB(q, floored), F(0.5));
  floored = tc_emit_select(e, up, ADD(floored, F(1)), floored);
  floored = tc_emit_select(e, tc_emit_bin(e, TC_N_EQ, q, F(0)), MUL(plain, F(0)), floored);  // 0 with the quotient's sign
  return tc_emit_cast(e, tc_emit_select(e, tc_emit_bin(e, TC_N_EQ, b, F(0)), plain, floored), type);
}

// a^b for integers by squaring; negative exponents give 0 but for bases 1 and -1.
static tc_val pow_int(tc_emit *e, tc_val a, tc_val b, tc_type type) {
  int bits = (int)tc_type_bytes(type) * 8, lanes = widest(e, a, b);
  a = tc_emit_splat(e, a, lanes), b = tc_emit_splat(e, b, lanes);
  tc_val one = tc_emit_splat(e, tc_emit_const_i(e, type, 1), lanes), zero = tc_emit_const_i(e, type, 0), y = one, base = a;
  for (int i = 0; i < bits - (type == TC_U8 ? 0 : 1); i++) {
    tc_val bit = tc_emit_bin(e, TC_N_AND, tc_emit_bin(e, type == TC_U8 ? TC_N_USHR : TC_N_SHR, b, tc_emit_const_i(e, type, i)), one);
    y = tc_emit_select(e, tc_emit_bin(e, TC_N_NE, bit, zero), MUL(y, base), y);
    base = MUL(base, base);
  }
  if (type == TC_U8) return y;
  tc_val minus = tc_emit_const_i(e, type, -1);
  tc_val odd = tc_emit_bin(e, TC_N_NE, tc_emit_bin(e, TC_N_AND, b, one), zero);
  tc_val unit = tc_emit_select(e, tc_emit_bin(e, TC_N_EQ, a, one), one,
                               tc_emit_select(e, tc_emit_bin(e, TC_N_EQ, a, minus), tc_emit_select(e, odd, minus, one), zero));
  return tc_emit_select(e, tc_emit_bin(e, TC_N_LT, b, zero), unit, y);
}

static tc_val sign_of(tc_emit *e, tc_val x, tc_type type) {
  tc_val zero = tc_emit_const_f(e, type, 0), one = tc_emit_const_f(e, type, 1);
  tc_val s = tc_emit_select(e, tc_emit_bin(e, TC_N_GT, x, zero), one, zero);
  if (type == TC_U8 || type == TC_BOOL) return s;
  return tc_emit_select(e, tc_emit_bin(e, TC_N_LT, x, zero), tc_emit_const_f(e, type, -1), s);
}

// Rows that a function of the math table makes (`lower` in ops.def): 1 + its number; 0: the others.
#define MATH_fused 0
#define MATH_libm(function) 1 + TC_NEST_MATH_##function
#define MATH_alias 0
#define MATH_extern 0
#define MATH_expand(word) 0
static const uint8_t math_of[TC_N_OP_ROWS] = {
#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, lower, ...) [TC_OP_##NAME] = MATH_##lower,
#include <tc/ops.def>
#undef TC_OP
};

static tc_val via_table(tc_emit *e, uint32_t op, tc_val a, tc_val b) {
  if (op == TC_OP_POLYGAMMA) return tc_emit_cast(e, call(e, TC_NEST_MATH_POLYGAMMA, b, a, true), tc_emit_type(e, a));
  bool two = tc_op_arity[op] == 2;
  return call(e, math_of[op] - 1, a, two ? b : 0, two);
}

static tc_val fast_f32(tc_emit *e, uint32_t op, tc_val x, bool *known) {
  *known = true;
  switch (op) {
    case TC_OP_EXP: return exp_f32(e, x);
    case TC_OP_LOG: return log_f32(e, x);
    case TC_OP_SIN: return trig_f32(e, x, false);
    case TC_OP_COS: return trig_f32(e, x, true);
    case TC_OP_TANH: return tanh_f32(e, x);
    case TC_OP_ERF: return erf_f32(e, x);
    case TC_OP_GELU: return gelu_f32(e, x);
    case TC_OP_GELU_TANH: return gelu_tanh_f32(e, x);
    default: *known = false; return x;
  }
}

static tc_val arithmetic(tc_emit *e, uint32_t op, tc_type type, tc_val a, tc_val b, tc_val c) {
  bool floats = tc_type_is_float(type);
  tc_val x = a;
  switch (op) {
    case TC_OP_NEG: return floats ? tc_emit_un(e, TC_N_NEG, a) : SUB(tc_emit_const_i(e, type, 0), a);
    case TC_OP_ABS: return type == TC_BOOL || type == TC_U8 ? a : tc_emit_un(e, TC_N_ABS, a);
    case TC_OP_SIGN: return sign_of(e, a, type);
    case TC_OP_FLOOR: return floats ? tc_emit_un(e, TC_N_FLOOR, a) : a;
    case TC_OP_CEIL: return floats ? tc_emit_un(e, TC_N_CEIL, a) : a;
    case TC_OP_ROUND: return floats ? tc_emit_un(e, TC_N_RINT, a) : a;
    case TC_OP_TRUNC: return floats ? tc_emit_un(e, TC_N_TRUNC, a) : a;
    case TC_OP_SQUARE: return MUL(a, a);
    case TC_OP_SQRT: return tc_emit_un(e, TC_N_SQRT, a);
    case TC_OP_RSQRT: return DIV(F(1), tc_emit_un(e, TC_N_SQRT, a));
    case TC_OP_RECIPROCAL: return DIV(F(1), a);
    case TC_OP_SIGMOID: return sigmoid(e, a, type);
    case TC_OP_GELU: return gelu_f64(e, a);
    case TC_OP_GELU_TANH: return gelu_tanh_f64(e, a);
    case TC_OP_RELU: return tc_emit_bin(e, TC_N_MAX, a, tc_emit_const_f(e, type, 0));
    case TC_OP_ISNAN: return floats ? tc_emit_bin(e, TC_N_NE, a, a) : tc_emit_splat(e, tc_emit_const_i(e, TC_BOOL, 0), tc_emit_lanes(e, a));
    case TC_OP_LOGICAL_NOT: return tc_emit_un(e, TC_N_NOT, tc_emit_cast(e, a, TC_BOOL));
    case TC_OP_BITWISE_NOT: return tc_emit_un(e, TC_N_NOT, a);
    case TC_OP_ADD: return type == TC_BOOL ? tc_emit_bin(e, TC_N_OR, a, b) : ADD(a, b);
    case TC_OP_SUB: return SUB(a, b);
    case TC_OP_MUL: return type == TC_BOOL ? tc_emit_bin(e, TC_N_AND, a, b) : MUL(a, b);
    case TC_OP_DIV: return DIV(a, b);
    case TC_OP_POW: return floats ? call(e, TC_NEST_MATH_POW, a, b, true) : pow_int(e, a, b, type);
    case TC_OP_MAXIMUM: return type == TC_BOOL ? tc_emit_bin(e, TC_N_OR, a, b) : tc_emit_bin(e, TC_N_MAX, a, b);
    case TC_OP_MINIMUM: return type == TC_BOOL ? tc_emit_bin(e, TC_N_AND, a, b) : tc_emit_bin(e, TC_N_MIN, a, b);
    case TC_OP_FMOD: return floats ? call(e, TC_NEST_MATH_FMOD, a, b, true) : tc_emit_bin(e, TC_N_REM, a, b);
    case TC_OP_REMAINDER: return floats ? remainder_float(e, a, b) : remainder_int(e, a, b, type);
    case TC_OP_FLOOR_DIVIDE: return floats ? floor_div_float(e, a, b, tc_emit_type(e, a)) : floor_div_int(e, a, b, type);
    case TC_OP_EQ: return tc_emit_bin(e, TC_N_EQ, a, b);
    case TC_OP_NE: return tc_emit_bin(e, TC_N_NE, a, b);
    case TC_OP_LT: return tc_emit_bin(e, TC_N_LT, a, b);
    case TC_OP_LE: return tc_emit_bin(e, TC_N_LE, a, b);
    case TC_OP_GT: return tc_emit_bin(e, TC_N_GT, a, b);
    case TC_OP_GE: return tc_emit_bin(e, TC_N_GE, a, b);
    case TC_OP_LOGICAL_AND:
    case TC_OP_BITWISE_AND: return tc_emit_bin(e, TC_N_AND, a, b);
    case TC_OP_LOGICAL_OR:
    case TC_OP_BITWISE_OR: return tc_emit_bin(e, TC_N_OR, a, b);
    case TC_OP_LOGICAL_XOR:
    case TC_OP_BITWISE_XOR: return tc_emit_bin(e, TC_N_XOR, a, b);
    case TC_OP_SHIFT_LEFT: return tc_emit_bin(e, TC_N_SHL, a, b);
    case TC_OP_SHIFT_RIGHT: return tc_emit_bin(e, TC_N_SHR, a, b);
    case TC_OP_WHERE: return tc_emit_select(e, a, b, c);
    default: return a;  // reshapes stored on their own: a copy
  }
}

tc_val tc_emit_scalar_op(tc_emit *e, uint32_t op, tc_type type, tc_val a, tc_val b, tc_val c) {
  bool known = false, strict = tc_options_get()->strict;
  if (strict && type == TC_F32 && (op == TC_OP_SIGMOID || op == TC_OP_GELU || op == TC_OP_GELU_TANH))
    return tc_emit_cast(e, arithmetic(e, op, TC_F64, tc_emit_cast(e, a, TC_F64), b, c), type);
  tc_val v = type == TC_F32 && !strict ? fast_f32(e, op, a, &known) : a;
  if (known) return v;
  return math_of[op] ? via_table(e, op, a, b) : arithmetic(e, op, type, a, b, c);
}

double tc_emit_cost(uint32_t op, tc_type type) {
  bool f32 = type == TC_F32 || type == TC_F16 || type == TC_BF16;
  switch (op) {
    case TC_OP_FULL:
    case TC_OP_RESHAPE:
    case TC_OP_PERMUTE:
    case TC_OP_EXPAND:
    case TC_OP_DETACH:
    case TC_OP_TO:
    case TC_OP_ASSIGN: return 0;
    case TC_OP_DIV:
    case TC_OP_SQRT:
    case TC_OP_RSQRT:
    case TC_OP_RECIPROCAL:
    case TC_OP_FLOOR_DIVIDE:
    case TC_OP_REMAINDER: return tc_type_is_float(type) ? 4 : 30;
    case TC_OP_EXP:
    case TC_OP_LOG:
    case TC_OP_SIN:
    case TC_OP_COS: return f32 ? 15 : LIBM_COST;
    case TC_OP_TANH:
    case TC_OP_SIGMOID: return f32 ? 25 : LIBM_COST;
    case TC_OP_GELU:
    case TC_OP_GELU_TANH:
    case TC_OP_ERF: return f32 ? 30 : LIBM_COST;
    case TC_OP_RAND:
    case TC_OP_RANDINT: return 30;
    case TC_OP_RANDN: return f32 ? 60 : LIBM_COST;
    case TC_OP_POW:
    case TC_OP_FMOD: return LIBM_COST;
    default: return math_of[op] ? LIBM_COST : 1;
  }
}
