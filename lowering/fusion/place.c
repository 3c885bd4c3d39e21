// Which group a node joins, and which of those that it reads become one with it. See place.h.
#include "lowering/fusion/place.h"

#include <string.h>

#include "lowering/fusion/access.h"
#include "runtime/passes.h"

#define GPU_GRADIENT_COLUMNS 256  // of dk and dv together, of which a warp holds 16 rows

// The fold's domain, from the shapes split_fold gives: one axis folded.
static void fold_domain(const tc_fuser *w, uint32_t n, int64_t *a, int64_t *f, int64_t *k) {
  const tc_gnode *x = &w->g->node[n];
  const tc_dims *d = &w->g->node[x->in[0]].shape->d;
  uint32_t mask = (uint32_t)x->attr[0] & 255;
  *a = *f = *k = 1;
  int axis = 0;
  while (!(mask >> axis & 1)) axis++;
  for (int i = 0; i < d->rank; i++) *(i < axis ? a : i == axis ? f : k) *= d->dim[i];
}

typedef struct cycle_check {
  tc_fuser *w;
  uint32_t group;
  uint32_t wave;  // that the group would have with what is read
  bool found;
} cycle_check;

static void check_cycle(void *arg, uint32_t source, bool moved) {
  (void)moved;
  cycle_check *c = arg;
  uint32_t g = tc_fuser_group_of(c->w->gr, source);
  if (g == TC_GROUP_NONE || g == c->group) return;
  c->wave = TC_MAX_OF(c->wave, c->w->gr->group[g].wave + 1);
  if (!c->found && tc_depend_ask(&c->w->depend, g, c->group) != TC_DEPENDS_NOT) c->found = true;
}

static bool makes_cycle(tc_fuser *w, uint32_t group, uint32_t n) {
  cycle_check c = {.w = w, .group = group};
  tc_group_each_source(w->gr, n, check_cycle, &c);
  return c.found;
}

// Whether n may join the group: no other group that it reads depends on that, and that group's readers can wait for those, too.
static bool may_join(tc_fuser *w, uint32_t group, uint32_t n) {
  cycle_check c = {.w = w, .group = group};
  tc_group_each_source(w->gr, n, check_cycle, &c);
  return !c.found && tc_depend_wait(&w->depend, group, c.wave);
}

// At which level node n could join the group through `source`; NONE if not.
static tc_level level_in(tc_fuser *w, const tc_group *gp, uint32_t n, uint32_t source, tc_group *adopted) {
  const tc_gnode *x = &w->g->node[n];
  *adopted = *gp;
  if (tc_op_kind_of(x->op) == TC_KIND_CONTRACT || tc_op_kind_of(x->op) == TC_KIND_ATTENTION) return TC_LEVEL_NONE;
  if (tc_op_kind_of(x->op) == TC_KIND_FOLD) {
    int64_t a, f, k;
    fold_domain(w, n, &a, &f, &k);
    if (gp->kind == TC_GROUP_GEMM || w->gr->level[source] != TC_LEVEL_FULL) return TC_LEVEL_NONE;
    if (gp->kind == TC_GROUP_FLAT ? gp->k != a * f * k : gp->a != a || gp->f != f || gp->k != k) return TC_LEVEL_NONE;
    adopted->kind = k == 1 ? TC_GROUP_ROW : TC_GROUP_COL;
    adopted->a = a, adopted->f = f, adopted->k = k;
    return tc_fuser_links(w, adopted, n, TC_LEVEL_FULL, source) ? TC_LEVEL_REDUCED : TC_LEVEL_NONE;
  }
  if (x->shape->count == gp->a * gp->f * gp->k && tc_fuser_links(w, gp, n, TC_LEVEL_FULL, source)) return TC_LEVEL_FULL;
  bool folds = gp->kind == TC_GROUP_ROW || gp->kind == TC_GROUP_COL;
  if (folds && w->gr->level[source] == TC_LEVEL_REDUCED && x->shape->count == gp->a * gp->k && tc_fuser_links(w, gp, n, TC_LEVEL_REDUCED, source))
    return TC_LEVEL_REDUCED;
  return TC_LEVEL_NONE;
}

