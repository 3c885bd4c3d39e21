// Operations on a whole program: launch, destroy, size, print.
// Threads: thread-compatible; the size and the log only read; several threads may launch one.
#pragma once

#include "lowering/program/program_types.h"

// Binds the storages of a run, finds or computes its cached constants, and runs the steps (run.c).
// A run that fails leaves old values, and names the step that failed. See tc_lowering_ops.
tc_status tc_program_launch(const tc_plan *plan, void *const *leaf, void *const *out, const uint64_t *arg,
                            const tc_call *call, const tc_leaf *held, tc_work_done *prepared);
void tc_program_destroy(void *program);
// Host memory that it holds, without kernels, which programs share.
size_t tc_program_bytes(const void *program);
// TC_LOG=plan: logs its steps, and the storage of their values (print.c).
void tc_program_log(const tc_program *p, const tc_plan *plan);
void tc_program_print(const tc_program *p, const tc_plan *plan, FILE *out);
// Frees the step's pending kernel, if it owns one.
void tc_steps_drop_pending(tc_step *s);
// Removes all steps, and those of p->prepare, before they are built again.
void tc_steps_clear(tc_program *p);
