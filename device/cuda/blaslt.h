// NVIDIA's library of matrix products, cuBLASLt: where it lies, and its numbers; what is asked of
// it is in device/gpu/blas_lt.h. tests/headers/blaslt.c compares all declarations with cublasLt.h.
// Threads: opening by one at a time.
#ifndef TC_DEVICE_CUDA_BLASLT_H
#define TC_DEVICE_CUDA_BLASLT_H

#include "device/gpu/blas_lt.h"

enum {
#define TC_BLASLT_NUMBER(name, value) TC_##name = value,
#include "device/cuda/blaslt_numbers.def"
#undef TC_BLASLT_NUMBER
};

// The library, or NULL with why not, in one sentence. driver_major: of CUDA; a newer library is not
// tried.
const tc_lt_library *tc_blaslt_ready(int driver_major, char *why, size_t bytes);
const char *tc_blaslt_name(void);  // "cuBLASLt 13.1.0"

#endif
