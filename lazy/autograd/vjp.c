// Gradient rules of elementwise ops, and of the rows that pass a gradient on or refuse it. The
// rest: vjp_move.c, vjp_fold.c, vjp_index.c.
// A rule only records ordinary ops, so it can be differentiated again. What a mask excludes must be
// finite, since the gradient of a where multiplies the excluded branch by zero. So the argument is
// made harmless first, then the result is masked ("double where").
// Operands of a binary row have been cast to one type when it was recorded; tc_vjp_give sums what
// broadcasting repeated.
// Threads: under the trace's lock. Owner: nobody. Source: formulas and choices at kinks as in
// PyTorch's tools/autograd/derivatives.yaml.
#include "lazy/autograd/vjp.h"

#include <math.h>

#include "lazy/autograd/vjp_shorthand.h"
#include "runtime/options.h"

// ---- Nothing to give ----

void tc_vjp_zero(tc_vjp *v) {
  (void)v;
}

void tc_vjp_none(tc_vjp *v) {
  for (int k = 0; k < v->n_in; k++) {
    if (!tc_vjp_requires_grad(v, k)) continue;
    tc_rec_fail(v->t, TC_ERR_GRAD, "%s is not differentiable", tc_op_names[v->op]);
    return;
  }
}

// ---- One operand ----

// Rules whose gradient is the result's times, or over, something.
#define TIMES(name, slope) \
  void tc_vjp_##name(tc_vjp *v) { \
    tc_vjp_give(v, 0, mul(v, v->g, slope)); \
  }
#define MINUS_TIMES(name, slope) \
  void tc_vjp_##name(tc_vjp *v) { \
    tc_vjp_give(v, 0, mul(v, neg(v, v->g), slope)); \
  }
#define OVER(name, divisor) \
  void tc_vjp_##name(tc_vjp *v) { \
    tc_vjp_give(v, 0, bin(v, TC_OP_DIV, v->g, divisor)); \
  }

void tc_vjp_neg(tc_vjp *v) {
  tc_vjp_give(v, 0, neg(v, v->g));
}

TIMES(abs, un(v, TC_OP_SIGN, tc_vjp_in(v, 0)))
TIMES(square, scale(v, tc_vjp_in(v, 0), 2))
OVER(sqrt, scale(v, tc_vjp_out(v), 2))

void tc_vjp_rsqrt(tc_vjp *v) {
  tc_node out = tc_vjp_out(v);
  tc_vjp_give(v, 0, mul(v, scale(v, v->g, -0.5), mul(v, out, un(v, TC_OP_SQUARE, out))));
}

MINUS_TIMES(reciprocal, un(v, TC_OP_SQUARE, tc_vjp_out(v)))
TIMES(exp, tc_vjp_out(v))
TIMES(exp2, scale(v, tc_vjp_out(v), M_LN2))
TIMES(expm1, num(v, TC_OP_ADD, tc_vjp_out(v), 1))
OVER(log, tc_vjp_in(v, 0))
OVER(log2, scale(v, tc_vjp_in(v, 0), M_LN2))
OVER(log10, scale(v, tc_vjp_in(v, 0), M_LN10))
OVER(log1p, num(v, TC_OP_ADD, tc_vjp_in(v, 0), 1))
TIMES(sin, un(v, TC_OP_COS, tc_vjp_in(v, 0)))
MINUS_TIMES(cos, un(v, TC_OP_SIN, tc_vjp_in(v, 0)))
TIMES(tan, num(v, TC_OP_ADD, un(v, TC_OP_SQUARE, tc_vjp_out(v)), 1))

// 1 / sqrt(1 - x^2)
static tc_node asin_slope(tc_vjp *v) {
  return un(v, TC_OP_RSQRT, num_minus(v, 1, un(v, TC_OP_SQUARE, tc_vjp_in(v, 0))));
}

TIMES(asin, asin_slope(v))
MINUS_TIMES(acos, asin_slope(v))
OVER(atan, num(v, TC_OP_ADD, un(v, TC_OP_SQUARE, tc_vjp_in(v, 0)), 1))
TIMES(sinh, un(v, TC_OP_COSH, tc_vjp_in(v, 0)))
TIMES(cosh, un(v, TC_OP_SINH, tc_vjp_in(v, 0)))
TIMES(tanh, num_minus(v, 1, un(v, TC_OP_SQUARE, tc_vjp_out(v))))
TIMES(asinh, un(v, TC_OP_RSQRT, num(v, TC_OP_ADD, un(v, TC_OP_SQUARE, tc_vjp_in(v, 0)), 1)))
TIMES(acosh, un(v, TC_OP_RSQRT, num(v, TC_OP_SUB, un(v, TC_OP_SQUARE, tc_vjp_in(v, 0)), 1)))
OVER(atanh, num_minus(v, 1, un(v, TC_OP_SQUARE, tc_vjp_in(v, 0))))
TIMES(erf, scale(v, un(v, TC_OP_EXP, neg(v, un(v, TC_OP_SQUARE, tc_vjp_in(v, 0)))), M_2_SQRTPI))
// The inverse of erf's slope, taken at the result.
TIMES(erfinv, scale(v, un(v, TC_OP_EXP, un(v, TC_OP_SQUARE, tc_vjp_out(v))), 1 / M_2_SQRTPI))
TIMES(lgamma, tc_rec_polygamma(v->t, 0, tc_vjp_in(v, 0)))
TIMES(polygamma, tc_rec_polygamma(v->t, (int64_t)v->attr[0] + 1, tc_vjp_in(v, 0)))

