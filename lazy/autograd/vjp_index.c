// Gradient rules of ops that read or write by index. A read's gradient is added where it came from;
// a write's is read where it went.
// Indices get none. Threads: under the trace's lock. Owner: nobody.
#include "lazy/autograd/vjp_shorthand.h"

// d with another extent along one axis.
static tc_dims with_axis(const tc_dims *d, int axis, int64_t extent) {
  tc_dims out = *d;
  out.dim[axis] = extent;
  return out;
}

// The gradient where the position along the axis equals the index, which has extent one there;
// elsewhere zero. The result is a scatter's, but the work is elementwise.
static tc_node only_at(tc_vjp *v, int axis, tc_node index) {
  const tc_dims *d = tc_vjp_in_dims(v, 0);
  tc_dims row = *d;
  for (int32_t i = 0; i < d->rank; i++)
    if (i != axis) row.dim[i] = 1;
  tc_node extent = tc_rec_const(v->t, index, (double)d->dim[axis]);
  tc_node wrapped = tc_rec_where(v->t, bin(v, TC_OP_LT, index, tc_rec_const(v->t, index, 0)),
                                 bin(v, TC_OP_ADD, index, extent), index);
  tc_type narrow = d->dim[axis] <= INT32_MAX ? TC_I32 : TC_I64;  // twice the positions a vector
  tc_node hit = bin(v, TC_OP_EQ, tc_rec_iota(v->t, &row, narrow, 0, 1), tc_rec_cast(v->t, wrapped, narrow));
  return only_where(v, hit, v->g);
}

// Operands (x, index).
void tc_vjp_gather(tc_vjp *v) {
  if (!tc_vjp_requires_grad(v, 0)) return;
  int axis = (int)v->attr[0];
  const tc_dims *d = tc_vjp_in_dims(v, 0), *di = tc_vjp_in_dims(v, 1);
  bool one_each = di->dim[axis] == 1;
  for (int32_t i = 0; i < d->rank; i++) one_each &= i == axis || di->dim[i] == d->dim[i];
  if (one_each) {
    tc_vjp_give(v, 0, only_at(v, axis, tc_vjp_in(v, 1)));
    return;
  }
  tc_vjp_give(v, 0, tc_rec_scatter(v->t, TC_OP_SCATTER_ADD, zeros_in(v, 0), (int)v->attr[0], tc_vjp_in(v, 1), v->g));
}

// Operands (x, index). An index of any rank is taken flat: then the gradient has x's rank, as
// INDEX_ADD asks.
void tc_vjp_index_select(tc_vjp *v) {
  if (!tc_vjp_requires_grad(v, 0)) return;
  int axis = (int)v->attr[0];
  tc_dims flat = tc_dims_of(1, (const int64_t[]){tc_dims_count(tc_vjp_in_dims(v, 1))});
  tc_dims shape = with_axis(tc_vjp_in_dims(v, 0), axis, flat.dim[0]);
  tc_node index = tc_rec_reshape(v->t, tc_vjp_in(v, 1), &flat);
  tc_node g = tc_rec_reshape(v->t, v->g, &shape);
  tc_vjp_give(v, 0, tc_rec_sum_at(v->t, tc_vjp_in_dims(v, 0), axis, index, g));
}

// g read at the index, in the shape of src, which may be larger than the index: the rest was not
// read and gets zero.
static tc_node src_grad(tc_vjp *v, tc_node read) {
  static const int64_t start[TC_MAX_RANK] = {0}, step[TC_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  const tc_dims *index = tc_vjp_in_dims(v, 1), *src = tc_vjp_in_dims(v, 2);
  bool same = true;
  for (int32_t i = 0; i < src->rank; i++) same = same && index->dim[i] == src->dim[i];
  if (same) return read;
  return tc_rec_write_slice(v->t, zeros_in(v, 2), read, start, step);
}

// Operands (x, index, src). Where an index comes twice the last one was kept, so only that one has
// a gradient. Each position's own number is scattered, to see which came through. PyTorch leaves
// this case undefined.
void tc_vjp_scatter(tc_vjp *v) {
  int axis = (int)v->attr[0];
  tc_node index = tc_vjp_in(v, 1);
  const tc_dims *d = tc_vjp_in_dims(v, 1);
  if (tc_vjp_requires_grad(v, 0)) {
    tc_node zero = tc_rec_full(v->t, d, tc_vjp_in_type(v, 0), 0);
    tc_vjp_give(v, 0, tc_rec_scatter(v->t, TC_OP_SCATTER, v->g, axis, index, zero));
  }
  if (!tc_vjp_requires_grad(v, 2)) return;
  tc_node mine = tc_rec_iota(v->t, d, TC_I64, 0, 1);
  tc_node last = tc_rec_full_int(v->t, tc_vjp_in_dims(v, 0), TC_I64, 0);
  last = tc_rec_scatter(v->t, TC_OP_SCATTER, last, axis, index, mine);
  tc_node kept = bin(v, TC_OP_EQ, tc_rec_gather(v->t, last, axis, index), mine);
  tc_vjp_give(v, 2, src_grad(v, only_where(v, kept, tc_rec_gather(v->t, v->g, axis, index))));
}

void tc_vjp_scatter_add(tc_vjp *v) {
  if (tc_vjp_requires_grad(v, 0)) tc_vjp_give(v, 0, v->g);
  if (tc_vjp_requires_grad(v, 2))
    tc_vjp_give(v, 2, src_grad(v, tc_rec_gather(v->t, v->g, (int)v->attr[0], tc_vjp_in(v, 1))));
}

// Operands (x, index, src).
void tc_vjp_index_add(tc_vjp *v) {
  if (tc_vjp_requires_grad(v, 0)) tc_vjp_give(v, 0, v->g);
  if (!tc_vjp_requires_grad(v, 2)) return;
  tc_node read = tc_rec_index_select(v->t, v->g, (int)v->attr[0], tc_vjp_in(v, 1));
  tc_vjp_give(v, 2, tc_rec_reshape(v->t, read, tc_vjp_in_dims(v, 2)));
}
