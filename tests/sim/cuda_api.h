// What the simulated driver has of cuda.h, declared anew: it is built where CUDA is not installed.
// tests/simulator/header.c has a compiler compare it with a real cuda.h where there is one: with
// SIM_REAL_CUDA_H the types are that header's, and only what can be compared is said.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifndef SIM_REAL_CUDA_H

// Enums are unsigned there.
typedef unsigned CUresult, CUdevice_attribute, CUfunction_attribute, CUpointer_attribute, CUmemPool_attribute,
    CUstreamCaptureMode, CUstreamCaptureStatus, CUjit_option, CUdriverProcAddressQueryResult, CUgraphExecUpdateResult,
    CUmemorytype, CUtensorMapDataType, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
    CUtensorMapFloatOOBfill;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef uint64_t cuuint64_t;
typedef uint32_t cuuint32_t;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUkern_st *CUkernel;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUarray_st *CUarray;
typedef struct CUgraphEdgeData_st CUgraphEdgeData;
typedef void (*CUhostFn)(void *data);

typedef struct CUuuid {
  char bytes[16];
} CUuuid;
typedef struct CUmemLocation {
  unsigned type;
  int id;
} CUmemLocation;
typedef struct CUmemPoolProps {
  unsigned allocType, handleTypes;
  CUmemLocation location;
  void *win32SecurityAttributes;
  size_t maxSize;
  unsigned short usage;
  unsigned char reserved[54];
} CUmemPoolProps;
typedef struct CUDA_KERNEL_NODE_PARAMS {
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  void **kernelParams, **extra;
  CUkernel kern;
  CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;
typedef struct CUDA_MEMSET_NODE_PARAMS {
  CUdeviceptr dst;
  size_t pitch;
  unsigned value, elementSize;
  size_t width, height;
} CUDA_MEMSET_NODE_PARAMS;
typedef struct CUDA_MEMCPY3D {
  size_t srcXInBytes, srcY, srcZ, srcLOD;
  CUmemorytype srcMemoryType;
  const void *srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  void *reserved0;
  size_t srcPitch, srcHeight;
  size_t dstXInBytes, dstY, dstZ, dstLOD;
  CUmemorytype dstMemoryType;
  void *dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  void *reserved1;
  size_t dstPitch, dstHeight;
  size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;
typedef struct CUtensorMap {
  _Alignas(128) cuuint64_t opaque[16];
} CUtensorMap;
typedef struct CUgraphExecUpdateResultInfo {
  CUgraphExecUpdateResult result;
  CUgraphNode errorNode, errorFromNode;
} CUgraphExecUpdateResultInfo;

#endif

#define SIM_CUDA_STRUCTS(SIZE, AT) \
  SIZE(CUuuid, 16) \
  SIZE(CUmemPoolProps, 88) \
  AT(CUmemPoolProps, location, 8) \
  AT(CUmemPoolProps, maxSize, 24) \
  SIZE(CUDA_KERNEL_NODE_PARAMS, 72) \
  AT(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes, 32) \
  AT(CUDA_KERNEL_NODE_PARAMS, kernelParams, 40) \
  AT(CUDA_KERNEL_NODE_PARAMS, ctx, 64) \
  SIZE(CUDA_MEMSET_NODE_PARAMS, 40) \
  AT(CUDA_MEMSET_NODE_PARAMS, width, 24) \
  SIZE(CUDA_MEMCPY3D, 200) \
  AT(CUDA_MEMCPY3D, srcDevice, 48) \
  AT(CUDA_MEMCPY3D, dstXInBytes, 88) \
  AT(CUDA_MEMCPY3D, dstDevice, 136) \
  AT(CUDA_MEMCPY3D, WidthInBytes, 176) \
  SIZE(CUtensorMap, 128) \
  SIZE(CUgraphExecUpdateResultInfo, 24)

// Numbers by their names there. First the errors, which cuGetErrorName tells.
#define SIM_CUDA_ERRORS(X) \
  X(CUDA_SUCCESS, 0) \
  X(CUDA_ERROR_INVALID_VALUE, 1) \
  X(CUDA_ERROR_OUT_OF_MEMORY, 2) \
  X(CUDA_ERROR_NOT_INITIALIZED, 3) \
  X(CUDA_ERROR_DEINITIALIZED, 4) \
  X(CUDA_ERROR_STUB_LIBRARY, 34) \
  X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46) \
  X(CUDA_ERROR_NO_DEVICE, 100) \
  X(CUDA_ERROR_INVALID_DEVICE, 101) \
  X(CUDA_ERROR_INVALID_IMAGE, 200) \
  X(CUDA_ERROR_INVALID_CONTEXT, 201) \
  X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209) \
  X(CUDA_ERROR_ECC_UNCORRECTABLE, 214) \
  X(CUDA_ERROR_INVALID_PTX, 218) \
  X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222) \
  X(CUDA_ERROR_INVALID_HANDLE, 400) \
  X(CUDA_ERROR_ILLEGAL_STATE, 401) \
  X(CUDA_ERROR_NOT_FOUND, 500) \
  X(CUDA_ERROR_NOT_READY, 600) \
  X(CUDA_ERROR_ILLEGAL_ADDRESS, 700) \
  X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701) \
  X(CUDA_ERROR_LAUNCH_TIMEOUT, 702) \
  X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704) \
  X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709) \
  X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712) \
  X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713) \
  X(CUDA_ERROR_MISALIGNED_ADDRESS, 716) \
  X(CUDA_ERROR_LAUNCH_FAILED, 719) \
  X(CUDA_ERROR_NOT_PERMITTED, 800) \
  X(CUDA_ERROR_NOT_SUPPORTED, 801) \
  X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803) \
  X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900) \
  X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901) \
  X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903) \
  X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904) \
  X(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, 910) \
  X(CUDA_ERROR_UNKNOWN, 999)

