// Pooling. The last n axes are spatial; whatever lies before them is kept.
//
// Pooling folds windows, which are movement: one pass over the image. A POOL record then stands for
// the fold's value, and has the gradient of pooling (vjp_pool.c). A fold's own gradient would be as
// large as all windows.
// Convolutions make x by moving channels to the front. Then windows are folded before that move:
// neighbours in memory are channels, which all windows treat alike.
// Source: aten/src/ATen/native/cpu/MaxPoolKernel.cpp and AvgPoolKernel.cpp.
// Threads: thread-compatible, each thread records its own trace.
#define TC_NO_SITES
#include "lazy/ops/pool.h"

#include <math.h>

#include "lazy/trace/trace.h"

enum { MOST_BEFORE_MOVE = 32 };  // elementwise records looked through

// How many windows an axis has; 0 after reporting. With ceil, one more where elements are left, if
// it begins in the image or before it.
static int64_t windows_of(tc_trace *t, const tc_pool *p, int i, bool ceil) {
  int64_t l = p->d.dim[p->first + i], reach = p->dilation[i] * (p->size[i] - 1) + 1,
          room = l + 2 * p->padding[i] - reach;
  if (ceil) room += p->stride[i] - 1;
  if (l == 0 || room < 0) {
    tc_rec_fail(t, TC_ERR_SHAPE, "a window of %lld does not fit in %lld elements of axis %d", (long long)reach,
                (long long)(l + 2 * p->padding[i]), p->first + i);
    return 0;
  }
  int64_t n = room / p->stride[i] + 1;
  return n - (ceil && (n - 1) * p->stride[i] >= l + p->padding[i]);
}

// The first window along axis i that has no element of the image in it, -1: none. Where its
// elements lie apart it may step over all of them.
static int64_t first_empty(const tc_pool *p, int i) {
  int64_t l = p->d.dim[p->first + i], apart = p->dilation[i];
  for (int64_t w = 0; apart > 1 && w < p->out[i]; w++) {
    int64_t from = w * p->stride[i] - p->padding[i], before = from < 0 ? (apart - 1 - from) / apart : 0;
    if (before >= p->size[i] || from + before * apart >= l) return w;
  }
  return -1;
}

static bool open_pool(tc_trace *t, tc_pool *p, tc_node a, int n, const tc_dims *size, const tc_pool_options *o) {
  if (a == TC_NODE_ERR) return false;
  *p = (tc_pool){.n = n, .d = *tc_node_dims(t, a)};
  p->first = p->d.rank - n;
  if (p->d.rank != n + 1 && p->d.rank != n + 2)
    return tc_rec_fail(t, TC_ERR_SHAPE, "x has rank %d; %d, or %d without a batch, is needed", p->d.rank, n + 2, n + 1),
           false;
  if (!tc_compose_list(t, "size", size, n, 0, 1, p->size) ||
      !tc_compose_list(t, "stride", &o->stride, n, 0, o->stride.rank != 0, p->stride) ||
      !tc_compose_list(t, "padding", &o->padding, n, 0, 0, p->padding) ||
      !tc_compose_list(t, "dilation", &o->dilation, n, 1, 1, p->dilation))
    return false;
  for (int i = 0; i < n; i++) {
    if (o->stride.rank == 0) p->stride[i] = p->size[i];
    if (2 * p->padding[i] > p->dilation[i] * (p->size[i] - 1) + 1)
      return tc_rec_fail(t, TC_ERR_ARG, "padding %lld is more than half of a window of %lld", (long long)p->padding[i],
                         (long long)p->size[i]),
             false;
    if ((p->out[i] = windows_of(t, p, i, o->ceil_mode)) == 0) return false;
    int64_t empty = first_empty(p, i);
    if (empty >= 0)
      return tc_rec_fail(t, TC_ERR_ARG, "window %lld along axis %d has elements of the padding alone", (long long)empty,
                         p->first + i),
             false;
  }
  return true;
}

// Windows as an axis before the last one.
static tc_node as_axis(tc_trace *t, tc_node a, int rank, int n) {
  if (a == TC_NODE_ERR) return a;
  int last = rank - 1;
  tc_dims d = *tc_node_dims(t, a), axes = {.rank = d.rank}, flat = d;
  for (int i = 0; i < d.rank; i++) axes.dim[i] = i < last ? i : i < last + n ? i + 1 : last;
  flat.rank = rank + 1, flat.dim[last] = 1, flat.dim[last + 1] = d.dim[last];
  for (int i = 0; i < n; i++) flat.dim[last] *= d.dim[rank + i];
  return tc_rec_reshape(t, tc_rec_permute(t, a, &axes), &flat);
}

