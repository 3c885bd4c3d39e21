// TC_LOG=sync: why a place of the program that has warmed up needs a new plan, once for each place.
//
// In: a closed trace whose plan was made anew. Out: a line in the log.
// Threads: under the trace's lock. Owner: nobody.
#pragma once

#include "lazy/trace/plan.h"
#include "lazy/trace/trace.h"
#include "runtime/profile.h"
#include "runtime/profile_format.h"

// Counts a sync of the place. made: its plan, if it was made anew; NULL: it was found.
void tc_plan_miss_note(const tc_trace *t, const tc_plan *made, const tc_sync_point *rec);
