// See groups.h.
#include "tools/prof/groups.h"

#include <stdlib.h>
#include <string.h>

const char *const tc_part_names[TC_N_PARTS] = {"outside", "record", "look up", "lower",   "compile",    "allocate",
                                               "launch",  "run",    "wait",    "publish", "unaccounted"};
const char *const tc_verdict_names[] = {
    [TC_VERDICT_GOOD] = "good",         [TC_VERDICT_ONCE] = "once",       [TC_VERDICT_TINY] = "tiny",
    [TC_VERDICT_HUGE] = "huge",         [TC_VERDICT_GROWING] = "growing", [TC_VERDICT_NEVER_REPEATS] = "never repeats",
    [TC_VERDICT_CHANGING] = "changing", [TC_VERDICT_FAILS] = "fails",
};

static double without(double whole, double part) {
  return whole > part ? whole - part : 0;
}

void tc_parts_of(const double ns[TC_N_PHASES], double out[TC_N_PARTS]) {
  double told = ns[TC_PHASE_LOOKUP] + ns[TC_PHASE_LOWER] + ns[TC_PHASE_COMPILE] + ns[TC_PHASE_ALLOCATE] +
                ns[TC_PHASE_LAUNCH] + ns[TC_PHASE_RUN] + ns[TC_PHASE_PUBLISH];
  out[TC_PART_OUTSIDE] = without(ns[TC_PHASE_OUTSIDE], ns[TC_PHASE_AWAITED]);
  out[TC_PART_RECORD] = ns[TC_PHASE_RECORD];
  out[TC_PART_LOOKUP] = ns[TC_PHASE_LOOKUP];
  out[TC_PART_LOWER] = ns[TC_PHASE_LOWER];
  out[TC_PART_COMPILE] = ns[TC_PHASE_COMPILE];
  out[TC_PART_ALLOCATE] = ns[TC_PHASE_ALLOCATE];
  out[TC_PART_LAUNCH] = ns[TC_PHASE_LAUNCH];
  out[TC_PART_RUN] = without(ns[TC_PHASE_RUN], ns[TC_PHASE_WAIT]);
  out[TC_PART_WAIT] = ns[TC_PHASE_WAIT] + ns[TC_PHASE_AWAITED];
  out[TC_PART_PUBLISH] = ns[TC_PHASE_PUBLISH];
  out[TC_PART_UNACCOUNTED] = without(ns[TC_PHASE_TOTAL], told);
}

// ---- Spreads ----

