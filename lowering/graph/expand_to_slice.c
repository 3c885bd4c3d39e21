// Ops that are a slice of another op's result: ROLL of its operand twice, on a GPU ARGKTH of the
// sorted order.
//
//   %1 = roll f32[5] %0 axis 0 arg ?   ->   %2 = cat f32[10] %0 %0
//                                           %1 = slice f32[5] %2 arg ?
//
// Threads: thread-compatible.
#include "lowering/graph/graph.h"

// Makes node n a slice of `of`. Its arguments, one an axis, say where the slice starts.
static bool become_slice(tc_graph *g, uint32_t n, uint32_t of) {
  if (of == TC_GNODE_NONE) return false;
  tc_gnode *x = &g->node[n];
  int rank = x->shape->d.rank;
  uint64_t *step = tc_arena_alloc(g->arena, (size_t)TC_MAX_OF(rank, 1) * sizeof *step);
  if (!step) return false;
  for (int i = 0; i < rank; i++) step[i] = 1;
  x->op = TC_OP_SLICE, x->in[0] = of, x->attr = step, x->n_attr = rank;
  return true;
}

// The operand twice is a view, never in memory.
static bool expand_roll(tc_graph *g, uint32_t n) {
  tc_gnode like = g->node[n];
  tc_dims twice = like.shape->d;
  twice.dim[like.attr[0]] *= 2;
  return become_slice(
      g, n, tc_graph_add(g, &like, TC_OP_CAT, &twice, 2, (uint32_t[]){like.in[0], like.in[0]}, 1, like.attr[0]));
}

// A GPU's sorting kernel has no argument that selects one element.
static bool expand_kth(tc_graph *g, uint32_t n) {
  tc_gnode like = g->node[n];
  return become_slice(
      g, n, tc_graph_add_with(g, &like, TC_OP_ARGSORT, &g->node[like.in[0]].shape->d, 1, like.in, 2, like.attr));
}

tc_status tc_pass_expand_to_slice(tc_graph *g) {
  bool ok = true;
  for (uint32_t n = 0, end = g->n; ok && n < end; n++) {
    const tc_gnode *x = &g->node[n];
    if (!tc_device_generates(x->dev)) continue;
    if (tc_op_expansion_of(x->op) == TC_EXPAND_roll && x->shape->count > 0)
      ok = expand_roll(g, n);
    else if (x->op == TC_OP_ARGKTH && tc_target_is_gpu(&g->target))
      ok = expand_kth(g, n);
  }
  return ok ? TC_OK : tc_graph_no_memory(g);
}
