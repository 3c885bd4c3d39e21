// Merges sibling fusions, and column sums into row fusions. See fuser.h.
#include "lowering/fusion/fuser.h"

#include <stdlib.h>

#include "lowering/target/cpu_target.h"
#include "runtime/passes.h"
#include "runtime/team.h"

#define MIN_SHARED 4096  // least elements of a shared operand for a merge to pay
#define TEXT_OF(n) QUOTE(n)
#define QUOTE(n) #n
#define FOLD_LANES 64  // a ROW fusion with COLUMN members has a multiple of these columns
#define MAX_COLUMNS 16384  // most columns summed along with their rows: the sums stay in a core's cache
#define MOST_TRIED 64  // readers of one source that a fusion is compared with
#define MANY_PARTS 4  // parts a thread from which on any number of parts balances
#define LONG_ROW 1024  // elements of a row whose last, partial vector costs little

// ---- siblings ----

typedef struct sources {
  const tc_fusion_plan *gr;
  uint32_t node[TC_MOST_OUTSIDE], n;
  int64_t count;  // only nodes with this number of elements are noted
  uint32_t fusion;
} sources;

static void note_source(void *arg, uint32_t source, bool moved) {
  (void)moved;
  sources *s = arg;
  if (tc_fuser_fusion_of(s->gr, source) == s->fusion || s->gr->graph->node[source].shape->count != s->count ||
      s->n == TC_MOST_OUTSIDE)
    return;
  for (uint32_t i = 0; i < s->n; i++)
    if (s->node[i] == source) return;
  s->node[s->n++] = source;
}

// The fusions noted as readers of a node, the latest first.
typedef struct readers {
  tc_fusion_link **of;  // per node
  uint32_t found[TC_MOST_OUTSIDE * MOST_TRIED], n;
} readers;

static readers *readers_create(tc_fuser *w) {
  readers *r = tc_arena_alloc(w->gr->arena, sizeof *r);
  if (r) r->of = tc_arena_alloc(w->gr->arena, (w->g->n + 1) * sizeof r->of[0]);
  w->failed |= !r || !r->of;
  return w->failed ? NULL : r;
}

static void readers_note(tc_fuser *w, readers *r, uint32_t node, uint32_t fusion) {
  tc_fusion_link *l = tc_arena_alloc(w->gr->arena, sizeof *l);
  w->failed |= !l;
  if (!l) return;
  *l = (tc_fusion_link){r->of[node], fusion};
  r->of[node] = l;
}

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

// Fills r->found with the latest readers of each source, ascending and distinct.
static void readers_find(readers *r, const sources *s) {
  uint32_t kept = 0;
  r->n = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    uint32_t n = 0;
    for (const tc_fusion_link *l = r->of[s->node[i]]; l && n < MOST_TRIED; l = l->next, n++)
      r->found[r->n++] = l->fusion;
  }
  tc_count(TC_PASS_FUSION, r->n);
  qsort(r->found, r->n, sizeof r->found[0], by_number);
  for (uint32_t i = 0; i < r->n; i++)
    if (kept == 0 || r->found[kept - 1] != r->found[i]) r->found[kept++] = r->found[i];
  r->n = kept;
}

// Whether a merge keeps no large value alive that op-by-op execution would not. Reductions leave
// little, and outputs of the plan stay alive anyway.
static bool leaves_little(const tc_fusion_plan *gr, const tc_fusion *gp) {
  for (uint32_t i = 0; i < gp->n_member; i++) {
    uint32_t n = gp->member[i];
    if (gr->level[n] == TC_LEVEL_FULL && gr->stored[n] && gr->alias[n] == n && gr->graph->node[n].out == TC_LEAF_NONE)
      return false;
  }
  return true;
}

// The rule that keeps a fusion out of every sibling; NULL: none.
static const char *why_alone(const tc_fusion_plan *gr, const tc_fusion *gp) {
  if (gp->kind == TC_FUSION_EXTERN) return "a step of its own, no generated kernel";
  if (gp->kind == TC_FUSION_MATMUL) return "a matmul's kernel has one matmul";
  if (tc_fusion_positions(gp) < MIN_SHARED) return "to read fewer than " TEXT_OF(MIN_SHARED) " elements twice is cheap";
  return leaves_little(gr, gp) ? NULL : "its temporaries would be held longer";
}

// What is found at the sources of a fusion's members.
typedef struct source_sight {
  const tc_fusion_plan *gr;
  uint32_t fusion;
  bool moves;  // a member reads a tensor at another position than its own
  bool reads_sum;  // a member reads what a reduction of the same fusion leaves
} source_sight;