#define SIM_CUDA_NUMBERS(X) \
  X(CU_TENSOR_MAP_DATA_TYPE_UINT16, 1) \
  X(CU_TENSOR_MAP_INTERLEAVE_NONE, 0) \
  X(CU_TENSOR_MAP_SWIZZLE_128B, 3) \
  X(CU_TENSOR_MAP_L2_PROMOTION_L2_256B, 3) \
  X(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, 0) \
  X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1) \
  X(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 2) \
  X(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 3) \
  X(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 4) \
  X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 5) \
  X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 6) \
  X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 7) \
  X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 8) \
  X(CU_DEVICE_ATTRIBUTE_WARP_SIZE, 10) \
  X(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 12) \
  X(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 13) \
  X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16) \
  X(CU_DEVICE_ATTRIBUTE_INTEGRATED, 18) \
  X(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 31) \
  X(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 33) \
  X(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 36) \
  X(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 37) \
  X(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 38) \
  X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 39) \
  X(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 40) \
  X(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41) \
  X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75) \
  X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76) \
  X(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 78) \
  X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 81) \
  X(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 82) \
  X(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 95) \
  X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97) \
  X(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 106) \
  X(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 111) \
  X(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 115) \
  X(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 120) \
  X(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0) \
  X(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1) \
  X(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, 2) \
  X(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 3) \
  X(CU_FUNC_ATTRIBUTE_NUM_REGS, 4) \
  X(CU_FUNC_ATTRIBUTE_PTX_VERSION, 5) \
  X(CU_FUNC_ATTRIBUTE_BINARY_VERSION, 6) \
  X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8) \
  X(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 9) \
  X(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1) \
  X(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 2) \
  X(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 3) \
  X(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 4) \
  X(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 5) \
  X(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 6) \
  X(CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 7) \
  X(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 8) \
  X(CU_MEM_ALLOCATION_TYPE_PINNED, 1) \
  X(CU_MEM_LOCATION_TYPE_DEVICE, 1) \
  X(CU_POINTER_ATTRIBUTE_CONTEXT, 1) \
  X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2) \
  X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9) \
  X(CU_MEMORYTYPE_HOST, 1) \
  X(CU_MEMORYTYPE_DEVICE, 2) \
  X(CU_MEMORYTYPE_UNIFIED, 4) \
  X(CU_STREAM_NON_BLOCKING, 1) \
  X(CU_EVENT_DISABLE_TIMING, 2) \
  X(CU_STREAM_CAPTURE_STATUS_NONE, 0) \
  X(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1) \
  X(CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2) \
  X(CU_STREAM_CAPTURE_MODE_RELAXED, 2) \
  X(CU_GET_PROC_ADDRESS_SUCCESS, 0) \
  X(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, 1) \
  X(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, 2) \
  X(CU_GRAPH_EXEC_UPDATE_SUCCESS, 0) \
  X(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, 2)

#ifndef SIM_REAL_CUDA_H
#define X(name, value) name = value,
enum { SIM_CUDA_ERRORS(X) SIM_CUDA_NUMBERS(X) };
#undef X
#endif

#define SIM_CU(name, since, parameters) __attribute__((visibility("default"))) CUresult name parameters;
#include "tests/sim/cuda.def"
#undef SIM_CU
