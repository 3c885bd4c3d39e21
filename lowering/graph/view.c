// Indices of a result to indices of what it shows, through each kind of view. See view.h.
#include "lowering/graph/view.h"

#include "runtime/options.h"

// Starts are arguments, or constants behind the steps where lowering made the node. An axis of
// extent one has only element 0, whatever its start.
static bool slice_indices(const tc_gnode *x, const tc_dims *from, const tc_index *idx, tc_index *out) {
  for (int i = 0; i < x->shape->d.rank; i++) {
    tc_ix_set(&out[i], 0);
    if (from->dim[i] == 1) continue;
    int64_t step = (int64_t)x->attr[i];
    if (step > 1 && tc_planted("stride")) step--;
    if (!tc_ix_add(&out[i], &idx[i], step)) return false;
    if (x->n_arg == 0)
      out[i].base += (int64_t)x->attr[x->shape->d.rank + i];
    else if (!tc_ix_add_term(&out[i], (tc_term){TC_TERM_ARG, 0, x->arg + (uint32_t)i, 1, 0, 1}))
      return false;
  }
  return true;
}

static bool window_indices(const tc_gnode *x, const tc_dims *from, const tc_index *idx, tc_index *out) {
  uint64_t axis = x->attr[0];
  for (int i = 0; i < from->rank; i++) tc_ix_copy(&out[i], &idx[i]);
  tc_ix_set(&out[axis], 0);
  return tc_ix_add(&out[axis], &idx[axis], (int64_t)x->attr[2]) &&
         tc_ix_add(&out[axis], &idx[from->rank], (int64_t)x->attr[3]);
}

static void broadcast_indices(const tc_dims *from, const tc_dims *to, const tc_index *idx, tc_index *out) {
  for (int i = 0; i < from->rank; i++) {
    int k = i + to->rank - from->rank;
    if (from->dim[i] == 1 && to->dim[k] != 1)
      tc_ix_set(&out[i], 0);
    else
      tc_ix_copy(&out[i], &idx[k]);
  }
}

bool tc_view_operand(const tc_graph *g, uint32_t n, int k, const tc_index *idx, const tc_extents *e, tc_index *out) {
  const tc_gnode *x = &g->node[n];
  const tc_dims *from = &g->node[x->in[k]].shape->d, *to = &x->shape->d;
  tc_index flat;
  switch (x->op) {
    case TC_OP_RESHAPE: return tc_ix_flatten(idx, to, e, &flat) && tc_ix_unflatten(&flat, from, e, out);
    case TC_OP_PERMUTE:
      for (int i = 0; i < to->rank; i++) tc_ix_copy(&out[x->attr[0] >> (8 * i) & 255], &idx[i]);
      return true;
    case TC_OP_SLICE: return slice_indices(x, from, idx, out);
    case TC_OP_WINDOW: return window_indices(x, from, idx, out);
    case TC_OP_FLIP:
      for (int i = 0; i < to->rank; i++) {
        bool flipped = x->attr[0] >> i & 1;
        tc_ix_set(&out[i], flipped ? to->dim[i] - 1 : 0);
        if (!tc_ix_add(&out[i], &idx[i], flipped ? -1 : 1)) return false;
      }
      return true;
    // A shape that is equal, expanded, or broadcast as an elementwise operand.
    default: broadcast_indices(from, to, idx, out); return true;
  }
}
