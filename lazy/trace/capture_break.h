// What a function over the public interface says while it is traced for a graph.
//
// In: why the function that calls it has no graph, since it counts or decides in C; or by what it
// goes. Out: nothing, or that number.
// Threads: the calling thread, which has no op open. Owner: nobody.
#pragma once

#include "lazy/trace/watched.h"
#include "runtime/status.h"

// The body that this thread traces, if it traces one, and those that call it, have no graph: they
// are recorded in each call. why: static, "a sync point"; by: the op's name.
void tc_capture_break_mine(const char *why, const char *by, tc_site where);
// The value of w, by which a body that this thread traces goes: another one is another graph.
uint64_t tc_capture_read(tc_watched *w);
