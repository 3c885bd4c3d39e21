// Convolution and its transpose, as matrix products over windows of the image with channels last.
//
// Idea: x [n, c, h, w] is permuted and padded to [n, h, w, c]; a window for each spatial axis gives [n, p, q, c, r, s], which seen as rows [n p q] by
// columns [r s c] is the left factor of a product with the weight. All of that is movement, so it need not exist in memory. The transpose goes the
// other way: the product makes windows, and overlapping sums put them where they came from. Gradients are those of the records.
// Always: products and biases are in channels-last order, whatever order results are wanted in; groups are a batch of products. Where each channel has
// its own weights there is nothing to multiply as matrices: windows times weights are summed.
// Source: aten/src/ATen/native/Convolution.cpp for shapes and checks.
// Threads: thread-compatible, each thread records its own trace.
#define TC_NO_SITES
#include "lazy/dims.h"
#include "lazy/formula.h"

#define MAX_SPATIAL 3

typedef struct conv {
  int n;  // spatial axes
  int64_t stride[MAX_SPATIAL], padding[MAX_SPATIAL], dilation[MAX_SPATIAL], extra[MAX_SPATIAL], groups;
  int64_t outputs, taps;
  bool lone;  // x has no batch axis
  tc_node x, weight, bias;  // x with a batch axis; bias TC_NODE_ERR if there is none
  tc_dims dx, dw;
} conv;

bool tc_compose_list(tc_trace *t, const char *name, const tc_dims *list, int n, int64_t none, int64_t least, int64_t *out) {
  if (list->rank != 0 && list->rank != 1 && list->rank != n)
    return tc_rec_fail(t, TC_ERR_ARG, "%s has %d numbers; 1 or %d are needed", name, list->rank, n), false;
  for (int i = 0; i < n; i++) {
    out[i] = list->rank == 0 ? none : list->dim[list->rank == 1 ? 0 : i];
    if (out[i] < least || out[i] > INT32_MAX)
      return tc_rec_fail(t, TC_ERR_ARG, "%s is %lld; at least %lld is needed", name, (long long)out[i], (long long)least), false;
  }
  return true;
}

tc_node tc_compose_channels_last(tc_trace *t, tc_node a) {
  if (a == TC_NODE_ERR) return a;
  tc_dims axes = {.rank = tc_node_dims(t, a)->rank};
  for (int i = 1; i < axes.rank; i++) axes.dim[i] = i + 1 < axes.rank ? i + 1 : 1;
  return tc_rec_permute(t, a, &axes);
}

// The way back, without the batch axis if x had none.
static tc_node channels_first(tc_trace *t, tc_node a, bool lone) {
  if (a == TC_NODE_ERR) return a;
  tc_dims axes = {.rank = tc_node_dims(t, a)->rank}, d;
  for (int i = 1; i < axes.rank; i++) axes.dim[i] = i == 1 ? axes.rank - 1 : i - 1;
  a = tc_rec_permute(t, a, &axes);
  if (!lone || a == TC_NODE_ERR) return a;
  d = *tc_node_dims(t, a);
  d.rank--;
  for (int i = 0; i < d.rank; i++) d.dim[i] = d.dim[i + 1];
  return tc_rec_reshape(t, a, &d);
}

static tc_node reshape(tc_trace *t, tc_node a, tc_dims d) {
  return tc_rec_reshape(t, a, &d);
}
static tc_node permute(tc_trace *t, tc_node a, tc_dims axes) {
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
  int64_t channels = fits ? c->dx.dim[!c->lone] : 0;
  if (fits) fits = transposed ? c->dw.dim[0] == channels && channels % c->groups == 0 : c->dw.dim[1] * c->groups == channels;
  if (fits && !transposed) fits = c->dw.dim[0] % c->groups == 0;
  if (!fits)
    return tc_rec_fail(t, TC_ERR_SHAPE, "x %s does not fit weight %s in %lld groups; [n, in, ...] and %s are needed, with %d axes after them",
                       tc_dims_text(&c->dx, tx, sizeof tx), tc_dims_text(&c->dw, tw, sizeof tw), (long long)c->groups,
                       transposed ? "[in, out / groups, ...]" : "[out, in / groups, ...]", c->n),
           false;
  c->outputs = transposed ? c->dw.dim[1] * c->groups : c->dw.dim[0], c->taps = 1;
  for (int i = 0; i < c->n; i++) c->taps *= c->dw.dim[2 + i];
  const tc_dims *db = c->bias == TC_NODE_ERR ? NULL : tc_node_dims(t, c->bias);
  if (db && (db->rank != 1 || db->dim[0] != c->outputs))
    return tc_rec_fail(t, TC_ERR_SHAPE, "bias is %s, weight has %lld outputs", tc_dims_text(db, tx, sizeof tx), (long long)c->outputs), false;
  if (c->lone) {
    for (int i = c->dx.rank++; i > 0; i--) c->dx.dim[i] = c->dx.dim[i - 1];
    c->dx.dim[0] = 1;
    a = tc_rec_reshape(t, a, &c->dx);
  }
  return (c->x = a) != TC_NODE_ERR;
}

