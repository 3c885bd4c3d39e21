// Schedules of learning rates: making them, stepping them, and what they go on from.
//
// In: an optimizer. Out: its groups' rates, set; nothing is recorded.
// Invariants: a step sets all groups' rates or, where it fails, none. What is stepped and in which
// order is torch.optim.lr_scheduler's.
// Threads: thread-compatible. Owner: schedule.h.
#define TC_NO_SITES
#include "lazy/front/schedule.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lazy/front/operand.h"
#include "lazy/trace/capture_break.h"

// ---- Steps ----

// Sets the rates at s->epoch; anew: from the initial ones.
static tc_status set_rates(const char *op, const tc_schedule *s, bool anew, tc_site site) {
  double *next = malloc((size_t)s->n_groups * sizeof *next);
  if (!next) return tc_fail(TC_ERR_MEMORY, op, site, "%d rates", s->n_groups);
  tc_status st = TC_OK;
  for (int g = 0; g < s->n_groups && st == TC_OK; g++) {
    double lr = tc_get_group_lr_at(s->opt, g, site);
    next[g] = anew && s->row->anew ? s->row->anew(s, g) : s->row->next(s, g, lr);
    if (!(next[g] >= 0) || !isfinite(next[g]))
      st = tc_fail(TC_ERR_ARG, op, site, "%s: the rate of group %d at step %lld is %g, not a number from 0 on",
                   s->row->name, g, (long long)s->epoch, next[g]);
  }
  if (st == TC_OK) st = tc_set_lr_at(s->opt, next[0], site);
  for (int g = 1; g < s->n_groups && st == TC_OK; g++)  // a group without a rate of its own follows
    if (tc_get_group_lr_at(s->opt, g, site) != next[g]) st = tc_set_group_lr_at(s->opt, g, next[g], site);
  free(next);
  if (st == TC_OK && s->row == &tc_schedule_cycle_row && !s->cycle.fixed_momentum)
    st = tc_set_momentum_at(s->opt, tc_schedule_momentum(s), site);
  return st;
}

static void count_restarts(tc_schedule *s) {
  if (s->epoch < 0) {
    s->since = 0, s->period = s->cosine.t_max;
  } else if (++s->since >= s->period) {
    s->since %= s->period;
    s->period *= s->cosine.t_mult;
  }
}

static tc_status step_simple(const char *op, tc_schedule *s, tc_site site) {
  tc_schedule before = *s;
  if (s->row == &tc_schedule_restarts_row) count_restarts(s);
  s->epoch++;
  if (s->row == &tc_schedule_cycle_row && s->epoch > s->cycle.total_steps) {
    *s = before;
    return tc_fail(TC_ERR_STATE, op, site, "OneCycleLR: all %lld steps of the cycle are done; give more total_steps",
                   (long long)s->cycle.total_steps);
  }
  tc_status st = set_rates(op, s, false, site);
  if (st != TC_OK) *s = before;
  return st;
}

tc_status tc_schedule_step_first(const char *op, tc_schedule *s, tc_site site) {
  s->is_first = true;
  tc_status st = step_simple(op, s, site);
  s->is_first = false;
  return st;
}

static tc_status begin_anew(const char *op, tc_schedule *s, tc_site site) {
  int64_t epoch = s->epoch;
  s->epoch = 0;
  tc_status st = set_rates(op, s, true, site);
  if (st != TC_OK) s->epoch = epoch;
  return st;
}

static int part_at(const tc_schedule *s, int64_t epoch) {
  int i = 0;
  while (i < s->n_parts - 1 && s->milestones[i] <= epoch) i++;
  return i;
}

static tc_status step_any(const char *op, tc_schedule *s, tc_site site);

static tc_status step_sequential(const char *op, tc_schedule *s, tc_site site) {
  int i = part_at(s, s->epoch + 1);
  if (i > 0 && s->milestones[i - 1] == s->epoch + 1)
    TC_TRY(begin_anew(op, s->parts[i], site));
  else
    TC_TRY(step_simple(op, s->parts[i], site));
  s->epoch++;
  return TC_OK;
}

static tc_status step_any(const char *op, tc_schedule *s, tc_site site) {
  if (s->row == &tc_schedule_sequential_row) return step_sequential(op, s, site);
  if (s->row != &tc_schedule_chained_row) return step_simple(op, s, site);
  for (int i = 0; i < s->n_parts; i++) TC_TRY(step_any(op, s->parts[i], site));
  s->epoch++;
  return TC_OK;
}

