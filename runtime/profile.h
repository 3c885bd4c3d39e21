// One record per sync point: a ring of the latest (tc_sync_points), and sums per call site and
// cause, and per plan on a GPU. TC_PROFILE=1 prints the sums at exit, 2 also what each kernel took,
// TC_LOG=sync each record as it comes. Threads: thread-safe.
#ifndef TC_RUNTIME_PROFILE_H
#define TC_RUNTIME_PROFILE_H

#include <stdbool.h>

#include "runtime/status.h"

// Time in ticks of a clock that is read in half the time of tc_now_ns: the processor's counter
// where it counts at one rate, else nanoseconds.
extern bool tc_ticks_count;
static inline uint64_t tc_ticks(void) {
#if defined(__x86_64__)
  if (TC_LIKELY(tc_ticks_count)) return __builtin_ia32_rdtsc();
#endif
  return tc_now_ns();
}
// Two readings may come from two cores.
static inline uint64_t tc_ticks_between(uint64_t from, uint64_t to) {
  return to > from ? to - from : 0;
}

// cause and tier are static strings; times are in ticks, of which readers get nanoseconds.
void tc_profile_add(const tc_sync_point *record);
// With TC_PROFILE=2: one call of a kernel, or a share of one, by one thread. name is copied.
void tc_profile_kernel(const char *name, uint64_t ns);
// Prints sums per site with a histogram of graph sizes.
void tc_profile_print(FILE *out);

#endif
