// Schedules of learning rates against PyTorch (tests/golden/schedules.safetensors, made by
// tools/golden_training.py): the rates of two groups, and the momentum, over 70 steps; a state
// saved at any step goes on alike; and what is refused.
#include <tc/io.h>

#include "tests/files/files.h"
#include "tests/golden_file.h"

enum { N_STEPS = 70 };

static double lambda(int64_t step, int group, void *user) {
  (void)user;
  return group == 0 ? pow(0.95, (double)step) : 1 / (1 + (double)step);
}

#define LIST(...) \
  (int64_t[]) { \
    __VA_ARGS__ \
  }
#define PARTS(...) \
  (tc_schedule *[]) { \
    __VA_ARGS__ \
  }
// clang-format off
#define CASES(X) \
  X(step, tc_step_lr(o, 7, 0.5)) \
  X(multi_step, tc_multi_step_lr(o, LIST(3, 10, 10, 40), 4, 0.3)) \
  X(exponential, tc_exponential_lr(o, 0.97)) \
  X(cosine, tc_cosine_annealing_lr(o, 13, 0.001)) \
  X(restarts, tc_cosine_annealing_warm_restarts(o, 5, 2, 0.002)) \
  X(restarts_even, tc_cosine_annealing_warm_restarts(o, 7, 1, 0)) \
  X(constant, tc_constant_lr(o, (tc_constant_lr_options){0.25, 9})) \
  X(constant_default, tc_constant_lr(o, (tc_constant_lr_options){0})) \
  X(linear, tc_linear_lr(o, (tc_linear_lr_options){0.1, 0.8, 12})) \
  X(linear_default, tc_linear_lr(o, (tc_linear_lr_options){0})) \
  X(polynomial, tc_polynomial_lr(o, (tc_polynomial_lr_options){50, 2})) \
  X(polynomial_default, tc_polynomial_lr(o, (tc_polynomial_lr_options){0})) \
  X(lambda, tc_lambda_lr(o, lambda, NULL)) \
  X(one_cycle, tc_one_cycle_lr(o, (tc_one_cycle_lr_options){.max_lr = 0.5, .total_steps = 80})) \
  X(one_cycle_three_phase, tc_one_cycle_lr(o, (tc_one_cycle_lr_options){.max_lr = 0.5, .total_steps = 75, .pct_start = 0.25, .linear = true, \
    .three_phase = true, .div_factor = 10, .final_div_factor = 100, .base_momentum = 0.7, .max_momentum = 0.9})) \
  X(one_cycle_fixed, tc_one_cycle_lr(o, (tc_one_cycle_lr_options){.max_lr = 0.3, .total_steps = 71, .fixed_momentum = true})) \
  X(plateau, tc_reduce_lr_on_plateau(o, (tc_reduce_lr_on_plateau_options){.factor = 0.5, .patience = 3, .cooldown = 2, .min_lr = 0.001})) \
  X(plateau_max, tc_reduce_lr_on_plateau(o, (tc_reduce_lr_on_plateau_options){.max = true, .threshold = 0.01, .absolute = true, .patience = 5})) \
  X(sequential, tc_sequential_lr(o, 2, PARTS(tc_linear_lr(o, (tc_linear_lr_options){0.1, 1, 10}), tc_cosine_annealing_lr(o, 40, 0)), LIST(10))) \
  X(sequential_three, tc_sequential_lr(o, 3, PARTS(tc_constant_lr(o, (tc_constant_lr_options){0.2, 5}), tc_exponential_lr(o, 0.9), \
    tc_multi_step_lr(o, LIST(4, 8), 2, 0.5)), LIST(6, 20))) \
  X(sequential_restarts, tc_sequential_lr(o, 2, PARTS(tc_linear_lr(o, (tc_linear_lr_options){0.5, 1, 8}), \
    tc_cosine_annealing_warm_restarts(o, 10, 1, 0)), LIST(8))) \
  X(chained, tc_chained_scheduler(2, PARTS(tc_constant_lr(o, (tc_constant_lr_options){0.1, 5}), tc_exponential_lr(o, 0.9)))) \
  X(chained_sequence, tc_chained_scheduler(2, PARTS(tc_sequential_lr(o, 2, PARTS(tc_linear_lr(o, (tc_linear_lr_options){0.2, 1, 5}), \
    tc_exponential_lr(o, 0.98)), LIST(7)), tc_step_lr(o, 20, 0.5))))
// clang-format on

typedef struct schedule_case {
  const char *name;
  tc_schedule *(*make)(tc_optimizer *o);
} schedule_case;

#define DEFINE(name, ...) \
  static tc_schedule *make_##name(tc_optimizer *o) { \
    return __VA_ARGS__; \
  }
