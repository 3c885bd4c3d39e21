// The gradient scaler: scales by PyTorch's rule, leaves steps out on the device, bit by bit, and
// says what was called in the wrong order.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tc/amp.h>
#include <tc/compile.h>
#include <unistd.h>

#define OK(call) cr_assert_eq((call), TC_OK, "%s", tc_last_error()->message)
#define FAILS(call, code, words) \
  do { \
    tc_clear_error(); \
    cr_expect_eq((call), (code)); \
    cr_expect(strstr(tc_last_error()->message, words), "%s", tc_last_error()->message); \
    cr_expect(strstr(tc_last_error()->message, __FILE__ ":"), "%s", tc_last_error()->message); \
    tc_clear_error(); \
  } while (0)

enum { N = 5 };
static const float start[N] = {0.5f, -0.25f, 0.125f, 2, -3};

typedef struct run {
  tc_tensor p[2];
  tc_optimizer *opt;
  tc_grad_scaler *scaler;
} run;

static run begin(tc_optimizer *make(const tc_tensor *p, int n), tc_grad_scaler_options options) {
  run r;
  for (int i = 0; i < 2; i++) r.p[i] = tc_param(tc_from_host(start, TC_SHAPE(N), TC_F32));
  r.opt = make(r.p, 2);
  r.scaler = tc_grad_scaler_create(options);
  cr_assert_not_null(r.opt, "%s", tc_last_error()->message);
  cr_assert_not_null(r.scaler, "%s", tc_last_error()->message);
  return r;
}

static void end(run *r) {
  tc_grad_scaler_destroy(r->scaler);
  tc_optimizer_destroy(r->opt);
  for (int i = 0; i < 2; i++) tc_release(r->p[i]);
}

// The loss of a step: sum(p^2) of those that take part, times a factor which may be infinite.
static tc_tensor loss_of(const run *r, int which, double factor) {
  tc_tensor loss = tc_scalar(0);
  for (int i = 0; i < 2; i++)
    if (which >> i & 1) loss = tc_add(loss, tc_sum(tc_square(r->p[i]), TC_ALL, false));
  return tc_mul(loss, factor);
}

static void scaled_step(run *r, int which, double factor) {
  tc_scope scope = tc_scope_begin();
  OK(tc_zero_grad(r->opt));
  OK(tc_backward(tc_grad_scaler_scale(r->scaler, loss_of(r, which, factor))));
  OK(tc_grad_scaler_step(r->scaler, r->opt));
  OK(tc_grad_scaler_update(r->scaler));
  tc_scope_end(scope);
}

static void plain_step(run *r, int which, double factor) {
  tc_scope scope = tc_scope_begin();
  OK(tc_zero_grad(r->opt));
  OK(tc_backward(loss_of(r, which, factor)));
  OK(tc_optimizer_step(r->opt));
  tc_scope_end(scope);
}

// Parameters, then state.
static int read_all(const run *r, float out[64]) {
  int n = 0;
  tc_scope scope = tc_scope_begin();
  for (int i = 0; i < 2; i++, n += N) OK(tc_to_host(r->p[i], out + n, N * sizeof *out));
  for (int i = 0; tc_optimizer_state_name(r->opt, i); i++) {
    tc_tensor s = tc_cast(tc_optimizer_state(r->opt, i), TC_F32);
    OK(tc_to_host(s, out + n, (size_t)tc_numel(s) * sizeof *out));
    n += (int)tc_numel(s);
  }
  tc_scope_end(scope);
  return n;
}

static void expect_same(const run *a, const run *b, float within) {
  float x[64], y[64];
  int n = read_all(a, x);
  cr_assert_eq(read_all(b, y), n);
  for (int i = 0; i < n; i++) cr_expect(fabsf(x[i] - y[i]) <= within * fabsf(y[i]), "%d: %.9g, %.9g", i, x[i], y[i]);
}

