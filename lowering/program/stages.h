// Waves and tasks: steps sorted by stage, and each stage divided for the team. Inside programs; not
// for others.
#ifndef TC_LOWERING_PROGRAM_STAGES_H
#define TC_LOWERING_PROGRAM_STAGES_H

#include "lowering/kir/index_expr.h"
#include "lowering/program/program_types.h"

static inline int64_t tc_step_tasks(const tc_step *s) {
  return TC_MAX_OF(tc_ceil_div(s->extent, s->grain), 1);
}

// The unit at which a task of the step begins, and that before it ends.
static inline int64_t tc_step_task_begin(const tc_step *s, int64_t index) {
  return TC_MIN(index * s->grain, s->extent);
}

// Steps in an order that respects stages; tasks per stage. False out of memory.
bool tc_stages_schedule(tc_program *p);
// Steps of one stage with the same code are one kernel over several sets of tensors: the updates of
// a network's parameters. skip: not those, or NULL.
uint32_t tc_stages_count_kernels(const tc_program *p, const uint64_t *skip);

#endif