// [.., h, w(, c)] to its windows [.., p, window, q] or [.., p, q, window, c], where what lies
// outside the image is a value. The axis of a window's elements is the last but one, so that
// neighbours in memory stay neighbours.
static tc_node windows(tc_trace *t, const tc_pool *p, tc_node a, double outside) {
  int64_t low[TC_MAX_RANK] = {0}, high[TC_MAX_RANK] = {0}, any = 0;
  for (int i = 0; i < p->n; i++) {  // behind the image as far as the last window goes
    int64_t end =
        (p->out[i] - 1) * p->stride[i] + p->dilation[i] * (p->size[i] - 1) + 1 - p->padding[i] - p->d.dim[p->first + i];
    low[p->first + i] = p->padding[i], high[p->first + i] = TC_MAX_OF(end, 0);
    any |= low[p->first + i] | high[p->first + i];
  }
  if (any) a = tc_rec_pad(t, a, low, high, outside);
  for (int i = 0; i < p->n; i++) a = tc_rec_window(t, a, p->first + i, p->size[i], p->stride[i], p->dilation[i]);
  return as_axis(t, a, p->d.rank, p->n);
}

// ---- Channels last ----

// Whether node a is elementwise work on something that was moved from [n, .., c] to [n, c, ..].
static bool is_moved(const tc_trace *t, tc_node a) {
  const tc_dims *d = tc_node_dims(t, a);
  uint64_t order = 0;
  for (int i = 0; i < d->rank; i++) order |= (uint64_t)(i == 0 ? 0 : i == 1 ? d->rank - 1 : i - 1) << (8 * i);
  for (int steps = 0; steps < MOST_BEFORE_MOVE; steps++) {
    const tc_rec *r = tc_rec_of(t, a);
    const uint32_t *in = tc_rec_in(r);
    int k = 0, n = tc_rec_arity(r);
    if (tc_rec_op(r) == TC_OP_PERMUTE && d->rank > 2 && tc_rec_attr(r)[0] == order) return true;
    while (k < n && tc_rec_of(t, in[k])->shape != r->shape) k++;
    bool passes = tc_op_is_elementwise(tc_rec_op(r)) || tc_rec_op(r) == TC_OP_DETACH;
    if (!passes || k == n) return false;
    a = in[k];
  }
  return false;
}

// a and its windows with channels last, if a lies so in memory. Folds over the last axis sum by
// halves, others in a chain, and bits shall not depend on how a was made. So not where the fold is
// over the last axis with channels last, or else would be.
static tc_node as_it_lies(tc_trace *t, tc_pool *p, tc_node a, bool *out_moved) {
  bool chains = p->d.rank == p->n + 2 && p->d.dim[1] > 1 && p->out[p->n - 1] > 1;
  *out_moved = chains && is_moved(t, a);
  if (!*out_moved) return a;
  a = tc_compose_channels_last(t, a);
  if (a != TC_NODE_ERR) p->first = 1, p->d = *tc_node_dims(t, a);
  return a;
}

// ---- The greatest ----

// The least value of a type: what padding is where the greatest is looked for.
static double least_of(tc_type type) {
  int64_t low, high;
  if (tc_type_is_float(type)) return -(double)INFINITY;
  tc_type_range(type, &low, &high);
  return (double)low;
}

// start + step * position along spatial axis i of a result, shaped to broadcast.
static tc_node along(tc_trace *t, const tc_pool *p, int i, double start, double step) {
  tc_dims d = {.rank = p->d.rank - p->first - i, .dim = {p->out[i], 1, 1, 1}};
  return tc_rec_iota(t, &d, TC_I64, start, step);
}

// The first element of each window that lies in the image.
static tc_node first_inside(tc_trace *t, const tc_pool *p) {
  tc_node sum = TC_NODE_ERR;
  int64_t pitch = 1;
  for (int i = p->n - 1; i >= 0; pitch *= p->size[i], i--) {
    double d = (double)p->dilation[i];
    tc_node outside = f_int(t, TC_OP_MAXIMUM, along(t, p, i, (double)p->padding[i] + d - 1, -(double)p->stride[i]), 0);
    tc_node k = f_int(t, TC_OP_MUL, f_int(t, TC_OP_FLOOR_DIVIDE, outside, p->dilation[i]), pitch);
    sum = sum == TC_NODE_ERR ? k : f_add(t, sum, k);
  }
  return sum;
}