// A flat group that n reads beside g, with as many positions as g has at n's level.
static bool merge_flat(tc_fuser *w, uint32_t g, uint32_t h, tc_level level) {
  const tc_group *a = &w->gr->group[g], *b = &w->gr->group[h];
  int64_t positions = level == TC_LEVEL_FULL ? a->a * a->f * a->k : a->a * a->k;
  return g == h || (b->kind == TC_GROUP_FLAT && b->k == positions && tc_fuser_merge(w, g, h, level));
}

static bool is_large(const tc_fuser *w, uint32_t n) {
  const tc_gnode *x = &w->g->node[n];
  return (size_t)x->shape->count * tc_type_bytes(x->type) >= TC_LARGE_BYTES && x->out == TC_LEAF_NONE;
}

typedef struct connection {
  tc_fuser *w;
  uint32_t group;
} connection;

static void connect_source(void *arg, uint32_t source, bool moved) {
  (void)moved;
  tc_fuser *w = ((connection *)arg)->w;
  uint32_t group = ((connection *)arg)->group, from = tc_fuser_group_of(w->gr, source);
  if (from == group) return;
  bool is_new = w->counted[source] != group + 1;
  w->n_outside[group] += is_new;
  w->counted[source] = group + 1;
  if (from == TC_GROUP_NONE) return;
  if (is_new && is_large(w, source)) w->n_large[group]++;
  w->gr->stored[source] = true;
  w->failed |= !tc_depend_add(&w->depend, group, from);
}

typedef struct large_count {
  const tc_fuser *w;
  uint32_t group, n;
} large_count;

static void count_large(void *arg, uint32_t source, bool moved) {
  (void)moved;
  large_count *c = arg;
  uint32_t from = tc_fuser_group_of(c->w->gr, source);
  c->n += from != TC_GROUP_NONE && from != c->group && is_large(c->w, source);
}

// Whether the group, with n, would read more large temporaries of others than it may.
static bool too_large(const tc_fuser *w, uint32_t n, uint32_t group) {
  if (w->max_large == TC_MOST_OUTSIDE) return false;
  large_count c = {w, group, w->n_large[group]};
  tc_group_each_source(w->gr, n, count_large, &c);
  return c.n > w->max_large;
}

// Whether one kernel makes two gradients of attention. A GPU's has rows or keys of its own, and sums in registers: of dk and dv both if there is room.
static bool made_together(const tc_fuser *w, const tc_gnode *a, const tc_gnode *b) {
  if (!tc_target_is_gpu(&w->g->target)) return true;
  return a->op != TC_OP_ATTENTION_DQ && b->op != TC_OP_ATTENTION_DQ && a->shape->d.dim[3] + b->shape->d.dim[3] <= GPU_GRADIENT_COLUMNS;
}

static bool is_attention_gradient(tc_op op) {
  return op == TC_OP_ATTENTION_DQ || op == TC_OP_ATTENTION_DK || op == TC_OP_ATTENTION_DV;
}

// Whether two rows of attention read the same operands, but for the values that the log-sum-exp does not read.
static bool attends_alike(const tc_fuser *w, const tc_gnode *a, const tc_gnode *b) {
  if (a->op == b->op || memcmp(a->attr, b->attr, 3 * sizeof a->attr[0]) != 0) return false;
  if (a->op == TC_OP_ATTENTION && b->op == TC_OP_ATTENTION_LSE)
    return memcmp(a->in, b->in, 2 * sizeof a->in[0]) == 0 && memcmp(a->in + 3, b->in + 2, (size_t)(b->n_in - 2) * sizeof a->in[0]) == 0;
  bool gradients = is_attention_gradient(a->op) && is_attention_gradient(b->op);
  return gradients && made_together(w, a, b) && memcmp(a->in, b->in, (size_t)a->n_in * sizeof a->in[0]) == 0;
}

