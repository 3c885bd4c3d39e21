// The summary that TC_PROFILE=1 prints at exit: at most 12 lines of at most 100 columns, first the
// verdict.
// In: sync points. Out: text; per site their sums, of 256 sites.
// Threads: the caller's lock. Owner: the process.
#pragma once

#include <stdio.h>

#include "runtime/status.h"

// Adds a sync point, whose times are in ticks.
void tc_profile_summary_add(const tc_sync_point *r);
// Prints it; nothing if there was no sync point. ns: the length of a tick.
void tc_profile_summary_print(FILE *out, double tick_ns);
