// What is most worth changing in a program: a table of rules over a profile.
// In: a profile, its groups and the steps of its threads. Out: findings, the dearest first.
// Threads: one. Owner: tc_advice_free.
#pragma once

#include "tools/prof/groups.h"
#include "tools/prof/steps.h"

enum { TC_ADVICE_SHOWN = 3, TC_ADVICE_THREADS = 8 };  // of the report; busiest threads whose steps are looked at

typedef struct tc_advice {
  const char *rule;  // its name in the table
  double gain_ns;  // what mending it may save over the whole run, at a guess
  uint32_t site, cause;  // texts; 0: of no one place
  char evidence[300], fix[300];  // a sentence each
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
} tc_advice_input;

typedef struct tc_advice_rule {
  const char *name;
  // Adds what it finds. False: there was no memory.
  bool (*find)(const tc_advice_input *in, tc_advice_list *out);
} tc_advice_rule;

// For rules: a finding; the caller writes evidence and fix. NULL: there was no memory.
tc_advice *tc_advice_add(tc_advice_list *out, const char *rule, double gain_ns, const tc_group *group);

// False: there was no memory; out is empty.
bool tc_prof_advise(tc_profile *p, const tc_groups *g, tc_advice_list *out);
void tc_advice_free(tc_advice_list *a);
