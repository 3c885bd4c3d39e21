// What a sync does with results: memory for them before the run, and slots and a run after it.
//
// In: the closed trace, its plan, and how the run went. Out: values in slots; what a run leaves
// behind.
// Invariants: publishing fails for no want of memory: all that it needs is taken before the run.
// Threads: under the trace's lock. Owner: the trace holds outputs and spares until tc_taken_drop.
#pragma once

#include "lazy/trace/trace.h"
#include "lazy/trace/run.h"

// Memory for every output: a leaf's own where the plan writes in place, else fresh. Behind the
// outputs is space for the pointers of a launch.
tc_status tc_outputs_take(tc_trace *t, const tc_plan *p);
// Memory for old content that somebody still sees: publishing must not fail out of memory. Adds its
// size to *bytes.
tc_status tc_spares_take(tc_trace *t, const tc_plan *p, size_t *bytes);
// Releases the memory of a run's outputs and spares; published ones have other holders.
void tc_taken_drop(tc_trace *t, const tc_plan *p);
// What the run r of the trace leaves behind. failed: nothing was stored, so every leaf is kept and
// every value is a recipe.
void tc_run_fill(tc_run *r, const tc_trace *t, bool failed);
// Hands stored values to their slots. Writable borrowed memory is reached by copy where the plan
// did not write there itself. run NULL: nothing remains.
tc_status tc_values_publish(tc_trace *t, const tc_plan *p, tc_run *run);
// After a run that failed before it wrote in place: assigned tensors stand for their old value
// again.
// What was pending becomes a recipe of the failed run, which fails again when it is asked for only
// if it depends on what failed. run NULL: there is no plan, and pending values are lost.
void tc_values_restore(tc_trace *t, tc_run *run, tc_status st);
// Without closing: the owner is inside an op and its numbers must stay. Nothing is written in place
// and only the asked slots are served.
void tc_values_publish_asked(tc_trace *t, const tc_plan *p, int n_asked, const tc_node *asked);
