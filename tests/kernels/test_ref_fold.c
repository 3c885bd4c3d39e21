// Folds, scans and softmax: axes, NaN, ties, empties, accumulation.
#include <stdlib.h>

#include "tests/kernels/ref_call.h"

static const float grid[] = {3, 1, 4, 1, 5, 9};  // [2, 3]
#define GRID view(grid, TC_F32, TC_SHAPE(2, 3))
#define KEEPDIM (1 << 8)

Test(ref_fold, sums_over_any_axes) {
  float all[1], rows[2], columns[3], same_shape[6];
  cr_assert_eq(RUN(tc_ref_sum, view(all, TC_F32, TC_SCALAR), WORDS(3), NO_WORDS, GRID), TC_OK);
  EXPECT_ALL(all, 23);
  cr_assert_eq(RUN(tc_ref_sum, view(rows, TC_F32, TC_SHAPE(2, 1)), WORDS(2 | KEEPDIM), NO_WORDS, GRID), TC_OK);
  EXPECT_ALL(rows, 8, 15);
  cr_assert_eq(RUN(tc_ref_prod, view(columns, TC_F32, TC_SHAPE(3)), WORDS(1), NO_WORDS, GRID), TC_OK);
  EXPECT_ALL(columns, 3, 5, 36);
  cr_assert_eq(RUN(tc_ref_sum, view(same_shape, TC_F32, TC_SHAPE(2, 3)), WORDS(0), NO_WORDS, GRID), TC_OK);
  EXPECT_ALL(same_shape, 3, 1, 4, 1, 5, 9);
}

Test(ref_fold, folded_axes_may_lie_apart_and_be_strided) {
  float x[24], out[3];
  for (int i = 0; i < 24; i++) x[i] = (float)i;
  tc_view v = view_strided(x, TC_F32, TC_SHAPE(2, 3, 4), TC_SHAPE(1, 2, 6));  // a permuted [4, 3, 2]
  cr_assert_eq(RUN(tc_ref_sum, view(out, TC_F32, TC_SHAPE(3)), WORDS(5), NO_WORDS, v), TC_OK);
  EXPECT_ALL(out, 76, 92, 108);
}

Test(ref_fold, empty_sums_are_0_and_products_1) {
  float out[2];
  uint8_t flag[2];
  tc_view none = view(grid, TC_F32, TC_SHAPE(2, 0));
  cr_assert_eq(RUN(tc_ref_sum, view(out, TC_F32, TC_SHAPE(2)), WORDS(2), NO_WORDS, none), TC_OK);
  EXPECT_ALL(out, 0, 0);
  cr_assert_eq(RUN(tc_ref_prod, view(out, TC_F32, TC_SHAPE(2)), WORDS(2), NO_WORDS, none), TC_OK);
  EXPECT_ALL(out, 1, 1);
  cr_assert_eq(RUN(tc_ref_any, view(flag, TC_BOOL, TC_SHAPE(2)), WORDS(2), NO_WORDS, none), TC_OK);
  EXPECT_ALL(flag, 0, 0);
  cr_assert_eq(RUN(tc_ref_all, view(flag, TC_BOOL, TC_SHAPE(2)), WORDS(2), NO_WORDS, none), TC_OK);
  EXPECT_ALL(flag, 1, 1);
  cr_expect_eq(RUN(tc_ref_max, view(out, TC_F32, TC_SHAPE(2)), WORDS(2), NO_WORDS, none), TC_ERR_SHAPE);
  cr_expect_eq(RUN(tc_ref_argmin, view(out, TC_F32, TC_SHAPE(2)), WORDS(2), NO_WORDS, none), TC_ERR_SHAPE);
  cr_expect_eq(RUN(tc_ref_max, view(out, TC_F32, TC_SHAPE(0)), WORDS(1), NO_WORDS, view(grid, TC_F32, TC_SHAPE(2, 0))),
               TC_OK);
}

Test(ref_fold, f32_sums_round_once_and_small_integers_do_not_wrap) {
  enum { N = 100000 };
  float *x = malloc(N * sizeof *x), out[1];
  uint8_t ones[300];
  int64_t n[1];
  for (int i = 0; i < N; i++) x[i] = 0.1f;
  memset(ones, 1, sizeof ones);
  cr_assert_eq(RUN(tc_ref_sum, view(out, TC_F32, TC_SCALAR), WORDS(1), NO_WORDS, view(x, TC_F32, TC_SHAPE(N))), TC_OK);
  cr_expect_eq(out[0], (float)(N * (double)0.1f));
  cr_assert_eq(RUN(tc_ref_sum, view(n, TC_I64, TC_SCALAR), WORDS(1), NO_WORDS, view(ones, TC_BOOL, TC_SHAPE(300))),
               TC_OK);
  cr_expect_eq(n[0], 300);
  free(x);
}

