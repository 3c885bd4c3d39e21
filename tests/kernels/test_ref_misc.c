// Movement, generators and matrix products.
#include <stdlib.h>

#include "tests/kernels/ref_call.h"

static const float x23[] = {0, 1, 2, 3, 4, 5};
#define X23 view(x23, TC_F32, TC_SHAPE(2, 3))

Test(ref_misc, reshape_copies_in_row_major_order) {
  float out[6];
  tc_view transposed = view_strided(x23, TC_F32, TC_SHAPE(3, 2), TC_SHAPE(1, 3));
  cr_assert_eq(RUN(tc_ref_reshape, view(out, TC_F32, TC_SHAPE(6)), NO_WORDS, NO_WORDS, transposed), TC_OK);
  EXPECT_ALL(out, 0, 3, 1, 4, 2, 5);
}

Test(ref_misc, permute_expand_flip_and_slice) {
  float out[6], wide[12], part[4];
  cr_assert_eq(RUN(tc_ref_permute, view(out, TC_F32, TC_SHAPE(3, 2)), WORDS(0x0001), NO_WORDS, X23), TC_OK);
  EXPECT_ALL(out, 0, 3, 1, 4, 2, 5);
  cr_assert_eq(
      RUN(tc_ref_expand, view(wide, TC_F32, TC_SHAPE(2, 2, 3)), NO_WORDS, NO_WORDS, view(x23, TC_F32, TC_SHAPE(2, 1))),
      TC_OK);
  EXPECT_ALL(wide, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1);
  cr_assert_eq(RUN(tc_ref_flip, view(out, TC_F32, TC_SHAPE(2, 3)), WORDS(2), NO_WORDS, X23), TC_OK);
  EXPECT_ALL(out, 2, 1, 0, 5, 4, 3);
  cr_assert_eq(RUN(tc_ref_slice, view(part, TC_F32, TC_SHAPE(2, 2)), WORDS((uint64_t)-1, 2), WORDS(1, 0), X23), TC_OK);
  EXPECT_ALL(part, 3, 5, 0, 2);
}

Test(ref_misc, pad_fills_and_crops) {
  float out[8];
  int32_t ints[3];
  cr_assert_eq(
      RUN(tc_ref_pad, view(out, TC_F32, TC_SHAPE(2, 4)), WORDS(1, (uint64_t)-1, (uint64_t)-1, 2), WORDS(bits(9)), X23),
      TC_OK);
  EXPECT_ALL(out, 9, 9, 9, 9, 1, 2, 9, 9);
  const int32_t one[] = {1};
  cr_assert_eq(RUN(tc_ref_pad, view(ints, TC_I32, TC_SHAPE(3)), WORDS(2, 0), WORDS((uint64_t)-4),
                   view(one, TC_I32, TC_SHAPE(1))),
               TC_OK);
  EXPECT_ALL(ints, -4, -4, 1);
}

// Windows of three, two apart, of 0..6, and the way back: 2 and 4 are in two windows.
Test(ref_misc, windows_show_an_axis_and_add_up_to_it) {
  const float line[] = {0, 1, 2, 3, 4, 5, 6};
  float windows[9], back[7];
  cr_assert_eq(RUN(tc_ref_window, view(windows, TC_F32, TC_SHAPE(3, 3)), WORDS(0, 3, 2, 1), NO_WORDS,
                   view(line, TC_F32, TC_SHAPE(7))),
               TC_OK);
  EXPECT_ALL(windows, 0, 1, 2, 2, 3, 4, 4, 5, 6);
  cr_assert_eq(RUN(tc_ref_unwindow, view(back, TC_F32, TC_SHAPE(7)), WORDS(0, 3, 2, 1), NO_WORDS,
                   view(windows, TC_F32, TC_SHAPE(3, 3))),
               TC_OK);
  EXPECT_ALL(back, 0, 1, 4, 3, 8, 5, 6);
  // Of columns: x23 is 0 1 2; 3 4 5. Elements two apart, then what lies between stays zero.
  float pair[4], wide[6];
  cr_assert_eq(RUN(tc_ref_window, view(pair, TC_F32, TC_SHAPE(2, 1, 2)), WORDS(1, 2, 1, 2), NO_WORDS, X23), TC_OK);
  EXPECT_ALL(pair, 0, 2, 3, 5);
  cr_assert_eq(RUN(tc_ref_unwindow, view(wide, TC_F32, TC_SHAPE(2, 3)), WORDS(1, 2, 1, 2), NO_WORDS,
                   view(pair, TC_F32, TC_SHAPE(2, 1, 2))),
               TC_OK);
  EXPECT_ALL(wide, 0, 0, 2, 3, 0, 5);
  // Integers wrap; f16 is added up in double: 2048 + 1 + 1, which f16 alone would leave at 2048.
  const uint8_t bytes[] = {1, 200, 100, 7};
  uint8_t sums[3];
  cr_assert_eq(RUN(tc_ref_unwindow, view(sums, TC_U8, TC_SHAPE(3)), WORDS(0, 2, 1, 1), NO_WORDS,
                   view(bytes, TC_U8, TC_SHAPE(2, 2))),
               TC_OK);
  EXPECT_ALL(sums, 1, 44, 7);
  uint16_t half[9], narrow[5];
  for (int i = 0; i < 9; i++) half[i] = tc_f32_to_f16(i == 2 ? 2048 : 1);
  cr_assert_eq(RUN(tc_ref_unwindow, view(narrow, TC_F16, TC_SHAPE(5)), WORDS(0, 3, 1, 1), NO_WORDS,
                   view(half, TC_F16, TC_SHAPE(3, 3))),
               TC_OK);
  cr_expect_eq(tc_f16_to_f32(narrow[2]), 2050);
}

