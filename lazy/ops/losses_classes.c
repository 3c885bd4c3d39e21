// Cross entropy and negative log likelihood, of class indices and of probabilities. Composed at
// node level; values and slopes as in PyTorch (aten/src/ATen/native/LossNLL.cpp). f16 and bf16 are
// computed in f32 and rounded once.
// Threads: thread-compatible, each thread records its own trace.
#define TC_NO_SITES
#include "lazy/record/formula.h"

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

// What cross entropy and nll are asked for.
typedef struct asked {
  bool logits;
  int axis;  // of the classes
  double smoothing;
  int64_t ignore_index;
  tc_node weight;  // [c], f32 at least; TC_NODE_ERR: none
  tc_reduction reduction;
} asked;

// The targets as indices [n, 1, ...], 0 where they do not count. gather takes negative indices from
// the end, but a negative class is a mistake. It is put far away, and the sync reports it as what
// it was (tc_index_text in runtime/status.h). Below -n_classes it is out of range already.
static tc_node class_index(tc_trace *t, tc_node y, tc_node counts, int64_t n_classes) {
  tc_node from_end = tc_rec_binary(t, TC_OP_LOGICAL_AND, f_int(t, TC_OP_LT, y, 0), f_int(t, TC_OP_GE, y, -n_classes));
  tc_node index = tc_rec_where(t, from_end, f_int(t, TC_OP_ADD, y, -TC_INDEX_AWAY), y);
  return y == TC_NODE_ERR ? y : tc_rec_where(t, counts, index, tc_rec_const(t, y, 0.0));
}

// Weights of the classes [c] as [1, c, 1, ...], or [c].
static tc_node weights_along(tc_trace *t, tc_node weight, tc_node lp, int axis) {
  tc_dims d = *tc_node_dims(t, lp);
  for (int i = 0; i < d.rank; i++) d.dim[i] = i == axis ? d.dim[i] : 1;
  return tc_rec_reshape(t, weight, &d);
}

// each [n, 1, ...] without the axis, summed, or by the weights n of all.
static tc_node reduce_rows(tc_trace *t, tc_node each, tc_node n, const asked *q) {
  if (each == TC_NODE_ERR || q->reduction == TC_REDUCE_NONE)
    return each == TC_NODE_ERR ? each : tc_rec_drop_axis(t, each, q->axis);
  tc_node sum = tc_rec_fold(t, TC_OP_SUM, each, f_all_axes(t, each), false);
  return q->reduction == TC_REDUCE_SUM ? sum : f_div(t, sum, n);
}

// -lp[target] of the targets that are not ignored, mixed with the mean of -lp over the classes. The
// mean is by what counts. All ignored: 0 / 0, NaN. log_sum, if it is not TC_NODE_ERR, is still to
// be taken from lp (smoothing is 0 then).
static tc_node nll(tc_trace *t, tc_node lp, tc_node log_sum, tc_node target, const asked *q) {
  if (lp == TC_NODE_ERR) return lp;
  tc_dims d = *tc_node_dims(t, lp);
  int64_t n_classes = d.dim[q->axis];
  d.dim[q->axis] = 1;
  tc_node y = tc_rec_reshape(t, tc_rec_cast(t, target, TC_I64), &d);
  if (y == TC_NODE_ERR) return y;
  tc_node counts = f_int(t, TC_OP_NE, y, q->ignore_index), index = class_index(t, y, counts, n_classes);
  tc_node picked = tc_rec_gather(t, lp, q->axis, index);
  if (log_sum != TC_NODE_ERR) picked = f_sub(t, picked, log_sum);
  picked = f_neg(t, picked);
  tc_node share = tc_rec_cast(t, counts, tc_node_type(t, lp));
  if (q->weight != TC_NODE_ERR) {
    share = f_keep(t, counts, tc_rec_index_select(t, q->weight, 0, index), 0.0);
    picked = f_mul(t, picked, share);
  }
  if (picked == TC_NODE_ERR || share == TC_NODE_ERR) return TC_NODE_ERR;
  tc_node n = tc_rec_fold(t, TC_OP_SUM, share, f_all_axes(t, lp), false);
  tc_node loss = reduce_rows(t, f_keep(t, counts, picked, 0.0), n, q);
  if (q->smoothing == 0.0) return loss;
  if (q->weight != TC_NODE_ERR) lp = f_mul(t, lp, weights_along(t, q->weight, lp, q->axis));
  tc_node spread = f_neg(t, tc_rec_fold(t, TC_OP_SUM, lp, UINT32_C(1) << q->axis, true));
  if (spread == TC_NODE_ERR) return spread;
  spread = reduce_rows(t, f_keep(t, counts, spread, 0.0), n, q);
  return f_add(t, f_num(t, TC_OP_MUL, loss, 1.0 - q->smoothing),
               f_num(t, TC_OP_MUL, spread, q->smoothing / (double)n_classes));
}

