// Ranges in the timelines of vendors' profilers, by NVTX and ROCTX: one for each sync point of a
// GPU, and inside it one for each kernel that is launched, or for the graph that replays them. Only
// where a profiler started the process, or TC_PROFILE asks; else nothing is opened.
// Threads: thread-safe; a thread's ranges nest.
#ifndef TC_DEVICE_GPU_RANGES_H
#define TC_DEVICE_GPU_RANGES_H

#include "device/device.h"

typedef struct tc_gpu_ranges {
  const char *name;  // of the library
  int (*push)(const char *text);  // which is copied
  int (*pop)(void);
} tc_gpu_ranges;

// Those of a device's vendor; NULL where nobody looks, the library is absent, or d is no GPU.
const tc_gpu_ranges *tc_gpu_ranges_of(tc_device d);
// For tc-info: which library there is, or why none is, in one sentence. Opens it.
const char *tc_gpu_ranges_sentence(tc_device d);

#endif
