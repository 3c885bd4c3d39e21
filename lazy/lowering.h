// What lazy/ needs of an evaluator. lowering/ defines it; tests of lazy/ alone link a fake one.
//
// In: plans, and memory for their leaves and outputs. Out: the outputs' values.
// Invariants: a plan is lowered once, before its first launch, and destroyed once.
// Threads: thread-safe. Owner: a plan owns its program.
#ifndef TC_LAZY_LOWERING_H
#define TC_LAZY_LOWERING_H

#include <stdio.h>

#include "lazy/trace/run.h"

typedef struct tc_work_done {
  uint32_t n_kernels;
  uint64_t bytes;
  size_t taken_bytes;  // for what it prepared
  bool replayed;  // as in tc_sync_point
  const char *gpu_note;
  uint64_t copied_bytes;
  bool interpreted;  // some of its kernels, which are compiled later
  // it failed with nothing done: there is no memory for what it would prepare, or that would not be
  // used for long
  bool lacks_forms;
} tc_work_done;

typedef struct tc_anomaly {
  uint32_t node;
  char text[320];  // what it makes, and of what
} tc_anomaly;

typedef struct tc_lowering_ops {
  // Fills plan->program and the homes of plan->out. On failure the plan is destroyed with program
  // NULL.
  tc_status (*lower)(tc_plan *plan);
  // Runs the plan to its end. leaf and out are memory in the plan's order. call: per node the
  // user's call, for errors; NULL: not known. held: the leaves' buffers; what is prepared from
  // parameters is kept for later runs. NULL: it is not. prepared: added to by what that took in
  // this run, if not NULL.
  tc_status (*launch)(const tc_plan *plan, void *const *leaf, void *const *out, const uint64_t *arg, const tc_call *call, const tc_leaf *held,
                      tc_work_done *prepared);
  void (*destroy)(void *program);
  // of the host's memory that it holds; kernels, which programs share, are not among it
  size_t (*bytes)(const void *program);
  // TC_VERIFY=1 (lowering/program/verify.h): what the plan should store, to be had before the run,
  // which may write over its operands; NULL where nothing is to be compared. After the run, how
  // many results are wrong. A line for each goes to the file.
  struct tc_verified *(*verify_begin)(const tc_plan *plan, void *const *leaf, const uint64_t *arg, FILE *to);
  // ran: whether there is anything to compare.
  uint32_t (*verify_end)(const tc_plan *plan, void *const *leaf, void *const *out, struct tc_verified *expected, bool ran, FILE *to);
  // TC_ANOMALY=1 (lowering/program/anomaly.h), before a run: whether it would store a NaN or
  // infinity that its leaves do not have, and what makes the first one.
  bool (*find_anomaly)(const tc_plan *plan, void *const *leaf, const uint64_t *arg, tc_anomaly *out);
  // Drops cached kernels and waits for compilers; adds its counters.
  void (*clear)(void);
  void (*stats)(tc_cache_info *info);
} tc_lowering_ops;
extern const tc_lowering_ops tc_lowering;

#endif
