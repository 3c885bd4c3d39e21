// Index arithmetic of fusion domains and views. See access.h.
#include "lowering/fusion/access.h"

#include "runtime/passes.h"

tc_extents tc_view_extents(int64_t a, int64_t f, int64_t k) {
  return (tc_extents){{a, f, k, 1}};
}

static tc_term range(uint8_t r, int64_t coef) {
  return (tc_term){TC_TERM_RANGE, r, 0, 1, 0, coef};
}

tc_index tc_view_flat(const tc_fusion *gp, tc_level level) {
  tc_index x;
  tc_ix_set(&x, 0);
  if (level == TC_LEVEL_COLUMN) {
    (void)tc_ix_add_term(&x, (tc_term){TC_TERM_RANGE, TC_RANGE_A, 0, gp->part, 0, gp->f});
    (void)tc_ix_add_term(&x, range(TC_RANGE_F, 1));
    return x;
  }
  (void)tc_ix_add_term(&x, range(TC_RANGE_A, level == TC_LEVEL_FULL ? gp->f * gp->k : gp->k));
  if (level == TC_LEVEL_FULL) (void)tc_ix_add_term(&x, range(TC_RANGE_F, gp->k));
  (void)tc_ix_add_term(&x, range(TC_RANGE_K, 1));
  return x;
}

bool tc_view_position(const tc_fusion *gp, const tc_extents *e, tc_level level, const tc_dims *d, tc_index *idx) {
  tc_index flat = tc_view_flat(gp, level);
  tc_ix_simplify(&flat, e);
  return tc_ix_unflatten(&flat, d, e, idx);
}

// Whether n, computed where it is read, reads source.
static bool reaches(const tc_fusion_plan *gr, uint32_t n, uint32_t source) {
  n = tc_fusion_root(gr, n);
  if (n == source) return true;
  if (gr->of[n] != TC_FUSION_NONE || gr->stored[n]) return false;
  const tc_gnode *x = &gr->graph->node[n];
  for (int k = 0; k < x->n_in; k++)
    if (reaches(gr, x->in[k], source)) return true;
  return false;
}

// Whether every path from n to source reads it at its own position. *met: some path reaches source.
static bool links(const tc_fusion_plan *gr, const tc_fusion *gp, const tc_extents *e, uint32_t n, const tc_index *idx,
                  uint32_t source, tc_level source_level, bool *met) {
  const tc_gnode *x = &gr->graph->node[n];
  for (int k = 0; k < x->n_in; k++) {
    uint32_t s = x->in[k];
    tc_index at[TC_MAX_RANK], flat, want;
    tc_count(TC_PASS_FUSION, 1);
    uint32_t m = tc_fusion_root(gr, s);  // the elements of an alias are in the order of its root's
    bool made = gr->of[m] != TC_FUSION_NONE || gr->stored[m];
    if (made && m != source) continue;
    bool masked = x->op == TC_OP_PAD || x->op == TC_OP_CAT || x->op == TC_OP_WRITE_SLICE;
    bool indexed = x->op == TC_OP_GATHER || x->op == TC_OP_INDEX_SELECT;
    bool moved = !masked && !indexed && tc_view_operand(gr->graph, n, k, idx, e, at);
    if (m == source) {
      *met = true;
      want = tc_view_flat(gp, source_level);
      tc_ix_simplify(&want, e);
      if (!moved || !tc_ix_flatten(at, &gr->graph->node[s].shape->d, e, &flat) || !tc_ix_equal(&flat, &want))
        return false;
    } else if (moved ? !links(gr, gp, e, s, at, source, source_level, met) : reaches(gr, s, source)) {
      return false;
    }
  }
  return true;
}

bool tc_view_links(const tc_fusion_plan *gr, const tc_fusion *gp, const tc_extents *e, uint32_t n, tc_level level,
                   uint32_t source, tc_level source_level) {
  const tc_gnode *x = &gr->graph->node[n];
  tc_index idx[TC_MAX_RANK];
  bool met = false;
  // A reduction is linked through its operand, whose positions are those of the full level.
  const tc_dims *d = tc_op_kind_of(x->op) == TC_KIND_FOLD ? &gr->graph->node[x->in[0]].shape->d : &x->shape->d;
  if (!tc_view_position(gp, e, level, d, idx)) return false;
  return links(gr, gp, e, n, idx, source, source_level, &met) && met;
}

uint32_t tc_view_root(const tc_fusion_plan *gr, uint32_t n) {
  for (;;) {
    const tc_gnode *x = &gr->graph->node[n];
    tc_count(TC_PASS_FUSION, 1);
    if (!tc_graph_is_view(x->op) || x->out != TC_LEAF_NONE || gr->stored[n]) return n;
    n = x->in[0];
  }
}
