// Backends of graphs: who makes a new plan runnable. tc's own rows, and functions of the program's.
//
// In: a plan, not lowered. Out: its program, or a runner of the program's.
// Invariants: a backend that was registered stays, so that a name in a key is always the same one.
// Threads: thread-safe, one lock. Owner: the plan owns its runner.
#pragma once

#include "lazy/lowering.h"
#include "lazy/trace/trace.h"

// Makes the plan runnable by the backend of this thread's options. t: the trace it is of.
tc_status tc_backend_make(tc_plan *p, const tc_trace *t);
// Runs a plan that has a runner.
tc_status tc_backend_run(const tc_plan *p, void *const *leaf, void *const *out, const uint64_t *arg);
// TC_OK if the name is a backend's, else TC_ERR_ARG, which names the nearest.
tc_status tc_backend_check(const char *name, const char *op, tc_site site);
// The name of a function with its argument, which is registered under it. NULL after reporting.
const char *tc_backend_name_of(tc_backend_fn fn, void *user, const char *op, tc_site site);
// How many errors suppress_errors=1 has suppressed.
uint64_t tc_backend_n_suppressed(void);
