// See advice.h. A rule is a function and a row of the table below.
#include "tools/prof/advice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/prof/show.h"

static const double USUAL_BYTES = 1e10;  // moved a second, where the profile does not say

// A rule that says nothing of a place which has a finding stands behind the ones that it yields to.
static const tc_advice_rule rules[] = {
    {"recompute", tc_advise_recompute},
    {"unused", tc_advise_unused},
    {"scalar-read", tc_advise_scalar_read},
    {"early-sync", tc_advise_early_sync},
    {"tiny", tc_advise_tiny},
    {"growing", tc_advise_growing},
    {"changing", tc_advise_changing},
    {"held", tc_advise_held},
    {"reference", tc_advise_reference},
    {"cut", tc_advise_cut},
    {"cold-start", tc_advise_cold_start},
    {"outside", tc_advise_outside},
};

// ---- For rules ----

tc_advice *tc_advice_add(tc_advice_list *out, const char *rule, double gain_ns, const tc_group *group) {
  tc_advice *more = realloc(out->row, (out->n + 1) * sizeof *more);
  if (!more) return NULL;
  out->row = more;
  more[out->n] = (tc_advice){.rule = rule, .gain_ns = gain_ns};
  if (group) more[out->n].site = group->site, more[out->n].cause = group->cause;
  return &more[out->n++];
}

bool tc_advice_has(const tc_advice_list *out, const tc_group *group, const char *rule) {
  for (size_t i = 0; i < out->n; i++)
    if (out->row[i].site == group->site && out->row[i].cause == group->cause &&
        (!rule || strcmp(out->row[i].rule, rule) == 0))
      return true;
  return false;
}

const char *tc_advice_place(const tc_advice_input *in, uint32_t site) {
  const char *text = tc_profile_text(in->p, site);
  return *text ? tc_show_end(text, 80) : "an unknown place";
}

bool tc_advice_is(const tc_advice_input *in, const tc_group *group, const char *cause) {
  return strcmp(tc_profile_text(in->p, group->cause), cause) == 0;
}

double tc_advice_own_ns(const tc_group *group) {
  const double *ns = group->phase;
  double all = ns[TC_PHASE_TOTAL] - ns[TC_PHASE_LOWER] - ns[TC_PHASE_COMPILE] - ns[TC_PHASE_RUN] + ns[TC_PHASE_WAIT];
  return all > 0 ? all : 0;
}

double tc_advice_bytes_ns(const tc_advice_input *in, const tc_group *group, double bytes) {
  double rate = in->p->process.peak_bytes > 0 ? in->p->process.peak_bytes : USUAL_BYTES;
  double ns = bytes / rate * 1e9, run = group->phase[TC_PHASE_RUN];
  return ns < run ? ns : run;
}

const tc_prof_plan *tc_advice_plan(const tc_advice_input *in, const tc_group *group) {
  const tc_point *point = tc_profile_point(in->p, group->last);
  return point ? tc_profile_plan_record(in->p, point->plan) : NULL;
}

// ---- The whole ----

static int by_gain(const void *a, const void *b) {
  const tc_advice *x = a, *y = b;
  if (x->gain_ns != y->gain_ns) return x->gain_ns < y->gain_ns ? 1 : -1;
  return (x->site > y->site) - (x->site < y->site);
}

// The busiest threads' steps; n of them.
static bool find_steps(tc_profile *p, const tc_groups *g, tc_steps *out, size_t *n) {
  uint32_t *count = calloc(p->n_threads + 1, sizeof *count);
  *n = 0;
  if (!count) return false;
  for (size_t i = 0; i < p->n_points; i++) count[p->point[i].thread]++;
  bool ok = true;
  while (ok && *n < TC_ADVICE_THREADS && *n < p->n_threads) {
    uint32_t most = 0;
    for (uint32_t i = 1; i < p->n_threads; i++)
      if (count[i] > count[most]) most = i;
    ok = tc_steps_find(p, g, most, &out[*n]);
    if (ok) ++*n;
    count[most] = 0;
  }
  free(count);
  return ok;
}

// Those that are worth it, the dearest first. What making graphs takes is no measure: it grows less
// the longer a program runs.
static void sort_advice(const tc_advice_input *in, tc_advice_list *out) {
  size_t n = 0;
  double made = in->g->all.phase[TC_PHASE_LOWER] + in->g->all.phase[TC_PHASE_COMPILE];
  double least = (in->run_ns - made) * TC_ADVICE_LEAST_PERCENT / 100;
  for (size_t i = 0; i < out->n; i++)
    if (out->row[i].gain_ns >= least) out->row[n++] = out->row[i];
  out->n = n;
  if (n) qsort(out->row, n, sizeof *out->row, by_gain);
}

bool tc_prof_advise(tc_profile *p, const tc_groups *g, tc_advice_list *out) {
  tc_steps steps[TC_ADVICE_THREADS];
  tc_misses misses = {0};
  tc_advice_input in = {.p = p, .g = g, .steps = steps, .misses = &misses, .run_ns = (double)(g->end_ns - g->begin_ns)};
  *out = (tc_advice_list){0};
  bool ok = find_steps(p, g, steps, &in.n_steps) && tc_misses_find(p, g, true, &misses);
  for (size_t i = 0; ok && i < sizeof rules / sizeof *rules; i++) ok = rules[i].find(&in, out);
  for (size_t i = 0; i < in.n_steps; i++) tc_steps_free(&steps[i]);
  tc_misses_free(&misses);
  if (ok)
    sort_advice(&in, out);
  else
    tc_advice_free(out);
  return ok;
}

void tc_advice_free(tc_advice_list *a) {
  free(a->row);
  *a = (tc_advice_list){0};
}
