// Operations on a whole program: destroy, size, print.
// Threads: thread-compatible; the size and the log only read.
#pragma once

#include "lowering/program/program_types.h"

void tc_program_destroy(void *program);
// Host memory that it holds, without kernels, which programs share.
size_t tc_program_bytes(const void *program);
// TC_LOG=plan: logs its steps, and the storage of their values (print.c).
void tc_program_log(const tc_program *p, const tc_plan *plan);
// Frees the step's pending kernel, if it owns one.
void tc_steps_drop_pending(tc_step *s);
// Removes all steps, and those of p->prepare, before they are built again.
void tc_steps_clear(tc_program *p);
