// Positions of groups, and through each kind of view. See access.h.
#include "lowering/fusion/access.h"

#include "runtime/options.h"
#include "runtime/passes.h"

tc_extents tc_view_extents(int64_t a, int64_t f, int64_t k) {
  return (tc_extents){{a, f, k, 1}};
}

static tc_term range(uint8_t r, int64_t coef) {
  return (tc_term){TC_TERM_RANGE, r, 0, 1, 0, coef};
}

tc_index tc_view_flat(const tc_group *gp, tc_level level) {
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

bool tc_view_position(const tc_group *gp, const tc_extents *e, tc_level level, const tc_dims *d, tc_index *idx) {
  tc_index flat = tc_view_flat(gp, level);
  tc_ix_simplify(&flat, e);
  return tc_ix_unflatten(&flat, d, e, idx);
}

// Starts are arguments, or constants behind the steps where lowering made the node. An axis of extent one has only element 0, whatever its start.
static bool slice(const tc_gnode *x, const tc_dims *from, const tc_index *idx, tc_index *out) {
  for (int i = 0; i < x->shape->d.rank; i++) {
    tc_ix_set(&out[i], 0);
    if (from->dim[i] == 1) continue;
    int64_t step = (int64_t)x->attr[i];
    if (step > 1 && tc_planted("stride")) step--;
    if (!tc_ix_add(&out[i], &idx[i], step)) return false;
    if (x->n_arg == 0)
      out[i].base += (int64_t)x->attr[x->shape->d.rank + i];
    else if (!tc_ix_add_term(&out[i], (tc_term){TC_TERM_ARG, 0, x->arg + (uint32_t)i, 1, 0, 1}))
      return false;
  }
  return true;
}

static bool window(const tc_gnode *x, const tc_dims *from, const tc_index *idx, tc_index *out) {
  uint64_t axis = x->attr[0];
  for (int i = 0; i < from->rank; i++) tc_ix_copy(&out[i], &idx[i]);
  tc_ix_set(&out[axis], 0);
  return tc_ix_add(&out[axis], &idx[axis], (int64_t)x->attr[2]) && tc_ix_add(&out[axis], &idx[from->rank], (int64_t)x->attr[3]);
}

static void broadcast(const tc_dims *from, const tc_dims *to, const tc_index *idx, tc_index *out) {
  for (int i = 0; i < from->rank; i++) {
    int k = i + to->rank - from->rank;
    if (from->dim[i] == 1 && to->dim[k] != 1)
      tc_ix_set(&out[i], 0);
    else
      tc_ix_copy(&out[i], &idx[k]);
  }
}

bool tc_view_operand(const tc_graph *g, uint32_t n, int k, const tc_index *idx, const tc_extents *e, tc_index *out) {
  const tc_gnode *x = &g->node[n];
  const tc_dims *from = &g->node[x->in[k]].shape->d, *to = &x->shape->d;
  tc_index flat;
  switch (x->op) {
    case TC_OP_RESHAPE: return tc_ix_flatten(idx, to, e, &flat) && tc_ix_unflatten(&flat, from, e, out);
    case TC_OP_PERMUTE:
      for (int i = 0; i < to->rank; i++) tc_ix_copy(&out[x->attr[0] >> (8 * i) & 255], &idx[i]);
      return true;
    case TC_OP_SLICE: return slice(x, from, idx, out);
    case TC_OP_WINDOW: return window(x, from, idx, out);
    case TC_OP_FLIP:
      for (int i = 0; i < to->rank; i++) {
        bool flipped = x->attr[0] >> i & 1;
        tc_ix_set(&out[i], flipped ? to->dim[i] - 1 : 0);
        if (!tc_ix_add(&out[i], &idx[i], flipped ? -1 : 1)) return false;
      }
      return true;
    default: broadcast(from, to, idx, out); return true;  // same shape, expansion, or an elementwise operand
  }
}

// Whether reading n in place reads source.
static bool reaches(const tc_grouping *gr, uint32_t n, uint32_t source) {
  n = tc_group_root(gr, n);
  if (n == source) return true;
  if (gr->of[n] != TC_GROUP_NONE || gr->stored[n]) return false;
  const tc_gnode *x = &gr->graph->node[n];
  for (int k = 0; k < x->n_in; k++)
    if (reaches(gr, x->in[k], source)) return true;
  return false;
}

// Follows every path; *met tells whether source was reached.
static bool links(const tc_grouping *gr, const tc_group *gp, const tc_extents *e, uint32_t n, const tc_index *idx, uint32_t source,
                  tc_level source_level, bool *met) {
  const tc_gnode *x = &gr->graph->node[n];
  for (int k = 0; k < x->n_in; k++) {
    uint32_t s = x->in[k];
    tc_index at[TC_MAX_RANK], flat, want;
    tc_count(TC_PASS_GROUPS, 1);
    uint32_t m = tc_group_root(gr, s);  // an alias has its memory's elements in the same order
    bool made = gr->of[m] != TC_GROUP_NONE || gr->stored[m];
    if (made && m != source) continue;
    bool masked = x->op == TC_OP_PAD || x->op == TC_OP_CAT || x->op == TC_OP_WRITE_SLICE;
    bool indexed = x->op == TC_OP_GATHER || x->op == TC_OP_INDEX_SELECT;
    bool moved = !masked && !indexed && tc_view_operand(gr->graph, n, k, idx, e, at);
    if (m == source) {
      *met = true;
      want = tc_view_flat(gp, source_level);
      tc_ix_simplify(&want, e);
      if (!moved || !tc_ix_flatten(at, &gr->graph->node[s].shape->d, e, &flat) || !tc_ix_equal(&flat, &want)) return false;
    } else if (moved ? !links(gr, gp, e, s, at, source, source_level, met) : reaches(gr, s, source)) {
      return false;
    }
  }
  return true;
}

bool tc_view_links(const tc_grouping *gr, const tc_group *gp, const tc_extents *e, uint32_t n, tc_level level, uint32_t source,
                   tc_level source_level) {
  const tc_gnode *x = &gr->graph->node[n];
  tc_index idx[TC_MAX_RANK];
  bool met = false;
  // A fold is linked through its operand, whose positions are the full level's.
  const tc_dims *d = tc_op_kind_of(x->op) == TC_KIND_FOLD ? &gr->graph->node[x->in[0]].shape->d : &x->shape->d;
  if (!tc_view_position(gp, e, level, d, idx)) return false;
  return links(gr, gp, e, n, idx, source, source_level, &met) && met;
}

uint32_t tc_view_root(const tc_grouping *gr, uint32_t n) {
  for (;;) {
    const tc_gnode *x = &gr->graph->node[n];
    tc_count(TC_PASS_GROUPS, 1);
    bool through = tc_op_is_alias(x->op) || x->op == TC_OP_PERMUTE || x->op == TC_OP_EXPAND || x->op == TC_OP_SLICE || x->op == TC_OP_FLIP ||
                   x->op == TC_OP_WINDOW;
    if (!through || x->out != TC_LEAF_NONE || gr->stored[n]) return n;
    n = x->in[0];
  }
}
