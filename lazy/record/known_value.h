// Values that are known while the program records, so that a wrong one is told at the call.
//
// In: a handle of integers. Out: the first that is out of bounds.
// Invariants: nothing runs. What is pending or on a device counts as right, except for tc_full.
// Threads: thread-safe. Owner: nobody.
#pragma once

#include <tc/tc.h>

// Element i of dense data of an integer type or of bools.
int64_t tc_integer_at(tc_type type, const void *data, int64_t i);
// The number of the first element outside of [least, most], and its value. -1: there is none, or
// the values are not known yet.
int64_t tc_find_outside(tc_tensor h, int64_t least, int64_t most, int64_t *out_value);
