// A program: the steps a plan runs, where their values live, and which scalars they read. Holds sizes and offsets, never addresses.
//
// A place says where a value is: a leaf, an output, a prepared value (lowering/program/constant_cache.h), or an offset in the run's arena. Steps of a wave are independent; between waves the team has a
// barrier. Threads: immutable once made; many threads may run one program, each with an arena of its own.
#ifndef TC_LOWERING_PIPELINE_H
#define TC_LOWERING_PIPELINE_H

#include "lazy/lowering.h"
#include "lowering/tiling/gemm.h"
#include "lowering/jit/shape_generic.h"
#include "lowering/graph/graph.h"
#include "lowering/kir/index_expr.h"
#include "lowering/jit/kernel_cache.h"
#include "runtime/team.h"

#define TC_PLACE_NONE UINT32_MAX

typedef enum tc_step_kind {
  TC_STEP_KERNEL,  // generated code
  TC_STEP_CALL,  // a GPU vendor's library makes something
  TC_STEP_ROW,  // a reference kernel, in shares where it can be split
  TC_STEP_ZERO,  // zeros over a whole tensor
  TC_STEP_CHECK,  // indices of operand 0 lie within the extent in arg
} tc_step_kind;

// A kernel to be compiled.
typedef struct tc_draft {
  tc_nest nest;
  char stem[40];
  const struct tc_group *group;  // of the grouping that it was made in
  bool is_product;
  tc_product_facts product;
  uint32_t product_node;
  tc_units units;
  tc_general general;  // of a product whose number of rows was seen to vary: the nest that does for any; without instructions where there is none
} tc_draft;

typedef struct tc_step {
  uint8_t kind;
  tc_kernel *kernel;  // KERNEL: retained
  tc_draft *draft;  // KERNEL: owned, until it is compiled
  bool shares_draft;  // it is that of an earlier run of the step (rematerialize.h)
  tc_op op;  // ROW
  tc_gpu_call *call;  // CALL: retained
  union {
    uint64_t offset[3];  // CALL: where in their places its operands begin, in bytes
    struct {
      uint32_t value, attr;  // ROW, ZERO of a program that is whole: first of the program's lists of these
    } row;
  };
  uint32_t first_bind, n_bind;  // places; ROW, CALL: operands, then the result; ZERO: the result
  uint32_t first_num, n_num;
  int64_t extent;  // units of the outermost range
  int64_t grain;  // units of one task
  int64_t first_task;  // among those of its wave
  uint32_t wave;
  uint32_t node;  // the node a ROW, CALL or ZERO gives, the first that a KERNEL stores, and what a CHECK is for
  double work;  // estimated nanoseconds on one thread
  bool is_product;
  uint64_t writes;  // KERNEL: binds it writes; see tc_step_writes
  uint64_t bytes;  // KERNEL: read and written
  uint64_t same;  // binds it reads only at the element it writes, before it writes it
} tc_step;

// Whether it writes what its bind j names.
static inline bool tc_step_writes(const tc_step *s, uint32_t j) {
  return s->kind == TC_STEP_KERNEL ? s->writes >> j & 1 : s->kind != TC_STEP_CHECK && j + 1 == s->n_bind;
}

#define TC_TASK_NS 8000.0  // work one task should have
// Of a thread, of all steps of a wave. A kernel that streams begins each task without having asked for what it reads, in the middle of other pages:
// relu(a * b + c) of 16 M elements in thousands of tasks was 3 % slower, gelu 3 to 5 %; Adam of 100 tensors of 512 KiB in 16 tasks each, not one, 1.05 times
// as slow on a Zen 4, AdamW 1.5 times where memory is fast; softmax of 4096x1024 in 64 tasks, not 24, 2 %.
#define TC_MOST_TASKS 32

// Units of one task of a step that has `work` of a wave's `all`, in ns. Few tasks are as many for each thread: three on two threads take as long as four.
static inline int64_t tc_step_grain(double work, double all, int64_t extent) {
  int64_t tasks = (int64_t)(work / TC_TASK_NS) + 1, threads = tc_team_threads();
  if (tasks > 1 && tasks < 4 * threads) tasks = tc_ceil_div(tasks, threads) * threads;
  if (tasks > 1) tasks = TC_MIN(tasks, TC_MAX_OF((int64_t)(work / all * (double)(TC_MOST_TASKS * threads)), 1));
  tasks = TC_MIN(tasks, TC_MAX_OF(extent, 1));
  return TC_MAX_OF((extent + tasks - 1) / tasks, 1);
}

typedef struct tc_num_source {
  bool is_arg;
  uint64_t value;  // number of the run's argument, or the value itself
} tc_num_source;

// What a run knows of a value that a ROW makes or reads.
typedef struct tc_row_value {
  const tc_shape_info *shape;
  tc_type type;
} tc_row_value;

typedef struct tc_program tc_program;
tc_status tc_program_create(tc_plan *plan, tc_program **out);
void tc_program_destroy(void *program);
// Bytes of the host's memory that it holds, without kernels, which programs share.
size_t tc_program_bytes(const void *program);
// TC_LOG=plan: its steps, and where their values lie.
void tc_program_log(const tc_program *p, const tc_plan *plan);
// See tc_lowering_ops.
tc_status tc_program_launch(const tc_plan *plan, void *const *leaf, void *const *out, const uint64_t *arg, const tc_call *call, const tc_leaf *held,
                            tc_work_done *prepared);

#endif
