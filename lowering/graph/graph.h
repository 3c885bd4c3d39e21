// The graph a plan is lowered from: the trace's records as nodes, simplified and decomposed. Nodes are in topological order; numbers of the plan's
// records come first, what decomposition adds follows. Lives in an arena for the time of lowering. Thread-compatible.
#ifndef TC_LOWERING_GRAPH_GRAPH_H
#define TC_LOWERING_GRAPH_GRAPH_H

#include "lazy/trace/plan.h"
#include "lowering/target/target.h"
#include "runtime/arena.h"

typedef struct tc_gnode {
  tc_op op;
  tc_type type;
  tc_device dev;
  const tc_shape_info *shape;
  int n_in;
  uint32_t *in;
  uint32_t old;      // of ASSIGN: whose value it takes the place of, which it does not read
  const uint64_t *attr;
  int n_attr;
  uint32_t arg;      // first of its arguments in the run's
  int n_arg;
  uint32_t leaf;     // TC_LEAF_NONE or the leaf's number
  uint32_t out;      // TC_LEAF_NONE or the output that stores it
  bool parameter;    // a leaf of differentiation that the plan does not assign: the same from run to run until it is written
  bool stays;        // a leaf of differentiation, or one that the plan assigns: its memory is the same from run to run, or takes turns with other
  bool part;         // goes into a tensor by a step of its own, which writes no more than that where the result lies over the old value
  bool needed;       // an output depends on it
  bool stored;       // has memory of its own, whether it needs it or not
  uint8_t prologue;  // made by the products that read it, 1 + the operand that leads to what it is made of (mark_prologue.h); 0: not
  uint32_t n_readers;
} tc_gnode;

typedef struct tc_graph {
  tc_arena *arena;
  const tc_plan *plan;
  tc_target target;  // of all its nodes: a plan is of one memory
  tc_gnode *node;
  uint32_t n, cap;
  uint32_t *order;   // needed nodes, operands first
  uint32_t n_order;
  bool packs_few;    // a factor is packed for products of few rows, which read it once a run
  tc_gpu_call **call;  // of libraries, owned: what CONV_CALL nodes name
  uint32_t n_call;
} tc_graph;

// Decodes the plan's records; merges equal pure nodes; expands composed ones and splits long folds (by shape only).
tc_status tc_graph_build(tc_graph *g, const tc_plan *plan, tc_arena *arena);
// Gives back what is not the arena's; whatever the status of building was.
void tc_graph_fini(tc_graph *g);

#define TC_EXP_OF_NEGATIVE UINT64_C(1)  // EXP's attribute, which the user's have not: its operand is at most 0, or NaN
#define TC_MAX_OVER_NAN (UINT64_C(1) << 9)  // in a MAX's attribute: its value where there are NaNs is nobody's concern

// Adds a node with like's type and device and one attribute or none; UINT32_MAX without memory. Nodes may move.
uint32_t tc_graph_add(tc_graph *g, const tc_gnode *like, tc_op op, const tc_dims *d, int n_in, const uint32_t *in, int n_attr, uint64_t attr);
// The same with any number of attributes, which are copied.
uint32_t tc_graph_add_with(tc_graph *g, const tc_gnode *like, tc_op op, const tc_dims *d, int n_in, const uint32_t *in, int n_attr,
                           const uint64_t *attr);

// Whether the node is a result on a device that computes nothing. Such nodes read nothing.
bool tc_graph_is_zeros(const tc_gnode *x);

// The operand that the op writes or adds into a copy of the first; -1: it does no such thing.
int tc_graph_part_of(tc_op op);

// tc_expand_<word> of each row that other rows make (`lower` in ops.def): takes node n, which has elements, apart. False without memory.
#define TC_EXPAND_fused tc_expand_none
#define TC_EXPAND_libm(function) tc_expand_none
#define TC_EXPAND_alias tc_expand_none
#define TC_EXPAND_extern tc_expand_none
#define TC_EXPAND_expand(word) tc_expand_##word
#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, lower, ...) bool TC_EXPAND_##lower(tc_graph *g, uint32_t n);
#include <tc/ops.def>
#undef TC_OP

#endif