// The first that equals y, or is NaN as y then is. Where a whole window is the least value, padding
// comes first, though the first in the image is meant.
tc_node tc_pool_place(tc_trace *t, const tc_pool *p, tc_node a, tc_node y) {
  if (a == TC_NODE_ERR || y == TC_NODE_ERR) return TC_NODE_ERR;
  double least = least_of(tc_node_type(t, a));
  tc_node seen = windows(t, p, a, least);
  if (seen == TC_NODE_ERR) return seen;
  int axis = p->d.rank - 1;
  tc_dims d = *tc_node_dims(t, seen), one = d, line = TC_SHAPE(d.dim[axis], 1);
  one.dim[axis] = 1;
  tc_node hit = tc_rec_binary(t, TC_OP_EQ, seen, tc_rec_reshape(t, y, &one));
  if (tc_type_is_float(tc_node_type(t, a)))
    hit = tc_rec_binary(t, TC_OP_LOGICAL_OR, hit, tc_rec_unary(t, TC_OP_ISNAN, seen));
  tc_node number = tc_rec_iota(t, &line, TC_I32, 0, 1);
  tc_node place =
      tc_rec_fold(t, TC_OP_MIN, f_keep(t, hit, number, (double)(d.dim[axis] - 1)), UINT32_C(1) << axis, false);
  bool pads = false;
  for (int i = 0; i < p->n; i++) pads = pads || p->padding[i];
  if (!pads || place == TC_NODE_ERR) return place;
  return tc_rec_where(t, tc_rec_binary(t, TC_OP_EQ, y, tc_rec_const(t, y, least)),
                      tc_rec_cast(t, first_inside(t, p), TC_I32), place);
}

tc_node tc_pool_flat_index(tc_trace *t, const tc_pool *p, tc_node place) {
  tc_node flat = TC_NODE_ERR;
  int64_t pitch = 1;
  place = tc_rec_cast(t, place, TC_I64);
  for (int i = p->n - 1; i >= 0 && place != TC_NODE_ERR; i--) {
    tc_node k = i > 0 ? f_int(t, TC_OP_REMAINDER, place, p->size[i]) : place;
    k = f_add(t, f_int(t, TC_OP_MUL, k, p->dilation[i]), along(t, p, i, (double)-p->padding[i], (double)p->stride[i]));
    k = f_int(t, TC_OP_MUL, k, pitch);
    flat = flat == TC_NODE_ERR ? k : f_add(t, flat, k);
    if (i > 0) place = f_int(t, TC_OP_FLOOR_DIVIDE, place, p->size[i]);
    pitch *= p->d.dim[p->first + i];
  }
  return flat;
}

tc_dims tc_pool_image_as_row(const tc_pool *p, const tc_dims *d) {
  tc_dims row = {.rank = d->rank - p->n + 1};
  for (int i = 0; i < row.rank; i++) row.dim[i] = i <= p->first ? d->dim[i] : d->dim[i + p->n - 1];
  for (int i = 1; i < p->n; i++) row.dim[p->first] *= d->dim[p->first + i];
  return row;
}

static tc_node with_gradient(tc_trace *t, const tc_pool *p, bool max, tc_node y, tc_node a) {
  uint64_t attr[3 + 4 * TC_POOL_AXES] = {max, (uint64_t)p->n, (uint64_t)p->first}, *at = attr + 3;
  for (int i = 0; i < p->n; i++, at += 4)
    at[0] = (uint64_t)p->size[i], at[1] = (uint64_t)p->stride[i], at[2] = (uint64_t)p->padding[i],
    at[3] = (uint64_t)p->dilation[i];
  return tc_rec_pool(t, y, a, (int)(at - attr), attr);
}

static tc_tensor max_pool(const char *name, int n, bool indices, tc_tensor x, tc_dims size,
                          const tc_pool_options *options, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  tc_node a = tc_op_in(t, x);
  tc_pool p;
  bool moved;
  if (!open_pool(t, &p, a, n, &size, options)) return tc_op_end(t, TC_NODE_ERR);
  if (options->exclude_padding || options->divisor_override)
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "exclude_padding and divisor_override are for averages"));
  a = as_it_lies(t, &p, a, &moved);
  if (a == TC_NODE_ERR) return tc_op_end(t, a);
  tc_node image = tc_rec_detach(t, a);
  tc_node y = tc_rec_fold(t, TC_OP_MAX, windows(t, &p, image, least_of(tc_node_type(t, a))),
                          UINT32_C(1) << (p.d.rank - 1), false);
  if (indices)
    y = tc_pool_flat_index(t, &p, tc_pool_place(t, &p, image, y));
  else
    y = with_gradient(t, &p, true, y, a);
  return tc_op_end(t, moved ? tc_compose_channels_first(t, y) : y);
}

