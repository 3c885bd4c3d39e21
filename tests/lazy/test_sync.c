// Sync points: what is launched, with which leaves and outputs, what is stored, and what a failure
// leaves. With a fake evaluator (fake_lowering.h).
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <tc/tc.h>

#include "runtime/options.h"
#include "tests/lazy/fake_lowering.h"

static tc_tensor vector(float a, float b) {
  return tc_from_host((const float[]){a, b}, TC_SHAPE(2), TC_F32);
}

static void expect_is(tc_tensor t, float a, float b) {
  float v[2] = {-1, -1};
  cr_assert_eq(tc_to_host(t, v, sizeof v), TC_OK, "%s", tc_last_error()->message);
  cr_expect(v[0] == a && v[1] == b, "is %g %g, should be %g %g", (double)v[0], (double)v[1], (double)a, (double)b);
}

static tc_status read_status(tc_tensor t) {
  float v[2];
  return tc_to_host(t, v, sizeof v);
}

#define EXPECT_LAUNCHED(n) cr_expect_eq(fake.n_launched, n, "launches: %d, should be %d", fake.n_launched, n)

// ---- what is launched ----

Test(sync, a_leaf_is_read_without_a_launch) {
  expect_is(vector(1, 2), 1, 2);
  EXPECT_LAUNCHED(0);
}

Test(sync, a_sync_of_nothing_launches_nothing) {
  (void)vector(1, 2);
  cr_expect_eq(tc_sync(NULL), TC_OK);
  EXPECT_LAUNCHED(0);
}

Test(sync, a_value_is_what_the_launch_stored) {
  expect_is(tc_neg(vector(1, 2)), 7, 7);
  EXPECT_LAUNCHED(1);
}

Test(sync, a_stored_value_is_read_again_without_a_launch) {
  tc_tensor y = tc_neg(vector(1, 2));
  expect_is(y, 7, 7);
  expect_is(y, 7, 7);
  EXPECT_LAUNCHED(1);
}

Test(sync, leaves_come_in_the_order_in_which_they_were_first_used) {
  tc_tensor x = vector(1, 2), y = vector(3, 4), z = vector(5, 6);
  expect_is(tc_neg(x), 7, 7);  // a new trace from here on
  expect_is(tc_add(tc_add(z, x), y), 7, 7);
  cr_assert_eq(fake.last.n_leaf, 3);
  cr_expect(fake.last.first[0] == 5 && fake.last.first[1] == 1 && fake.last.first[2] == 3);
}

Test(sync, a_stored_value_is_the_next_launch_s_leaf) {
  tc_tensor y = tc_neg(vector(1, 2));
  expect_is(y, 7, 7);
  const void *stored = fake.last.out[0];
  expect_is(tc_abs(y), 7, 7);
  cr_expect_eq(fake.last.n_leaf, 1);
  cr_expect_eq(fake.last.leaf[0], stored);
}

Test(sync, one_sync_runs_all_that_is_pending) {
  tc_tensor a = tc_neg(vector(1, 2)), b = tc_abs(vector(3, 4));
  expect_is(a, 7, 7);
  expect_is(b, 7, 7);
  EXPECT_LAUNCHED(1);
}

Test(sync, outputs_and_leaves_of_a_launch_are_different_memory) {
  tc_tensor x = vector(1, 2);
  expect_is(tc_neg(x), 7, 7);
  cr_expect_neq(fake.last.out[0], fake.last.leaf[0]);
  expect_is(x, 1, 2);
}

Test(sync, an_eager_program_launches_each_op_when_it_is_recorded) {
  tc_tensor x = vector(1, 2);
  setenv("TC_EAGER", "1", 1);
  tc_options_reload();
  tc_tensor y = tc_abs(tc_neg(x));
  EXPECT_LAUNCHED(2);
  expect_is(y, 7, 7);
  EXPECT_LAUNCHED(2);
}

static void *read_elsewhere(void *arg) {
  expect_is(*(tc_tensor *)arg, 7, 7);
  return NULL;
}