static tc_status check_step(const char *op, const tc_schedule *s, tc_site site) {
  char why[256];
  if (!s)
    return tc_fail(TC_ERR_ARG, op, site, "there is no schedule%s", tc_error_of(TC_SCHEDULE_MAKERS, why, sizeof why));
  if (s->is_taken)
    return tc_fail(TC_ERR_STATE, op, site, "this %s is a part of another schedule; step that one", s->row->name);
  int n = tc_optimizer_n_groups(s->opt);
  if (n == s->n_groups) return TC_OK;
  return tc_fail(TC_ERR_STATE, op, site,
                 "the optimizer has %d groups, it had %d when %s was made; make the schedule after the last group", n,
                 s->n_groups, s->row->name);
}

tc_status tc_schedule_step_at(tc_schedule *s, tc_site site) {
  TC_CALLED_AS("schedule_step");
  TC_TRY(check_step("schedule_step", s, site));
  if (s->row == &tc_schedule_plateau_row)
    return tc_fail(TC_ERR_ARG, "schedule_step", site, "%s looks at a metric; call tc_schedule_step_metric",
                   s->row->name);
  return step_any("schedule_step", s, site);
}

tc_status tc_schedule_step_metric_at(tc_schedule *s, double metric, tc_site site) {
  TC_CALLED_AS("schedule_step_metric");
  const char *op = "schedule_step_metric";
  TC_TRY(check_step(op, s, site));
  if (s->row != &tc_schedule_plateau_row)
    return tc_fail(TC_ERR_ARG, op, site, "%s looks at no metric; call tc_schedule_step", s->row->name);
  tc_capture_break_mine("a schedule that it steps", op, site);
  tc_schedule before = *s;
  s->epoch++, s->n_bad++;
  if (tc_schedule_is_better(s, metric)) s->best = metric, s->n_bad = 0;
  if (s->n_cooling > 0) s->n_cooling--, s->n_bad = 0;
  if (s->n_bad <= s->plateau.patience) return TC_OK;
  s->n_cooling = s->plateau.cooldown, s->n_bad = 0;
  tc_status st = set_rates(op, s, false, site);
  if (st != TC_OK) *s = before;
  return st;
}

// ---- Making and unmaking ----

void tc_schedule_destroy(tc_schedule *s) {
  if (!s || s->is_taken) return;
  for (int i = 0; i < s->n_parts; i++) {
    if (!s->parts[i]) continue;
    s->parts[i]->is_taken = false;
    tc_schedule_destroy(s->parts[i]);
  }
  if (s->row == &tc_schedule_multi_step_row) free(s->multi_step.at);
  free(s->parts);
  free(s->milestones);
  free(s->initial);
  free(s->name);
  free(s);
}

tc_schedule *tc_schedule_create(const char *op, tc_optimizer *opt, tc_schedule options, tc_site site) {
  tc_schedule *s = opt ? malloc(sizeof *s) : NULL;
  if (!s) {
    if (options.row == &tc_schedule_multi_step_row) free(options.multi_step.at);
    return tc_fail(opt ? TC_ERR_MEMORY : TC_ERR_ARG, op, site, opt ? "no memory" : "there is no optimizer"), NULL;
  }
  *s = options;
  s->opt = opt, s->n_groups = tc_optimizer_n_groups(opt), s->epoch = -1;
  s->initial = calloc((size_t)s->n_groups, sizeof *s->initial);
  s->name = strdup(s->row->name);
  if (!s->initial || !s->name) {
    tc_schedule_destroy(s);
    return tc_fail(TC_ERR_MEMORY, op, site, "no memory"), NULL;
  }
  for (int g = 0; g < s->n_groups; g++) {
    s->initial[g] = tc_get_initial_lr_at(opt, g, site);
    (void)tc_set_initial_lr_at(opt, g, s->initial[g], site);
  }
  return s;
}

// Creates a schedule and takes its step 0.
static tc_schedule *create_simple(const char *op, tc_optimizer *opt, tc_schedule options, tc_site site) {
  tc_schedule *s = tc_schedule_create(op, opt, options, site);
  if (!s || tc_schedule_step_first(op, s, site) == TC_OK) return s;
  tc_schedule_destroy(s);
  return NULL;
}

// A number of the options, which must lie within [low, high].
typedef struct checked {
  const char *what;
  double value, low, high;
} checked;

