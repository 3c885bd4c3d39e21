// The plans of a trace's latest syncs, which it finds without the cache.
//
// In: a closed key. Out: a plan that has it.
// Invariants: each plan here is retained; one that left the cache leaves here, too.
// Threads: latest_lock of the trace; other threads take out what they evict. Owner: the trace.
#pragma once

#include "lazy/trace/plan.h"

// The plan with the closed key of t, of so many words, retained; NULL: none.
tc_plan *tc_latest_find(tc_trace *t, uint32_t n_word);
void tc_latest_add(tc_trace *t, tc_plan *p);
// pre: t is locked. Releases the plans that it would find without the cache.
void tc_plan_forget_latest(tc_trace *t);
// By any thread: removes an evicted plan, so that the trace no longer finds it.
void tc_plan_forget(tc_trace *t, tc_plan *gone);
