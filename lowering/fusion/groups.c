// Grouping: places nodes one by one, then merges siblings. See groups.h.
#include "lowering/fusion/groups.h"

#include <stdlib.h>
#include <string.h>

#include "lowering/fusion/dependence.h"
#include "lowering/fusion/recompute.h"
#include "lowering/fusion/access.h"
#include "runtime/passes.h"
#include "runtime/team.h"

#define MAX_MEMBERS 480
#define MAX_FOLDED 160  // members where there are folds: each is looked at in every pass
#define MIN_SHARED 4096  // elements worth reading once for two groups
#define MAX_IN_PLACE 48  // nodes made in place where one is read, counted with repetition
#define MAX_OUTSIDE 40  // buffers a kernel reads and writes stay well below TC_MAX_BUFS
#define THRIFTY_LARGE 2  // large temporaries a kernel reads under `thrifty` grouping
#define MAX_JOINED 32   // tensors joined in a fused kernel; more are copied by the reference kernel
// Under `tight` grouping no kernel can pass TC_MAX_BUFS tensors: bounds on what a group and a value made in place may read and write.
#define TIGHT_GROUP 48
#define TIGHT_IN_PLACE 10
#define TIGHT_JOINED 4
#define FOLD_LANES 64  // of a row, all of which a kernel that also sums columns takes
#define MAX_COLUMNS 16384  // summed with their rows: the sums stay in a core's cache
#define GPU_GRADIENT_COLUMNS 256  // of dk and dv together, of which a warp holds 16 rows
#define MOST_TRIED 64  // groups that a group is compared with, of those that read the same
#define MANY_PARTS 4  // a thread: they need not be as many for each

typedef struct work {
  tc_grouping *gr;
  const tc_graph *g;
  uint32_t *rank;       // per node: position in the order
  tc_depend depend;
  uint32_t *attends;    // per node: one more than the last group of attention that reads it first, 0: none does
  uint32_t *attends_before;  // per group: likewise, the one before it
  uint32_t *n_outside;  // per group: tensors of others that it reads
  uint32_t *n_large;    // per group: large ones that others make
  uint32_t max_large;
  uint32_t *counted;    // per node: the group, plus one, that counted it last
  bool tight;
  uint32_t *reads;      // per node: tensors and scalars that a reader of it reads, counted with repetition; 1 unless it is made in place
  uint32_t *load;       // per group: what its members read and write, counted so
  uint32_t *size;       // per node: nodes made in place where it is read, counted with repetition; 0 unless it is one
  bool *constant;       // per node: made of constants and ranges alone
  const uint8_t *forced;
  bool failed;
} work;

static bool is_extern(const work *w, const tc_gnode *x) {
  if (tc_graph_is_zeros(x)) return true;
  if (x->op == TC_OP_CAT && x->n_in > (w->tight ? TIGHT_JOINED : MAX_JOINED)) return true;
  if (tc_device_kind_of(x->dev) == TC_DEVICE_ROWS) return x->op != TC_OP_LEAF && !tc_op_is_alias(x->op);
  if (tc_op_lowering_of(x->op) == TC_LOWER_EXTERN || x->part) return true;
  if (x->op == TC_OP_WRITE_SLICE)
    for (int i = 0; i < x->n_attr; i++)
      if (x->attr[i] != 1) return true;
  return false;
}

bool tc_group_is_filled(const tc_graph *g, uint32_t n, int k) {
  const tc_gnode *x = &g->node[n], *in = &g->node[x->in[k]];
  bool puts = tc_op_kind_of(x->op) == TC_KIND_INDEX && tc_graph_part_of(x->op) >= 0;
  return puts && k == 0 && in->op == TC_OP_FULL && in->shape->count > 0 && !tc_graph_is_zeros(in) && tc_device_generates(x->dev);
}

static bool touches_nothing(const tc_graph *g, const tc_gnode *x) {
  bool empty = x->shape->count == 0;
  for (int i = 0; i < x->n_in; i++) empty |= g->node[x->in[i]].shape->count == 0;
  return empty;
}

static bool multiplies(const tc_gnode *x) {
  return tc_op_kind_of(x->op) == TC_KIND_CONTRACT || tc_op_kind_of(x->op) == TC_KIND_ATTENTION;
}

static bool is_view(const tc_gnode *x) {
  return tc_op_kind_of(x->op) == TC_KIND_MOVE || tc_op_kind_of(x->op) == TC_KIND_EFFECT;
}

// What making n reads, with repetition.
static uint32_t reads_of(const work *w, uint32_t n) {
  const tc_gnode *x = &w->g->node[n];
  uint32_t sum = (uint32_t)x->n_arg;
  for (int i = 0; i < x->n_in; i++) sum += w->reads[x->in[i]];
  return TC_MIN(sum, UINT32_C(1) << 16);
}