static bool check_numbers(const char *op, tc_site site, int n, const checked *numbers) {
  for (const checked *c = numbers; c < numbers + n; c++) {
    if (c->value >= c->low && c->value <= c->high) continue;  // false for nan
    if (c->high == INFINITY || c->high == DBL_MAX)
      tc_fail(TC_ERR_ARG, op, site, "%s is %g, give a number from %g on", c->what, c->value, c->low);
    else
      tc_fail(TC_ERR_ARG, op, site, "%s is %g, give a number within [%g, %g]", c->what, c->value, c->low, c->high);
    return false;
  }
  return true;
}

#define CHECK(...) check_numbers(op, site, sizeof((checked[]){__VA_ARGS__}) / sizeof(checked), (checked[]){__VA_ARGS__})

tc_schedule *tc_step_lr_at(tc_optimizer *opt, int64_t step_size, double gamma, tc_site site) {
  TC_CALLED_AS("step_lr");
  const char *op = "step_lr";
  if (!CHECK({"step_size", (double)step_size, 1, DBL_MAX}, {"gamma", gamma, 0, DBL_MAX})) return NULL;
  tc_schedule s = {.row = &tc_schedule_step_row, .step = {step_size, gamma}};
  return create_simple(op, opt, s, site);
}

tc_schedule *tc_multi_step_lr_at(tc_optimizer *opt, const int64_t *milestones, int n, double gamma, tc_site site) {
  TC_CALLED_AS("multi_step_lr");
  const char *op = "multi_step_lr";
  if (!CHECK({"n", n, 0, DBL_MAX}, {"gamma", gamma, 0, DBL_MAX})) return NULL;
  if (n > 0 && !milestones) return tc_fail(TC_ERR_ARG, op, site, "%d milestones at a null pointer", n), NULL;
  tc_schedule s = {.row = &tc_schedule_multi_step_row, .multi_step = {NULL, n, gamma}};
  s.multi_step.at = malloc((size_t)n * sizeof *milestones + 1);
  if (!s.multi_step.at) return tc_fail(TC_ERR_MEMORY, op, site, "%d milestones", n), NULL;
  if (n > 0) memcpy(s.multi_step.at, milestones, (size_t)n * sizeof *milestones);
  return create_simple(op, opt, s, site);
}

tc_schedule *tc_exponential_lr_at(tc_optimizer *opt, double gamma, tc_site site) {
  TC_CALLED_AS("exponential_lr");
  const char *op = "exponential_lr";
  if (!CHECK({"gamma", gamma, 0, DBL_MAX})) return NULL;
  return create_simple(op, opt, (tc_schedule){.row = &tc_schedule_exponential_row, .gamma = gamma}, site);
}

tc_schedule *tc_cosine_annealing_lr_at(tc_optimizer *opt, int64_t t_max, double eta_min, tc_site site) {
  TC_CALLED_AS("cosine_annealing_lr");
  const char *op = "cosine_annealing_lr";
  if (!CHECK({"t_max", (double)t_max, 1, DBL_MAX}, {"eta_min", eta_min, 0, DBL_MAX})) return NULL;
  return create_simple(op, opt, (tc_schedule){.row = &tc_schedule_cosine_row, .cosine = {t_max, 0, eta_min}}, site);
}

tc_schedule *tc_cosine_annealing_warm_restarts_at(tc_optimizer *opt, int64_t t_0, int64_t t_mult, double eta_min,
                                                  tc_site site) {
  TC_CALLED_AS("cosine_annealing_warm_restarts");
  const char *op = "cosine_annealing_warm_restarts";
  if (!CHECK({"t_0", (double)t_0, 1, DBL_MAX}, {"t_mult", (double)t_mult, 1, DBL_MAX},
             {"eta_min", eta_min, 0, DBL_MAX}))
    return NULL;
  return create_simple(op, opt, (tc_schedule){.row = &tc_schedule_restarts_row, .cosine = {t_0, t_mult, eta_min}},
                       site);
}

tc_schedule *tc_constant_lr_at(tc_optimizer *opt, tc_constant_lr_options o, tc_site site) {
  TC_CALLED_AS("constant_lr");
  const char *op = "constant_lr";
  o.factor = tc_option(o.factor, 1.0 / 3), o.total_iters = tc_option_int(o.total_iters, 5);
  if (!CHECK({"factor", o.factor, 0, 1}, {"total_iters", (double)o.total_iters, 0, DBL_MAX})) return NULL;
  return create_simple(op, opt, (tc_schedule){.row = &tc_schedule_constant_row, .constant = o}, site);
}

