// TC_VERIFY=1: before a plan runs, its records run one by one, each as a kernel of its own, as
// under TC_EAGER=1. It checks:
//
//   - every record against its reference kernel on the same operands. Errors do not carry over
//     between records, so results that jump (a mask, an argmax, a rounding) agree on both sides.
//     What is left is the rounding of one operation, which is bounded (verify.c, bound).
//   - what the plan stores against the records' values: the same bits, NaN for NaN.
//   - leaves that others hold, or that recipes and history will read, are not written over.
//
// So rounding alone is never reported. A report names the wrong record, or else blames fusion,
// views or memory planning.
// Threads: thread-safe. Owner: the result of begin belongs to its caller until end.
#pragma once

#include "lazy/lowering.h"

typedef struct tc_verified tc_verified;

// The values that a plan of fused kernels should store. Writes a line for each record that differs
// from its reference. NULL: nothing to compare, or a record could not run; the log says so, and the
// thread's error is unchanged.
tc_verified *tc_verify_begin(const tc_plan *plan, void *const *leaf, const uint64_t *arg, FILE *to);
// Writes a line for each stored result that differs from its record's value, and for each leaf that
// was written over. Returns the number of lines, those of begin included; 0 if the plan did not
// run. Frees v.
uint32_t tc_verify_end(const tc_plan *plan, void *const *leaf, void *const *out, tc_verified *v, bool ran, FILE *to);

// ---- TC_ANOMALY=1 (anomaly.c) ----

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
//
// pre: the leaves are as before the run. True if *out was filled. False, too, if a record could not
// be run alone: the log says so, and the thread's error is unchanged.
bool tc_anomaly_find(const tc_plan *plan, void *const *leaf, const uint64_t *arg, tc_anomaly *out);
