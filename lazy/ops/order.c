// Public ops about order: sorting, the first k, the k-th, and where values would go.
//
// The ops record positions, which have no gradient. Values are gathered by position, so that their
// gradient goes to where they came from.
// Source: aten/src/ATen/native/Sorting.cpp and Bucketization.cpp for which of equals comes first
// and where NaN goes.
// Threads: thread-compatible, each thread records its own trace.
#define TC_NO_SITES
#include "lazy/record/formula.h"

static tc_tensor sort(const char *name, tc_tensor x, int axis, bool descending, bool values, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  tc_node a = tc_op_in(t, x), row;
  int k = tc_compose_axis(t, a, axis, &row);
  if (k < 0) return tc_op_end(t, TC_NODE_ERR);
  tc_node at = tc_rec_argsort(t, row, k, descending);
  return tc_op_end(t, tc_compose_like_row(t, a, row, values ? tc_rec_gather(t, row, k, at) : at));
}

tc_tensor tc_sort_at(tc_tensor x, int axis, bool descending, tc_site site) {
  return sort("sort", x, axis, descending, true, site);
}

tc_tensor tc_argsort_at(tc_tensor x, int axis, bool descending, tc_site site) {
  return sort("argsort", x, axis, descending, false, site);
}

static tc_tensor topk(const char *name, tc_tensor x, int64_t k, int axis, bool largest, bool values, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  tc_node a = tc_op_in(t, x), row;
  int along = tc_compose_axis(t, a, axis, &row);
  if (along < 0) return tc_op_end(t, TC_NODE_ERR);
  tc_node at = tc_rec_argtopk(t, row, k, along, largest), y = values ? tc_rec_gather(t, row, along, at) : at;
  return tc_op_end(t, k == 1 ? tc_compose_like_row(t, a, row, y) : y);
}

tc_tensor tc_topk_at(tc_tensor x, int64_t k, int axis, bool largest, tc_site site) {
  return topk("topk", x, k, axis, largest, true, site);
}

tc_tensor tc_argtopk_at(tc_tensor x, int64_t k, int axis, bool largest, tc_site site) {
  return topk("argtopk", x, k, axis, largest, false, site);
}

// The elements of a at the positions `at`, which have extent one along the axis.
static tc_node taken(tc_trace *t, tc_node a, int axis, tc_node at, bool keepdim) {
  tc_node y = tc_rec_gather(t, a, axis, at);
  return keepdim ? y : tc_rec_drop_axis(t, y, axis);
}

tc_tensor tc_kthvalue_at(tc_tensor x, int64_t k, int axis, bool keepdim, tc_site site) {
  tc_trace *t = tc_op_begin("kthvalue", site);
  tc_node a = tc_op_in(t, x), row;
  int along = tc_compose_axis(t, a, axis, &row);
  if (along < 0) return tc_op_end(t, TC_NODE_ERR);
  return tc_op_end(t, taken(t, row, along, tc_rec_argkth(t, row, k, along, false), keepdim && row == a));
}

tc_tensor tc_median_at(tc_tensor x, int axis, bool keepdim, tc_site site) {
  tc_trace *t = tc_op_begin("median", site);
  tc_node a = tc_op_in(t, x), row;
  int along = tc_compose_axis(t, a, axis, &row);
  if (along < 0) return tc_op_end(t, TC_NODE_ERR);
  int64_t n = tc_node_dims(t, row)->dim[along];
  if (n == 0) return tc_op_end(t, tc_rec_fail(t, TC_ERR_SHAPE, "axis %d has no elements", along));
  tc_node at = tc_rec_argkth(t, row, (n + 1) / 2, along, false);
  if (at != TC_NODE_ERR && tc_type_is_float(tc_node_type(t, row))) {  // the first NaN is the greatest
    tc_node most = tc_rec_fold(t, TC_OP_ARGMAX, tc_rec_detach(t, row), UINT32_C(1) << along, true);
    at = tc_rec_where(t, tc_rec_unary(t, TC_OP_ISNAN, tc_rec_gather(t, tc_rec_detach(t, row), along, most)), most, at);
  }
  return tc_op_end(t, taken(t, row, along, at, keepdim && row == a));
}

static tc_tensor search(const char *name, tc_tensor sorted, tc_tensor values, bool right, bool one, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  tc_node s = tc_op_in(t, sorted), v = tc_op_in(t, values);
  char text[128];
  if (one && s != TC_NODE_ERR && tc_node_dims(t, s)->rank != 1)
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_SHAPE, "boundaries are %s; rank 1 is needed",
                                    tc_dims_text(tc_node_dims(t, s), text, sizeof text)));
  return tc_op_end(t, tc_rec_searchsorted(t, s, v, right));
}

tc_tensor tc_searchsorted_at(tc_tensor sorted, tc_tensor values, bool right, tc_site site) {
  return search("searchsorted", sorted, values, right, false, site);
}

tc_tensor tc_bucketize_at(tc_tensor x, tc_tensor boundaries, bool right, tc_site site) {
  return search("bucketize", boundaries, x, right, true, site);
}
