// Our own declarations of what tc uses of CUDA's driver and of NVRTC, for machines without their
// headers. tests/headers/cuda.c compares them with the real ones where those are installed. Names
// begin with TC_CU_ for CU_, and tc_cu_ for CU. Functions are rows of driver.def and nvrtc.def, by
// exact symbols: the symbol cuMemAlloc is the first version, with 32-bit sizes.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "device/gpu/driver_types.h"

// Enums are unsigned in the vendor's headers.
typedef unsigned tc_cu_result, tc_cu_attribute, tc_cu_pool_attribute, tc_cu_function_attribute, tc_cu_capture_mode;
typedef unsigned tc_cu_map_type, tc_cu_map_interleave, tc_cu_map_swizzle, tc_cu_map_promotion, tc_cu_map_fill;
typedef unsigned tc_nvrtc_result;
typedef int tc_cu_device;
typedef unsigned long long tc_cu_pointer, tc_cu_flags;
typedef struct CUctx_st *tc_cu_context;
typedef struct CUmod_st *tc_cu_module;
typedef struct CUfunc_st *tc_cu_function;
typedef struct CUkern_st *tc_cu_kernel;
typedef struct CUstream_st *tc_cu_stream;
typedef struct CUevent_st *tc_cu_event;
typedef struct CUmemPoolHandle_st *tc_cu_pool;
typedef struct CUgraph_st *tc_cu_graph;
typedef struct CUgraphNode_st *tc_cu_node;
typedef struct CUgraphExec_st *tc_cu_exec;
typedef void *tc_nvrtc_program;  // the same as tc_rtc_program

typedef tc_gpu_pool_properties tc_cu_pool_properties;

typedef struct tc_cu_node_params {
  tc_cu_function func;
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  void **kernelParams, **extra;
  tc_cu_kernel kern;
  tc_cu_context ctx;
} tc_cu_node_params;

typedef struct tc_cu_map {
  _Alignas(128) uint64_t opaque[16];
} tc_cu_map;

enum {
#define TC_CUDA_NUMBER(name, value) TC_##name = value,
#include "device/cuda/numbers.def"
#undef TC_CUDA_NUMBER
};
