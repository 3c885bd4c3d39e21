// Losses of differences and of probabilities: each element's loss, and its reduction. Composed at
// node level; values and slopes as in PyTorch (aten/src/ATen/native/Loss.cpp). f16 and bf16 are
// computed in f32 and rounded once.
// Threads: thread-compatible, each thread records its own trace.
#define TC_NO_SITES
#include "lazy/record/formula.h"

#include <math.h>

tc_type tc_compose_loss_type(const tc_trace *t, tc_node a, tc_node b) {
  tc_type p = f_type(t, a), q = f_type(t, b);
  bool fa = a != TC_NODE_ERR && tc_type_is_float(tc_node_type(t, a)),
       fb = b != TC_NODE_ERR && tc_type_is_float(tc_node_type(t, b));
  if (fa != fb) return fa ? p : q;
  if (p == q) return p;
  return p == TC_F64 || q == TC_F64 ? TC_F64 : TC_F32;  // f16 with bf16 is f32
}

tc_node tc_compose_reduce(tc_trace *t, tc_node each, tc_reduction reduction) {
  switch (reduction) {
    case TC_REDUCE_MEAN: return tc_compose_mean(t, each, f_all_axes(t, each), false);
    case TC_REDUCE_SUM: return tc_rec_fold(t, TC_OP_SUM, each, f_all_axes(t, each), false);
    case TC_REDUCE_NONE: return each;
    default: break;
  }
  return tc_rec_fail(t, TC_ERR_ARG, "reduction is %d; give TC_REDUCE_MEAN, TC_REDUCE_SUM or TC_REDUCE_NONE",
                     (int)reduction);
}

// ---- Of a difference ----

// A loss of the difference of two tensors; delta is its parameter.
typedef tc_node (*difference_loss)(tc_trace *t, tc_node d, double delta);

static tc_tensor difference(const char *name, difference_loss f, tc_tensor x, tc_tensor y, double delta,
                            tc_reduction reduction, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  tc_node a = tc_op_in(t, x), b = tc_op_in(t, y);
  tc_type type = tc_compose_loss_type(t, a, b);
  tc_node each = f(t, f_sub(t, f_widen(t, a), f_widen(t, b)), delta);
  return tc_op_end(t, f_narrow(t, tc_compose_reduce(t, each, reduction), type));
}

static tc_node squared(tc_trace *t, tc_node d, double delta) {
  (void)delta;
  return tc_rec_unary(t, TC_OP_SQUARE, d);
}

static tc_node absolute(tc_trace *t, tc_node d, double delta) {
  (void)delta;
  return tc_rec_unary(t, TC_OP_ABS, d);
}

// Squares only what is small: the square of the rest could overflow, and its slope would be NaN.
static tc_node huber(tc_trace *t, tc_node d, double delta) {
  if (d == TC_NODE_ERR) return d;
  if (!(delta > 0.0)) return tc_rec_fail(t, TC_ERR_ARG, "delta is %g, not above 0", delta);
  tc_node size = tc_rec_unary(t, TC_OP_ABS, d), small = f_num(t, TC_OP_LT, size, delta);
  tc_node square = f_num(t, TC_OP_MUL, tc_rec_unary(t, TC_OP_SQUARE, f_keep(t, small, d, 0.0)), 0.5);
  return tc_rec_where(t, small, square, f_num(t, TC_OP_MUL, f_num(t, TC_OP_SUB, size, 0.5 * delta), delta));
}

static tc_node smooth(tc_trace *t, tc_node d, double beta) {
  if (d == TC_NODE_ERR) return d;
  if (!(beta >= 0.0)) return tc_rec_fail(t, TC_ERR_ARG, "beta is %g, not a number from 0 on", beta);
  tc_node size = tc_rec_unary(t, TC_OP_ABS, d);
  if (beta == 0.0) return size;
  tc_node small = f_num(t, TC_OP_LT, size, beta);
  tc_node square = f_num(t, TC_OP_MUL, tc_rec_unary(t, TC_OP_SQUARE, f_keep(t, small, d, 0.0)), 0.5 / beta);
  return tc_rec_where(t, small, square, f_num(t, TC_OP_SUB, size, 0.5 * beta));
}

