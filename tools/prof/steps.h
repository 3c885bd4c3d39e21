// The repeating step of a thread, and each time it was seen.
// In: a profile and its groups. Out: the step as groups in order, and a row each time.
// Threads: one. Owner: tc_steps_free.
#pragma once

#include "tools/prof/groups.h"

typedef struct tc_step {
  uint32_t first, last;  // points, as tc_profile.point has them
  uint32_t n_extra, n_missing;  // syncs within it beyond the expected ones; expected ones that were not there
  uint32_t n_missed;  // plans that were not in the cache
  double ns;  // from the end of the sync before it to the end of its last
  double nodes, kernels, compile_ns;  // sums of its syncs
} tc_step;

typedef struct tc_steps {
  uint32_t thread;  // place in tc_profile.thread
  uint32_t n_points;  // of the thread
  uint32_t *group;  // of each sync of a step; NULL: nothing repeats
  size_t n_group;
  tc_step *step;
  size_t n;
  uint32_t n_before, n_after, n_between;  // syncs outside steps: before the first, after the last, between
  uint32_t n_regular, n_with_extra, n_with_missing;  // steps
  uint32_t *extra;  // of each group: its syncs within and between steps beyond the expected ones
} tc_steps;

// False: there was no memory; out is empty.
bool tc_steps_find(tc_profile *p, const tc_groups *g, uint32_t thread, tc_steps *out);
void tc_steps_free(tc_steps *s);