static tc_optimizer *make_sgd(const tc_tensor *p, int n) {
  return tc_sgd(p, n, (tc_sgd_options){.lr = 0.01, .momentum = 0.9, .dampening = 0.3});
}
static tc_optimizer *make_adam(const tc_tensor *p, int n) {
  return tc_adam(p, n, (tc_adam_options){.lr = 0.05});
}
static tc_optimizer *make_adamw(const tc_tensor *p, int n) {
  return tc_adamw(p, n, (tc_adam_options){.lr = 0.05, .weight_decay = 0.1});
}
static tc_optimizer *make_rmsprop(const tc_tensor *p, int n) {
  return tc_rmsprop(p, n, (tc_rmsprop_options){.lr = 0.01, .momentum = 0.5});
}
static tc_optimizer *make_adagrad(const tc_tensor *p, int n) {
  return tc_adagrad(p, n, (tc_adagrad_options){.lr = 0.05, .lr_decay = 0.2});
}
static tc_optimizer *make_radam(const tc_tensor *p, int n) {
  return tc_radam(p, n, (tc_radam_options){.lr = 0.05, .beta2 = 0.9});
}
static tc_optimizer *make_adamax(const tc_tensor *p, int n) {
  return tc_adamax(p, n, (tc_adamax_options){.lr = 0.05});
}
static tc_optimizer *make_lion(const tc_tensor *p, int n) {
  return tc_lion(p, n, (tc_lion_options){.lr = 0.01, .weight_decay = 0.1});
}
static tc_optimizer *make_nadam(const tc_tensor *p, int n) {
  return tc_nadam(p, n, (tc_nadam_options){.lr = 0.01});
}
static tc_optimizer *(*const makes[])(const tc_tensor *p, int n) = {
    make_sgd, make_adam, make_adamw, make_rmsprop, make_adagrad, make_radam, make_adamax, make_lion, make_nadam};

// Which parameters have gradients, and of which steps those are not finite.
static const struct {
  int which;
  bool skipped;
} steps[] = {{3, false}, {3, true}, {1, false}, {3, true}, {3, false}, {2, true}, {1, false}, {3, false}};

Test(grad_scaler, a_step_that_is_left_out_leaves_no_trace) {
  for (size_t k = 0; k < sizeof makes / sizeof makes[0]; k++) {
    run with = begin(makes[k], (tc_grad_scaler_options){.init_scale = 1024}),
        without = begin(makes[k], (tc_grad_scaler_options){0});
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
      scaled_step(&with, steps[i].which, steps[i].skipped ? INFINITY : 1);
      if (!steps[i].skipped) plain_step(&without, steps[i].which, 1);
    }
    expect_same(&with, &without, 2e-6f);
    plain_step(&with, 3, 1);  // goes on with the count that is on the device
    plain_step(&without, 3, 1);
    expect_same(&with, &without, 2e-6f);
    end(&with);
    end(&without);
  }
}

Test(grad_scaler, a_step_that_is_left_out_changes_no_bit) {
  for (size_t k = 0; k < sizeof makes / sizeof makes[0]; k++) {
    run r = begin(makes[k], (tc_grad_scaler_options){0});
    float before[64], after[64];
    scaled_step(&r, 3, 1);
    int n = read_all(&r, before);
    scaled_step(&r, 3, NAN);
    read_all(&r, after);
    cr_expect_eq(memcmp(before, after, (size_t)n * sizeof *before), 0);
    cr_expect_eq(tc_grad_scaler_get_scale(r.scaler), 32768);
    end(&r);
  }
}

// The only sync points of ten steps, two of which are left out, are those that end a step's scope,
// which wait for nothing and read nothing.
Test(grad_scaler, waits_for_nothing) {
  enum { STEPS = 10 };
  run r = begin(make_adam, (tc_grad_scaler_options){0});
  scaled_step(&r, 3, 1);
  OK(tc_sync(NULL));
  for (int i = 0; i < STEPS; i++) scaled_step(&r, 3, i % 5 == 2 ? INFINITY : 1);
  tc_sync_point point[STEPS + 1];
  int n = tc_sync_points(STEPS + 1, point);
  for (int i = n - STEPS; i < n; i++) {
    cr_expect_str_eq(point[i].cause, "landmark");
    if (i > n - STEPS + 1) cr_expect(point[i].hit, "a step made a plan of its own");
  }
  cr_expect_eq(tc_grad_scaler_get_scale(r.scaler), 65536 / 4);
  end(&r);
}

