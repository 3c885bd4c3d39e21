// Recording what reads or writes where an index says. See record.h.
#include "lazy/record_short.h"

static bool good_index(tc_trace *t, tc_node index) {
  if (!ok(t, index)) return false;
  tc_type type = type_of(t, index);
  if (type != TC_BOOL && !tc_type_is_float(type)) return true;
  return tc_rec_fail(t, TC_ERR_DTYPE, "indices are %s; i32 or i64 was expected", tc_type_name(type)), false;
}

// Whether index fits in x off axis (equal: must be equal), as torch.gather and torch.scatter ask.
static bool index_fits(tc_trace *t, const tc_dims *x, const tc_dims *index, int axis) {
  bool fits = x->rank == index->rank;
  for (int i = 0; fits && i < x->rank; i++) fits = i == axis || index->dim[i] <= x->dim[i];
  if (fits) return true;
  char tx[128], ti[128];
  tc_rec_fail(t, TC_ERR_SHAPE, "indices %s do not fit in %s off axis %d", tc_dims_text(index, ti, sizeof ti), tc_dims_text(x, tx, sizeof tx), axis);
  return false;
}

tc_node tc_rec_gather(tc_trace *t, tc_node x, int axis, tc_node index) {
  if ((axis = tc_rec_axis(t, x, axis, 0)) < 0 || !good_index(t, index)) return TC_NODE_ERR;
  if (!index_fits(t, tc_node_dims(t, x), tc_node_dims(t, index), axis)) return TC_NODE_ERR;
  index = tc_rec_cast(t, index, TC_I64);
  uint64_t attr = (uint64_t)axis;
  return !ok(t, index) ? TC_NODE_ERR : tc_rec_append(t, TC_OP_GATHER, type_of(t, x), shape_of(t, index), 2, (tc_node[]){x, index}, 1, &attr, 0, NULL);
}

// x's shape with axis replaced by index's axes.
static bool selected_dims(tc_trace *t, tc_node x, int axis, tc_node index, tc_dims *out) {
  const tc_dims *d = tc_node_dims(t, x), *di = tc_node_dims(t, index);
  *out = (tc_dims){0};
  if (d->rank - 1 + di->rank > TC_MAX_RANK) return tc_rec_fail(t, TC_ERR_SHAPE, "the result's rank would be %d", d->rank - 1 + di->rank), false;
  for (int i = 0; i < axis; i++) out->dim[out->rank++] = d->dim[i];
  for (int i = 0; i < di->rank; i++) out->dim[out->rank++] = di->dim[i];
  for (int i = axis + 1; i < d->rank; i++) out->dim[out->rank++] = d->dim[i];
  return true;
}

tc_node tc_rec_index_select(tc_trace *t, tc_node x, int axis, tc_node index) {
  tc_dims out;
  if ((axis = tc_rec_axis(t, x, axis, 0)) < 0 || !good_index(t, index) || !selected_dims(t, x, axis, index, &out)) return TC_NODE_ERR;
  index = tc_rec_cast(t, index, TC_I64);
  uint64_t attr = (uint64_t)axis;
  return !ok(t, index) ? TC_NODE_ERR
                       : tc_rec_append(t, TC_OP_INDEX_SELECT, type_of(t, x), tc_rec_intern(t, &out), 2, (tc_node[]){x, index}, 1, &attr, 0, NULL);
}

tc_node tc_rec_scatter(tc_trace *t, tc_op op, tc_node x, int axis, tc_node index, tc_node src) {
  if ((axis = tc_rec_axis(t, x, axis, 0)) < 0 || !good_index(t, index) || !ok(t, src)) return TC_NODE_ERR;
  tc_dims want = *tc_node_dims(t, index);
  if (op == TC_OP_INDEX_ADD) {
    if (!selected_dims(t, x, axis, index, &want)) return TC_NODE_ERR;
  } else if (!index_fits(t, tc_node_dims(t, x), &want, axis)) {
    return TC_NODE_ERR;
  }
  src = tc_rec_cast(t, src, type_of(t, x));
  if (src != TC_NODE_ERR && op != TC_OP_INDEX_ADD && tc_node_dims(t, src)->rank == want.rank) {  // more of src than indices: the first of it
    tc_dims have = *tc_node_dims(t, src), part = have;
    for (int i = 0; i < want.rank; i++) part.dim[i] = TC_MIN(have.dim[i], want.dim[i]);
    if (!tc_dims_equal(&part, &have)) src = tc_rec_first(t, src, &part);
  }
  src = tc_rec_expand(t, src, &want);
  index = tc_rec_cast(t, index, TC_I64);
  uint64_t attr = (uint64_t)axis;
  if (!ok(t, src) || !ok(t, index)) return TC_NODE_ERR;
  return tc_rec_append(t, op, type_of(t, x), shape_of(t, x), 3, (tc_node[]){x, index, src}, 1, &attr, 0, NULL);
}
