// Advice about where and how often a program syncs. See advice.h; docs/profiler.md explains each rule.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/prof/advice.h"
#include "tools/prof/show.h"

enum {
  LEAST_STEPS = 8,  // fewer show no habit
  EVERY_PERCENT = 90,  // a place that so many of the steps have is in every step
  READ_PERCENT = 40,  // of a step's nodes: a read at its end that runs more is the step itself
  UNUSED_PERCENT = 50,  // of the bytes that a place stores
  TINY_SYNCS = 64,  // tiny ones, each right behind another
  TINY_OWN_PERCENT = 50,  // of their time that is not their kernels'
  COLD_PERCENT = 50,  // of the run
  COLD_NS = 50000000,  // a program that is made ready sooner needs no advice
  COLD_PLANS = 8,  // fewer graphs have little to share
  OUTSIDE_PERCENT = 50,  // of a thread's time
  OUTSIDE_NS = 100000000,
};

// ---- A value that nobody reads ----

// Of each group: values and bytes that were stored and never read, and the syncs that stored nothing else.
typedef struct unused_sum {
  double bytes, stored_bytes;
  uint32_t n_syncs, n_whole, latest;  // latest: its sequence; a sync may have several records
  uint64_t largest_bytes;
  uint32_t op, site;  // texts, of the largest value. 0: not known
} unused_sum;

static unused_sum *sum_unused(const tc_advice_input *in) {
  unused_sum *sum = calloc(in->g->n + 1, sizeof *sum);
  for (size_t i = 0; sum && i < in->p->n_unused; i++) {
    const tc_prof_unused *u = &in->p->unused[i];
    const tc_point *point = tc_profile_point(in->p, u->sequence);
    const tc_plan *plan = point ? tc_profile_plan(in->p, point->plan) : NULL;
    if (!plan) continue;
    unused_sum *s = &sum[in->g->of_point[point - in->p->point]];
    s->n_syncs += s->latest != u->sequence;
    s->latest = u->sequence;
    s->bytes += (double)u->bytes;
    s->stored_bytes += (double)plan->output_bytes;
    s->n_whole += u->n_values >= plan->n_outputs;
    if (u->op && u->largest_bytes > s->largest_bytes)
      s->largest_bytes = u->largest_bytes, s->op = u->op, s->site = u->site;
  }
  return sum;
}

bool tc_advise_unused(const tc_advice_input *in, tc_advice_list *out) {
  unused_sum *sum = sum_unused(in);
  if (!sum) return false;
  bool ok = true;
  for (size_t i = 0; ok && i < in->g->n; i++) {
    const tc_group *g = &in->g->group[i];
    const unused_sum *s = &sum[i];
    uint32_t n = s->n_syncs < g->n_syncs ? s->n_syncs : g->n_syncs;  // records of one may lie apart
    bool whole = s->n_whole * 100 >= g->n_syncs * EVERY_PERCENT;
    if (s->n_syncs < LEAST_STEPS || s->bytes * 100 < s->stored_bytes * UNUSED_PERCENT || tc_advice_has(out, g, NULL))
      continue;
    double gain = whole ? g->phase[TC_PHASE_TOTAL] : tc_advice_bytes_ns(in, g, s->bytes);
    tc_advice *a = tc_advice_add(out, "unused", gain, g);
    if (!(ok = a != NULL)) break;
    int at = snprintf(a->evidence, sizeof a->evidence,
                      "%s stores %s in each of %u syncs, and nothing reads %s before it dies",
                      tc_advice_place(in, g->site), tc_show_bytes(s->bytes / n), n, whole ? "any of it" : "it");
    if (s->op && at > 0 && at < (int)sizeof a->evidence)
      snprintf(a->evidence + at, sizeof a->evidence - (size_t)at, "; the largest is the %s of %s",
               tc_profile_text(in->p, s->op), tc_advice_place(in, s->site));
    if (whole)
      snprintf(a->fix, sizeof a->fix,
               "Leave this sync out, and release the value or end its scope before the next one: what is dead is not "
               "computed.");
    else
      snprintf(a->fix, sizeof a->fix,
               "Release what is not needed, or end its scope, before the sync: only live values are stored.");
  }
  free(sum);
  return ok;
}

// ---- Steps of several syncs ----

