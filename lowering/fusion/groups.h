// Groups while they are made: the state that placing and merging share, what a group may hold, and
// two groups made one. Inside fusion; not for others.
// Threads: a fuser is one thread's. What it points to lives in the plan's arena.
#ifndef TC_LOWERING_FUSION_GROUPS_H
#define TC_LOWERING_FUSION_GROUPS_H

#include "lowering/fusion/dependence.h"
#include "lowering/fusion/fusion.h"

#define TC_MOST_OUTSIDE 40  // buffers a kernel reads and writes stay well below TC_MAX_BUFS
#define TC_TIGHT_GROUP 48  // what the members of a group read and write, where kernels are kept small

typedef struct tc_fuser {
  tc_grouping *gr;
  const tc_graph *g;
  uint32_t *rank;  // per node: position in the order
  tc_depend depend;
  uint32_t *attends;  // per node: one more than the last group of attention that reads it first, 0: none does
  uint32_t *attends_before;  // per group: likewise, the one before it
  uint32_t *n_outside;  // per group: tensors of others that it reads
  uint32_t *n_large;  // per group: large ones that others make
  uint32_t max_large;
  uint32_t *counted;  // per node: the group, plus one, that counted it last
  bool tight;
  uint32_t *reads;  // per node: tensors and scalars that a reader of it reads, counted with repetition; 1 unless it is made in place
  uint32_t *load;  // per group: what its members read and write, counted so
  uint32_t *size;  // per node: nodes made in place where it is read, counted with repetition; 0 unless it is one
  bool *constant;  // per node: made of constants and ranges alone
  const uint8_t *forced;
  bool failed;
} tc_fuser;

// Groups that a node reads, each with the node of it that is read.
typedef struct tc_seen_groups {
  const tc_grouping *gr;
  uint32_t of[16], node[16];
  int n;
} tc_seen_groups;

static inline uint32_t tc_fuser_group_of(const tc_grouping *gr, uint32_t n) {
  return gr->of[n] == TC_GROUP_NONE ? TC_GROUP_NONE : tc_group_alive(gr, gr->of[n]);
}

// Whether no generated kernel makes the node: a reference kernel, a library, or zeros written over
// all of it do.
bool tc_fuser_is_extern(const tc_fuser *w, const tc_gnode *x);
// Whether the node, or one of its operands, has no elements.
bool tc_fuser_touches_nothing(const tc_graph *g, const tc_gnode *x);
// What making n reads, with repetition.
uint32_t tc_fuser_reads_of(const tc_fuser *w, uint32_t n);
uint32_t tc_fuser_add_group(tc_fuser *w, tc_group_kind kind, int64_t a, int64_t f, int64_t k);
// Sets w->failed without memory.
void tc_fuser_add_member(tc_fuser *w, uint32_t group, uint32_t n, tc_level level);
uint32_t tc_fuser_most_members(tc_group_kind kind);
// A visitor; arg is a tc_seen_groups.
void tc_seen_groups_note(void *arg, uint32_t source, bool moved);
// Whether n, at this level of the group, reads source where that stands.
bool tc_fuser_links(const tc_fuser *w, const tc_group *gp, uint32_t n, tc_level level, uint32_t source);
// Whether every value of `group` that n reads stands where n, at this level of gp, would read it.
bool tc_fuser_all_link(const tc_fuser *w, const tc_group *gp, uint32_t group, uint32_t n, tc_level level, const tc_seen_groups *seen);
// Whether two groups are not too much for one kernel.
bool tc_fuser_fit_together(const tc_fuser *w, uint32_t g, uint32_t h);
// Moves h's members into g at their level, or at the level given.
void tc_fuser_absorb(tc_fuser *w, uint32_t g, uint32_t h, tc_level level);
// The same if neither depends on the other and they fit together.
bool tc_fuser_merge(tc_fuser *w, uint32_t g, uint32_t h, tc_level level);

#endif