void tc_vjp_sigmoid(tc_vjp *v) {
  tc_node out = tc_vjp_out(v);
  tc_vjp_give(v, 0, mul(v, v->g, mul(v, num_minus(v, 1, out), out)));
}

// Of x P(x), P being the normal distribution: P(x) + x P'(x).
void tc_vjp_gelu(tc_vjp *v) {
  tc_node x = tc_vjp_in(v, 0), u = scale(v, x, M_SQRT1_2), p = scale(v, num(v, TC_OP_ADD, un(v, TC_OP_ERF, u), 1), 0.5);
  tc_node density = scale(v, un(v, TC_OP_EXP, neg(v, un(v, TC_OP_SQUARE, u))), M_2_SQRTPI * M_SQRT1_2 / 2);
  tc_vjp_give(v, 0, mul(v, v->g, bin(v, TC_OP_ADD, p, mul(v, x, density))));
}

// Of x s(y), s being the sigmoid and y = x (c + d x^2): s + x s (1 - s) y'.
void tc_vjp_gelu_tanh(tc_vjp *v) {
  const double c = M_SQRT2 * M_2_SQRTPI, d = 0.044715 * c;
  tc_node x = tc_vjp_in(v, 0), squared = un(v, TC_OP_SQUARE, x);
  tc_node s = un(v, TC_OP_SIGMOID, mul(v, x, num(v, TC_OP_ADD, scale(v, squared, d), c)));
  tc_node by_y = mul(v, mul(v, num_minus(v, 1, s), s), x), slope = num(v, TC_OP_ADD, scale(v, squared, 3 * d), c);
  tc_vjp_give(v, 0, mul(v, v->g, bin(v, TC_OP_ADD, s, mul(v, by_y, slope))));
}

// Zero at zero; a nan result lets the gradient through, as torch's threshold_backward does.
void tc_vjp_relu(tc_vjp *v) {
  tc_vjp_give(v, 0, zero_where(v, num(v, TC_OP_LE, tc_vjp_out(v), 0), v->g));
}

void tc_vjp_cast(tc_vjp *v) {
  tc_vjp_give(v, 0, v->g);
}

// ---- Two operands ----

void tc_vjp_add(tc_vjp *v) {
  for (int k = 0; k < 2; k++)
    if (tc_vjp_requires_grad(v, k)) tc_vjp_give(v, k, v->g);
}

void tc_vjp_sub(tc_vjp *v) {
  if (tc_vjp_requires_grad(v, 0)) tc_vjp_give(v, 0, v->g);
  if (tc_vjp_requires_grad(v, 1)) tc_vjp_give(v, 1, neg(v, v->g));
}

void tc_vjp_mul(tc_vjp *v) {
  for (int k = 0; k < 2; k++)
    if (tc_vjp_requires_grad(v, k)) tc_vjp_give(v, k, mul(v, v->g, tc_vjp_in(v, tc_planted("vjp") ? k : 1 - k)));
}

void tc_vjp_div(tc_vjp *v) {
  tc_node b = tc_vjp_in(v, 1);
  if (tc_vjp_requires_grad(v, 0)) tc_vjp_give(v, 0, bin(v, TC_OP_DIV, v->g, b));
  if (!tc_vjp_requires_grad(v, 1)) return;
  tc_node slope = bin(v, TC_OP_DIV, bin(v, TC_OP_DIV, tc_vjp_in(v, 0), b), b);
  tc_vjp_give(v, 1, mul(v, neg(v, v->g), slope));
}

// e * a^(e - 1), and zero for e = 0 whatever a is. With e made 1 there, 0^-1 never arises, here or
// in the rule of this pow.
static tc_node pow_base(tc_vjp *v, tc_node a, tc_node e) {
  tc_node flat = num(v, TC_OP_EQ, e, 0);
  tc_node safe = tc_rec_where(v->t, flat, tc_rec_const(v->t, e, 1), e);
  tc_node slope = mul(v, safe, bin(v, TC_OP_POW, a, num(v, TC_OP_SUB, safe, 1)));
  return zero_where(v, flat, mul(v, v->g, slope));
}

