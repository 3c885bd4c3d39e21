// Cached constants of a program: values derived from parameters alone. The first run computes them,
// and later runs reuse them (constant_cache.h). Internal to program/.
//
//   a weight packed for a matmul: a step of p->prepare; its result is a storage behind the
//   outputs, and is found again while the weight's stamp is unchanged
//
// Threads: thread-safe.
#pragma once

#include "lowering/program/execute.h"

// Finds cached constants, or computes and caches them. list: scratch for the steps' flags and
// scalars. cached: their buffers; those not NULL on return are retained, whatever the status. done:
// if not NULL, counts are added to it, and the run may be refused constants (lacks_constants).
tc_status tc_execution_prepare(const tc_execution *whole, const tc_plan *plan, const uint64_t *arg, const tc_leaf *held,
                               uint64_t *list, tc_buffer **cached, tc_work_done *done);
