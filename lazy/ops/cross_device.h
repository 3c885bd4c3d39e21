// Values that go from one device to another.
//
// In: a node, or a slot with a stored value. Out: its value on another device.
// Invariants: a value in another memory has the history of what was carried, if the tape is on.
// Threads: under the trace's lock. Owner: the caller has the new handle, or its scope.
#pragma once

#include "lazy/trace/trace.h"

// The same value on another device of the same memory.
tc_node tc_trace_to(tc_trace *t, tc_node a, tc_device to);
// A new handle of a slot's stored value in another memory, with its history if the tape is on.
// param: whose value it is; {0, 0}: no parameter's. Poison after reporting.
tc_tensor tc_trace_cross_device(tc_trace *t, const tc_slot *s, tc_tensor param, tc_device to, bool pooled);
