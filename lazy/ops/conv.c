// Convolution and its transpose: shapes and checks; the rest is rows of the op table.
//
// x [n, c, h, w] is seen with channels last, and so is the result. Those moves are records of their
// own, which lowering leaves out between two convolutions. A transposed convolution is the
// gradient of one by its image.
// Source: aten/src/ATen/native/Convolution.cpp for shapes and checks.
// Threads: thread-compatible, each thread records its own trace.
#define TC_NO_SITES
#include "lazy/record/formula.h"

#define MAX_SPATIAL 3

typedef struct conv {
  int n;  // spatial axes
  int64_t stride[MAX_SPATIAL], padding[MAX_SPATIAL], dilation[MAX_SPATIAL], extra[MAX_SPATIAL], groups;
  int64_t outputs;
  bool lone;  // x has no batch axis
  tc_node x, weight, bias;  // x with a batch axis; bias TC_NODE_ERR if there is none
  tc_dims dx, dw;
} conv;

bool tc_compose_list(tc_trace *t, const char *name, const tc_dims *list, int n, int64_t none, int64_t least,
                     int64_t *out) {
  if (list->rank != 0 && list->rank != 1 && list->rank != n)
    return tc_rec_fail(t, TC_ERR_ARG,
                       n == 1 ? "%s has %d numbers; %d is needed" : "%s has %d numbers; 1 or %d are needed", name,
                       list->rank, n),
           false;
  for (int i = 0; i < n; i++) {
    out[i] = list->rank == 0 ? none : list->dim[list->rank == 1 ? 0 : i];
    if (out[i] < least)
      return tc_rec_fail(t, TC_ERR_ARG, "%s is %lld; at least %lld is needed", name, (long long)out[i],
                         (long long)least),
             false;
    if (out[i] > INT32_MAX)
      return tc_rec_fail(t, TC_ERR_ARG, "%s is %lld; at most %d is possible", name, (long long)out[i], INT32_MAX),
             false;
  }
  return true;
}

tc_node tc_compose_channels_last(tc_trace *t, tc_node a) {
  if (a == TC_NODE_ERR) return a;
  tc_dims axes = {.rank = tc_node_dims(t, a)->rank};
  for (int i = 1; i < axes.rank; i++) axes.dim[i] = i + 1 < axes.rank ? i + 1 : 1;
  return tc_rec_permute(t, a, &axes);
}

tc_node tc_compose_channels_first(tc_trace *t, tc_node a) {
  if (a == TC_NODE_ERR) return a;
  tc_dims axes = {.rank = tc_node_dims(t, a)->rank};
  for (int i = 1; i < axes.rank; i++) axes.dim[i] = i == 1 ? axes.rank - 1 : i - 1;
  return tc_rec_permute(t, a, &axes);
}

