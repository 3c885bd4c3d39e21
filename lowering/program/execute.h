// One run of a program's steps: stage by stage on the team, or as one sequence on a GPU. Inside
// programs; not for others.
//
// In: a program, where its places are in this run, and its scalars. Out: values at those places, or
// which step failed.
// Threads: a run is the launching thread's; the team's threads read it, and write the fault alone.
#ifndef TC_LOWERING_PROGRAM_EXECUTE_H
#define TC_LOWERING_PROGRAM_EXECUTE_H

#include "lowering/program/program_types.h"

// What stopped a run: a step that failed. Told by the thread that launched, since a worker's errors
// are nobody's. No worker begins a task after it; a stage's barrier orders it before the next
// stage.
typedef struct tc_execution_fault {
  _Atomic bool taken;
  const tc_step *step;
  tc_status status;
  int64_t position;  // of a bad index that a GPU found, else -1
} tc_execution_fault;

typedef struct tc_execution {
  _Alignas(128) const tc_program *p;
  tc_storages at;
  const uint64_t *num;  // all steps' scalars
  const uint64_t *skip;  // steps that need not run; NULL: none
  tc_execution_fault *fault;
  uint64_t *words;  // of a GPU's launches
  bool timed;  // TC_PROFILE=2
} tc_execution;

// The scalars of the steps from a run's arguments.
void tc_execution_fill_nums(const tc_program *p, const uint64_t *arg, uint64_t *num);
// Does the steps. On failure the fault says which step failed.
tc_status tc_execution_run(tc_execution *r);
// The error of the step that failed: of several bad indices the first, whichever thread met it.
// Names the user's call where it is known, not the row.
void tc_execution_report(const tc_plan *plan, const tc_execution *r, const tc_call *call);

#endif
