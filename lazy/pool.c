// Pooling, and resizing of images. The last n axes are spatial; whatever lies before them is kept.
//
// Idea: pooling folds windows, which are movement. The greatest of a window is found as an index and then gathered, so that its gradient goes to the
// first of equals, as in PyTorch, and is added up by index. Resizing reads neighbours by index and mixes them, an axis after the other.
// Source: aten/src/ATen/native/cpu/MaxPoolKernel.cpp, UpSampleKernel.cpp, and native/AdaptiveAveragePooling.cpp.
// Threads: thread-compatible, each thread records its own trace.
#define TC_NO_SITES
#include "lazy/formula.h"

#include <math.h>

#define MAX_SPATIAL 3

typedef struct pool {
  int n;      // spatial axes
  int first;  // of them, in x
  tc_dims d;  // of x
  int64_t size[MAX_SPATIAL], stride[MAX_SPATIAL], padding[MAX_SPATIAL], dilation[MAX_SPATIAL];
} pool;

static bool open(tc_trace *t, pool *p, tc_node a, int n, const tc_dims *size, const tc_pool_options *o) {
  if (a == TC_NODE_ERR) return false;
  *p = (pool){.n = n, .d = *tc_node_dims(t, a)};
  p->first = p->d.rank - n;
  if (p->d.rank != n + 1 && p->d.rank != n + 2)
    return tc_rec_fail(t, TC_ERR_SHAPE, "x has rank %d; %d, or %d without a batch, is needed", p->d.rank, n + 2, n + 1), false;
  if (!tc_compose_list(t, "size", size, n, 0, 1, p->size) || !tc_compose_list(t, "stride", &o->stride, n, 0, o->stride.rank != 0, p->stride) ||
      !tc_compose_list(t, "padding", &o->padding, n, 0, 0, p->padding) || !tc_compose_list(t, "dilation", &o->dilation, n, 1, 1, p->dilation))
    return false;
  for (int i = 0; i < n; i++) {
    if (o->stride.rank == 0) p->stride[i] = p->size[i];
    if (2 * p->padding[i] > p->dilation[i] * (p->size[i] - 1) + 1)
      return tc_rec_fail(t, TC_ERR_ARG, "padding %lld is more than half of a window of %lld", (long long)p->padding[i], (long long)p->size[i]), false;
  }
  return true;
}

tc_node tc_compose_windows(tc_trace *t, tc_node a, int n, const int64_t *size, const int64_t *stride, const int64_t *padding, const int64_t *dilation,
                           double outside) {
  if (a == TC_NODE_ERR) return a;
  int rank = tc_node_dims(t, a)->rank, last = rank - 1;
  int64_t around[TC_MAX_RANK] = {0}, any = 0, taps = 1;
  for (int i = 0; i < n; i++) around[rank - n + i] = padding[i], any |= padding[i], taps *= size[i];
  if (any) a = tc_rec_pad(t, a, around, around, outside);
  for (int i = 0; i < n; i++) a = tc_rec_window(t, a, rank - n + i, size[i], stride[i], dilation[i]);
  if (a == TC_NODE_ERR) return a;
  tc_dims d = *tc_node_dims(t, a), axes = {.rank = d.rank}, flat = {.rank = rank + 1};
  for (int i = 0; i < d.rank; i++) axes.dim[i] = i < last ? i : i + 1 < d.rank ? i + 1 : last;
  for (int i = 0; i < last; i++) flat.dim[i] = d.dim[i];
  flat.dim[last] = taps, flat.dim[last + 1] = d.dim[last];
  return tc_rec_reshape(t, tc_rec_permute(t, a, &axes), &flat);
}

static tc_node windows(tc_trace *t, const pool *p, tc_node a, double outside) {
  return tc_compose_windows(t, a, p->n, p->size, p->stride, p->padding, p->dilation, outside);
}

// start + step * position along spatial axis i of a result, shaped to broadcast.
static tc_node along(tc_trace *t, const pool *p, int i, int64_t n, double start, double step) {
  tc_dims d = {.rank = p->n - i, .dim = {n, 1, 1}};
  return tc_rec_iota(t, &d, TC_I64, start, step);
}