// -sum(target * lp) over the classes of each row; the mean is by rows, whatever they weigh.
static tc_node of_probabilities(tc_trace *t, tc_node lp, tc_node target, const asked *q) {
  if (lp == TC_NODE_ERR) return lp;
  double n_classes = (double)tc_node_dims(t, lp)->dim[q->axis];
  if (q->smoothing > 0)
    target = f_num(t, TC_OP_ADD, f_num(t, TC_OP_MUL, target, 1 - q->smoothing), q->smoothing / n_classes);
  tc_node each = f_mul(t, target, lp);
  if (q->weight != TC_NODE_ERR) each = f_mul(t, each, weights_along(t, q->weight, lp, q->axis));
  return tc_compose_reduce(t, f_neg(t, tc_rec_fold(t, TC_OP_SUM, each, UINT32_C(1) << q->axis, false)), q->reduction);
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

// Whether target is the probabilities of the classes.
static bool is_probabilities(const tc_trace *t, tc_node scores, tc_node target) {
  if (scores == TC_NODE_ERR || target == TC_NODE_ERR || !tc_type_is_float(tc_node_type(t, target))) return false;
  const tc_dims *s = tc_node_dims(t, scores), *y = tc_node_dims(t, target);
  bool same = s->rank > 0 && s->rank == y->rank;
  for (int i = 0; same && i < s->rank; i++) same = s->dim[i] == y->dim[i];
  return same;
}

static bool check_asked(tc_trace *t, tc_node scores, const asked *q, bool probabilities) {
  int64_t n_classes = tc_node_dims(t, scores)->dim[q->axis];
  char text[128];
  if (!(q->smoothing >= 0.0 && q->smoothing <= 1.0))
    return tc_rec_fail(t, TC_ERR_ARG, "label smoothing is %g, not within [0, 1]", q->smoothing), false;
  if (q->smoothing > 0 && !q->logits)
    return tc_rec_fail(t, TC_ERR_ARG, "label smoothing is of cross_entropy_loss alone"), false;
  if (q->reduction != TC_REDUCE_MEAN && q->reduction != TC_REDUCE_SUM && q->reduction != TC_REDUCE_NONE)
    return tc_compose_reduce(t, scores, q->reduction) != TC_NODE_ERR;
  if (probabilities && q->ignore_index >= 0)
    return tc_rec_fail(t, TC_ERR_ARG, "ignore_index is %lld, but the target is probabilities and has no indices",
                       (long long)q->ignore_index),
           false;
  if (q->weight == TC_NODE_ERR) return true;
  const tc_dims *w = tc_node_dims(t, q->weight);
  if (w->rank == 1 && w->dim[0] == n_classes) return true;
  tc_rec_fail(t, TC_ERR_SHAPE, "weight is %s, [%lld] is needed: one for each class", tc_dims_text(w, text, sizeof text),
              (long long)n_classes);
  return false;
}

static tc_tensor classify(const char *name, bool logits, tc_tensor x, tc_tensor target, tc_cross_entropy_options o,
                          tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  tc_node a = tc_op_in(t, x), y = tc_op_in(t, target), w = f_given(o.weight) ? tc_op_in(t, o.weight) : TC_NODE_ERR;
  if (f_given(o.weight) && w == TC_NODE_ERR) return tc_op_end(t, w);
  bool probabilities = logits && is_probabilities(t, a, y);
  asked q = {.logits = logits, .smoothing = tc_option(o.label_smoothing, 0), .reduction = o.reduction};
  q.axis = probabilities ? tc_node_dims(t, a)->rank > 1 : class_axis(t, a, y);
  if (q.axis < 0) return tc_op_end(t, TC_NODE_ERR);
  q.ignore_index = o.ignore_index == 0 ? -100 : o.ignore_index == TC_ZERO_INT ? 0 : o.ignore_index;
  tc_type type = f_type(t, a);
  tc_node lp = f_widen(t, a), log_sum = TC_NODE_ERR;
  q.weight = w == TC_NODE_ERR ? w : tc_rec_cast(t, w, tc_node_type(t, lp));
  if (!check_asked(t, a, &q, probabilities)) return tc_op_end(t, TC_NODE_ERR);
  if (logits && q.smoothing == 0.0 && !probabilities && tc_node_dims(t, a)->dim[q.axis] > 0)
    lp = shifted_scores(t, lp, q.axis, &log_sum);
  else if (logits)
    lp = tc_rec_softmax(t, TC_OP_LOG_SOFTMAX, lp, q.axis);
  tc_node out = probabilities ? of_probabilities(t, lp, f_widen(t, y), &q) : nll(t, lp, log_sum, y, &q);
  return tc_op_end(t, f_narrow(t, out, type));
}

tc_tensor tc_cross_entropy_at(tc_tensor logits, tc_tensor target, tc_site site) {
  return classify("cross_entropy", true, logits, target, (tc_cross_entropy_options){0}, site);
}

tc_tensor tc_cross_entropy_with_at(tc_tensor logits, tc_tensor target, double label_smoothing, int64_t ignore_index,
                                   tc_site site) {
  tc_cross_entropy_options o = {.label_smoothing = label_smoothing,
                                .ignore_index = ignore_index ? ignore_index : TC_ZERO_INT};
  return classify("cross_entropy_with", true, logits, target, o, site);
}

tc_tensor tc_cross_entropy_loss_at(tc_tensor logits, tc_tensor target, tc_cross_entropy_options o, tc_site site) {
  return classify("cross_entropy_loss", true, logits, target, o, site);
}

tc_tensor tc_nll_loss_at(tc_tensor log_probs, tc_tensor target, tc_site site) {
  return classify("nll_loss", false, log_probs, target, (tc_cross_entropy_options){0}, site);
}

tc_tensor tc_nll_loss_with_at(tc_tensor log_probs, tc_tensor target, tc_cross_entropy_options o, tc_site site) {
  return classify("nll_loss_with", false, log_probs, target, o, site);
}
