// The launch of a plan on a closed trace, with what TC_VERIFY and TC_ANOMALY look at around it.
//
// In: the trace, whose outputs have memory. Out: the results in it.
// Invariants: what fails here has assigned nothing.
// Threads: under the trace's lock. Owner: nobody.
#pragma once

#include "lazy/trace/trace.h"
#include "lazy/lowering.h"
#include "runtime/profile.h"

// Writable memory of the caller that a GPU's plan reads goes there for this run.
tc_status tc_leaves_stage(tc_trace *t, const tc_plan *p);
tc_status tc_plan_launch(tc_trace *t, const tc_plan *p, tc_work_done *prepared, tc_sync_point *rec);
// For TC_LOG=trace.
void tc_trace_log(const tc_trace *t, const tc_sync_point *rec);
