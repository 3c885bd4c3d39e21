// Optimizers against PyTorch's numbers (optim_golden.h, made by tools/golden_optim.py), their
// state, and what they refuse. Public API only.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include <tc/tc.h>

#include "tests/lazy/optim_golden.h"

#define OK(call) cr_assert_eq((call), TC_OK, "%s", tc_last_error()->message)

static const double data_x[4][3] = {{1, 2, -1}, {0.5, -1.5, 2}, {-2, 0.25, 1}, {1.5, 1, 0.5}};
static const double data_y[4] = {1, -2, 0.5, 3};
static const double start_w[3] = {0.5, -0.25, 0.125}, start_b[1] = {0.1};

static void make_params(tc_tensor *p) {
  p[0] = tc_param(tc_from_host(start_w, TC_SHAPE(3), TC_F64));
  p[1] = tc_param(tc_from_host(start_b, TC_SHAPE(1), TC_F64));
}

static void release_params(tc_tensor *p) {
  tc_release(p[0]);
  tc_release(p[1]);
}

// Mean squared error of x @ w + b.
static void backward(const tc_tensor *p) {
  tc_tensor x = tc_from_host(data_x, TC_SHAPE(4, 3), TC_F64), y = tc_from_host(data_y, TC_SHAPE(4), TC_F64);
  OK(tc_backward(tc_mse_loss(tc_add(tc_matmul(x, p[0]), p[1]), y)));
}

static void step(tc_optimizer *opt, const tc_tensor *p) {
  tc_scope s = tc_scope_begin();
  OK(tc_zero_grad(opt));
  backward(p);
  OK(tc_optimizer_step(opt));
  tc_scope_end(s);
}

static void read_params(const tc_tensor *p, double *out) {
  OK(tc_to_host(p[0], out, 3 * sizeof *out));
  OK(tc_to_host(p[1], out + 3, sizeof *out));
}

static void expect_params(const tc_tensor *p, const double *want) {
  double got[4];
  read_params(p, got);
  for (int i = 0; i < 4; i++)
    cr_expect(fabs(got[i] - want[i]) <= 1e-12 * (1 + fabs(want[i])), "element %d: %.17g, torch has %.17g", i, got[i],
              want[i]);
}

// Reads after every step; then once more with a single read at the end, which is one long trace.
static void expect_trajectory(tc_optimizer *make(const tc_tensor *p), int n_steps, const double (*want)[4]) {
  for (int often = 1; often >= 0; often--) {
    tc_tensor p[2];
    make_params(p);
    tc_optimizer *opt = make(p);
    cr_assert_not_null(opt, "%s", tc_last_error()->message);
    for (int k = 0; k < n_steps; k++) {
      step(opt, p);
      if (often || k == n_steps - 1) expect_params(p, want[k]);
    }
    tc_optimizer_destroy(opt);
    release_params(p);
  }
}

