// Turns a compiled kernel into a GPU launch: the number of blocks and the tensor maps.
// In: a kernel and its number of units; a tensor map and the buffers' addresses.
// Out: the launch; the tensor map in the device's encoding.
// Threads: thread-safe, stateless. Owner: the caller owns the outputs.
#pragma once

#include "device/gpu.h"
#include "lowering/jit/kernel.h"

// Fills the launch of a kernel over `extent` units, except first_word. Returns the units per thread
// group.
int64_t tc_gpu_launch_kernel(const tc_kernel *kernel, int64_t extent, tc_gpu_launch *out);

// Encodes a kernel's tensor map. words: the launch's words, which begin with the buffers'
// addresses.
tc_status tc_gpu_launch_tensor_map(tc_gpu *g, const tc_tensor_map *m, const uint64_t *words, uint64_t *out);
