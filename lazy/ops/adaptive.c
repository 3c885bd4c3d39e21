// Adaptive pooling: the result's extents are given. Element i of n pools the stretch from
// floor(i l / n) to ceil((i + 1) l / n) of an axis of l elements.
//
// Where every axis is cut evenly, windows tile it and one fold does. Else axis by axis is read by
// index in rows as long as the longest stretch, and folded. For means, what is beyond a stretch is
// masked; for the greatest, its last element is repeated.
// Source: aten/src/ATen/native/AdaptiveAveragePooling.cpp and AdaptiveMaxPooling2d.cpp.
// Threads: thread-compatible, each thread records its own trace.
#define TC_NO_SITES
#include "lazy/ops/pool.h"

typedef struct stretches {
  tc_node at, inside;  // [n, longest]: elements, and whether they belong to the stretch
  tc_node count;  // [n]
} stretches;

static stretches cut(tc_trace *t, int64_t l, int64_t n) {
  tc_dims rows = TC_SHAPE(n, 1), columns = TC_SHAPE((l + n - 1) / n + 1), flat = TC_SHAPE(n);
  tc_node from = f_int(t, TC_OP_FLOOR_DIVIDE, tc_rec_iota(t, &rows, TC_I64, 0, (double)l), n);
  tc_node to = f_int(t, TC_OP_FLOOR_DIVIDE, tc_rec_iota(t, &rows, TC_I64, (double)(l + n - 1), (double)l), n);
  tc_node at = f_add(t, from, tc_rec_iota(t, &columns, TC_I64, 0, 1));
  stretches s = {.inside = tc_rec_binary(t, TC_OP_LT, at, to), .count = tc_rec_reshape(t, f_sub(t, to, from), &flat)};
  s.at = tc_rec_binary(t, TC_OP_MINIMUM, at, f_int(t, TC_OP_SUB, to, 1));
  return s;
}

static tc_node means(tc_trace *t, tc_node a, int axis, int64_t n) {
  int rank = tc_node_dims(t, a)->rank;
  stretches s = cut(t, tc_node_dims(t, a)->dim[axis], n);
  a = tc_rec_index_select(t, a, axis, s.at);
  if (a == TC_NODE_ERR) return a;
  tc_node sum = tc_rec_fold(t, TC_OP_SUM, f_keep(t, tc_pool_on_axis(t, s.inside, rank + 1, axis), a, 0),
                            UINT32_C(1) << (axis + 1), false);
  return f_div(t, sum, tc_pool_on_axis(t, tc_rec_cast(t, s.count, tc_node_type(t, a)), rank, axis));
}

// The first of the greatest along the last axis, then of those along the axis before it: the first
// in the order of the image.
static tc_node greatest(tc_trace *t, tc_node a, int axis, int64_t n) {
  stretches s = cut(t, tc_node_dims(t, a)->dim[axis], n);
  a = tc_rec_index_select(t, a, axis, s.at);
  if (a == TC_NODE_ERR) return a;
  tc_node first = tc_rec_fold(t, TC_OP_ARGMAX, tc_rec_detach(t, a), UINT32_C(1) << (axis + 1), true);
  return tc_rec_drop_axis(t, tc_rec_gather(t, a, axis + 1, first), axis + 1);
}

// All axes cut evenly.
static tc_node tiles(tc_trace *t, tc_node a, int n, const int64_t *size) {
  tc_dims d = *tc_node_dims(t, a), split = d, axes = {.rank = d.rank + n};
  int first = d.rank - n;
  for (int i = 0; i < n; i++)
    split.dim[first + 2 * i] = size[i], split.dim[first + 2 * i + 1] = d.dim[first + i] / size[i];
  split.rank = d.rank + n;
  for (int i = 0; i < first; i++) axes.dim[i] = i;
  for (int i = 0; i < n; i++) axes.dim[first + i] = first + 2 * i, axes.dim[first + n + i] = first + 2 * i + 1;
  uint32_t folded = ((UINT32_C(1) << n) - 1) << (first + n);
  return tc_compose_mean(t, tc_rec_permute(t, tc_rec_reshape(t, a, &split), &axes), folded, false);
}

static tc_tensor adaptive(const char *name, int n, bool max, tc_tensor x, const tc_dims *size, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  tc_node a = tc_op_in(t, x);
  tc_type type = f_type(t, a);
  int64_t out[TC_POOL_AXES];
  if (a == TC_NODE_ERR || !tc_compose_list(t, "size", size, n, 0, 1, out)) return tc_op_end(t, TC_NODE_ERR);
  int rank = tc_node_dims(t, a)->rank;
  if (rank != n + 1 && rank != n + 2)
    return tc_op_end(
        t, tc_rec_fail(t, TC_ERR_SHAPE, "x has rank %d; %d, or %d without a batch, is needed", rank, n + 2, n + 1));
  bool even = true;
  for (int i = 0; i < n; i++) {
    int64_t l = tc_node_dims(t, a)->dim[rank - n + i];
    if (l == 0) return tc_op_end(t, tc_rec_fail(t, TC_ERR_SHAPE, "axis %d of x has no elements", rank - n + i));
    even = even && l % out[i] == 0;
  }
  if (!max) a = f_widen(t, a);
  if (!max && even && a != TC_NODE_ERR) return tc_op_end(t, f_narrow(t, tiles(t, a, n, out), type));
  for (int i = n; i-- > 0 && a != TC_NODE_ERR;) a = (max ? greatest : means)(t, a, rank - n + i, out[i]);
  return tc_op_end(t, max ? a : f_narrow(t, a, type));
}

#define ADAPTIVE(name, n, max) \
  tc_tensor tc_##name##_at(tc_tensor x, tc_dims size, tc_site site) { \
    return adaptive(#name, n, max, x, &size, site); \
  }
ADAPTIVE(adaptive_avg_pool1d, 1, false)
ADAPTIVE(adaptive_avg_pool2d, 2, false)
ADAPTIVE(adaptive_avg_pool3d, 3, false)
ADAPTIVE(adaptive_max_pool1d, 1, true)
ADAPTIVE(adaptive_max_pool2d, 2, true)
ADAPTIVE(adaptive_max_pool3d, 3, true)
