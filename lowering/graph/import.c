// Import: a plan's records become nodes of the same numbers.
//
//   plan   ->  %0 = leaf f32[4] leaf 0            graph
//              %1 = exp f32[4] %0 out 0
//
// Invariants: operands come before what reads them. ASSIGN's second operand, whose value it takes
// the place of, is no operand here but `old`.
// Threads: thread-compatible. Owns nothing: all is the arena's.
#include <string.h>

#include "lowering/graph/graph.h"

static bool decode_records(tc_graph *g) {
  const tc_plan *p = g->plan;
  for (uint32_t n = 0; n < p->n_node; n++) {
    const tc_rec *r = tc_plan_rec(p, n);
    tc_gnode *x = &g->node[n];
    int n_in = tc_rec_arity(r);
    *x = (tc_gnode){.op = tc_rec_op(r),
                    .type = (tc_type)r->dtype,
                    .dev = p->by_rows ? TC_DEVICE_REF : (tc_device)p->dev[n],
                    .shape = tc_dims_at(r->shape),
                    .n_in = n_in,
                    .attr = tc_rec_attr(r),
                    .arg = p->arg_at[n],
                    .n_arg = (int)tc_rec_args(r),
                    .leaf = p->leaf_of[n],
                    .out = p->out_of[n]};
    x->n_attr = r->n_extra - (tc_op_arity[x->op] > 2 ? (n_in + 1) / 2 : 0);
    if (!(x->in = tc_arena_alloc(g->arena, (size_t)(n_in + 1) * sizeof x->in[0]))) return false;
    memcpy(x->in, tc_rec_in(r), (size_t)n_in * sizeof x->in[0]);
    // POOL's value is made already; its second operand, the image, is for its gradient alone.
    if (x->op == TC_OP_POOL) x->op = TC_OP_DETACH, x->n_in = 1, x->n_attr = 0;
    x->parameter = x->stable_address = x->leaf != TC_LEAF_NONE && (p->flag[n] & TC_NODE_REQUIRES_GRAD);
    if (x->op == TC_OP_ASSIGN)
      x->n_in = 1, x->old = x->in[1], g->node[x->old].parameter = false, g->node[x->old].stable_address = true;
    if (tc_graph_is_zeros(x)) x->op = TC_OP_FULL, x->n_in = x->n_attr = x->n_arg = 0;
  }
  g->n = p->n_node;
  return true;
}

// Marks as parameters what products read as i8 weights: no leaf of integers requires a gradient.
// What is kept of a leaf that changes after all is made anew (lowering/program/constant_cache.h).
static void mark_byte_weights(tc_graph *g) {
  for (uint32_t n = 0; n < g->n; n++) {
    const tc_gnode *x = &g->node[n];
    if (x->op != TC_OP_MATMUL || x->type != TC_I32 || g->node[x->in[1]].type != TC_I8) continue;
    uint32_t w = x->in[1];
    while (g->node[w].leaf == TC_LEAF_NONE && tc_graph_is_view(g->node[w].op) && g->node[w].n_in == 1)
      w = g->node[w].in[0];
    g->node[w].parameter |= g->node[w].leaf != TC_LEAF_NONE;
  }
  for (uint32_t n = 0; n < g->n; n++)
    if (g->node[n].op == TC_OP_ASSIGN) g->node[g->node[n].old].parameter = false;
}

tc_status tc_graph_import(tc_graph *g, const tc_plan *plan, tc_arena *arena) {
  *g = (tc_graph){.arena = arena, .plan = plan, .cap = plan->n_node * 8 + 64};
  TC_TRY(tc_target_of(plan->n_node ? (tc_device)plan->dev[0] : TC_DEVICE_CPU, &g->target));
  g->node = tc_arena_alloc(arena, g->cap * sizeof g->node[0]);
  if (!g->node || !decode_records(g)) return tc_graph_no_memory(g);
  mark_byte_weights(g);
  return TC_OK;
}