static int compare_values(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

tc_spread tc_spread_of(double *value, size_t n) {
  if (n == 0) return (tc_spread){0};
  qsort(value, n, sizeof *value, compare_values);
  return (tc_spread){value[0], value[(n - 1) / 2], value[(n - 1) - (n - 1) / 100], value[n - 1]};
}

// ---- Rows ----

typedef struct table {
  tc_group *group;
  uint32_t *slot;  // hash table of numbers of groups, plus 1
  size_t n, mask;
} table;

static size_t place_of(uint32_t site, uint32_t cause, size_t mask) {
  uint64_t h = (((uint64_t)site << 32) | cause) * 0x9e3779b97f4a7c15u;
  return (h >> 32 ^ h) & mask;
}

static bool grow_table(table *t) {
  size_t mask = t->slot ? 2 * t->mask + 1 : 63;
  uint32_t *slot = calloc(mask + 1, sizeof *slot);
  tc_group *group = realloc(t->group, (mask + 1) / 2 * sizeof *group);
  if (group) t->group = group;
  if (!slot || !group) return free(slot), false;
  for (size_t i = 0; i < t->n; i++) {
    size_t at = place_of(group[i].site, group[i].cause, mask);
    while (slot[at]) at = (at + 1) & mask;
    slot[at] = (uint32_t)i + 1;
  }
  free(t->slot);
  t->slot = slot;
  t->mask = mask;
  return true;
}

static bool find_group(table *t, const tc_point *point, uint32_t *out) {
  if ((!t->slot || t->n >= (t->mask + 1) / 2) && !grow_table(t)) return false;
  size_t at = place_of(point->site, point->cause, t->mask);
  for (; t->slot[at]; at = (at + 1) & t->mask) {
    const tc_group *g = &t->group[t->slot[at] - 1];
    if (g->site == point->site && g->cause == point->cause) return *out = t->slot[at] - 1, true;
  }
  t->group[t->n] = (tc_group){.site = point->site, .cause = point->cause, .first = point->sequence};
  *out = (uint32_t)t->n++;
  t->slot[at] = (uint32_t)t->n;
  return true;
}

// A sync that failed recorded a graph, and ran none of it that counts.
static void add_plan(tc_group *g, const tc_plan *plan, bool failed) {
  int size = plan->n_nodes ? 31 - __builtin_clz(plan->n_nodes) : 0;
  g->size[size < TC_N_SIZES ? size : TC_N_SIZES - 1]++;
  if (failed) return;
  g->n_planned++;
  g->sum_nodes += plan->n_nodes;
  g->sum_left += plan->n_left;
  g->sum_kernels += plan->n_kernels;
  g->sum_again += plan->n_again;
  g->bytes += (double)plan->bytes;
  g->least_bytes += (double)plan->least_bytes;
  g->held_bytes += (double)plan->held_bytes;
  g->flops += plan->flops;
}

static void add_point(tc_group *g, const tc_point *point, const tc_plan *plan) {
  if (g->n_syncs++ == 0) g->first = point->sequence;
  g->last = point->sequence;
  g->n_hits += (point->flags & TC_PROF_HIT) != 0;
  g->n_failed += (point->flags & TC_PROF_FAILED) != 0;
  g->n_wrong += (point->flags & TC_PROF_WRONG) != 0;
  g->n_missed[point->miss & 7]++;
  g->sum_launches += point->n_launches;
  g->bus_bytes += (double)point->bus_bytes;
  g->copied_bytes += (double)point->copied_bytes;
  g->cached_bytes += (double)point->cached_bytes;
  if ((double)point->planned_bytes > g->most_planned_bytes) g->most_planned_bytes = (double)point->planned_bytes;
  if ((double)point->peak_bytes > g->most_peak_bytes) g->most_peak_bytes = (double)point->peak_bytes;
  for (int i = 0; i < TC_N_PHASES; i++) g->phase[i] += (double)point->ns[i];
  if (plan) add_plan(g, plan, (point->flags & TC_PROF_FAILED) != 0);
}

// ---- Verdicts ----

// Threads in turn, each with a graph of its own size, make no graph grow: new ones must keep coming.
static bool is_growing(const tc_group *g) {
  bool comes = g->n_graphs > TC_GROWING_GRAPHS || g->last_hits * 100 < TC_GROWING_HITS_PERCENT;
  return comes && g->first_nodes > 0 && g->last_nodes * 100 >= g->first_nodes * (double)TC_GROWING_PERCENT;
}

// New graphs, and sizes that are bound, in most syncs; that takes most of the time.
static bool is_changing(const tc_group *g) {
  uint64_t n = (uint64_t)g->n_syncs - g->n_hits + g->n_missed[TC_PROF_MISS_BOUND];
  double made = g->phase[TC_PHASE_LOWER] + g->phase[TC_PHASE_COMPILE];
  return g->n_syncs >= TC_TREND_SYNCS && n * 100 >= (uint64_t)g->n_syncs * TC_CHANGING_PERCENT &&
         made * 100 >= g->phase[TC_PHASE_TOTAL] * TC_CHANGING_PERCENT;
}

static tc_verdict judge(const tc_group *g) {
  if (g->n_failed == g->n_syncs) return TC_VERDICT_FAILS;
  if (g->n_syncs == 1) return TC_VERDICT_ONCE;
  if (is_growing(g)) return TC_VERDICT_GROWING;
  if (g->n_syncs >= TC_TREND_SYNCS && (uint64_t)g->n_hits * 100 < (uint64_t)g->n_syncs * TC_REPEATS_PERCENT)
    return TC_VERDICT_NEVER_REPEATS;
  if (is_changing(g)) return TC_VERDICT_CHANGING;
  if (g->nodes.median >= (double)TC_HUGE_NODES) return TC_VERDICT_HUGE;
  if (g->nodes.median < (double)TC_TINY_NODES && g->ns.median < (double)TC_TINY_NS) return TC_VERDICT_TINY;
  return TC_VERDICT_GOOD;
}

// value: nodes of each planned sync of the group, in order, which are sorted.
static void spread_nodes(tc_group *g, double *value, size_t n) {
  size_t quarter = n / 4;
  if (n >= TC_TREND_SYNCS) {
    g->first_nodes = tc_spread_of(value, quarter).median;
    g->last_nodes = tc_spread_of(value + n - quarter, quarter).median;
  }
  g->nodes = tc_spread_of(value, n);
}

typedef enum measure { NODES, HITS, NS, CACHED_NS, BEFORE_NS, N_MEASURES } measure;

static bool measure_point(const tc_point *point, const tc_plan *plan, measure what, double *out) {
  bool cached = (point->flags & (TC_PROF_HIT | TC_PROF_FAILED)) == TC_PROF_HIT && point->miss == TC_PROF_MISS_NONE;
  *out = what == NODES       ? (plan ? plan->n_nodes : 0)
         : what == HITS      ? (point->flags & TC_PROF_HIT) != 0
         : what == BEFORE_NS ? (double)point->ns[TC_PHASE_OUTSIDE] + (double)point->ns[TC_PHASE_RECORD]
                             : (double)point->ns[TC_PHASE_TOTAL];
  return what == NODES || what == HITS ? plan != NULL : what == NS || cached;
}

static double mean_of_last_quarter(const double *value, size_t n) {
  size_t quarter = n / 4;
  double sum = 0;
  for (size_t i = n - quarter; i < n; i++) sum += value[i];
  return quarter ? sum / (double)quarter : 0;
}

static void spread_group(tc_group *g, measure what, double *value, size_t n) {
  switch (what) {
    case NODES: spread_nodes(g, value, n); break;
    case HITS: g->last_hits = mean_of_last_quarter(value, n); break;
    case NS: g->ns = tc_spread_of(value, n); break;
    case CACHED_NS: g->cached_ns = tc_spread_of(value, n), g->n_cached = (uint32_t)n; break;
    default: g->before_ns = tc_spread_of(value, n);
  }
}

// Spreads of all groups: values are laid out group by group in one array.
static bool spread(tc_profile *p, tc_groups *g) {
  size_t *begin = calloc(g->n + 1, sizeof *begin), n = p->n_points;
  double *value = malloc((n + 1) * sizeof *value);
  bool ok = begin && value;
  for (size_t i = 0; ok && i < n; i++) begin[g->of_point[i] + 1]++;
  for (size_t i = 0; ok && i < g->n; i++) begin[i + 1] += begin[i];
  size_t *at = ok ? malloc((g->n + 1) * sizeof *at) : NULL;
  for (int what = 0; (ok = ok && at) && what < N_MEASURES; what++) {
    memcpy(at, begin, (g->n + 1) * sizeof *at);
    for (size_t i = 0; i < n; i++) {
      const tc_plan *plan = tc_profile_plan(p, p->point[i].plan);
      double x;
      if (measure_point(&p->point[i], plan, (measure)what, &x)) value[at[g->of_point[i]]++] = x;
    }
    for (size_t i = 0; i < g->n; i++) spread_group(&g->group[i], (measure)what, value + begin[i], at[i] - begin[i]);
    if (what == NS) g->all.ns = tc_spread_of(value, n);
    if (what != NODES) continue;
    size_t kept = 0;  // those without a plan leave gaps
    for (size_t i = 0; i < g->n; i++)
      for (size_t k = begin[i]; k < at[i]; k++) value[kept++] = value[k];
    g->all.nodes = tc_spread_of(value, kept);
  }
  free(at);
  free(begin);
  free(value);
  return ok;
}

static int by_time(const void *a, const void *b) {
  const tc_group *x = *(tc_group *const *)a, *y = *(tc_group *const *)b;
  double of_x = x->phase[TC_PHASE_TOTAL] + x->phase[TC_PHASE_RECORD];
  double of_y = y->phase[TC_PHASE_TOTAL] + y->phase[TC_PHASE_RECORD];
  if (of_x != of_y) return of_x < of_y ? 1 : -1;
  return (x->first > y->first) - (x->first < y->first);
}

// The longest first; of_point follows.
static bool sort_groups(tc_profile *p, tc_groups *g) {
  tc_group **order = malloc((g->n + 1) * sizeof *order), *sorted = malloc((g->n + 1) * sizeof *sorted);
  uint32_t *place = malloc((g->n + 1) * sizeof *place);
  bool ok = order && sorted && place;
  for (size_t i = 0; ok && i < g->n; i++) order[i] = &g->group[i];
  if (ok) qsort(order, g->n, sizeof *order, by_time);
  for (size_t i = 0; ok && i < g->n; i++) {
    sorted[i] = *order[i];
    place[order[i] - g->group] = (uint32_t)i;
  }
  for (size_t i = 0; ok && i < p->n_points; i++) g->of_point[i] = place[g->of_point[i]];
  free(ok ? g->group : sorted);
  if (ok) g->group = sorted;
  free(order);
  free(place);
  return ok;
}

// Nanoseconds that are no more than some centuries.
static uint64_t whole_ns(double ns) {
  return ns < 9e18 ? (uint64_t)ns : UINT64_MAX / 2;
}

static void add_time(tc_groups *g, const tc_point *point) {
  uint64_t before = whole_ns((double)point->ns[TC_PHASE_OUTSIDE] + (double)point->ns[TC_PHASE_RECORD]);
  uint64_t begin = point->begin_ns > before ? point->begin_ns - before : 0;
  uint64_t end = point->begin_ns + whole_ns((double)point->ns[TC_PHASE_TOTAL]);
  if (g->begin_ns == 0 || begin < g->begin_ns) g->begin_ns = begin;
  if (end > g->end_ns) g->end_ns = end;
}

// ---- Graphs ----

// Sets out[id] to the first plan of the same graph, for each plan. False: there was no memory.
static bool find_graphs(const tc_profile *p, uint32_t *out) {
  size_t mask = 63;
  while (mask + 1 < 2 * p->n_plans) mask = 2 * mask + 1;
  uint32_t *slot = calloc(mask + 1, sizeof *slot);
  for (uint32_t id = 1; slot && id < p->n_plans; id++) {
    const tc_plan *plan = tc_profile_plan(p, id);
    if (!plan) continue;
    size_t at = ((plan->hash ^ plan->shape_hash * 31) * 0x9e3779b97f4a7c15u >> 20) & mask;
    for (; slot[at]; at = (at + 1) & mask)
      if (p->plan[slot[at]].hash == plan->hash && p->plan[slot[at]].shape_hash == plan->shape_hash) break;
    if (!slot[at]) slot[at] = id;
    out[id] = slot[at];
  }
  free(slot);
  return slot != NULL;
}

// The pairs of a group and a graph that were seen. A slot of 0 is free.
typedef struct pairs {
  uint64_t *slot;
  size_t n, mask;
} pairs;

static uint64_t *find_pair(const pairs *s, uint64_t pair) {
  size_t at = (pair * 0x9e3779b97f4a7c15u >> 30) & s->mask;
  while (s->slot[at] && s->slot[at] != pair) at = (at + 1) & s->mask;
  return &s->slot[at];
}

// Adds a graph that is not 0. False: there was no memory.
static bool add_pair(pairs *s, uint32_t group, uint32_t graph, bool *is_new) {
  if (!s->slot || s->n >= (s->mask + 1) / 2) {
    pairs more = {.n = s->n, .mask = s->slot ? 2 * s->mask + 1 : 255};
    more.slot = calloc(more.mask + 1, sizeof *more.slot);
    if (!more.slot) return false;
    for (size_t i = 0; s->slot && i <= s->mask; i++)
      if (s->slot[i]) *find_pair(&more, s->slot[i]) = s->slot[i];
    free(s->slot);
    *s = more;
  }
  uint64_t pair = (uint64_t)group << 32 | graph, *slot = find_pair(s, pair);
  *is_new = *slot == 0;
  s->n += *is_new;
  *slot = pair;
  return true;
}

static bool count_graphs(tc_profile *p, tc_groups *g, table *t) {
  uint32_t *graph = calloc(p->n_plans + 1, sizeof *graph);
  uint8_t *used = calloc(p->n_plans + 1, 1);
  pairs seen = {0};
  bool ok = graph && used && find_graphs(p, graph);
  for (size_t i = 0; ok && i < p->n_points; i++) {
    uint32_t plan = p->point[i].plan, here = g->of_point[i];
    bool is_new = false;
    if (!tc_profile_plan(p, plan)) continue;
    ok = add_pair(&seen, here, graph[plan], &is_new);
    t->group[here].n_graphs += is_new;
    bool is_first = !used[graph[plan]];
    t->group[here].n_plans += is_first;
    g->all.n_plans += is_first;
    used[graph[plan]] = 1;
  }
  g->all.n_graphs = g->all.n_plans;
  free(graph);
  free(used);
  free(seen.slot);
  return ok;
}

static bool sum_points(tc_profile *p, tc_groups *g, table *t) {
  for (size_t i = 0; i < p->n_points; i++) {
    const tc_point *point = &p->point[i];
    const tc_plan *plan = tc_profile_plan(p, point->plan);
    if (!find_group(t, point, &g->of_point[i])) return false;
    tc_group *group = &t->group[g->of_point[i]];
    add_point(group, point, plan);
    add_point(&g->all, point, plan);
    add_time(g, point);
  }
  return count_graphs(p, g, t);
}

bool tc_groups_make(tc_profile *p, tc_groups *out) {
  table t = {0};
  *out = (tc_groups){.of_point = malloc((p->n_points + 1) * sizeof *out->of_point)};
  bool ok = out->of_point && sum_points(p, out, &t);
  free(t.slot);
  out->group = t.group;
  out->n = t.n;
  for (size_t i = 0; ok && i < p->n_unused; i++) {
    const tc_point *point = tc_profile_point(p, p->unused[i].sequence);
    if (point) out->group[out->of_point[point - p->point]].n_unused += p->unused[i].n_values;
    out->all.n_unused += p->unused[i].n_values;
  }
  ok = ok && spread(p, out) && sort_groups(p, out);
  for (size_t i = 0; ok && i < out->n; i++) out->group[i].verdict = judge(&out->group[i]);
  if (!ok) tc_groups_free(out);
  return ok;
}

void tc_groups_free(tc_groups *g) {
  free(g->group);
  free(g->of_point);
  *g = (tc_groups){0};
}