static double step_ns(const tc_steps *s) {
  double sum = 0;
  for (size_t i = 0; i < s->n; i++) sum += s->step[i].ns;
  return sum;
}

static double step_nodes(const tc_advice_input *in, const tc_steps *s) {
  double sum = 0;
  for (size_t i = 0; i < s->n_group; i++) sum += in->g->group[s->group[i]].nodes.median;
  return sum;
}

// A place of the step in which a group stands first; false for a later place of the same group, and
// for one that is not in every step.
static bool is_in_every_step(const tc_advice_input *in, const tc_steps *s, size_t at) {
  for (size_t k = 0; k < at; k++)
    if (s->group[k] == s->group[at]) return false;
  return (uint64_t)in->g->group[s->group[at]].n_syncs * 100 >= (uint64_t)s->n * EVERY_PERCENT;
}

// The place of the sync that ends the step: the library's own at a scope's end, else the last one.
static size_t find_end(const tc_advice_input *in, const tc_steps *s) {
  for (size_t i = s->n_group; i-- > 0;)
    if (tc_advice_is(in, &in->g->group[s->group[i]], "landmark")) return i;
  return s->n_group - 1;
}

static tc_advice *say_scalar_read(const tc_advice_input *in, tc_advice_list *out, const tc_steps *s,
                                  const tc_group *g) {
  const tc_group *end = &in->g->group[s->group[find_end(in, s)]];
  const tc_prof_plan *plan = tc_advice_plan(in, g);
  double stored = plan && end != g ? 2.0 * (double)plan->output_bytes * g->n_syncs : 0;  // and read by what follows
  tc_advice *a = tc_advice_add(out, "scalar-read", tc_advice_own_ns(g) + tc_advice_bytes_ns(in, g, stored), g);
  if (!a) return NULL;
  snprintf(a->evidence, sizeof a->evidence,
           "%s reads a scalar in each of %zu steps; the program waits there %s of a step", tc_advice_place(in, g->site),
           s->n, tc_show_share(g->phase[TC_PHASE_TOTAL], step_ns(s)));
  if (end == g && s->n_group > 1)
    snprintf(a->fix, sizeof a->fix, "Read it every 100 steps, or evaluate it together with %s.",
             tc_advice_place(in, in->g->group[s->group[s->group[0] == g - in->g->group]].site));
  else if (end == g)
    snprintf(a->fix, sizeof a->fix,
             "Read it every 100 steps, or at the end; behind the end of the step's scope it is no sync of its own.");
  else
    snprintf(a->fix, sizeof a->fix, "Read it every 100 steps, or tc_keep it and read it behind %s.",
             tc_advice_place(in, end->site));
  return a;
}

// Whether the graph of a group's latest sync assigns: it carries a state from step to step, which
// would go on without the read.
static bool has_assign(const tc_advice_input *in, const tc_group *g) {
  const tc_prof_plan *plan = tc_advice_plan(in, g);
  bool found = plan && strstr(tc_profile_text(in->p, plan->graph), " = assign ") != NULL;
  if (plan) tc_profile_forget(in->p, plan->graph);
  return found;
}

bool tc_advise_scalar_read(const tc_advice_input *in, tc_advice_list *out) {
  for (size_t t = 0; t < in->n_steps; t++) {
    const tc_steps *s = &in->steps[t];
    double nodes = step_nodes(in, s);
    for (size_t i = 0; i < s->n_group && s->n >= LEAST_STEPS; i++) {
      const tc_group *g = &in->g->group[s->group[i]];
      if (!tc_advice_is(in, g, "item") || tc_advice_has(out, g, NULL) || !is_in_every_step(in, s, i)) continue;
      bool cuts = i != find_end(in, s) || (s->n_group > 1 && g->nodes.median * 100 <= nodes * READ_PERCENT);
      if ((cuts || has_assign(in, g)) && !say_scalar_read(in, out, s, g)) return false;
    }
  }
  return true;
}

static bool is_early(const tc_advice_input *in, const tc_group *g) {
  static const char *const causes[] = {"eval", "sync", "to_host", "map", "print"};
  for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
    if (tc_advice_is(in, g, causes[i])) return true;
  return false;
}

