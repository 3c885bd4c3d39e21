// Schedule: the nodes that outputs need, operands first; decomposition appends them out of order. Counts readers.
//
// In: a graph without circles. Out: order, n_order, and of each node needed and n_readers. Threads: thread-compatible.
#include "lowering/graph/graph.h"
#include "runtime/passes.h"

tc_status tc_pass_schedule(tc_graph *g) {
  size_t n_edges = g->n;
  for (uint32_t n = 0; n < g->n; n++) n_edges += (size_t)g->node[n].n_in;
  uint32_t *stack = tc_arena_alloc(g->arena, (n_edges + 1) * sizeof *stack);
  uint8_t *state = tc_arena_alloc(g->arena, g->n + 1);
  g->order = tc_arena_alloc(g->arena, (g->n + 1) * sizeof *g->order);
  if (!stack || !state || !g->order) return tc_graph_no_memory(g);
  g->n_order = 0;
  for (uint32_t root = 0; root < g->n; root++) {
    if (g->node[root].out == TC_LEAF_NONE || state[root] == 2) continue;
    uint32_t depth = 0;
    stack[depth++] = root;
    while (depth) {
      uint32_t n = stack[depth - 1];
      tc_gnode *x = &g->node[n];
      tc_count(TC_PASS_GRAPH, 1 + (uint64_t)x->n_in);
      if (state[n] == 2) {
        depth--;
        continue;
      }
      bool ready = true;
      for (int i = x->n_in; i-- > 0;)
        if (state[x->in[i]] != 2) stack[depth++] = x->in[i], ready = false;
      if (!ready) continue;
      state[n] = 2;
      depth--;
      x->needed = true;
      g->order[g->n_order++] = n;
      for (int i = 0; i < x->n_in; i++) g->node[x->in[i]].n_readers++;
    }
  }
  return TC_OK;
}
