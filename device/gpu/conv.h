// What the convolution libraries share: how they are told of axes, and their limit of memory.
// Threads: thread-safe, pure.
#pragma once

#include "device/gpu.h"

#define TC_GPU_CONV_WORKSPACE ((uint64_t)256 << 20)  // bytes, at most; a run has what its own algorithm needs
#define TC_GPU_CONV_DIMS (2 + TC_GPU_CONV_AXES)

// Copies the axes of `from`. No library has convolutions with one axis, so one is put before it,
// whose value is `absent`. Returns the number of axes.
int tc_gpu_conv_axes(const tc_gpu_conv_facts *f, const int64_t *from, int64_t absent, int64_t *out);
