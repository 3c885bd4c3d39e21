// What is done with a program as a whole: its end, its size, and its text. Threads:
// thread-compatible; pure but for the ends.
#ifndef TC_LOWERING_PROGRAM_PROGRAM_H
#define TC_LOWERING_PROGRAM_PROGRAM_H

#include "lowering/program/program_types.h"

void tc_program_destroy(void *program);
// Bytes of the host's memory that it holds, without kernels, which programs share.
size_t tc_program_bytes(const void *program);
// TC_LOG=plan: its steps, and where their values lie (print.c).
void tc_program_log(const tc_program *p, const tc_plan *plan);
// Releases what has not become the step's kernel.
void tc_steps_drop_pending(tc_step *s);
// Forgets the steps, and those of preparing, to build them again.
void tc_steps_clear(tc_program *p);

#endif
