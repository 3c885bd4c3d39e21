// Indexed kernels: layouts as in torch, wrapping of negative indices, order of duplicates, errors.
#include "tests/kernels/ref_call.h"

static const float x23[] = {0, 1, 2, 10, 11, 12};  // [2, 3]
#define X23 view(x23, TC_F32, TC_SHAPE(2, 3))

Test(ref_index, gather_picks_along_the_axis) {
  const int64_t index[] = {2, -3, 1, 1};
  float out[4];
  cr_assert_eq(RUN(tc_ref_gather, view(out, TC_F32, TC_SHAPE(2, 2)), WORDS(1), NO_WORDS, X23,
                   view(index, TC_I64, TC_SHAPE(2, 2))),
               TC_OK);
  EXPECT_ALL(out, 2, 0, 11, 11);
  const int32_t rows[] = {1, 0, -1};
  float three[3];
  cr_assert_eq(RUN(tc_ref_gather, view(three, TC_F32, TC_SHAPE(1, 3)), WORDS(0), NO_WORDS, X23,
                   view(rows, TC_I32, TC_SHAPE(1, 3))),
               TC_OK);
  EXPECT_ALL(three, 10, 1, 12);
  const int64_t one[] = {1};
  float nine[6];
  tc_view spread = view_strided(one, TC_I64, TC_SHAPE(2, 3), TC_SHAPE(0, 0));  // a broadcast index
  cr_assert_eq(RUN(tc_ref_gather, view(nine, TC_F32, TC_SHAPE(2, 3)), WORDS(0), NO_WORDS, X23, spread), TC_OK);
  EXPECT_ALL(nine, 10, 11, 12, 10, 11, 12);
  cr_assert_eq(RUN(tc_ref_gather, view(nine, TC_F32, TC_SHAPE(2, 3)), WORDS(1), NO_WORDS, X23, spread), TC_OK);
  EXPECT_ALL(nine, 1, 1, 1, 11, 11, 11);
}

Test(ref_index, index_select_replaces_the_axis_by_the_indexs_axes) {
  const int64_t index[] = {1, -1, 0, 1};
  float rows[12], columns[8];
  cr_assert_eq(RUN(tc_ref_index_select, view(rows, TC_F32, TC_SHAPE(2, 2, 3)), WORDS(0), NO_WORDS, X23,
                   view(index, TC_I64, TC_SHAPE(2, 2))),
               TC_OK);
  EXPECT_ALL(rows, 10, 11, 12, 10, 11, 12, 0, 1, 2, 10, 11, 12);
  cr_assert_eq(RUN(tc_ref_index_select, view(columns, TC_F32, TC_SHAPE(2, 2, 2)), WORDS(1), NO_WORDS, X23,
                   view(index, TC_I64, TC_SHAPE(2, 2))),
               TC_OK);
  EXPECT_ALL(columns, 1, 2, 0, 1, 11, 12, 10, 11);
  float row[3];
  cr_assert_eq(
      RUN(tc_ref_index_select, view(row, TC_F32, TC_SHAPE(3)), WORDS(0), NO_WORDS, X23, view(index, TC_I64, TC_SCALAR)),
      TC_OK);
  EXPECT_ALL(row, 10, 11, 12);
}

Test(ref_index, select_of_a_strided_operand) {
  const int64_t index[] = {2, 0};
  float out[4];
  tc_view transposed = view_strided(x23, TC_F32, TC_SHAPE(3, 2), TC_SHAPE(1, 3));
  cr_assert_eq(RUN(tc_ref_index_select, view(out, TC_F32, TC_SHAPE(2, 2)), WORDS(0), NO_WORDS, transposed,
                   view(index, TC_I64, TC_SHAPE(2))),
               TC_OK);
  EXPECT_ALL(out, 2, 12, 0, 10);
}

Test(ref_index, scatter_keeps_the_last_of_several) {
  const int64_t index[] = {0, 2, 0, 1, 1, -1};
  const float src[] = {1, 2, 3, 4, 5, 6};
  float out[6];
  cr_assert_eq(RUN(tc_ref_scatter, view(out, TC_F32, TC_SHAPE(2, 3)), WORDS(1), NO_WORDS, X23,
                   view(index, TC_I64, TC_SHAPE(2, 3)), view(src, TC_F32, TC_SHAPE(2, 3))),
               TC_OK);
  EXPECT_ALL(out, 3, 1, 2, 10, 5, 6);
  cr_assert_eq(RUN(tc_ref_scatter_add, view(out, TC_F32, TC_SHAPE(2, 3)), WORDS(1), NO_WORDS, X23,
                   view(index, TC_I64, TC_SHAPE(2, 3)), view(src, TC_F32, TC_SHAPE(2, 3))),
               TC_OK);
  EXPECT_ALL(out, 4, 1, 4, 10, 20, 18);
}

