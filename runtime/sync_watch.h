// What a program asks of its sync points while it runs, by tc_explain, tc_expect_syncs and
// tc_metrics_get.
// In: each sync point, from the thread that made it. Out: counts and records, per thread; sums of
// the process.
// Invariants: a sync point is counted once, in the thread that ran it.
// Threads: per thread; the sums are thread-safe. Owner: static.
#pragma once

#include "runtime/status.h"

typedef struct tc_sync_sums {
  uint64_t n_syncs, n_failed, n_hits, n_nodes, n_kernels, n_compiled, bytes, ticks;
} tc_sync_sums;

// Counts a sync point of this thread, whose times are in ticks.
void tc_sync_watch_add(const tc_sync_point *record);
// The process's sums. ticks: of total_ns.
tc_sync_sums tc_sync_watch_sums(void);

// Where this thread's sync points are added, with times in ticks; returns the place before. NULL:
// nowhere.
tc_explanation *tc_sync_watch_explain(tc_explanation *into);
