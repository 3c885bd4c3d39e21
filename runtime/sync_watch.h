// What a program asks of a thread's sync points while it runs, by tc_explain and tc_expect_syncs.
// In: each sync point, from the thread that made it. Out: counts and records, per thread.
// Invariants: a sync point is counted once, in the thread that ran it.
// Threads: per thread. Owner: static.
#pragma once

#include "runtime/status.h"

// Counts a sync point of this thread, whose times are in ticks.
void tc_sync_watch_add(const tc_sync_point *record);

// An explanation that this thread's sync points are added to, with times in ticks, until the end.
// They nest: a sync point is added to all that are open.
typedef struct tc_sync_watcher {
  tc_explanation *into;
  struct tc_sync_watcher *outer;
} tc_sync_watcher;
void tc_sync_watch_begin(tc_sync_watcher *w, tc_explanation *into);
void tc_sync_watch_end(const tc_sync_watcher *w);