static uint32_t group_of(const tc_grouping *gr, uint32_t n) {
  return gr->of[n] == TC_GROUP_NONE ? TC_GROUP_NONE : tc_group_alive(gr, gr->of[n]);
}

static uint32_t group_add(work *w, tc_group_kind kind, int64_t a, int64_t f, int64_t k) {
  tc_grouping *gr = w->gr;
  tc_group *gp = &gr->group[gr->n_group];
  *gp = (tc_group){.kind = kind, .a = a, .f = f, .k = k, .merged = TC_GROUP_NONE};
  return gr->n_group++;
}

static void member_add(work *w, uint32_t group, uint32_t n, tc_level level) {
  tc_group *gp = &w->gr->group[group];
  if (gp->n_member == gp->cap_member) {
    uint32_t cap = gp->cap_member ? gp->cap_member * 2 : 8;
    uint32_t *m = tc_arena_alloc(w->gr->arena, cap * sizeof *m);
    if (!m) {
      w->failed = true;
      return;
    }
    if (gp->n_member) memcpy(m, gp->member, gp->n_member * sizeof *m);
    gp->member = m, gp->cap_member = cap;
  }
  gp->member[gp->n_member++] = n;
  w->load[group] += reads_of(w, n) + 1;
  w->gr->of[n] = group;
  w->gr->level[n] = (uint8_t)level;
}

static uint32_t size_of(const work *w, uint32_t n) {
  const tc_gnode *x = &w->g->node[n];
  uint32_t sum = 1;
  for (int i = 0; i < x->n_in; i++) sum += w->size[x->in[i]];
  return TC_MIN(sum, UINT32_C(1) << 16);
}

static bool moves(const tc_gnode *x) {
  return x->op != TC_OP_EXPAND && !tc_op_is_alias(x->op) && tc_op_kind_of(x->op) != TC_KIND_ELEM && tc_op_kind_of(x->op) != TC_KIND_FOLD;
}

static void each_source(const tc_grouping *gr, uint32_t n, bool moved, tc_group_visit *visit, void *arg) {
  const tc_gnode *x = &gr->graph->node[n];
  moved |= moves(x);
  tc_count(TC_PASS_GROUPS, (uint64_t)x->n_in);
  for (int i = 0; i < x->n_in; i++) {
    uint32_t s = tc_group_root(gr, x->in[i]);
    if (gr->of[s] != TC_GROUP_NONE || gr->stored[s] || gr->graph->node[s].leaf != TC_LEAF_NONE)
      visit(arg, s, moved);
    else
      each_source(gr, s, moved, visit, arg);
  }
}

void tc_group_each_source(const tc_grouping *gr, uint32_t n, tc_group_visit *visit, void *arg) {
  each_source(gr, n, false, visit, arg);
}

static bool can_join(const work *w, const tc_group *gp, uint32_t n, tc_level level, uint32_t source) {
  const tc_extents e = tc_view_extents(gp->a, gp->f, gp->k);
  return tc_view_links(w->gr, gp, &e, n, level, source, (tc_level)w->gr->level[source]);
}

// The fold's domain, from the shapes split_fold gives: one axis folded.
static void fold_domain(const work *w, uint32_t n, int64_t *a, int64_t *f, int64_t *k) {
  const tc_gnode *x = &w->g->node[n];
  const tc_dims *d = &w->g->node[x->in[0]].shape->d;
  uint32_t mask = (uint32_t)x->attr[0] & 255;
  *a = *f = *k = 1;
  int axis = 0;
  while (!(mask >> axis & 1)) axis++;
  for (int i = 0; i < d->rank; i++) *(i < axis ? a : i == axis ? f : k) *= d->dim[i];
}

typedef struct seen_groups {
  const tc_grouping *gr;
  uint32_t of[16], node[16];
  int n;
} seen_groups;

static void note_group(void *arg, uint32_t source, bool moved) {
  (void)moved;
  seen_groups *seen = arg;
  uint32_t g = group_of(seen->gr, source);
  if (g == TC_GROUP_NONE || seen->gr->group[g].kind == TC_GROUP_EXTERN) return;
  for (int i = 0; i < seen->n; i++)
    if (seen->of[i] == g && seen->node[i] == source) return;
  if (seen->n < 16) seen->of[seen->n] = g, seen->node[seen->n] = source, seen->n++;
}

typedef struct cycle_check {
  work *w;
  uint32_t group;
  uint32_t wave;  // that the group would have with what is read
  bool found;
} cycle_check;

static void check_cycle(void *arg, uint32_t source, bool moved) {
  (void)moved;
  cycle_check *c = arg;
  uint32_t g = group_of(c->w->gr, source);
  if (g == TC_GROUP_NONE || g == c->group) return;
  c->wave = TC_MAX_OF(c->wave, c->w->gr->group[g].wave + 1);
  if (!c->found && tc_depend_ask(&c->w->depend, g, c->group) != TC_DEPENDS_NOT) c->found = true;
}