Test(sync, another_thread_that_reads_a_pending_value_runs_its_trace) {
  pthread_t thread;
  tc_tensor y = tc_neg(vector(1, 2));
  cr_assert_eq(pthread_create(&thread, NULL, read_elsewhere, &y), 0);
  pthread_join(thread, NULL);
  EXPECT_LAUNCHED(1);
  expect_is(y, 7, 7);
  EXPECT_LAUNCHED(1);
}

// ---- what is stored ----

Test(sync, a_value_with_a_reader_that_nobody_asked_for_is_not_stored_but_made_again) {
  tc_tensor x = vector(1, 2), a = tc_neg(x), b = tc_abs(a);
  expect_is(b, 7, 7);
  cr_expect_eq(fake.last.n_out, 1);
  expect_is(a, 7, 7);
  EXPECT_LAUNCHED(2);
  cr_expect_str_eq(fake.ops, "leaf neg");
}

Test(sync, a_small_value_of_expensive_work_is_stored_though_nobody_asked) {
  tc_tensor x = vector(1, 2), a = tc_sum(x, TC_ALL, true), b = tc_abs(tc_add(x, a));
  expect_is(b, 7, 7);
  cr_expect_eq(fake.last.n_out, 2);
  float v;
  cr_expect_eq(tc_item_f32(a, &v), TC_OK);
  EXPECT_LAUNCHED(1);
}

Test(sync, a_value_whose_scope_has_ended_is_not_stored) {
  tc_tensor x = tc_keep(vector(1, 2));
  tc_scope s = tc_scope_begin();
  (void)tc_neg(x);
  tc_scope_end(s);
  expect_is(tc_abs(x), 7, 7);
  cr_expect_eq(fake.last.n_out, 1);
  tc_release(x);
}

Test(sync, what_a_gradient_reads_and_is_expensive_is_stored) {
  tc_tensor x = tc_param(tc_from_host((const float[256 * 256]){0}, TC_SHAPE(256, 256), TC_F32));
  tc_tensor s = tc_softmax(x, 1), y = tc_sum(tc_mul(s, s), TC_ALL, false);  // 256 KiB: not small
  float v;
  cr_assert_eq(tc_item_f32(y, &v), TC_OK);
  cr_expect_eq(fake.last.n_out, 2, "the sum and the softmax");
  tc_release(x);
}

Test(sync, a_reshaped_leaf_has_the_leaf_s_memory) {
  tc_tensor r = tc_reshape(vector(1, 2), TC_SHAPE(2, 1));
  expect_is(r, 1, 2);
  cr_expect_eq(fake.last.n_out, 0);
}

// ---- assigns ----

Test(sync, an_assigned_tensor_stands_for_its_new_value) {
  tc_tensor p = tc_keep(vector(1, 2));
  cr_assert_eq(tc_assign(p, tc_neg(p)), TC_OK);
  EXPECT_LAUNCHED(0);
  expect_is(p, 7, 7);
  tc_release(p);
}

Test(sync, an_assign_that_the_evaluator_puts_in_place_is_given_the_leaf_s_memory) {
  fake.in_place = true;
  tc_tensor p = tc_keep(vector(1, 2));
  cr_assert_eq(tc_assign(p, tc_neg(p)), TC_OK);
  cr_assert_eq(tc_sync(NULL), TC_OK);
  cr_expect_eq(fake.last.out[0], fake.last.leaf[0]);
  expect_is(p, 7, 7);
  tc_release(p);
}

Test(sync, memory_of_the_caller_is_written_by_the_sync) {
  float data[2] = {1, 2};
  tc_tensor p = tc_borrow(data, TC_SHAPE(2), TC_F32, TC_WRITABLE, NULL, NULL);
  cr_assert_eq(tc_assign(p, tc_neg(p)), TC_OK);
  cr_expect_eq(data[0], 1);
  cr_assert_eq(tc_sync(NULL), TC_OK);
  cr_expect(data[0] == 7 && data[1] == 7);
  tc_release(p);
}

// ---- failures ----

