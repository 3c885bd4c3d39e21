// The fusion plan of a graph: which nodes become one kernel.
// A fusion has a domain [A, F, K]: A outer rows, F folded (reduced), K inner. A member covers all
// of it (FULL) or what a reduction leaves of it (REDUCED, [A, K]). Members read each other at the
// same position, so fusion never moves data between iterations. TC_LOG=fusion names the kinds so:
//   ELEMENTWISE  goes over K (A = F = 1)
//   ROW          reduces the last axes (K = 1), a row at a time, SIMD lanes along F; softmax and
//                norms are one fusion. Members of level COLUMN ([A / part, F]) sum its columns over
//                every `part` rows, as in a norm's gradient; those rows are then one unit of work
//   COLUMN       reduces outer axes, a block of columns at a time, SIMD lanes along K
//   MATMUL       a matmul over [A, F = m, K = n] with its elementwise epilogue on the accumulators
//   ATTENTION    attention ops on the same operands: a result and its log-sum-exp, or gradients
//   EXTERN       a step without generated code
// Everything else (constants, ranges, views) is computed where it is read.
#pragma once

#include "lowering/graph/graph.h"
#include "lowering/kir/index_expr.h"

#define TC_FUSION_NONE UINT32_MAX
#define TC_LARGE_BYTES 65536  // a temporary of at least this size is large (TC_FUSE_LOW_MEMORY)

typedef enum tc_fusion_kind {
  TC_FUSION_ELEMENTWISE,
  TC_FUSION_ROW,
  TC_FUSION_COLUMN,
  TC_FUSION_MATMUL,
  TC_FUSION_ATTENTION,
  TC_FUSION_EXTERN
} tc_fusion_kind;
typedef enum tc_level { TC_LEVEL_NONE, TC_LEVEL_FULL, TC_LEVEL_REDUCED, TC_LEVEL_COLUMN } tc_level;

typedef struct tc_fusion_link {
  struct tc_fusion_link *next;
  uint32_t fusion;
} tc_fusion_link;

typedef struct tc_fusion {
  tc_fusion_kind kind;
  int64_t a, f, k;
  int64_t part;  // rows that a COLUMN member sums; 0: no such member
  uint32_t *member;  // nodes in topological order
  uint32_t n_member, cap_member;
  uint32_t merged;  // the fusion it was merged into; TC_FUSION_NONE: alive
  // the fusions it reads; one may occur several times, or by the number of a fusion merged into it
  struct tc_fusion_link *before, *last_before;
  struct tc_fusion_link *after, *last_after;  // the fusions that read it, likewise
  uint32_t depth;  // greater than that of each fusion it reads
  bool no_fusion;  // true: no node and no fusion joins it
} tc_fusion;

typedef struct tc_fusion_plan {
  const tc_graph *graph;
  tc_arena *arena;
  tc_fusion *fusion;
  uint32_t n_fusion;
  uint32_t *of;  // per node: its fusion; TC_FUSION_NONE: computed where it is read
  uint8_t *level;  // per node: tc_level
  // per node: true if it has memory: a leaf, an output, or a value read by other fusions that is
  // not cheaper to recompute (recompute.c)
  bool *stored;
  // per node: the node whose memory it shares (a reshape of a stored node), or itself
  uint32_t *alias;
  struct tc_emit_notes *notes;  // scratch of the emitters (context.h); NULL until the first kernel is emitted
} tc_fusion_plan;

static inline int64_t tc_fusion_positions(const tc_fusion *gp) {
  return gp->a * gp->f * gp->k;
}

static inline bool tc_fusion_same_domain(const tc_fusion *x, const tc_fusion *y) {
  return x->a == y->a && x->f == y->f && x->k == y->k;
}

// The live fusion that g was merged into, or g itself.
static inline uint32_t tc_fusion_alive(const tc_fusion_plan *gr, uint32_t g) {
  while (gr->fusion[g].merged != TC_FUSION_NONE) {
    uint32_t next = gr->fusion[g].merged;
    // path compression
    if (gr->fusion[next].merged != TC_FUSION_NONE) gr->fusion[g].merged = gr->fusion[next].merged;
    g = next;
  }
  return g;
}

// The node whose memory n shares, or n itself.
static inline uint32_t tc_fusion_root(const tc_fusion_plan *gr, uint32_t n) {
  while (gr->alias[n] != n) n = gr->alias[n];
  return n;
}

// Demands on a node whose view is not affine. TC_MUST_MATERIALIZE: it is stored. TC_NO_FUSION: it
// is also in a kernel of its own.
enum { TC_MUST_MATERIALIZE = 1, TC_NO_FUSION = 2 };

// Whether operand k of node n, the tensor that n writes into, is one repeated value. A reference
// kernel is then given the value instead of memory.
bool tc_fusion_is_filled(const tc_graph *g, uint32_t n, int k);

// Calls visit for each value that n reads and that is computed or has memory. Views and constants
// that are computed where they are read are looked through. moved: n may read the value at a
// position other than its own.
typedef void tc_fusion_visit(void *arg, uint32_t source, bool moved);
void tc_fusion_each_source(const tc_fusion_plan *gr, uint32_t n, tc_fusion_visit *visit, void *arg);

// TC_LOG=fusion: logs the nodes of each kernel, and why another kernel computes what it reads
// (print.c).
//
//   k1 ROW [4, 64, 1]: %3 exp, %5 sum reduced
//     reads %0
//     stores %5
//     %2 is made by k0: read at other positions
void tc_fusion_log(const tc_fusion_plan *gr);
void tc_fusion_print(const tc_fusion_plan *gr, FILE *out);
// Calls visit for each value that fusion `to` reads from memory and fusion `from` made, with the
// rule that keeps the two apart. False: no memory.
typedef void tc_fusion_border_visit(void *arg, uint32_t from, uint32_t to, uint32_t node, const char *why);
bool tc_fusion_each_border(const tc_fusion_plan *gr, tc_fusion_border_visit *visit, void *arg);
