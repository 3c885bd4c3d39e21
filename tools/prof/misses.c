// See misses.h. The nearest graph is the latest of the same place, where it has the same structure.
// Else it is the latest of the same structure, else the latest of the same place.
#include "tools/prof/misses.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tc_is_miss(const tc_point *point) {
  return point->miss != TC_PROF_MISS_NONE && point->miss != TC_PROF_MISS_BOUND;
}

static bool is_row(const tc_point *point, bool with_bound) {
  return with_bound ? point->miss != TC_PROF_MISS_NONE : tc_is_miss(point);
}

double tc_miss_cost(const tc_point *point) {
  return (double)point->ns[TC_PHASE_LOWER] + (double)point->ns[TC_PHASE_COMPILE];
}

// The latest plan of each structure: a hash table by tc_plan.hash. A slot of 0 is free.
typedef struct structures {
  uint32_t *slot;
  size_t mask;
} structures;

static uint32_t *find_slot(const tc_profile *p, const structures *s, uint64_t hash) {
  size_t at = (hash * 0x9e3779b97f4a7c15u >> 20) & s->mask;
  while (s->slot[at] && p->plan[s->slot[at]].hash != hash) at = (at + 1) & s->mask;
  return &s->slot[at];
}

static bool is_same_graph(const tc_plan *a, const tc_plan *b) {
  return a->hash == b->hash && a->shape_hash == b->shape_hash;
}

static uint32_t find_near(const tc_profile *p, const structures *s, uint32_t latest, const tc_plan *plan) {
  uint32_t same = *find_slot(p, s, plan->hash);
  const tc_plan *here = tc_profile_plan(p, latest);
  if (same == plan->id) same = 0;
  if (here && here->id != plan->id && (here->hash == plan->hash || !same)) return here->id;
  return same;
}

bool tc_misses_find(tc_profile *p, const tc_groups *g, bool with_bound, tc_misses *out) {
  structures s = {.mask = 63};
  uint32_t *latest = calloc(g->n + 1, sizeof *latest);  // plan of each group
  size_t n = 0;
  for (size_t i = 0; i < p->n_points; i++) n += is_row(&p->point[i], with_bound);
  while (s.mask + 1 < 2 * p->n_plans) s.mask = 2 * s.mask + 1;
  s.slot = calloc(s.mask + 1, sizeof *s.slot);
  *out = (tc_misses){.row = malloc((n + 1) * sizeof *out->row)};
  bool ok = s.slot && latest && out->row;
  for (size_t i = 0; ok && i < p->n_points; i++) {
    const tc_point *point = &p->point[i];
    const tc_plan *plan = tc_profile_plan(p, point->plan);
    uint32_t group = g->of_point[i];
    if (point->miss == TC_PROF_MISS_BOUND) out->bound_ns += tc_miss_cost(point);
    if (is_row(point, with_bound)) {
      uint32_t near = plan ? find_near(p, &s, latest[group], plan) : 0;
      out->row[out->n++] = (tc_miss_row){.point = (uint32_t)i,
                                         .group = group,
                                         .near = near,
                                         .is_known = near && is_same_graph(plan, &p->plan[near]),
                                         .is_first = latest[group] == 0};
      out->cost_ns += tc_miss_cost(point);
    }
    if (!plan) continue;
    latest[group] = plan->id;
    *find_slot(p, &s, plan->hash) = plan->id;
  }
  free(latest);
  free(s.slot);
  if (!ok) tc_misses_free(out);
  return ok;
}

void tc_misses_free(tc_misses *m) {
  free(m->row);
  *m = (tc_misses){0};
}

// ---- One miss ----

bool tc_miss_open(tc_profile *p, const tc_miss_row *row, tc_miss_view *out) {
  const tc_prof_plan *now = tc_profile_plan_record(p, p->point[row->point].plan),
                     *old = tc_profile_plan_record(p, row->near);
  *out = (tc_miss_view){0};
  if (!now || !old || !now->graph || !old->graph) return false;
  if (tc_graph_text_parse(tc_profile_text(p, old->graph), &out->old) &&
      tc_graph_text_parse(tc_profile_text(p, now->graph), &out->now)) {
    out->difference = tc_graph_compare(&out->old, &out->now);
    return true;
  }
  tc_miss_close(p, row, out);
  return false;
}

