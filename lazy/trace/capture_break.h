// What a function over the public interface says while it is traced for a graph.
//
// In: why the function that calls it has no graph: it counts or decides in C. Out: nothing.
// Threads: the calling thread, which has no op open. Owner: nobody.
#pragma once

#include "runtime/status.h"

// The body that this thread traces, if it traces one, and those that call it, have no graph: they
// are recorded in each call. why: static, "a sync point"; by: the op's name.
void tc_capture_break_mine(const char *why, const char *by, tc_site where);