static bool makes_cycle(work *w, uint32_t group, uint32_t n) {
  cycle_check c = {.w = w, .group = group};
  tc_group_each_source(w->gr, n, check_cycle, &c);
  return c.found;
}

// Whether n may join the group: no other group that it reads depends on that, and that group's readers can wait for those, too.
static bool may_join(work *w, uint32_t group, uint32_t n) {
  cycle_check c = {.w = w, .group = group};
  tc_group_each_source(w->gr, n, check_cycle, &c);
  return !c.found && tc_depend_wait(&w->depend, group, c.wave);
}

// At which level node n could join the group through `source`; NONE if not.
static tc_level level_in(work *w, const tc_group *gp, uint32_t n, uint32_t source, tc_group *adopted) {
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
    return can_join(w, adopted, n, TC_LEVEL_FULL, source) ? TC_LEVEL_REDUCED : TC_LEVEL_NONE;
  }
  if (x->shape->count == gp->a * gp->f * gp->k && can_join(w, gp, n, TC_LEVEL_FULL, source)) return TC_LEVEL_FULL;
  bool folds = gp->kind == TC_GROUP_ROW || gp->kind == TC_GROUP_COL;
  if (folds && w->gr->level[source] == TC_LEVEL_REDUCED && x->shape->count == gp->a * gp->k && can_join(w, gp, n, TC_LEVEL_REDUCED, source))
    return TC_LEVEL_REDUCED;
  return TC_LEVEL_NONE;
}

// Whether every value of `group` that n reads stands where n, at this level of gp, would read it.
static bool all_link(const work *w, const tc_group *gp, uint32_t group, uint32_t n, tc_level level, const seen_groups *seen) {
  tc_level at = tc_op_kind_of(w->g->node[n].op) == TC_KIND_FOLD ? TC_LEVEL_FULL : level;
  for (int i = 0; i < seen->n; i++)
    if (group_of(w->gr, seen->node[i]) == group && !can_join(w, gp, n, at, seen->node[i])) return false;
  return seen->n < 16;
}

static uint32_t most_members(tc_group_kind kind) {
  return kind == TC_GROUP_FLAT ? MAX_MEMBERS : MAX_FOLDED;
}

static void sort_members(work *w, tc_group *gp) {
  for (uint32_t i = 1; i < gp->n_member; i++) {
    uint32_t m = gp->member[i], j = i;
    for (; j > 0 && w->rank[gp->member[j - 1]] > w->rank[m]; j--) gp->member[j] = gp->member[j - 1];
    tc_count(TC_PASS_GROUPS, 1 + i - j);
    gp->member[j] = m;
  }
}

// Moves h's members into g at their level, or at the level given.
static void absorb(work *w, uint32_t g, uint32_t h, tc_level level) {
  tc_group *a = &w->gr->group[g], *b = &w->gr->group[h];
  for (uint32_t i = 0; i < b->n_member; i++) {
    uint32_t m = b->member[i];
    member_add(w, g, m, level == TC_LEVEL_NONE ? (tc_level)w->gr->level[m] : level);
  }
  sort_members(w, a);
  b->merged = g;
  b->n_member = 0;
  w->n_outside[g] += w->n_outside[h];
  w->n_large[g] += w->n_large[h];
  tc_depend_join(&w->depend, g, h);
}

static bool fit_together(const work *w, uint32_t g, uint32_t h) {
  const tc_group *a = &w->gr->group[g], *b = &w->gr->group[h];
  if (a->alone || b->alone || a->n_member + b->n_member > most_members(a->kind)) return false;
  if (w->max_large < MAX_OUTSIDE && w->n_large[g] && w->n_large[h]) return false;
  return w->n_outside[g] + w->n_outside[h] <= MAX_OUTSIDE && (!w->tight || w->load[g] + w->load[h] <= TIGHT_GROUP);
}

// The same if neither depends on the other and they are not too much for one kernel.
static bool merge(work *w, uint32_t g, uint32_t h, tc_level level) {
  if (!fit_together(w, g, h) || !tc_depend_may_join(&w->depend, g, h)) return false;
  absorb(w, g, h, level);
  return true;
}

// A flat group that n reads beside g, with as many positions as g has at n's level.
static bool merge_flat(work *w, uint32_t g, uint32_t h, tc_level level) {
  const tc_group *a = &w->gr->group[g], *b = &w->gr->group[h];
  int64_t positions = level == TC_LEVEL_FULL ? a->a * a->f * a->k : a->a * a->k;
  return g == h || (b->kind == TC_GROUP_FLAT && b->k == positions && merge(w, g, h, level));
}

static bool is_large(const work *w, uint32_t n) {
  const tc_gnode *x = &w->g->node[n];
  return (size_t)x->shape->count * tc_type_bytes(x->type) >= TC_LARGE_BYTES && x->out == TC_LEAF_NONE;
}

