// Host data in tests. Into tensors that have strides, and compared: exact, by bits, or within units
// in the last place (ULP) of the expected value. NaN equals NaN; integers and bools are always
// exact. Threads: as tc.h. Owns nothing.
#pragma once

#include <tc/tc.h>

typedef struct near_tol {
  double ulp, abs;  // within ulp units of the expected value, or within abs
  bool bits;        // equal bits: the sign of zero counts, any NaN equals any NaN
} near_tol;

bool near_is_float(tc_type type);
// Element i as a double (i64 rounds).
double near_get(tc_type type, const void *data, int64_t i);
// Writes v, rounded to nearest even, as element i; integers truncate and wrap.
void near_set(tc_type type, void *data, int64_t i, double v);
// Spacing of the type's values at v, a finite number.
double near_ulp(tc_type type, double v);
// The device under test: TC_TEST_DEVICE, or tc:cpu. Where it is slow because it is simulated, fewer
// cases are compared.
const char *near_device(void);
bool near_is_slow(void);
// Index of the first of n elements of got that is not near want, or -1.
int64_t near_find(tc_type type, const void *got, const void *want, int64_t n, near_tol tol);
// "[2, 3]" into text, which is returned.
const char *near_dims_text(tc_dims d, char *text, size_t bytes);
bool near_dims_equal(tc_dims a, tc_dims b);
int64_t near_count(tc_dims d);
// A tensor with this dense content on the default device, made so that an op that reads it meets
// strides: how is 0 as it is, T its transpose permuted back, S with a gap between columns and
// sliced, R backwards and flipped by a slice. T, S and R need a rank of at least 1.
tc_tensor near_present(const void *data, tc_dims dims, tc_type type, char how);
