// AMD's matrix product library hipBLASLt: finding it, and its numbers. Its functions are called in
// device/gpu/blas_lt.c. tests/headers/hipblaslt.c compares all declarations with its header.
//
// It cannot be told to leave out algorithms that add with atomics, whose results vary from run to
// run. So no rule selects it. It is used where algorithms are timed and checked to repeat their
// results (TC_AUTOTUNE), or where the user asks for it (TC_GPU_LIBRARIES=always).
// Threads: under the device's lock.
#pragma once

#include "device/gpu/blas_lt.h"

enum {
#define TC_HIPBLASLT_NUMBER(name, value) TC_##name = value,
#include "device/hip/hipblaslt_numbers.def"
#undef TC_HIPBLASLT_NUMBER
};

// The free memory it needs on the device: it ends the process if it gets none for itself.
#define TC_HIPBLASLT_LEAST_ROOM ((size_t)64 << 20)

extern const tc_gpu_library_driver tc_hipblaslt;  // pre of all but drop: ready returned true for the port
void tc_hipblaslt_of(int hip_major);  // called before ready
void tc_hipblaslt_close(tc_gpu_port *p);
tc_gpu_verdict tc_hipblaslt_judge(int result, const char **name);
