// Memory of a device's own, which the host does not address: a GPU's, or a loaded back end's.
//
// In: devices, addresses. Out: memory and copies, each by the device's own functions.
// Threads: thread-safe. Owner: static; the devices have the memory.
#pragma once

#include "device/gpu.h"
#include "device/loaded_backend.h"

typedef struct tc_own_memory {
  tc_gpu *gpu;  // NULL: it is `loaded`'s
  tc_loaded *loaded;
} tc_own_memory;

// Opens the device. pre: tc_device_memory(d) is d.
tc_status tc_own_memory_of(tc_device d, tc_own_memory *out);
// Takes new memory. TC_ERR_MEMORY records no error.
tc_status tc_own_memory_take(tc_own_memory m, size_t bytes, void **out);
// Records the error of memory that was not got.
tc_status tc_own_memory_refuse(tc_own_memory m, size_t bytes);
void tc_own_memory_free(tc_own_memory m, void *p, size_t bytes);
// The process ends: a back end's library may be gone, and its memory goes with the process.
void tc_own_memory_leave(void);
// As tc_gpu_read_made, tc_gpu_write and tc_gpu_copy.
tc_status tc_own_memory_read(tc_own_memory m, void *to, const void *from, size_t bytes, uint64_t made);
tc_status tc_own_memory_write(tc_own_memory m, void *to, const void *from, size_t bytes);
tc_status tc_own_memory_copy(tc_own_memory m, void *to, const void *from, size_t bytes);
