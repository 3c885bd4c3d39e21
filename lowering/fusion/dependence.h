// Which fusion depends on which, while fusions are made. Groups know whom they read and who reads
// them, and each has a depth, greater than those of the fusions it reads; so whether one depends on
// another is looked for between their depths alone, from both sides. What takes long is given up:
// then fusions that might be one stay two.
// Always: no fusion depends on itself. Threads: a fusion plan is one thread's. Links live in its
// arena.
#ifndef TC_LOWERING_FUSION_DEPENDENCE_H
#define TC_LOWERING_FUSION_DEPENDENCE_H

#include "lowering/fusion/fusion.h"

#define TC_MOST_RAISED 512  // fusions that wait for more because two become one

typedef struct tc_depend_search {
  uint32_t *queue, *seen;  // fusions; per fusion: the number of the search that met it last
  uint32_t n, at;
  const tc_fusion_link *link;  // the next to follow, of queue[at - 1]
} tc_depend_search;

typedef struct tc_depend {
  tc_fusion_plan *gr;
  uint32_t most, n_searches;  // most: fusions there may be
  tc_depend_search search[2];  // from above and from below
  struct tc_raised {
    uint32_t fusion, depth;
  } raised[TC_MOST_RAISED];  // depths as they were
} tc_depend;

typedef enum tc_depends { TC_DEPENDS_NOT, TC_DEPENDS, TC_DEPENDS_PERHAPS } tc_depends;

// False without memory.
bool tc_depend_init(tc_depend *d, tc_fusion_plan *gr, uint32_t most);
// Group a reads fusion b, which does not depend on it. False without memory.
bool tc_depend_add(tc_depend *d, uint32_t a, uint32_t b);
// Whether a depends on b. PERHAPS: it was not found in time.
tc_depends tc_depend_ask(tc_depend *d, uint32_t a, uint32_t b);
// Gives the fusion at least this depth; two fusions the same. False, with nothing changed for the
// fusion that is at fault: that takes too long.
bool tc_depend_wait(tc_depend *d, uint32_t g, uint32_t depth);
bool tc_depend_meet(tc_depend *d, uint32_t g, uint32_t h);
// Whether neither depends on the other; they have the same depth then.
bool tc_depend_may_join(tc_depend *d, uint32_t g, uint32_t h);
// h becomes part of g.
void tc_depend_join(tc_depend *d, uint32_t g, uint32_t h);

#endif
