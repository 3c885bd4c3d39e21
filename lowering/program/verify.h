// TC_VERIFY=1: before a plan runs, its records are run one by one, each by a kernel of its own from
// the values before it (as TC_EAGER=1 would). What is checked:
//
//   every record against its reference kernel, which is given the same operands. No error is carried from one record to the next, so results that jump
//   (a mask, an argmax, a rounding) are the same on both sides, and what is left is the rounding of one operation, which is bounded (verify.c, bound).
//   what the plan stores against what its records gave one by one: the same bits, NaN for NaN.
//   leaves that others hold, or that recipes and history will read, are not written over.
//
// So nothing is reported that rounding alone could do, and a report names the record that is wrong,
// or else blames fusion, views or memory planning.
// Threads: thread-safe. What begin returns belongs to its caller until end.
#ifndef TC_LOWERING_PROGRAM_VERIFY_H
#define TC_LOWERING_PROGRAM_VERIFY_H

#include "device/gpu.h"
#include "lazy/lowering.h"

typedef struct tc_verified tc_verified;

// What a plan of fused kernels should store; NULL where there is nothing to compare, or a record
// could not be run (which the log says; the thread's error stays as it was). Writes a line for each
// record that differs from its reference.
tc_verified *tc_verify_begin(const tc_plan *plan, void *const *leaf, const uint64_t *arg, FILE *to);
// Writes a line for each stored result that is not what its record gave, and for each leaf that was
// written over. How many lines were written, by begin too; 0 if the plan did not run. Frees v.
uint32_t tc_verify_end(const tc_plan *plan, void *const *leaf, void *const *out, tc_verified *v, bool ran, FILE *to);

// What lies at `at` for the host to read: there, or in a copy, *out, which is the caller's. NULL:
// no room, or the device is lost. gpu NULL: the host's memory.
const void *tc_verify_look(tc_gpu *gpu, const void *at, size_t bytes, tc_buffer **out);
// The value of a record on a device, from operands by position; *out is the caller's.
bool tc_verify_run_record(const tc_plan *p, uint32_t node, tc_device device, void *const *operand, const uint64_t *arg,
                          tc_buffer **out);

#endif