static bool open(tc_trace *t, conv *c, int n, const tc_conv_options *o) {
  *c = (conv){.n = n, .groups = o->groups ? o->groups : 1};
  if (c->groups < 1) return tc_rec_fail(t, TC_ERR_ARG, "groups is %lld", (long long)c->groups), false;
  return tc_compose_list(t, "stride", &o->stride, n, 1, 1, c->stride) && tc_compose_list(t, "padding", &o->padding, n, 0, 0, c->padding) &&
         tc_compose_list(t, "dilation", &o->dilation, n, 1, 1, c->dilation) &&
         tc_compose_list(t, "output_padding", &o->output_padding, n, 0, 0, c->extra);
}

// a [n, h.., c] with zeros around the spatial axes.
static tc_node padded(tc_trace *t, tc_node a, int n, const int64_t *low, const int64_t *high) {
  int64_t before[TC_MAX_RANK] = {0}, after[TC_MAX_RANK] = {0}, any = 0;
  for (int i = 0; i < n; i++) before[1 + i] = low[i], after[1 + i] = high[i], any |= low[i] | high[i];
  return any ? tc_rec_pad(t, a, before, after, 0) : a;
}

// [rows, taps * in], or [groups, rows, taps * in / groups]: what the windows see; *out_image becomes [n, p.., outputs].
static tc_node columns(tc_trace *t, const conv *c, tc_dims *out_image) {
  tc_node a = padded(t, tc_compose_channels_last(t, c->x), c->n, c->padding, c->padding);
  for (int i = 0; i < c->n; i++) a = tc_rec_window(t, a, 1 + i, c->dw.dim[2 + i], c->stride[i], c->dilation[i]);
  if (a == TC_NODE_ERR) return a;
  tc_dims d = *tc_node_dims(t, a), axes = {.rank = d.rank};
  int64_t rows = 1, g = c->groups, in = d.dim[c->n + 1] / g;
  for (int i = 0; i < d.rank; i++) axes.dim[i] = i <= c->n ? i : i + 1 < d.rank ? i + 1 : c->n + 1;
  for (int i = 0; i <= c->n; i++) rows *= d.dim[i];
  *out_image = d, out_image->rank = c->n + 2, out_image->dim[c->n + 1] = c->outputs;
  a = tc_rec_permute(t, a, &axes);
  if (g == 1) return reshape(t, a, TC_SHAPE(rows, c->taps * in));
  a = permute(t, reshape(t, a, TC_SHAPE(rows, c->taps, g, in)), TC_AXES(2, 0, 1, 3));
  return reshape(t, a, TC_SHAPE(g, rows, c->taps * in));
}

// weight [groups * a, b, taps..] as [groups, taps * b, a] (out of a convolution) or [groups, a, taps * b]; without the groups' axis if there is one.
static tc_node factor(tc_trace *t, const conv *c, bool transposed) {
  int64_t g = c->groups, a = c->dw.dim[0] / g, b = c->dw.dim[1];
  tc_node w = permute(t, reshape(t, c->weight, TC_SHAPE(g, a, b, c->taps)), transposed ? TC_AXES(0, 1, 3, 2) : TC_AXES(0, 3, 2, 1));
  int64_t rows = transposed ? a : c->taps * b, cols = transposed ? c->taps * b : a;
  return reshape(t, w, g == 1 ? TC_SHAPE(rows, cols) : TC_SHAPE(g, rows, cols));
}

// A sum for each channel and each of its outputs, in f32 at least: [n, c, outputs / c, p.., window, q] over the window.
static tc_node by_channel(tc_trace *t, const conv *c) {
  tc_type type = tc_node_type(t, c->x);
  int64_t channels = c->dx.dim[1], each = c->outputs / channels;
  tc_dims w = TC_SHAPE(channels, each);
  tc_node a = tc_compose_windows(t, f_widen(t, c->x), c->n, c->dw.dim + 2, c->stride, c->padding, c->dilation, 0);
  if (a == TC_NODE_ERR) return a;
  tc_dims d = *tc_node_dims(t, a), seen = {.rank = d.rank + 1}, out = {.rank = c->n + 2};
  for (int i = 0; i <= d.rank; i++) seen.dim[i] = i < 2 ? d.dim[i] : i == 2 ? 1 : d.dim[i - 1];
  for (int i = 1; i < c->n; i++) w.dim[w.rank++] = 1;
  w.dim[w.rank++] = c->taps, w.dim[w.rank++] = 1;
  for (int i = 0; i < out.rank; i++) out.dim[i] = i == 1 ? c->outputs : d.dim[i + 1 < out.rank ? i : d.rank - 1];
  a = f_mul(t, tc_rec_reshape(t, a, &seen), tc_rec_reshape(t, f_widen(t, c->weight), &w));
  if (a == TC_NODE_ERR) return a;
  a = f_narrow(t, tc_rec_fold(t, TC_OP_SUM, a, UINT32_C(1) << (seen.rank - 2), false), type);
  return tc_compose_channels_last(t, tc_rec_reshape(t, a, &out));
}