static void note_sight(void *arg, uint32_t source, bool moved) {
  source_sight *s = arg;
  int64_t count = s->gr->graph->node[source].shape->count;
  s->moves |= count > 1 && (moved || count != tc_fusion_positions(&s->gr->fusion[s->fusion]));
  s->reads_sum |= tc_fuser_fusion_of(s->gr, source) == s->fusion && s->gr->level[source] != TC_LEVEL_FULL;
}

static source_sight sight_of(const tc_fusion_plan *gr, const tc_fusion *gp) {
  source_sight s = {.gr = gr, .fusion = (uint32_t)(gp - gr->fusion)};
  for (uint32_t i = 0; i < gp->n_member; i++) tc_fusion_each_source(gr, gp->member[i], note_sight, &s);
  return s;
}

// Whether so many units keep all threads busy to the end.
static bool fills_threads(int64_t units) {
  int threads = tc_team_threads();
  return units >= MANY_PARTS * threads || (units >= 2 * threads && units % threads == 0);
}

// Whether the elements of a flat fusion may be those of rows: of long ones, enough for all threads,
// that are read once. The interpreter works on longer blocks of a flat fusion than of a row.
// Measured: Zen 5, 2 threads, interpreted, two updates of 64x2048 and a sum of squares, f32: two
// kernels 41 us, one 50.
static bool goes_along_rows(const tc_fusion_plan *gr, const tc_fusion *rows, const tc_fusion *flat) {
  if (rows->kind != TC_FUSION_ROW || flat->kind != TC_FUSION_ELEMENTWISE || tc_target_is_gpu(&gr->graph->target) ||
      tc_compiler_interprets())
    return false;
  return rows->f >= LONG_ROW && fills_threads(rows->a) && rows->a * rows->f == flat->k && !rows->part &&
         !gr->graph->any_size && !sight_of(gr, rows).reads_sum && !sight_of(gr, flat).moves;
}

// The rule that keeps two fusions apart that read the same data; NULL: none. pre: neither is alone.
static const char *why_two(const tc_fusion_plan *gr, const tc_fusion *first, const tc_fusion *later) {
  bool same = first->kind == later->kind && tc_fusion_same_domain(first, later);
  if (!same && !goes_along_rows(gr, first, later) && !goes_along_rows(gr, later, first)) return "their domains differ";
  if (first->no_fusion || later->no_fusion) return "that kernel takes no more, or this one is alone";
  return NULL;
}

// Rows take in what is flat, whichever is first.
static void merge_two(tc_fuser *w, uint32_t first, uint32_t later) {
  bool flat = w->gr->fusion[first].kind == TC_FUSION_ELEMENTWISE && w->gr->fusion[later].kind == TC_FUSION_ROW;
  (void)tc_fuser_merge(w, flat ? later : first, flat ? first : later, TC_LEVEL_NONE);
}

const char *tc_fuser_why_siblings_apart(const tc_fusion_plan *gr, const tc_fusion *first, const tc_fusion *later) {
  const char *why = why_two(gr, first, later);
  if (!why) why = why_alone(gr, first);
  return why ? why : why_alone(gr, later);
}

void tc_fuser_merge_siblings(tc_fuser *w) {
  tc_fusion_plan *gr = w->gr;
  readers *r = readers_create(w);
  for (uint32_t g = 0; g < gr->n_fusion && !w->failed; g++) {
    const tc_fusion *a = &gr->fusion[g];
    sources s = {.gr = gr, .fusion = g, .count = tc_fusion_positions(a)};
    if (a->merged != TC_FUSION_NONE || why_alone(gr, a)) continue;
    for (uint32_t i = 0; i < a->n_member; i++) tc_fusion_each_source(gr, a->member[i], note_source, &s);
    readers_find(r, &s);
    for (uint32_t i = 0; i < r->n && a->merged == TC_FUSION_NONE; i++) {
      const tc_fusion *b = &gr->fusion[r->found[i]];
      if (b->merged == TC_FUSION_NONE && !why_two(gr, b, a)) merge_two(w, r->found[i], g);
    }
    for (uint32_t i = 0; i < s.n && a->merged == TC_FUSION_NONE; i++) readers_note(w, r, s.node[i], g);
  }
}

// ---- sums of columns ----

