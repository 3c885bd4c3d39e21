// Normalisation: each value less a mean, over a standard deviation, times a weight, plus a bias;
// the norms differ in what the mean is over. Two passes, in f32 where the operand is narrower,
// rounded once; values as in PyTorch (aten/src/ATen/native/Normalization.cpp).
// Invariants: batch statistics are folded in channels-last order, so that they do not depend on how
// results lie in memory.
// Threads: thread-compatible, each thread records its own trace.
#define TC_NO_SITES
#include "lazy/record/formula.h"

#include <math.h>

// An operand of n elements as [n, 1, ..] with `after` axes of one; TC_NODE_ERR if it is left out.
// False after reporting.
static bool vector_in(tc_trace *t, tc_tensor x, const char *name, int64_t n, int after, tc_node *out) {
  *out = TC_NODE_ERR;
  if (!f_given(x)) return true;
  tc_node a = tc_op_in(t, x);
  if (a == TC_NODE_ERR) return false;
  tc_dims d = *tc_node_dims(t, a);
  char have[128];
  if (d.rank != 1 || d.dim[0] != n)
    return tc_rec_fail(t, TC_ERR_SHAPE, "%s is %s, x has %lld to go with it", name, tc_dims_text(&d, have, sizeof have),
                       (long long)n),
           false;
  for (int i = 0; i < after; i++) d.dim[d.rank++] = 1;
  return (*out = tc_rec_reshape(t, f_widen(t, a), &d)) != TC_NODE_ERR;
}

// What a norm reads and the type of its result: x widened, of at least `rank` axes; false after
// reporting.
static bool norm_in(tc_trace *t, tc_tensor x, int rank, tc_node *out, tc_type *out_type, tc_dims *out_dims) {
  tc_node a = tc_op_in(t, x);
  *out_type = f_type(t, a);
  *out = f_widen(t, a);
  if (*out == TC_NODE_ERR) return false;
  *out_dims = *tc_node_dims(t, *out);
  if (out_dims->rank < rank)
    return tc_rec_fail(t, TC_ERR_SHAPE, "x has rank %d, at least %d is needed", out_dims->rank, rank), false;
  return true;
}

static tc_node affine(tc_trace *t, tc_node y, tc_node weight, tc_node bias) {
  if (weight != TC_NODE_ERR) y = f_mul(t, y, weight);
  return bias == TC_NODE_ERR ? y : f_add(t, y, bias);
}

static tc_tensor norm_end(tc_trace *t, tc_node y, tc_node weight, tc_node bias, tc_type type) {
  return tc_op_end(t, f_narrow(t, affine(t, y, weight, bias), type));
}

static tc_node scaled(tc_trace *t, tc_node centred, tc_node var, double eps) {
  return f_mul(t, centred, tc_rec_unary(t, TC_OP_RSQRT, f_num(t, TC_OP_ADD, var, eps)));
}

// Normalises a over its last axis.
static tc_node normalised(tc_trace *t, tc_node a, double eps) {
  if (a == TC_NODE_ERR) return a;
  uint32_t last = UINT32_C(1) << (tc_node_dims(t, a)->rank - 1);
  tc_moments m = tc_compose_moments(t, a, last);
  return scaled(t, m.centred, f_num(t, TC_OP_DIV, m.squares, tc_compose_count(t, a, last)), eps);
}

tc_tensor tc_layer_norm_at(tc_tensor x, tc_tensor weight, tc_tensor bias, double eps, tc_site site) {
  tc_trace *t = tc_op_begin("layer_norm", site);
  tc_node a, w, b;
  tc_type type;
  tc_dims d;
  if (!norm_in(t, x, 1, &a, &type, &d)) return tc_op_end(t, TC_NODE_ERR);
  int64_t n = d.dim[d.rank - 1];
  if (!vector_in(t, weight, "weight", n, 0, &w) || !vector_in(t, bias, "bias", n, 0, &b))
    return tc_op_end(t, TC_NODE_ERR);
  return norm_end(t, normalised(t, a, eps), w, b, type);
}

tc_tensor tc_rms_norm_at(tc_tensor x, tc_tensor weight, double eps, tc_site site) {
  tc_trace *t = tc_op_begin("rms_norm", site);
  tc_node a, w;
  tc_type type;
  tc_dims d;
  if (!norm_in(t, x, 1, &a, &type, &d) || !vector_in(t, weight, "weight", d.dim[d.rank - 1], 0, &w))
    return tc_op_end(t, TC_NODE_ERR);
  tc_node mean = tc_compose_mean(t, tc_rec_unary(t, TC_OP_SQUARE, a), UINT32_C(1) << (d.rank - 1), true);
  return norm_end(t, scaled(t, a, mean, eps), w, TC_NODE_ERR, type);
}

// Normalises a over the channels of each group and all positions: the last axis of
// [n, groups, rest].
static tc_node grouped(tc_trace *t, tc_node a, const tc_dims *d, int64_t groups, double eps) {
  int64_t rest = d->dim[1] / groups;
  for (int i = 2; i < d->rank; i++) rest *= d->dim[i];
  tc_dims rows = TC_SHAPE(d->dim[0], groups, rest);
  return tc_rec_reshape(t, normalised(t, tc_rec_reshape(t, a, &rows), eps), d);
}

