// Runs programs: binds the storages of a run, finds or computes its cached constants, and runs the
// steps.
// Always: a run that fails leaves old values, and names the step that failed.
// Threads: thread-safe; several threads may run one program.
#pragma once

#include "lazy/lowering.h"

// See tc_lowering_ops.
tc_status tc_program_launch(const tc_plan *plan, void *const *leaf, void *const *out, const uint64_t *arg,
                            const tc_call *call, const tc_leaf *held, tc_work_done *prepared);
