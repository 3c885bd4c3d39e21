// Short ways to write a call of a reference kernel in tests: dense or strided views of C arrays,
// and attributes and arguments by value.
#pragma once

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"

static inline tc_view view_strided(const void *ptr, tc_type type, tc_dims shape, tc_dims strides) {
  tc_view v = {.ptr = (void *)(uintptr_t)ptr, .type = type, .rank = shape.rank};
  memcpy(v.dim, shape.dim, sizeof v.dim);
  memcpy(v.stride, strides.dim, sizeof v.stride);
  return v;
}

static inline tc_view view(const void *ptr, tc_type type, tc_dims shape) {
  tc_dims strides = shape;
  int64_t stride = 1;
  for (int d = shape.rank - 1; d >= 0; d--) strides.dim[d] = stride, stride *= shape.dim[d];
  return view_strided(ptr, type, shape, strides);
}

static inline uint64_t bits(double v) {
  uint64_t b;
  memcpy(&b, &v, sizeof b);
  return b;
}

#define WORDS(...) ((const uint64_t[]){__VA_ARGS__})
#define VIEWS(...) ((const tc_view[]){__VA_ARGS__})
// RUN(tc_ref_sum, view(out, ...), WORDS(attr...), WORDS(arg...), operands...)
#define RUN(fn, out_view, attr_words, arg_words, ...) \
  fn(&(tc_ref_call){.n_in = (int)(sizeof(VIEWS(__VA_ARGS__)) / sizeof(tc_view)), \
                    .in = VIEWS(__VA_ARGS__), \
                    .out = (out_view), \
                    .attr = (attr_words), \
                    .arg = (arg_words)})
#define RUN_GEN(fn, out_view, arg_words) fn(&(tc_ref_call){.n_in = 0, .out = (out_view), .arg = (arg_words)})
#define NO_WORDS WORDS(0)
#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

// Bit for bit, but any NaN equals any NaN.
static inline bool same(double a, double b) {
  return (isnan(a) && isnan(b)) || bits(a) == bits(b);
}
#define EXPECT_ALL(array, ...) \
  do { \
    const double expected_[] = {__VA_ARGS__}; \
    cr_assert_eq(COUNT(array), COUNT(expected_)); \
    for (int i_ = 0; i_ < COUNT(expected_); i_++) \
      cr_expect(same((double)(array)[i_], expected_[i_]), "[%d]: %.17g, expected %.17g", i_, (double)(array)[i_], \
                expected_[i_]); \
  } while (0)
