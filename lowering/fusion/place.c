// Places a node in a fusion, and merges the fusions that it reads. See fuser.h.
#include "lowering/fusion/fuser.h"

#include <string.h>

#include "lowering/fusion/access.h"
#include "runtime/passes.h"

#define GPU_GRADIENT_COLUMNS 256  // most columns of dk and dv that one GPU kernel accumulates; a warp holds 16 rows

// The kind and domain of a reduction over one axis (pass split_reduction leaves no others).
static tc_fusion fold_domain(const tc_graph *g, uint32_t n) {
  const tc_gnode *x = &g->node[n];
  const tc_dims *d = &g->node[x->in[0]].shape->d;
  tc_fusion of = {.a = 1, .f = 1, .k = 1};
  int axis = 0;
  while (!(x->attr[0] >> axis & 1)) axis++;
  for (int i = 0; i < d->rank; i++) *(i < axis ? &of.a : i == axis ? &of.f : &of.k) *= d->dim[i];
  of.kind = of.k == 1 ? TC_FUSION_ROW : TC_FUSION_COLUMN;
  return of;
}

// What is found at the sources of a node that are of other fusions than this one.
typedef struct source_visit {
  tc_fuser *w;
  uint32_t fusion;
  uint32_t depth;  // least depth of the fusion once it reads these sources
  uint32_t n_large;  // large temporaries, counted with repetition
  bool in_cycle;  // true: a source depends on the fusion, or may
} source_visit;

static void check_cycle(void *arg, uint32_t source, bool moved) {
  (void)moved;
  source_visit *c = arg;
  uint32_t g = tc_fuser_fusion_of(c->w->gr, source);
  if (g == TC_FUSION_NONE || g == c->fusion) return;
  c->depth = TC_MAX_OF(c->depth, c->w->gr->fusion[g].depth + 1);
  c->in_cycle = c->in_cycle || tc_depend_ask(&c->w->depend, g, c->fusion) != TC_DEPENDS_NOT;
}

static source_visit visit_sources(tc_fuser *w, uint32_t fusion, uint32_t n, tc_fusion_visit *visit) {
  source_visit c = {.w = w, .fusion = fusion};
  tc_fusion_each_source(w->gr, n, visit, &c);
  return c;
}

// Whether n may join the fusion. No other fusion that n reads may depend on it, and raising its
// depth behind those must succeed.
static bool may_join(tc_fuser *w, uint32_t fusion, uint32_t n) {
  source_visit c = visit_sources(w, fusion, n, check_cycle);
  return !c.in_cycle && tc_depend_wait(&w->depend, fusion, c.depth);
}

static void take_domain(tc_fusion *gp, const tc_fusion *of) {
  gp->kind = of->kind, gp->a = of->a, gp->f = of->f, gp->k = of->k;
}

// Whether n reads, beside the fusion and numbers, weights of bytes alone. n_weight counts these.
static bool reads_weights_alone(const tc_fusion_plan *gr, uint32_t fusion, uint32_t n, int *n_weight) {
  const tc_gnode *node = gr->graph->node;
  for (int k = 0; k < node[n].n_in; k++) {
    uint32_t in = node[n].in[k];
    while (tc_fuser_fusion_of(gr, in) != fusion && node[in].leaf == TC_LEAF_NONE && tc_graph_is_view(node[in].op) &&
           node[in].n_in == 1)
      in = node[in].in[0];
    bool weight = node[in].leaf != TC_LEAF_NONE && node[in].parameter && tc_type_is_byte(node[in].type);
    bool number = node[in].leaf == TC_LEAF_NONE && node[in].n_in == 0;
    if (!weight && !number && tc_fuser_fusion_of(gr, in) != fusion) return false;
    *n_weight += weight;
  }
  return true;
}

// Whether the fusion is of weights of bytes alone, whose sums are kept from run to run, and n is
// not.
static bool would_be_kept(const tc_fusion_plan *gr, const tc_fusion *gp, uint32_t fusion, uint32_t n) {
  int n_weight = 0;
  for (uint32_t i = 0; i < gp->n_member; i++)
    if (!reads_weights_alone(gr, fusion, gp->member[i], &n_weight)) return false;
  return n_weight > 0 && !reads_weights_alone(gr, fusion, n, &n_weight);
}

