// AMD's library rocBLAS: matrix products in f32, f16 and bf16, summed in f32 without atomics, for
// GPUs for which hipBLASLt has no kernels.
//
// Its matrices are column-major, so it is asked for the transposed product: the right operand is
// its first one. It adds no bias. An algorithm is the library's own choice, or a solution by its
// number.
// Declarations are our own; functions are rows of rocblas.def. tests/headers/rocblas.c compares
// them with its header.
// Threads: under the device's lock.
#pragma once

#include "device/gpu/driver.h"
#include "device/hip/api.h"

typedef unsigned tc_rocblas_status, tc_rocblas_operation, tc_rocblas_type, tc_rocblas_atomics, tc_rocblas_choice;
typedef struct _rocblas_handle *tc_rocblas_handle;

enum {
#define TC_ROCBLAS_NUMBER(name, value) TC_##name = value,
#include "device/hip/rocblas_numbers.def"
#undef TC_ROCBLAS_NUMBER
};

extern const tc_gpu_library_driver tc_rocblas;  // pre of all but drop: ready returned true for the port
void tc_rocblas_of(int hip_major);  // called before ready
void tc_rocblas_close(tc_gpu_port *p);
// Results of its functions that are not the driver's are from TC_ROCBLAS_RESULTS on.
#define TC_ROCBLAS_RESULTS 0x20000
tc_gpu_verdict tc_rocblas_judge(int result, const char **name);
