// Limits of a fusion, and the merge of two fusions. See fuser.h.
#include "lowering/fusion/fuser.h"

#include <string.h>

#include "lowering/fusion/access.h"
#include "runtime/passes.h"

#define MAX_MEMBERS 480
#define MAX_FOLDED 160  // members of a fusion that reduces: each pass looks at each of them
#define MAX_JOINED 32  // operands of a fused CAT; with more the reference kernel copies them
#define SMALL_JOINED 4

bool tc_fuser_is_extern(const tc_fuser *w, const tc_gnode *x) {
  if (tc_graph_is_zeros(x)) return true;
  if (x->op == TC_OP_CAT && x->n_in > (w->small ? SMALL_JOINED : MAX_JOINED)) return true;
  tc_device_kind kind = tc_device_kind_of(x->dev);
  if (kind == TC_DEVICE_ROWS) return x->op != TC_OP_LEAF && !tc_op_is_alias(x->op);
  if (kind == TC_DEVICE_LOADED) return x->op != TC_OP_LEAF && (!tc_op_is_alias(x->op) || x->out != TC_LEAF_NONE);
  if (tc_op_lowering_of(x->op) == TC_LOWER_EXTERN || x->is_slice_update) return true;
  if (x->op == TC_OP_WRITE_SLICE)
    for (int i = 0; i < x->n_attr; i++)
      if (x->attr[i] != 1) return true;
  return false;
}

bool tc_fuser_touches_nothing(const tc_graph *g, const tc_gnode *x) {
  bool empty = x->shape->count == 0;
  for (int i = 0; i < x->n_in; i++) empty |= g->node[x->in[i]].shape->count == 0;
  return empty;
}

uint32_t tc_fuser_reads_of(const tc_fuser *w, uint32_t n) {
  const tc_gnode *x = &w->g->node[n];
  uint32_t sum = (uint32_t)x->n_arg;
  for (int i = 0; i < x->n_in; i++) sum += w->reads[x->in[i]];
  return TC_MIN(sum, UINT32_C(1) << 16);
}

uint32_t tc_fuser_add_fusion(tc_fuser *w, tc_fusion_kind kind, int64_t a, int64_t f, int64_t k) {
  tc_fusion_plan *gr = w->gr;
  tc_fusion *gp = &gr->fusion[gr->n_fusion];
  *gp = (tc_fusion){.kind = kind, .a = a, .f = f, .k = k, .merged = TC_FUSION_NONE};
  return gr->n_fusion++;
}

void tc_fuser_add_member(tc_fuser *w, uint32_t fusion, uint32_t n, tc_level level) {
  tc_fusion *gp = &w->gr->fusion[fusion];
  if (!TC_ARENA_GROW(w->gr->arena, gp->member, gp->cap_member, gp->n_member)) {
    w->failed = true;
    return;
  }
  gp->member[gp->n_member++] = n;
  w->load[fusion] += tc_fuser_reads_of(w, n) + 1;
  w->gr->of[n] = fusion;
  w->gr->level[n] = (uint8_t)level;
}

void tc_seen_fusions_note(void *arg, uint32_t source, bool moved) {
  (void)moved;
  tc_seen_fusions *seen = arg;
  uint32_t g = tc_fuser_fusion_of(seen->gr, source);
  if (g == TC_FUSION_NONE || seen->gr->fusion[g].kind == TC_FUSION_EXTERN) return;
  for (int i = 0; i < seen->n; i++)
    if (seen->of[i] == g && seen->node[i] == source) return;
  if (seen->n < 16) seen->of[seen->n] = g, seen->node[seen->n] = source, seen->n++;
}

bool tc_fuser_links(const tc_fusion_plan *gr, const tc_fusion *gp, uint32_t n, tc_level level, uint32_t source) {
  const tc_extents e = tc_view_extents(gp->a, gp->f, gp->k);
  return tc_view_links(gr, gp, &e, n, level, source, (tc_level)gr->level[source]);
}

bool tc_fuser_all_link(const tc_fuser *w, const tc_fusion *gp, uint32_t fusion, uint32_t n, tc_level level,
                       const tc_seen_fusions *seen) {
  tc_level at = tc_op_kind_of(w->g->node[n].op) == TC_KIND_FOLD ? TC_LEVEL_FULL : level;
  for (int i = 0; i < seen->n; i++)
    if (tc_fuser_fusion_of(w->gr, seen->node[i]) == fusion && !tc_fuser_links(w->gr, gp, n, at, seen->node[i]))
      return false;
  return seen->n < 16;
}

uint32_t tc_fuser_most_members(tc_fusion_kind kind) {
  return kind == TC_FUSION_ELEMENTWISE ? MAX_MEMBERS : MAX_FOLDED;
}

static void sort_members(tc_fuser *w, tc_fusion *gp) {
  for (uint32_t i = 1; i < gp->n_member; i++) {
    uint32_t m = gp->member[i], j = i;
    for (; j > 0 && w->rank[gp->member[j - 1]] > w->rank[m]; j--) gp->member[j] = gp->member[j - 1];
    tc_count(TC_PASS_FUSION, 1 + i - j);
    gp->member[j] = m;
  }
}

void tc_fuser_absorb(tc_fuser *w, uint32_t g, uint32_t h, tc_level level) {
  tc_fusion *a = &w->gr->fusion[g], *b = &w->gr->fusion[h];
  for (uint32_t i = 0; i < b->n_member; i++) {
    uint32_t m = b->member[i];
    tc_fuser_add_member(w, g, m, level == TC_LEVEL_NONE ? (tc_level)w->gr->level[m] : level);
  }
  sort_members(w, a);
  b->merged = g;
  b->n_member = 0;
  w->n_outside[g] += w->n_outside[h];
  w->n_large[g] += w->n_large[h];
  tc_depend_join(&w->depend, g, h);
}

bool tc_fuser_fit_together(const tc_fuser *w, uint32_t g, uint32_t h) {
  const tc_fusion *a = &w->gr->fusion[g], *b = &w->gr->fusion[h];
  if (a->no_fusion || b->no_fusion || a->n_member + b->n_member > tc_fuser_most_members(a->kind)) return false;
  if (w->max_large < TC_MOST_OUTSIDE && w->n_large[g] && w->n_large[h]) return false;
  return w->n_outside[g] + w->n_outside[h] <= TC_MOST_OUTSIDE &&
         (!w->small || w->load[g] + w->load[h] <= TC_SMALL_FUSION);
}

bool tc_fuser_merge(tc_fuser *w, uint32_t g, uint32_t h, tc_level level) {
  if (!tc_fuser_fit_together(w, g, h) || !tc_depend_may_join(&w->depend, g, h)) return false;
  tc_fuser_absorb(w, g, h, level);
  return true;
}
