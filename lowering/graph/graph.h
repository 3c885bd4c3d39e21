// The tensor graph that a plan is lowered from.
//
// In: a plan. Out: nodes that the passes of lowering/pipeline.c rewrite, and their order.
// Invariants: nodes of the plan's records keep their numbers; passes append theirs. `order` alone
// is topological. What changes the order of a sum depends on shapes alone.
// Threads: thread-compatible. Owner: the arena has all of it but library calls (tc_graph_fini).
#pragma once

#include "device/loaded_backend.h"
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
  uint32_t old;  // of ASSIGN: the node whose value is replaced, which it does not read
  const uint64_t *attr;
  int n_attr;
  uint32_t arg;  // number of its first argument among the run's
  int n_arg;
  uint32_t leaf;  // number of the plan's leaf, or TC_LEAF_NONE
  uint32_t out;  // number of the plan's output that it stores, or TC_LEAF_NONE
  bool parameter;  // a leaf of differentiation that the plan does not assign: constant across runs
  // A leaf of differentiation, or one that the plan assigns: it lives at the same address in every
  // run, or alternates between two buffers.
  bool stable_address;
  bool is_slice_update;  // updates a slice of a tensor by a step of its own, in place where it can
  bool needed;  // an output depends on it
  bool stored;  // has memory of its own, whether it needs it or not
  // 1 + the operand that leads to the narrow tensor: the matmuls that read it make it where they
  // load it (mark_prologue.c). 0: they do not.
  uint8_t prologue;
  uint32_t n_readers;
} tc_gnode;

// Of a fold over `run` elements that is cut in parts of one length. part: 0: it has none.
typedef struct tc_fold_guard {
  int64_t run, inner, part;
} tc_fold_guard;

typedef struct tc_graph {
  tc_arena *arena;
  const tc_plan *plan;
  tc_target target;  // of all its nodes: a plan is of one memory
  tc_gnode *node;
  uint32_t n, cap;
  uint32_t *order;  // needed nodes, operands first; NULL until they are scheduled
  uint32_t n_order;
  bool any_size;  // kernels are for many sizes: their code depends on sizes as little as can be (size_piece.h)
  tc_fold_guard *guard;  // with any_size: long folds
  uint32_t n_guard;
  bool packs_few;  // a weight is prepacked for matmuls of few rows, which read it once a run
  size_t panel_bytes;  // of the panels that each run makes of operands which several matmuls read
  // Who makes convolution n, which has elements: a new reference to a library's call, or NULL for
  // a generated kernel. The field is NULL where all are generated.
  tc_gpu_call *(*choose_conv)(const struct tc_graph *g, uint32_t n);
  tc_gpu_call **call;  // of libraries, owned: what CONV_CALL nodes name
  uint32_t n_call;
} tc_graph;

// Makes the graph that passes begin with: the plan's records as nodes, in the arena.
tc_status tc_graph_import(tc_graph *g, const tc_plan *plan, tc_arena *arena);
// Releases what is not the arena's, whatever the status of importing and of passes was.
void tc_graph_fini(tc_graph *g);

// EXP's attribute where a pass made it: its operand is at most 0, or NaN.
#define TC_EXP_OF_NEGATIVE UINT64_C(1)
// In MAX's attribute: where there are NaNs, its value does not matter.
#define TC_MAX_OVER_NAN (UINT64_C(1) << 9)

// The number of no node. Adding gives it without memory, or with such an operand. So additions
// nest, and only the last result is tested.
#define TC_GNODE_NONE UINT32_MAX
// Adds a node with like's type and device and one attribute or none. Nodes may move.
uint32_t tc_graph_add(tc_graph *g, const tc_gnode *like, tc_op op, const tc_dims *d, int n_in, const uint32_t *in,
                      int n_attr, uint64_t attr);
// Adds a node with any number of attributes, which are copied.
uint32_t tc_graph_add_with(tc_graph *g, const tc_gnode *like, tc_op op, const tc_dims *d, int n_in, const uint32_t *in,
                           int n_attr, const uint64_t *attr);

// Makes the node another op, of operand a, or of a and b, without attributes and arguments. The
// array of operands has room for one more than the node was added with, so one may become two.
void tc_gnode_become(tc_gnode *x, tc_op op, uint32_t a, uint32_t b, int n_in);
// The failure of a pass that the arena has no room for.
tc_status tc_graph_no_memory(const tc_graph *g);

// The nodes that outputs need, operands first, in an array of the arena's. NULL without memory, or
// with *n UINT32_MAX where operands go round in a circle.
uint32_t *tc_graph_order(const tc_graph *g, tc_arena *arena, uint32_t *n);
// What outputs need, a node a line: `%3 = sum f32[8,1] %2 axes 1 keepdim out 0`.
void tc_graph_print(const tc_graph *g, FILE *out);
// Whether nodes have the operands, shapes and types that their ops say, outputs are stored once,
// and a schedule is in order. TC_ERR_STATE names the node and the pass before.
tc_status tc_graph_verify(const tc_graph *g, const char *after);
// TC_LOG=plan: the plan's records, and the nodes of a graph that is scheduled.
void tc_graph_log(const tc_graph *g);
// TC_LOG=pass: the graph after a pass, if its text is not *last, which becomes it: owned by the
// caller, NULL at first.
void tc_graph_log_pass(const tc_graph *g, const char *pass, char **last);

// Whether the node is a result on a device that computes nothing. Such nodes read nothing.
bool tc_graph_is_zeros(const tc_gnode *x);

// Whether each element of the op's result is an element of its operand, at a position that is
// affine in its own.
bool tc_graph_is_view(tc_op op);

// The operand that the op writes or adds into a copy of the first; -1: it does no such thing.
int tc_graph_slice_update_of(tc_op op);

// ---- nodes on a loaded back end's device (partition.c) ----

#define TC_BACKEND_MOST_IN 64  // operands of an op that a back end is asked about
// Describes node n for a back end, its operands in `in`, which has room for them. Pointers are the
// graph's.
void tc_graph_describe_op(const tc_graph *g, uint32_t n, tc_backend_op *out, tc_backend_tensor *in);
// Whether the device runs node n.
bool tc_graph_takes(const tc_graph *g, tc_loaded *device, uint32_t n);

// ---- what passes ask of each other ----

// Algebraic identities on one node, by structure alone: the values of scalars are not known here.
// Values keep their bits, but for which NaN. The passes cse and sink_permute apply them.
// Rewrites node n in place; its operands are simplified already. Returns the node that it equals, n
// if there is none.
uint32_t tc_simplify(tc_graph *g, uint32_t n);
// Fused producers of a matmul's right operand, such as dequantised weights: cheap arithmetic on a
// narrower tensor, which the matmul does where it loads it. Only the narrow tensor is read from
// memory; the operand is never stored. The pass is tc_pass_mark_prologue.
// Whether n, through views, is a node that the pass marked (tc_gnode.prologue).
bool tc_in_matmul_prologue(const tc_graph *g, uint32_t n);
// Describes node n, a CONV, CONV_INPUT or CONV_WEIGHT with elements, as a library is asked for it.
// False where no library's convolution is the same.
bool tc_conv_facts(const tc_graph *g, uint32_t n, tc_gpu_conv_facts *out);
// Whether node n is the matmul that a two-dimensional convolution of so many images became, of few
// enough channels for the kernel.
bool tc_direct_fits(const tc_graph *g, uint32_t n, int64_t images);
// That convolution as a node CONV_DIRECT [images, o, p * q]: the same sums in the same order.
// TC_GNODE_NONE without memory.
uint32_t tc_direct_add(tc_graph *g, uint32_t n);