CASES(DEFINE)
#define ROW(name, ...) {#name, make_##name},
static const schedule_case cases[] = {CASES(ROW)};

typedef struct setup {
  tc_tensor p[2];
  tc_optimizer *opt;
} setup;

static setup setup_init(void) {
  setup s;
  for (int i = 0; i < 2; i++) s.p[i] = tc_param(tc_zeros(TC_SHAPE(1), TC_F32));
  s.opt = tc_sgd(s.p, 1, (tc_sgd_options){.lr = 0.1, .momentum = 0.9});
  EXPECT_OK(tc_optimizer_add_group(s.opt, s.p + 1, 1, (tc_group_options){.lr = 0.02}));
  return s;
}

static void setup_fini(setup *s) {
  tc_optimizer_destroy(s->opt);
  for (int i = 0; i < 2; i++) tc_release(s->p[i]);
}

static void expect_rates(const char *name, int step, const tc_optimizer *opt, const double want[3]) {
  double got[3] = {tc_get_group_lr(opt, 0), tc_get_group_lr(opt, 1), tc_get_momentum(opt)};
  for (int k = 0; k < 3; k++)
    EXPECT(fabs(got[k] - want[k]) <= 1e-12 * fabs(want[k]) + 1e-17, "%s, step %d, %d: %.17g, torch has %.17g", name,
           step, k, got[k], want[k]);
}

static tc_status take_step(const schedule_case *c, tc_schedule *s, double metric) {
  return strncmp(c->name, "plateau", 7) == 0 ? tc_schedule_step_metric(s, metric) : tc_schedule_step(s);
}

// All steps; the schedule is made anew, over a new optimizer, from its state at step `cut`.
static void run_case(const schedule_case *c, const double (*want)[3], const double *metric, int cut) {
  tc_scope scope = tc_scope_begin();
  setup s = setup_init();
  tc_schedule *schedule = c->make(s.opt);
  EXPECT(schedule != NULL, "%s", c->name);
  for (int i = 0; i <= N_STEPS && schedule; i++) {
    expect_rates(c->name, i, s.opt, want[i]);
    if (i == cut) {
      tc_tensor state = tc_schedule_state(schedule);
      setup next = setup_init();
      tc_schedule *again = c->make(next.opt);
      EXPECT_OK(tc_schedule_set_state(again, state));
      for (int g = 0; g < 2; g++) EXPECT_OK(tc_set_group_lr(next.opt, g, tc_get_group_lr(s.opt, g)));
      EXPECT(strcmp(tc_schedule_name(again), tc_schedule_name(schedule)) == 0, "%s", tc_schedule_name(again));
      tc_schedule_destroy(schedule);
      setup_fini(&s);
      s = next, schedule = again;
    }
    EXPECT(tc_schedule_n_steps(schedule) == i, "%s: %lld steps", c->name, (long long)tc_schedule_n_steps(schedule));
    if (i < N_STEPS) EXPECT_OK(take_step(c, schedule, metric[i]));
  }
  tc_schedule_destroy(schedule);
  setup_fini(&s);
  tc_scope_end(scope);
}

static void schedules_are_pytorchs(void) {
  tc_scope scope = tc_scope_begin();
  tc_archive *a = tc_safetensors_open("tests/golden/schedules.safetensors");
  static double want[N_STEPS + 1][3], metric[N_STEPS];
  EXPECT(tc_archive_count(a) == 1 + sizeof cases / sizeof cases[0], "%d tensors in the file", tc_archive_count(a));
  EXPECT_OK(tc_to_host(tc_archive_get(a, "metric"), metric, sizeof metric));
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    EXPECT_OK(tc_to_host(tc_archive_get(a, cases[i].name), want, sizeof want));
    static const int cuts[] = {-1, 0, 6, 23};
    for (size_t k = 0; k < sizeof cuts / sizeof cuts[0]; k++) run_case(&cases[i], want, metric, cuts[k]);
  }
  tc_archive_close(a);
  tc_scope_end(scope);
}

