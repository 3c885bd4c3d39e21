// Splits reductions: one fold for each run of neighbouring axes, and several for a long run.
//
// A sum's error then does not grow with its length, and there is work for all threads.
//
//   %1 = sum f32[] %0 axes 0    ->    %2 = reshape f32[1,131072,1] %0
//   (of f32[131072])                  %3 = reshape f32[1,8,16384,1] %2
//                                     %4 = sum f32[1,8,1,1] %3 axes 2 keepdim, and a sum of the 8
//
// Invariants: where it is cut follows from shapes alone, so that eager and fused runs add in the
// same order (lowering/tiling/summation.h). Threads: thread-compatible.
#include <string.h>

#include "lowering/graph/graph.h"
#include "lowering/tiling/summation.h"
#include "runtime/options.h"

// Where a fold is cut depends on the divisors of its length. What is lowered for many sizes holds
// for those that are cut alike. False without memory.
static bool note_part(tc_graph *g, int64_t run, int64_t inner, int64_t part) {
  if (!g->any_size) return true;
  tc_fold_guard *more = tc_arena_alloc(g->arena, (g->n_guard + 1) * sizeof *more);
  if (!more) return false;
  if (g->n_guard) memcpy(more, g->guard, g->n_guard * sizeof *more);
  more[g->n_guard++] = (tc_fold_guard){run, inner, part};
  g->guard = more;
  return true;
}

static bool is_foldable_in_parts(tc_op op) {
  return op == TC_OP_SUM || op == TC_OP_PROD || op == TC_OP_MAX || op == TC_OP_MIN || op == TC_OP_ANY ||
         op == TC_OP_ALL;
}

// The last run of folded axes of mask, as [first, last]; false if none.
static bool last_run(const tc_dims *d, uint32_t mask, int *first, int *last) {
  int i = d->rank - 1;
  while (i >= 0 && !(mask >> i & 1)) i--;
  if (i < 0) return false;
  *last = i;
  while (i > 0 && ((mask >> (i - 1) & 1) || d->dim[i - 1] == 1)) i--;
  *first = i;
  return true;
}

// Elements [start, start + n) of the run of x, [outer, run, inner].
static uint32_t piece_of_run(tc_graph *g, uint32_t x, int64_t start, int64_t n) {
  tc_gnode like = g->node[x];
  tc_dims d = like.shape->d;
  uint64_t attr[6] = {1, 1, 1, 0, (uint64_t)start, 0};
  d.dim[1] = n;
  return tc_graph_add_with(g, &like, TC_OP_SLICE, &d, 1, &x, 6, attr);
}

// The fold of the type and kind of `like` over an axis, which is kept.
static uint32_t fold_axis(tc_graph *g, const tc_gnode *like, uint32_t x, int axis) {
  if (x == TC_GNODE_NONE) return x;
  tc_dims d = g->node[x].shape->d;
  uint64_t over_nan = like->attr[0] & TC_MAX_OVER_NAN;
  d.dim[axis] = 1;
  return tc_graph_add(g, like, like->op, &d, 1, &x, 1, UINT64_C(1) << axis | 1u << 8 | over_nan);
}

static uint32_t reshape_as(tc_graph *g, uint32_t x, const tc_dims *d) {
  if (x == TC_GNODE_NONE) return x;
  tc_gnode like = g->node[x];
  return tc_graph_add(g, &like, TC_OP_RESHAPE, d, 1, &x, 0, 0);
}

// Folds the run of x [outer, run, inner]. A long run is folded in parts of one length, whose
// results are folded likewise. A sum of no such length has a rest. TC_GNODE_NONE without memory.
static uint32_t fold_run(tc_graph *g, const tc_gnode *like, uint32_t x) {
  if (x == TC_GNODE_NONE) return x;
  const tc_dims d = g->node[x].shape->d;
  int64_t outer = d.dim[0], run = d.dim[1], inner = d.dim[2];
  int64_t want = inner == 1 ? TC_FOLD_ROW : TC_FOLD_COLUMN, limit = inner == 1 ? 4 * TC_FOLD_ROW : 2 * TC_FOLD_COLUMN;
  bool held = inner == 1 && tc_target_clusters(&g->target, outer, run),
       splits = is_foldable_in_parts(like->op) && run > limit && !held && !tc_planted("chain");
  int64_t part = splits ? tc_fold_part(run, inner) : 0;
  if (splits && !note_part(g, run, inner, part)) return TC_GNODE_NONE;
  if (part) {
    tc_dims parts = {4, {outer, run / part, part, inner}}, kept = {3, {outer, run / part, inner}};
    x = fold_axis(g, like, reshape_as(g, x, &parts), 2);
    return fold_run(g, like, reshape_as(g, x, &kept));
  }
  if (!splits || like->op != TC_OP_SUM || !tc_type_is_float(like->type)) return fold_axis(g, like, x, 1);
  int64_t whole = run / want * want;
  uint32_t in[2] = {piece_of_run(g, x, 0, whole), piece_of_run(g, x, whole, run - whole)};
  for (int i = 0; i < 2; i++) in[i] = fold_run(g, like, in[i]);
  tc_dims one = {3, {outer, 1, inner}};
  return tc_graph_add(g, like, TC_OP_ADD, &one, 2, in, 0, 0);
}

// Rewrites a fold as folds over one run of axes each, as [outer, run, inner]. The node itself
// becomes the reshape of the last. Between folds, sums and products of halves are f32.
static bool split_reduction(tc_graph *g, uint32_t n) {
  tc_gnode like = g->node[n];
  uint32_t mask = (uint32_t)(like.attr[0] & 255), x = like.in[0], before = g->n;
  tc_dims d = g->node[x].shape->d;
  tc_type type = like.type;
  if (mask == 0) return tc_gnode_become(&g->node[n], TC_OP_RESHAPE, x, 0, 1), true;
  if ((like.op == TC_OP_SUM || like.op == TC_OP_PROD) && tc_type_is_half(type)) like.type = TC_F32;
  int first, last, runs = 0;
  while (last_run(&d, mask, &first, &last)) {
    int64_t outer = 1, run = 1, inner = 1;
    for (int i = 0; i < d.rank; i++) *(i < first ? &outer : i <= last ? &run : &inner) *= d.dim[i];
    // All the folded axes must lie in this run for an arg fold: record_fold.c folds one axis or
    // all.
    tc_dims shape = {3, {outer, run, inner}};
    x = reshape_as(g, x, &shape);
    before = g->n;
    if ((x = fold_run(g, &like, x)) == TC_GNODE_NONE) return false;
    runs++;
    for (int i = first; i <= last; i++) d.dim[i] = 1, mask &= ~(1u << i);
  }
  if (like.type == type) return tc_gnode_become(&g->node[n], TC_OP_RESHAPE, x, 0, 1), true;
  if (runs == 1 && g->n == before + 1)
    return g->node[x].type = type, tc_gnode_become(&g->node[n], TC_OP_RESHAPE, x, 0, 1), true;
  d = g->node[n].shape->d;
  x = reshape_as(g, x, &d);
  return x != TC_GNODE_NONE && (tc_gnode_become(&g->node[n], TC_OP_CAST, x, 0, 1), true);
}

tc_status tc_pass_split_reduction(tc_graph *g) {
  bool ok = true;
  for (uint32_t n = 0, end = g->n; ok && n < end; n++)
    if (tc_device_generates(g->node[n].dev) && tc_op_kind_of(g->node[n].op) == TC_KIND_FOLD) ok = split_reduction(g, n);
  return ok ? TC_OK : tc_graph_no_memory(g);
}
