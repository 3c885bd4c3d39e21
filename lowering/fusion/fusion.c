// Sources of a node in a fusion plan. See fusion.h.
#include "lowering/fusion/fusion.h"

#include "runtime/passes.h"

bool tc_fusion_is_filled(const tc_graph *g, uint32_t n, int k) {
  const tc_gnode *x = &g->node[n], *in = &g->node[x->in[k]];
  bool puts = tc_op_kind_of(x->op) == TC_KIND_INDEX && tc_graph_slice_update_of(x->op) >= 0;
  return puts && k == 0 && in->op == TC_OP_FULL && in->shape->count > 0 && !tc_graph_is_zeros(in) &&
         tc_device_generates(x->dev);
}

static bool moves_elements(const tc_gnode *x) {
  return x->op != TC_OP_EXPAND && !tc_op_is_alias(x->op) && tc_op_kind_of(x->op) != TC_KIND_ELEM &&
         tc_op_kind_of(x->op) != TC_KIND_FOLD;
}

static void each_source(const tc_fusion_plan *gr, uint32_t n, bool moved, tc_fusion_visit *visit, void *arg) {
  const tc_gnode *x = &gr->graph->node[n];
  moved |= moves_elements(x);
  tc_count(TC_PASS_FUSION, (uint64_t)x->n_in);
  for (int i = 0; i < x->n_in; i++) {
    uint32_t s = tc_fusion_root(gr, x->in[i]);
    if (gr->of[s] != TC_FUSION_NONE || gr->stored[s] || gr->graph->node[s].leaf != TC_LEAF_NONE)
      visit(arg, s, moved);
    else
      each_source(gr, s, moved, visit, arg);
  }
}

void tc_fusion_each_source(const tc_fusion_plan *gr, uint32_t n, tc_fusion_visit *visit, void *arg) {
  each_source(gr, n, false, visit, arg);
}