// From the place in its window to the place in the image, flat. Where a whole window is the least value its first place may lie outside: it is moved in.
static tc_node flat_index(tc_trace *t, const pool *p, tc_node place) {
  tc_node flat = TC_NODE_ERR;
  int64_t pitch = 1;
  for (int i = p->n - 1; i >= 0 && place != TC_NODE_ERR; i--) {
    int64_t n = tc_node_dims(t, place)->dim[p->first + i], extent = p->d.dim[p->first + i];
    tc_node k = i > 0 ? f_int(t, TC_OP_REMAINDER, place, p->size[i]) : place;
    k = f_add(t, f_int(t, TC_OP_MUL, k, p->dilation[i]), along(t, p, i, n, (double)-p->padding[i], (double)p->stride[i]));
    if (p->padding[i]) k = f_int(t, TC_OP_MINIMUM, f_int(t, TC_OP_MAXIMUM, k, 0), extent - 1);
    k = f_int(t, TC_OP_MUL, k, pitch);
    flat = flat == TC_NODE_ERR ? k : f_add(t, flat, k);
    if (i > 0) place = f_int(t, TC_OP_FLOOR_DIVIDE, place, p->size[i]);
    pitch *= extent;
  }
  return flat;
}

static double least_of(tc_type type) {
  int64_t low, high;
  if (tc_type_is_float(type)) return -(double)INFINITY;
  tc_type_range(type, &low, &high);
  return (double)low;
}

// d with the spatial axes as one.
static tc_dims image_as_row(const pool *p, const tc_dims *d) {
  tc_dims row = *d;
  for (int i = p->first + 1; i < d->rank; i++) row.dim[p->first] *= d->dim[i];
  row.rank = p->first + 1;
  return row;
}

static tc_tensor max_pool(const char *name, int n, tc_tensor x, tc_dims size, const tc_pool_options *options, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  tc_node a = tc_op_in(t, x);
  pool p;
  if (!open(t, &p, a, n, &size, options)) return tc_op_end(t, TC_NODE_ERR);
  tc_node seen = windows(t, &p, tc_rec_detach(t, a), least_of(tc_node_type(t, a)));
  if (seen == TC_NODE_ERR) return tc_op_end(t, seen);
  tc_node index = flat_index(t, &p, tc_rec_fold(t, TC_OP_ARGMAX, seen, UINT32_C(1) << (p.d.rank - 1), false));
  if (index == TC_NODE_ERR) return tc_op_end(t, index);
  tc_dims out = *tc_node_dims(t, index), out_row = image_as_row(&p, &out), row = image_as_row(&p, &p.d);
  tc_node y = tc_rec_gather(t, tc_rec_reshape(t, a, &row), p.first, tc_rec_reshape(t, index, &out_row));
  return tc_op_end(t, tc_rec_reshape(t, y, &out));
}

// How many elements of each window along spatial axis i lie in the image.
static tc_node counts(tc_trace *t, const pool *p, int i, int64_t n, tc_type type) {
  double start = (double)-p->padding[i], step = (double)p->stride[i];
  tc_node from = f_int(t, TC_OP_MAXIMUM, along(t, p, i, n, start, step), 0);
  tc_node to = f_int(t, TC_OP_MINIMUM, along(t, p, i, n, start + (double)p->size[i], step), p->d.dim[p->first + i]);
  return tc_rec_cast(t, f_sub(t, to, from), type);
}

static tc_tensor avg_pool(const char *name, int n, tc_tensor x, tc_dims size, const tc_pool_options *options, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  tc_node a = tc_op_in(t, x);
  tc_type type = f_type(t, a);
  pool p;
  if (!open(t, &p, a, n, &size, options)) return tc_op_end(t, TC_NODE_ERR);
  double taps = 1;
  tc_node y = windows(t, &p, f_widen(t, a), 0), some = TC_NODE_ERR;
  if (y == TC_NODE_ERR) return tc_op_end(t, y);
  y = tc_rec_fold(t, TC_OP_SUM, y, UINT32_C(1) << (p.d.rank - 1), false);
  for (int i = 0; i < n && y != TC_NODE_ERR; i++) {
    if (p.dilation[i] != 1) return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "dilation is for max pooling"));
    if (p.padding[i] && options->exclude_padding) {
      tc_node each = counts(t, &p, i, tc_node_dims(t, y)->dim[p.first + i], tc_node_type(t, y));
      some = some == TC_NODE_ERR ? each : f_mul(t, some, each);
    } else {
      taps *= (double)p.size[i];
    }
  }
  y = some == TC_NODE_ERR ? f_num(t, TC_OP_DIV, y, taps) : f_div(t, y, f_num(t, TC_OP_MUL, some, taps));
  return tc_op_end(t, f_narrow(t, y, type));
}

tc_tensor tc_max_pool1d_at(tc_tensor x, tc_dims size, tc_pool_options options, tc_site site) {
  return max_pool("max_pool1d", 1, x, size, &options, site);
}

tc_tensor tc_max_pool2d_at(tc_tensor x, tc_dims size, tc_pool_options options, tc_site site) {
  return max_pool("max_pool2d", 2, x, size, &options, site);
}

