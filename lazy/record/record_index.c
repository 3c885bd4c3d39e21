// Recording what reads or writes where an index says. See record.h.
#include <float.h>
#include <math.h>

#include "lazy/record/record_shorthand.h"

static bool good_index(tc_trace *t, tc_node index) {
  if (!ok(t, index)) return false;
  tc_type type = type_of(t, index);
  if (type != TC_BOOL && !tc_type_is_float(type)) return true;
  return tc_rec_fail(t, TC_ERR_DTYPE, "indices are %s; an integer type was expected", tc_type_name(type)), false;
}

// Whether index fits in x off axis (equal: must be equal), as torch.gather and torch.scatter ask.
static bool index_fits(tc_trace *t, const tc_dims *x, const tc_dims *index, int axis) {
  bool fits = x->rank == index->rank;
  for (int i = 0; fits && i < x->rank; i++) fits = i == axis || index->dim[i] <= x->dim[i];
  if (fits) return true;
  char tx[128], ti[128];
  tc_dims_text(index, ti, sizeof ti), tc_dims_text(x, tx, sizeof tx);
  if (x->rank != index->rank)
    tc_rec_fail(t, TC_ERR_SHAPE, "indices %s have rank %d, x %s has rank %d; one rank was expected", ti, index->rank,
                tx, x->rank);
  else
    tc_rec_fail(t, TC_ERR_SHAPE, "indices %s do not fit in x %s off axis %d", ti, tx, axis);
  return false;
}

tc_node tc_rec_gather(tc_trace *t, tc_node x, int axis, tc_node index) {
  if ((axis = tc_rec_axis(t, x, axis, 0)) < 0 || !good_index(t, index)) return TC_NODE_ERR;
  if (!index_fits(t, tc_node_dims(t, x), tc_node_dims(t, index), axis)) return TC_NODE_ERR;
  index = tc_rec_cast(t, index, TC_I64);
  uint64_t attr = (uint64_t)axis;
  return !ok(t, index) ? TC_NODE_ERR
                       : tc_rec_append(t, TC_OP_GATHER, type_of(t, x), shape_of(t, index), 2, (tc_node[]){x, index}, 1,
                                       &attr, 0, NULL);
}

// x's shape with axis replaced by index's axes.
static bool selected_dims(tc_trace *t, tc_node x, int axis, tc_node index, tc_dims *out) {
  const tc_dims *d = tc_node_dims(t, x), *di = tc_node_dims(t, index);
  *out = (tc_dims){0};
  if (d->rank - 1 + di->rank > TC_MAX_RANK)
    return tc_rec_fail(t, TC_ERR_SHAPE, "the result would have rank %d, the limit is %d", d->rank - 1 + di->rank,
                       TC_MAX_RANK),
           false;
  for (int i = 0; i < axis; i++) out->dim[out->rank++] = d->dim[i];
  for (int i = 0; i < di->rank; i++) out->dim[out->rank++] = di->dim[i];
  for (int i = axis + 1; i < d->rank; i++) out->dim[out->rank++] = d->dim[i];
  return true;
}

tc_node tc_rec_index_select(tc_trace *t, tc_node x, int axis, tc_node index) {
  tc_dims out;
  if ((axis = tc_rec_axis(t, x, axis, 0)) < 0 || !good_index(t, index) || !selected_dims(t, x, axis, index, &out))
    return TC_NODE_ERR;
  index = tc_rec_cast(t, index, TC_I64);
  uint64_t attr = (uint64_t)axis;
  return !ok(t, index) ? TC_NODE_ERR
                       : tc_rec_append(t, TC_OP_INDEX_SELECT, type_of(t, x), tc_rec_intern(t, &out), 2,
                                       (tc_node[]){x, index}, 1, &attr, 0, NULL);
}

static bool broadcasts(const tc_dims *from, const tc_dims *to) {
  bool fits = from->rank <= to->rank;
  for (int i = 1; fits && i <= from->rank; i++)
    fits = from->dim[from->rank - i] == 1 || from->dim[from->rank - i] == to->dim[to->rank - i];
  return fits;
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
  // more of src than indices: the first of it
  if (src != TC_NODE_ERR && op != TC_OP_INDEX_ADD && tc_node_dims(t, src)->rank == want.rank) {
    tc_dims have = *tc_node_dims(t, src), part = have;
    for (int i = 0; i < want.rank; i++) part.dim[i] = TC_MIN(have.dim[i], want.dim[i]);
    if (!tc_dims_equal(&part, &have)) src = tc_rec_first(t, src, &part);
  }
  if (ok(t, src) && !broadcasts(tc_node_dims(t, src), &want)) {
    char ts[128], tw[128];
    return tc_rec_fail(t, TC_ERR_SHAPE, "src %s does not broadcast to %s, where the indices say",
                       tc_dims_text(tc_node_dims(t, src), ts, sizeof ts), tc_dims_text(&want, tw, sizeof tw));
  }
  src = tc_rec_expand(t, src, &want);
  index = tc_rec_cast(t, index, TC_I64);
  uint64_t attr = (uint64_t)axis;
  if (!ok(t, src) || !ok(t, index)) return TC_NODE_ERR;
  return tc_rec_append(t, op, type_of(t, x), shape_of(t, x), 3, (tc_node[]){x, index, src}, 1, &attr, 0, NULL);
}

