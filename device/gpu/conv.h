// What libraries of convolutions have in common: how they are told of axes, and how much memory is
// theirs.
#ifndef TC_DEVICE_GPU_CONV_H
#define TC_DEVICE_GPU_CONV_H

#include "device/gpu.h"

#define TC_GPU_CONV_WORKSPACE ((uint64_t)256 << 20)  // bytes, at most; a run has what its own algorithm needs
#define TC_GPU_CONV_DIMS (2 + TC_GPU_CONV_AXES)

// No library knows a convolution of one axis: there is an axis before it, of which `absent` is
// said. How many axes there are.
int tc_gpu_conv_axes(const tc_gpu_conv_facts *f, const int64_t *from, int64_t absent, int64_t *out);

#endif
