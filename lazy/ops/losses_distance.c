// Losses of angles and distances between vectors. Composed at node level; values and slopes as in
// PyTorch (aten/src/ATen/native/Loss.cpp, Distance.cpp). f16 and bf16 are computed in f32 and
// rounded once.
// Threads: thread-compatible, each thread records its own trace.
#define TC_NO_SITES
#include "lazy/record/formula.h"

#include <math.h>

// The 2-norm along axes, kept; at least eps, with the slope of what it is at least.
static tc_node length_of(tc_trace *t, tc_node a, uint32_t mask, double eps) {
  tc_node n = tc_compose_root(t, tc_rec_fold(t, TC_OP_SUM, tc_rec_unary(t, TC_OP_SQUARE, a), mask, true), 0.5);
  tc_node fixed = tc_rec_detach(t, n);
  return f_add(t, n, f_sub(t, f_num(t, TC_OP_MAXIMUM, fixed, eps), fixed));
}

tc_tensor tc_cosine_similarity_at(tc_tensor x, tc_tensor y, int axis, double eps, tc_site site) {
  tc_trace *t = tc_op_begin("cosine_similarity", site);
  tc_node a = tc_op_in(t, x), b = tc_op_in(t, y);
  tc_type type = tc_compose_loss_type(t, a, b);
  a = f_widen(t, a), b = f_widen(t, b);
  if (a == TC_NODE_ERR || b == TC_NODE_ERR) return tc_op_end(t, TC_NODE_ERR);
  if (!(eps >= 0)) return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "eps is %g, not a number from 0 on", eps));
  tc_node both = f_add(t, tc_rec_detach(t, a), tc_rec_detach(t, b));  // of the common shape, or reports
  if (both == TC_NODE_ERR || (axis = tc_rec_axis(t, both, axis, 0)) < 0) return tc_op_end(t, TC_NODE_ERR);
  tc_dims d = *tc_node_dims(t, both);
  uint32_t mask = d.rank ? UINT32_C(1) << axis : 0;
  a = tc_rec_expand(t, a, &d), b = tc_rec_expand(t, b, &d);
  tc_node unit = f_mul(t, f_div(t, a, length_of(t, a, mask, eps)), f_div(t, b, length_of(t, b, mask, eps)));
  return tc_op_end(t, f_narrow(t, tc_rec_fold(t, TC_OP_SUM, unit, mask, false), type));
}

// ---- Cosine embedding ----

static bool check_pairs(tc_trace *t, tc_node a, tc_node b, tc_node y) {
  if (a == TC_NODE_ERR || b == TC_NODE_ERR || y == TC_NODE_ERR) return false;
  const tc_dims *da = tc_node_dims(t, a), *db = tc_node_dims(t, b), *dy = tc_node_dims(t, y);
  bool fits = (da->rank == 1 || da->rank == 2) && db->rank == da->rank && dy->rank == da->rank - 1;
  for (int i = 0; fits && i < da->rank; i++)
    fits = da->dim[i] == db->dim[i] && (i > 0 || !dy->rank || dy->dim[0] == da->dim[0]);
  char text[3][128];
  if (!fits)
    tc_rec_fail(t, TC_ERR_SHAPE,
                "a %s, b %s and y %s do not fit; [n, d], [n, d] and [n], or [d], [d] and [] are needed",
                tc_dims_text(da, text[0], 128), tc_dims_text(db, text[1], 128), tc_dims_text(dy, text[2], 128));
  return fits;
}

static tc_node sum_last(tc_trace *t, tc_node a) {
  return a == TC_NODE_ERR ? a : tc_rec_fold(t, TC_OP_SUM, a, UINT32_C(1) << (tc_node_dims(t, a)->rank - 1), false);
}

// max(a, 0), with slope 1 at 0 as PyTorch's clamp.
static tc_node clamp_at_zero(tc_trace *t, tc_node a) {
  return a == TC_NODE_ERR ? a : f_fill(t, f_num(t, TC_OP_LT, a, 0.0), 0.0, a);
}