// ---- sums at few places of many ----
//
// The gradient of a large table in a training step that looked up few of its rows. It is not stored
// as zeros in the table's shape.
// Instead there is a row for each look-up, a row of zeros, and for each place of the table the
// number of its row. Readers of the sum read those rows: the values are the same.

#define FEW 4  // at most one in so many places of the axis
#define LEAST_SUM (INT64_C(1) << 16)  // elements; fewer are sooner filled with zeros
#define LEAST_ROW 16  // elements at a place, for the number that says which row it has

static bool is_of_few(const tc_dims *d, int axis, int64_t n) {
  int64_t count = tc_dims_count(d);
  return count >= LEAST_SUM && n > 0 && n <= d->dim[axis] / FEW && count / d->dim[axis] >= LEAST_ROW;
}

tc_node tc_rec_sum_at(tc_trace *t, const tc_dims *shape, int axis, tc_node index, tc_node src) {
  if (!good_index(t, index) || !ok(t, src)) return TC_NODE_ERR;
  const tc_dims n = *tc_node_dims(t, index), places = tc_dims_of(1, &shape->dim[axis]);
  tc_type type = type_of(t, src);
  if (t->tape || !is_of_few(shape, axis, n.dim[0]))  // a gradient of this is a plain look-up
    return tc_rec_scatter(t, TC_OP_INDEX_ADD, tc_rec_full(t, shape, type, 0), axis, index, src);
  index = tc_rec_cast(t, index, TC_I64);
  tc_node row = tc_rec_scatter(t, TC_OP_SCATTER, tc_rec_full_int(t, &places, TC_I64, 0), 0, index,
                               tc_rec_iota(t, &n, TC_I64, 1, 1));
  tc_dims few = *shape;
  few.dim[axis] = n.dim[0] + 1;
  tc_node rows =
      tc_rec_scatter(t, TC_OP_INDEX_ADD, tc_rec_full(t, &few, type, 0), axis, tc_rec_gather(t, row, 0, index), src);
  return tc_rec_index_select(t, rows, axis, row);
}

// The operands of node n if it is a record of this op along this axis, else NULL.
static const uint32_t *operands_of(const tc_trace *t, tc_node n, tc_op op, uint64_t axis) {
  const tc_rec *r = tc_rec_of(t, n);
  return tc_rec_op(r) == op && tc_rec_attr(r)[0] == axis ? tc_rec_in(r) : NULL;
}

// Whether node n is a record of this op, FULL or IOTA, whose arguments are all this.
static bool is_made_of(const tc_trace *t, tc_node n, tc_op op, uint64_t arg) {
  const tc_rec *r = tc_rec_of(t, n);
  bool all = tc_rec_op(r) == op;
  for (uint32_t i = 0; i < tc_rec_args(r) && all; i++) all = t->arg[t->arg_at[n] + i] == arg;
  return all;
}

// Whether g is what tc_rec_sum_at makes of few places; then its rows, and the index of where all
// but the first belong. Each place has its sum in one row, and what is in others for it is zero.
static bool find_rows(const tc_trace *t, tc_node g, uint64_t axis, tc_node *rows, tc_node *index) {
  const uint32_t *select, *add, *gather, *scatter;
  if (!(select = operands_of(t, g, TC_OP_INDEX_SELECT, axis)) ||
      !(add = operands_of(t, select[0], TC_OP_INDEX_ADD, axis)))
    return false;
  if (!(gather = operands_of(t, add[1], TC_OP_GATHER, 0)) || !(scatter = operands_of(t, select[1], TC_OP_SCATTER, 0)))
    return false;
  *rows = select[0], *index = scatter[1];
  return gather[0] == select[1] && gather[1] == *index && tc_node_dims(t, *index)->rank == 1 &&
         is_made_of(t, add[0], TC_OP_FULL, 0) && is_made_of(t, scatter[0], TC_OP_FULL, 0) &&
         is_made_of(t, scatter[2], TC_OP_IOTA, 1);
}

tc_node tc_rec_add_sum_at(tc_trace *t, tc_node a, tc_node g, double alpha) {
  if (!ok(t, a) || !ok(t, g)) return TC_NODE_ERR;
  tc_node rows = TC_NODE_ERR, index = TC_NODE_ERR;
  int axis = 0;
  // narrower types are added up in a copy of all
  bool plain = (type_of(t, g) != TC_F32 && type_of(t, g) != TC_F64) || !(fabs(alpha) <= FLT_MAX);
  const tc_dims *d = tc_node_dims(t, g);
  while (!plain && axis < d->rank && !find_rows(t, g, (uint64_t)axis, &rows, &index)) axis++;
  if (plain || axis == d->rank || shape_of(t, a) != shape_of(t, g))
    return tc_rec_binary(t, TC_OP_ADD, a, tc_rec_num(t, TC_OP_MUL, g, tc_num_float(alpha)));
  int64_t n = tc_node_dims(t, index)->dim[0];
  tc_node src = tc_rec_num(t, TC_OP_MUL, tc_rec_slice_axis(t, rows, axis, 1, 1, n), tc_num_float(alpha));
  return tc_rec_scatter(t, TC_OP_INDEX_ADD, a, axis, index, src);
}