// A group without a rate of its own follows, and goes on following.
static void groups_without_a_rate_follow(void) {
  tc_tensor p[2];
  for (int i = 0; i < 2; i++) p[i] = tc_param(tc_zeros(TC_SHAPE(1), TC_F32));
  tc_optimizer *opt = tc_adam(p, 1, (tc_adam_options){.lr = 1});
  EXPECT_OK(tc_optimizer_add_group(opt, p + 1, 1, (tc_group_options){0}));
  tc_schedule *s = tc_exponential_lr(opt, 0.5);
  EXPECT_OK(tc_schedule_step(s));
  EXPECT(tc_get_group_lr(opt, 1) == 0.5, "%g", tc_get_group_lr(opt, 1));
  EXPECT_OK(tc_set_lr(opt, 3));
  EXPECT(tc_get_group_lr(opt, 1) == 3, "%g", tc_get_group_lr(opt, 1));
  // beta1 is Adam's momentum.
  tc_schedule *cycle = tc_one_cycle_lr(opt, (tc_one_cycle_lr_options){.max_lr = 1, .total_steps = 10});
  EXPECT(tc_get_momentum(opt) == 0.95, "%g", tc_get_momentum(opt));
  for (int i = 0; i < 10; i++) EXPECT_OK(tc_schedule_step(cycle));
  EXPECT_FAILS(tc_schedule_step(cycle), TC_ERR_STATE, "all 10 steps of the cycle are done; give more total_steps");
  tc_schedule_destroy(s);
  tc_schedule_destroy(cycle);
  tc_optimizer_destroy(opt);
  for (int i = 0; i < 2; i++) tc_release(p[i]);
}

static double nonsense(int64_t step, int group, void *user) {
  (void)group, (void)user;
  return step < 2 ? 1 : -1;
}