tc_tensor tc_avg_pool1d_at(tc_tensor x, tc_dims size, tc_pool_options options, tc_site site) {
  return avg_pool("avg_pool1d", 1, x, size, &options, site);
}

tc_tensor tc_avg_pool2d_at(tc_tensor x, tc_dims size, tc_pool_options options, tc_site site) {
  return avg_pool("avg_pool2d", 2, x, size, &options, site);
}

// ---- Adaptive pooling ----

// v [k] so that it broadcasts along `axis` of a tensor of rank `rank`.
static tc_node on_axis(tc_trace *t, tc_node v, int rank, int axis) {
  if (v == TC_NODE_ERR) return v;
  tc_dims d = *tc_node_dims(t, v);
  for (int i = axis + d.rank; i < rank; i++) d.dim[d.rank++] = 1;
  return tc_rec_reshape(t, v, &d);
}

// Means of n stretches of an axis of l elements, from floor(i l / n) to ceil((i + 1) l / n): read by index as long as the longest, and masked.
static tc_node stretches(tc_trace *t, tc_node a, int axis, int64_t n) {
  const tc_dims *d = tc_node_dims(t, a);
  int64_t l = d->dim[axis], longest = (l + n - 1) / n + 1;
  int rank = d->rank;
  tc_dims rows = TC_SHAPE(n, 1), cols = TC_SHAPE(longest);
  tc_node from = f_int(t, TC_OP_FLOOR_DIVIDE, tc_rec_iota(t, &rows, TC_I64, 0, (double)l), n);
  tc_node to = f_int(t, TC_OP_FLOOR_DIVIDE, tc_rec_iota(t, &rows, TC_I64, (double)(l + n - 1), (double)l), n);
  tc_node at = f_add(t, from, tc_rec_iota(t, &cols, TC_I64, 0, 1)), inside = tc_rec_binary(t, TC_OP_LT, at, to);
  a = tc_rec_index_select(t, a, axis, f_int(t, TC_OP_MINIMUM, at, l - 1));
  if (a == TC_NODE_ERR || inside == TC_NODE_ERR) return TC_NODE_ERR;
  tc_node sum = tc_rec_fold(t, TC_OP_SUM, f_keep(t, on_axis(t, inside, rank + 1, axis), a, 0), UINT32_C(1) << (axis + 1), false);
  tc_dims flat = TC_SHAPE(n);
  tc_node count = tc_rec_cast(t, tc_rec_reshape(t, f_sub(t, to, from), &flat), tc_node_type(t, a));
  return f_div(t, sum, on_axis(t, count, rank, axis));
}

// Both axes cut evenly: one fold.
static tc_node tiles(tc_trace *t, tc_node a, const int64_t *size) {
  tc_dims d = *tc_node_dims(t, a), split = d, axes = {.rank = d.rank + 2};
  int first = d.rank - 2;
  for (int i = 0; i < 2; i++) split.dim[first + 2 * i] = size[i], split.dim[first + 2 * i + 1] = d.dim[first + i] / size[i];
  split.rank = d.rank + 2;
  for (int i = 0; i < first; i++) axes.dim[i] = i;
  axes.dim[first] = first, axes.dim[first + 1] = first + 2, axes.dim[first + 2] = first + 1, axes.dim[first + 3] = first + 3;
  return tc_compose_mean(t, tc_rec_permute(t, tc_rec_reshape(t, a, &split), &axes), UINT32_C(3) << (first + 2), false);
}

tc_tensor tc_adaptive_avg_pool2d_at(tc_tensor x, tc_dims size, tc_site site) {
  tc_trace *t = tc_op_begin("adaptive_avg_pool2d", site);
  tc_node a = tc_op_in(t, x);
  tc_type type = f_type(t, a);
  int64_t out[2];
  if (a == TC_NODE_ERR || !tc_compose_list(t, "size", &size, 2, 0, 1, out)) return tc_op_end(t, TC_NODE_ERR);
  const tc_dims *d = tc_node_dims(t, a);
  int rank = d->rank;
  if (rank != 3 && rank != 4) return tc_op_end(t, tc_rec_fail(t, TC_ERR_SHAPE, "x has rank %d; 4, or 3 without a batch, is needed", rank));
  int64_t h = d->dim[rank - 2], w = d->dim[rank - 1];
  if (h == 0 || w == 0) return tc_op_end(t, tc_rec_fail(t, TC_ERR_SHAPE, "x has an image of %lld by %lld", (long long)h, (long long)w));
  a = f_widen(t, a);
  if (a != TC_NODE_ERR && h % out[0] == 0 && w % out[1] == 0) return tc_op_end(t, f_narrow(t, tiles(t, a, out), type));
  for (int i = 0; i < 2 && a != TC_NODE_ERR; i++) a = stretches(t, a, rank - 2 + i, out[i]);
  return tc_op_end(t, f_narrow(t, a, type));
}