tc_schedule *tc_linear_lr_at(tc_optimizer *opt, tc_linear_lr_options o, tc_site site) {
  TC_CALLED_AS("linear_lr");
  const char *op = "linear_lr";
  o.start_factor = tc_option(o.start_factor, 1.0 / 3), o.end_factor = tc_option(o.end_factor, 1);
  o.total_iters = tc_option_int(o.total_iters, 5);
  if (!CHECK({"start_factor", o.start_factor, DBL_MIN, 1}, {"end_factor", o.end_factor, 0, 1},
             {"total_iters", (double)o.total_iters, 1, DBL_MAX}))
    return NULL;
  return create_simple(op, opt, (tc_schedule){.row = &tc_schedule_linear_row, .linear = o}, site);
}

tc_schedule *tc_polynomial_lr_at(tc_optimizer *opt, tc_polynomial_lr_options o, tc_site site) {
  TC_CALLED_AS("polynomial_lr");
  const char *op = "polynomial_lr";
  o.total_iters = tc_option_int(o.total_iters, 5), o.power = tc_option(o.power, 1);
  if (!CHECK({"total_iters", (double)o.total_iters, 1, DBL_MAX}, {"power", o.power, 0, DBL_MAX})) return NULL;
  return create_simple(op, opt, (tc_schedule){.row = &tc_schedule_polynomial_row, .polynomial = o}, site);
}

tc_schedule *tc_lambda_lr_at(tc_optimizer *opt, double (*fn)(int64_t step, int group, void *user), void *user,
                             tc_site site) {
  TC_CALLED_AS("lambda_lr");
  if (!fn) return tc_fail(TC_ERR_ARG, "lambda_lr", site, "fn is NULL"), NULL;
  return create_simple("lambda_lr", opt, (tc_schedule){.row = &tc_schedule_lambda_row, .lambda = {fn, user}}, site);
}

tc_schedule *tc_one_cycle_lr_at(tc_optimizer *opt, tc_one_cycle_lr_options o, tc_site site) {
  TC_CALLED_AS("one_cycle_lr");
  const char *op = "one_cycle_lr";
  o.pct_start = tc_option(o.pct_start, 0.3), o.div_factor = tc_option(o.div_factor, 25);
  o.final_div_factor = tc_option(o.final_div_factor, 1e4);
  o.base_momentum = tc_option(o.base_momentum, 0.85), o.max_momentum = tc_option(o.max_momentum, 0.95);
  double below_one = nextafter(1, 0);
  if (!CHECK({"max_lr", o.max_lr, DBL_MIN, DBL_MAX}, {"total_steps", (double)o.total_steps, 1, DBL_MAX},
             {"pct_start", o.pct_start, 0, 1}, {"div_factor", o.div_factor, DBL_MIN, DBL_MAX},
             {"final_div_factor", o.final_div_factor, DBL_MIN, DBL_MAX},
             {"base_momentum", o.base_momentum, 0, below_one}, {"max_momentum", o.max_momentum, 0, below_one}))
    return NULL;
  if (!opt) return tc_fail(TC_ERR_ARG, op, site, "there is no optimizer"), NULL;
  if (!o.fixed_momentum && tc_set_momentum_at(opt, o.max_momentum, site) != TC_OK) return NULL;
  for (int g = 0; g < tc_optimizer_n_groups(opt); g++)
    (void)tc_set_initial_lr_at(opt, g, o.max_lr / o.div_factor, site);
  return create_simple(op, opt, (tc_schedule){.row = &tc_schedule_cycle_row, .cycle = o}, site);
}

tc_schedule *tc_reduce_lr_on_plateau_at(tc_optimizer *opt, tc_reduce_lr_on_plateau_options o, tc_site site) {
  TC_CALLED_AS("reduce_lr_on_plateau");
  const char *op = "reduce_lr_on_plateau";
  o.factor = tc_option(o.factor, 0.1), o.patience = tc_option_int(o.patience, 10);
  o.threshold = tc_option(o.threshold, 1e-4), o.cooldown = tc_option_int(o.cooldown, 0);
  o.min_lr = tc_option(o.min_lr, 0), o.eps = tc_option(o.eps, 1e-8);
  if (!CHECK({"factor", o.factor, 0, nextafter(1, 0)}, {"patience", (double)o.patience, 0, DBL_MAX},
             {"threshold", o.threshold, 0, DBL_MAX}, {"cooldown", (double)o.cooldown, 0, DBL_MAX},
             {"min_lr", o.min_lr, 0, DBL_MAX}, {"eps", o.eps, 0, DBL_MAX}))
    return NULL;
  tc_schedule *s = tc_schedule_create(op, opt, (tc_schedule){.row = &tc_schedule_plateau_row, .plateau = o}, site);
  if (s) s->epoch = 0, s->best = o.max ? -INFINITY : INFINITY;
  return s;
}
