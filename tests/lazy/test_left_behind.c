// What a function leaves behind that is traced once, for tc_compile or control flow: handles it
// keeps, regions it does not end, tensors it gives up, gradients.
#include <criterion/criterion.h>
#include <string.h>
#include <tc/compile.h>
#include <tc/control.h>

#include "tests/lazy/expect_errors.h"

#define EXPECT_WHY(c, words) \
  cr_expect(strstr(tc_compiled_stats(c).why_recorded, words), "'%s' should say '%s'", \
            tc_compiled_stats(c).why_recorded, words)
enum { N = 4 };

static tc_tensor vector(float first) {
  return tc_from_host((float[]){first, first + 1, first + 2, first + 3}, TC_SHAPE(N), TC_F32);
}

static void expect_first(tc_tensor t, double want) {
  float v[N];
  OK(tc_to_host(t, v, sizeof v));
  cr_expect_float_eq((double)v[0], want, 1e-6, "%g, should be %g", (double)v[0], want);
}

// ---- gradients ----

static tc_tensor loss_of(tc_tensor w, tc_tensor x) {
  return tc_sum(tc_mul(w, x), TC_ALL, false);
}

Test(left_behind, a_gradients_handle_has_the_next_sum) {
  tc_tensor w = tc_param(vector(1)), x = vector(3);
  OK(tc_backward(loss_of(w, x)));
  tc_tensor g = tc_grad(w);
  OK(tc_backward(loss_of(w, x)));
  expect_first(g, 6);
  expect_first(tc_grad(w), 6);
  OK(tc_backward(loss_of(w, x)));
  expect_first(g, 9);
  OK(tc_backward_with(loss_of(w, x), (tc_tensor){0, 0}, TC_CREATE_GRAPH));
  cr_assert(tc_is_valid(tc_clip_grad_norm(&w, 1, 1e9)));
  tc_tensor same = tc_grad(w);
  cr_expect(same.slot == g.slot && same.gen == g.gen);
  expect_first(g, 12);
  OK(tc_zero_grad_of(1, &w));
  cr_expect_not(tc_is_valid(g));
  OK(tc_backward(loss_of(w, x)));
  expect_first(tc_grad(w), 3);
  tc_release(w);
}

static tc_status accumulates(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  tc_tensor w = *(tc_tensor *)user;
  out[0] = loss_of(w, in[0]);
  tc_status st = tc_backward(out[0]);
  tc_tensor g = tc_grad(w);
  if (st == TC_OK) st = tc_backward(loss_of(w, in[0]));
  out[1] = tc_mul(g, 10);
  return st;
}

Test(left_behind, a_gradients_handle_goes_through_compiled_calls) {
  tc_tensor w = tc_param(vector(1)), x = vector(3), out[2];
  tc_compiled *c = tc_compile(accumulates, &w, &(tc_compile_options){.fullgraph = true});
  OK(tc_compiled_call(c, &x, 1, out, 2));
  tc_tensor g = tc_grad(w);
  for (int i = 1; i < 5; i++) {
    expect_first(g, 6 * i);
    expect_first(out[1], 60 * i);
    OK(tc_compiled_call(c, &x, 1, out, 2));
  }
  expect_first(g, 30);
  cr_expect_eq(tc_compiled_stats(c).n_graphs, 2);
  cr_expect_eq(tc_compiled_stats(c).n_taken, 3);
  tc_compiled_destroy(c);
  tc_release(w);
}

static tc_status zeroes_and_clips(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  tc_tensor *w = user;
  out[0] = loss_of(w[0], tc_mul(in[0], w[1]));
  tc_status st = tc_backward(out[0]);
  if (st == TC_OK && !tc_is_valid(tc_clip_grad_norm(w, 2, 1))) st = TC_ERR_GRAD;
  return st == TC_OK ? tc_zero_grad_of(1, w) : st;
}

// One gradient is zeroed in the function, the other goes on accumulating and is clipped.
Test(left_behind, gradients_that_are_clipped_and_zeroed_are_as_recorded) {
  float got[2][N];
  for (int k = 0; k < 2; k++) {
    tc_tensor w[2] = {tc_param(vector(1)), tc_param(vector(2))}, x = vector(3), out;
    tc_compiled *c = tc_compile(zeroes_and_clips, w, NULL);
    for (int i = 0; i < 4; i++) OK(k ? tc_compiled_call(c, &x, 1, &out, 1) : zeroes_and_clips(w, &x, 1, &out, 1));
    cr_expect(tc_grad(w[0]).gen == 0);
    OK(tc_to_host(tc_grad(w[1]), got[k], sizeof got[k]));
    if (k) cr_expect_eq(tc_compiled_stats(c).n_taken, 2, "%s", tc_compiled_stats(c).why_recorded);
    tc_compiled_destroy(c);
    tc_release(w[0]), tc_release(w[1]);
  }
  cr_expect_eq(memcmp(got[0], got[1], sizeof got[0]), 0);
}

static tc_status gives_gradient(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  tc_status st = tc_backward(loss_of(*(tc_tensor *)user, in[0]));
  out[0] = tc_grad(*(tc_tensor *)user);
  return st;
}

Test(left_behind, a_gradient_as_a_result_is_named_as_the_reason) {
  tc_tensor w = tc_param(vector(1)), x = vector(3), out;
  tc_compiled *c = tc_compile(gives_gradient, &w, NULL);
  for (int i = 1; i < 4; i++) {
    OK(tc_compiled_call(c, &x, 1, &out, 1));
    expect_first(out, 3 * i);
  }
  EXPECT_WHY(c, "a parameter's gradient as a result, which tc_grad gives after the call");
  tc_compiled_destroy(c);
  tc_release(w);
}

