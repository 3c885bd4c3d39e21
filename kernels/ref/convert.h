// Element types as kernels see them: spans of elements to and from double or int64, with the switch
// on the type outside the loop. Every kernel computes in one of these two and so serves every type.
// convert.c states how values are rounded.
// Threads: thread-safe, pure.
// Owner: nothing.
#pragma once

#include "kernels/ref/ref.h"

static inline bool tc_ref_is_float(tc_type type) {
  return type == TC_F16 || type == TC_BF16 || type == TC_F32 || type == TC_F64;
}

int64_t tc_ref_type_bytes(tc_type type);

// These access n elements p[at], p[at + step], ...
void tc_load_f64(tc_type type, const void *p, int64_t at, int64_t step, int64_t n, double *out);
void tc_load_i64(tc_type type, const void *p, int64_t at, int64_t step, int64_t n, int64_t *out);
void tc_store_f64(tc_type type, void *p, int64_t at, int64_t step, int64_t n, const double *v);
void tc_store_i64(tc_type type, void *p, int64_t at, int64_t step, int64_t n, const int64_t *v);

// Copies n elements of the same size.
void tc_copy_span(int64_t elem_bytes, void *dst, int64_t dst_at, int64_t dst_step, const void *src, int64_t src_at,
                  int64_t src_step, int64_t n);