// groups: NULL for one a channel.
static tc_tensor norm_of_groups(const char *name, tc_tensor x, const int64_t *groups, tc_tensor weight, tc_tensor bias,
                                double eps, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  tc_node a, w, b;
  tc_type type;
  tc_dims d;
  if (!norm_in(t, x, groups ? 2 : 3, &a, &type, &d)) return tc_op_end(t, TC_NODE_ERR);
  int64_t n = groups ? *groups : TC_MAX_OF(d.dim[1], 1);
  if (n < 1 || d.dim[1] % n)
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "%lld channels cannot be cut into %lld groups", (long long)d.dim[1],
                                    (long long)n));
  if (!vector_in(t, weight, "weight", d.dim[1], d.rank - 2, &w) ||
      !vector_in(t, bias, "bias", d.dim[1], d.rank - 2, &b))
    return tc_op_end(t, TC_NODE_ERR);
  return norm_end(t, grouped(t, a, &d, n, eps), w, b, type);
}

tc_tensor tc_group_norm_at(tc_tensor x, int64_t groups, tc_tensor weight, tc_tensor bias, double eps, tc_site site) {
  return norm_of_groups("group_norm", x, &groups, weight, bias, eps, site);
}

tc_tensor tc_instance_norm_at(tc_tensor x, tc_tensor weight, tc_tensor bias, double eps, tc_site site) {
  return norm_of_groups("instance_norm", x, NULL, weight, bias, eps, site);
}

// running = (1 - momentum) * running + momentum * value, without history.
static void update(tc_trace *t, tc_tensor handle, tc_node running, tc_node value, double momentum) {
  if (running == TC_NODE_ERR || value == TC_NODE_ERR) return;
  tc_dims flat = TC_SHAPE(tc_dims_count(tc_node_dims(t, running)));
  bool tape = tc_rec_tape(t, false);
  tc_node old = f_num(t, TC_OP_MUL, tc_rec_reshape(t, running, &flat), 1.0 - momentum);
  tc_node next = f_add(t, old, f_num(t, TC_OP_MUL, tc_rec_reshape(t, value, &flat), momentum));
  (void)tc_rec_assign(t, handle, tc_rec_cast(t, next, tc_node_type(t, tc_op_in(t, handle))));
  tc_rec_tape(t, tape);
}

// [n, c, ..] as [n * positions, c] and back: images that come from convolutions lie so in memory.
// Sums over a batch, and those of the gradient, then read it in order.
static tc_node rows_of(tc_trace *t, tc_node a, int64_t rows, int64_t channels) {
  tc_dims flat = TC_SHAPE(rows, channels);
  return tc_rec_reshape(t, tc_compose_channels_last(t, a), &flat);
}

static tc_node from_rows(tc_trace *t, tc_node a, const tc_dims *d) {
  tc_dims last = *d;
  for (int i = 1; i < d->rank; i++) last.dim[i] = d->dim[i + 1 < d->rank ? i + 1 : 1];
  return tc_compose_channels_first(t, tc_rec_reshape(t, a, &last));
}

tc_tensor tc_batch_norm_at(tc_tensor x, tc_tensor running_mean, tc_tensor running_var, tc_tensor weight, tc_tensor bias,
                           tc_batch_norm_options options, tc_site site) {
  tc_trace *t = tc_op_begin("batch_norm", site);
  tc_node a, w, b, mean, var;
  tc_type type;
  tc_dims d;
  options.momentum = tc_option(options.momentum, 0.1), options.eps = tc_option(options.eps, 1e-5);
  if (!norm_in(t, x, 2, &a, &type, &d)) return tc_op_end(t, TC_NODE_ERR);
  int64_t n = d.dim[1], rows = n ? tc_dims_count(&d) / n : 0;
  int after = options.training ? 0 : d.rank - 2;  // training works on rows of channels
  if (!vector_in(t, weight, "weight", n, after, &w) || !vector_in(t, bias, "bias", n, after, &b) ||
      !vector_in(t, running_mean, "running_mean", n, after, &mean) ||
      !vector_in(t, running_var, "running_var", n, after, &var))
    return tc_op_end(t, TC_NODE_ERR);
  if (!options.training) {
    if (mean == TC_NODE_ERR || var == TC_NODE_ERR)
      return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "running_mean and running_var are needed unless training"));
    return norm_end(t, scaled(t, f_sub(t, a, mean), var, options.eps), w, b, type);
  }
  tc_node old_mean = mean, old_var = var;
  char text[128];
  if (rows == 1)
    return tc_op_end(t,
                     tc_rec_fail(t, TC_ERR_SHAPE, "x is %s; one value for each channel has no variance to train with",
                                 tc_dims_text(&d, text, sizeof text)));
  a = rows_of(t, a, rows, n);
  tc_moments m = tc_compose_moments(t, a, 1);  // over the rows, [1, c]
  var = f_num(t, TC_OP_DIV, m.squares, (double)rows);
  if (rows > 0) {  // an empty batch says nothing
    update(t, running_mean, old_mean, m.mean, options.momentum);
    update(t, running_var, old_var, f_num(t, TC_OP_MUL, var, (double)rows / (double)(rows - 1)), options.momentum);
  }
  tc_node y = affine(t, scaled(t, m.centred, var, options.eps), w, b);
  return tc_op_end(t, f_narrow(t, from_rows(t, y, &d), type));
}