// Whether h sums the columns of g's rows, reads no tensor of that size that g does not, and stores
// only the sums.
static bool sums_columns(tc_fuser *w, uint32_t g, uint32_t h) {
  const tc_fusion_plan *gr = w->gr;
  const tc_fusion *rows = &gr->fusion[g], *columns = &gr->fusion[h];
  if (columns->k != rows->f || columns->a * columns->f != rows->a || !fills_threads(columns->a)) return false;
  tc_fusion both = *rows;
  sources have = {.gr = gr, .fusion = h, .count = rows->a * rows->f}, want = have;
  for (uint32_t i = 0; i < rows->n_member; i++) {
    tc_fusion_each_source(gr, rows->member[i], note_source, &have);
    if (gr->level[rows->member[i]] == TC_LEVEL_FULL) note_source(&have, rows->member[i], false);
  }
  for (uint32_t i = 0; i < columns->n_member; i++) {
    uint32_t n = columns->member[i];
    const tc_gnode *x = &w->g->node[n];
    if (tc_op_kind_of(x->op) == TC_KIND_FOLD && (x->op != TC_OP_SUM || !tc_type_is_float(x->type))) return false;
    if (tc_op_kind_of(x->op) == TC_KIND_FOLD ? gr->level[n] != TC_LEVEL_REDUCED
                                             : gr->level[n] != TC_LEVEL_FULL || gr->stored[n])
      return false;
    tc_fusion_each_source(gr, n, note_source, &want);
    tc_seen_fusions seen = {.gr = gr};
    tc_fusion_each_source(gr, n, tc_seen_fusions_note, &seen);
    if (!tc_fuser_all_link(w, &both, g, n, TC_LEVEL_FULL, &seen)) return false;
  }
  for (uint32_t i = 0; i < want.n; i++) {
    bool found = false;
    for (uint32_t k = 0; k < have.n; k++) found |= have.node[k] == want.node[i];
    if (!found) return false;
  }
  return want.n > 0;
}

// Whether g can take over h's work without waiting for any further fusion.
static bool is_ready_with(tc_fuser *w, uint32_t g, uint32_t h) {
  for (const tc_fusion_link *l = w->gr->fusion[h].before; l; l = l->next) {
    uint32_t x = tc_fusion_alive(w->gr, l->fusion);
    if (x != g && x != h && tc_depend_ask(&w->depend, g, x) != TC_DEPENDS) return false;
  }
  return tc_depend_ask(&w->depend, g, h) == TC_DEPENDS_NOT;
}

void tc_fuser_merge_columns(tc_fuser *w) {
  tc_fusion_plan *gr = w->gr;
  readers *r = readers_create(w);
  for (uint32_t h = 0; h < gr->n_fusion && !w->failed; h++) {
    const tc_fusion *columns = &gr->fusion[h];
    sources want = {.gr = gr, .fusion = h, .count = tc_fusion_positions(columns)};
    if (columns->merged != TC_FUSION_NONE || columns->kind != TC_FUSION_COLUMN) continue;
    for (uint32_t i = 0; i < columns->n_member; i++) tc_fusion_each_source(gr, columns->member[i], note_source, &want);
    if (want.n) readers_note(w, r, want.node[0], h);
  }
  for (uint32_t g = 0; g < gr->n_fusion && !w->failed; g++) {
    tc_fusion *rows = &gr->fusion[g];
    if (rows->merged != TC_FUSION_NONE || rows->kind != TC_FUSION_ROW || rows->f % FOLD_LANES || rows->f > MAX_COLUMNS)
      continue;
    sources have = {.gr = gr, .fusion = gr->n_fusion /* no fusion */, .count = rows->a * rows->f};
    for (uint32_t i = 0; i < rows->n_member; i++) {
      note_source(&have, rows->member[i], false);
      tc_fusion_each_source(gr, rows->member[i], note_source, &have);
    }
    readers_find(r, &have);
    for (uint32_t k = 0; k < r->n; k++) {
      uint32_t h = r->found[k];
      tc_fusion *columns = &gr->fusion[h];
      if (columns->merged != TC_FUSION_NONE || (rows->part && rows->part != columns->f)) continue;
      if (!tc_fuser_fit_together(w, g, h) || !is_ready_with(w, g, h) || !sums_columns(w, g, h) ||
          !tc_depend_meet(&w->depend, g, h))
        continue;
      for (uint32_t i = 0; i < columns->n_member; i++)
        if (gr->level[columns->member[i]] == TC_LEVEL_REDUCED) gr->level[columns->member[i]] = TC_LEVEL_COLUMN;
      rows->part = columns->f;
      tc_fuser_absorb(w, g, h, TC_LEVEL_NONE);
    }
  }
}
