// See steps.h. The sequence of a thread is matched against the step that tc_period_find finds. A
// sync that is expected goes on with it. One that stands later in it leaves some out. One that
// begins it begins another. All else is extra.
#include "tools/prof/steps.h"

#include <stdlib.h>

#include "tools/prof/period.h"

typedef struct thread_points {
  uint32_t *point, *symbol;
  double *weight;
  size_t n;
} thread_points;

static double time_before(const tc_point *point) {
  return (double)point->ns[TC_PHASE_OUTSIDE] + (double)point->ns[TC_PHASE_RECORD];
}

static bool take_points(tc_profile *p, const tc_groups *g, uint32_t thread, thread_points *out) {
  size_t n = 0;
  for (size_t i = 0; i < p->n_points; i++) n += p->point[i].thread == thread;
  *out = (thread_points){.point = malloc((n + 1) * sizeof *out->point),
                         .symbol = malloc((n + 1) * sizeof *out->symbol),
                         .weight = malloc((n + 1) * sizeof *out->weight),
                         .n = n};
  if (!out->point || !out->symbol || !out->weight) return false;
  n = 0;
  for (size_t i = 0; i < p->n_points; i++) {
    if (p->point[i].thread != thread) continue;
    out->point[n] = (uint32_t)i;
    out->symbol[n] = g->of_point[i];
    out->weight[n++] = time_before(&p->point[i]) + (double)p->point[i].ns[TC_PHASE_TOTAL];
  }
  return true;
}

// ---- Matching ----

typedef struct matcher {
  tc_profile *p;
  tc_steps *out;
  const thread_points *t;
  size_t k;  // syncs of the step that were seen or left out. 0: between steps
  size_t n_room;
  uint32_t between;  // syncs since the last step
} matcher;

static bool begin_step(matcher *m, uint32_t point) {
  tc_steps *s = m->out;
  if (s->n == m->n_room) {
    size_t more = m->n_room ? 2 * m->n_room : 64;
    tc_step *step = realloc(s->step, more * sizeof *step);
    if (!step) return false;
    s->step = step;
    m->n_room = more;
  }
  if (s->n == 0)
    s->n_before = m->between;
  else
    s->n_between += m->between;
  m->between = 0;
  s->step[s->n++] = (tc_step){.first = point, .last = point};
  return true;
}

static void add_to_step(matcher *m, uint32_t i) {
  tc_step *step = &m->out->step[m->out->n - 1];
  const tc_point *point = &m->p->point[i];
  const tc_plan *plan = tc_profile_plan(m->p, point->plan);
  step->last = i;
  step->n_missed += plan && !(point->flags & TC_PROF_HIT);
  step->compile_ns += (double)point->ns[TC_PHASE_COMPILE] + (double)point->ns[TC_PHASE_LOWER];
  if (!plan) return;
  step->nodes += plan->n_nodes;
  step->kernels += plan->n_kernels;
}

static void end_step(matcher *m) {
  tc_steps *s = m->out;
  tc_step *step = &s->step[s->n - 1];
  const tc_point *first = &m->p->point[step->first], *last = &m->p->point[step->last];
  step->n_missing += (uint32_t)(s->n_group - m->k);
  step->ns = (double)last->begin_ns + (double)last->ns[TC_PHASE_TOTAL] - (double)first->begin_ns + time_before(first);
  s->n_with_extra += step->n_extra != 0;
  s->n_with_missing += step->n_missing != 0;
  s->n_regular += step->n_extra == 0 && step->n_missing == 0;
  m->k = 0;
}

// Where a symbol stands in the step from k on, or its length.
static size_t find_later(const tc_steps *s, uint32_t symbol, size_t k) {
  while (k < s->n_group && s->group[k] != symbol) k++;
  return k;
}

static bool match(matcher *m) {
  tc_steps *s = m->out;
  for (size_t i = 0; i < m->t->n; i++) {
    uint32_t symbol = m->t->symbol[i], point = m->t->point[i];
    size_t later = m->k ? find_later(s, symbol, m->k) : s->n_group;
    if (later < s->n_group) {
      s->step[s->n - 1].n_missing += (uint32_t)(later - m->k);
      m->k = later + 1;
    } else if (symbol == s->group[0]) {
      if (m->k) end_step(m);
      if (!begin_step(m, point)) return false;
      m->k = 1;
    } else {
      if (m->k)
        s->step[s->n - 1].n_extra++;
      else
        m->between++;
      if (s->n) s->extra[symbol]++;
      continue;
    }
    add_to_step(m, point);
    if (m->k == s->n_group) end_step(m);
  }
  if (m->k) end_step(m);
  s->n_after = m->between;
  return true;
}

bool tc_steps_find(tc_profile *p, const tc_groups *g, uint32_t thread, tc_steps *out) {
  thread_points t;
  tc_period period = {0};
  *out = (tc_steps){.thread = thread, .extra = calloc(g->n + 1, sizeof *out->extra)};
  bool ok = out->extra && take_points(p, g, thread, &t);
  if (out->extra && ok) ok = tc_period_find(t.symbol, t.weight, t.n, &period);
  if (ok && period.symbol) {
    matcher m = {.p = p, .out = out, .t = &t};
    out->group = period.symbol;
    out->n_group = period.n;
    ok = match(&m);
  }
  if (out->extra) {
    out->n_points = (uint32_t)t.n;
    free(t.point);
    free(t.symbol);
    free(t.weight);
  }
  if (!ok) tc_steps_free(out);
  return ok;
}

void tc_steps_free(tc_steps *s) {
  free(s->group);
  free(s->step);
  free(s->extra);
  *s = (tc_steps){0};
}
