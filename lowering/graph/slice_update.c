// Lets a small write into an assigned tensor store the result, in place.
//
// A cache or a table is assigned itself with a small part written or added to. The op that writes
// the part then stores it, and writes no more than that part where the result lies over the old.
//
//   %2 = write_slice f32[64] %0 %1               %2 = write_slice f32[64] %0 %1 slice_update out 0
//   %3 = assign f32[64] %2 old %0 out 0     ->
//
// Source: XLA's in-place dynamic-update-slice. Threads: thread-compatible.
#include "lowering/graph/graph.h"

#define SMALL_PART 4  // of a tensor: at most one in so many of its elements

tc_status tc_pass_slice_update(tc_graph *g) {
  for (uint32_t n = 0; n < g->n; n++) {
    tc_gnode *x = &g->node[n], *w = &g->node[x->op == TC_OP_ASSIGN ? x->in[0] : n];
    int part = tc_graph_slice_update_of(w->op);
    if (w == x || part < 0 || x->out == TC_LEAF_NONE || w->out != TC_LEAF_NONE || w->in[0] != x->old) continue;
    if (g->node[w->in[0]].leaf == TC_LEAF_NONE || g->node[w->in[part]].shape->count > w->shape->count / SMALL_PART)
      continue;
    w->is_slice_update = true, w->out = x->out, x->out = TC_LEAF_NONE;
  }
  return TC_OK;
}