tc_tensor tc_cosine_embedding_loss_at(tc_tensor x1, tc_tensor x2, tc_tensor target, tc_margin_options o, tc_site site) {
  tc_trace *t = tc_op_begin("cosine_embedding_loss", site);
  tc_node a = tc_op_in(t, x1), b = tc_op_in(t, x2), y = tc_op_in(t, target);
  tc_type type = tc_compose_loss_type(t, a, b);
  if (!check_pairs(t, a, b, y)) return tc_op_end(t, TC_NODE_ERR);
  a = f_widen(t, a), b = f_widen(t, b);
  tc_node square_a = f_num(t, TC_OP_ADD, sum_last(t, tc_rec_unary(t, TC_OP_SQUARE, a)), 1e-12);
  tc_node square_b = f_num(t, TC_OP_ADD, sum_last(t, tc_rec_unary(t, TC_OP_SQUARE, b)), 1e-12);
  tc_node cos = f_div(t, sum_last(t, f_mul(t, a, b)), tc_rec_unary(t, TC_OP_SQRT, f_mul(t, square_a, square_b)));
  if (cos == TC_NODE_ERR) return tc_op_end(t, cos);
  tc_node same = tc_rec_num_first(t, TC_OP_SUB, tc_num_float(1), cos);
  tc_node other = clamp_at_zero(t, f_num(t, TC_OP_SUB, cos, tc_option(o.margin, 0)));
  tc_node each =
      f_add(t, f_keep(t, f_num(t, TC_OP_EQ, y, 1), same, 0.0), f_keep(t, f_num(t, TC_OP_EQ, y, -1), other, 0.0));
  return tc_op_end(t, f_narrow(t, tc_compose_reduce(t, each, o.reduction), type));
}

// ---- Triplets ----

// The p-norm of a - b + eps along the last axis (torch.pairwise_distance).
static tc_node distance(tc_trace *t, tc_node a, tc_node b, double p, double eps) {
  tc_node d = f_num(t, TC_OP_ADD, f_sub(t, a, b), eps);
  if (d == TC_NODE_ERR) return d;
  uint32_t last = UINT32_C(1) << (tc_node_dims(t, d)->rank - 1);
  if (p == 2) return tc_compose_root(t, sum_last(t, tc_rec_unary(t, TC_OP_SQUARE, d)), 0.5);
  tc_node size = tc_rec_unary(t, TC_OP_ABS, d);
  if (isinf(p)) return tc_rec_fold(t, TC_OP_MAX, size, last, false);
  if (p == 1) return sum_last(t, size);
  return tc_compose_root(t, sum_last(t, tc_compose_root(t, size, p)), 1 / p);
}

tc_tensor tc_triplet_margin_loss_at(tc_tensor anchor, tc_tensor positive, tc_tensor negative, tc_margin_options o,
                                    tc_site site) {
  tc_trace *t = tc_op_begin("triplet_margin_loss", site);
  tc_node a = tc_op_in(t, anchor), b = tc_op_in(t, positive), c = tc_op_in(t, negative);
  double margin = tc_option(o.margin, 1), p = tc_option(o.p, 2), eps = tc_option(o.eps, 1e-6);
  tc_type type = tc_compose_loss_type(t, a, b);
  a = f_widen(t, a), b = f_widen(t, b), c = f_widen(t, c);
  if (a == TC_NODE_ERR || b == TC_NODE_ERR || c == TC_NODE_ERR) return tc_op_end(t, TC_NODE_ERR);
  if (!(margin > 0) || !(p > 0) || !(eps >= 0))
    return tc_op_end(
        t, tc_rec_fail(t, TC_ERR_ARG, "margin is %g, p %g, eps %g; margin and p must be above 0", margin, p, eps));
  int rank = tc_node_dims(t, a)->rank;
  if (rank == 0 || rank != tc_node_dims(t, b)->rank || rank != tc_node_dims(t, c)->rank)
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_SHAPE, "anchor has %d axes, positive %d, negative %d; as many are needed",
                                    rank, tc_node_dims(t, b)->rank, tc_node_dims(t, c)->rank));
  tc_node near = distance(t, a, b, p, eps), far = distance(t, a, c, p, eps);
  if (o.swap) far = tc_rec_binary(t, TC_OP_MINIMUM, far, distance(t, b, c, p, eps));
  tc_node each = clamp_at_zero(t, f_sub(t, f_num(t, TC_OP_ADD, near, margin), far));
  return tc_op_end(t, f_narrow(t, tc_compose_reduce(t, each, o.reduction), type));
}
