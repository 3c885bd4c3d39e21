// See misses.h. The nearest graph is the latest of the same place, where it has the same structure.
// Else it is the latest of the same structure, else the latest of the same place.
#include "tools/prof/misses.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

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

// Whether the sync's plan had to be lowered.
static bool is_miss(const tc_point *point) {
  return point->miss != TC_PROF_MISS_NONE && point->miss != TC_PROF_MISS_BOUND;
}

bool tc_misses_find(tc_profile *p, const tc_groups *g, tc_misses *out) {
  structures s = {.mask = 63};
  uint32_t *latest = calloc(g->n + 1, sizeof *latest);  // plan of each group
  size_t n = 0;
  for (size_t i = 0; i < p->n_points; i++) n += is_miss(&p->point[i]);
  while (s.mask + 1 < 2 * p->n_plans) s.mask = 2 * s.mask + 1;
  s.slot = calloc(s.mask + 1, sizeof *s.slot);
  *out = (tc_misses){.row = malloc((n + 1) * sizeof *out->row)};
  bool ok = s.slot && latest && out->row;
  for (size_t i = 0; ok && i < p->n_points; i++) {
    const tc_point *point = &p->point[i];
    const tc_plan *plan = tc_profile_plan(p, point->plan);
    uint32_t group = g->of_point[i];
    if (is_miss(point)) {
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
    default:
      snprintf(out, bytes, "%s, %.*s -> %.*s", tc_difference_names[d->kind], d->old_word.n ? d->old_word.n : 4,
               d->old_word.n ? d->old_word.at : "none", d->new_word.n ? d->new_word.n : 4,
               d->new_word.n ? d->new_word.at : "none");
  }
}
