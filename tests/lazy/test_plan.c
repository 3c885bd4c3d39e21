// The cache of plans: what is found, what goes, and what goes with it. With a fake evaluator
// (fake_lowering.h).
#include <criterion/criterion.h>
#include <stdlib.h>
#include <tc/tc.h>

#include "lazy/trace/trace.h"
#include "runtime/options.h"
#include "tests/lazy/fake_lowering.h"

static void set(const char *variable, const char *value) {
  setenv(variable, value, 1);
  tc_options_reload();
}

// A plan of its own for each n.
static void run_plan(int n) {
  tc_scope s = tc_scope_begin();
  tc_tensor y = tc_neg(tc_from_host((const float[64]){0}, TC_SHAPE(n), TC_F32));
  cr_assert_eq(tc_eval(1, &y), TC_OK, "%s", tc_last_error()->message);
  tc_scope_end(s);
}

static void expect_counts(int lowered, int destroyed) {
  cr_expect_eq(fake.n_lowered, lowered, "lowered: %d, should be %d", fake.n_lowered, lowered);
  cr_expect_eq(fake.n_destroyed, destroyed, "destroyed: %d, should be %d", fake.n_destroyed, destroyed);
}

Test(plan, a_plan_is_lowered_once_and_launched_each_time) {
  for (int i = 0; i < 5; i++) run_plan(1);
  expect_counts(1, 0);
  cr_expect_eq(fake.n_launched, 5);
}

Test(plan, hits_and_misses_are_counted) {
  run_plan(1), run_plan(2), run_plan(1), run_plan(1);
  tc_cache_info info = tc_cache_stats();
  cr_expect_eq(info.plan_misses, 2);
  cr_expect_eq(info.plan_hits, 2);
  cr_expect_eq(info.n_plans, 2);
}

Test(plan, plans_beyond_the_bound_go_the_least_recently_used_first) {
  set("TC_PLAN_CACHE", "2");
  run_plan(1), run_plan(2), run_plan(1);
  run_plan(3);
  expect_counts(3, 1);
  run_plan(1);
  expect_counts(3, 1);
  run_plan(2);  // this one went
  expect_counts(4, 2);
}

Test(plan, plans_of_more_bytes_than_the_bound_go) {
  set("TC_PLAN_CACHE_BYTES", "1000000");
  fake.program_bytes = 400000;
  run_plan(1), run_plan(2);
  expect_counts(2, 0);
  run_plan(3);
  expect_counts(3, 1);
}

Test(plan, the_plan_used_last_is_kept_however_large_it_is) {
  set("TC_PLAN_CACHE_BYTES", "1000");
  fake.program_bytes = 1 << 20;
  run_plan(1), run_plan(1);
  expect_counts(1, 0);
  run_plan(2);
  expect_counts(2, 1);
}

Test(plan, more_plans_than_a_trace_remembers_are_still_found) {
  for (int round = 0; round < 2; round++)
    for (int n = 1; n <= 4 * TC_LATEST_PLANS; n++) run_plan(n);
  expect_counts(4 * TC_LATEST_PLANS, 0);
}

Test(plan, clearing_the_cache_destroys_its_programs_and_clears_the_evaluator) {
  run_plan(1), run_plan(2);
  tc_cache_clear();
  expect_counts(2, 2);
  cr_expect_eq(fake.n_cleared, 1);
  run_plan(1);
  expect_counts(3, 2);
}

Test(plan, a_plan_that_a_recipe_needs_outlives_the_cache) {
  tc_tensor x = tc_from_host((const float[]){1, 2}, TC_SHAPE(2), TC_F32), a = tc_neg(x), b = tc_abs(a);
  cr_assert_eq(tc_eval(1, &b), TC_OK);
  tc_cache_clear();
  expect_counts(1, 0);
  float v[2];
  cr_expect_eq(tc_to_host(a, v, sizeof v), TC_OK);
  expect_counts(2, 1);
}

Test(plan, one_that_was_not_lowered_is_not_kept_and_has_no_program_to_destroy) {
  fake.lower_fails = TC_ERR_COMPILE;
  tc_tensor x = tc_from_host((const float[]){1, 2}, TC_SHAPE(2), TC_F32), y = tc_neg(x);
  cr_expect_eq(tc_eval(1, &y), TC_ERR_COMPILE);
  cr_expect_eq(tc_cache_stats().n_plans, 0);
  expect_counts(0, 0);
}

Test(plan, one_whose_launch_failed_is_kept) {
  fake.launch_fails = TC_ERR_MEMORY;
  tc_tensor x = tc_from_host((const float[]){1, 2}, TC_SHAPE(2), TC_F32), y = tc_neg(x), z = tc_neg(x);
  cr_expect_eq(tc_eval(1, &y), TC_ERR_MEMORY);
  cr_expect_eq(tc_cache_stats().n_plans, 1);
  (void)z;
}

Test(plan, another_memory_budget_is_another_plan) {
  run_plan(1);
  cr_assert_eq(tc_set_memory_budget(1 << 20), TC_OK);
  run_plan(1);
  expect_counts(2, 0);
}