Test(ref_misc, cat_joins_along_an_axis) {
  const float y[] = {7, 8};
  float out[8];
  tc_view none = view(y, TC_F32, TC_SHAPE(2, 0));
  cr_assert_eq(RUN(tc_ref_cat, view(out, TC_F32, TC_SHAPE(2, 4)), WORDS(1), NO_WORDS, X23, none,
                   view(y, TC_F32, TC_SHAPE(2, 1))),
               TC_OK);
  EXPECT_ALL(out, 0, 1, 2, 7, 3, 4, 5, 8);
}

Test(ref_misc, write_slice_leaves_the_rest) {
  const float value[] = {7, 8};
  float out[6], in_place[] = {0, 1, 2, 3, 4, 5};
  cr_assert_eq(RUN(tc_ref_write_slice, view(out, TC_F32, TC_SHAPE(2, 3)), WORDS(1, 2), WORDS(1, 0), X23,
                   view(value, TC_F32, TC_SHAPE(1, 2))),
               TC_OK);
  EXPECT_ALL(out, 0, 1, 2, 7, 4, 8);
  tc_view v = view(in_place, TC_F32, TC_SHAPE(2, 3));
  cr_assert_eq(RUN(tc_ref_write_slice, v, WORDS(1, 1), WORDS(0, 1), v, view(value, TC_F32, TC_SHAPE(1, 2))), TC_OK);
  EXPECT_ALL(in_place, 0, 7, 8, 3, 4, 5);
}

Test(ref_misc, full_and_iota) {
  float f[3];
  int64_t i[3];
  uint8_t b[2];
  cr_assert_eq(RUN_GEN(tc_ref_full, view(f, TC_F32, TC_SHAPE(3)), WORDS(bits(0.1))), TC_OK);
  cr_expect(f[0] == 0.1f && f[2] == 0.1f);
  cr_assert_eq(RUN_GEN(tc_ref_full, view(i, TC_I64, TC_SHAPE(3)), WORDS((uint64_t)INT64_MAX)), TC_OK);
  cr_expect(i[0] == INT64_MAX && i[2] == INT64_MAX);
  cr_assert_eq(RUN_GEN(tc_ref_full, view(b, TC_BOOL, TC_SHAPE(2)), WORDS(1)), TC_OK);
  EXPECT_ALL(b, 1, 1);
  cr_assert_eq(RUN_GEN(tc_ref_iota, view(f, TC_F32, TC_SHAPE(3)), WORDS(bits(1), bits(-0.5))), TC_OK);
  EXPECT_ALL(f, 1, 0.5, 0);
  cr_assert_eq(RUN_GEN(tc_ref_iota, view(i, TC_I64, TC_SHAPE(3)), WORDS(5, (uint64_t)-3)), TC_OK);
  EXPECT_ALL(i, 5, 2, -1);
}

Test(ref_misc, matmul_of_strided_batches) {
  const float a[] = {1, 2, 3, 4, 5, 6, 7, 8};                              // [2, 2, 2]
  const float b[] = {1, 0, 2, 1};                                          // shared by the batches, transposed
  float out[8];
  tc_view bt = view_strided(b, TC_F32, TC_SHAPE(2, 2, 2), TC_SHAPE(0, 1, 2));  // [[1, 2], [0, 1]]
  cr_assert_eq(RUN(tc_ref_matmul, view(out, TC_F32, TC_SHAPE(2, 2, 2)), NO_WORDS, NO_WORDS,
                   view(a, TC_F32, TC_SHAPE(2, 2, 2)), bt),
               TC_OK);
  EXPECT_ALL(out, 1, 4, 3, 10, 5, 16, 7, 22);
}

Test(ref_misc, matmul_longer_than_a_span_in_every_dimension) {
  enum { M = 3, K = 300, N = 270 };
  int32_t *a = malloc(M * K * sizeof *a), *b = malloc(K * N * sizeof *b), *out = malloc(M * N * sizeof *out);
  for (int i = 0; i < M * K; i++) a[i] = i % 11 - 5;
  for (int i = 0; i < K * N; i++) b[i] = i % 13 - 6;
  cr_assert_eq(RUN(tc_ref_matmul, view(out, TC_I32, TC_SHAPE(M, N)), NO_WORDS, NO_WORDS,
                   view(a, TC_I32, TC_SHAPE(M, K)), view(b, TC_I32, TC_SHAPE(K, N))),
               TC_OK);
  for (int i = 0; i < M; i++) {
    for (int j = 0; j < N; j++) {
      int32_t sum = 0;
      for (int p = 0; p < K; p++) sum += a[i * K + p] * b[p * N + j];
      cr_assert_eq(out[i * N + j], sum);
    }
  }
  free(a), free(b), free(out);
}

Test(ref_misc, matmul_over_nothing_is_0) {
  float out[] = {7, 7};
  cr_assert_eq(RUN(tc_ref_matmul, view(out, TC_F32, TC_SHAPE(1, 2)), NO_WORDS, NO_WORDS,
                   view(x23, TC_F32, TC_SHAPE(1, 0)), view(x23, TC_F32, TC_SHAPE(0, 2))),
               TC_OK);
  EXPECT_ALL(out, 0, 0);
}