Test(sync, a_failed_launch_is_told_once_by_the_call_that_asked) {
  fake.launch_fails = TC_ERR_MEMORY;
  tc_tensor y = tc_neg(vector(1, 2));
  cr_expect_eq(read_status(y), TC_ERR_MEMORY);
  cr_expect(strstr(tc_last_error()->message, "told not to launch"), "%s", tc_last_error()->message);
  fake.launch_fails = TC_OK;
  cr_expect_eq(tc_sync(NULL), TC_OK);
}

Test(sync, a_value_whose_launch_failed_is_made_when_it_is_asked_for_again) {
  fake.launch_fails = TC_ERR_MEMORY;
  tc_tensor x = vector(1, 2), a = tc_neg(x), b = tc_abs(a);
  cr_expect_eq(read_status(b), TC_ERR_MEMORY);
  fake.launch_fails = TC_OK;
  expect_is(b, 7, 7);
  expect_is(a, 7, 7);
  expect_is(x, 1, 2);
}

Test(sync, a_failed_launch_undoes_assigns) {
  fake.launch_fails = TC_ERR_MEMORY;
  tc_tensor p = tc_keep(vector(1, 2));
  cr_assert_eq(tc_assign(p, tc_neg(p)), TC_OK);
  cr_expect_eq(tc_sync(NULL), TC_ERR_MEMORY);
  fake.launch_fails = TC_OK;
  expect_is(p, 1, 2);
  tc_release(p);
}

Test(sync, a_failed_lowering_is_told_and_loses_what_was_pending_but_no_leaf) {
  fake.lower_fails = TC_ERR_COMPILE;
  tc_tensor x = vector(1, 2), y = tc_neg(x);
  cr_expect_eq(read_status(y), TC_ERR_COMPILE);
  cr_expect(strstr(tc_last_error()->message, "told not to lower"), "%s", tc_last_error()->message);
  fake.lower_fails = TC_OK;
  cr_expect_eq(read_status(y), TC_ERR_COMPILE);
  cr_expect(strstr(tc_last_error()->message, "was lost"), "%s", tc_last_error()->message);
  expect_is(x, 1, 2);
  expect_is(tc_neg(x), 7, 7);
  EXPECT_LAUNCHED(1);
}

Test(sync, a_failed_lowering_undoes_assigns) {
  fake.lower_fails = TC_ERR_COMPILE;
  tc_tensor p = tc_keep(vector(1, 2));
  cr_assert_eq(tc_assign(p, tc_neg(p)), TC_OK);
  cr_expect_eq(tc_sync(NULL), TC_ERR_COMPILE);
  fake.lower_fails = TC_OK;
  expect_is(p, 1, 2);
  tc_release(p);
}

Test(sync, a_suppressed_error_of_lowering_lowers_the_plan_op_by_op) {
  fake.lower_fails = TC_ERR_COMPILE, fake.lowers_rows = true;
  uint64_t before = 0, after = 0;
  cr_assert_eq(tc_metrics_get("errors_suppressed", &before), TC_OK);
  cr_assert_eq(tc_region_begin(&(tc_region_options){.options = "suppress_errors=1"}), TC_OK);
  tc_tensor x = vector(1, 2);
  expect_is(tc_neg(x), 7, 7);
  cr_expect_eq(tc_last_error()->status, TC_OK, "%s", tc_last_error()->message);
  cr_assert_eq(tc_metrics_get("errors_suppressed", &after), TC_OK);
  cr_expect_eq(after, before + 1);
  tc_region_end();
  cr_expect_eq(read_status(tc_neg(x)), TC_ERR_COMPILE, "outside");
}

// ---- traces that are cut ----

static void bound_traces(const char *variable, const char *most) {
  setenv(variable, most, 1);
  tc_options_reload();
}

Test(sync, a_trace_of_four_times_its_bound_runs_unasked) {
  bound_traces("TC_MAX_NODES", "8");
  tc_tensor x = vector(1, 2);
  for (int i = 0; i < 31; i++) x = tc_neg(x);  // a leaf and 31 more
  EXPECT_LAUNCHED(0);
  x = tc_neg(x);
  EXPECT_LAUNCHED(1);
  cr_expect_eq(fake.last.n_out, 1);
  expect_is(x, 7, 7);
  EXPECT_LAUNCHED(2);
}

