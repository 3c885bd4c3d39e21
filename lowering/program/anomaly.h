// TC_ANOMALY=1: before a plan runs, its records are run one by one, as TC_VERIFY=1 does, and their
// values looked at.
//
//   x = [0, 1]   log(x) = [-inf, 0]   sum = -inf, stored     ->  "log f32[2] made -inf at element 0, of f32[2] 0"
//
// Made: a NaN no operand of which is NaN, or an infinity of finite operands; element by element
// where the op is elementwise, else of whole tensors. What is told is the first record that made
// one from which, through values that are not finite, something comes that the plan stores. So
// constants and data may hold infinities, and what `where` masks out is no anomaly.
// Threads: thread-safe. Owns nothing beyond the call.
#ifndef TC_LOWERING_PROGRAM_ANOMALY_H
#define TC_LOWERING_PROGRAM_ANOMALY_H

#include "lazy/lowering.h"

// pre: the leaves are as they were before the run. False, too, where a record could not be run
// alone, which the log says; the thread's error stays as it was.
bool tc_anomaly_find(const tc_plan *plan, void *const *leaf, const uint64_t *arg, tc_anomaly *out);

#endif
