// Losses: the mean over all elements, or over the rows that count. Composed at node level; values
// and slopes as in PyTorch (aten/src/ATen/native/Loss.cpp, LossNLL.cpp). f16 and bf16 are computed
// in f32 and rounded once.
// Threads: thread-compatible, each thread records its own trace.
#define TC_NO_SITES
#include "lazy/record/formula.h"

#include <math.h>

#define ALL_AXES UINT32_C(0xff)

static uint32_t all_axes(const tc_trace *t, tc_node a) {
  return a == TC_NODE_ERR ? 0 : ALL_AXES >> (TC_MAX_RANK - tc_node_dims(t, a)->rank);
}

// The wider of the two operands' types, as a result type.
static tc_type loss_type(const tc_trace *t, tc_node a, tc_node b) {
  tc_type p = f_type(t, a), q = f_type(t, b);
  bool fa = a != TC_NODE_ERR && tc_type_is_float(tc_node_type(t, a)),
       fb = b != TC_NODE_ERR && tc_type_is_float(tc_node_type(t, b));
  if (fa != fb) return fa ? p : q;
  if (p == q) return p;
  return p == TC_F64 || q == TC_F64 ? TC_F64 : TC_F32;  // f16 with bf16 is f32
}

// A loss of the difference of two tensors; delta is its parameter.
typedef tc_node (*difference_loss)(tc_trace *t, tc_node d, double delta);

