// Builds a program's steps: fusions become steps, each after those it reads. Internal to program/.
// In: a fusion plan. Out: steps with stages, bindings and pending kernels.
// A builder is the state of one program's construction. Fusion may run several times (pipeline.c);
// `must_materialize`, `alone` and `prepare` outlast that.
// Threads: a builder belongs to one thread.
#pragma once

#include "lowering/emit/emitter.h"
#include "lowering/fusion/build.h"
#include "lowering/program/program_types.h"

// Whether a value is constant between runs until a parameter is written. PARAM: it is a parameter
// that the plan does not assign. DERIVED: it is computed from constants alone.
enum { TC_CONST_NO, TC_CONST_PARAM, TC_CONST_DERIVED };

typedef struct tc_builder {
  tc_program *p;
  tc_plan *plan;
  tc_fusion_plan gr;
  tc_fusion_mode mode;
  size_t op_by_op, least;  // bytes of op-by-op execution; of the last fusion plan, SIZE_MAX: there was none
  tc_arena fusion_plan, expansion;  // scratch of one fusion plan; scratch of one kernel's emission
  uint32_t *storage;  // per node: its storage; TC_STORAGE_NONE: none yet
  uint32_t *made_in;  // per node: the first stage that may read it
  uint32_t stage;  // stage of the step being added
  bool preparing;  // true: that step computes cached constants
  bool prepare;  // true: steps may compute cached constants
  const tc_program *like;  // with any_size: the graph's program at other sizes, with pending kernels. NULL: none yet
  bool any_size;  // true: matmuls get a kernel for any number of rows, whose units follow from that number alone
  uint8_t *emitted;  // per fusion: NOT_MET, ON_THE_WAY or EMITTED (steps.c)
  const struct tc_fusion_link **way;  // per fusion on the way: the link to follow next; NULL: none is left
  // per index node: one more than the latest node it is checked for, 0: none; per such node: the
  // one before it, likewise
  uint32_t *checks, *next_check;
  uint8_t *is_constant;  // per node with memory: TC_CONST_*
  // per node: TC_MUST_MATERIALIZE or TC_NO_FUSION, since a view of it is not affine; 0: neither
  uint8_t *must_materialize;
  uint32_t not_affine;  // the node whose view is not affine, or TC_NONE
  bool full;  // true: a fusion exceeds what one kernel can name
  // per node: a library's matmul, owned, for which it is kept apart from its epilogue; NULL: none
  tc_gpu_call **alone;
  bool apart;  // true: another library matmul was found, so fusion runs again
} tc_builder;

// Builds steps for all fusions of b->gr. False if fusion must run again (not_affine, full, apart),
// or after a failure in *st. TC_OK in *st without `apart` means out of memory.
bool tc_steps_build(tc_builder *b, tc_status *st);
// Fills in a step, whose bindings and scalars are allocated, from an emit result. Takes the kernel
// IR.
bool tc_steps_fill(tc_builder *b, tc_program *p, tc_step *s, const tc_emit_result *e);

// Whether the op's reference kernel can split a result of so many elements into shares
// (kernels/ref/share.h).
bool tc_step_splits(tc_op op, int64_t count);

// ---- kernels of steps: their IR is chosen, then all are compiled in parallel (compile.c) ----

// A hash of a graph's ops, types, ranks and edges, without sizes; 0 without memory.
uint64_t tc_graph_hash(const tc_graph *g, tc_arena *arena);
// Retunes the pending matmuls of p: autotuned tiling, and a kernel for any number of rows beside
// it. graph: tc_graph_hash of the program's graph; 0: no kernel for any number of rows.
void tc_program_choose_kernels(tc_builder *b, tc_program *p, uint64_t graph);
// Compiles all kernels of b->p: those of its steps, of its GPU rows, and of its cached constants.
tc_status tc_program_compile(tc_builder *b, uint64_t graph);