// out * log(a), and zero where a is 0 and e is not negative: 0^e does not move with e.
static tc_node pow_exponent(tc_vjp *v, tc_node a, tc_node e) {
  tc_node flat = bin(v, TC_OP_LOGICAL_AND, num(v, TC_OP_EQ, a, 0), num(v, TC_OP_GE, e, 0));
  tc_node safe = tc_rec_where(v->t, flat, tc_rec_const(v->t, a, 1), a);
  return zero_where(v, flat, mul(v, v->g, mul(v, tc_vjp_out(v), un(v, TC_OP_LOG, safe))));
}

void tc_vjp_pow(tc_vjp *v) {
  tc_node a = tc_vjp_in(v, 0), e = tc_vjp_in(v, 1);
  if (tc_vjp_requires_grad(v, 0)) tc_vjp_give(v, 0, pow_base(v, a, e));
  if (tc_vjp_requires_grad(v, 1)) tc_vjp_give(v, 1, pow_exponent(v, a, e));
}

// The operand that lost gets nothing, equal operands get half each.
static void give_winner(tc_vjp *v, tc_op lost_by) {
  tc_node a = tc_vjp_in(v, 0), b = tc_vjp_in(v, 1);
  tc_node shared = tc_rec_where(v->t, bin(v, TC_OP_EQ, a, b), scale(v, v->g, 0.5), v->g);
  if (tc_vjp_requires_grad(v, 0)) tc_vjp_give(v, 0, zero_where(v, bin(v, lost_by, a, b), shared));
  if (tc_vjp_requires_grad(v, 1)) tc_vjp_give(v, 1, zero_where(v, bin(v, lost_by, b, a), shared));
}

void tc_vjp_maximum(tc_vjp *v) {
  give_winner(v, TC_OP_LT);
}

void tc_vjp_minimum(tc_vjp *v) {
  give_winner(v, TC_OP_GT);
}

// a - b * q with a whole quotient q that is flat almost everywhere.
void tc_vjp_fmod(tc_vjp *v) {
  if (tc_vjp_requires_grad(v, 0)) tc_vjp_give(v, 0, v->g);
  if (!tc_vjp_requires_grad(v, 1)) return;
  tc_node q = un(v, TC_OP_TRUNC, bin(v, TC_OP_DIV, tc_vjp_in(v, 0), tc_vjp_in(v, 1)));
  tc_vjp_give(v, 1, mul(v, neg(v, v->g), q));
}

void tc_vjp_remainder(tc_vjp *v) {
  if (tc_vjp_requires_grad(v, 0)) tc_vjp_give(v, 0, v->g);
  if (!tc_vjp_requires_grad(v, 1)) return;
  tc_node q = bin(v, TC_OP_FLOOR_DIVIDE, tc_vjp_in(v, 0), tc_vjp_in(v, 1));
  tc_vjp_give(v, 1, mul(v, neg(v, v->g), q));
}

void tc_vjp_atan2(tc_vjp *v) {
  tc_node y = tc_vjp_in(v, 0), x = tc_vjp_in(v, 1);
  tc_node square = add(v, un(v, TC_OP_SQUARE, y), un(v, TC_OP_SQUARE, x));
  // 0 at the origin, as in PyTorch
  tc_node r = zero_where(v, num(v, TC_OP_EQ, square, 0), bin(v, TC_OP_DIV, v->g, square));
  if (tc_vjp_requires_grad(v, 0)) tc_vjp_give(v, 0, mul(v, r, x));
  if (tc_vjp_requires_grad(v, 1)) tc_vjp_give(v, 1, mul(v, neg(v, r), y));
}

// ---- Three operands: condition, value if true, value if false ----

void tc_vjp_where(tc_vjp *v) {
  tc_node cond = tc_vjp_in(v, 0);
  if (tc_vjp_requires_grad(v, 1)) tc_vjp_give(v, 1, only_where(v, cond, v->g));
  if (tc_vjp_requires_grad(v, 2)) tc_vjp_give(v, 2, zero_where(v, cond, v->g));
}

// ---- The same value elsewhere ----

// Between devices the walk's give brings the gradient back to the operand's device.
void tc_vjp_to(tc_vjp *v) {
  tc_vjp_give(v, 0, v->g);
}

// Operands (value, old): the handle stands for the value from then on, so the old one gets nothing.
void tc_vjp_assign(tc_vjp *v) {
  if (tc_vjp_requires_grad(v, 0)) tc_vjp_give(v, 0, v->g);
}