tc_tensor tc_mse_loss_at(tc_tensor x, tc_tensor y, tc_site site) {
  return difference("mse_loss", squared, x, y, 0.0, TC_REDUCE_MEAN, site);
}

tc_tensor tc_l1_loss_at(tc_tensor x, tc_tensor y, tc_site site) {
  return difference("l1_loss", absolute, x, y, 0.0, TC_REDUCE_MEAN, site);
}

tc_tensor tc_huber_loss_at(tc_tensor x, tc_tensor y, double delta, tc_site site) {
  return difference("huber_loss", huber, x, y, delta, TC_REDUCE_MEAN, site);
}

tc_tensor tc_mse_loss_with_at(tc_tensor x, tc_tensor y, tc_loss_options o, tc_site site) {
  return difference("mse_loss_with", squared, x, y, 0.0, o.reduction, site);
}

tc_tensor tc_l1_loss_with_at(tc_tensor x, tc_tensor y, tc_loss_options o, tc_site site) {
  return difference("l1_loss_with", absolute, x, y, 0.0, o.reduction, site);
}

tc_tensor tc_huber_loss_with_at(tc_tensor x, tc_tensor y, tc_loss_options o, tc_site site) {
  return difference("huber_loss_with", huber, x, y, tc_option(o.delta, 1), o.reduction, site);
}

tc_tensor tc_smooth_l1_loss_at(tc_tensor x, tc_tensor y, tc_loss_options o, tc_site site) {
  return difference("smooth_l1_loss", smooth, x, y, tc_option(o.beta, 1), o.reduction, site);
}

// ---- Of probabilities ----

// Each element's loss of a and b, both f32 at least. pos: the weight of what is true, or
// TC_NODE_ERR.
typedef tc_node (*pair_loss)(tc_trace *t, tc_node a, tc_node b, tc_node pos);

static tc_node weight_in(tc_trace *t, tc_tensor weight) {
  return f_given(weight) ? f_widen(t, tc_op_in(t, weight)) : TC_NODE_ERR;
}

static tc_tensor of_pair(const char *name, pair_loss f, tc_tensor x, tc_tensor y, tc_bce_options o, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  tc_node a = tc_op_in(t, x), b = tc_op_in(t, y);
  tc_type type = tc_compose_loss_type(t, a, b);
  a = f_widen(t, a), b = f_widen(t, b);
  tc_node weight = weight_in(t, o.weight), pos = weight_in(t, o.pos_weight);
  if (a == TC_NODE_ERR || b == TC_NODE_ERR) return tc_op_end(t, TC_NODE_ERR);
  if ((f_given(o.weight) && weight == TC_NODE_ERR) || (f_given(o.pos_weight) && pos == TC_NODE_ERR))
    return tc_op_end(t, TC_NODE_ERR);
  tc_node each = f(t, a, b, pos);
  if (weight != TC_NODE_ERR) each = f_mul(t, each, weight);
  return tc_op_end(t, f_narrow(t, tc_compose_reduce(t, each, o.reduction), type));
}

// (1 - y) x - log_sigmoid(x) (1 + (pos - 1) y): finite for every finite x.
static tc_node bce_of_logits(tc_trace *t, tc_node a, tc_node b, tc_node pos) {
  tc_node log = tc_compose_log_sigmoid(t, a);
  if (pos != TC_NODE_ERR) {
    pos = f_mul(t, f_num(t, TC_OP_SUB, pos, 1.0), b);
    log = f_mul(t, f_num(t, TC_OP_ADD, pos, 1.0), log);
  }
  return f_sub(t, f_mul(t, f_sub(t, tc_rec_const(t, b, 1.0), b), a), log);
}

tc_tensor tc_bce_with_logits_at(tc_tensor x, tc_tensor y, tc_site site) {
  return of_pair("bce_with_logits", bce_of_logits, x, y, (tc_bce_options){0}, site);
}

tc_tensor tc_bce_with_logits_loss_at(tc_tensor x, tc_tensor y, tc_bce_options o, tc_site site) {
  return of_pair("bce_with_logits_loss", bce_of_logits, x, y, o, site);
}

