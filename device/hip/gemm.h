// AMD's matrix product libraries as one library of a device: hipBLASLt if it may be used and has
// kernels for the device, else rocBLAS.
// Threads: under the device's lock.
#pragma once

#include "device/gpu/driver.h"

extern const tc_gpu_library_driver tc_hip_gemm;
void tc_hip_gemm_of(int hip_major);  // called when the driver is opened
void tc_hip_gemm_close(tc_gpu_port *p);
// The libraries' results that are not the driver's are from here to MIOpen's (miopen.h).
#define TC_HIP_PRODUCTS_RESULTS 0x10000
tc_gpu_verdict tc_hip_gemm_judge(int result, const char **name);
