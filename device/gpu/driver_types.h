// What cuda.h and hip_runtime_api.h declare alike. tests/headers compare it with both.
#pragma once

#include <stddef.h>

enum {
  TC_GPU_ERROR_OUT_OF_MEMORY = 2,
  TC_GPU_ALLOCATION_PINNED = 1,
  TC_GPU_LOCATION_DEVICE = 1,
  TC_GPU_POOL_REUSE_OPPORTUNISTIC = 2,
  TC_GPU_POOL_REUSE_INTERNAL_DEPENDENCIES = 3,
  TC_GPU_POOL_RELEASE_THRESHOLD = 4,
  TC_GPU_STREAM_NON_BLOCKING = 1,
  TC_GPU_EVENT_DISABLE_TIMING = 2,
  TC_GPU_CAPTURE_RELAXED = 2,
};

typedef struct tc_gpu_pool_properties {
  unsigned allocType, handleTypes;
  struct {
    unsigned type;
    int id;
  } location;
  void *win32SecurityAttributes;
  unsigned char reserved[64];
} tc_gpu_pool_properties;