// The group of a row of attention: that of a row it shares its tc_fuser with, or one of its own.
static uint32_t place_attention(tc_fuser *w, uint32_t n) {
  const tc_gnode *x = &w->g->node[n];
  for (uint32_t next = w->attends[x->in[0]]; next; next = w->attends_before[next - 1]) {
    const tc_group *gp = &w->gr->group[next - 1];
    bool alike = true;
    tc_count(TC_PASS_GROUPS, 1);
    for (uint32_t i = 0; i < gp->n_member; i++) {
      const tc_gnode *y = &w->g->node[gp->member[i]];
      alike = alike && (attends_alike(w, x, y) || attends_alike(w, y, x));
    }
    if (alike && may_join(w, next - 1, n)) return next - 1;
  }
  const tc_dims *d = &x->shape->d;
  int64_t k = d->dim[d->rank - 1];
  uint32_t g = tc_fuser_add_group(w, TC_GROUP_ATTENTION, x->shape->count / k, 1, k);
  w->gr->group[g].alone = true;
  w->attends_before[g] = w->attends[x->in[0]], w->attends[x->in[0]] = g + 1;
  return g;
}

// The group that n joins, or TC_GROUP_NONE: of those it could the one over the largest domain, where more may follow it.
static uint32_t place_beside(tc_fuser *w, uint32_t n, const tc_seen_groups *seen, bool flat, tc_level *level) {
  uint32_t best = TC_GROUP_NONE;
  tc_group as = {.kind = TC_GROUP_FLAT};
  for (int i = 0; i < seen->n; i++) {
    tc_group adopted, *gp = &w->gr->group[seen->of[i]];
    if ((gp->kind == TC_GROUP_FLAT) != flat) continue;
    if (gp->alone || w->forced[n] == TC_FORCE_ALONE || w->n_outside[seen->of[i]] >= TC_MOST_OUTSIDE) continue;
    if (too_large(w, n, seen->of[i])) continue;
    if (w->tight && w->load[seen->of[i]] + tc_fuser_reads_of(w, n) + 1 > TC_TIGHT_GROUP) continue;
    tc_level at = level_in(w, gp, n, seen->node[i], &adopted);
    if (at == TC_LEVEL_NONE || gp->n_member >= tc_fuser_most_members(adopted.kind) || !tc_fuser_all_link(w, &adopted, seen->of[i], n, at, seen) ||
        !may_join(w, seen->of[i], n))
      continue;
    if (best != TC_GROUP_NONE && adopted.a * adopted.f * adopted.k <= as.a * as.f * as.k) continue;
    best = seen->of[i], as = adopted, *level = at;
  }
  if (best != TC_GROUP_NONE) {
    tc_group *gp = &w->gr->group[best];
    gp->kind = as.kind, gp->a = as.a, gp->f = as.f, gp->k = as.k;
  }
  return best;
}

static uint32_t find_place(tc_fuser *w, uint32_t n, tc_level *level) {
  const tc_gnode *x = &w->g->node[n];
  if (tc_op_kind_of(x->op) == TC_KIND_ATTENTION) return *level = TC_LEVEL_FULL, place_attention(w, n);
  tc_seen_groups seen = {.gr = w->gr};
  tc_group_each_source(w->gr, n, tc_seen_groups_note, &seen);
  // Groups that fold or multiply first: flat ones can be merged into them, not the other way.
  uint32_t group = place_beside(w, n, &seen, false, level);
  if (group == TC_GROUP_NONE) group = place_beside(w, n, &seen, true, level);
  if (group != TC_GROUP_NONE) return group;
  int64_t a = 1, f = 1, k = x->shape->count;
  *level = TC_LEVEL_FULL;
  if (tc_op_kind_of(x->op) == TC_KIND_CONTRACT) {
    const tc_dims *d = &x->shape->d;
    k = d->dim[d->rank - 1], f = d->dim[d->rank - 2], a = x->shape->count / (k * f);
    return tc_fuser_add_group(w, TC_GROUP_GEMM, a, f, k);
  }
  if (tc_op_kind_of(x->op) != TC_KIND_FOLD) return tc_fuser_add_group(w, TC_GROUP_FLAT, a, f, k);
  fold_domain(w, n, &a, &f, &k);
  *level = TC_LEVEL_REDUCED;
  return tc_fuser_add_group(w, k == 1 ? TC_GROUP_ROW : TC_GROUP_COL, a, f, k);
}