static tc_tensor difference(const char *name, difference_loss f, tc_tensor x, tc_tensor y, double delta, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  tc_node a = tc_op_in(t, x), b = tc_op_in(t, y);
  tc_type type = loss_type(t, a, b);
  tc_node each = f(t, f_sub(t, f_widen(t, a), f_widen(t, b)), delta);
  return tc_op_end(t, f_narrow(t, tc_compose_mean(t, each, all_axes(t, each), false), type));
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

tc_tensor tc_mse_loss_at(tc_tensor x, tc_tensor y, tc_site site) {
  return difference("mse_loss", squared, x, y, 0.0, site);
}

tc_tensor tc_l1_loss_at(tc_tensor x, tc_tensor y, tc_site site) {
  return difference("l1_loss", absolute, x, y, 0.0, site);
}

tc_tensor tc_huber_loss_at(tc_tensor x, tc_tensor y, double delta, tc_site site) {
  return difference("huber_loss", huber, x, y, delta, site);
}

// (1 - y) x - log_sigmoid(x): finite for every finite x.
tc_tensor tc_bce_with_logits_at(tc_tensor x, tc_tensor y, tc_site site) {
  tc_trace *t = tc_op_begin("bce_with_logits", site);
  tc_node a = tc_op_in(t, x), b = tc_op_in(t, y);
  tc_type type = loss_type(t, a, b);
  a = f_widen(t, a), b = f_widen(t, b);
  if (a == TC_NODE_ERR || b == TC_NODE_ERR) return tc_op_end(t, TC_NODE_ERR);
  tc_node each = f_sub(t, f_mul(t, f_sub(t, tc_rec_const(t, b, 1.0), b), a), tc_compose_log_sigmoid(t, a));
  return tc_op_end(t, f_narrow(t, tc_compose_mean(t, each, all_axes(t, each), false), type));
}

// ---- Classification ----

// The class axis of scores: [c] with target [], or [n, c, ...] with target [n, ...]; -1 after
// reporting.
static int class_axis(tc_trace *t, tc_node scores, tc_node target) {
  if (scores == TC_NODE_ERR || target == TC_NODE_ERR) return -1;
  const tc_dims *s = tc_node_dims(t, scores), *y = tc_node_dims(t, target);
  tc_type type = tc_node_type(t, target);
  if (tc_type_is_float(type) || type == TC_BOOL) {
    tc_rec_fail(t, TC_ERR_DTYPE, "target is %s, class indices are needed", tc_type_name(type));
    return -1;
  }
  int axis = s->rank == 1 ? 0 : 1;
  bool fits = s->rank >= 1 && y->rank == s->rank - 1;
  for (int i = 0, j = 0; fits && i < s->rank; i++)
    if (i != axis) fits = s->dim[i] == y->dim[j++];
  if (fits) return axis;
  char have[128], want[128];
  tc_rec_fail(t, TC_ERR_SHAPE, "scores %s do not fit target %s; [n, c, ...] and [n, ...] are needed",
              tc_dims_text(s, have, sizeof have), tc_dims_text(y, want, sizeof want));
  return -1;
}

// The mean of -lp[target] over the targets that are not ignored, mixed with the mean of -lp over
// the classes. All ignored: 0 / 0, NaN. log_sum, if it is not TC_NODE_ERR, is still to be taken
// from lp (smoothing is 0 then).
static tc_node nll(tc_trace *t, tc_node lp, tc_node log_sum, tc_node target, int axis, double smoothing,
                   int64_t ignore_index) {
  if (lp == TC_NODE_ERR) return lp;
  tc_dims d = *tc_node_dims(t, lp);
  int64_t n_classes = d.dim[axis];
  d.dim[axis] = 1;
  tc_node y = tc_rec_reshape(t, tc_rec_cast(t, target, TC_I64), &d);
  if (y == TC_NODE_ERR) return y;
  tc_node counts = f_int(t, TC_OP_NE, y, ignore_index);
  // gather takes negative indices from the end, but a negative class is a mistake. It is put far
  // away, and the sync reports it as what it was (tc_index_text in runtime/status.h). Below
  // -n_classes it is out of range already.
  tc_node from_end = tc_rec_binary(t, TC_OP_LOGICAL_AND, f_int(t, TC_OP_LT, y, 0), f_int(t, TC_OP_GE, y, -n_classes));
  tc_node index = tc_rec_where(t, from_end, f_int(t, TC_OP_ADD, y, -TC_INDEX_AWAY), y);
  tc_node picked = tc_rec_gather(t, lp, axis, tc_rec_where(t, counts, index, tc_rec_const(t, y, 0.0)));
  if (log_sum != TC_NODE_ERR) picked = f_sub(t, picked, log_sum);
  picked = f_neg(t, picked);
  if (picked == TC_NODE_ERR) return picked;
  uint32_t all = all_axes(t, lp);
  tc_node n = tc_rec_fold(t, TC_OP_SUM, tc_rec_cast(t, counts, tc_node_type(t, lp)), all, false);
  tc_node loss = f_div(t, tc_rec_fold(t, TC_OP_SUM, f_keep(t, counts, picked, 0.0), all, false), n);
  if (smoothing == 0.0) return loss;
  tc_node spread = f_neg(t, tc_rec_fold(t, TC_OP_SUM, lp, UINT32_C(1) << axis, true));
  if (spread == TC_NODE_ERR) return spread;
  spread = f_div(t, tc_rec_fold(t, TC_OP_SUM, f_keep(t, counts, spread, 0.0), all, false), n);
  return f_add(t, f_num(t, TC_OP_MUL, loss, 1.0 - smoothing),
               f_num(t, TC_OP_MUL, spread, smoothing / (double)n_classes));
}

// log_softmax in two parts, with the same values. Its gradient then reads the exponentials of the
// forward pass, and adds up no row that is 0 but for the target. The loss is the same
// whatever is taken from a row, so the largest score needs no gradient, at any order.
static tc_node shifted_scores(tc_trace *t, tc_node a, int axis, tc_node *out_log_sum) {
  uint32_t mask = UINT32_C(1) << axis;
  a = f_sub(t, a, tc_rec_detach(t, tc_rec_fold(t, TC_OP_MAX, a, mask, true)));
  *out_log_sum = tc_rec_unary(t, TC_OP_LOG, tc_rec_fold(t, TC_OP_SUM, f_exp(t, a), mask, true));
  return *out_log_sum == TC_NODE_ERR ? TC_NODE_ERR : a;
}

static tc_tensor classify(const char *name, bool logits, tc_tensor x, tc_tensor target, double smoothing,
                          int64_t ignore_index, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  tc_node a = tc_op_in(t, x), y = tc_op_in(t, target);
  int axis = class_axis(t, a, y);
  if (axis < 0) return tc_op_end(t, TC_NODE_ERR);
  if (!(smoothing >= 0.0 && smoothing <= 1.0))
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "label smoothing is %g, not within [0, 1]", smoothing));
  tc_type type = f_type(t, a);
  tc_node lp = f_widen(t, a), log_sum = TC_NODE_ERR;
  if (logits && smoothing == 0.0 && tc_node_dims(t, a)->dim[axis] > 0)
    lp = shifted_scores(t, lp, axis, &log_sum);
  else if (logits)
    lp = tc_rec_softmax(t, TC_OP_LOG_SOFTMAX, lp, axis);
  return tc_op_end(t, f_narrow(t, nll(t, lp, log_sum, y, axis, smoothing, ignore_index), type));
}

tc_tensor tc_cross_entropy_at(tc_tensor logits, tc_tensor target, tc_site site) {
  return classify("cross_entropy", true, logits, target, 0.0, -100, site);
}

tc_tensor tc_cross_entropy_with_at(tc_tensor logits, tc_tensor target, double label_smoothing, int64_t ignore_index,
                                   tc_site site) {
  return classify("cross_entropy_with", true, logits, target, label_smoothing, ignore_index, site);
}

tc_tensor tc_nll_loss_at(tc_tensor log_probs, tc_tensor target, tc_site site) {
  return classify("nll_loss", false, log_probs, target, 0.0, -100, site);
}
