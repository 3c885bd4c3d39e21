// Resizing of images. The first two axes are kept, the others are spatial.
//
// The idea: neighbours are read by index and mixed, an axis after the other.
// Source: aten/src/ATen/native/cpu/UpSampleKernel.cpp.
// Threads: thread-compatible, each thread records its own trace.
#define TC_NO_SITES
#include "lazy/ops/pool.h"

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
  tc_node w =
      tc_pool_on_axis(t, tc_rec_cast(t, f_sub(t, at, tc_rec_cast(t, low, TC_F64)), tc_node_type(t, a)), rank, axis);
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
  int64_t to[TC_POOL_AXES];
  if (n < 1 || n > TC_POOL_AXES)
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_SHAPE, "x has rank %d; 3 to %d is needed", d->rank, 2 + TC_POOL_AXES));
  if (!tc_compose_list(t, "size", &size, n, 0, 1, to)) return tc_op_end(t, TC_NODE_ERR);
  if (options.mode != TC_NEAREST && options.mode != TC_LINEAR)
    return tc_op_end(t,
                     tc_rec_fail(t, TC_ERR_ARG, "mode is %d; TC_NEAREST or TC_LINEAR was expected", (int)options.mode));
  if (options.mode == TC_NEAREST && options.align_corners)
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "align_corners is for TC_LINEAR"));
  if (options.mode == TC_LINEAR) type = f_type(t, a), a = f_widen(t, a);
  for (int i = 0; i < n && a != TC_NODE_ERR; i++) {
    int64_t l = tc_node_dims(t, a)->dim[2 + i];
    if (l == 0) return tc_op_end(t, tc_rec_fail(t, TC_ERR_SHAPE, "axis %d of x has no elements", 2 + i));
    if (l != to[i])
      a = options.mode == TC_NEAREST ? nearest(t, a, 2 + i, to[i]) : linear(t, a, 2 + i, to[i], options.align_corners);
  }
  return tc_op_end(t, f_narrow(t, a, type));
}
