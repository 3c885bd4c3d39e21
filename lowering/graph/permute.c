// Orders of axes, and operands as they were before a permute. See permute.h.
#include "lowering/graph/permute.h"

uint64_t tc_permute_inverse(uint64_t order, int rank) {
  uint64_t back = 0;
  for (int i = 0; i < rank; i++) back |= (uint64_t)i << (8 * tc_permute_axis(order, i));
  return back;
}

uint64_t tc_permute_transpose(int rank) {
  uint64_t swap = 0;
  for (int i = 0; i < rank; i++) swap |= (uint64_t)(i < rank - 2 ? i : 2 * rank - 3 - i) << (8 * i);
  return swap;
}

bool tc_permute_commutes(const tc_gnode *x) {
  return tc_op_kind_of(x->op) == TC_KIND_ELEM && x->leaf == TC_LEAF_NONE && !x->n_attr && !x->n_arg && x->n_in <= 3;
}

uint32_t tc_permute_undo(tc_graph *g, uint32_t n, uint64_t order, int rank, bool *ok) {
  tc_gnode y = g->node[n];
  uint64_t back = tc_permute_inverse(order, rank);
  if (y.shape->count == 1) return n;
  if (y.op == TC_OP_CAST && y.leaf == TC_LEAF_NONE) {
    uint32_t from = tc_permute_undo(g, y.in[0], order, rank, ok);
    if (*ok) n = tc_graph_add(g, &y, TC_OP_CAST, &g->node[from].shape->d, 1, &from, 0, 0);
    return *ok = *ok && n != TC_GNODE_NONE, n;
  }
  if (y.op == TC_OP_PERMUTE && y.attr[0] == order && y.shape->d.rank == rank) return y.in[0];
  tc_dims wide = y.shape->d, d;
  if (y.shape->d.rank < rank) {  // axes of extent one in front
    int more = rank - y.shape->d.rank;
    wide.rank = rank;
    for (int i = rank; i-- > 0;) wide.dim[i] = i < more ? 1 : y.shape->d.dim[i - more];
    n = tc_graph_add(g, &y, TC_OP_RESHAPE, &wide, 1, &n, 0, 0);
  }
  d = wide;
  for (int i = 0; i < rank; i++) d.dim[i] = wide.dim[tc_permute_axis(back, i)];
  n = tc_graph_add(g, &y, TC_OP_PERMUTE, &d, 1, &n, 1, back);
  return *ok = *ok && n != TC_GNODE_NONE, n;
}
