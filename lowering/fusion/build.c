// Runs the passes of fusion in order. See build.h.
#include "lowering/fusion/build.h"

#include <string.h>

#include "lowering/fusion/access.h"
#include "lowering/fusion/fuser.h"
#include "lowering/fusion/fusion.h"
#include "runtime/log.h"

#define MAX_IN_PLACE 48  // nodes computed where one value is read, counted with repetition
#define LOW_MEMORY_LARGE 2  // large temporaries that a kernel may read under TC_FUSE_LOW_MEMORY
#define SMALL_IN_PLACE 10

static bool multiplies(const tc_gnode *x) {
  return tc_op_kind_of(x->op) == TC_KIND_CONTRACT || tc_op_kind_of(x->op) == TC_KIND_ATTENTION;
}

static bool is_view(const tc_gnode *x) {
  return tc_op_kind_of(x->op) == TC_KIND_MOVE || tc_op_kind_of(x->op) == TC_KIND_EFFECT;
}

static uint32_t size_of(const tc_fuser *w, uint32_t n) {
  const tc_gnode *x = &w->g->node[n];
  uint32_t sum = 1;
  for (int i = 0; i < x->n_in; i++) sum += w->size[x->in[i]];
  return TC_MIN(sum, UINT32_C(1) << 16);
}

// Decides which nodes must have memory of their own, from the last node to the first. These are
// outputs, indexed tensors, and operands of external kernels and matmuls.
static void require_memory(tc_fuser *w, const uint8_t *must_materialize) {
  const tc_graph *g = w->g;
  for (uint32_t i = g->n_order; i-- > 0;) {
    uint32_t n = g->order[i];
    const tc_gnode *x = &g->node[n];
    if (x->out != TC_LEAF_NONE || x->leaf != TC_LEAF_NONE || x->stored || must_materialize[n]) w->gr->stored[n] = true;
    if (w->gr->stored[n] && x->out == TC_LEAF_NONE && tc_op_is_alias(x->op)) {
      w->gr->alias[n] = x->in[0];
      w->gr->stored[x->in[0]] = true;
    }
    if (x->leaf != TC_LEAF_NONE) continue;
    bool whole = tc_fuser_is_extern(w, x) || tc_fuser_touches_nothing(g, x);
    for (int k = 0; k < x->n_in; k++) {
      if (tc_fusion_is_filled(g, n, k)) continue;
      if (!whole && tc_op_kind_of(x->op) == TC_KIND_ATTENTION && g->node[x->in[k]].op == TC_OP_FULL &&
          g->node[x->in[k]].shape->d.rank == 0)
        continue;
      if (whole || (tc_op_kind_of(x->op) == TC_KIND_INDEX && k == 1))
        w->gr->stored[x->in[k]] = true;
      else if (tc_op_kind_of(x->op) == TC_KIND_INDEX || multiplies(x)) {
        uint32_t root = tc_view_root(w->gr, x->in[k]);
        bool computed = tc_op_kind_of(g->node[root].op) == TC_KIND_ELEM && !tc_fuser_is_extern(w, &g->node[root]);
        if (x->op == TC_OP_MATMUL && k == 1 && g->node[root].prologue) continue;
        if (!computed || multiplies(x)) w->gr->stored[root] = true;
      }
    }
  }
}

static bool init_fuser(tc_fuser *w, tc_fusion_plan *gr, const tc_graph *g, tc_arena *arena) {
  size_t n = g->n + 1;
  *gr = (tc_fusion_plan){.graph = g, .arena = arena};
  gr->fusion = tc_arena_alloc(arena, n * sizeof gr->fusion[0]);
  gr->of = tc_arena_alloc(arena, n * sizeof gr->of[0]);
  gr->alias = tc_arena_alloc(arena, n * sizeof gr->alias[0]);
  gr->level = tc_arena_alloc(arena, n);
  gr->stored = tc_arena_alloc(arena, n * sizeof gr->stored[0]);
  w->constant = tc_arena_alloc(arena, n);
  uint32_t **const of_nodes[] = {&w->rank, &w->n_outside, &w->n_large, &w->reads,         &w->load,
                                 &w->size, &w->counted,   &w->attends, &w->attends_before};
  bool room = gr->fusion && gr->of && gr->alias && gr->level && gr->stored && w->constant &&
              tc_depend_init(&w->depend, gr, g->n_order);
  for (size_t i = 0; i < sizeof of_nodes / sizeof of_nodes[0] && room; i++)
    room = (*of_nodes[i] = tc_arena_alloc(arena, n * sizeof **of_nodes[i])) != NULL;
  if (!room) return false;
  memset(gr->of, 0xFF, g->n * sizeof gr->of[0]);
  for (uint32_t i = 0; i < g->n; i++) gr->alias[i] = i, w->reads[i] = 1;
  for (uint32_t i = 0; i < g->n_order; i++) w->rank[g->order[i]] = i;
  return true;
}

