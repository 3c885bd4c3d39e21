// NVIDIA's matrix product library cuBLASLt: finding it, and its numbers. Its functions are called
// in device/gpu/blas_lt.c. tests/headers/blaslt.c compares all declarations with cublasLt.h.
// Threads: one at a time opens it.
#pragma once

#include "device/gpu/blas_lt.h"

enum {
#define TC_BLASLT_NUMBER(name, value) TC_##name = value,
#include "device/cuda/blaslt_numbers.def"
#undef TC_BLASLT_NUMBER
};

// Returns the library; NULL with one sentence in why. driver_major: CUDA's; a newer library is not
// tried.
const tc_lt_library *tc_blaslt_ready(int driver_major, char *why, size_t bytes);
const char *tc_blaslt_name(void);  // "cuBLASLt 13.1.0"