// Three steps, each longer than the bound. Where the bound cuts the second must not depend on what
// was left of the first.
Test(sync, the_second_of_steps_that_a_bound_cuts_meets_the_plans_of_the_first) {
  bound_traces("TC_MAX_NODES", "8");
  tc_tensor p = tc_param(vector(1, 2));
  tc_optimizer *opt = tc_sgd(&p, 1, (tc_sgd_options){.lr = 0.5, .momentum = 0.9});
  uint64_t misses[3];
  for (int step = 0; step < 3; step++) {
    float v;
    tc_scope scope = tc_scope_begin();
    tc_tensor y = p;
    for (int i = 0; i < 13; i++) y = tc_sin(y);  // with its gradients about as many nodes as the bound allows
    tc_tensor loss = tc_sum(y, TC_ALL, false);
    cr_assert_eq(tc_backward(loss), TC_OK);
    cr_assert_eq(tc_optimizer_step(opt), TC_OK);
    cr_assert_eq(tc_zero_grad(opt), TC_OK);
    tc_keep(loss);
    tc_scope_end(scope);
    cr_assert_eq(tc_item_f32(loss, &v), TC_OK);
    misses[step] = tc_cache_stats().plan_misses;
  }
  cr_expect_eq(misses[1], misses[0], "the second step made %d plans", (int)(misses[1] - misses[0]));
  cr_expect_eq(misses[2], misses[0], "the third step made %d plans", (int)(misses[2] - misses[1]));
  tc_optimizer_destroy(opt);
  tc_release(p);
}

Test(sync, a_trace_that_alone_holds_more_bytes_than_its_bound_runs_unasked) {
  bound_traces("TC_MAX_BYTES", "4096");
  tc_tensor sum = vector(0, 0);
  for (int i = 0; i < 2000; i++) {
    tc_tensor x = tc_keep(vector(1, 2));
    sum = tc_add(sum, x);
    tc_release(x);
  }
  cr_expect_geq(fake.n_launched, 1);
}

Test(sync, a_run_that_was_not_asked_for_and_undid_an_assign_is_told_by_the_next_sync_once) {
  bound_traces("TC_MAX_NODES", "8");
  tc_tensor p = tc_keep(vector(1, 2)), x = p;
  cr_assert_eq(tc_assign(p, tc_neg(p)), TC_OK);
  fake.launch_fails = TC_ERR_MEMORY;
  for (int i = 0; i < 40 && fake.n_launched == 0; i++) x = tc_neg(x);
  EXPECT_LAUNCHED(1);
  cr_expect_not(tc_is_valid(x), "the op that met the bound is poison");
  fake.launch_fails = TC_OK;
  cr_expect_eq(tc_sync(NULL), TC_ERR_MEMORY);
  cr_expect_eq(tc_sync(NULL), TC_OK);
  expect_is(p, 1, 2);
  tc_release(p);
}

static void assign_much(tc_tensor p) {
  tc_scope s = tc_scope_begin();
  tc_tensor x = p;
  for (int i = 0; i < 200; i++) x = tc_neg(x);
  cr_assert_eq(tc_assign(p, x), TC_OK);
  tc_scope_end(s);
}

Test(sync, a_scope_that_recorded_much_ends_with_a_run) {
  tc_tensor p = tc_keep(vector(1, 2));
  assign_much(p);
  EXPECT_LAUNCHED(1);
  expect_is(p, 7, 7);
  EXPECT_LAUNCHED(1);
  tc_release(p);
}

Test(sync, a_run_that_failed_at_the_end_of_a_scope_is_told_by_the_next_sync_once) {
  fake.launch_fails = TC_ERR_MEMORY;
  tc_tensor p = tc_keep(vector(1, 2));
  assign_much(p);
  EXPECT_LAUNCHED(1);
  fake.launch_fails = TC_OK;
  cr_expect_eq(tc_sync(NULL), TC_ERR_MEMORY);
  cr_expect_eq(tc_sync(NULL), TC_OK);
  expect_is(p, 1, 2);
  tc_release(p);
}
