// AMD's convolution library MIOpen in its immediate mode: forward and both gradients, of f32, f16
// and bf16.
//
// MIOpen names solutions of a problem, best first, by numbers that it documents as lasting. A
// solution is requested, compiled and run. MIOpen says only its kind, so kinds whose sums are known
// are accepted: direct ones and implicit GEMM. For weight gradients of halves only implicit GEMM is
// accepted, because direct ones may keep partial sums over the batch in the half type. BLAS
// solutions are refused: their gradients round halves more than once, and rocBLAS and hipBLASLt end
// the process without kernels. Winograd and Fourier solutions are refused, too.
// MIOpen is told to repeat its bits, to compute halves without another type in between, and not to
// use TF32. It has failed to repeat its bits before, so it is used only where results were compared
// (measured_alone).
// MIOpen compiles kernels on request and keeps them in a folder of its own, which must be writable.
// Its databases may be absent. Padding is the same on both sides of an axis.
// Declarations are our own; functions are rows of miopen.def. tests/headers/miopen.c compares them
// with its header.
// Threads: under the device's lock.
#pragma once

#include <stdint.h>

#include "device/gpu/driver.h"
#include "device/hip/api.h"

typedef unsigned tc_miopen_status, tc_miopen_type, tc_miopen_layout, tc_miopen_mode, tc_miopen_attribute,
    tc_miopen_algorithm;
typedef struct miopenHandle *tc_miopen_handle;
typedef struct miopenTensorDescriptor *tc_miopen_tensor;
typedef struct miopenConvolutionDescriptor *tc_miopen_convolution;

#ifndef TC_MIOPEN_SOLUTION  // a test has the vendor's type in its place
typedef struct tc_miopen_solution {
  float time;  // in ms, measured somewhere or estimated; below 0: a very rough estimate
  size_t workspace_size;
  uint64_t solution_id;
  tc_miopen_algorithm algorithm;
} tc_miopen_solution;
#endif

enum {
#define TC_MIOPEN_NUMBER(name, value) TC_##name = value,
#include "device/hip/miopen_numbers.def"
#undef TC_MIOPEN_NUMBER
};
// Only versions after 3.5.1 have this attribute and its value; earlier ones, and headers, do
// without.
#define TC_MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE 3
#define TC_miopenMathPedantic 1

extern const tc_gpu_library_driver tc_miopen;
// Called when the driver is opened, with its version and its library.
void tc_miopen_of(int hip_major, void *hip);
void tc_miopen_close(tc_gpu_port *p);
// Results of its functions that are not the driver's are from TC_MIOPEN_RESULTS on.
#define TC_MIOPEN_RESULTS 0x30000
tc_gpu_verdict tc_miopen_judge(int result, const char **name);
