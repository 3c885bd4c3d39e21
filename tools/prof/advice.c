// See advice.h. A rule is a function and a row of the table below.
#include "tools/prof/advice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/prof/show.h"

tc_advice *tc_advice_add(tc_advice_list *out, const char *rule, double gain_ns, const tc_group *group) {
  tc_advice *more = realloc(out->row, (out->n + 1) * sizeof *more);
  if (!more) return NULL;
  out->row = more;
  more[out->n] =
      (tc_advice){.rule = rule, .gain_ns = gain_ns, .site = group ? group->site : 0, .cause = group ? group->cause : 0};
  return &more[out->n++];
}

// What a sync costs beyond running its kernels.
static double own_cost(const tc_group *g) {
  double all = g->phase[TC_PHASE_TOTAL] - g->phase[TC_PHASE_RUN] + g->phase[TC_PHASE_WAIT];
  return all > 0 ? all : 0;
}

// ---- Rules ----

// A scalar is read in each step, beside other syncs.
static bool find_scalar_reads(const tc_advice_input *in, tc_advice_list *out) {
  for (size_t t = 0; t < in->n_steps; t++) {
    const tc_steps *s = &in->steps[t];
    for (size_t i = 0; i < s->n_group && s->n >= TC_TREND_SYNCS && s->n_group > 1; i++) {
      const tc_group *g = &in->g->group[s->group[i]];
      bool is_first = true;
      for (size_t k = 0; k < i; k++) is_first = is_first && s->group[k] != s->group[i];
      if (!is_first || strcmp(tc_profile_text(in->p, g->cause), "item") != 0) continue;
      tc_advice *a = tc_advice_add(out, "scalar-read", own_cost(g), g);
      if (!a) return false;
      snprintf(a->evidence, sizeof a->evidence, "a scalar is read in every step, %u times: %.0f nodes and %s each",
               g->n_syncs, g->nodes.median, tc_show_ns(g->ns.median));
      snprintf(a->fix, sizeof a->fix,
               "keep it as a tensor and read it every so many steps, or behind the sync that runs the step");
    }
  }
  return true;
}

// Work of earlier steps is recorded again, or hangs on what is kept.
static bool find_growth(const tc_advice_input *in, tc_advice_list *out) {
  for (size_t i = 0; i < in->g->n; i++) {
    const tc_group *g = &in->g->group[i];
    if (g->verdict != TC_VERDICT_GROWING) continue;
    tc_advice *a = tc_advice_add(out, "growing", g->phase[TC_PHASE_TOTAL] * (1 - g->first_nodes / g->last_nodes), g);
    if (!a) return false;
    snprintf(a->evidence, sizeof a->evidence,
             "its graph grows: %.0f nodes in the first quarter of %u syncs, %.0f in the last", g->first_nodes,
             g->n_syncs, g->last_nodes);
    snprintf(
        a->fix, sizeof a->fix,
        "what one step leaves is read by the next: store it at the end of each step with tc_eval, and detach it where "
        "no gradient goes through");
  }
  return true;
}

static const tc_advice_rule rules[] = {
    {"scalar-read", find_scalar_reads},
    {"growing", find_growth},
};

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

bool tc_prof_advise(tc_profile *p, const tc_groups *g, tc_advice_list *out) {
  tc_steps steps[TC_ADVICE_THREADS];
  tc_advice_input in = {.p = p, .g = g, .steps = steps};
  *out = (tc_advice_list){0};
  bool ok = find_steps(p, g, steps, &in.n_steps);
  for (size_t i = 0; ok && i < sizeof rules / sizeof *rules; i++) ok = rules[i].find(&in, out);
  for (size_t i = 0; i < in.n_steps; i++) tc_steps_free(&steps[i]);
  if (!ok) tc_advice_free(out);
  if (out->n) qsort(out->row, out->n, sizeof *out->row, by_gain);
  return ok;
}

void tc_advice_free(tc_advice_list *a) {
  free(a->row);
  *a = (tc_advice_list){0};
}
