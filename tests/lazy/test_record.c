// What is recorded, and what of it names a plan: with a fake evaluator, which tells what it was
// given to lower. See fake_lowering.h.
#include <criterion/criterion.h>
#include <tc/tc.h>

#include "tests/lazy/fake_lowering.h"

static tc_tensor vector(float a, float b) {
  return tc_from_host((const float[]){a, b}, TC_SHAPE(2), TC_F32);
}

// Reads t, in a scope of its own, and releases it.
static void run(tc_tensor t) {
  cr_assert_eq(tc_eval(1, &t), TC_OK, "%s", tc_last_error()->message);
}

#define EXPECT_LOWERED(n, ...) cr_expect_eq(fake.n_lowered, n, "plans lowered: %d, should be %d", fake.n_lowered, n)

Test(record, recording_lowers_and_launches_nothing) {
  tc_tensor x = vector(1, 2), y = tc_relu(tc_add(x, tc_mul(x, x)));
  cr_expect(tc_is_valid(y));
  cr_expect_eq(fake.n_lowered + fake.n_launched, 0);
}

Test(record, records_stand_in_the_order_of_the_program) {
  tc_tensor x = vector(1, 2), a = tc_exp(x), b = tc_neg(x);
  run(tc_sub(a, b));
  cr_expect_str_eq(fake.ops, "leaf exp neg sub");
}

Test(record, a_leaf_that_is_used_twice_is_one_record) {
  tc_tensor x = vector(1, 2);
  run(tc_add(x, x));
  cr_expect_str_eq(fake.ops, "leaf add");
  cr_expect_eq(fake.last.n_leaf, 1);
}

Test(record, what_nobody_reads_is_recorded_all_the_same) {
  tc_tensor x = vector(1, 2);
  tc_release(tc_keep(tc_exp(x)));
  run(tc_neg(x));
  cr_expect_str_eq(fake.ops, "leaf exp neg");
  cr_expect_eq(fake.last.n_out, 1, "and not stored: %u outputs", fake.last.n_out);
}

Test(record, an_operand_of_another_type_is_cast_by_a_record) {
  tc_tensor x = vector(1, 2), i = tc_from_host((const int32_t[]){1, 2}, TC_SHAPE(2), TC_I32);
  run(tc_add(x, i));
  cr_expect_str_eq(fake.ops, "leaf leaf cast add");
}

Test(record, a_wrong_call_records_nothing) {
  tc_tensor x = vector(1, 2), wrong = tc_add(x, tc_from_host((const float[]){1, 2, 3}, TC_SHAPE(3), TC_F32));
  cr_expect_not(tc_is_valid(wrong));
  tc_clear_error();
  run(tc_neg(x));
  cr_expect_str_eq(fake.ops, "leaf leaf neg");
}

Test(record, a_backward_records_gradients_and_launches_nothing) {
  tc_tensor x = tc_param(vector(1, 2));
  cr_assert_eq(tc_backward(tc_sum(tc_exp(x), TC_ALL, false)), TC_OK);
  cr_expect_eq(fake.n_lowered + fake.n_launched, 0);
  tc_release(x);
}

// ---- what a plan is named by ----

static tc_tensor scaled(float a, float b, double by) {
  return tc_mul(vector(a, b), by);
}

Test(record, other_addresses_values_and_scalars_are_the_same_plan) {
  run(scaled(1, 2, 3.0));
  run(scaled(5, 6, 4.0));
  EXPECT_LOWERED(1);
  cr_expect_eq(fake.n_launched, 2);
}

Test(record, scalars_are_arguments_of_the_launch) {
  double want = 4.0, got;
  run(scaled(1, 2, 3.0));
  run(scaled(1, 2, want));
  cr_assert_eq(fake.last.n_arg, 1);
  memcpy(&got, &fake.last.arg[0], sizeof got);
  cr_expect_eq(got, want);
}

Test(record, random_draws_differ_by_their_counters_which_are_arguments) {
  run(tc_rand(TC_SHAPE(2), TC_F32));
  fake_launch first = fake.last;
  run(tc_rand(TC_SHAPE(2), TC_F32));
  EXPECT_LOWERED(1);
  cr_expect_eq(fake.last.arg[0], first.arg[0], "the seed");
  cr_expect_eq(fake.last.arg[1], first.arg[1] + 1, "the counter");
}

Test(record, another_shape_is_another_plan) {
  run(tc_neg(vector(1, 2)));
  run(tc_neg(tc_from_host((const float[]){1, 2, 3}, TC_SHAPE(3), TC_F32)));
  EXPECT_LOWERED(2);
}

Test(record, another_type_is_another_plan) {
  run(tc_neg(vector(1, 2)));
  run(tc_neg(tc_from_host((const double[]){1, 2}, TC_SHAPE(2), TC_F64)));
  EXPECT_LOWERED(2);
}

Test(record, another_op_is_another_plan) {
  run(tc_neg(vector(1, 2)));
  run(tc_abs(vector(1, 2)));
  EXPECT_LOWERED(2);
}

Test(record, another_attribute_is_another_plan) {
  tc_tensor x = tc_zeros(TC_SHAPE(2, 2), TC_F32);
  run(x);
  run(tc_sum(x, TC_AXES(0), false));
  run(tc_sum(x, TC_AXES(1), false));
  EXPECT_LOWERED(3);
}

Test(record, another_wiring_is_another_plan) {
  tc_tensor x = vector(1, 2), y = vector(3, 4);
  run(tc_sub(x, y));
  run(tc_sub(y, x));  // the leaves change places, too: the same
  EXPECT_LOWERED(1);
  run(tc_sub(x, x));
  EXPECT_LOWERED(2);
}

Test(record, another_order_of_recording_is_another_plan) {
  tc_tensor x = vector(1, 2), y = vector(3, 4), a = tc_exp(x), b = tc_neg(y);
  run(tc_add(a, b));
  tc_tensor d = tc_neg(y), c = tc_exp(x);
  run(tc_add(c, d));
  EXPECT_LOWERED(2);
}

Test(record, who_is_asked_for_is_a_part_of_the_name) {
  tc_tensor x = vector(1, 2), a = tc_exp(x), b = tc_neg(a);
  run(b);
  tc_tensor c = tc_exp(x), d = tc_neg(c), both[] = {c, d};
  cr_assert_eq(tc_eval(2, both), TC_OK);
  EXPECT_LOWERED(2);
}