#define TRAJECTORY(name, made) \
  static tc_optimizer *make_##name(const tc_tensor *p) { \
    return made; \
  } \
  Test(optim, name##_follows_torch) { \
    expect_trajectory(make_##name, sizeof golden_##name / sizeof golden_##name[0], golden_##name); \
  }

#define SGD(...) tc_sgd(p, 2, (tc_sgd_options){__VA_ARGS__})
#define ADAM(...) tc_adam(p, 2, (tc_adam_options){__VA_ARGS__})
#define ADAMW(...) tc_adamw(p, 2, (tc_adam_options){__VA_ARGS__})
#define RMSPROP(...) tc_rmsprop(p, 2, (tc_rmsprop_options){__VA_ARGS__})
#define ADAGRAD(...) tc_adagrad(p, 2, (tc_adagrad_options){__VA_ARGS__})
#define NADAM(...) tc_nadam(p, 2, (tc_nadam_options){__VA_ARGS__})
#define RADAM(...) tc_radam(p, 2, (tc_radam_options){__VA_ARGS__})
#define ADAMAX(...) tc_adamax(p, 2, (tc_adamax_options){__VA_ARGS__})
#define LION(...) tc_lion(p, 2, (tc_lion_options){__VA_ARGS__})

TRAJECTORY(sgd, SGD(.lr = 0.05))
TRAJECTORY(sgd_decay, SGD(.lr = 0.05, .weight_decay = 0.1))
TRAJECTORY(sgd_momentum, SGD(.lr = 0.02, .momentum = 0.9, .dampening = 0.3))
TRAJECTORY(sgd_nesterov, SGD(.lr = 0.02, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01))
TRAJECTORY(adam, ADAM(.lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8))
TRAJECTORY(adam_decay, ADAM(.lr = 0.1, .beta1 = 0.4, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.1))
TRAJECTORY(adamw, ADAMW(.lr = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.2))
TRAJECTORY(rmsprop, RMSPROP(.lr = 0.02, .alpha = 0.9, .eps = 1e-8))
TRAJECTORY(rmsprop_momentum, RMSPROP(.lr = 0.02, .alpha = 0.9, .eps = 1e-8, .weight_decay = 0.1, .momentum = 0.8))
TRAJECTORY(adagrad, ADAGRAD(.lr = 0.1))
TRAJECTORY(adagrad_options,
           ADAGRAD(.lr = 0.2, .lr_decay = 0.05, .weight_decay = 0.1, .initial_accumulator_value = 0.3, .eps = 1e-6))
TRAJECTORY(nadam, NADAM(.lr = 0.05))
TRAJECTORY(nadam_options,
           NADAM(.lr = 0.05, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.1, .momentum_decay = 0.02))
TRAJECTORY(nadam_decoupled, NADAM(.lr = 0.05, .weight_decay = 0.1, .decoupled = true))
TRAJECTORY(radam, RADAM(.lr = 0.05))
TRAJECTORY(radam_options, RADAM(.lr = 0.05, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-6, .weight_decay = 0.1))
TRAJECTORY(radam_decoupled, RADAM(.lr = 0.05, .beta1 = 0.8, .beta2 = 0.99, .weight_decay = 0.1, .decoupled = true))
TRAJECTORY(adamax, ADAMAX(.lr = 0.05))
TRAJECTORY(adamax_options, ADAMAX(.lr = 0.05, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-4, .weight_decay = 0.1))
TRAJECTORY(lion, LION(.lr = 0.02))
TRAJECTORY(lion_options, LION(.lr = 0.02, .beta1 = 0.8, .beta2 = 0.9, .weight_decay = 0.2))

// ---- Clipping ----

Test(optim, clipped_gradients_follow_torch) {
  tc_tensor p[2];
  double norm = 0;
  make_params(p);
  tc_optimizer *opt = SGD(.lr = 0.05);
  for (int k = 0; k < 5; k++) {
    tc_scope s = tc_scope_begin();
    OK(tc_zero_grad(opt));
    backward(p);
    tc_tensor n = tc_clip_grad_norm(p, 2, 0.5);
    OK(tc_optimizer_step(opt));
    OK(tc_item_f64(n, &norm));
    tc_scope_end(s);
  }
  expect_params(p, golden_clipped);
  cr_expect_float_eq(norm, golden_clipped_norm, 1e-12);
  tc_optimizer_destroy(opt);
  release_params(p);
}

Test(optim, small_gradients_are_not_clipped) {
  tc_tensor p[2];
  double before[3], after[3], norm;
  make_params(p);
  backward(p);
  OK(tc_to_host(tc_grad(p[0]), before, sizeof before));
  OK(tc_item_f64(tc_clip_grad_norm(p, 2, 1e6), &norm));
  OK(tc_to_host(tc_grad(p[0]), after, sizeof after));
  cr_expect_eq(memcmp(before, after, sizeof before), 0);
  release_params(p);
}

Test(optim, the_norm_of_no_gradients_is_zero) {
  tc_tensor p[2];
  double norm = -1;
  make_params(p);
  OK(tc_item_f64(tc_clip_grad_norm(p, 2, 1), &norm));
  cr_expect_eq(norm, 0);
  cr_expect(!tc_is_valid(tc_grad(p[0])));
  release_params(p);
}

// ---- Gradients and learning rate ----

Test(optim, a_parameter_without_gradient_is_skipped) {
  tc_tensor p[2];
  double b = 0, steps = -1, w[3];
  make_params(p);
  tc_optimizer *opt = ADAM(.lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8);
  OK(tc_backward(tc_sum(tc_square(p[0]), TC_ALL, false)));
  OK(tc_optimizer_step(opt));
  OK(tc_item_f64(p[1], &b));
  cr_expect_eq(b, start_b[0]);
  OK(tc_to_host(p[0], w, sizeof w));
  cr_expect_float_eq(w[0], start_w[0] - 0.1, 1e-6);
  cr_assert_str_eq(tc_optimizer_state_name(opt, 5), "step.1");
  OK(tc_item_f64(tc_optimizer_state(opt, 5), &steps));
  cr_expect_eq(steps, 0);
  OK(tc_item_f64(tc_optimizer_state(opt, 2), &steps));
  cr_expect_eq(steps, 1);
  tc_optimizer_destroy(opt);
  release_params(p);
}

Test(optim, zero_grad_forgets) {
  tc_tensor p[2];
  make_params(p);
  backward(p);
  cr_expect(tc_is_valid(tc_grad(p[0])));
  OK(tc_zero_grad_of(1, p));
  cr_expect(!tc_is_valid(tc_grad(p[0])));
  cr_expect(tc_is_valid(tc_grad(p[1])));
  release_params(p);
}

// Parameters that are still being computed, and no state yet: both are there before the first step
// is recorded.
static void expect_one_plan(tc_optimizer *make(const tc_tensor *p)) {
  tc_tensor p[2];
  double first;
  p[0] = tc_param(tc_mul(tc_randn(TC_SHAPE(3), TC_F64), 0.5));
  p[1] = tc_param(tc_zeros(TC_SHAPE(1), TC_F64));
  tc_optimizer *opt = make(p);
  cr_assert_not_null(opt);
  step(opt, p);
  OK(tc_sync(NULL));
  uint64_t misses = tc_cache_stats().plan_misses, compiles = tc_cache_stats().compiles;
  for (int i = 0; i < 8; i++) {
    step(opt, p);
    OK(tc_sync(NULL));
  }
  cr_expect_eq(tc_cache_stats().plan_misses, misses);
  cr_expect_eq(tc_cache_stats().compiles, compiles);
  OK(tc_item_f64(tc_slice(p[1], 0, 0, 1, 1), &first));
  cr_expect(isfinite(first) && first != 0);
  tc_optimizer_destroy(opt);
  release_params(p);
}

Test(optim, the_first_step_has_the_plan_of_the_next) {
  expect_one_plan(make_adam);
  expect_one_plan(make_adagrad_options);
  expect_one_plan(make_nadam);
  expect_one_plan(make_radam);
  expect_one_plan(make_adamax);
  expect_one_plan(make_lion);
}

Test(optim, a_schedule_makes_no_new_plan) {
  tc_tensor p[2];
  make_params(p);
  tc_optimizer *opt = ADAM(.lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8);
  for (int k = 0; k < 4; k++) {
    step(opt, p);
    OK(tc_eval(2, p));
  }
  uint64_t misses = tc_cache_stats().plan_misses;
  for (int k = 0; k < 4; k++) {
    OK(tc_set_lr(opt, 0.1 / (k + 2)));
    OK(tc_set_momentum(opt, 0.9 - 0.01 * k));
    step(opt, p);
    OK(tc_eval(2, p));
  }
  cr_expect_eq(tc_cache_stats().plan_misses, misses);
  cr_expect_eq(tc_get_lr(opt), 0.1 / 5);
  tc_optimizer_destroy(opt);
  release_params(p);
}

// ---- State ----

enum { MAX_STATE = 8 };

static int save_state(const tc_optimizer *opt, double (*out)[3]) {
  int n = 0;
  for (; tc_optimizer_state_name(opt, n) != NULL; n++) {
    tc_tensor t = tc_optimizer_state(opt, n);
    cr_assert_lt(n, MAX_STATE);
    OK(tc_to_host(t, out[n], (size_t)tc_numel(t) * sizeof out[n][0]));
  }
  return n;
}

// Three steps, then a new optimizer over new parameters with the saved values; both must go on in
// the same bits.
static void expect_resumes(tc_optimizer *make(const tc_tensor *p)) {
  tc_tensor p[2], q[2];
  double values[4], state[MAX_STATE][3], want[4], got[4];
  make_params(p);
  tc_optimizer *opt = make(p);
  for (int k = 0; k < 3; k++) step(opt, p);
  read_params(p, values);
  int n = save_state(opt, state);

  q[0] = tc_param(tc_from_host(values, TC_SHAPE(3), TC_F64));
  q[1] = tc_param(tc_from_host(values + 3, TC_SHAPE(1), TC_F64));
  tc_optimizer *again = make(q);
  for (int i = 0; i < n; i++) {
    cr_expect_str_eq(tc_optimizer_state_name(again, i), tc_optimizer_state_name(opt, i));
    tc_dims shape = tc_shape(tc_optimizer_state(again, i));
    OK(tc_optimizer_set_state(again, i, tc_from_host(state[i], shape, TC_F64)));
  }
  for (int k = 0; k < 3; k++) step(opt, p), step(again, q);
  read_params(p, want);
  read_params(q, got);
  cr_expect_eq(memcmp(want, got, sizeof want), 0);
  tc_optimizer_destroy(opt);
  tc_optimizer_destroy(again);
  release_params(p);
  release_params(q);
}

Test(optim, restored_state_resumes_in_the_same_bits) {
  expect_resumes(make_sgd);
  expect_resumes(make_sgd_momentum);
  expect_resumes(make_adam);
  expect_resumes(make_adamw);
  expect_resumes(make_rmsprop_momentum);
  expect_resumes(make_adagrad_options);
  expect_resumes(make_nadam_options);
  expect_resumes(make_radam_options);
  expect_resumes(make_adamax);
  expect_resumes(make_lion_options);
}

Test(optim, state_has_names) {
  tc_tensor p[2];
  make_params(p);
  static const char *const adam_names[] = {"exp_avg.0", "exp_avg_sq.0", "step.0",
                                           "exp_avg.1", "exp_avg_sq.1", "step.1"};
  tc_optimizer *opt = make_adam(p);
  for (int i = 0; i < 6; i++) cr_expect_str_eq(tc_optimizer_state_name(opt, i), adam_names[i]);
  cr_expect_null(tc_optimizer_state_name(opt, 6));
  cr_expect_null(tc_optimizer_state_name(opt, -1));
  tc_optimizer_destroy(opt);
  opt = make_sgd(p);
  cr_expect_null(tc_optimizer_state_name(opt, 0));
  tc_optimizer_destroy(opt);
  release_params(p);
}

// ---- What is refused ----

Test(optim, bad_options_are_errors) {
  tc_tensor p[2];
  make_params(p);
  cr_expect_null(SGD(.lr = -1));
  cr_expect_null(SGD(.lr = NAN));
  cr_expect_null(SGD(.lr = 0.1, .momentum = -0.1));
  cr_expect_null(SGD(.lr = 0.1, .nesterov = true));
  cr_expect_null(SGD(.lr = 0.1, .momentum = 0.9, .dampening = 0.1, .nesterov = true));
  cr_expect_null(ADAM(.lr = 0.1, .beta1 = 1, .beta2 = 0.9));
  cr_expect_null(ADAM(.lr = 0.1, .beta1 = 0.9, .beta2 = -0.5));
  cr_expect_null(ADAMW(.lr = 0.1, .weight_decay = -1));
  cr_expect_null(RMSPROP(.lr = 0.1, .alpha = 0.9, .eps = -1));
  cr_expect_null(ADAGRAD(.lr_decay = -1));
  cr_expect_null(NADAM(.momentum_decay = NAN));
  cr_expect_null(RADAM(.beta2 = 1));
  cr_expect_null(ADAMAX(.eps = -1));
  cr_expect_null(LION(.beta1 = 2));
  cr_expect_not_null(strstr(tc_last_error()->message, "lion: beta1 is 2, not within [0, 1)"));
  cr_expect_eq(tc_last_error()->status, TC_ERR_ARG);
  release_params(p);
}

Test(optim, bad_parameters_are_errors) {
  tc_tensor p[2] = {{0, 0}, {12345, 67}};
  cr_expect_null(SGD(.lr = 0.1));
  cr_expect_eq(tc_last_error()->status, TC_ERR_HANDLE);
  cr_expect_null(tc_sgd(NULL, 2, (tc_sgd_options){.lr = 0.1}));
  cr_expect_null(tc_sgd(p, 0, (tc_sgd_options){.lr = 0.1}));
  tc_tensor whole = tc_zeros(TC_SHAPE(2), TC_I64);
  cr_expect_null(tc_sgd(&whole, 1, (tc_sgd_options){.lr = 0.1}));
  cr_expect_eq(tc_zero_grad_of(2, p), TC_ERR_HANDLE);
  cr_expect_eq(tc_zero_grad_of(2, NULL), TC_ERR_ARG);
  cr_expect_eq(tc_zero_grad_of(0, NULL), TC_OK);
  cr_expect(!tc_is_valid(tc_clip_grad_norm(p, 2, 1)));
  cr_expect(!tc_is_valid(tc_clip_grad_norm(NULL, 2, 1)));
  cr_expect(!tc_is_valid(tc_clip_grad_norm(&whole, 1, -1)));
}

Test(optim, no_optimizer_is_an_error) {
  cr_expect_eq(tc_optimizer_step(NULL), TC_ERR_ARG);
  cr_expect_eq(tc_zero_grad(NULL), TC_ERR_ARG);
  cr_expect_eq(tc_set_lr(NULL, 0.1), TC_ERR_ARG);
  cr_expect(isnan(tc_get_lr(NULL)));
  cr_expect_null(tc_optimizer_state_name(NULL, 0));
  cr_expect(!tc_is_valid(tc_optimizer_state(NULL, 0)));
  cr_expect_eq(tc_optimizer_set_state(NULL, 0, tc_scalar(1)), TC_ERR_ARG);
  tc_optimizer_destroy(NULL);
}

Test(optim, bad_state_is_refused_and_changes_nothing) {
  tc_tensor p[2];
  double kept[3];
  make_params(p);
  tc_optimizer *opt = make_adam(p);
  step(opt, p);
  cr_expect_eq(tc_set_lr(opt, -1), TC_ERR_ARG);
  cr_expect_eq(tc_get_lr(opt), 0.1);
  cr_expect_eq(tc_optimizer_set_state(opt, 0, tc_ones(TC_SHAPE(4), TC_F64)), TC_ERR_SHAPE);
  cr_expect_eq(tc_optimizer_set_state(opt, 2, tc_scalar(1.5)), TC_ERR_ARG);
  cr_expect_eq(tc_optimizer_set_state(opt, 6, tc_scalar(1)), TC_ERR_ARG);
  OK(tc_to_host(tc_optimizer_state(opt, 0), kept, sizeof kept));
  cr_expect_neq(kept[0], 1);
  step(opt, p);
  expect_params(p, golden_adam[1]);
  tc_optimizer_destroy(opt);
  release_params(p);
}

Test(optim, state_survives_the_scope_of_its_first_step_and_dies_with_the_optimizer) {
  tc_tensor p[2];
  make_params(p);
  tc_optimizer *opt = make_adam(p);
  step(opt, p);
  tc_tensor avg = tc_optimizer_state(opt, 0);
  cr_expect(tc_is_valid(avg));
  tc_optimizer_destroy(opt);
  cr_expect(!tc_is_valid(avg));
  cr_expect(tc_is_valid(p[0]));
  release_params(p);
}