// ---- Resizing ----

// Each element of an axis k times.
static tc_node repeated(tc_trace *t, tc_node a, int axis, int64_t k) {
  tc_dims d = *tc_node_dims(t, a), one = {.rank = d.rank + 1}, many;
  for (int i = 0; i <= d.rank; i++) one.dim[i] = i <= axis ? d.dim[i] : i == axis + 1 ? 1 : d.dim[i - 1];
  many = one, many.dim[axis + 1] = k, d.dim[axis] *= k;
  return tc_rec_reshape(t, tc_rec_expand(t, tc_rec_reshape(t, a, &one), &many), &d);
}

// PyTorch's choice: floor(i * scale) in f32.
static tc_node nearest(tc_trace *t, tc_node a, int axis, int64_t n) {
  int64_t l = tc_node_dims(t, a)->dim[axis];
  if (n % l == 0) return repeated(t, a, axis, n / l);
  tc_dims line = TC_SHAPE(n);
  tc_node at = f_num(t, TC_OP_MUL, tc_rec_iota(t, &line, TC_F32, 0, 1), (double)((float)l / (float)n));
  return tc_rec_index_select(t, a, axis, f_int(t, TC_OP_MINIMUM, tc_rec_cast(t, at, TC_I64), l - 1));
}

// Positions are in f64, so that weights are right for every type.
static tc_node linear(tc_trace *t, tc_node a, int axis, int64_t n, bool align_corners) {
  int64_t l = tc_node_dims(t, a)->dim[axis];
  int rank = tc_node_dims(t, a)->rank;
  tc_dims line = TC_SHAPE(n);
  double step = !align_corners ? (double)l / (double)n : n > 1 ? (double)(l - 1) / (double)(n - 1) : 0;
  tc_node at = tc_rec_iota(t, &line, TC_F64, align_corners ? 0 : 0.5 * step - 0.5, step);
  if (!align_corners) at = f_num(t, TC_OP_MAXIMUM, at, 0);
  tc_node low = f_int(t, TC_OP_MINIMUM, tc_rec_cast(t, at, TC_I64), l - 1);
  tc_node high = f_int(t, TC_OP_MINIMUM, f_int(t, TC_OP_ADD, low, 1), l - 1);
  tc_node w = on_axis(t, tc_rec_cast(t, f_sub(t, at, tc_rec_cast(t, low, TC_F64)), tc_node_type(t, a)), rank, axis);
  if (w == TC_NODE_ERR) return w;
  tc_node below = f_mul(t, tc_rec_index_select(t, a, axis, low), f_sub(t, tc_rec_const(t, w, 1), w));
  return f_add(t, below, f_mul(t, tc_rec_index_select(t, a, axis, high), w));
}

tc_tensor tc_interpolate_at(tc_tensor x, tc_dims size, tc_interpolate_options options, tc_site site) {
  tc_trace *t = tc_op_begin("interpolate", site);
  tc_node a = tc_op_in(t, x);
  if (a == TC_NODE_ERR) return tc_op_end(t, a);
  tc_type type = tc_node_type(t, a);
  const tc_dims *d = tc_node_dims(t, a);
  int n = d->rank - 2;
  int64_t to[MAX_SPATIAL];
  if (n < 1 || n > MAX_SPATIAL) return tc_op_end(t, tc_rec_fail(t, TC_ERR_SHAPE, "x has rank %d; 3 to %d is needed", d->rank, 2 + MAX_SPATIAL));
  if (!tc_compose_list(t, "size", &size, n, 0, 1, to)) return tc_op_end(t, TC_NODE_ERR);
  if (options.mode != TC_NEAREST && options.mode != TC_LINEAR) return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "mode is %d", (int)options.mode));
  if (options.mode == TC_NEAREST && options.align_corners) return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "align_corners is for TC_LINEAR"));
  if (options.mode == TC_LINEAR) type = f_type(t, a), a = f_widen(t, a);
  for (int i = 0; i < n && a != TC_NODE_ERR; i++) {
    int64_t l = tc_node_dims(t, a)->dim[2 + i];
    if (l == 0) return tc_op_end(t, tc_rec_fail(t, TC_ERR_SHAPE, "axis %d of x has no elements", 2 + i));
    if (l != to[i]) a = options.mode == TC_NEAREST ? nearest(t, a, 2 + i, to[i]) : linear(t, a, 2 + i, to[i], options.align_corners);
  }
  return tc_op_end(t, f_narrow(t, a, type));
}