static void wrong_calls_say_what(void) {
  tc_scope scope = tc_scope_begin();
  setup s = setup_init(), t = setup_init();
  tc_optimizer *o = s.opt;
  EXPECT_FAILS(tc_step_lr(NULL, 3, 0.1), TC_ERR_ARG, "there is no optimizer");
  EXPECT_FAILS(tc_step_lr(o, 0, 0.1), TC_ERR_ARG, "step_size is 0, give a number from 1 on");
  EXPECT_FAILS(tc_step_lr(o, 3, NAN), TC_ERR_ARG, "gamma is nan");
  EXPECT_FAILS(tc_multi_step_lr(NULL, LIST(1), 1, 0.1), TC_ERR_ARG, "there is no optimizer");
  EXPECT_FAILS(tc_multi_step_lr(o, NULL, 2, 0.1), TC_ERR_ARG, "2 milestones at a null pointer");
  EXPECT_FAILS(tc_exponential_lr(o, -1), TC_ERR_ARG, "gamma is -1");
  EXPECT_FAILS(tc_cosine_annealing_lr(o, 0, 0), TC_ERR_ARG, "t_max is 0");
  EXPECT_FAILS(tc_cosine_annealing_warm_restarts(o, 5, 0, 0), TC_ERR_ARG, "t_mult is 0");
  EXPECT_FAILS(tc_constant_lr(o, (tc_constant_lr_options){.factor = 2}), TC_ERR_ARG,
               "factor is 2, give a number within [0, 1]");
  EXPECT_FAILS(tc_linear_lr(o, (tc_linear_lr_options){.start_factor = TC_ZERO}), TC_ERR_ARG, "start_factor is 0");
  EXPECT_FAILS(tc_polynomial_lr(o, (tc_polynomial_lr_options){.total_iters = -1}), TC_ERR_ARG, "total_iters is -1");
  EXPECT_FAILS(tc_lambda_lr(o, NULL, NULL), TC_ERR_ARG, "fn is NULL");
  EXPECT_FAILS(tc_one_cycle_lr(o, (tc_one_cycle_lr_options){.max_lr = 1}), TC_ERR_ARG, "total_steps is 0");
  EXPECT_FAILS(tc_reduce_lr_on_plateau(o, (tc_reduce_lr_on_plateau_options){.factor = 1}), TC_ERR_ARG, "factor is 1");
  tc_optimizer *plain = tc_sgd(t.p, 1, (tc_sgd_options){.lr = 0.1}),
               *sums = tc_adagrad(t.p, 1, (tc_adagrad_options){0});
  EXPECT_FAILS(tc_one_cycle_lr(plain, (tc_one_cycle_lr_options){.max_lr = 1, .total_steps = 9}), TC_ERR_ARG,
               "this sgd has no momentum; create it with .momentum above 0");
  EXPECT_FAILS(tc_set_momentum(sums, 0.5), TC_ERR_ARG, "this adagrad has no momentum, nor beta1");
  EXPECT_FAILS(tc_set_momentum(o, 1), TC_ERR_ARG, "momentum is 1, not within [0, 1)");
  EXPECT_FAILS(tc_set_momentum(NULL, 0.5), TC_ERR_ARG, "no optimizer");
  tc_optimizer_destroy(plain);
  tc_optimizer_destroy(sums);
  // Whole schedules; what is taken over is gone, also where it fails.
  EXPECT_FAILS(tc_sequential_lr(o, 2, PARTS(tc_step_lr(o, 3, 0.1), NULL), LIST(5)), TC_ERR_ARG, "schedule 1 is NULL");
  EXPECT_FAILS(tc_sequential_lr(o, 2, PARTS(tc_step_lr(o, 3, 0.1), tc_step_lr(t.opt, 3, 0.1)), LIST(5)), TC_ERR_ARG,
               "schedule 1, StepLR, is of another optimizer");
  EXPECT_FAILS(tc_sequential_lr(o, 2, PARTS(tc_step_lr(o, 3, 0.1), tc_step_lr(o, 3, 0.1)), LIST(0)), TC_ERR_ARG,
               "milestone 0 is 0; they must rise from above 0");
  tc_schedule *twice = tc_step_lr(o, 3, 0.1);
  EXPECT_FAILS(tc_chained_scheduler(2, PARTS(twice, twice)), TC_ERR_ARG, "schedules 0 and 1 are the same");
  EXPECT_FAILS(tc_sequential_lr(o, 2, PARTS(tc_step_lr(o, 3, 0.1), tc_step_lr(o, 0, 0.1)), LIST(5)), TC_ERR_ARG,
               "schedule 1 is NULL: step_lr: step_size is 0, give a number from 1 on");
  EXPECT_FAILS(tc_sequential_lr(NULL, 1, PARTS(tc_step_lr(o, 3, 0.1)), NULL), TC_ERR_ARG, "there is no optimizer");
  EXPECT_FAILS(tc_chained_scheduler(0, NULL), TC_ERR_ARG, "0 schedules");
  tc_schedule *plateau = tc_reduce_lr_on_plateau(o, (tc_reduce_lr_on_plateau_options){0});
  EXPECT_FAILS(tc_chained_scheduler(1, &plateau), TC_ERR_ARG,
               "schedule 0 is ReduceLROnPlateau, which cannot be a part");
  tc_schedule *part = tc_step_lr(o, 3, 0.1), *whole = tc_chained_scheduler(1, &part);
  EXPECT_FAILS(tc_schedule_step(part), TC_ERR_STATE, "this StepLR is a part of another schedule; step that one");
  tc_schedule_destroy(part);  // is left to whole
  EXPECT_FAILS(tc_sequential_lr(o, 1, &whole, NULL), TC_ERR_ARG, "schedule 0 is ChainedScheduler(StepLR)");
  tc_schedule *bad = tc_lambda_lr(o, nonsense, NULL);
  EXPECT_OK(tc_schedule_step(bad));
  double before = tc_get_lr(o);
  EXPECT_FAILS(tc_schedule_step(bad), TC_ERR_ARG, "LambdaLR: the rate of group 0 at step 2 is -0.1");
  EXPECT(tc_get_lr(o) == before && tc_schedule_n_steps(bad) == 1, "a step that fails changes nothing");
  EXPECT_FAILS(tc_schedule_step_metric(bad, 1), TC_ERR_ARG, "LambdaLR looks at no metric; call tc_schedule_step");
  plateau = tc_reduce_lr_on_plateau(o, (tc_reduce_lr_on_plateau_options){0});
  EXPECT_FAILS(tc_schedule_step(plateau), TC_ERR_ARG, "call tc_schedule_step_metric");
  EXPECT_FAILS(tc_schedule_step(NULL), TC_ERR_ARG, "there is no schedule");
  EXPECT_FAILS(tc_schedule_set_state(bad, tc_zeros(TC_SHAPE(3), TC_F64)), TC_ERR_SHAPE,
               "LambdaLR has a state of [9], this is [3]");
  EXPECT_FAILS(tc_schedule_set_state(bad, tc_full(TC_SHAPE(9), 0.5, TC_F64)), TC_ERR_ARG, "LambdaLR: epoch is 0.5");
  EXPECT_FAILS(tc_schedule_state(NULL), TC_ERR_ARG, "there is no schedule");
  tc_tensor late = tc_param(tc_zeros(TC_SHAPE(1), TC_F32));
  EXPECT_OK(tc_optimizer_add_group(o, &late, 1, (tc_group_options){0}));
  EXPECT_FAILS(tc_schedule_step(bad), TC_ERR_STATE, "make the schedule after the last group");
  EXPECT(tc_schedule_name(NULL)[0] == 0 && tc_schedule_n_steps(NULL) == 0, "no schedule");
  tc_schedule_destroy(bad);
  tc_schedule_destroy(plateau);
  tc_schedule_destroy(NULL);
  setup_fini(&s);
  setup_fini(&t);
  tc_release(late);
  tc_scope_end(scope);
}

int main(void) {
  if (has_library(tc_safetensors_open_at)) schedules_are_pytorchs();
  groups_without_a_rate_follow();
  wrong_calls_say_what();
  return expect_done("api-schedules");
}