// Folds over the same domain that n, of group g, brings together: the data is read once.
static void merge_folds(tc_fuser *w, uint32_t g, uint32_t h, uint32_t n, uint32_t source, tc_level level, const tc_seen_groups *seen) {
  tc_group *a = &w->gr->group[g], *b = &w->gr->group[h], adopted;
  bool same = a->kind == b->kind && a->a == b->a && a->f == b->f && a->k == b->k;
  if (same && (a->kind == TC_GROUP_ROW || a->kind == TC_GROUP_COL) && level_in(w, b, n, source, &adopted) == level &&
      tc_fuser_all_link(w, b, h, n, level, seen))
    (void)tc_fuser_merge(w, g, h, TC_LEVEL_NONE);
}

// A product whose rows are not full vectors would do what follows on every row with idle lanes, and an update in place would load bytes that the row before
// has just stored in part, which the processor cannot forward. Where more than a bias and an activation follows, that costs more than storing the
// product: a gradient of 128x10 with Adam took 5.1 us in one kernel and takes 2.0 in two.
static bool is_narrow(const tc_gnode *x) {
  if (tc_op_kind_of(x->op) != TC_KIND_CONTRACT || x->n_readers < 2) return false;
  int64_t n = x->shape->d.dim[x->shape->d.rank - 1], vectors = (n + 15) / 16;
  return n > 1 && vectors * 16 * 4 > n * 5;
}

void tc_fuser_place_node(tc_fuser *w, uint32_t n) {
  tc_level level = TC_LEVEL_FULL;
  const tc_gnode *x = &w->g->node[n];
  uint32_t group;
  if (tc_fuser_is_extern(w, x) || tc_fuser_touches_nothing(w->g, x))
    group = tc_fuser_add_group(w, TC_GROUP_EXTERN, 1, 1, 1), w->gr->stored[n] = true;
  else
    group = find_place(w, n, &level);
  if (w->failed) return;
  tc_fuser_add_member(w, group, n, level);
  w->gr->group[group].alone |= w->forced[n] == TC_FORCE_ALONE || is_narrow(x);
  // Other groups this node reads may become one with it.
  tc_seen_groups seen = {.gr = w->gr};
  tc_group_each_source(w->gr, n, tc_seen_groups_note, &seen);
  for (int i = 0; i < seen.n && w->gr->group[group].kind != TC_GROUP_EXTERN; i++) {
    tc_group adopted;
    uint32_t h = tc_fuser_group_of(w->gr, seen.node[i]);
    if (h == group) continue;
    if (tc_op_kind_of(x->op) == TC_KIND_FOLD || too_large(w, n, h) || makes_cycle(w, h, n)) continue;
    if (w->gr->group[h].kind != TC_GROUP_FLAT) {
      merge_folds(w, group, h, n, seen.node[i], level, &seen);
      continue;
    }
    if (level_in(w, &w->gr->group[h], n, seen.node[i], &adopted) == TC_LEVEL_FULL &&
        tc_fuser_all_link(w, &w->gr->group[h], h, n, TC_LEVEL_FULL, &seen))
      (void)merge_flat(w, group, h, level);
  }
  tc_group_each_source(w->gr, n, connect_source, &(connection){w, group});
}
