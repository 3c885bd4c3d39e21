// Stored values of slots and handles: what is pending runs if need be.
//
// In: a handle or slot of any thread. Out: its buffer, retained.
// Invariants: memory that the caller may assign to is given out as a copy, or with its trace
// locked.
// Threads: as each function says. Owner: the caller releases what it is given.
#pragma once

#include "lazy/sync/sync.h"

// pre: locked. The stored value of a slot, running what is pending if need be; retained.
tc_status tc_trace_store(tc_trace *t, tc_slot *s, tc_tensor handle, tc_cause cause, tc_site site, tc_buffer **out);
// The value of any handle, of any thread. pre: inside the library, no trace locked. buf is NULL on
// failure. Of the caller's memory it is a copy, unless it is for TC_CAUSE_ITEM or TC_CAUSE_TO_HOST,
// which call tc_value_end once they have read it.
tc_status tc_value(tc_tensor h, tc_cause cause, tc_site site, tc_stored *out);
void tc_value_end(const tc_stored *v);
// Runs what is pending in the trace of any handle, of any thread, and lands its assigns. pre:
// inside the library, no trace locked. *out_device: where the handle's value is.
tc_status tc_value_sync(tc_tensor h, tc_site site, tc_device *out_device);
// A copy in the host's memory takes the place of its buffer, which is released; NULL on failure.
tc_status tc_value_copy(tc_stored *v);
