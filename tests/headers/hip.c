// Own declarations of HIP and hiprtc against AMD's headers, where those are installed: types of
// functions, structs and numbers. All of it is checked when this is compiled.
#include <stdio.h>

#define __HIP_PLATFORM_AMD__ 1
#if __has_include(<hip/hip_runtime_api.h>) && __has_include(<hip/hiprtc.h>)
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>
#elif __has_include("/opt/rocm/include/hip/hip_runtime_api.h") && __has_include("/opt/rocm/include/hip/hiprtc.h")
#include "/opt/rocm/include/hip/hip_runtime_api.h"
#include "/opt/rocm/include/hip/hiprtc.h"
#endif

#ifdef HIP_VERSION_MAJOR
#include "device/hip/api.h"
#include "tests/headers/same.h"

#define TC_HIP_NUMBER(name, value) SAME((int)name, value);
#include "device/hip/numbers.def"
#undef TC_HIP_NUMBER

SAME(sizeof(tc_hip_pool_properties), sizeof(hipMemPoolProps));
SAME_FIELD(tc_hip_pool_properties, hipMemPoolProps, allocType);
SAME_FIELD(tc_hip_pool_properties, hipMemPoolProps, handleTypes);
SAME_FIELD(tc_hip_pool_properties, hipMemPoolProps, location.type);
SAME_FIELD(tc_hip_pool_properties, hipMemPoolProps, location.id);
SAME_FIELD(tc_hip_pool_properties, hipMemPoolProps, win32SecurityAttributes);
SAME(sizeof(tc_hip_node_params), sizeof(hipKernelNodeParams));
SAME_FIELD(tc_hip_node_params, hipKernelNodeParams, blockDim);
SAME_FIELD(tc_hip_node_params, hipKernelNodeParams, extra);
SAME_FIELD(tc_hip_node_params, hipKernelNodeParams, func);
SAME_FIELD(tc_hip_node_params, hipKernelNodeParams, gridDim);
SAME_FIELD(tc_hip_node_params, hipKernelNodeParams, kernelParams);
SAME_FIELD(tc_hip_node_params, hipKernelNodeParams, sharedMemBytes);

// Later headers give hipDeviceProp_t the layout of 6.
static const tc_hip_layout layouts[] = {TC_HIP_LAYOUT_5, TC_HIP_LAYOUT_6};
#define THERE(field) .field = offsetof(hipDeviceProp_t, field)
static const tc_hip_layout theirs = {THERE(name),        THERE(totalGlobalMem),     THERE(sharedMemPerBlock),
                                     THERE(warpSize),    THERE(maxThreadsPerBlock), THERE(multiProcessorCount),
                                     THERE(l2CacheSize), THERE(gcnArchName)};
_Static_assert(sizeof(hipDeviceProp_t) <= TC_HIP_PROPERTIES_BYTES, "hipDeviceProp_t has grown");

// The rows again, with the vendor's types in the place of ours: the others must be the very ones.
#define tc_hiprtc_program hiprtcProgram
#define tc_hip_pool_properties hipMemPoolProps
#define tc_hip_node_params hipKernelNodeParams
#define TC_HIP_ROW(symbol, result, needed, parameters) SAME_FUNCTION(symbol, result, parameters)
#include "device/hip/driver.def"
#undef TC_HIP_ROW
#define TC_HIPRTC_ROW(symbol, result, parameters) SAME_FUNCTION(symbol, result, parameters)
#include "device/hip/hiprtc.def"
#undef TC_HIPRTC_ROW

int main(void) {
  const tc_hip_layout *ours = &layouts[HIP_VERSION_MAJOR >= 6];
  const size_t *a = (const size_t *)ours, *b = (const size_t *)&theirs;
  int n_bad = 0;
  for (size_t i = 0; i < sizeof theirs / sizeof *b; i++) {
    if (a[i] != b[i]) printf("field %zu of hipDeviceProp_t is at %zu, not at %zu\n", i, b[i], a[i]), n_bad++;
  }
  printf("hip_header: compared with the headers of HIP %d.%d\n", HIP_VERSION_MAJOR, HIP_VERSION_MINOR);
  return n_bad > 0;
}
#else
int main(void) {
  printf("skipped: the headers of HIP are not installed\n");
  return 77;
}
#endif