// The operands and whether they fit; false after reporting.
static bool operands_in(tc_trace *t, conv *c, tc_tensor x, tc_tensor weight, tc_tensor bias, bool transposed) {
  tc_node a = tc_op_in(t, x);
  c->weight = tc_op_in(t, weight), c->bias = f_given(bias) ? tc_op_in(t, bias) : TC_NODE_ERR;
  if (a == TC_NODE_ERR || c->weight == TC_NODE_ERR || (f_given(bias) && c->bias == TC_NODE_ERR)) return false;
  c->dx = *tc_node_dims(t, a), c->dw = *tc_node_dims(t, c->weight);
  char tx[128], tw[128];
  c->lone = c->dx.rank == c->n + 1;
  bool fits = (c->lone || c->dx.rank == c->n + 2) && c->dw.rank == c->n + 2;
  int64_t channels = fits ? c->dx.dim[!c->lone] : 0, of_groups = 0;
  if (fits) fits = !__builtin_mul_overflow(c->dw.dim[1], c->groups, &of_groups);
  if (fits) fits = transposed ? c->dw.dim[0] == channels && channels % c->groups == 0 : of_groups == channels;
  if (fits && !transposed) fits = c->dw.dim[0] % c->groups == 0;
  if (!fits)
    return tc_rec_fail(
               t, TC_ERR_SHAPE,
               "x %s does not fit weight %s in %lld groups; [n, in, ...] and %s are needed, with %d axes after them",
               tc_dims_text(&c->dx, tx, sizeof tx), tc_dims_text(&c->dw, tw, sizeof tw), (long long)c->groups,
               transposed ? "[in, out / groups, ...]" : "[out, in / groups, ...]", c->n),
           false;
  for (int i = 0; i < c->n; i++) {
    int64_t h = c->dx.dim[!c->lone + 1 + i], r = c->dw.dim[2 + i];
    if (h > INT32_MAX || r > INT32_MAX)
      return tc_rec_fail(t, TC_ERR_SHAPE, "extents %lld and %lld; at most %d is possible", (long long)h, (long long)r,
                         INT32_MAX),
             false;
  }
  c->outputs = transposed ? of_groups : c->dw.dim[0];
  const tc_dims *db = c->bias == TC_NODE_ERR ? NULL : tc_node_dims(t, c->bias);
  if (db && (db->rank != 1 || db->dim[0] != c->outputs))
    return tc_rec_fail(t, TC_ERR_SHAPE, "bias is %s, weight has %lld outputs", tc_dims_text(db, tx, sizeof tx),
                       (long long)c->outputs),
           false;
  if (c->lone) {
    for (int i = c->dx.rank++; i > 0; i--) c->dx.dim[i] = c->dx.dim[i - 1];
    c->dx.dim[0] = 1;
    a = tc_rec_reshape(t, a, &c->dx);
  }
  return (c->x = a) != TC_NODE_ERR;
}

static bool open_conv(tc_trace *t, conv *c, int n, const tc_conv_options *o) {
  *c = (conv){.n = n, .groups = o->groups ? o->groups : 1};
  if (c->groups < 1)
    return tc_rec_fail(t, TC_ERR_ARG, "groups is %lld; at least 1 is needed", (long long)c->groups), false;
  return tc_compose_list(t, "stride", &o->stride, n, 1, 1, c->stride) &&
         tc_compose_list(t, "padding", &o->padding, n, 0, 0, c->padding) &&
         tc_compose_list(t, "dilation", &o->dilation, n, 1, 1, c->dilation) &&
         tc_compose_list(t, "output_padding", &o->output_padding, n, 0, 0, c->extra);
}

// The record, and what follows it. out: the result's spatial extents, behind its batch axis.
static tc_node record(tc_trace *t, const conv *c, tc_op op, tc_dims *out) {
  uint64_t attr[2 * MAX_SPATIAL + 1];
  for (int i = 0; i < c->n; i++) {
    attr[i] = (uint64_t)c->stride[i] | (uint64_t)c->dilation[i] << 32;
    attr[c->n + i] = (uint64_t)c->padding[i] | (uint64_t)c->padding[i] << 32;
  }
  attr[2 * c->n] = (uint64_t)c->groups;
  out->rank = c->n + 2, out->dim[0] = c->dx.dim[0], out->dim[c->n + 1] = c->outputs;
  tc_node x = tc_compose_channels_last(t, c->x), y;
  if (c->bias == TC_NODE_ERR)
    y = tc_rec_conv(t, op, x, c->weight, 2 * c->n + 1, attr, out);
  else
    y = tc_rec_biased_conv(t, op, x, c->weight, c->bias, 2 * c->n + 1, attr, out);
  y = tc_compose_channels_first(t, y);
  return c->lone ? tc_rec_drop_axis(t, y, 0) : y;  // x had no batch axis
}

