#include "lowering/layout.h"

#include <string.h>

#include "lowering/simplify.h"

static int axis_of(uint64_t order, int i) {
  return (int)(order >> (8 * i) & 255);
}

static uint64_t inverse(uint64_t order, int rank) {
  uint64_t back = 0;
  for (int i = 0; i < rank; i++) back |= (uint64_t)i << (8 * axis_of(order, i));
  return back;
}

// Of the last two axes: the product itself is turned then (graph.c).
static bool is_transpose(uint64_t order, int rank) {
  uint64_t swap = 0;
  for (int i = 0; i < rank; i++) swap |= (uint64_t)(i < rank - 2 ? i : 2 * rank - 3 - i) << (8 * i);
  return order == swap;
}

// Whether n's elements lie as a product made them: its result, reshaped, or elementwise work on one.
static bool lies_by_product(const tc_graph *g, const bool *moved, uint32_t n) {
  while (g->node[n].op == TC_OP_RESHAPE) n = g->node[n].in[0];
  return moved[n] || (tc_op_kind_of(g->node[n].op) == TC_KIND_CONTRACT && g->node[n].out == TC_LEAF_NONE);
}

// The operand by which x is moved, or -1.
static int moved_operand(const tc_graph *g, const bool *moved, const tc_gnode *x) {
  int rank = x->shape->d.rank;
  for (int k = 0; k < x->n_in; k++) {
    const tc_gnode *y = &g->node[x->in[k]];
    if (y->op == TC_OP_PERMUTE && y->shape == x->shape && !is_transpose(y->attr[0], rank) && lies_by_product(g, moved, y->in[0])) return k;
  }
  return -1;
}

// Operand n as it is before the move: the same move taken off, or a small one, which is repeated, moved back.
static uint32_t moved_back(tc_graph *g, uint32_t n, uint64_t order, int rank, bool *ok) {
  tc_gnode y = g->node[n];
  uint64_t back = inverse(order, rank);
  if (y.shape->count == 1) return n;
  if (y.op == TC_OP_PERMUTE && y.attr[0] == order && y.shape->d.rank == rank) return y.in[0];
  tc_dims wide = y.shape->d, d;
  if (y.shape->d.rank < rank) {  // axes of extent one in front
    int more = rank - y.shape->d.rank;
    wide.rank = rank;
    for (int i = rank; i-- > 0;) wide.dim[i] = i < more ? 1 : y.shape->d.dim[i - more];
    n = tc_graph_add(g, &y, TC_OP_RESHAPE, &wide, 1, &n, 0, 0);
  }
  d = wide;
  for (int i = 0; i < rank; i++) d.dim[i] = wide.dim[axis_of(back, i)];
  if (n != UINT32_MAX) n = tc_graph_add(g, &y, TC_OP_PERMUTE, &d, 1, &n, 1, back);
  return *ok = *ok && n != UINT32_MAX, n;
}

// n = f(move(a), b) becomes move(f(a, b moved back)).
static bool move_after(tc_graph *g, uint32_t n, int k) {
  tc_gnode x = g->node[n];
  const tc_gnode *y = &g->node[x.in[k]];
  int rank = x.shape->d.rank;
  uint64_t order = y->attr[0];
  tc_dims d = g->node[y->in[0]].shape->d;
  uint32_t in[3];
  bool ok = true;
  for (int i = 0; i < x.n_in; i++) in[i] = moved_back(g, x.in[i], order, rank, &ok);
  uint32_t inner = ok ? tc_graph_add(g, &x, x.op, &d, x.n_in, in, 0, 0) : UINT32_MAX;
  uint64_t *attr = tc_arena_alloc(g->arena, sizeof *attr);
  if (inner == UINT32_MAX || !attr) return false;
  *attr = order;
  tc_gnode *z = &g->node[n];
  z->op = TC_OP_PERMUTE, z->n_in = 1, z->in[0] = inner, z->attr = attr, z->n_attr = 1;
  return true;
}

bool tc_layout(tc_graph *g) {
  uint32_t n_nodes = g->n;
  bool *moved = tc_arena_alloc(g->arena, (size_t)g->n * 8 + 64);
  if (!moved) return false;
  for (uint32_t n = 0; n < n_nodes; n++) {
    tc_gnode *x = &g->node[n];
    if (tc_device_kind_of(x->dev) != TC_DEVICE_KERNELS || x->leaf != TC_LEAF_NONE) continue;
    uint32_t equal = x->op == TC_OP_PERMUTE ? tc_simplify(g, n) : n;
    if (equal != n) {  // two moves that cancel
      x->op = TC_OP_DETACH, x->n_in = 1, x->n_attr = 0, x->in[0] = equal;
    }
    if (tc_op_kind_of(x->op) != TC_KIND_ELEM || x->n_attr || x->n_arg || x->n_in > 3) continue;
    int k = moved_operand(g, moved, x);
    bool fits = k >= 0;
    for (int i = 0; i < x->n_in && fits; i++) {
      const tc_gnode *y = &g->node[x->in[i]];
      bool same = y->op == TC_OP_PERMUTE && y->attr[0] == g->node[x->in[k]].attr[0] && y->shape == x->shape;
      fits = same || y->shape->count * 4 <= x->shape->count;
    }
    if (!fits) continue;
    if (!move_after(g, n, k)) return false;
    moved[g->node[n].in[0]] = true;
  }
  return true;
}
