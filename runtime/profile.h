// One record per sync point: a ring of the latest (tc_sync_points), and sums per call site and cause. TC_PROFILE=1 prints the sums at exit, 2 also what each kernel took,
// TC_LOG=sync each record as it comes. Threads: thread-safe.
#ifndef TC_RUNTIME_PROFILE_H
#define TC_RUNTIME_PROFILE_H

#include "runtime/status.h"

// Ticks of a clock that is read in a third of the time of tc_now_ns: for parts of an interval whose length in nanoseconds is known.
static inline uint64_t tc_ticks(void) {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return tc_now_ns();
#endif
}

// cause and tier are static strings.
void tc_profile_add(const tc_sync_point *record);
// With TC_PROFILE=2: one call of a kernel, or a share of one, by one thread. name is copied.
void tc_profile_kernel(const char *name, uint64_t ns);
// Prints sums per site with a histogram of graph sizes.
void tc_profile_print(FILE *out);

#endif
