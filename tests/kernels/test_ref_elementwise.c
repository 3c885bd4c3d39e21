// Elementwise kernels: NaN, signs, division and shifts of integers, strides, and libm's values.
#include "kernels/math.h"
#include "tests/kernels/ref_call.h"

#define F64_1(fn, out, in) \
  cr_assert_eq( \
      RUN(fn, view(out, TC_F64, TC_SHAPE(COUNT(out))), NO_WORDS, NO_WORDS, view(in, TC_F64, TC_SHAPE(COUNT(in)))), \
      TC_OK)
#define TYPED_2(fn, type, out_type, out, a, b) \
  cr_assert_eq(RUN(fn, view(out, out_type, TC_SHAPE(COUNT(out))), NO_WORDS, NO_WORDS, \
                   view(a, type, TC_SHAPE(COUNT(a))), view(b, type, TC_SHAPE(COUNT(b)))), \
               TC_OK)

Test(ref_elementwise, unary_edges) {
  const double x[] = {NAN, -0.0, 0.5, 1.5, -2.5, INFINITY, -INFINITY, -0.5};
  double out[8];
  F64_1(tc_ref_sign, out, x);
  EXPECT_ALL(out, 0, 0, 1, 1, -1, 1, -1, -1);
  F64_1(tc_ref_relu, out, x);
  EXPECT_ALL(out, NAN, 0, 0.5, 1.5, 0, INFINITY, 0, 0);
  F64_1(tc_ref_round, out, x);
  EXPECT_ALL(out, NAN, -0.0, 0, 2, -2, INFINITY, -INFINITY, -0.0);
  F64_1(tc_ref_neg, out, x);
  EXPECT_ALL(out, NAN, 0, -0.5, -1.5, 2.5, -INFINITY, INFINITY, 0.5);
  F64_1(tc_ref_sigmoid, out, x);
  cr_expect_eq(out[5], 1);
  cr_expect_eq(out[6], 0);
  cr_expect_float_eq(out[4], 0.07585818002124355, 1e-16);
  uint8_t flags[8];
  cr_assert_eq(RUN(tc_ref_isnan, view(flags, TC_BOOL, TC_SHAPE(8)), NO_WORDS, NO_WORDS, view(x, TC_F64, TC_SHAPE(8))),
               TC_OK);
  EXPECT_ALL(flags, 1, 0, 0, 0, 0, 0, 0, 0);
  cr_assert_eq(
      RUN(tc_ref_logical_not, view(flags, TC_BOOL, TC_SHAPE(8)), NO_WORDS, NO_WORDS, view(x, TC_F64, TC_SHAPE(8))),
      TC_OK);
  EXPECT_ALL(flags, 0, 1, 0, 0, 0, 0, 0, 0);
}

Test(ref_elementwise, float_division_follows_python) {
  const double a[] = {7, -7, 7, -7, 1, 0, 6, -1}, b[] = {3, 3, -3, -3, 0, -5, INFINITY, INFINITY};
  double out[8];
  TYPED_2(tc_ref_remainder, TC_F64, TC_F64, out, a, b);
  EXPECT_ALL(out, 1, 2, -2, -1, NAN, 0, 6, INFINITY);
  TYPED_2(tc_ref_fmod, TC_F64, TC_F64, out, a, b);
  EXPECT_ALL(out, 1, -1, 1, -1, NAN, 0, 6, -1);
  TYPED_2(tc_ref_floor_divide, TC_F64, TC_F64, out, a, b);
  EXPECT_ALL(out, 2, -3, -3, 2, INFINITY, -0.0, 0, -1);
}

Test(ref_elementwise, integer_division_is_total) {
  const int64_t a[] = {7, -7, 7, -7, 5, INT64_MIN, 6}, b[] = {3, 3, -3, -3, 0, -1, -2};
  int64_t out[7];
  TYPED_2(tc_ref_remainder, TC_I64, TC_I64, out, a, b);
  EXPECT_ALL(out, 1, 2, -2, -1, 0, 0, 0);
  TYPED_2(tc_ref_fmod, TC_I64, TC_I64, out, a, b);
  EXPECT_ALL(out, 1, -1, 1, -1, 0, 0, 0);
  TYPED_2(tc_ref_floor_divide, TC_I64, TC_I64, out, a, b);
  EXPECT_ALL(out, 2, -3, -3, 2, 0, (double)INT64_MIN, -3);
}