// The rule that keeps node n out of the fusion, whose `source` it reads; NULL: none does. Then
// *level is what n joins at, and *adopted is the fusion as it would be. A rule is a return with its
// text, which TC_LOG=fusion prints and docs/fusion.md explains.
static const char *why_not_in(const tc_fusion_plan *gr, const tc_fusion *gp, uint32_t n, uint32_t source,
                              tc_level *level, tc_fusion *adopted) {
  const tc_gnode *x = &gr->graph->node[n];
  tc_level source_level = (tc_level)gr->level[source];
  *adopted = *gp;
  if (tc_op_kind_of(x->op) == TC_KIND_CONTRACT || tc_op_kind_of(x->op) == TC_KIND_ATTENTION)
    return "operands of a matmul have memory";
  if (tc_op_kind_of(x->op) == TC_KIND_FOLD) {
    const tc_fusion of = fold_domain(gr->graph, n);
    if (source_level != TC_LEVEL_FULL) return "a reduction of what a reduction leaves";
    if (tc_fusion_positions(gp) != tc_fusion_positions(&of)) return "another number of elements";
    if (gp->kind == TC_FUSION_MATMUL || (gp->kind != TC_FUSION_ELEMENTWISE && !tc_fusion_same_domain(gp, &of)))
      return "its kernel goes over other positions";
    take_domain(adopted, &of);
    *level = TC_LEVEL_REDUCED;
    return tc_fuser_links(gr, adopted, n, TC_LEVEL_FULL, source) ? NULL : "read at other positions";
  }
  bool full = x->shape->count == tc_fusion_positions(gp);
  bool reduced = source_level == TC_LEVEL_REDUCED && (gp->kind == TC_FUSION_ROW || gp->kind == TC_FUSION_COLUMN) &&
                 x->shape->count == gp->a * gp->k;
  if (!full && !reduced) return "another number of elements";
  if (reduced && would_be_kept(gr, gp, tc_fuser_fusion_of(gr, source), n)) return "sums of weights are kept";
  *level = TC_LEVEL_FULL;
  if (full && tc_fuser_links(gr, gp, n, TC_LEVEL_FULL, source)) return NULL;
  *level = TC_LEVEL_REDUCED;
  if (reduced && tc_fuser_links(gr, gp, n, TC_LEVEL_REDUCED, source)) return NULL;
  return "read at other positions";
}

const char *tc_fuser_why_apart(const tc_fusion_plan *gr, const tc_fusion *to, const tc_fusion *from, uint32_t n,
                               uint32_t source) {
  tc_level level;
  tc_fusion adopted;
  if (to->kind == TC_FUSION_EXTERN || from->kind == TC_FUSION_EXTERN) return "a step of its own, no generated kernel";
  const char *why = why_not_in(gr, from, n, source, &level, &adopted);
  if (why) return why;
  return from->no_fusion || to->no_fusion ? "that kernel takes no more, or this one is alone" : NULL;
}

// The level at which node n could join the fusion through `source`; TC_LEVEL_NONE: it cannot.
static tc_level level_in(const tc_fuser *w, const tc_fusion *gp, uint32_t n, uint32_t source, tc_fusion *adopted) {
  tc_level level = TC_LEVEL_NONE;
  return why_not_in(w->gr, gp, n, source, &level, adopted) ? TC_LEVEL_NONE : level;
}

// Merges elementwise fusion h, which n reads too, into g. h must have as many positions as g has at
// n's level.
static void merge_flat(tc_fuser *w, uint32_t g, uint32_t h, tc_level level) {
  const tc_fusion *a = &w->gr->fusion[g];
  if (w->gr->fusion[h].k == (level == TC_LEVEL_FULL ? tc_fusion_positions(a) : a->a * a->k))
    (void)tc_fuser_merge(w, g, h, level);
}

// Whether n is a large temporary. A matmul reads panels in the place of a leaf, which is none.
static bool is_large(const tc_fuser *w, uint32_t n) {
  const tc_gnode *x = &w->g->node[n];
  size_t bytes = (size_t)x->shape->count * tc_type_bytes(x->type);
  return bytes >= TC_LARGE_BYTES && x->out == TC_LEAF_NONE && !x->stored;
}

static void connect_source(void *arg, uint32_t source, bool moved) {
  (void)moved;
  tc_fuser *w = ((source_visit *)arg)->w;
  uint32_t fusion = ((source_visit *)arg)->fusion, from = tc_fuser_fusion_of(w->gr, source);
  if (from == fusion) return;
  bool is_new = w->counted[source] != fusion + 1;
  w->n_outside[fusion] += is_new;
  w->counted[source] = fusion + 1;
  if (from == TC_FUSION_NONE) return;
  if (is_new && is_large(w, source)) w->n_large[fusion]++;
  w->gr->stored[source] = true;
  w->failed |= !tc_depend_add(&w->depend, fusion, from);
}

static void count_large(void *arg, uint32_t source, bool moved) {
  (void)moved;
  source_visit *c = arg;
  uint32_t from = tc_fuser_fusion_of(c->w->gr, source);
  c->n_large += from != TC_FUSION_NONE && from != c->fusion && is_large(c->w, source);
}

// Whether the fusion, with n in it, would read more large temporaries of others than allowed.
static bool too_large(tc_fuser *w, uint32_t n, uint32_t fusion) {
  return w->max_large < TC_MOST_OUTSIDE &&
         w->n_large[fusion] + visit_sources(w, fusion, n, count_large).n_large > w->max_large;
}

