// Deferred errors: failures that no value carries. The next sync point reports them.
//
// A program may look at its sync points alone. A run that nobody waited for may undo assigns, and
// some calls have effects only.
// Invariants: one error is deferred at a time; it is reported once.
// Threads: under the trace's lock, but for tc_defer_error, which takes it. Owner: nobody.
#pragma once

#include "lazy/trace/node.h"

// pre: t is locked. Reports the deferred error once. TC_OK: none, or the program has cleared the
// error of such a call.
tc_status tc_trace_deferred_error(tc_trace *t, const char *op, tc_site site);
// pre: t is locked. clears: tc_error_clears(), if clearing the error settles it; 0: it does not.
void tc_trace_defer_error(tc_trace *t, tc_status st, tc_site site, uint64_t clears);
// Returns st. Defers the error of a call that has effects only, unless the program clears it before
// the next sync point.
tc_status tc_defer_error(tc_status st, tc_site site);
