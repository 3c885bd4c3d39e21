// Ranges in the timelines of vendors' profilers, by NVTX and ROCTX: one for each sync point of a GPU, and inside it one for each kernel that is launched, or for
// the graph that replays them. Only where a profiler started the process, or TC_PROFILE asks; else nothing is opened.
// Threads: thread-safe; a thread's ranges nest.
#ifndef TC_DEVICE_GPU_RANGES_H
#define TC_DEVICE_GPU_RANGES_H

#include "device/device.h"
#include "device/gpu/library.h"

typedef struct tc_gpu_ranges {
  const char *name;  // of the library
  int (*push)(const char *text);  // which is copied
  int (*pop)(void);
} tc_gpu_ranges;

// A vendor's library, and the table of its functions.
typedef struct tc_gpu_ranges_library {
  const char *title;
  const char *path;  // that an option names; NULL: none does
  const char *(*find)(void **handle);  // opens it else, and returns its name, or NULL
  const char *absent;  // why there is none then
  const tc_library_row *row;
  size_t n_row;
  void *table;
} tc_gpu_ranges_library;

// For drivers: opens it and fills its table; *name is what was opened. False with why not in text.
bool tc_gpu_ranges_open(const tc_gpu_ranges_library *of, const char **name, char *why, size_t bytes);
// Those of a device's vendor; NULL where nobody looks, the library is absent, or d is no GPU.
const tc_gpu_ranges *tc_gpu_ranges_of(tc_device d);
// For tc-info: which library there is, or why none is, in one sentence. Opens it.
const char *tc_gpu_ranges_sentence(tc_device d);

#endif
