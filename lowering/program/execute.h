// One run of a program's steps: stage by stage on the team, or as one sequence on a GPU. Internal
// to program/.
// In: a program, the addresses of its storages in this run, and its scalars. Out: values in those
// storages, or the step that failed.
// Threads: a run belongs to the launching thread; workers read it, and write only the fault.
#pragma once

#include "lowering/program/program_types.h"

// The step that stopped a run. The launching thread reports it, since errors on workers are
// dropped. No worker begins a task afterwards; a stage's barrier orders it before the next stage.
typedef struct tc_execution_fault {
  _Atomic bool taken;
  const tc_step *step;
  tc_status status;
  int64_t position;  // position of a bad index that a GPU found, else -1
} tc_execution_fault;

// Runs another program, as tc_lowering_ops has it.
typedef tc_status tc_launch_fn(const tc_plan *plan, void *const *leaf, void *const *out, const uint64_t *arg,
                               const tc_call *call, const tc_leaf *held, tc_work_done *prepared);

typedef struct tc_execution {
  _Alignas(128) const tc_program *p;
  tc_storages at;
  const uint64_t *num;  // scalars of all steps
  const uint64_t *skip;  // per step: nonzero if it need not run; NULL: all run
  tc_execution_fault *fault;
  uint64_t *words;  // scratch for the words of GPU launches
  tc_launch_fn *launch;  // for the bodies of control flow
  uint32_t first_stage;  // of the job that runs now
  tc_step_time *times;  // per step, with TC_PROFILE_KERNELS=1: filled in. NULL: steps are not timed
} tc_execution;

// Fills in the steps' scalars from a run's arguments.
void tc_execution_fill_nums(const tc_program *p, const uint64_t *arg, uint64_t *num);
// Runs the steps. On failure the fault names the step.
tc_status tc_execution_run(tc_execution *r);
// Runs one step, whatever its stage. pre: the program is not a GPU's.
tc_status tc_execution_run_step(tc_execution *r, const tc_step *s);
// Reports the error of the failed step. Of several bad indices it names the first, whichever thread
// met it. It names the user's call if known, else the op.
void tc_execution_report(const tc_plan *plan, const tc_execution *r, const tc_call *call);