bool tc_advise_early_sync(const tc_advice_input *in, tc_advice_list *out) {
  for (size_t t = 0; t < in->n_steps; t++) {
    const tc_steps *s = &in->steps[t];
    size_t end = s->n_group ? find_end(in, s) : 0;
    for (size_t i = 0; i < s->n_group && s->n >= LEAST_STEPS; i++) {
      const tc_group *g = &in->g->group[s->group[i]], *last = &in->g->group[s->group[end]];
      bool is_told =
          tc_advice_has(out, g, NULL) || tc_advice_has(out, last, NULL);  // last: as a read that cuts the step
      if (i == end || g == last || !is_early(in, g) || is_told || !is_in_every_step(in, s, i)) continue;
      const tc_prof_plan *plan = tc_advice_plan(in, g);
      double bytes = plan ? (double)plan->output_bytes : 0;
      double gain = tc_advice_own_ns(g) + tc_advice_bytes_ns(in, g, 2 * bytes * g->n_syncs);
      tc_advice *a = tc_advice_add(out, "early-sync", gain, g);
      if (!a) return false;
      bool is_eval = tc_advice_is(in, g, "eval") || tc_advice_is(in, g, "sync");
      snprintf(a->evidence, sizeof a->evidence,
               "%s runs %.0f of a step's %.0f nodes alone in each of %zu steps, and stores %s, before %s runs the rest",
               tc_advice_place(in, g->site), g->nodes.median, step_nodes(in, s), s->n, tc_show_bytes(bytes),
               tc_advice_place(in, last->site));
      snprintf(a->fix, sizeof a->fix, "%s %s, so that the step is one graph.",
               is_eval ? "Leave this sync out, or evaluate the value together with" : "Read the value behind",
               tc_advice_place(in, last->site));
    }
  }
  return true;
}

// ---- Tiny graphs in a row ----

// The part of a sync that neither runs a kernel nor makes or binds a plan.
static double own_ns_of(const tc_point *point) {
  double made = (double)point->ns[TC_PHASE_LOWER] + (double)point->ns[TC_PHASE_COMPILE];
  return (double)point->ns[TC_PHASE_TOTAL] - (double)point->ns[TC_PHASE_RUN] - made;
}

static bool is_tiny(const tc_advice_input *in, const tc_point *point) {
  const tc_plan *plan = tc_profile_plan(in->p, point->plan);
  return plan && plan->n_nodes < TC_TINY_NODES && point->ns[TC_PHASE_TOTAL] < TC_TINY_NS && point->flags & TC_PROF_HIT;
}

typedef struct tiny_sum {
  double own_ns, ns, nodes;
  uint32_t n;
} tiny_sum;

// Of each group: tiny syncs right behind another tiny one of their thread. NULL: no memory.
static tiny_sum *sum_tiny(const tc_advice_input *in) {
  tiny_sum *sum = calloc(in->g->n + 1, sizeof *sum);
  uint8_t *was_tiny = calloc(in->p->n_threads + 1, 1);
  for (size_t i = 0; sum && was_tiny && i < in->p->n_points; i++) {
    const tc_point *point = &in->p->point[i];
    bool tiny = is_tiny(in, point);
    if (tiny && was_tiny[point->thread]) {
      tiny_sum *s = &sum[in->g->of_point[i]];
      s->n++;
      s->own_ns += own_ns_of(point);
      s->ns += (double)point->ns[TC_PHASE_TOTAL];
      s->nodes += tc_profile_plan(in->p, point->plan)->n_nodes;
    }
    was_tiny[point->thread] = tiny;
  }
  if (!was_tiny) free(sum), sum = NULL;
  free(was_tiny);
  return sum;
}

bool tc_advise_tiny(const tc_advice_input *in, tc_advice_list *out) {
  tiny_sum *sum = sum_tiny(in);
  if (!sum) return false;
  bool ok = true;
  for (size_t i = 0; ok && i < in->g->n; i++) {
    const tc_group *g = &in->g->group[i];
    const tiny_sum *s = &sum[i];
    if (s->n < TINY_SYNCS || s->own_ns * 100 < s->ns * TINY_OWN_PERCENT || tc_advice_has(out, g, NULL)) continue;
    tc_advice *a = tc_advice_add(out, "tiny", s->own_ns, g);
    if (!(ok = a != NULL)) break;
    snprintf(
        a->evidence, sizeof a->evidence,
        "%s syncs %u times right behind another sync, for %.0f nodes each; %s of that time is the syncs' own and no "
        "kernel's",
        tc_advice_place(in, g->site), s->n, s->nodes / s->n, tc_show_share(s->own_ns, s->ns));
    snprintf(
        a->fix, sizeof a->fix,
        "Record all of them and sync once: an op over a whole tensor, or tc_stack, and one tc_to_host or tc_eval.");
  }
  free(sum);
  return ok;
}