// (y - 1) log(1 - x) - y log(x), of logarithms that are at least -100.
static tc_node cross_entropy_of(tc_trace *t, tc_node a, tc_node b, bool clamped) {
  tc_node log = tc_rec_unary(t, TC_OP_LOG, a), rest = tc_rec_unary(t, TC_OP_LOG1P, f_neg(t, a));
  if (clamped) log = f_num(t, TC_OP_MAXIMUM, log, -100.0), rest = f_num(t, TC_OP_MAXIMUM, rest, -100.0);
  return f_sub(t, f_mul(t, f_num(t, TC_OP_SUB, b, 1.0), rest), f_mul(t, b, log));
}

// PyTorch's slope is (x - y) / max(x (1 - x), 1e-12), of a 1e-12 that is a float. Inside, that is
// the slope of the logarithms. At the ends the value has no slope in x. A term of value 0 has the
// rest of the slope: (x - x') ((x + x') / 2 - y) 1e12, where x' is x without history.
static tc_node bce(tc_trace *t, tc_node a, tc_node b, tc_node pos) {
  (void)pos;
  tc_node fixed = tc_rec_detach(t, a);
  tc_node inside = f_num(t, TC_OP_GE, f_mul(t, fixed, tc_rec_num_first(t, TC_OP_SUB, tc_num_float(1), fixed)), 1e-12);
  tc_node within = cross_entropy_of(t, f_keep(t, inside, a, 0.5), b, false),
          at_end = cross_entropy_of(t, fixed, b, true);
  tc_node end = f_fill(t, inside, 0.0, a), end_fixed = f_fill(t, inside, 0.0, fixed);
  tc_node slope = f_sub(t, f_num(t, TC_OP_MUL, f_add(t, end, end_fixed), 0.5), b);
  tc_node linear = f_num(t, TC_OP_MUL, f_mul(t, f_sub(t, end, end_fixed), slope), 1 / (double)1e-12F);
  return tc_rec_where(t, inside, within, f_add(t, at_end, linear));
}

tc_tensor tc_bce_loss_at(tc_tensor x, tc_tensor y, tc_bce_options o, tc_site site) {
  if (f_given(o.pos_weight)) {
    tc_trace *t = tc_op_begin("bce_loss", site);
    return tc_op_end(t,
                     tc_rec_fail(t, TC_ERR_ARG, "pos_weight is of bce_with_logits_loss; here weight takes its place"));
  }
  return of_pair("bce_loss", bce, x, y, o, site);
}

// The sum by the first extent of the two operands' common shape.
static tc_node batch_mean(tc_trace *t, tc_node each) {
  if (each == TC_NODE_ERR) return each;
  const tc_dims *d = tc_node_dims(t, each);
  if (d->rank == 0) return tc_rec_fail(t, TC_ERR_SHAPE, "a scalar is no batch; give TC_REDUCE_SUM");
  double n = (double)d->dim[0];
  return f_num(t, TC_OP_DIV, tc_compose_reduce(t, each, TC_REDUCE_SUM), n);
}

tc_tensor tc_kl_div_loss_at(tc_tensor x, tc_tensor y, tc_kl_div_options o, tc_site site) {
  tc_trace *t = tc_op_begin("kl_div_loss", site);
  tc_node a = tc_op_in(t, x), b = tc_op_in(t, y), each;
  tc_type type = tc_compose_loss_type(t, a, b);
  a = f_widen(t, a), b = f_widen(t, b);
  if (a == TC_NODE_ERR || b == TC_NODE_ERR) return tc_op_end(t, TC_NODE_ERR);
  if (o.log_target) {
    each = f_mul(t, f_exp(t, b), f_sub(t, b, a));
  } else {
    tc_node log = tc_rec_unary(t, TC_OP_LOG, f_fill(t, f_num(t, TC_OP_EQ, b, 0.0), 1.0, b));
    each = f_sub(t, f_mul(t, b, log), f_mul(t, b, a));
  }
  tc_node out = o.reduction == TC_REDUCE_BATCHMEAN ? batch_mean(t, each) : tc_compose_reduce(t, each, o.reduction);
  return tc_op_end(t, f_narrow(t, out, type));
}
