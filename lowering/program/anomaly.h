// TC_ANOMALY=1: before a plan runs, its records are run one by one, as TC_VERIFY=1 does, and their
// values are inspected.
//
//   x = [0, 1]   log(x) = [-inf, 0]   sum = -inf, stored
//   ->  "log f32[2] made -inf at element 0, of f32[2] 0"
//
// A record creates a NaN if no operand is NaN, and an infinity if its operands are finite.
// Elementwise ops are judged by element, others by whole tensors. The report names the first record
// that created a value from which non-finite values lead to a stored result. So constants and data
// may hold infinities, and what `where` masks out is no anomaly.
// Threads: thread-safe. Owner: owns nothing beyond the call.
#pragma once

#include "lazy/lowering.h"

// pre: the leaves are as before the run. True if *out was filled. False, too, if a record could not
// be run alone: the log says so, and the thread's error is unchanged.
bool tc_anomaly_find(const tc_plan *plan, void *const *leaf, const uint64_t *arg, tc_anomaly *out);
