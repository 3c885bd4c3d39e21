// TC_VERIFY=1: every plan's records are evaluated by the reference kernels too, before the run that may write over its operands, and the stored
// results are compared after it. Threads: thread-safe. What begin returns belongs to its caller until end.
//
// A float may differ by a tolerance of its type times the size of the largest expected element (at least 1e-4), since the reference rounds less often.
// Whole numbers must be equal, unless they were computed from floats that were themselves computed: those may fall on either side of a rounding and
// are left out.
#ifndef TC_LOWERING_VERIFY_H
#define TC_LOWERING_VERIFY_H

#include "lazy/plan.h"

typedef struct tc_verified tc_verified;

// The expected results of a plan of fused kernels; NULL where there is nothing to compare, or the reference failed
// (which it says in the log; the thread's error stays as it was).
tc_verified *tc_verify_begin(const tc_plan *plan, void *const *leaf, const uint64_t *arg);
// Writes a line for each stored result that is wrong: its record, where, and both values. How many are; 0 if the plan did not run.
// Frees v.
uint32_t tc_verify_end(const tc_plan *plan, void *const *out, tc_verified *v, bool ran, FILE *to);

#endif
