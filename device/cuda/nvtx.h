// NVTX: ranges in the timelines of NVIDIA's profilers. See device/gpu/ranges.h.
#pragma once

#include "device/gpu/ranges.h"

bool tc_nvtx_open(tc_gpu_ranges *out, char *why, size_t bytes);
bool tc_nvtx_attached(void);  // true: a profiler that wants ranges started this process
