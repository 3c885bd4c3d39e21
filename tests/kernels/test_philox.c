// Philox against the known answers of Random123 (kat_vectors), and the draws that are defined on
// top of it.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/philox.h"
#include "tests/kernels/ref_call.h"

static void expect_block(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1,
                         const uint32_t expected[4]) {
  uint32_t out[4];
  tc_philox4x32((const uint32_t[]){c0, c1, c2, c3}, (const uint32_t[]){k0, k1}, out);
  for (int i = 0; i < 4; i++) cr_expect_eq(out[i], expected[i], "word %d: %08x, expected %08x", i, out[i], expected[i]);
}

Test(philox, gives_the_known_answers) {
  expect_block(0, 0, 0, 0, 0, 0, (const uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  uint32_t f = 0xffffffff;
  expect_block(f, f, f, f, f, f, (const uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  expect_block(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0,
               (const uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

Test(philox, uniform_f32_are_the_words_top_bits) {
  float out[5];
  cr_assert_eq(RUN_GEN(tc_ref_rand, view(out, TC_F32, TC_SHAPE(5)), WORDS(0, 0)), TC_OK);
  cr_expect_eq(out[0], (float)(0x6627e8 * 0x1p-24));
  cr_expect_eq(out[3], (float)(0x9b00db * 0x1p-24));
  uint32_t next[4];
  tc_philox4x32((const uint32_t[]){1, 0, 0, 0}, (const uint32_t[]){0, 0}, next);
  cr_expect_eq(out[4], (float)((next[0] >> 8) * 0x1p-24));
}

Test(philox, seed_is_the_key_and_counter_the_upper_words) {
  uint32_t words[4];
  float out[1];
  tc_philox4x32((const uint32_t[]){0, 0, 3, 4}, (const uint32_t[]){1, 2}, words);
  cr_assert_eq(
      RUN_GEN(tc_ref_rand, view(out, TC_F32, TC_SHAPE(1)), WORDS(UINT64_C(2) << 32 | 1, UINT64_C(4) << 32 | 3)), TC_OK);
  cr_expect_eq(out[0], (float)((words[0] >> 8) * 0x1p-24));
}

Test(philox, uniform_f64_takes_two_words) {
  double out[2];
  cr_assert_eq(RUN_GEN(tc_ref_rand, view(out, TC_F64, TC_SHAPE(2)), WORDS(0, 0)), TC_OK);
  cr_expect_eq(out[0], (double)(UINT64_C(0xe169c58d6627e8d5) >> 11) * 0x1p-53);
  cr_expect_eq(out[1], (double)(UINT64_C(0x9b00dbd8bc57ac4c) >> 11) * 0x1p-53);
}

Test(philox, integers_stay_in_range_and_cover_it) {
  int64_t out[1000];
  int n_of[7] = {0};
  cr_assert_eq(RUN_GEN(tc_ref_randint, view(out, TC_I64, TC_SHAPE(1000)), WORDS(7, 1, (uint64_t)-3, 4)), TC_OK);
  for (int i = 0; i < 1000; i++) {
    cr_assert(out[i] >= -3 && out[i] < 4);
    n_of[out[i] + 3]++;
  }
  for (int i = 0; i < 7; i++) cr_expect_gt(n_of[i], 100);
  cr_expect_eq(RUN_GEN(tc_ref_randint, view(out, TC_I64, TC_SHAPE(1000)), WORDS(7, 1, 4, 4)), TC_ERR_ARG);
}

Test(philox, normals_have_mean_0_and_variance_1) {
  enum { N = 40000 };
  double *out = malloc(N * sizeof *out), sum = 0, squares = 0, fourth = 0;
  cr_assert_eq(RUN_GEN(tc_ref_randn, view(out, TC_F64, TC_SHAPE(N)), WORDS(11, 5)), TC_OK);
  for (int i = 0; i < N; i++) sum += out[i], squares += out[i] * out[i], fourth += pow(out[i], 4);
  free(out);
  cr_expect_lt(fabs(sum / N), 0.02);
  cr_expect_lt(fabs(squares / N - 1), 0.03);
  cr_expect_lt(fabs(fourth / N - 3), 0.25);
}

Test(philox, randperm_is_a_permutation_that_depends_on_the_counter) {
  int64_t first[1000], second[1000];
  bool seen[1000] = {false};
  int n_same = 0;
  cr_assert_eq(RUN_GEN(tc_ref_randperm, view(first, TC_I64, TC_SHAPE(1000)), WORDS(1, 1)), TC_OK);
  cr_assert_eq(RUN_GEN(tc_ref_randperm, view(second, TC_I64, TC_SHAPE(1000)), WORDS(1, 2)), TC_OK);
  for (int i = 0; i < 1000; i++) {
    cr_assert(first[i] >= 0 && first[i] < 1000 && !seen[first[i]]);
    seen[first[i]] = true;
    n_same += first[i] == second[i];
  }
  cr_expect_lt(n_same, 20);
  cr_expect_eq(RUN_GEN(tc_ref_randperm, view(first, TC_I64, TC_SHAPE(0)), WORDS(1, 1)), TC_OK);
}
