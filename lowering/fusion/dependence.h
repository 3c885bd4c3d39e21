// Dependences between fusions while a plan is built. Each fusion lists the fusions that it reads
// and those that read it. Its depth is greater than that of every fusion it reads. A query searches
// only between two depths, from both ends, and gives up after a bound. Two fusions stay separate
// when the answer is unknown.
// Invariants: no fusion depends on itself.
// Threads: a plan belongs to one thread. Owner: links live in the plan's arena.
#pragma once

#include "lowering/fusion/fusion.h"

#define TC_MOST_RAISED 512  // fusions whose depth one merge may raise

typedef struct tc_depend_search {
  uint32_t *queue, *seen;  // queue: fusions; seen: per fusion, the number of the last search that met it
  uint32_t n, at;
  const tc_fusion_link *link;  // the next link to follow, of queue[at - 1]; NULL: take the next fusion
} tc_depend_search;

typedef struct tc_depend {
  tc_fusion_plan *gr;
  uint32_t most, n_searches;  // most: upper bound on the number of fusions
  tc_depend_search search[2];  // towards the fusions read, and towards the readers
  struct tc_raised {
    uint32_t fusion, depth;
  } raised[TC_MOST_RAISED];  // depths before the raise, to restore them
} tc_depend;

typedef enum tc_depends { TC_DEPENDS_NOT, TC_DEPENDS, TC_DEPENDS_PERHAPS } tc_depends;

// False without memory.
bool tc_depend_init(tc_depend *d, tc_fusion_plan *gr, uint32_t most);
// Records that fusion a reads fusion b, which does not depend on a. False without memory.
bool tc_depend_add(tc_depend *d, uint32_t a, uint32_t b);
// Whether a depends on b. TC_DEPENDS_PERHAPS: the search was given up.
tc_depends tc_depend_ask(tc_depend *d, uint32_t a, uint32_t b);
// tc_depend_wait gives the fusion at least this depth; tc_depend_meet gives two fusions the same
// depth. False if that takes too long; the depths of the fusion that failed are then unchanged.
bool tc_depend_wait(tc_depend *d, uint32_t g, uint32_t depth);
bool tc_depend_meet(tc_depend *d, uint32_t g, uint32_t h);
// Whether neither depends on the other. If true, both have the same depth afterwards.
bool tc_depend_may_join(tc_depend *d, uint32_t g, uint32_t h);
// Merges the links of h into g.
void tc_depend_join(tc_depend *d, uint32_t g, uint32_t h);
