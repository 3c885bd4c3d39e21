// ROCTX: ranges in the timelines of AMD's profilers. See device/gpu/ranges.h.
#pragma once

#include "device/gpu/ranges.h"

bool tc_roctx_open(tc_gpu_ranges *out, char *why, size_t bytes);
bool tc_roctx_attached(void);  // true: a profiler started this process