// The same by matrix products.
static tc_node by_products(tc_trace *t, const conv *c) {
  tc_dims image;
  tc_node left = columns(t, c, &image);
  if (left == TC_NODE_ERR) return left;
  tc_node y = tc_rec_matmul(t, left, factor(t, c, false));
  return tc_rec_reshape(t, c->groups > 1 ? permute(t, y, TC_AXES(1, 0, 2)) : y, &image);
}

static tc_tensor convolve(const char *name, int n, tc_tensor x, tc_tensor weight, tc_tensor bias, const tc_conv_options *options, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  conv c;
  if (!open(t, &c, n, options) || !operands_in(t, &c, x, weight, bias, false)) return tc_op_end(t, TC_NODE_ERR);
  for (int i = 0; i < n; i++)
    if (c.extra[i]) return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "output_padding is for transposed convolution"));
  bool own_weights = c.groups > 1 && c.dw.dim[1] == 1 && tc_type_is_float(tc_node_type(t, c.x)) && tc_node_type(t, c.x) == tc_node_type(t, c.weight);
  tc_node y = own_weights ? by_channel(t, &c) : by_products(t, &c);
  if (c.bias != TC_NODE_ERR) y = f_add(t, y, c.bias);
  return tc_op_end(t, channels_first(t, y, c.lone));
}

// Windows [n, h.., outputs, taps..] that the product makes.
static tc_node spread(tc_trace *t, const conv *c) {
  tc_node image = tc_compose_channels_last(t, c->x);
  if (image == TC_NODE_ERR) return image;
  int64_t g = c->groups, in = c->dw.dim[0] / g, out = c->dw.dim[1], rows = 1;
  tc_dims windows = *tc_node_dims(t, image);
  for (int i = 0; i <= c->n; i++) rows *= windows.dim[i];
  windows.dim[c->n + 1] = c->outputs;
  for (int i = 0; i < c->n; i++) windows.dim[windows.rank++] = c->dw.dim[2 + i];
  tc_node left = reshape(t, image, g == 1 ? TC_SHAPE(rows, in) : TC_SHAPE(rows, g, in));
  if (g > 1) left = permute(t, left, TC_AXES(1, 0, 2));
  tc_node y = reshape(t, tc_rec_matmul(t, left, factor(t, c, true)), TC_SHAPE(g, rows, c->taps, out));
  return tc_rec_reshape(t, permute(t, y, TC_AXES(1, 0, 3, 2)), &windows);
}

static tc_tensor convolve_transposed(const char *name, int n, tc_tensor x, tc_tensor weight, tc_tensor bias, const tc_conv_options *options,
                                     tc_site site) {
  static const int64_t none[MAX_SPATIAL], ones[TC_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  tc_trace *t = tc_op_begin(name, site);
  conv c;
  if (!open(t, &c, n, options) || !operands_in(t, &c, x, weight, bias, true)) return tc_op_end(t, TC_NODE_ERR);
  int64_t start[TC_MAX_RANK] = {0};
  tc_node y = spread(t, &c);
  for (int i = n - 1; i >= 0; i--) {
    int64_t reach = c.dilation[i] * (c.dw.dim[2 + i] - 1), length = (c.dx.dim[2 + i] - 1) * c.stride[i] + reach + 1;
    if (c.extra[i] >= TC_MAX_OF(c.stride[i], c.dilation[i]))
      return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "output_padding is %lld, not below stride %lld or dilation %lld", (long long)c.extra[i],
                                      (long long)c.stride[i], (long long)c.dilation[i]));
    if (length + c.extra[i] <= 2 * c.padding[i])
      return tc_op_end(t, tc_rec_fail(t, TC_ERR_SHAPE, "padding %lld leaves nothing of %lld elements", (long long)c.padding[i], (long long)length));
    y = tc_rec_unwindow(t, y, 1 + i, length, c.stride[i], c.dilation[i]);
  }
  y = padded(t, y, n, none, c.extra);
  if (y == TC_NODE_ERR) return tc_op_end(t, y);
  tc_dims image = *tc_node_dims(t, y);
  for (int i = 0; i < n; i++) start[1 + i] = c.padding[i], image.dim[1 + i] -= 2 * c.padding[i];
  if (!tc_dims_equal(&image, tc_node_dims(t, y)) && tc_dims_count(&image)) y = tc_rec_slice(t, y, start, ones, &image);
  if (tc_dims_count(&image) == 0) y = tc_rec_reshape(t, y, &image);
  if (c.bias != TC_NODE_ERR) y = f_add(t, y, c.bias);
  return tc_op_end(t, channels_first(t, y, c.lone));
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
