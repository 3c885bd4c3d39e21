// The profile: a record for each call site, routine and bucket of sizes.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "shim/shim.h"

// Counters have one writer, the thread of their table, and are read by whoever reports.
typedef struct tc_shim_record {
  uintptr_t caller;  // 0: a free record
  uint32_t entry;
  int32_t bucket;  // sizes from 2^bucket to twice that; -1: calls whose arguments were not read
  uint64_t calls;
  uint64_t direct;  // of them, by libtc
  uint64_t ticks;
  uint64_t shapes;  // distinct ones
  uint64_t strided;  // calls with a leading dimension that is not the extent, or an inc that is not 1
  uint64_t last_shape;
  double flops;
  double bytes;  // of all operands
  double new_bytes;  // of pages that no call touched before
  double moved_bytes;  // to a device and back, if nothing stays there
  double dims[3];  // m n k of the largest call
} tc_shim_record;

// Opens a record for a call that was read; NULL if there is no memory.
tc_shim_record *tc_shim_profile_open(uintptr_t caller, uint32_t entry, tc_shim_call *call);

// Adds the time since call->start.
void tc_shim_profile_close(tc_shim_call *call, bool is_direct);

// Counts a call that is neither read nor timed.
void tc_shim_profile_count(uintptr_t caller, uint32_t entry);

// All records with calls, one a site, entry and bucket, in memory of its own; their number in
// out_n.
tc_shim_record *tc_shim_profile_merge(uint32_t *out_n);

// Where a record's call site is: file and offset, symbol or "", as they were at its first call.
typedef struct tc_shim_site {
  uintptr_t caller;
  uintptr_t offset;
  char module[80];
  char symbol[80];
} tc_shim_site;
const tc_shim_site *tc_shim_profile_site(uintptr_t caller);

// Seconds a tick.
double tc_shim_tick_seconds(void);

static inline uint64_t tc_shim_ticks(void) {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
#endif
}
