// SOFTMAX and LOG_SOFTMAX as the ops that make them.
//
//   %1 = softmax f32[2,8] %0  ->  %2 = max f32[2,1] %0      %3 = sub %0 %2      %4 = exp %3
//                                 %5 = sum f32[2,1] %4      %6 = reciprocal %5  %1 = mul %4 %6
//
// Threads: thread-compatible.
#include "lowering/graph/graph.h"

// softmax: exp(x - max) * (1 / sum), with one division a row.
// log_softmax: (x - max) - log(sum(exp(x - max))).
// This order of operations is documented. The maximum may pass over NaN, since the sum does not.
// f16 and bf16 are computed in f32 and rounded once at the end.
static bool expand_softmax(tc_graph *g, uint32_t n) {
  tc_gnode like = g->node[n];
  int axis = (int)like.attr[0];
  tc_dims full = like.shape->d, one = full;
  if (full.rank == 0)
    return tc_gnode_become(&g->node[n], like.op == TC_OP_SOFTMAX ? TC_OP_DIV : TC_OP_SUB, like.in[0], like.in[0], 2),
           true;
  one.dim[axis] = 1;
  uint64_t fold = (uint64_t)1 << axis | 1u << 8;
  bool narrow = tc_type_is_half(like.type);
  if (narrow) like.type = TC_F32;
  uint32_t x = narrow ? tc_graph_add(g, &like, TC_OP_CAST, &full, 1, like.in, 0, 0) : like.in[0];
  uint32_t m = tc_graph_add(g, &like, TC_OP_MAX, &one, 1, &x, 1, fold | TC_MAX_OVER_NAN);
  uint32_t shifted = tc_graph_add(g, &like, TC_OP_SUB, &full, 2, (uint32_t[]){x, m}, 0, 0);
  uint32_t e = tc_graph_add(g, &like, TC_OP_EXP, &full, 1, &shifted, 1, TC_EXP_OF_NEGATIVE);
  uint32_t sum = tc_graph_add(g, &like, TC_OP_SUM, &one, 1, &e, 1, fold);
  bool log_of = like.op == TC_OP_LOG_SOFTMAX;
  uint32_t row = tc_graph_add(g, &like, log_of ? TC_OP_LOG : TC_OP_RECIPROCAL, &one, 1, &sum, 0, 0);
  if (row == TC_GNODE_NONE) return false;
  uint32_t in[2] = {log_of ? shifted : e, row};
  tc_op last = log_of ? TC_OP_SUB : TC_OP_MUL;
  if (!narrow) return tc_gnode_become(&g->node[n], last, in[0], in[1], 2), true;
  uint32_t y = tc_graph_add(g, &like, last, &full, 2, in, 0, 0);
  return y != TC_GNODE_NONE && (tc_gnode_become(&g->node[n], TC_OP_CAST, y, 0, 1), true);
}

tc_status tc_pass_expand_softmax(tc_graph *g) {
  bool ok = true;
  for (uint32_t n = 0, end = g->n; ok && n < end; n++) {
    const tc_gnode *x = &g->node[n];
    if (tc_device_generates(x->dev) && tc_op_expansion_of(x->op) == TC_EXPAND_softmax && x->shape->count > 0)
      ok = expand_softmax(g, n);
  }
  return ok ? TC_OK : tc_graph_no_memory(g);
}
