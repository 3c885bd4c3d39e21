// The fusion plan of a graph: which nodes become one kernel. A fusion has a domain [A, F, K]: A
// outer rows, F folded, K inner; a member covers all of it (FULL) or what a fold leaves of it
// (REDUCED, [A, K]). Members are linked by identity of position, so fusion never moves data between
// iterations:
//   FLAT  elementwise over K (A = F = 1)
//   ROW   folds over the last axes (K = 1): a row at a time, lanes along F; softmax and norms are one fusion. Sums of its columns over every `part` rows
//         may be members too (COLUMN, [A / part, F]), as in the gradient of a norm: then those rows are one unit of work
//   COL   folds over outer axes: a block of columns at a time, lanes along K
//   GEMM  a product over [A, F = m, K = n] with what follows it elementwise, applied to the accumulators
//   ATTENTION  rows of attention that read the same operands: a result and its log-sum-exp, or gradients
// Everything else (constants, ranges, views) is made where it is read.
#ifndef TC_LOWERING_FUSION_FUSION_H
#define TC_LOWERING_FUSION_FUSION_H

#include "lowering/graph/graph.h"
#include "lowering/kir/index_expr.h"

#define TC_FUSION_NONE UINT32_MAX
#define TC_LARGE_BYTES 65536  // of a temporary that thrift is about

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
  int64_t part;  // rows that a COLUMN member folds, 0: there is none
  uint32_t *member;  // nodes in topological order
  uint32_t n_member, cap_member;
  uint32_t merged;  // into which fusion, TC_FUSION_NONE: alive
  struct tc_fusion_link *before,
      // fusions it reads, and by those what it depends on; some stand more than once, some by a
      // former number
      *last_before;
  struct tc_fusion_link *after, *last_after;  // likewise those that read it
  uint32_t depth;  // greater than that of each fusion it reads
  bool no_fusion;  // nothing joins it
} tc_fusion;

typedef struct tc_fusion_plan {
  const tc_graph *graph;
  tc_arena *arena;
  tc_fusion *fusion;
  uint32_t n_fusion;
  uint32_t *of;  // per node: its fusion, TC_FUSION_NONE where made in place
  uint8_t *level;  // per node: tc_level
  // per node: has memory (leaf, output, or read across fusions and not cheaper to make again:
  // recompute.h)
  bool *stored;
  uint32_t *alias;  // per node: the node whose memory it shares (a reshape of something stored), or itself
  struct tc_emit_notes *notes;  // scratch of expansions (context.h), NULL until the first
} tc_fusion_plan;

// The fusion that g is part of now.
static inline uint32_t tc_fusion_alive(const tc_fusion_plan *gr, uint32_t g) {
  while (gr->fusion[g].merged != TC_FUSION_NONE) {
    uint32_t next = gr->fusion[g].merged;
    // a shorter way for the next one who asks
    if (gr->fusion[next].merged != TC_FUSION_NONE) gr->fusion[g].merged = gr->fusion[next].merged;
    g = next;
  }
  return g;
}

// The node whose memory n has.
static inline uint32_t tc_fusion_root(const tc_fusion_plan *gr, uint32_t n) {
  while (gr->alias[n] != n) n = gr->alias[n];
  return n;
}

// What is done with a node whatever the rules say, since a view of it cannot be said: it is stored;
// and it is in a kernel of its own.
enum { TC_MUST_MATERIALIZE = 1, TC_NO_FUSION = 2 };

// Whether operand k of node n, the tensor that n writes into, is one value over and over: then a
// reference kernel is given the value, without memory.
bool tc_fusion_is_filled(const tc_graph *g, uint32_t n, int k);

// Calls visit for each value that n reads and that is computed or has memory, through views and
// constants made in place; moved: n may read it at other positions than its own.
typedef void tc_fusion_visit(void *arg, uint32_t source, bool moved);
void tc_fusion_each_source(const tc_fusion_plan *gr, uint32_t n, tc_fusion_visit *visit, void *arg);

#endif
