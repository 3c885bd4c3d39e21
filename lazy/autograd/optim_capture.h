// An optimizer's step in a body that is traced for its graph (lazy/trace/capture.h). The graph is
// taken from then on, and the step's numbers are recorded anew: learning rates and step counts.
//
// In: a step that is recorded. Out: a note with its capture, or a break.
// Invariants: what an update records as numbers follows from the optimizer and its entry alone.
// Threads: under the trace's lock. Owner: notes have a reference to the optimizer.
#pragma once

#include "lazy/trace/capture.h"

// pre: t has a capture. The step of the note, which this takes over, has recorded its numbers from
// first_arg on, and is not counted yet. note NULL: out of memory.
void tc_optimizer_capture(tc_trace *t, const tc_step_ops *ops, void *owner, void *note, uint32_t first_arg);