Test(ref_elementwise, integer_pow_and_shifts) {
  const int32_t a[] = {3, 2, 1, -1, -1, 0, 0, 46341}, b[] = {4, -1, -5, -3, -2, 0, -1, 2};
  int32_t out[8];
  TYPED_2(tc_ref_pow, TC_I32, TC_I32, out, a, b);
  EXPECT_ALL(out, 81, 0, 1, -1, 1, 1, 0, -2147479015);
  const int32_t c[] = {1, 1, -8, -8, 1, -8}, d[] = {31, 32, 1, 40, -1, -1};
  int32_t shifted[6];
  TYPED_2(tc_ref_shift_left, TC_I32, TC_I32, shifted, c, d);
  EXPECT_ALL(shifted, INT32_MIN, 0, -16, 0, 0, 0);
  TYPED_2(tc_ref_shift_right, TC_I32, TC_I32, shifted, c, d);
  EXPECT_ALL(shifted, 0, 0, -4, -1, 0, -1);
}

Test(ref_elementwise, integers_wrap_and_bools_stay_bools) {
  const uint8_t a[] = {250, 3}, b[] = {10, 5};
  uint8_t out[2];
  TYPED_2(tc_ref_add, TC_U8, TC_U8, out, a, b);
  EXPECT_ALL(out, 4, 8);
  TYPED_2(tc_ref_sub, TC_U8, TC_U8, out, a, b);
  EXPECT_ALL(out, 240, 254);
  const uint8_t p[] = {1, 0}, q[] = {1, 0};
  TYPED_2(tc_ref_add, TC_BOOL, TC_BOOL, out, p, q);
  EXPECT_ALL(out, 1, 0);
  cr_assert_eq(
      RUN(tc_ref_bitwise_not, view(out, TC_BOOL, TC_SHAPE(2)), NO_WORDS, NO_WORDS, view(p, TC_BOOL, TC_SHAPE(2))),
      TC_OK);
  EXPECT_ALL(out, 0, 1);
  cr_assert_eq(RUN(tc_ref_bitwise_not, view(out, TC_U8, TC_SHAPE(2)), NO_WORDS, NO_WORDS, view(a, TC_U8, TC_SHAPE(2))),
               TC_OK);
  EXPECT_ALL(out, 5, 252);
}

Test(ref_elementwise, extremes_and_comparisons_with_nan) {
  const float a[] = {NAN, 1, 2, NAN}, b[] = {1, NAN, 1, NAN};
  float out[4];
  uint8_t flag[4];
  TYPED_2(tc_ref_maximum, TC_F32, TC_F32, out, a, b);
  EXPECT_ALL(out, NAN, NAN, 2, NAN);
  TYPED_2(tc_ref_minimum, TC_F32, TC_F32, out, a, b);
  EXPECT_ALL(out, NAN, NAN, 1, NAN);
  TYPED_2(tc_ref_ne, TC_F32, TC_BOOL, flag, a, b);
  EXPECT_ALL(flag, 1, 1, 1, 1);
  TYPED_2(tc_ref_eq, TC_F32, TC_BOOL, flag, a, b);
  EXPECT_ALL(flag, 0, 0, 0, 0);
  TYPED_2(tc_ref_ge, TC_F32, TC_BOOL, flag, a, b);
  EXPECT_ALL(flag, 0, 0, 1, 0);
  TYPED_2(tc_ref_logical_xor, TC_F32, TC_BOOL, flag, a, b);
  EXPECT_ALL(flag, 0, 0, 0, 0);
}