typedef struct connection {
  work *w;
  uint32_t group;
} connection;

static void connect(void *arg, uint32_t source, bool moved) {
  (void)moved;
  work *w = ((connection *)arg)->w;
  uint32_t group = ((connection *)arg)->group, from = group_of(w->gr, source);
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
  const work *w;
  uint32_t group, n;
} large_count;

static void count_large(void *arg, uint32_t source, bool moved) {
  (void)moved;
  large_count *c = arg;
  uint32_t from = group_of(c->w->gr, source);
  c->n += from != TC_GROUP_NONE && from != c->group && is_large(c->w, source);
}

// Whether the group, with n, would read more large temporaries of others than it may.
static bool too_large(const work *w, uint32_t n, uint32_t group) {
  if (w->max_large == MAX_OUTSIDE) return false;
  large_count c = {w, group, w->n_large[group]};
  tc_group_each_source(w->gr, n, count_large, &c);
  return c.n > w->max_large;
}

static bool is_attention_gradient(tc_op op) {
  return op == TC_OP_ATTENTION_DQ || op == TC_OP_ATTENTION_DK || op == TC_OP_ATTENTION_DV;
}

// Whether one kernel makes two gradients of attention. A GPU's has rows or keys of its own, and sums in registers: of dk and dv both if there is room.
static bool made_together(const work *w, const tc_gnode *a, const tc_gnode *b) {
  if (!tc_target_is_gpu(&w->g->target)) return true;
  return a->op != TC_OP_ATTENTION_DQ && b->op != TC_OP_ATTENTION_DQ && a->shape->d.dim[3] + b->shape->d.dim[3] <= GPU_GRADIENT_COLUMNS;
}

// Whether two rows of attention read the same operands, but for the values that the log-sum-exp does not read.
static bool attends_alike(const work *w, const tc_gnode *a, const tc_gnode *b) {
  if (a->op == b->op || memcmp(a->attr, b->attr, 3 * sizeof a->attr[0]) != 0) return false;
  if (a->op == TC_OP_ATTENTION && b->op == TC_OP_ATTENTION_LSE)
    return memcmp(a->in, b->in, 2 * sizeof a->in[0]) == 0 && memcmp(a->in + 3, b->in + 2, (size_t)(b->n_in - 2) * sizeof a->in[0]) == 0;
  return is_attention_gradient(a->op) && is_attention_gradient(b->op) && made_together(w, a, b) &&
         memcmp(a->in, b->in, (size_t)a->n_in * sizeof a->in[0]) == 0;
}

// The group of a row of attention: that of a row it shares its work with, or one of its own.
static uint32_t place_attention(work *w, uint32_t n) {
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
  uint32_t g = group_add(w, TC_GROUP_ATTENTION, x->shape->count / k, 1, k);
  w->gr->group[g].alone = true;
  w->attends_before[g] = w->attends[x->in[0]], w->attends[x->in[0]] = g + 1;
  return g;
}

