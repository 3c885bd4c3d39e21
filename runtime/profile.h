// Records of sync points: a ring of the latest (tc_sync_points).
// Out: TC_PROFILE=1 prints a summary of all at exit (profile_summary.h). TC_LOG=sync logs each at
// once. TC_PROFILE=FILE has records of its own (profile_file.h).
// Threads: thread-safe.
#pragma once

#include <stdbool.h>

#include "runtime/status.h"

// True: ticks are the processor's counter, which counts at one rate. False: they are nanoseconds.
// Reading the counter takes half the time of tc_now_ns.
extern bool tc_ticks_count;
static inline uint64_t tc_ticks(void) {
#if defined(__x86_64__)
  if (TC_LIKELY(tc_ticks_count)) return __builtin_ia32_rdtsc();
#endif
  return tc_now_ns();
}
// Two readings may come from two cores, so the later one may be smaller; the result is 0 then.
static inline uint64_t tc_ticks_between(uint64_t from, uint64_t to) {
  return to > from ? to - from : 0;
}

// Returns the nanoseconds of a tick. The first call takes 0.2 ms.
double tc_tick_ns(void);

// The record with its times, which are in ticks, in nanoseconds.
tc_sync_point tc_sync_point_in_ns(const tc_sync_point *record);

// Adds a record. cause and tier are static strings; times are in ticks, which readers get as
// nanoseconds.
void tc_profile_add(const tc_sync_point *record);
// Sums over all sync points of the process. ticks: of total_ns.
typedef struct tc_sync_sums {
  uint64_t n_syncs, n_failed, n_hits, n_nodes, n_kernels, n_compiled, bytes, ticks, n_fallbacks, fallback_bytes;
} tc_sync_sums;
tc_sync_sums tc_profile_sums(void);
// Prints the summary, of what was added while TC_PROFILE was 1.
void tc_profile_print(FILE *out);
