// What lazy/ needs of an evaluator. lowering/ defines it; tests of lazy/ alone link a fake one.
//
// In: plans, and memory for their leaves and outputs. Out: the outputs' values.
// Invariants: a plan is lowered once, before its first launch, and destroyed once.
// Threads: thread-safe. Owner: a plan owns its program.
#pragma once

#include <stdio.h>

#include "lazy/sync/size_expr.h"
#include "lazy/trace/run.h"

typedef struct tc_work_done {
  uint32_t n_kernels;
  uint64_t bytes;
  size_t taken_bytes;  // memory taken for the constant cache
  bool replayed;  // as in tc_sync_point
  const char *gpu_note;
  uint64_t copied_bytes;
  // of a loaded back end's plan: kernels that the CPU ran, and bytes copied for them
  uint32_t n_fallbacks;
  uint64_t fallback_bytes;
  bool interpreted;  // true: some kernels were interpreted, and are compiled later
  // true: it failed before it did anything, since memory for the constant cache was missing
  bool lacks_constants;
  // with a profile: when steps began to run, what getting new memory had taken by then, and what
  // this thread had waited, in ticks. started 0: not known
  uint64_t started, allocated, waited;
  struct tc_step_time *times;  // per kernel of the plan, if TC_PROFILE_KERNELS=1; to be freed. NULL: not measured
  uint32_t n_times;
} tc_work_done;

typedef struct tc_anomaly {
  uint32_t node;
  char text[320];  // what it makes, and of what
} tc_anomaly;

// ---- facts of a plan, for a profile ----

typedef struct tc_kernel_facts {
  char name[64];
  const char *kind;  // static: "generated", "library", "reference", "zero", "control" or "check"
  uint32_t stage, n_nodes;
  uint32_t node;  // the plan's, that the first one it stores is or is read by. TC_LEAF_NONE: not known
  const char *op;  // of the first node that it stores
  uint64_t bytes;
  double flops;
} tc_kernel_facts;

typedef struct tc_boundary_facts {
  uint32_t from, to, node;  // kernels; node of the simplified graph
  const char *reason;  // static
  uint64_t bytes;
} tc_boundary_facts;

typedef struct tc_block_facts {
  uint32_t node;  // as a kernel's
  const char *op;
  uint64_t bytes;
  uint32_t first_stage, last_stage, is;  // is: as in tc_prof_block
} tc_block_facts;

typedef struct tc_plan_facts {
  tc_kernel_facts *kernel;
  tc_boundary_facts *boundary;
  tc_block_facts *block;
  uint32_t n_kernel, n_boundary, n_block, n_inputs;
  uint64_t bytes, least_bytes, arena_bytes, input_bytes, output_bytes;
  double flops;
  char *simplified, *fusion, *program;  // texts. NULL: no memory
} tc_plan_facts;

// A step's run, for a profile with kernels' times.
typedef struct tc_step_time {
  _Atomic uint64_t begin, end;  // of all threads, in ticks. 0: it did not run
  _Atomic uint64_t workers;  // bit mask of the threads that ran it, the 65th as the first
} tc_step_time;

// ---- one lowering for many sizes ----

// A graph at sizes of the lowering's choice.
typedef struct tc_size_source {
  uint32_t n_size;
  int64_t at[TC_MAX_SIZES];  // the sizes that are wanted now
  // The plan at other sizes, not lowered; the lowering owns its word and out, and nothing else of
  // it. False: the records have no such sizes, or there is no memory.
  bool (*plan_at)(const struct tc_size_source *from, const int64_t *size, tc_plan *out);
} tc_size_source;

// From low to high, both included, for each size.
typedef struct tc_size_box {
  int64_t low[TC_MAX_SIZES], high[TC_MAX_SIZES];
} tc_size_box;

typedef struct tc_lowering_ops {
  // Fills plan->program and the donor of each plan->out. On failure the plan is destroyed with
  // program NULL.
  tc_status (*lower)(tc_plan *plan);
  // Lowers the graph once for all sizes of a box around those that are wanted
  // (lowering/program/size_piece.h). NULL: that is not possible for the box, whose sizes are to be
  // lowered one by one. why: the reason, static.
  void *(*lower_any_size)(const tc_size_source *from, tc_size_box *box, const char **why);
  // Fills what lower fills, at sizes of the box. TC_ERR_STATE, which is not reported: these sizes
  // are to be lowered by themselves.
  tc_status (*bind)(const void *general, const int64_t *size, tc_plan *plan);
  void (*drop_any_size)(void *general);
  size_t (*any_size_bytes)(const void *general);
  // Runs the plan to its end. leaf and out are memory in the plan's order.
  // call: per node the user's call, for errors. NULL: not known.
  // held: the leaves' buffers. NULL: no result computed from parameters alone is cached.
  // prepared: adds what this run spent on the constant cache. NULL: not wanted.
  tc_status (*launch)(const tc_plan *plan, void *const *leaf, void *const *out, const uint64_t *arg,
                      const tc_call *call, const tc_leaf *held, tc_work_done *prepared);
  void (*destroy)(void *program);
  // Bytes of host memory that the program holds, without kernels, which programs share.
  size_t (*bytes)(const void *program);
  // TC_VERIFY=1 (lowering/program/verify.h), before the run, which may write over its operands:
  // what the plan should store. NULL: there is nothing to compare.
  struct tc_verified *(*verify_begin)(const tc_plan *plan, void *const *leaf, const uint64_t *arg, FILE *to);
  // After the run: how many results are wrong; a line for each goes to the file.
  // ran: false: the run failed, so there is nothing to compare.
  uint32_t (*verify_end)(const tc_plan *plan, void *const *leaf, void *const *out, struct tc_verified *expected,
                         bool ran, FILE *to);
  // TC_ANOMALY=1 (lowering/program/anomaly.c), before a run: whether it would store a NaN or
  // infinity that its leaves do not have, and what makes the first one.
  bool (*find_anomaly)(const tc_plan *plan, void *const *leaf, const uint64_t *arg, tc_anomaly *out);
  // Facts for a profile, made with the plan while there is a profile, else now by lowering it once
  // more; the plan's. NULL: no memory.
  const tc_plan_facts *(*describe)(const tc_plan *plan);
  // The instruction set that code is made for. Static.
  const char *(*isa)(void);
  // f32 operations and bytes of memory that the host does at most, a second, as tc_host_peak_rates.
  void (*host_peak_rates)(double *flops, double *bytes);
  // Drops cached kernels, and waits for compilers.
  void (*clear)(void);
  // Adds its counters.
  void (*stats)(tc_cache_info *info);
} tc_lowering_ops;
extern const tc_lowering_ops tc_lowering;
