// Words for vectors that the files of instruction sets share. See tile.h.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/blas/kernels.h"
#include "runtime/status.h"

#if defined(__clang__)
#define TC_BLAS_SHUFFLE(I, x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define TC_BLAS_SHUFFLE(I, x, y, ...) __builtin_shuffle(x, y, (I){__VA_ARGS__})
#endif

// Two vectors of 2, 4, 8, 16 elements interleaved: the lower half of the result, and the upper. I:
// a vector of integers as wide as an element.
#define TC_BLAS_LOW_2(I, x, y) TC_BLAS_SHUFFLE(I, x, y, 0, 2)
#define TC_BLAS_HIGH_2(I, x, y) TC_BLAS_SHUFFLE(I, x, y, 1, 3)
#define TC_BLAS_LOW_4(I, x, y) TC_BLAS_SHUFFLE(I, x, y, 0, 4, 1, 5)
#define TC_BLAS_HIGH_4(I, x, y) TC_BLAS_SHUFFLE(I, x, y, 2, 6, 3, 7)
#define TC_BLAS_LOW_8(I, x, y) TC_BLAS_SHUFFLE(I, x, y, 0, 8, 1, 9, 2, 10, 3, 11)
#define TC_BLAS_HIGH_8(I, x, y) TC_BLAS_SHUFFLE(I, x, y, 4, 12, 5, 13, 6, 14, 7, 15)
#define TC_BLAS_LOW_16(I, x, y) TC_BLAS_SHUFFLE(I, x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define TC_BLAS_HIGH_16(I, x, y) TC_BLAS_SHUFFLE(I, x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
