// AMD's library hipBLASLt: where it lies, and its numbers; what is asked of it is in
// device/gpu/blas_lt.h. tests/headers/hipblaslt.c compares all declarations with its header.
//
// It cannot be told to leave out algorithms that add with atomics, whose results are not the same
// each time. So it is not used by rule, but where algorithms are timed, and with it looked at
// whether they repeat their results (TC_AUTOTUNE), or where it is wanted whatever it does
// (TC_GPU_LIBRARIES=always).
#ifndef TC_DEVICE_HIP_HIPBLASLT_H
#define TC_DEVICE_HIP_HIPBLASLT_H

#include "device/gpu/blas_lt.h"

enum {
#define TC_HIPBLASLT_NUMBER(name, value) TC_##name = value,
#include "device/hip/hipblaslt_numbers.def"
#undef TC_HIPBLASLT_NUMBER
};

// Free memory of the device: it ends the process where it gets none for itself.
#define TC_HIPBLASLT_LEAST_ROOM ((size_t)64 << 20)

extern const tc_gpu_library_driver tc_hipblaslt;  // its functions, but drop, are called for ports for which it is ready
void tc_hipblaslt_of(int hip_major, int (*room)(tc_gpu_port *p, size_t *free_bytes));  // before ready
void tc_hipblaslt_close(tc_gpu_port *p);
tc_gpu_verdict tc_hipblaslt_judge(int result, const char **name);

#endif
