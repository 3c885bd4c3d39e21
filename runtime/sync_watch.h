// What a program asks of its sync points while it runs, by tc_explain, tc_expect_syncs and
// tc_metrics_get.
// In: each sync point, from the thread that made it. Out: counts and records, per thread; sums of
// the process.
// Invariants: a sync point is counted once, in the thread that ran it.
// Threads: per thread; the sums are thread-safe. Owner: static.
#pragma once

#include "runtime/status.h"

typedef struct tc_sync_sums {
  uint64_t n_syncs, n_failed, n_hits, n_nodes, n_kernels, n_compiled, bytes, ticks, n_fallbacks, fallback_bytes;
} tc_sync_sums;

// Counts a sync point of this thread, whose times are in ticks.
void tc_sync_watch_add(const tc_sync_point *record);
// The process's sums. ticks: of total_ns.
tc_sync_sums tc_sync_watch_sums(void);

// An explanation that this thread's sync points are added to, with times in ticks, until the end.
// They nest: a sync point is added to all that are open.
typedef struct tc_sync_watcher {
  tc_explanation *into;
  struct tc_sync_watcher *outer;
} tc_sync_watcher;
void tc_sync_watch_begin(tc_sync_watcher *w, tc_explanation *into);
void tc_sync_watch_end(const tc_sync_watcher *w);