// Whether one kernel computes both gradients of attention. A GPU kernel owns rows or keys and sums
// in registers, so it computes dk and dv together only if both fit.
static bool made_together(const tc_fuser *w, const tc_gnode *a, const tc_gnode *b) {
  if (!tc_target_is_gpu(&w->g->target)) return true;
  return a->op != TC_OP_ATTENTION_DQ && b->op != TC_OP_ATTENTION_DQ &&
         a->shape->d.dim[3] + b->shape->d.dim[3] <= GPU_GRADIENT_COLUMNS;
}

static bool is_attention_gradient(tc_op op) {
  return op == TC_OP_ATTENTION_DQ || op == TC_OP_ATTENTION_DK || op == TC_OP_ATTENTION_DV;
}

// Whether two attention ops read the same operands. The log-sum-exp does not read the values.
static bool attends_alike(const tc_fuser *w, const tc_gnode *a, const tc_gnode *b) {
  if (a->op == b->op || memcmp(a->attr, b->attr, 3 * sizeof a->attr[0]) != 0) return false;
  if (a->op == TC_OP_ATTENTION && b->op == TC_OP_ATTENTION_LSE)
    return memcmp(a->in, b->in, 2 * sizeof a->in[0]) == 0 &&
           memcmp(a->in + 3, b->in + 2, (size_t)(b->n_in - 2) * sizeof a->in[0]) == 0;
  bool gradients = is_attention_gradient(a->op) && is_attention_gradient(b->op);
  return gradients && made_together(w, a, b) && memcmp(a->in, b->in, (size_t)a->n_in * sizeof a->in[0]) == 0;
}

// The fusion of an attention op: that of an op with the same operands, or a new one.
static uint32_t place_attention(tc_fuser *w, uint32_t n) {
  const tc_gnode *x = &w->g->node[n];
  for (uint32_t next = w->attends[x->in[0]]; next; next = w->attends_before[next - 1]) {
    const tc_fusion *gp = &w->gr->fusion[next - 1];
    bool alike = true;
    tc_count(TC_PASS_FUSION, 1);
    for (uint32_t i = 0; i < gp->n_member; i++) {
      const tc_gnode *y = &w->g->node[gp->member[i]];
      alike = alike && (attends_alike(w, x, y) || attends_alike(w, y, x));
    }
    if (alike && may_join(w, next - 1, n)) return next - 1;
  }
  const tc_dims *d = &x->shape->d;
  int64_t k = d->dim[d->rank - 1];
  uint32_t g = tc_fuser_add_fusion(w, TC_FUSION_ATTENTION, x->shape->count / k, 1, k);
  w->gr->fusion[g].no_fusion = true;
  w->attends_before[g] = w->attends[x->in[0]], w->attends[x->in[0]] = g + 1;
  return g;
}

// The fusion that n joins, or TC_FUSION_NONE. Of several candidates it takes the one with the
// largest domain, which more nodes can join. flat: looks at elementwise fusions only, else at all
// others.
static uint32_t place_beside(tc_fuser *w, uint32_t n, const tc_seen_fusions *seen, bool flat, tc_level *level) {
  uint32_t best = TC_FUSION_NONE;
  tc_fusion as = {.kind = TC_FUSION_ELEMENTWISE};
  for (int i = 0; i < seen->n; i++) {
    tc_fusion adopted, *gp = &w->gr->fusion[seen->of[i]];
    if ((gp->kind == TC_FUSION_ELEMENTWISE) != flat) continue;
    if (gp->no_fusion || w->must_materialize[n] == TC_NO_FUSION || w->n_outside[seen->of[i]] >= TC_MOST_OUTSIDE)
      continue;
    if (too_large(w, n, seen->of[i])) continue;
    if (w->small && w->load[seen->of[i]] + tc_fuser_reads_of(w, n) + 1 > TC_SMALL_FUSION) continue;
    tc_level at = level_in(w, gp, n, seen->node[i], &adopted);
    if (at == TC_LEVEL_NONE || gp->n_member >= tc_fuser_most_members(adopted.kind) ||
        !tc_fuser_all_link(w, &adopted, seen->of[i], n, at, seen) || !may_join(w, seen->of[i], n))
      continue;
    if (best != TC_FUSION_NONE && tc_fusion_positions(&adopted) <= tc_fusion_positions(&as)) continue;
    best = seen->of[i], as = adopted, *level = at;
  }
  if (best != TC_FUSION_NONE) take_domain(&w->gr->fusion[best], &as);
  return best;
}

