// What is most worth changing in a program: a table of rules over a profile.
// In: a profile, its groups and the steps of its threads. Out: findings, the dearest first.
// Invariants: a finding that may save less than TC_ADVICE_LEAST_PERCENT of the run, without what
// making graphs took, is dropped.
// Evidence is a sentence without its full stop, the place first; fix is one with it.
// Threads: one. Owner: tc_advice_free.
#pragma once

#include "tools/prof/groups.h"
#include "tools/prof/misses.h"
#include "tools/prof/steps.h"

enum {
  TC_ADVICE_SHOWN = 3,  // of the report
  TC_ADVICE_THREADS = 8,  // busiest threads whose steps are looked at
  TC_ADVICE_LEAST_PERCENT = 1,  // of the run
};

typedef struct tc_advice {
  const char *rule;  // its name in the table
  double gain_ns;  // what mending it may save over the whole run, at a guess
  uint32_t site, cause;  // texts; 0: of no one place
  char evidence[400], fix[300];
} tc_advice;

typedef struct tc_advice_list {
  tc_advice *row;
  size_t n;
} tc_advice_list;

typedef struct tc_advice_input {
  tc_profile *p;
  const tc_groups *g;
  const tc_steps *steps;  // a row a thread, the busiest first
  size_t n_steps;
  const tc_misses *misses;  // and bound plans
  double run_ns;  // from the first sync's recording to the end of the last sync
} tc_advice_input;

typedef struct tc_advice_rule {
  const char *name;
  // Adds what it finds. False: there was no memory.
  bool (*find)(const tc_advice_input *in, tc_advice_list *out);
} tc_advice_rule;

// ---- For rules ----

// A finding; the caller writes evidence and fix. NULL: there was no memory.
tc_advice *tc_advice_add(tc_advice_list *out, const char *rule, double gain_ns, const tc_group *group);
// Whether there is a finding of this place and cause by a rule. rule NULL: by any, as a place hears
// one thing about its syncs.
bool tc_advice_has(const tc_advice_list *out, const tc_group *group, const char *rule);
// A place in words, in one of a few static buffers.
const char *tc_advice_place(const tc_advice_input *in, uint32_t site);
// Whether the cause of the group's syncs is the word.
bool tc_advice_is(const tc_advice_input *in, const tc_group *group, const char *cause);
// What the syncs of a group cost beyond making their graphs and running their kernels.
double tc_advice_own_ns(const tc_group *group);
// How long bytes take to be moved, at most what the runs of the group took.
double tc_advice_bytes_ns(const tc_advice_input *in, const tc_group *group, double bytes);
// The plan of a group's latest sync, or NULL.
const tc_prof_plan *tc_advice_plan(const tc_advice_input *in, const tc_group *group);

// Rules over steps and places (advice_syncs.c) ..
bool tc_advise_unused(const tc_advice_input *in, tc_advice_list *out);
bool tc_advise_scalar_read(const tc_advice_input *in, tc_advice_list *out);
bool tc_advise_early_sync(const tc_advice_input *in, tc_advice_list *out);
bool tc_advise_tiny(const tc_advice_input *in, tc_advice_list *out);
bool tc_advise_cold_start(const tc_advice_input *in, tc_advice_list *out);
bool tc_advise_outside(const tc_advice_input *in, tc_advice_list *out);
// .. and over graphs and their kernels (advice_graphs.c).
bool tc_advise_growing(const tc_advice_input *in, tc_advice_list *out);
bool tc_advise_changing(const tc_advice_input *in, tc_advice_list *out);
bool tc_advise_recompute(const tc_advice_input *in, tc_advice_list *out);
bool tc_advise_held(const tc_advice_input *in, tc_advice_list *out);
bool tc_advise_reference(const tc_advice_input *in, tc_advice_list *out);
bool tc_advise_cut(const tc_advice_input *in, tc_advice_list *out);

// False: there was no memory; out is empty.
bool tc_prof_advise(tc_profile *p, const tc_groups *g, tc_advice_list *out);
void tc_advice_free(tc_advice_list *a);
