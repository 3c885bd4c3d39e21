// What a core and the memory of this machine give to loops that do nothing else.
// In: nothing, or arrays. Out: the work of a call, which the caller times.
// Invariants: the widest vectors of the processor are used; chosen at run time.
// Threads: thread-safe. Owner: nobody.
#pragma once

#include <stdint.h>

// Floats in a vector of the processor: 16 or 8. 0: it has neither AVX-512 nor AVX2 with FMA, and
// nothing else here may be called.
int tc_peak_width(void);
// Runs f32 multiply-adds in registers, some 30 us of them, and returns how many operations, a
// multiply-add being two. sink gets a number that depends on all.
double tc_peak_fma(float *sink);
// a = b + 3 c over n floats, n a multiple of 64, the arrays aligned to 64 bytes; stores go past the
// caches. Returns the bytes moved.
double tc_peak_triad(float *a, const float *b, const float *c, int64_t n);