#define MAX_POOL(n) \
  tc_tensor tc_max_pool##n##d_at(tc_tensor x, tc_dims size, tc_pool_options options, tc_site site) { \
    return max_pool("max_pool" #n "d", n, false, x, size, &options, site); \
  } \
  tc_tensor tc_max_pool##n##d_indices_at(tc_tensor x, tc_dims size, tc_pool_options options, tc_site site) { \
    return max_pool("max_pool" #n "d_indices", n, true, x, size, &options, site); \
  }
MAX_POOL(1)
MAX_POOL(2)
MAX_POOL(3)

// ---- Averages ----

// How many elements of each window along spatial axis i count: those in the image, or those in the
// image and its padding.
static tc_node counts(tc_trace *t, const tc_pool *p, int i, bool in_image, tc_type type) {
  int64_t l = p->d.dim[p->first + i];
  double start = (double)-p->padding[i], step = (double)p->stride[i];
  tc_node from = along(t, p, i, start, step), to = along(t, p, i, start + (double)p->size[i], step);
  if (in_image) from = f_int(t, TC_OP_MAXIMUM, from, 0);
  to = f_int(t, TC_OP_MINIMUM, to, in_image ? l : l + p->padding[i]);
  return tc_rec_cast(t, f_sub(t, to, from), type);
}

static tc_tensor avg_pool(const char *name, int n, tc_tensor x, tc_dims size, const tc_pool_options *o, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  tc_node a = tc_op_in(t, x), some = TC_NODE_ERR;
  tc_type type = f_type(t, a);
  tc_pool p;
  bool moved;
  double taps = 1;
  for (int i = 0; i < o->dilation.rank && i < TC_MAX_RANK; i++)
    if (o->dilation.dim[i] != 1)
      return tc_op_end(
          t, tc_rec_fail(t, TC_ERR_ARG, "dilation is %lld; it is for max pooling", (long long)o->dilation.dim[i]));
  if (!open_pool(t, &p, a, n, &size, o)) return tc_op_end(t, TC_NODE_ERR);
  a = as_it_lies(t, &p, a, &moved);
  a = f_widen(t, a);
  if (a == TC_NODE_ERR) return tc_op_end(t, a);
  tc_node y = tc_rec_fold(t, TC_OP_SUM, windows(t, &p, tc_rec_detach(t, a), 0), UINT32_C(1) << (p.d.rank - 1), false);
  y = with_gradient(t, &p, false, y, a);
  if (y == TC_NODE_ERR) return tc_op_end(t, y);
  for (int i = 0; i < n; i++) {
    bool beyond = (p.out[i] - 1) * p.stride[i] + p.size[i] > p.d.dim[p.first + i] + 2 * p.padding[i];
    if (o->divisor_override || !(beyond || (p.padding[i] && o->exclude_padding))) {
      taps *= (double)p.size[i];
      continue;
    }
    tc_node each = counts(t, &p, i, o->exclude_padding, tc_node_type(t, y));
    some = some == TC_NODE_ERR ? each : f_mul(t, some, each);
  }
  if (o->divisor_override) taps = (double)o->divisor_override;
  y = some == TC_NODE_ERR ? f_num(t, TC_OP_DIV, y, taps) : f_div(t, y, f_num(t, TC_OP_MUL, some, taps));
  y = f_narrow(t, y, type);
  return tc_op_end(t, moved ? tc_compose_channels_first(t, y) : y);
}

#define AVG_POOL(n) \
  tc_tensor tc_avg_pool##n##d_at(tc_tensor x, tc_dims size, tc_pool_options options, tc_site site) { \
    return avg_pool("avg_pool" #n "d", n, x, size, &options, site); \
  }
AVG_POOL(1)
AVG_POOL(2)
AVG_POOL(3)

tc_node tc_pool_on_axis(tc_trace *t, tc_node v, int rank, int axis) {
  if (v == TC_NODE_ERR) return v;
  tc_dims d = *tc_node_dims(t, v);
  for (int i = axis + d.rank; i < rank; i++) d.dim[d.rank++] = 1;
  return tc_rec_reshape(t, v, &d);
}
