// Ranges in the timelines of vendors' profilers, by NVTX and ROCTX. Each sync point of a GPU is a
// range. Inside it each launched kernel, or the graph that replays them, is one.
// Invariants: a library is opened only if a profiler started the process, or TC_PROFILE asks.
// Threads: thread-safe; a thread's ranges nest.
#pragma once

#include "device/device.h"

typedef struct tc_gpu_ranges {
  const char *name;  // of the library
  int (*push)(const char *text);  // copies the text
  int (*pop)(void);
} tc_gpu_ranges;

// Returns the functions of a device's vendor. NULL: no profiler looks, the library is absent, or d
// is no GPU.
const tc_gpu_ranges *tc_gpu_ranges_of(tc_device d);
// For tc-info: opens the library and returns one sentence: which it is, or why there is none.
const char *tc_gpu_ranges_sentence(tc_device d);
