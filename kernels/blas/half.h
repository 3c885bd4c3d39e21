// Spans of f16 and bf16 as f32.
// Threads: thread-safe, pure.
#pragma once

#include <stdint.h>
#include <tc/tc.h>

// out[i] = in[i]; exact. type: TC_F16 or TC_BF16.
void tc_blas_widen(tc_type type, float *out, const void *in, int64_t n);
