// Traces of threads: made with a thread's first op, kept while handles of it live, free for a new
// thread then.
//
// In: this thread, or a handle. Out: its trace, locked where the function says so.
// Invariants: the lock of the list of traces is never held while a trace's is taken.
// Threads: thread-safe. Owner: the thread; after its end, the handles.
#pragma once

#include "lazy/trace/trace.h"

// Makes it; NULL out of memory.
tc_trace *tc_trace_begin(void);
// This thread's trace; NULL out of memory.
static inline tc_trace *tc_trace_self(void) {
  return TC_LIKELY(tc_trace_mine != NULL) ? tc_trace_mine : tc_trace_begin();
}
// pre: t is locked. Unlocks; an ended thread's trace without tensors is free for a new thread from
// then on.
void tc_trace_unlock_or_retire(tc_trace *t);
// Takes the bounds of a pending trace from this thread's options, unless the trace runs before the
// next op.
void tc_trace_set_bounds(tc_trace *t);
// Forgets what is pending: leaves, origins and records.
void tc_trace_reset(tc_trace *t);
// Whether the trace's thread is in this process, or was left behind by a fork.
bool tc_trace_is_here(const tc_trace *t);
// TC_OK if tc_trace_is_here, else an error that says so.
tc_status tc_trace_here(const tc_trace *t, const char *op, tc_site site);
// The slot of a live handle with its owner locked and this thread inside the library
// (runtime/reentry.h); NULL after reporting. what: the caller's name; NULL: a stale handle is no
// error. tc_slot_unlock gives it back.
tc_slot *tc_slot_lock(tc_tensor h, const char *what, tc_site site, tc_trace **owner);
void tc_slot_unlock(tc_trace *owner);
// Ends every tensor of every thread.
void tc_trace_close_all(void);
// No trace finds the plan, which is no longer in the cache, among its latest.
void tc_trace_forget_plan(struct tc_plan *gone);