// torch._amp_update_scale_ with growth 4, backoff 0.25, interval 3.
Test(grad_scaler, scale_follows_pytorch) {
  run r = begin(make_sgd, (tc_grad_scaler_options){
                              .init_scale = 8, .growth_factor = 4, .backoff_factor = 0.25, .growth_interval = 3});
  static const struct {
    double factor, scale;
    int tracker;
  } want[] = {{1, 8, 1},   {1, 8, 2}, {1, 32, 0}, {INFINITY, 8, 0}, {1, 8, 1},
              {NAN, 2, 0}, {1, 2, 1}, {1, 2, 2},  {1, 8, 0}};
  for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
    int32_t tracker;
    scaled_step(&r, 3, want[i].factor);
    cr_expect_eq(tc_grad_scaler_get_scale(r.scaler), want[i].scale, "%zu: %g", i, tc_grad_scaler_get_scale(r.scaler));
    OK(tc_item_i32(tc_grad_scaler_state(r.scaler, 1), &tracker));
    cr_expect_eq(tracker, want[i].tracker, "%zu: %d", i, tracker);
  }
  OK(tc_grad_scaler_set_scale(r.scaler, 0x1p127));
  for (int i = 0; i < 3; i++) scaled_step(&r, 3, 0);
  cr_expect_eq(tc_grad_scaler_get_scale(r.scaler), 0x1p127);  // four times that is infinite
  end(&r);
}

Test(grad_scaler, unscale_divides_once_and_tells_what_it_found) {
  run r = begin(make_sgd, (tc_grad_scaler_options){0});
  float g[N];
  bool found;
  OK(tc_backward(tc_grad_scaler_scale(r.scaler, loss_of(&r, 3, 1))));
  OK(tc_grad_scaler_unscale(r.scaler, r.opt));
  OK(tc_to_host(tc_grad(r.p[0]), g, sizeof g));
  for (int i = 0; i < N; i++) cr_expect_eq(g[i], 2 * start[i]);
  OK(tc_item(tc_grad_scaler_found_inf(r.scaler, r.opt), &found));
  cr_expect(!found);
  OK(tc_grad_scaler_step(r.scaler, r.opt));
  OK(tc_to_host(tc_grad(r.p[0]), g, sizeof g));
  cr_expect_eq(g[3], 2 * start[3]);
  end(&r);
}

Test(grad_scaler, one_scaler_serves_two_optimizers) {
  run r = begin(make_sgd, (tc_grad_scaler_options){0});
  tc_tensor q = tc_param(tc_from_host(start, TC_SHAPE(N), TC_F32));
  tc_optimizer *other = tc_adam(&q, 1, (tc_adam_options){0});
  OK(tc_backward(tc_grad_scaler_scale(r.scaler, loss_of(&r, 3, 1))));
  OK(tc_backward(tc_grad_scaler_scale(r.scaler, tc_mul(tc_sum(q, TC_ALL, false), INFINITY))));
  OK(tc_grad_scaler_step(r.scaler, r.opt));
  OK(tc_grad_scaler_step(r.scaler, other));
  OK(tc_grad_scaler_update(r.scaler));
  cr_expect_eq(tc_grad_scaler_get_scale(r.scaler), 32768);
  float have[N];
  OK(tc_to_host(q, have, sizeof have));
  cr_expect_eq(memcmp(have, start, sizeof have), 0);
  OK(tc_to_host(r.p[0], have, sizeof have));
  cr_expect(have[0] != start[0]);
  tc_optimizer_destroy(other);
  tc_release(q);
  end(&r);
}

