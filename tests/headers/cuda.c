// Own declarations of CUDA's driver and NVRTC against the vendor's headers, where those are
// installed: types of functions, structs and numbers. All of it is checked when this is compiled.
#include <stdio.h>

#if __has_include(<cuda.h>) && __has_include(<nvrtc.h>)
#include <cuda.h>
#include <nvrtc.h>
#elif __has_include("/usr/local/cuda/include/cuda.h") && __has_include("/usr/local/cuda/include/nvrtc.h")
#include "/usr/local/cuda/include/cuda.h"
#include "/usr/local/cuda/include/nvrtc.h"
#endif

#ifdef CUDA_VERSION
#include "device/cuda/api.h"
#include "tests/headers/same.h"

#define TC_CUDA_NUMBER(name, value) SAME((int)name, value);
#include "device/cuda/numbers.def"
#undef TC_CUDA_NUMBER

SAME(sizeof(tc_cu_pool_properties), sizeof(CUmemPoolProps));
SAME_FIELD(tc_cu_pool_properties, CUmemPoolProps, allocType);
SAME_FIELD(tc_cu_pool_properties, CUmemPoolProps, handleTypes);
SAME_FIELD(tc_cu_pool_properties, CUmemPoolProps, location);
SAME_FIELD(tc_cu_pool_properties, CUmemPoolProps, location.type);
SAME_FIELD(tc_cu_pool_properties, CUmemPoolProps, location.id);
SAME_FIELD(tc_cu_pool_properties, CUmemPoolProps, win32SecurityAttributes);
SAME(sizeof(tc_cu_node_params), sizeof(CUDA_KERNEL_NODE_PARAMS));
SAME_FIELD(tc_cu_node_params, CUDA_KERNEL_NODE_PARAMS, func);
SAME_FIELD(tc_cu_node_params, CUDA_KERNEL_NODE_PARAMS, gridDimX);
SAME_FIELD(tc_cu_node_params, CUDA_KERNEL_NODE_PARAMS, gridDimZ);
SAME_FIELD(tc_cu_node_params, CUDA_KERNEL_NODE_PARAMS, blockDimX);
SAME_FIELD(tc_cu_node_params, CUDA_KERNEL_NODE_PARAMS, blockDimZ);
SAME_FIELD(tc_cu_node_params, CUDA_KERNEL_NODE_PARAMS, sharedMemBytes);
SAME_FIELD(tc_cu_node_params, CUDA_KERNEL_NODE_PARAMS, kernelParams);
SAME_FIELD(tc_cu_node_params, CUDA_KERNEL_NODE_PARAMS, extra);
SAME_FIELD(tc_cu_node_params, CUDA_KERNEL_NODE_PARAMS, kern);
SAME_FIELD(tc_cu_node_params, CUDA_KERNEL_NODE_PARAMS, ctx);

SAME(sizeof(tc_cu_map), sizeof(CUtensorMap));
SAME(_Alignof(tc_cu_map) % _Alignof(CUtensorMap), 0);  // older headers ask for less

// The rows again, with the vendor's types in the place of ours: the others must be the very ones.
#define tc_nvrtc_program nvrtcProgram
#define tc_cu_pool_properties CUmemPoolProps
#define tc_cu_node_params CUDA_KERNEL_NODE_PARAMS
#define tc_cu_map CUtensorMap
#define TC_CUDA_ROW(symbol, needed, parameters) SAME_FUNCTION(symbol, tc_cu_result, parameters)
#include "device/cuda/driver.def"
#undef TC_CUDA_ROW
#define TC_NVRTC_ROW(symbol, result, parameters) SAME_FUNCTION(symbol, result, parameters)
#include "device/cuda/nvrtc.def"
#undef TC_NVRTC_ROW

int main(void) {
  printf("cuda_header: compared with the headers of CUDA %d.%d\n", CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
  return 0;
}
#else
int main(void) {
  printf("skipped: cuda.h and nvrtc.h are not installed\n");
  return 77;
}
#endif