// src may be larger than the index; only the index's box of it is read.
Test(ref_index, scatter_reads_the_indexs_box_of_src) {
  const int64_t index[] = {1};
  const float src[] = {7, 8, 9, 9};
  float out[6];
  cr_assert_eq(RUN(tc_ref_scatter, view(out, TC_F32, TC_SHAPE(2, 3)), WORDS(0), NO_WORDS, X23,
                   view(index, TC_I64, TC_SHAPE(1, 1)), view(src, TC_F32, TC_SHAPE(2, 2))),
               TC_OK);
  EXPECT_ALL(out, 0, 1, 2, 7, 11, 12);
}

static void expect_index_add(tc_type type) {
  enum { ROWS = 3, COLUMNS = 300, N = 5 };  // longer than a span
  const int64_t index[N] = {2, 0, 2, -1, 0};
  uint64_t x[ROWS * COLUMNS] = {0}, src[N * COLUMNS], out[ROWS * COLUMNS];
  for (int i = 0; i < N * COLUMNS; i++) tc_set_i64(type, src, i, i % 7);
  cr_assert_eq(RUN(tc_ref_index_add, view(out, type, TC_SHAPE(ROWS, COLUMNS)), WORDS(0), NO_WORDS,
                   view(x, type, TC_SHAPE(ROWS, COLUMNS)), view(index, TC_I64, TC_SHAPE(N)),
                   view(src, type, TC_SHAPE(N, COLUMNS))),
               TC_OK);
  int64_t expected[ROWS * COLUMNS] = {0};
  for (int i = 0; i < N * COLUMNS; i++) expected[(index[i / COLUMNS] + ROWS) % ROWS * COLUMNS + i % COLUMNS] += i % 7;
  for (int i = 0; i < ROWS * COLUMNS; i++) {
    int64_t want = type == TC_BOOL ? expected[i] != 0 : expected[i];
    cr_assert_eq(tc_get_i64(type, out, i), want, "type %d [%d]", type, i);
  }
}

Test(ref_index, index_add_in_every_type) {
  for (int type = 0; type < TC_N_TYPES; type++) expect_index_add((tc_type)type);
}

Test(ref_index, index_add_to_columns_in_place) {
  float x[] = {0, 1, 2, 10, 11, 12};
  const int64_t index[] = {1, 1};
  const float src[] = {1, 2, 3, 4};
  tc_view v = view(x, TC_F32, TC_SHAPE(2, 3));
  cr_assert_eq(RUN(tc_ref_index_add, v, WORDS(1), NO_WORDS, v, view(index, TC_I64, TC_SHAPE(2)),
                   view(src, TC_F32, TC_SHAPE(2, 2))),
               TC_OK);
  EXPECT_ALL(x, 0, 4, 2, 10, 18, 12);
}

Test(ref_index, f16_sums_do_not_stall) {
  enum { N = 4096 };
  static uint16_t src[N];
  static int64_t index[N];
  uint16_t x[1] = {0}, out[1];
  for (int i = 0; i < N; i++) src[i] = tc_f32_to_f16(1);
  cr_assert_eq(RUN(tc_ref_scatter_add, view(out, TC_F16, TC_SHAPE(1)), WORDS(0), NO_WORDS, view(x, TC_F16, TC_SHAPE(1)),
                   view(index, TC_I64, TC_SHAPE(N)), view(src, TC_F16, TC_SHAPE(N))),
               TC_OK);
  cr_expect_eq(tc_f16_to_f32(out[0]), N);
}

Test(ref_index, out_of_range_is_an_error) {
  const int64_t high[] = {0, 3}, low[] = {0, -4};
  float out[6];
  cr_expect_eq(RUN(tc_ref_index_select, view(out, TC_F32, TC_SHAPE(2, 2)), WORDS(1), NO_WORDS, X23,
                   view(high, TC_I64, TC_SHAPE(2))),
               TC_ERR_INDEX);
  cr_expect_eq(
      RUN(tc_ref_gather, view(out, TC_F32, TC_SHAPE(1, 2)), WORDS(1), NO_WORDS, X23, view(low, TC_I64, TC_SHAPE(1, 2))),
      TC_ERR_INDEX);
  cr_expect_eq(RUN(tc_ref_index_add, view(out, TC_F32, TC_SHAPE(2, 3)), WORDS(1), NO_WORDS, X23,
                   view(low, TC_I64, TC_SHAPE(2)), view(x23, TC_F32, TC_SHAPE(2, 2))),
               TC_ERR_INDEX);
  cr_expect_eq(RUN(tc_ref_gather, view(out, TC_F32, TC_SHAPE(0)), WORDS(0), NO_WORDS, view(x23, TC_F32, TC_SHAPE(0)),
                   view(high, TC_I64, TC_SHAPE(0))),
               TC_OK);
  cr_expect_eq(RUN(tc_ref_gather, view(out, TC_F32, TC_SHAPE(1)), WORDS(0), NO_WORDS, view(x23, TC_F32, TC_SHAPE(0)),
                   view(high, TC_I64, TC_SHAPE(1))),
               TC_ERR_INDEX);
}
