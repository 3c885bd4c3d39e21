// Schedule: the nodes that outputs need, operands first; decomposition appends them out of order.
// Counts readers.
//
// In: a graph without circles. Out: order, n_order, and of each node needed and n_readers. Threads:
// thread-compatible.
#include "lowering/graph/graph.h"

tc_status tc_pass_schedule(tc_graph *g) {
  g->order = tc_graph_order(g, g->arena, &g->n_order);
  if (!g->order) return tc_graph_no_memory(g);
  for (uint32_t i = 0; i < g->n_order; i++) {
    tc_gnode *x = &g->node[g->order[i]];
    x->needed = true;
    for (int k = 0; k < x->n_in; k++) g->node[x->in[k]].n_readers++;
  }
  return TC_OK;
}
