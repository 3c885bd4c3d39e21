// Groups while they are made: the state that placing and merging share, what a fusion may hold, and
// two fusions made one. Inside fusion; not for others.
// Threads: a fuser is one thread's. What it points to lives in the plan's arena.
#ifndef TC_LOWERING_FUSION_GROUPS_H
#define TC_LOWERING_FUSION_GROUPS_H

#include "lowering/fusion/dependence.h"
#include "lowering/fusion/fusion.h"

#define TC_MOST_OUTSIDE 40  // buffers a kernel reads and writes stay well below TC_MAX_BUFS
#define TC_SMALL_FUSION 48  // what the members of a fusion read and write, where kernels are kept small

typedef struct tc_fuser {
  tc_fusion_plan *gr;
  const tc_graph *g;
  uint32_t *rank;  // per node: position in the order
  tc_depend depend;
  uint32_t *attends;  // per node: one more than the last fusion of attention that reads it first, 0: none does
  uint32_t *attends_before;  // per fusion: likewise, the one before it
  uint32_t *n_outside;  // per fusion: tensors of others that it reads
  uint32_t *n_large;  // per fusion: large ones that others make
  uint32_t max_large;
  uint32_t *counted;  // per node: the fusion, plus one, that counted it last
  bool small;
  // per node: tensors and scalars that a reader of it reads, counted with repetition; 1 unless it
  // is made in place
  uint32_t *reads;
  uint32_t *load;  // per fusion: what its members read and write, counted so
  uint32_t *size;  // per node: nodes made in place where it is read, counted with repetition; 0 unless it is one
  bool *constant;  // per node: made of constants and ranges alone
  const uint8_t *must_materialize;
  bool failed;
} tc_fuser;

// Groups that a node reads, each with the node of it that is read.
typedef struct tc_seen_fusions {
  const tc_fusion_plan *gr;
  uint32_t of[16], node[16];
  int n;
} tc_seen_fusions;

static inline uint32_t tc_fuser_fusion_of(const tc_fusion_plan *gr, uint32_t n) {
  return gr->of[n] == TC_FUSION_NONE ? TC_FUSION_NONE : tc_fusion_alive(gr, gr->of[n]);
}

// Whether no generated kernel makes the node: a reference kernel, a library, or zeros written over
// all of it do.
bool tc_fuser_is_extern(const tc_fuser *w, const tc_gnode *x);
// Whether the node, or one of its operands, has no elements.
bool tc_fuser_touches_nothing(const tc_graph *g, const tc_gnode *x);
// What making n reads, with repetition.
uint32_t tc_fuser_reads_of(const tc_fuser *w, uint32_t n);
uint32_t tc_fuser_add_fusion(tc_fuser *w, tc_fusion_kind kind, int64_t a, int64_t f, int64_t k);
// Sets w->failed without memory.
void tc_fuser_add_member(tc_fuser *w, uint32_t fusion, uint32_t n, tc_level level);
uint32_t tc_fuser_most_members(tc_fusion_kind kind);
// A visitor; arg is a tc_seen_fusions.
void tc_seen_fusions_note(void *arg, uint32_t source, bool moved);
// Whether n, at this level of the fusion, reads source where that stands.
bool tc_fuser_links(const tc_fuser *w, const tc_fusion *gp, uint32_t n, tc_level level, uint32_t source);
// Whether every value of `fusion` that n reads stands where n, at this level of gp, would read it.
bool tc_fuser_all_link(const tc_fuser *w, const tc_fusion *gp, uint32_t fusion, uint32_t n, tc_level level,
                       const tc_seen_fusions *seen);
// Whether two fusions are not too much for one kernel.
bool tc_fuser_fit_together(const tc_fuser *w, uint32_t g, uint32_t h);
// Moves h's members into g at their level, or at the level given.
void tc_fuser_absorb(tc_fuser *w, uint32_t g, uint32_t h, tc_level level);
// The same if neither depends on the other and they fit together.
bool tc_fuser_merge(tc_fuser *w, uint32_t g, uint32_t h, tc_level level);

#endif
