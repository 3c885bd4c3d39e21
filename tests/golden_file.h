// A safetensors file of PyTorch's results, by case: "<case>.<what>" (tools/golden_training.py).
#pragma once

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <tc/train.h>

#include "tests/expect.h"

enum { GOLDEN_MOST = 4096 };

// "<case>.<what>" in a buffer that is valid until the next four calls.
__attribute__((format(printf, 1, 2))) static inline const char *golden_name(const char *fmt, ...) {
  static char name[4][256];
  static int k;
  va_list args;
  va_start(args, fmt);
  k = (k + 1) % 4;
  vsnprintf(name[k], sizeof name[k], fmt, args);
  va_end(args);
  return name[k];
}

// The elements as doubles; returns how many.
static inline int64_t golden_doubles(tc_tensor t, double out[GOLDEN_MOST]) {
  tc_dims d = tc_shape(t);
  int64_t n = 1;
  for (int i = 0; i < d.rank; i++) n *= d.dim[i];
  EXPECT(n <= GOLDEN_MOST, "%lld", (long long)n);
  EXPECT_OK(tc_to_host(tc_cast(t, TC_F64), out, (size_t)n * sizeof *out));
  return n;
}

// got is what is in the file under name, within tolerance of the largest element; NaN for NaN.
static inline void golden_expect(const tc_archive *a, const char *name, tc_tensor got, double tolerance) {
  static double have[GOLDEN_MOST], want[GOLDEN_MOST];
  tc_tensor w = tc_archive_get(a, name);
  EXPECT(tc_is_valid(w) && tc_is_valid(got), "%s", name);
  if (!tc_is_valid(w) || !tc_is_valid(got)) return;
  int64_t n = golden_doubles(w, want), n_got = golden_doubles(got, have);
  EXPECT(n == n_got && tc_shape(w).rank == tc_shape(got).rank, "%s: %lld elements, %lld are wanted", name,
         (long long)n_got, (long long)n);
  double most = 1e-300, off = 0;
  bool nan_alike = true;
  for (int64_t i = 0; i < n && n == n_got; i++) {
    nan_alike = nan_alike && isnan(have[i]) == isnan(want[i]);
    if (isnan(have[i]) || isnan(want[i])) continue;
    most = fmax(most, fabs(want[i])), off = fmax(off, fabs(have[i] - want[i]));
  }
  EXPECT(nan_alike && off <= tolerance * most, "%s is off by %g of %g", name, off, most);
}