static tc_status compiled_step(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  const run *r = user;
  (void)n_in;
  OK(tc_zero_grad(r->opt));
  OK(tc_backward(tc_grad_scaler_scale(r->scaler, tc_mul(loss_of(r, 3, 1), in[0]))));
  OK(tc_grad_scaler_step(r->scaler, r->opt));
  OK(tc_grad_scaler_update(r->scaler));
  return n_out == 0 ? TC_OK : (out[0] = in[0], TC_OK);
}

Test(grad_scaler, compiled_functions_step_as_plain_ones) {
  run plain = begin(make_adam, (tc_grad_scaler_options){0}), compiled = begin(make_adam, (tc_grad_scaler_options){0});
  tc_compiled *c = tc_compile(compiled_step, &compiled, NULL);
  for (int i = 0; i < 6; i++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor factor = tc_full(TC_SCALAR, i == 3 ? INFINITY : 1, TC_F32);
    OK(tc_compiled_call(c, &factor, 1, NULL, 0));
    scaled_step(&plain, 3, i == 3 ? INFINITY : 1);
    tc_scope_end(scope);
  }
  expect_same(&compiled, &plain, 0);
  cr_expect_eq(tc_grad_scaler_get_scale(compiled.scaler), 32768);
  tc_compiled_destroy(c);
  end(&plain);
  end(&compiled);
}

Test(grad_scaler, disabled_is_the_plain_step) {
  run with = begin(make_adam, (tc_grad_scaler_options){.disabled = true}),
      without = begin(make_adam, (tc_grad_scaler_options){0});
  for (int i = 0; i < 3; i++) scaled_step(&with, 3, 1), plain_step(&without, 3, 1);
  expect_same(&with, &without, 0);
  cr_expect_eq(tc_grad_scaler_get_scale(with.scaler), 1);
  end(&with);
  end(&without);
}

// Steps past a checkpoint are those of a run that was not stopped, to the bit: the scale, and the
// count of steps that were not left out, go on.
Test(grad_scaler, checkpoints_go_on_where_they_stopped) {
  float want[64], have[64], scale[2];
  char path[64];
  int n = 0;
  snprintf(path, sizeof path, "/tmp/tc-scaler-%d.safetensors", (int)getpid());
  for (int again = 0; again < 2; again++) {
    tc_nn_params *p = tc_nn_params_create();
    run r = {.scaler = tc_grad_scaler_create((tc_grad_scaler_options){.growth_interval = 3})};
    for (int i = 0; i < 2; i++) r.p[i] = tc_nn_add(p, i ? "b" : "a", tc_from_host(start, TC_SHAPE(N), TC_F32));
    r.opt = make_adam(r.p, 2);
    OK(tc_nn_add_grad_scaler(p, "scaler", r.scaler));
    if (again) {
      tc_status st = tc_nn_checkpoint_load(p, path, 1, &r.opt, NULL);
      if (st == TC_ERR_STATE) cr_skip_test("no libjansson");
      OK(st);
    }
    for (int i = again ? 4 : 0; i < 8; i++) {
      scaled_step(&r, 3, i == 2 || i == 5 ? INFINITY : 1);
      if (i != 3) continue;
      tc_status st = tc_nn_checkpoint_save(p, path, 1, &r.opt, 4);
      if (st == TC_ERR_STATE) cr_skip_test("no libjansson");
      OK(st);
    }
    n = read_all(&r, again ? have : want);
    scale[again] = (float)tc_grad_scaler_get_scale(r.scaler);
    tc_grad_scaler_destroy(r.scaler);
    tc_optimizer_destroy(r.opt);
    tc_nn_params_destroy(p);
  }
  unlink(path);
  cr_expect_eq(memcmp(want, have, (size_t)n * sizeof *want), 0);
  cr_expect_eq(scale[0], scale[1]);
}

