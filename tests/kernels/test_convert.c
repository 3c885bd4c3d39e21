// Conversions: every f16 and bf16, every midpoint between neighbours, and the edges of the
// integers.
#include "tests/kernels/ref_call.h"

static bool is_nan16(uint16_t v, uint16_t inf) {
  return (v & 0x7fff) > inf;
}

Test(convert, every_f16_survives_a_round_trip) {
  for (uint32_t v = 0; v < 65536; v++) {
    uint16_t quiet = is_nan16((uint16_t)v, 0x7c00) ? 0x200 : 0;
    cr_assert_eq(tc_f32_to_f16(tc_f16_to_f32((uint16_t)v)), (uint16_t)(v | quiet), "%04x", v);
  }
}

Test(convert, every_bf16_survives_a_round_trip) {
  for (uint32_t v = 0; v < 65536; v++) {
    uint16_t quiet = is_nan16((uint16_t)v, 0x7f80) ? 0x40 : 0;
    cr_assert_eq(tc_f32_to_bf16(tc_bf16_to_f32((uint16_t)v)), (uint16_t)(v | quiet), "%04x", v);
  }
}

Test(convert, f16_values_are_what_the_format_says) {
  for (uint32_t v = 0; v < 0x7c00; v++) {
    double expected = v < 0x400 ? ldexp(v, -24) : ldexp(1024 + (v & 1023), (int)(v >> 10) - 25);
    cr_assert_eq(tc_f16_to_f32((uint16_t)v), expected, "%04x", v);
  }
}

// Between neighbours lo and lo + 1 the middle goes to the even one, and anything off the middle to
// the nearer.
static void expect_nearest_even(tc_type type, uint16_t lo, double x, double y) {
  double middle = x + (y - x) / 2;
  uint16_t out[3];
  tc_set_f64(type, out, 0, middle);
  tc_set_f64(type, out, 1, nextafter(middle, x));
  tc_set_f64(type, out, 2, nextafter(middle, y));
  cr_assert_eq(out[0], lo & 1 ? lo + 1 : lo, "%04x", lo);
  cr_assert_eq(out[1], lo, "%04x", lo);
  cr_assert_eq(out[2], lo + 1, "%04x", lo);
}

Test(convert, doubles_round_once_to_nearest_even) {
  for (uint16_t v = 0; v < 0x7bff; v++)
    expect_nearest_even(TC_F16, v, (double)tc_f16_to_f32(v), (double)tc_f16_to_f32(v + 1));
  for (uint16_t v = 0; v < 0x7f7f; v++)
    expect_nearest_even(TC_BF16, v, (double)tc_bf16_to_f32(v), (double)tc_bf16_to_f32(v + 1));
}

Test(convert, overflow_goes_to_infinity_at_the_last_midpoint) {
  cr_expect_eq(tc_f32_to_f16(65519.996f), 0x7bff);
  cr_expect_eq(tc_f32_to_f16(65520.0f), 0x7c00);
  cr_expect_eq(tc_f32_to_f16(-INFINITY), 0xfc00);
  cr_expect_eq(tc_f32_to_f16(-1e-30f), 0x8000);
  cr_expect_eq(tc_f32_to_bf16(3.4e38f), 0x7f80);
  cr_expect_eq(tc_f32_to_bf16(0x1p-133f), 1);
}

Test(convert, floats_saturate_as_integers_and_nan_is_0) {
  const double in[] = {1e30, -1e30, NAN, INFINITY, -1.9, 300.7};
  int8_t i8[6];
  uint8_t u8[6], b[6];
  int32_t i32[6];
  int64_t i64[6];
  tc_view x = view(in, TC_F64, TC_SHAPE(6));
  cr_assert_eq(RUN(tc_ref_cast, view(i8, TC_I8, TC_SHAPE(6)), NO_WORDS, NO_WORDS, x), TC_OK);
  cr_assert_eq(RUN(tc_ref_cast, view(u8, TC_U8, TC_SHAPE(6)), NO_WORDS, NO_WORDS, x), TC_OK);
  cr_assert_eq(RUN(tc_ref_cast, view(i32, TC_I32, TC_SHAPE(6)), NO_WORDS, NO_WORDS, x), TC_OK);
  cr_assert_eq(RUN(tc_ref_cast, view(i64, TC_I64, TC_SHAPE(6)), NO_WORDS, NO_WORDS, x), TC_OK);
  cr_assert_eq(RUN(tc_ref_cast, view(b, TC_BOOL, TC_SHAPE(6)), NO_WORDS, NO_WORDS, x), TC_OK);
  EXPECT_ALL(i8, 127, -128, 0, 127, -1, 127);
  EXPECT_ALL(u8, 255, 0, 0, 255, 0, 255);
  EXPECT_ALL(i32, INT32_MAX, INT32_MIN, 0, INT32_MAX, -1, 300);
  EXPECT_ALL(b, 1, 1, 1, 1, 1, 1);
  cr_expect_eq(i64[0], INT64_MAX);
  cr_expect_eq(i64[1], INT64_MIN);
}

Test(convert, integers_wrap_and_large_ones_round_once) {
  const int64_t in[] = {300, -1, 256};
  uint8_t u8[3], b[3];
  cr_assert_eq(RUN(tc_ref_cast, view(u8, TC_U8, TC_SHAPE(3)), NO_WORDS, NO_WORDS, view(in, TC_I64, TC_SHAPE(3))),
               TC_OK);
  cr_assert_eq(RUN(tc_ref_cast, view(b, TC_BOOL, TC_SHAPE(3)), NO_WORDS, NO_WORDS, view(in, TC_I64, TC_SHAPE(3))),
               TC_OK);
  EXPECT_ALL(u8, 44, 255, 0);
  EXPECT_ALL(b, 1, 1, 1);
  float f;
  uint16_t h;
  // just above a midpoint; by way of double it would be one
  tc_set_i64(TC_F32, &f, 0, (INT64_C(1) << 60) + (INT64_C(1) << 36) + 1);
  cr_expect_eq(f, (float)((INT64_C(1) << 60) + (INT64_C(1) << 37)));
  tc_set_i64(TC_BF16, &h, 0, (INT64_C(1) << 60) + (INT64_C(1) << 52) + 1);
  cr_expect_eq(tc_bf16_to_f32(h), (float)((INT64_C(1) << 60) + (INT64_C(1) << 53)));
  tc_set_i64(TC_BF16, &h, 0, -(INT64_C(1) << 60) - (INT64_C(1) << 52));
  cr_expect_eq(tc_bf16_to_f32(h), -0x1p60f);
}
