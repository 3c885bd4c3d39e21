// Recording what looks along an axis: folds, scans, orders, softmax, and pooling. See record.h.
#include "lazy/record/record_shorthand.h"

tc_node tc_rec_fold(tc_trace *t, tc_op op, tc_node a, uint32_t axes_mask, bool keepdim) {
  if (!ok(t, a)) return TC_NODE_ERR;
  const tc_dims *d = tc_node_dims(t, a);
  tc_type out = type_of(t, a);
  if (tc_op_rule(op) == TC_RULE_boolean) a = tc_rec_cast(t, a, out = TC_BOOL);
  if (tc_op_rule(op) == TC_RULE_sum && !tc_type_is_float(out)) a = tc_rec_cast(t, a, out = TC_I64);
  if (tc_op_rule(op) == TC_RULE_index) out = TC_I64;
  tc_dims shape = {0};
  bool empty = false;
  char text[128];
  for (int i = 0; i < d->rank; i++) {
    bool folded = axes_mask >> i & 1;
    if (folded) empty |= d->dim[i] == 0;
    if (!folded || keepdim) shape.dim[shape.rank++] = folded ? 1 : d->dim[i];
  }
  if (empty && (op == TC_OP_MAX || op == TC_OP_MIN || op == TC_OP_ARGMAX || op == TC_OP_ARGMIN) &&
      tc_dims_count(&shape) > 0)
    return tc_rec_fail(t, TC_ERR_SHAPE, "x is %s and has no elements to choose from",
                       tc_dims_text(d, text, sizeof text));
  if (!ok(t, a)) return TC_NODE_ERR;
  uint64_t attr = axes_mask | (uint64_t)keepdim << 8;
  return tc_rec_append_dims(t, op, out, &shape, a, 1, &attr);
}

tc_node tc_rec_scan(tc_trace *t, tc_op op, tc_node a, int axis) {
  if ((axis = tc_rec_axis(t, a, axis, 0)) < 0) return TC_NODE_ERR;
  if (tc_op_rule(op) == TC_RULE_sum && !tc_type_is_float(type_of(t, a))) a = tc_rec_cast(t, a, TC_I64);
  if (tc_op_rule(op) == TC_RULE_floating && !tc_type_is_float(type_of(t, a))) a = tc_rec_cast(t, a, TC_F32);
  return tc_rec_append_like(t, op, a, (uint64_t)axis);
}

// Positions are kept in 32 bits while they are sorted (kernels/ref/sort.c).
static bool can_be_sorted(tc_trace *t, tc_node a, int axis) {
  int64_t n = tc_node_dims(t, a)->dim[axis];
  if (n <= UINT32_MAX) return true;
  return tc_rec_fail(t, TC_ERR_SHAPE, "axis %d has %lld elements; %lld can be sorted", axis, (long long)n,
                     (long long)UINT32_MAX),
         false;
}

tc_node tc_rec_argsort(tc_trace *t, tc_node a, int axis, bool descending) {
  if ((axis = tc_rec_axis(t, a, axis, 0)) < 0 || !can_be_sorted(t, a, axis)) return TC_NODE_ERR;
  uint64_t attr[2] = {(uint64_t)axis, descending};
  return tc_rec_append(t, TC_OP_ARGSORT, TC_I64, shape_of(t, a), 1, &a, 2, attr, 0, NULL);
}

tc_node tc_rec_argtopk(tc_trace *t, tc_node a, int64_t k, int axis, bool descending) {
  if ((axis = tc_rec_axis(t, a, axis, 0)) < 0 || !can_be_sorted(t, a, axis)) return TC_NODE_ERR;
  tc_dims d = *tc_node_dims(t, a);
  if (k < 0 || k > d.dim[axis])
    return tc_rec_fail(t, TC_ERR_ARG, "k is %lld; axis %d has %lld elements", (long long)k, axis,
                       (long long)d.dim[axis]);
  uint64_t attr[2] = {(uint64_t)axis, descending};
  d.dim[axis] = k;
  return tc_rec_append_dims(t, TC_OP_ARGTOPK, TC_I64, &d, a, 2, attr);
}

tc_node tc_rec_argkth(tc_trace *t, tc_node a, int64_t k, int axis, bool descending) {
  if ((axis = tc_rec_axis(t, a, axis, 0)) < 0 || !can_be_sorted(t, a, axis)) return TC_NODE_ERR;
  tc_dims d = *tc_node_dims(t, a);
  if (k < 1 || k > d.dim[axis])
    return tc_rec_fail(t, TC_ERR_ARG, "k is %lld; axis %d has %lld elements", (long long)k, axis,
                       (long long)d.dim[axis]);
  uint64_t attr[2] = {(uint64_t)axis, descending}, arg[TC_MAX_RANK] = {0};
  arg[axis] = (uint64_t)(k - 1);
  d.dim[axis] = 1;
  return tc_rec_append(t, TC_OP_ARGKTH, TC_I64, tc_rec_intern(t, &d), 1, &a, 2, attr, d.rank, arg);
}

tc_node tc_rec_searchsorted(tc_trace *t, tc_node sorted, tc_node values, bool right) {
  if (!ok(t, sorted) || !ok(t, values)) return TC_NODE_ERR;
  const tc_dims *ds = tc_node_dims(t, sorted), *dv = tc_node_dims(t, values);
  bool fits = ds->rank == 1 || (ds->rank > 1 && ds->rank == dv->rank);
  for (int i = 0; fits && i < ds->rank - 1; i++) fits = ds->dim[i] == dv->dim[i];
  if (!fits) {
    char ts[128], tv[128];
    return tc_rec_fail(t, TC_ERR_SHAPE, "sorted is %s, values are %s; [n], or [.., n] and [.., m], is needed",
                       tc_dims_text(ds, ts, sizeof ts), tc_dims_text(dv, tv, sizeof tv));
  }
  tc_type type = tc_type_promote(type_of(t, sorted), type_of(t, values));
  sorted = tc_rec_cast(t, sorted, type), values = tc_rec_cast(t, values, type);
  uint64_t attr = right;
  if (!ok(t, sorted) || !ok(t, values)) return TC_NODE_ERR;
  return tc_rec_append(t, TC_OP_SEARCHSORTED, TC_I64, shape_of(t, values), 2, (tc_node[]){sorted, values}, 1, &attr, 0,
                       NULL);
}

tc_node tc_rec_softmax(tc_trace *t, tc_op op, tc_node a, int axis) {
  if ((axis = tc_rec_axis(t, a, axis, 0)) < 0) return TC_NODE_ERR;
  if (!tc_type_is_float(type_of(t, a))) a = tc_rec_cast(t, a, TC_F32);
  return tc_rec_append_like(t, op, a, (uint64_t)axis);
}

tc_node tc_rec_pool(tc_trace *t, tc_node y, tc_node a, int n_attr, const uint64_t *attr) {
  if (!ok(t, y) || !ok(t, a)) return TC_NODE_ERR;
  return tc_rec_append(t, TC_OP_POOL, type_of(t, y), shape_of(t, y), 2, (tc_node[]){y, a}, n_attr, attr, 0, NULL);
}
