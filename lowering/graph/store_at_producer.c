// Lets the producer of a reshaped output store it, straight from registers.
//
// The producer is a matmul, attention or a library call. After attention, whose kernel has no
// epilogue, the reshape would be a copy.
//
//   %2 = matmul f32[6,4] %0 %1                     %2 = matmul f32[6,4] %0 %1 out 0
//   %3 = reshape f32[2,3,4] %2 out 0         ->
//
// Threads: thread-compatible.
#include "lowering/graph/graph.h"
#include "runtime/passes.h"

tc_status tc_pass_store_at_producer(tc_graph *g) {
  for (uint32_t n = 0; n < g->n; n++) {
    tc_gnode *x = &g->node[n];
    if (x->out == TC_LEAF_NONE || !tc_device_generates(x->dev)) continue;
    uint32_t m = n;
    for (; g->node[m].op == TC_OP_RESHAPE || g->node[m].op == TC_OP_DETACH; m = g->node[m].in[0])
      tc_count(TC_PASS_GRAPH, 1);
    tc_gnode *y = &g->node[m];
    bool makes = tc_op_kind_of(y->op) == TC_KIND_ATTENTION || y->op == TC_OP_MATMUL || y->op == TC_OP_CONV_CALL;
    if (m == n || !makes || y->out != TC_LEAF_NONE || y->dev != x->dev) continue;
    y->out = x->out, x->out = TC_LEAF_NONE;
  }
  return TC_OK;
}
