// State shared by the placing and merging of fusions while a plan is built. It also defines what
// one fusion may hold, and how two fusions become one. Internal to fusion/.
// Threads: a fuser belongs to one thread. Owner: what it points to lives in the plan's arena.
#pragma once

#include "lowering/fusion/dependence.h"
#include "lowering/fusion/fusion.h"

#define TC_MOST_OUTSIDE 40  // tensors of others that a fusion reads; buffers of a kernel stay well below TC_MAX_BUFS
#define TC_SMALL_FUSION 48  // most `load` of a fusion under TC_FUSE_SMALL

typedef struct tc_fuser {
  tc_fusion_plan *gr;
  const tc_graph *g;
  uint32_t *rank;  // per node: its position in g->order
  tc_depend depend;
  // per node: one more than the last attention fusion that has it as first operand; 0: none
  uint32_t *attends;
  uint32_t *attends_before;  // per fusion: the one before it, likewise; 0: none
  uint32_t *n_outside;  // per fusion: tensors of others that it reads
  uint32_t *n_large;  // per fusion: large temporaries of other fusions that it reads
  uint32_t max_large;
  uint32_t *counted;  // per node: one more than the fusion that counted it last; 0: none
  bool small;
  // per node: tensors and scalars that one read of it costs, counted with repetition; 1 if it is
  // not computed where it is read
  uint32_t *reads;
  uint32_t *load;  // per fusion: what its members read and write, with repetition
  // per node: nodes computed at a read of it, counted with repetition; 0: it is not computed where
  // it is read
  uint32_t *size;
  bool *constant;  // per node: computed from constants and ranges alone
  const uint8_t *must_materialize;
  bool failed;
} tc_fuser;

// Fusions that a node reads, each with the node of it that is read. At most 16.
typedef struct tc_seen_fusions {
  const tc_fusion_plan *gr;
  uint32_t of[16], node[16];
  int n;
} tc_seen_fusions;

static inline uint32_t tc_fuser_fusion_of(const tc_fusion_plan *gr, uint32_t n) {
  return gr->of[n] == TC_FUSION_NONE ? TC_FUSION_NONE : tc_fusion_alive(gr, gr->of[n]);
}

// Whether no generated kernel computes the node: a reference kernel, a library or a zero fill does.
bool tc_fuser_is_extern(const tc_fuser *w, const tc_gnode *x);
// Whether the node, or one of its operands, has no elements.
bool tc_fuser_touches_nothing(const tc_graph *g, const tc_gnode *x);
// Tensors and scalars that computing n reads, counted with repetition.
uint32_t tc_fuser_reads_of(const tc_fuser *w, uint32_t n);
uint32_t tc_fuser_add_fusion(tc_fuser *w, tc_fusion_kind kind, int64_t a, int64_t f, int64_t k);
// Adds n to the fusion at this level. Sets w->failed without memory.
void tc_fuser_add_member(tc_fuser *w, uint32_t fusion, uint32_t n, tc_level level);
uint32_t tc_fuser_most_members(tc_fusion_kind kind);
// A tc_fusion_visit that notes the source's fusion; arg is a tc_seen_fusions.
void tc_seen_fusions_note(void *arg, uint32_t source, bool moved);
// Whether n, at this level of gp, reads source at the position where source is computed.
bool tc_fuser_links(const tc_fusion_plan *gr, const tc_fusion *gp, uint32_t n, tc_level level, uint32_t source);
// Whether n links so to every value of `fusion` that it reads. False, too, if `seen` is full.
bool tc_fuser_all_link(const tc_fuser *w, const tc_fusion *gp, uint32_t fusion, uint32_t n, tc_level level,
                       const tc_seen_fusions *seen);
// Whether one kernel can hold both fusions: members, tensors, large temporaries.
bool tc_fuser_fit_together(const tc_fuser *w, uint32_t g, uint32_t h);
// Moves h's members into g, at `level`, or at their own level if that is TC_LEVEL_NONE.
void tc_fuser_absorb(tc_fuser *w, uint32_t g, uint32_t h, tc_level level);
// Absorbs h if neither fusion depends on the other and both fit together; else returns false.
bool tc_fuser_merge(tc_fuser *w, uint32_t g, uint32_t h, tc_level level);

// ---- placing a node (place.c) ----

// Places a node in a fusion that computes one of its operands, or in a new one.
//
//   exp(x), then a sum over rows: exp is placed in an ELEMENTWISE fusion; the sum reduces the same
//   elements, so the fusion becomes ROW and takes both
//
// A placing rule is a return in why_not_in (place.c). A kind of fusion is an enumerator of
// tc_fusion_kind and an emitter (lowering/emit).
// pre: the operands of n are placed. Merges fusions that n reads with its own where the rules allow
// it. Sets w->failed without memory.
void tc_fuser_place_node(tc_fuser *w, uint32_t n);
// The rule that keeps node n of fusion `to`, which reads source, out of fusion `from`, which
// computes it. NULL: no rule about the two alone does. Asked of a finished plan.
const char *tc_fuser_why_apart(const tc_fusion_plan *gr, const tc_fusion *to, const tc_fusion *from, uint32_t n,
                               uint32_t source);

// ---- merging fusions that read the same data, so that it is read once (merge.c) ----

// Merges fusions of one kind and domain that read the same data and not each other's results.
void tc_fuser_merge_siblings(tc_fuser *w);
// The rule that keeps fusion `later` out of the sibling `first`; NULL: no rule about the two alone
// does. Asked of a finished plan, too.
const char *tc_fuser_why_siblings_apart(const tc_fusion_plan *gr, const tc_fusion *first, const tc_fusion *later);
// Merges column sums into the ROW fusion over the same rows, as in the gradient of a norm: the rows
// are then read once. Each column stays one chain of additions per part, in the order of rows.
// Parts are the units of work, so a merge needs enough of them for all threads.
void tc_fuser_merge_columns(tc_fuser *w);

// ---- recomputing (recompute.c) ----

// Chooses values that are cheaper to recompute in each reader than to store and load. Examples are
// moved or indexed elementwise values, and what a backward pass reads of a forward pass. The
// estimate is time: bytes, arithmetic, and kernels that vanish. Results are the same bits either
// way.
// Runs after nodes are placed and fusions are merged. must: per node, true if it has memory in any
// case. Clears `stored` of recomputed values, and removes members and whole fusions that nobody
// reads any more. A fusion without members is no kernel.
// low_memory: memory costs more than time, and no kernel reads more large temporaries than before.
tc_status tc_recompute(tc_fusion_plan *gr, const bool *must, bool low_memory);
