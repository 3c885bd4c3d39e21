// A compiled kernel as a launch on a GPU: how many blocks, and its tensor maps.
// In: a kernel and the units it is to do; a map of its kernel and the buffers' addresses. Out: the
// launch; the map as the device has it.
// Threads: thread-safe, without state. Owner: the caller owns what is filled in.
#ifndef TC_LOWERING_JIT_GPU_LAUNCH_H
#define TC_LOWERING_JIT_GPU_LAUNCH_H

#include "device/gpu.h"
#include "lowering/jit/kernel.h"

// A kernel of so many units as a launch, whose first_word is left alone. The units that a group
// does.
int64_t tc_gpu_launch_kernel(const tc_kernel *kernel, int64_t extent, tc_gpu_launch *out);

// The words of a kernel's map, given those of its buffers.
tc_status tc_gpu_launch_tensor_map(tc_gpu *g, const tc_tensor_map *m, const uint64_t *words, uint64_t *out);

#endif