Test(ref_fold, extremes_take_the_first_and_nan_wins) {
  const double x[] = {1, 7, 7, 0, 0, NAN, 5, NAN};  // [2, 4]
  double value[2];
  int64_t at[2], flat[1];
  tc_view v = view(x, TC_F64, TC_SHAPE(2, 4));
  cr_assert_eq(RUN(tc_ref_max, view(value, TC_F64, TC_SHAPE(2)), WORDS(2), NO_WORDS, v), TC_OK);
  EXPECT_ALL(value, 7, NAN);
  cr_assert_eq(RUN(tc_ref_min, view(value, TC_F64, TC_SHAPE(2)), WORDS(2), NO_WORDS, v), TC_OK);
  EXPECT_ALL(value, 0, NAN);
  cr_assert_eq(RUN(tc_ref_argmax, view(at, TC_I64, TC_SHAPE(2)), WORDS(2), NO_WORDS, v), TC_OK);
  EXPECT_ALL(at, 1, 1);
  cr_assert_eq(RUN(tc_ref_argmin, view(at, TC_I64, TC_SHAPE(2)), WORDS(2), NO_WORDS, v), TC_OK);
  EXPECT_ALL(at, 3, 1);
  cr_assert_eq(RUN(tc_ref_argmax, view(flat, TC_I64, TC_SCALAR), WORDS(3), NO_WORDS, v), TC_OK);
  EXPECT_ALL(flat, 5);
  const int64_t big[] = {INT64_MIN, INT64_MAX - 1, INT64_MAX};
  cr_assert_eq(RUN(tc_ref_argmax, view(flat, TC_I64, TC_SCALAR), WORDS(1), NO_WORDS, view(big, TC_I64, TC_SHAPE(3))),
               TC_OK);
  EXPECT_ALL(flat, 2);
  const float low[] = {-INFINITY};
  cr_assert_eq(RUN(tc_ref_argmax, view(flat, TC_I64, TC_SCALAR), WORDS(0), NO_WORDS, view(low, TC_F32, TC_SCALAR)),
               TC_OK);
  EXPECT_ALL(flat, 0);
}

Test(ref_fold, any_and_all_give_bools) {
  const float x[] = {0, NAN, 0, 0};  // [2, 2]
  uint8_t out[2];
  cr_assert_eq(RUN(tc_ref_any, view(out, TC_BOOL, TC_SHAPE(2)), WORDS(2), NO_WORDS, view(x, TC_F32, TC_SHAPE(2, 2))),
               TC_OK);
  EXPECT_ALL(out, 1, 0);
  cr_assert_eq(RUN(tc_ref_all, view(out, TC_BOOL, TC_SHAPE(2)), WORDS(2), NO_WORDS, view(x, TC_F32, TC_SHAPE(2, 2))),
               TC_OK);
  EXPECT_ALL(out, 0, 0);
}

Test(ref_fold, scans_run_along_their_axis) {
  float out[6];
  cr_assert_eq(RUN(tc_ref_cumsum, view(out, TC_F32, TC_SHAPE(2, 3)), WORDS(1), NO_WORDS, GRID), TC_OK);
  EXPECT_ALL(out, 3, 4, 8, 1, 6, 15);
  cr_assert_eq(RUN(tc_ref_cumprod, view(out, TC_F32, TC_SHAPE(2, 3)), WORDS(0), NO_WORDS, GRID), TC_OK);
  EXPECT_ALL(out, 3, 1, 4, 3, 5, 36);
  const double x[] = {-5, -7, 2, NAN, 9};
  double most[5];
  cr_assert_eq(RUN(tc_ref_cummax, view(most, TC_F64, TC_SHAPE(5)), WORDS(0), NO_WORDS, view(x, TC_F64, TC_SHAPE(5))),
               TC_OK);
  EXPECT_ALL(most, -5, -5, 2, NAN, NAN);
}

Test(ref_fold, long_scans_carry_over_spans) {
  static int32_t x[1000];
  static int64_t out[1000];
  for (int i = 0; i < 1000; i++) x[i] = i;
  cr_assert_eq(
      RUN(tc_ref_cumsum, view(out, TC_I64, TC_SHAPE(1000)), WORDS(0), NO_WORDS, view(x, TC_I32, TC_SHAPE(1000))),
      TC_OK);
  for (int64_t i = 0; i < 1000; i++) cr_assert_eq(out[i], i * (i + 1) / 2);
  cr_assert_eq(RUN(tc_ref_cumsum, view(out, TC_I64, TC_SCALAR), WORDS(0), NO_WORDS, view(x + 5, TC_I32, TC_SCALAR)),
               TC_OK);
  cr_expect_eq(out[0], 5);
}

Test(ref_fold, softmax_is_stable_and_sums_to_1) {
  const float x[] = {1000, 1001, 1002, -INFINITY, 0, -INFINITY};
  float out[6];
  cr_assert_eq(
      RUN(tc_ref_softmax, view(out, TC_F32, TC_SHAPE(2, 3)), WORDS(1), NO_WORDS, view(x, TC_F32, TC_SHAPE(2, 3))),
      TC_OK);
  cr_expect_float_eq(out[0], 0.09003057f, 1e-7);
  cr_expect_float_eq(out[2], 0.66524096f, 1e-7);
  cr_expect(out[3] == 0 && out[4] == 1 && out[5] == 0);
  cr_assert_eq(
      RUN(tc_ref_log_softmax, view(out, TC_F32, TC_SHAPE(2, 3)), WORDS(1), NO_WORDS, view(x, TC_F32, TC_SHAPE(2, 3))),
      TC_OK);
  cr_expect_float_eq(out[0], -2.407606f, 1e-6);
  cr_expect(out[3] == -INFINITY && out[4] == 0);
  const double spoiled[] = {1, NAN, -INFINITY, -INFINITY};
  double nan[4];
  cr_assert_eq(
      RUN(tc_ref_softmax, view(nan, TC_F64, TC_SHAPE(2, 2)), WORDS(1), NO_WORDS, view(spoiled, TC_F64, TC_SHAPE(2, 2))),
      TC_OK);
  EXPECT_ALL(nan, NAN, NAN, NAN, NAN);
}

Test(ref_fold, softmax_along_a_long_inner_lane) {
  static double x[700 * 2], out[700 * 2];
  cr_assert_eq(
      RUN(tc_ref_softmax, view(out, TC_F64, TC_SHAPE(700, 2)), WORDS(0), NO_WORDS, view(x, TC_F64, TC_SHAPE(700, 2))),
      TC_OK);
  for (int i = 0; i < 1400; i++) cr_assert_float_eq(out[i], 1 / 700.0, 1e-17);
}
