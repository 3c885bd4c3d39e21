// AMD's libraries of matrix products as one library of a device: hipBLASLt where it may be used and
// has kernels for the device, else rocBLAS.
#ifndef TC_DEVICE_HIP_GEMM_H
#define TC_DEVICE_HIP_GEMM_H

#include "device/gpu/driver.h"

extern const tc_gpu_library_driver tc_hip_products;
void tc_hip_products_of(int hip_major, int (*room)(tc_gpu_port *p, size_t *free_bytes));  // when the driver is opened
void tc_hip_products_close(tc_gpu_port *p);
// What the libraries answer, where it is not the driver's, is from here to MIOpen's (miopen.h).
#define TC_HIP_PRODUCTS_RESULTS 0x10000
tc_gpu_verdict tc_hip_products_judge(int result, const char **name);

#endif