// ---- Where the time of the whole run goes ----

bool tc_advise_cold_start(const tc_advice_input *in, tc_advice_list *out) {
  double cost = 0, most = 0;
  const tc_group *dearest = NULL;
  uint32_t n_plans = 0, n_syncs = 0;
  for (size_t i = 0; i < in->g->n; i++) {
    const tc_group *g = &in->g->group[i];
    double own = g->phase[TC_PHASE_LOWER] + g->phase[TC_PHASE_COMPILE];
    if (tc_advice_has(out, g, "growing") || tc_advice_has(out, g, "changing")) continue;  // not only at the start
    cost += own;
    n_plans += g->n_plans, n_syncs += g->n_syncs;
    if (own > most) most = own, dearest = g;
  }
  if (!dearest || cost < COLD_NS || cost * 100 < in->run_ns * COLD_PERCENT) return true;
  tc_advice *a = tc_advice_add(out, "cold-start", cost / 2, dearest);
  if (!a) return false;
  bool no_disk = strstr(tc_profile_text(in->p, in->p->process.options), "TC_CACHE_BYTES=0") != NULL;
  snprintf(a->evidence, sizeof a->evidence,
           "%s has the dearest of %u graphs that are made and then used %.1f times each; making them takes %s, "
           "%s of the run",
           tc_advice_place(in, dearest->site), n_plans, n_plans ? (double)n_syncs / n_plans : 0, tc_show_ns(cost),
           tc_show_share(cost, in->run_ns));
  if (n_plans >= COLD_PLANS)
    snprintf(a->fix, sizeof a->fix,
             "Give more of them the same ops and extents, which makes them one graph, and do more in one process.");
  else
    snprintf(a->fix, sizeof a->fix, "Do more in one process; %s.",
             no_disk ? "leave TC_CACHE_BYTES above 0, and a later one finds its kernels on disk"
                     : "a later one finds its kernels on disk and is ready sooner");
  return true;
}

// Before its syncs, but for waiting for a device.
static double outside_of(const tc_group *g) {
  return g->phase[TC_PHASE_OUTSIDE] - g->phase[TC_PHASE_AWAITED];
}

bool tc_advise_outside(const tc_advice_input *in, tc_advice_list *out) {
  const tc_group *most = NULL;
  double outside = 0, all = 0;
  if (in->n_steps == 0) return true;
  for (size_t i = 0; i < in->p->n_points; i++) {
    const tc_point *point = &in->p->point[i];
    if (point->thread != in->steps[0].thread) continue;
    const tc_group *g = &in->g->group[in->g->of_point[i]];
    if (!most || outside_of(g) > outside_of(most)) most = g;
    outside += (double)point->ns[TC_PHASE_OUTSIDE] - (double)point->ns[TC_PHASE_AWAITED];
    all += (double)point->ns[TC_PHASE_OUTSIDE] + (double)point->ns[TC_PHASE_RECORD] + (double)point->ns[TC_PHASE_TOTAL];
  }
  if (!most || outside < OUTSIDE_NS || outside * 100 < all * OUTSIDE_PERCENT) return true;
  tc_advice *a = tc_advice_add(out, "outside", outside, most);
  if (!a) return false;
  snprintf(
      a->evidence, sizeof a->evidence,
      "%s comes after most of the time that is not spent in tc: %s before each of its %u syncs; it is %s of the run",
      tc_advice_place(in, most->site), tc_show_ns(outside_of(most) / most->n_syncs), most->n_syncs,
      tc_show_share(outside, all));
  snprintf(a->fix, sizeof a->fix,
           "Look at what the program does between its syncs there: record it as ops, make it faster, or let another "
           "thread prepare it.");
  return true;
}