Test(grad_scaler, wrong_calls_say_what_to_do) {
  run r = begin(make_sgd, (tc_grad_scaler_options){0});
  FAILS(tc_grad_scaler_update(r.scaler), TC_ERR_STATE, "a tc_grad_scaler_step is missing");
  FAILS(tc_grad_scaler_step(r.scaler, r.opt), TC_ERR_STATE, "a tc_backward of a scaled loss is missing");
  cr_expect(!tc_is_valid(tc_grad_scaler_found_inf(r.scaler, r.opt)));
  OK(tc_backward(tc_grad_scaler_scale(r.scaler, loss_of(&r, 3, 1))));
  OK(tc_grad_scaler_unscale(r.scaler, r.opt));
  FAILS(tc_grad_scaler_unscale(r.scaler, r.opt), TC_ERR_STATE, "divided already");
  OK(tc_grad_scaler_step(r.scaler, r.opt));
  FAILS(tc_grad_scaler_step(r.scaler, r.opt), TC_ERR_STATE, "tc_grad_scaler_update, which is missing");
  FAILS(tc_grad_scaler_unscale(r.scaler, r.opt), TC_ERR_STATE, "unscale comes before the step");
  OK(tc_grad_scaler_update(r.scaler));
  FAILS(tc_grad_scaler_step(NULL, r.opt), TC_ERR_ARG, "no gradient scaler");
  FAILS(tc_grad_scaler_step(r.scaler, NULL), TC_ERR_ARG, "no optimizer");
  FAILS(tc_grad_scaler_set_scale(r.scaler, 0), TC_ERR_ARG, "scale is 0");
  FAILS(tc_grad_scaler_use_state(r.scaler, tc_ones(TC_SHAPE(2), TC_F32), tc_zeros(TC_SCALAR, TC_I32)), TC_ERR_SHAPE,
        "scale has rank 1");
  FAILS(tc_grad_scaler_use_state(r.scaler, tc_scalar(1), tc_scalar(0)), TC_ERR_DTYPE, "growth_tracker is f32");
  end(&r);
  tc_clear_error();
  cr_expect_null(tc_grad_scaler_create((tc_grad_scaler_options){.growth_factor = 0.5}));
  cr_expect(strstr(tc_last_error()->message, "growth_factor 0.5"), "%s", tc_last_error()->message);
}

// A state that is set takes the other one, which is on the device, to the host.
Test(grad_scaler, nadams_steps_and_momenta_are_set_one_by_one) {
  run with = begin(make_nadam, (tc_grad_scaler_options){0}), without = begin(make_nadam, (tc_grad_scaler_options){0});
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < 3; i++) scaled_step(&with, 3, i == 1 ? NAN : 1);
    for (int i = 0; i < 2; i++) plain_step(&without, 3, 1);
    for (int i = 0; tc_optimizer_state_name(with.opt, i); i++) {
      if (!strstr(tc_optimizer_state_name(with.opt, i), k ? "mu_product" : "step")) continue;
      tc_tensor value = k ? tc_scalar(0.5) : tc_scalar(7);
      OK(tc_optimizer_set_state(with.opt, i, value));
      OK(tc_optimizer_set_state(without.opt, i, value));
    }
    plain_step(&with, 3, 1), plain_step(&without, 3, 1);
    expect_same(&with, &without, 2e-6f);
  }
  end(&with);
  end(&without);
}

Test(grad_scaler, f16_parameters_are_refused) {
  tc_tensor p = tc_param(tc_ones(TC_SHAPE(3), TC_F16));
  tc_optimizer *opt = tc_sgd(&p, 1, (tc_sgd_options){0});
  tc_grad_scaler *s = tc_grad_scaler_create((tc_grad_scaler_options){0});
  OK(tc_backward(tc_grad_scaler_scale(s, tc_sum(p, TC_ALL, false))));
  FAILS(tc_grad_scaler_unscale(s, opt), TC_ERR_DTYPE, "the gradient of parameter 0 is f16");
  tc_grad_scaler_destroy(s);
  tc_optimizer_destroy(opt);
  tc_release(p);
}