static uint32_t find_place(tc_fuser *w, uint32_t n, tc_level *level) {
  const tc_gnode *x = &w->g->node[n];
  if (tc_op_kind_of(x->op) == TC_KIND_ATTENTION) return *level = TC_LEVEL_FULL, place_attention(w, n);
  tc_seen_fusions seen = {.gr = w->gr};
  tc_fusion_each_source(w->gr, n, tc_seen_fusions_note, &seen);
  // Reductions and matmuls come first: elementwise fusions can be merged into them, not vice versa.
  uint32_t fusion = place_beside(w, n, &seen, false, level);
  if (fusion == TC_FUSION_NONE) fusion = place_beside(w, n, &seen, true, level);
  if (fusion != TC_FUSION_NONE) return fusion;
  *level = tc_op_kind_of(x->op) == TC_KIND_FOLD ? TC_LEVEL_REDUCED : TC_LEVEL_FULL;
  if (*level == TC_LEVEL_REDUCED) {
    const tc_fusion of = fold_domain(w->g, n);
    return tc_fuser_add_fusion(w, of.kind, of.a, of.f, of.k);
  }
  if (tc_op_kind_of(x->op) != TC_KIND_CONTRACT)
    return tc_fuser_add_fusion(w, TC_FUSION_ELEMENTWISE, 1, 1, x->shape->count);
  const tc_dims *d = &x->shape->d;
  int64_t k = d->dim[d->rank - 1], f = d->dim[d->rank - 2];
  return tc_fuser_add_fusion(w, TC_FUSION_MATMUL, x->shape->count / (k * f), f, k);
}

// Merges two reductions over the same domain that both feed n, of fusion g: the data is read once.
static void merge_folds(tc_fuser *w, uint32_t g, uint32_t h, uint32_t n, uint32_t source, tc_level level,
                        const tc_seen_fusions *seen) {
  tc_fusion *a = &w->gr->fusion[g], *b = &w->gr->fusion[h], adopted;
  if (a->kind == b->kind && tc_fusion_same_domain(a, b) && (a->kind == TC_FUSION_ROW || a->kind == TC_FUSION_COLUMN) &&
      level_in(w, b, n, source, &adopted) == level && tc_fuser_all_link(w, b, h, n, level, seen))
    (void)tc_fuser_merge(w, g, h, TC_LEVEL_NONE);
}

// A matmul whose rows are not full vectors runs its epilogue with idle lanes on every row. An
// update in place also loads bytes that the previous row has just stored in part, which defeats
// store forwarding. With more than a bias and an activation as epilogue, storing the matmul is
// cheaper.
// Measured: gradient of 128x10 with Adam: one kernel 5.1 us -> two kernels 2.0 us.
static bool is_narrow(const tc_gnode *x) {
  if (tc_op_kind_of(x->op) != TC_KIND_CONTRACT || x->n_readers < 2) return false;
  int64_t n = x->shape->d.dim[x->shape->d.rank - 1], vectors = (n + 15) / 16;
  return n > 1 && vectors * 16 * 4 > n * 5;
}

void tc_fuser_place_node(tc_fuser *w, uint32_t n) {
  tc_level level = TC_LEVEL_FULL;
  const tc_gnode *x = &w->g->node[n];
  uint32_t fusion;
  if (tc_fuser_is_extern(w, x) || tc_fuser_touches_nothing(w->g, x))
    fusion = tc_fuser_add_fusion(w, TC_FUSION_EXTERN, 1, 1, 1), w->gr->stored[n] = true;
  else
    fusion = find_place(w, n, &level);
  if (w->failed) return;
  tc_fuser_add_member(w, fusion, n, level);
  w->gr->fusion[fusion].no_fusion |= w->must_materialize[n] == TC_NO_FUSION || is_narrow(x);
  // Fusions that this node reads may be merged with its own.
  tc_seen_fusions seen = {.gr = w->gr};
  tc_fusion_each_source(w->gr, n, tc_seen_fusions_note, &seen);
  for (int i = 0; i < seen.n && w->gr->fusion[fusion].kind != TC_FUSION_EXTERN; i++) {
    tc_fusion adopted;
    uint32_t h = tc_fuser_fusion_of(w->gr, seen.node[i]);
    if (h == fusion) continue;
    if (tc_op_kind_of(x->op) == TC_KIND_FOLD || too_large(w, n, h) || visit_sources(w, h, n, check_cycle).in_cycle)
      continue;
    if (w->gr->fusion[h].kind != TC_FUSION_ELEMENTWISE) {
      merge_folds(w, fusion, h, n, seen.node[i], level, &seen);
      continue;
    }
    if (level_in(w, &w->gr->fusion[h], n, seen.node[i], &adopted) == TC_LEVEL_FULL &&
        tc_fuser_all_link(w, &w->gr->fusion[h], h, n, TC_LEVEL_FULL, &seen))
      merge_flat(w, fusion, h, level);
  }
  (void)visit_sources(w, fusion, n, connect_source);
}