// ---- regions and borrows ----

static tc_status opens(void *user, const tc_tensor *in, tc_tensor *out) {
  const tc_region_options *o = user;
  tc_status st = o ? tc_region_begin(o) : TC_OK;
  if (!o) tc_region_end();
  out[0] = tc_mul(in[0], 2);
  return st;
}

static tc_status casts(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  out[0] = tc_mul(in[0], 2);
  return tc_autocast_begin(TC_BF16);
}

static tc_status opens_compiled(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  return opens(user, in, out);
}

Test(left_behind, a_region_that_is_not_ended_is_an_error_with_its_place) {
  tc_region_options named = {.name = "inner"}, strict = {.options = "strict=1"};
  tc_tensor x = vector(1), out;
  OK(tc_eval(1, &x));
  for (int k = 0; k < 2; k++) {
    tc_compiled *c = tc_compile(opens_compiled, k ? &strict : &named, NULL);
    for (int i = 0; i < 3; i++) {
      EXPECT_FAILS(tc_compiled_call(c, &x, 1, &out, 1), TC_ERR_STATE,
                   "the function has not ended 1 of its regions, the first begun at ");
      cr_expect_not(tc_is_valid(out));
    }
    tc_compiled_destroy(c);
  }
  EXPECT_FAILS(tc_scan(opens, &named, &x, 1, NULL, 0, &out, 0, &(tc_scan_options){.length = 2}), TC_ERR_STATE,
               "the body of scan has not ended 1 of its regions, the first begun at ");
  EXPECT_FAILS(tc_checkpoint(opens, &strict, &x, 1, &out, 1), TC_ERR_STATE, "the body of checkpoint has not ended 1");
  EXPECT_FAILS(tc_checkpoint(casts, NULL, &x, 1, &out, 1), TC_ERR_STATE,
               "the body of checkpoint has not ended its autocast");
  cr_expect_eq(tc_autocast_type("tc:cpu"), TC_N_TYPES);
  OK(tc_region_begin(&named));
  EXPECT_FAILS(tc_checkpoint(opens, NULL, &x, 1, &out, 1), TC_ERR_STATE, "ended a region that it did not begin");
  tc_region_end();  // none is open: all were ended
  cr_expect(strstr(tc_last_error()->message, "no region is open"), "%s", tc_last_error()->message);
  tc_clear_error();
  OK(tc_eval(1, &x));
}

static tc_status forgets(void *user, const tc_tensor *in, tc_tensor *out) {
  out[0] = tc_mul(in[0], 2);
  return tc_forget(*(tc_tensor *)user);
}

static tc_status forgets_compiled(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  return forgets(user, in, out);
}

Test(left_behind, a_tensor_that_is_given_up_is_an_error_with_its_place) {
  static float memory[N] = {1, 2, 3, 4};
  tc_tensor x = vector(1), out, borrowed = tc_borrow(memory, TC_SHAPE(N), TC_F32, 0, NULL, NULL);
  tc_compiled *c = tc_compile(forgets_compiled, &borrowed, NULL);
  EXPECT_FAILS(tc_compiled_call(c, &x, 1, &out, 1), TC_ERR_STATE, "a compiled function, which later calls do not run");
  EXPECT_FAILS(tc_checkpoint(forgets, &borrowed, &x, 1, &out, 1), TC_ERR_STATE, "a body of control flow");
  tc_compiled_destroy(c);
  expect_first(borrowed, 1);
  OK(tc_forget(borrowed));
}

// ---- handles ----

static tc_tensor kept;

static tc_status retains(void *user, const tc_tensor *in, tc_tensor *out) {
  kept = tc_retain(user ? in[0] : tc_add(in[0], 1));
  out[0] = tc_mul(in[0], 2);
  return TC_OK;
}

static tc_status retains_compiled(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  return retains(user, in, out);
}

Test(left_behind, a_kept_handle_tells_that_it_was_a_bodys) {
  tc_tensor x = vector(1), out;
  float v[N];
  for (int k = 0; k < 2; k++) {
    OK(tc_checkpoint(retains, k ? &x : NULL, &x, 1, &out, 1));
    EXPECT_FAILS(tc_to_host(kept, v, sizeof v), TC_ERR_STATE,
                 "the value is one of a body of control flow, which keeps none: make it a result of the body");
    cr_expect_not(tc_is_valid(tc_add(kept, 1)));
    cr_expect(strstr(tc_last_error()->message, "operand's value is one of a body"), "%s", tc_last_error()->message);
    tc_clear_error();
    tc_release(kept);
    expect_first(out, 2);
  }
}

Test(left_behind, a_handle_that_a_compiled_function_keeps_has_its_value) {
  tc_tensor x = vector(1), out;
  for (int k = 0; k < 2; k++) {
    tc_compiled *c = tc_compile(retains_compiled, k ? &x : NULL, NULL);
    for (int i = 0; i < 3; i++) {
      OK(tc_compiled_call(c, &x, 1, &out, 1));
      expect_first(kept, k ? 1 : 2);
      tc_release(kept);
    }
    EXPECT_WHY(c, k ? "an argument that it retains" : "a tensor that outlives it and is no result");
    tc_compiled_destroy(c);
  }
}
