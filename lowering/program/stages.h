// Stages and tasks: sorts steps by stage, and divides each stage for the team. Internal to
// program/.
// In: steps with stages. Out: sorted steps, tasks per stage.
//
//   step 0 stage 1, step 1 stage 0, step 2 stage 1  ->  stage 0: step 1; stage 1: steps 0 and 2
//
// Threads: one thread builds a program.
#pragma once

#include "lowering/kir/index_expr.h"
#include "lowering/program/program_types.h"

static inline int64_t tc_step_tasks(const tc_step *s) {
  return TC_MAX_OF(tc_ceil_div(s->extent, s->grain), 1);
}

// The first unit of task `index`; that of the next task is the end of this one.
static inline int64_t tc_step_task_begin(const tc_step *s, int64_t index) {
  return TC_MIN(index * s->grain, s->extent);
}

// Sorts the steps by stage and sets the tasks of each stage. False out of memory.
bool tc_stages_schedule(tc_program *p);
// Sets the tasks of each stage anew, where the steps' extents or work changed.
void tc_stages_divide(tc_program *p);
// Counts the kernels of a run. Steps of one stage with the same code count as one kernel over
// several sets of tensors, such as the updates of a network's parameters. skip: per step, nonzero
// if it does not count; NULL: all count.
uint32_t tc_stages_count_kernels(const tc_program *p, const uint64_t *skip);