// Whether the node is computed where it is read: a constant, or a view of small cost.
static bool is_made_in_place(tc_fuser *w, uint32_t n) {
  const tc_gnode *x = &w->g->node[n];
  tc_op_kind kind = tc_op_kind_of(x->op);
  bool constant =
      (kind == TC_KIND_GEN && !tc_graph_is_zeros(x)) || ((kind == TC_KIND_ELEM || is_view(x)) && x->n_in > 0);
  for (int k = 0; k < x->n_in && constant; k++) constant = w->constant[x->in[k]];
  bool fits = size_of(w, n) <= MAX_IN_PLACE && (!w->small || tc_fuser_reads_of(w, n) <= SMALL_IN_PLACE);
  if (w->gr->stored[n] || !fits) return false;
  w->constant[n] = constant;
  return constant || x->prologue || (is_view(x) && !tc_fuser_is_extern(w, x) && !tc_fuser_touches_nothing(w->g, x));
}

static void place_nodes(tc_fuser *w) {
  for (uint32_t i = 0; i < w->g->n_order && !w->failed; i++) {
    uint32_t n = w->g->order[i];
    if (w->g->node[n].leaf != TC_LEAF_NONE || w->gr->alias[n] != n) continue;
    if (is_made_in_place(w, n))
      w->reads[n] = tc_fuser_reads_of(w, n), w->size[n] = size_of(w, n);
    else
      tc_fuser_place_node(w, n);
  }
}

// Resolves merged fusions: of[n] becomes the fusion that holds n now.
static void settle_fusions(tc_fusion_plan *gr) {
  for (uint32_t n = 0; n < gr->graph->n; n++) gr->of[n] = tc_fuser_fusion_of(gr, n);
}

static tc_status build_fusions(tc_fusion_plan *gr, const tc_graph *g, tc_arena *arena, const uint8_t *must_materialize,
                               tc_fusion_mode mode) {
  bool small = mode == TC_FUSE_SMALL, *must = tc_arena_alloc(arena, g->n + 1);
  tc_fuser w = {.gr = gr,
                .g = g,
                .small = small,
                .max_large = mode == TC_FUSE_ANY ? TC_MOST_OUTSIDE : LOW_MEMORY_LARGE,
                .must_materialize = must_materialize};
  if (!init_fuser(&w, gr, g, arena) || !must) return TC_FAIL(TC_ERR_MEMORY, "no room to fuse %u nodes", g->n);
  require_memory(&w, must_materialize);
  // operands come first, so one step reaches the root of a chain of aliases
  for (uint32_t i = 0; i < g->n_order; i++) gr->alias[g->order[i]] = gr->alias[gr->alias[g->order[i]]];
  memcpy(must, gr->stored, g->n);
  place_nodes(&w);
  if (!w.failed) tc_fuser_merge_siblings(&w);
  settle_fusions(gr);
  if (w.failed) return TC_FAIL(TC_ERR_MEMORY, "no room to fuse %u nodes", g->n);
  if (small) return TC_OK;
  TC_TRY(tc_recompute(gr, must, mode == TC_FUSE_LOW_MEMORY));
  // a recomputed value may read what other fusions read; dependences have only become fewer
  tc_fuser_merge_siblings(&w);
  settle_fusions(gr);
  if (mode == TC_FUSE_ANY && !tc_target_is_gpu(&g->target)) tc_fuser_merge_columns(&w);
  settle_fusions(gr);
  return w.failed ? TC_FAIL(TC_ERR_MEMORY, "no room to fuse %u nodes", g->n) : TC_OK;
}

tc_status tc_fusion_build(tc_fusion_plan *gr, const tc_graph *g, tc_arena *arena, const uint8_t *must_materialize,
                          tc_fusion_mode mode) {
  tc_status st = build_fusions(gr, g, arena, must_materialize, mode);
  if (st == TC_OK && tc_log_on(TC_LOG_FUSION) && !g->any_size) tc_fusion_log(gr);
  return st;
}