static tc_tensor convolve(const char *name, int n, tc_tensor x, tc_tensor weight, tc_tensor bias,
                          const tc_conv_options *options, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  conv c;
  tc_dims out;
  if (!open_conv(t, &c, n, options) || !operands_in(t, &c, x, weight, bias, false)) return tc_op_end(t, TC_NODE_ERR);
  for (int i = 0; i < n; i++) {
    int64_t reach, size = c.dw.dim[2 + i], padded = c.dx.dim[2 + i] + 2 * c.padding[i];
    if (c.extra[i]) return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "output_padding is for transposed convolution"));
    if (size < 1 || __builtin_mul_overflow(c.dilation[i], size - 1, &reach) || reach >= padded)
      return tc_op_end(
          t, tc_rec_fail(t, TC_ERR_SHAPE, "a window of size %lld and dilation %lld does not fit an extent of %lld",
                         (long long)size, (long long)c.dilation[i], (long long)padded));
    out.dim[1 + i] = (padded - reach - 1) / c.stride[i] + 1;
  }
  return tc_op_end(t, record(t, &c, TC_OP_CONV, &out));
}

static tc_tensor convolve_transposed(const char *name, int n, tc_tensor x, tc_tensor weight, tc_tensor bias,
                                     const tc_conv_options *options, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  conv c;
  tc_dims out;
  if (!open_conv(t, &c, n, options) || !operands_in(t, &c, x, weight, bias, true)) return tc_op_end(t, TC_NODE_ERR);
  for (int i = 0; i < n; i++) {
    if (c.extra[i] >= TC_MAX_OF(c.stride[i], c.dilation[i]))
      return tc_op_end(
          t, tc_rec_fail(t, TC_ERR_ARG,
                         "output_padding is %lld; it must be less than the stride, %lld, or the dilation, %lld",
                         (long long)c.extra[i], (long long)c.stride[i], (long long)c.dilation[i]));
    int64_t extent = c.dx.dim[2 + i], size = c.dw.dim[2 + i],
            length = (extent - 1) * c.stride[i] + c.dilation[i] * (size - 1) + 1 + c.extra[i];
    if (extent < 1 || size < 1)
      return tc_op_end(t,
                       tc_rec_fail(t, TC_ERR_SHAPE, "a window of size %lld and an extent of %lld; at least 1 is needed",
                                   (long long)size, (long long)extent));
    if (length <= 2 * c.padding[i])
      return tc_op_end(t, tc_rec_fail(t, TC_ERR_SHAPE, "padding %lld leaves nothing of %lld elements",
                                      (long long)c.padding[i], (long long)length));
    out.dim[1 + i] = length - 2 * c.padding[i];
  }
  return tc_op_end(t, record(t, &c, TC_OP_CONV_INPUT, &out));
}

tc_tensor tc_conv1d_at(tc_tensor x, tc_tensor weight, tc_tensor bias, tc_conv_options options, tc_site site) {
  return convolve("conv1d", 1, x, weight, bias, &options, site);
}

tc_tensor tc_conv2d_at(tc_tensor x, tc_tensor weight, tc_tensor bias, tc_conv_options options, tc_site site) {
  return convolve("conv2d", 2, x, weight, bias, &options, site);
}

tc_tensor tc_conv3d_at(tc_tensor x, tc_tensor weight, tc_tensor bias, tc_conv_options options, tc_site site) {
  return convolve("conv3d", 3, x, weight, bias, &options, site);
}

tc_tensor tc_conv_transpose1d_at(tc_tensor x, tc_tensor weight, tc_tensor bias, tc_conv_options options, tc_site site) {
  return convolve_transposed("conv_transpose1d", 1, x, weight, bias, &options, site);
}

tc_tensor tc_conv_transpose2d_at(tc_tensor x, tc_tensor weight, tc_tensor bias, tc_conv_options options, tc_site site) {
  return convolve_transposed("conv_transpose2d", 2, x, weight, bias, &options, site);
}

tc_tensor tc_conv_transpose3d_at(tc_tensor x, tc_tensor weight, tc_tensor bias, tc_conv_options options, tc_site site) {
  return convolve_transposed("conv_transpose3d", 3, x, weight, bias, &options, site);
}