void tc_miss_close(tc_profile *p, const tc_miss_row *row, tc_miss_view *v) {
  const tc_prof_plan *now = tc_profile_plan_record(p, p->point[row->point].plan),
                     *old = tc_profile_plan_record(p, row->near);
  tc_graph_text_free(&v->old);
  tc_graph_text_free(&v->now);
  if (now) tc_profile_forget(p, now->graph);
  if (old) tc_profile_forget(p, old->graph);
}

// ---- Attributes that hold several numbers in one ----

static bool parse_count(tc_span word, uint64_t *out) {
  *out = 0;
  if (word.n < 1 || word.n > 18) return false;
  for (int i = 0; i < word.n; i++) {
    if (word.at[i] < '0' || word.at[i] > '9') return false;
    *out = 10 * *out + (uint64_t)(word.at[i] - '0');
  }
  return true;
}

static bool is_one_of(tc_span op, const char *const *names) {
  for (; *names; names++)
    if ((size_t)op.n == strlen(*names) && memcmp(op.at, *names, (size_t)op.n) == 0) return true;
  return false;
}

// "0 2": the axes of a mask.
static const char *mask_text(uint64_t mask, char *out, size_t bytes) {
  size_t at = 0;
  snprintf(out, bytes, "none");
  for (int axis = 0; axis < TC_MOST_DIMS; axis++)
    if (mask >> axis & 1) at += (size_t)snprintf(out + at, bytes - at, at ? " %d" : "%d", axis);
  return out;
}

// "1 0 2": a byte an axis.
static const char *order_text(uint64_t order, int rank, char *out, size_t bytes) {
  size_t at = 0;
  out[0] = 0;
  for (int i = 0; i < rank && at < bytes; i++)
    at += (size_t)snprintf(out + at, bytes - at, at ? " %u" : "%u", (unsigned)(order >> 8 * i & 255));
  return out;
}

// The first attribute of these ops is a mask of axes, or their order; include/tc/ops.def has all.
static bool write_axes(const tc_difference *d, const tc_node_text *node, char *out, size_t bytes) {
  static const char *const masked[] = {"sum", "prod", "max", "min", "argmax", "argmin", "any", "all", "flip", NULL};
  static const char *const ordered[] = {"permute", NULL};
  char was[64], is[64];
  uint64_t old, now;
  if (!d->old || !d->now || !parse_count(d->old_word, &old) || !parse_count(d->new_word, &now)) return false;
  if (is_one_of(node->op, ordered))
    return snprintf(out, bytes, "axes, %s -> %s", order_text(old, node->n_dims, was, sizeof was),
                    order_text(now, node->n_dims, is, sizeof is));
  if (!is_one_of(node->op, masked)) return false;
  if ((old & 255) == (now & 255))
    return snprintf(out, bytes, "axes kept, %s -> %s", old >> 8 ? "yes" : "no", now >> 8 ? "yes" : "no");
  return snprintf(out, bytes, "axes, %s -> %s", mask_text(old & 255, was, sizeof was),
                  mask_text(now & 255, is, sizeof is));
}

void tc_miss_words(const tc_difference *d, char *out, size_t bytes) {
  const tc_node_text *node = d->now ? d->now : d->old;
  if (!node) {
    snprintf(out, bytes, "the texts of the two graphs do not differ");
    return;
  }
  int at = snprintf(out, bytes, "%%%u %.*s: ", node->number, node->op.n < 40 ? node->op.n : 40, node->op.at);
  out += at;
  bytes -= (size_t)at;
  switch (d->kind) {
    case TC_DIFFERENT_EXTENT:
      snprintf(out, bytes, "dim %d, %" PRId64 " -> %" PRId64, d->dim, d->old->dim[d->dim], d->now->dim[d->dim]);
      break;
    case TC_LONGER: snprintf(out, bytes, "the graph goes on from here, where the old one ended"); break;
    case TC_SHORTER: snprintf(out, bytes, "the graph ends before it, where the old one went on"); break;
    case TC_DIFFERENT_WORD:
      if (write_axes(d, node, out, bytes)) break;
      __attribute__((fallthrough));
    default:
      snprintf(out, bytes, "%s, %.*s -> %.*s", tc_difference_names[d->kind], d->old_word.n ? d->old_word.n : 4,
               d->old_word.n ? d->old_word.at : "none", d->new_word.n ? d->new_word.n : 4,
               d->new_word.n ? d->new_word.at : "none");
  }
}
