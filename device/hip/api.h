// Our own declarations of what tc uses of HIP and hiprtc, for machines without their headers.
// tests/headers/hip.c compares them with the real ones where those are installed. Functions are
// rows of driver.def and hiprtc.def.
#pragma once

#include <stddef.h>

#include "device/gpu/driver_types.h"

// Unsigned enums in the vendor's headers.
typedef unsigned tc_hip_result, tc_hip_pool_attribute, tc_hip_copy_kind, tc_hip_capture_mode;
typedef unsigned tc_hiprtc_result;
typedef unsigned long long tc_hip_flags;
typedef struct ihipModule_t *tc_hip_module;
typedef struct ihipModuleSymbol_t *tc_hip_function;
typedef struct ihipStream_t *tc_hip_stream;
typedef struct ihipEvent_t *tc_hip_event;
typedef struct ihipMemPoolHandle_t *tc_hip_pool;
typedef struct ihipGraph *tc_hip_graph;
typedef struct hipGraphNode *tc_hip_node;
typedef struct hipGraphExec *tc_hip_exec;
typedef void *tc_hiprtc_program;  // the same as tc_rtc_program

typedef tc_gpu_pool_properties tc_hip_pool_properties;

typedef struct tc_hip_extent {
  unsigned x, y, z;
} tc_hip_extent;
typedef struct tc_hip_node_params {
  tc_hip_extent blockDim;
  void **extra;
  void *func;
  tc_hip_extent gridDim;
  void **kernelParams;
  unsigned sharedMemBytes;
} tc_hip_node_params;

// Offsets of fields in hipDeviceProp_t, for HIP 5 and for HIP 6 and later, whose function has
// another name. The buffer is larger than either struct.
#define TC_HIP_PROPERTIES_BYTES 4096
typedef struct tc_hip_layout {
  size_t name, totalGlobalMem, sharedMemPerBlock, warpSize, maxThreadsPerBlock, multiProcessorCount, l2CacheSize,
      gcnArchName;
} tc_hip_layout;
#define TC_HIP_LAYOUT_5 {0, 256, 264, 276, 280, 336, 340, 396}
#define TC_HIP_LAYOUT_6 {0, 288, 296, 308, 320, 388, 616, 1160}

enum {
#define TC_HIP_NUMBER(name, value) TC_##name = value,
#include "device/hip/numbers.def"
#undef TC_HIP_NUMBER
};
