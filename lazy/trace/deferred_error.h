// Deferred errors: what failed without a value to tell of it, for the next sync point to tell.
//
// A program may look at its sync points alone: a run that nobody waited for may undo assigns, and a
// call may be all effect.
// Invariants: one error is deferred at a time; it is told once.
// Threads: under the trace's lock, but for tc_defer_error, which takes it. Owner: nobody.
#ifndef TC_LAZY_TRACE_DEFERRED_ERROR_H
#define TC_LAZY_TRACE_DEFERRED_ERROR_H

#include "lazy/trace/node.h"

// pre: t is locked. The error that is deferred, told once; TC_OK: none, or the program has cleared
// the error of such a call.
tc_status tc_trace_deferred_error(tc_trace *t, const char *op, tc_site site);
// pre: t is locked. clears: tc_error_clears(), if clearing the error settles it; 0: it does not.
void tc_trace_owe(tc_trace *t, tc_status st, tc_site site, uint64_t clears);
// Returns st. An error of a call that is all effect is told by the next sync point, too, unless the
// program clears it before.
tc_status tc_defer_error(tc_status st, tc_site site);

#endif