// The group that n joins, or TC_GROUP_NONE: of those it could the one over the largest domain, where more may follow it.
static uint32_t place_beside(work *w, uint32_t n, const seen_groups *seen, bool flat, tc_level *level) {
  uint32_t best = TC_GROUP_NONE;
  tc_group as = {.kind = TC_GROUP_FLAT};
  for (int i = 0; i < seen->n; i++) {
    tc_group adopted, *gp = &w->gr->group[seen->of[i]];
    if ((gp->kind == TC_GROUP_FLAT) != flat) continue;
    if (gp->alone || w->forced[n] == TC_FORCE_ALONE || w->n_outside[seen->of[i]] >= MAX_OUTSIDE) continue;
    if (too_large(w, n, seen->of[i])) continue;
    if (w->tight && w->load[seen->of[i]] + reads_of(w, n) + 1 > TIGHT_GROUP) continue;
    tc_level at = level_in(w, gp, n, seen->node[i], &adopted);
    if (at == TC_LEVEL_NONE || gp->n_member >= most_members(adopted.kind) || !all_link(w, &adopted, seen->of[i], n, at, seen) ||
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

static uint32_t place(work *w, uint32_t n, tc_level *level) {
  const tc_gnode *x = &w->g->node[n];
  if (tc_op_kind_of(x->op) == TC_KIND_ATTENTION) return *level = TC_LEVEL_FULL, place_attention(w, n);
  seen_groups seen = {.gr = w->gr};
  tc_group_each_source(w->gr, n, note_group, &seen);
  // Groups that fold or multiply first: flat ones can be merged into them, not the other way.
  uint32_t group = place_beside(w, n, &seen, false, level);
  if (group == TC_GROUP_NONE) group = place_beside(w, n, &seen, true, level);
  if (group != TC_GROUP_NONE) return group;
  int64_t a = 1, f = 1, k = x->shape->count;
  *level = TC_LEVEL_FULL;
  if (tc_op_kind_of(x->op) == TC_KIND_CONTRACT) {
    const tc_dims *d = &x->shape->d;
    k = d->dim[d->rank - 1], f = d->dim[d->rank - 2], a = x->shape->count / (k * f);
    return group_add(w, TC_GROUP_GEMM, a, f, k);
  }
  if (tc_op_kind_of(x->op) != TC_KIND_FOLD) return group_add(w, TC_GROUP_FLAT, a, f, k);
  fold_domain(w, n, &a, &f, &k);
  *level = TC_LEVEL_REDUCED;
  return group_add(w, k == 1 ? TC_GROUP_ROW : TC_GROUP_COL, a, f, k);
}

// Folds over the same domain that n, of group g, brings together: the data is read once.
static void merge_folds(work *w, uint32_t g, uint32_t h, uint32_t n, uint32_t source, tc_level level, const seen_groups *seen) {
  tc_group *a = &w->gr->group[g], *b = &w->gr->group[h], adopted;
  bool same = a->kind == b->kind && a->a == b->a && a->f == b->f && a->k == b->k;
  if (same && (a->kind == TC_GROUP_ROW || a->kind == TC_GROUP_COL) && level_in(w, b, n, source, &adopted) == level &&
      all_link(w, b, h, n, level, seen))
    (void)merge(w, g, h, TC_LEVEL_NONE);
}

// A product whose rows are not full vectors would do what follows on every row with idle lanes, and an update in place would load bytes that the row before
// has just stored in part, which the processor cannot forward. Where more than a bias and an activation follows, that costs more than storing the
// product: a gradient of 128x10 with Adam took 5.1 us in one kernel and takes 2.0 in two.
static bool is_narrow(const tc_gnode *x) {
  if (tc_op_kind_of(x->op) != TC_KIND_CONTRACT || x->n_readers < 2) return false;
  int64_t n = x->shape->d.dim[x->shape->d.rank - 1], vectors = (n + 15) / 16;
  return n > 1 && vectors * 16 * 4 > n * 5;
}

static void assign_node(work *w, uint32_t n) {
  tc_level level = TC_LEVEL_FULL;
  const tc_gnode *x = &w->g->node[n];
  uint32_t group;
  if (is_extern(w, x) || touches_nothing(w->g, x))
    group = group_add(w, TC_GROUP_EXTERN, 1, 1, 1), w->gr->stored[n] = true;
  else
    group = place(w, n, &level);
  if (w->failed) return;
  member_add(w, group, n, level);
  w->gr->group[group].alone |= w->forced[n] == TC_FORCE_ALONE || is_narrow(x);
  // Other groups this node reads may become one with it.
  seen_groups seen = {.gr = w->gr};
  tc_group_each_source(w->gr, n, note_group, &seen);
  for (int i = 0; i < seen.n && w->gr->group[group].kind != TC_GROUP_EXTERN; i++) {
    tc_group adopted;
    uint32_t h = group_of(w->gr, seen.node[i]);
    if (h == group) continue;
    if (tc_op_kind_of(x->op) == TC_KIND_FOLD || too_large(w, n, h) || makes_cycle(w, h, n)) continue;
    if (w->gr->group[h].kind != TC_GROUP_FLAT) {
      merge_folds(w, group, h, n, seen.node[i], level, &seen);
      continue;
    }
    if (level_in(w, &w->gr->group[h], n, seen.node[i], &adopted) == TC_LEVEL_FULL && all_link(w, &w->gr->group[h], h, n, TC_LEVEL_FULL, &seen))
      (void)merge_flat(w, group, h, level);
  }
  tc_group_each_source(w->gr, n, connect, &(connection){w, group});
}

// ---- siblings ----

typedef struct sources {
  const tc_grouping *gr;
  uint32_t node[MAX_OUTSIDE], n;
  int64_t count;  // only nodes of so many elements are noted
  uint32_t group;
} sources;

static void note_source(void *arg, uint32_t source, bool moved) {
  (void)moved;
  sources *s = arg;
  if (group_of(s->gr, source) == s->group || s->gr->graph->node[source].shape->count != s->count || s->n == MAX_OUTSIDE) return;
  for (uint32_t i = 0; i < s->n; i++)
    if (s->node[i] == source) return;
  s->node[s->n++] = source;
}

// Which groups were noted as readers of a node, the latest first.
typedef struct readers {
  tc_group_link **of;  // per node
  uint32_t found[MAX_OUTSIDE * MOST_TRIED], n;
} readers;

static readers *readers_create(work *w) {
  readers *r = tc_arena_alloc(w->gr->arena, sizeof *r);
  if (r) r->of = tc_arena_alloc(w->gr->arena, (w->g->n + 1) * sizeof r->of[0]);
  w->failed |= !r || !r->of;
  return w->failed ? NULL : r;
}

static void readers_note(work *w, readers *r, uint32_t node, uint32_t group) {
  tc_group_link *l = tc_arena_alloc(w->gr->arena, sizeof *l);
  w->failed |= !l;
  if (!l) return;
  *l = (tc_group_link){r->of[node], group};
  r->of[node] = l;
}

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

// The latest readers of each source, as numbers that rise.
static void readers_find(readers *r, const sources *s) {
  uint32_t kept = 0;
  r->n = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    uint32_t n = 0;
    for (const tc_group_link *l = r->of[s->node[i]]; l && n < MOST_TRIED; l = l->next, n++) r->found[r->n++] = l->group;
  }
  tc_count(TC_PASS_GROUPS, r->n);
  qsort(r->found, r->n, sizeof r->found[0], by_number);
  for (uint32_t i = 0; i < r->n; i++)
    if (kept == 0 || r->found[kept - 1] != r->found[i]) r->found[kept++] = r->found[i];
  r->n = kept;
}

// Whether a merge holds nothing large that op by op would not: folds leave little, and results of the plan are held anyway.
static bool leaves_little(const work *w, const tc_group *gp) {
  for (uint32_t i = 0; i < gp->n_member; i++) {
    uint32_t n = gp->member[i];
    if (w->gr->level[n] == TC_LEVEL_FULL && w->gr->stored[n] && w->gr->alias[n] == n && w->g->node[n].out == TC_LEAF_NONE) return false;
  }
  return true;
}

// Groups over the same domain that read the same data, and not one another's results, become one: the data is read once.
static void merge_siblings(work *w) {
  tc_grouping *gr = w->gr;
  readers *r = readers_create(w);
  for (uint32_t g = 0; g < gr->n_group && !w->failed; g++) {
    const tc_group *a = &gr->group[g];
    sources s = {.gr = gr, .group = g, .count = a->a * a->f * a->k};
    if (a->merged != TC_GROUP_NONE || a->kind == TC_GROUP_EXTERN || a->kind == TC_GROUP_GEMM || s.count < MIN_SHARED) continue;
    if (!leaves_little(w, a)) continue;
    for (uint32_t i = 0; i < a->n_member; i++) tc_group_each_source(gr, a->member[i], note_source, &s);
    readers_find(r, &s);
    for (uint32_t i = 0; i < r->n && a->merged == TC_GROUP_NONE; i++) {
      const tc_group *b = &gr->group[r->found[i]];
      bool same = b->merged == TC_GROUP_NONE && a->kind == b->kind && a->a == b->a && a->f == b->f && a->k == b->k;
      if (same) (void)merge(w, r->found[i], g, TC_LEVEL_NONE);
    }
    for (uint32_t i = 0; i < s.n && a->merged == TC_GROUP_NONE; i++) readers_note(w, r, s.node[i], g);
  }
}

// ---- sums of columns ----

// Whether h folds the columns of what g has as rows, reads nothing as large that g does not, and leaves only folds.
static bool sums_columns(work *w, uint32_t g, uint32_t h) {
  const tc_grouping *gr = w->gr;
  const tc_group *rows = &gr->group[g], *columns = &gr->group[h];
  int threads = tc_team_threads();
  bool fills = columns->a >= MANY_PARTS * threads || (columns->a >= 2 * threads && columns->a % threads == 0);
  if (columns->k != rows->f || columns->a * columns->f != rows->a || !fills) return false;
  tc_group both = *rows;
  sources have = {.gr = gr, .group = h, .count = rows->a * rows->f}, want = have;
  for (uint32_t i = 0; i < rows->n_member; i++) {
    tc_group_each_source(gr, rows->member[i], note_source, &have);
    if (gr->level[rows->member[i]] == TC_LEVEL_FULL) note_source(&have, rows->member[i], false);
  }
  for (uint32_t i = 0; i < columns->n_member; i++) {
    uint32_t n = columns->member[i];
    const tc_gnode *x = &w->g->node[n];
    if (tc_op_kind_of(x->op) == TC_KIND_FOLD && (x->op != TC_OP_SUM || !tc_type_is_float(x->type))) return false;
    if (tc_op_kind_of(x->op) == TC_KIND_FOLD ? gr->level[n] != TC_LEVEL_REDUCED : gr->level[n] != TC_LEVEL_FULL || gr->stored[n]) return false;
    tc_group_each_source(gr, n, note_source, &want);
    seen_groups seen = {.gr = gr};
    tc_group_each_source(gr, n, note_group, &seen);
    if (!all_link(w, &both, g, n, TC_LEVEL_FULL, &seen)) return false;
  }
  for (uint32_t i = 0; i < want.n; i++) {
    bool found = false;
    for (uint32_t k = 0; k < have.n; k++) found |= have.node[k] == want.node[i];
    if (!found) return false;
  }
  return want.n > 0;
}

// Whether g need wait for nothing more to do h's work too.
static bool is_ready_with(work *w, uint32_t g, uint32_t h) {
  for (const tc_group_link *l = w->gr->group[h].before; l; l = l->next) {
    uint32_t x = tc_group_alive(w->gr, l->group);
    if (x != g && x != h && tc_depend_ask(&w->depend, g, x) != TC_DEPENDS) return false;
  }
  return tc_depend_ask(&w->depend, g, h) == TC_DEPENDS_NOT;
}

// A norm's gradient also sums the columns of the rows it goes over: made in the same kernel, the rows are read once. Each column is still one chain of
// sums a part, in the order of rows. Parts are few, so that they must be enough for the threads.
static void merge_columns(work *w) {
  tc_grouping *gr = w->gr;
  readers *r = readers_create(w);
  for (uint32_t h = 0; h < gr->n_group && !w->failed; h++) {
    const tc_group *columns = &gr->group[h];
    sources want = {.gr = gr, .group = h, .count = columns->a * columns->f * columns->k};
    if (columns->merged != TC_GROUP_NONE || columns->kind != TC_GROUP_COL) continue;
    for (uint32_t i = 0; i < columns->n_member; i++) tc_group_each_source(gr, columns->member[i], note_source, &want);
    if (want.n) readers_note(w, r, want.node[0], h);
  }
  for (uint32_t g = 0; g < gr->n_group && !w->failed; g++) {
    tc_group *rows = &gr->group[g];
    if (rows->merged != TC_GROUP_NONE || rows->kind != TC_GROUP_ROW || rows->f % FOLD_LANES || rows->f > MAX_COLUMNS) continue;
    sources have = {.gr = gr, .group = gr->n_group /* of none */, .count = rows->a * rows->f};
    for (uint32_t i = 0; i < rows->n_member; i++) {
      note_source(&have, rows->member[i], false);
      tc_group_each_source(gr, rows->member[i], note_source, &have);
    }
    readers_find(r, &have);
    for (uint32_t k = 0; k < r->n; k++) {
      uint32_t h = r->found[k];
      tc_group *columns = &gr->group[h];
      if (columns->merged != TC_GROUP_NONE || (rows->part && rows->part != columns->f)) continue;
      if (!fit_together(w, g, h) || !is_ready_with(w, g, h) || !sums_columns(w, g, h) || !tc_depend_meet(&w->depend, g, h)) continue;
      for (uint32_t i = 0; i < columns->n_member; i++)
        if (gr->level[columns->member[i]] == TC_LEVEL_REDUCED) gr->level[columns->member[i]] = TC_LEVEL_COLUMN;
      rows->part = columns->f;
      absorb(w, g, h, TC_LEVEL_NONE);
    }
  }
}

// Decides, from the last node to the first, what must have memory of its own: operands of external kernels and products, indexed tensors, outputs.
static void require_memory(work *w, const uint8_t *forced) {
  const tc_graph *g = w->g;
  for (uint32_t i = g->n_order; i-- > 0;) {
    uint32_t n = g->order[i];
    const tc_gnode *x = &g->node[n];
    if (x->out != TC_LEAF_NONE || x->leaf != TC_LEAF_NONE || x->stored || forced[n]) w->gr->stored[n] = true;
    if (w->gr->stored[n] && x->out == TC_LEAF_NONE && tc_op_is_alias(x->op)) {
      w->gr->alias[n] = x->in[0];
      w->gr->stored[x->in[0]] = true;
    }
    if (x->leaf != TC_LEAF_NONE) continue;
    bool whole = is_extern(w, x) || touches_nothing(g, x);
    for (int k = 0; k < x->n_in; k++) {
      if (tc_group_is_filled(g, n, k)) continue;
      if (!whole && tc_op_kind_of(x->op) == TC_KIND_ATTENTION && g->node[x->in[k]].op == TC_OP_FULL && g->node[x->in[k]].shape->d.rank == 0) continue;
      if (whole || (tc_op_kind_of(x->op) == TC_KIND_INDEX && k == 1))
        w->gr->stored[x->in[k]] = true;
      else if (tc_op_kind_of(x->op) == TC_KIND_INDEX || multiplies(x)) {
        uint32_t root = tc_view_root(w->gr, x->in[k]);
        bool computed = tc_op_kind_of(g->node[root].op) == TC_KIND_ELEM && !is_extern(w, &g->node[root]);
        if (x->op == TC_OP_MATMUL && k == 1 && g->node[root].prologue) continue;
        if (!computed || multiplies(x)) w->gr->stored[root] = true;
      }
    }
  }
}

tc_status tc_group_build(tc_grouping *gr, const tc_graph *g, tc_arena *arena, const uint8_t *forced, tc_group_mode mode) {
  *gr = (tc_grouping){.graph = g, .arena = arena};
  gr->group = tc_arena_alloc(arena, (g->n + 1) * sizeof gr->group[0]);
  gr->of = tc_arena_alloc(arena, (g->n + 1) * sizeof gr->of[0]);
  gr->alias = tc_arena_alloc(arena, (g->n + 1) * sizeof gr->alias[0]);
  gr->level = tc_arena_alloc(arena, g->n + 1);
  gr->stored = tc_arena_alloc(arena, (g->n + 1) * sizeof gr->stored[0]);
  bool *must = tc_arena_alloc(arena, g->n + 1);
  bool tight = mode == TC_GROUP_TIGHT;
  work w = {.gr = gr, .g = g, .tight = tight, .max_large = mode == TC_GROUP_ANY ? MAX_OUTSIDE : THRIFTY_LARGE, .forced = forced};
  w.rank = tc_arena_alloc(arena, (g->n + 1) * sizeof w.rank[0]);
  w.n_outside = tc_arena_alloc(arena, (g->n + 1) * sizeof w.n_outside[0]);
  w.n_large = tc_arena_alloc(arena, (g->n + 1) * sizeof w.n_large[0]);
  w.constant = tc_arena_alloc(arena, g->n + 1);
  w.reads = tc_arena_alloc(arena, (g->n + 1) * sizeof w.reads[0]);
  w.load = tc_arena_alloc(arena, (g->n + 1) * sizeof w.load[0]);
  w.size = tc_arena_alloc(arena, (g->n + 1) * sizeof w.size[0]);
  w.counted = tc_arena_alloc(arena, (g->n + 1) * sizeof w.counted[0]);
  w.attends = tc_arena_alloc(arena, (g->n + 1) * sizeof w.attends[0]);
  w.attends_before = tc_arena_alloc(arena, (g->n + 1) * sizeof w.attends_before[0]);
  bool depend = tc_depend_init(&w.depend, gr, g->n_order);
  if (!gr->group || !gr->of || !gr->alias || !gr->level || !gr->stored || !must || !w.rank || !w.n_outside || !w.n_large || !w.constant || !w.reads ||
      !w.load || !w.size || !w.counted || !w.attends || !w.attends_before || !depend)
    return TC_FAIL(TC_ERR_MEMORY, "no room to group %u nodes", g->n);
  memset(gr->of, 0xFF, g->n * sizeof gr->of[0]);
  for (uint32_t n = 0; n < g->n; n++) gr->alias[n] = n, w.reads[n] = 1, w.size[n] = 0, w.counted[n] = 0;
  for (uint32_t i = 0; i < g->n_order; i++) w.rank[g->order[i]] = i;
  require_memory(&w, forced);
  for (uint32_t i = 0; i < g->n_order; i++) gr->alias[g->order[i]] = gr->alias[gr->alias[g->order[i]]];  // operands come first: the root of a chain
  memcpy(must, gr->stored, g->n);
  for (uint32_t i = 0; i < g->n_order && !w.failed; i++) {
    uint32_t n = g->order[i];
    const tc_gnode *x = &g->node[n];
    if (x->leaf != TC_LEAF_NONE || gr->alias[n] != n) continue;
    tc_op_kind kind = tc_op_kind_of(x->op);
    bool constant = (kind == TC_KIND_GEN && !tc_graph_is_zeros(x)) || ((kind == TC_KIND_ELEM || is_view(x)) && x->n_in > 0);
    for (int k = 0; k < x->n_in && constant; k++) constant = w.constant[x->in[k]];
    bool fits = size_of(&w, n) <= MAX_IN_PLACE && (!tight || reads_of(&w, n) <= TIGHT_IN_PLACE);
    w.constant[n] = constant && !gr->stored[n] && fits;
    bool in_place = w.constant[n] || (x->prologue && fits && !gr->stored[n]) ||
                    (is_view(x) && fits && !gr->stored[n] && !is_extern(&w, x) && !touches_nothing(g, x));
    if (in_place)
      w.reads[n] = reads_of(&w, n), w.size[n] = size_of(&w, n);
    else
      assign_node(&w, n);
  }
  if (!w.failed) merge_siblings(&w);
  for (uint32_t n = 0; n < g->n; n++) gr->of[n] = group_of(gr, n);
  if (w.failed) return TC_FAIL(TC_ERR_MEMORY, "no room to group %u nodes", g->n);
  if (tight) return TC_OK;
  TC_TRY(tc_remake(gr, must, mode == TC_GROUP_THRIFTY));
  merge_siblings(&w);  // what is made again may be made of what others read; dependencies have only become fewer
  for (uint32_t n = 0; n < g->n; n++) gr->of[n] = group_of(gr, n);
  if (mode == TC_GROUP_ANY && !tc_target_is_gpu(&g->target)) merge_columns(&w);
  for (uint32_t n = 0; n < g->n; n++) gr->of[n] = group_of(gr, n);
  return w.failed ? TC_FAIL(TC_ERR_MEMORY, "no room to group %u nodes", g->n) : TC_OK;
}