Test(ref_elementwise, operands_may_be_strided_and_longer_than_a_span) {
  enum { N = 600 };
  static float a[N * 2], out[N * 3];
  const float row[] = {10, 20, 30};
  for (int i = 0; i < N; i++) a[2 * i] = (float)i;
  tc_view x = view_strided(a, TC_F32, TC_SHAPE(N, 3), TC_SHAPE(2, 0)),
          y = view_strided(row, TC_F32, TC_SHAPE(N, 3), TC_SHAPE(0, 1));
  cr_assert_eq(RUN(tc_ref_add, view(out, TC_F32, TC_SHAPE(N, 3)), NO_WORDS, NO_WORDS, x, y), TC_OK);
  for (int i = 0; i < N * 3; i++) cr_assert_eq(out[i], (float)(i / 3) + row[i % 3]);
  tc_view back = view_strided(a + 2 * (N - 1), TC_F32, TC_SHAPE(N), TC_SHAPE(-2));
  cr_assert_eq(RUN(tc_ref_square, view(out, TC_F32, TC_SHAPE(N)), NO_WORDS, NO_WORDS, back), TC_OK);
  for (int i = 0; i < N; i++) cr_assert_eq(out[i], (float)((N - 1 - i) * (N - 1 - i)));
}

Test(ref_elementwise, f16_rounds_once) {
  const uint16_t a[] = {0x3c01}, b[] = {0x3c01};  // (1 + 2^-10)^2 = 1 + 2^-9 + 2^-20
  uint16_t out[1];
  TYPED_2(tc_ref_mul, TC_F16, TC_F16, out, a, b);
  cr_expect_eq(out[0], 0x3c02);
}

Test(ref_elementwise, where_takes_a_bool_and_two_of_a_type) {
  const uint8_t c[] = {1, 0, 1};
  const int64_t a[] = {1, 2, INT64_MAX}, b[] = {4, 5, 6};
  int64_t out[3];
  cr_assert_eq(RUN(tc_ref_where, view(out, TC_I64, TC_SHAPE(3)), NO_WORDS, NO_WORDS, view(c, TC_BOOL, TC_SHAPE(3)),
                   view(a, TC_I64, TC_SHAPE(3)), view(b, TC_I64, TC_SHAPE(3))),
               TC_OK);
  cr_expect(out[0] == 1 && out[1] == 5 && out[2] == INT64_MAX);
}

Test(ref_elementwise, rank_0_and_empty) {
  const float x[] = {4};
  float out[1] = {7};
  cr_assert_eq(RUN(tc_ref_sqrt, view(out, TC_F32, TC_SHAPE(0, 3)), NO_WORDS, NO_WORDS, view(x, TC_F32, TC_SHAPE(0, 3))),
               TC_OK);
  cr_expect_eq(out[0], 7);
  cr_assert_eq(RUN(tc_ref_sqrt, view(out, TC_F32, TC_SCALAR), NO_WORDS, NO_WORDS, view(x, TC_F32, TC_SCALAR)), TC_OK);
  cr_expect_eq(out[0], 2);
}

// x from erfl at a long double of y's neighbourhood: the derivative turns the residual into an
// error of y.
static double erfinv_error(double x) {
  long double y = tc_math_erfinv(x), slope = 2 / sqrtl(M_PI) * expl(-y * y);
  long double residual = x > 0.5 ? (1 - (long double)x) - erfcl(y) : erfl(y) - (long double)x;
  return (double)fabsl(residual / slope / y);
}

Test(ref_elementwise, erfinv_is_accurate_over_the_whole_range) {
  double worst = 0;
  for (int i = 1; i < 100000; i++) worst = fmax(worst, erfinv_error(i / 100000.0));
  for (int e = 1; e <= 53; e++) worst = fmax(worst, erfinv_error(1 - ldexp(1, -e)));
  for (int e = 1; e < 1000; e++) worst = fmax(worst, erfinv_error(ldexp(1, -e)));
  cr_expect_lt(worst, 1e-15, "%g", worst);
  cr_expect_eq(tc_math_erfinv(-0.25), -tc_math_erfinv(0.25));
  cr_expect(same(tc_math_erfinv(-0.0), -0.0));
  cr_expect_eq(tc_math_erfinv(1), INFINITY);
  cr_expect_eq(tc_math_erfinv(-1), -INFINITY);
  cr_expect(isnan(tc_math_erfinv(1.5)) && isnan(tc_math_erfinv(NAN)));
}
