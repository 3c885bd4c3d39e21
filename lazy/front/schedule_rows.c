// The formulas of learning-rate schedules, a function each, and the table of them.
//
// In: a schedule, a group's rate. Out: its next rate.
// The formulas are those of torch.optim.lr_scheduler in their recursive form, which multiplies the
// rate it finds: so chained schedules act together.
// Threads: thread-safe, pure. Owner: nobody.
#define TC_NO_SITES
#include "lazy/front/schedule.h"

#include <math.h>

static double anew_as_initial(const tc_schedule *s, int g) {
  return s->initial[g];
}

static double next_step(const tc_schedule *s, int g, double lr) {
  (void)g;
  return s->epoch == 0 || s->epoch % s->step.size != 0 ? lr : lr * s->step.gamma;
}

static double next_multi_step(const tc_schedule *s, int g, double lr) {
  (void)g;
  int n = 0;
  for (int i = 0; i < s->multi_step.n; i++) n += s->multi_step.at[i] == s->epoch;
  return n ? lr * pow(s->multi_step.gamma, n) : lr;
}

static double anew_multi_step(const tc_schedule *s, int g) {
  int n = 0;
  for (int i = 0; i < s->multi_step.n; i++) n += s->multi_step.at[i] <= 0;
  return s->initial[g] * pow(s->multi_step.gamma, n);
}

static double next_exponential(const tc_schedule *s, int g, double lr) {
  (void)g;
  return s->is_first ? lr : lr * s->gamma;
}

static double next_cosine(const tc_schedule *s, int g, double lr) {
  double t_max = (double)s->cosine.t_max, low = s->cosine.eta_min, at = (double)s->epoch;
  if (s->is_first) return lr;
  if ((s->epoch - 1 - s->cosine.t_max) % (2 * s->cosine.t_max) == 0)
    return lr + (s->initial[g] - low) * (1 - cos(M_PI / t_max)) / 2;
  return (1 + cos(M_PI * at / t_max)) / (1 + cos(M_PI * (at - 1) / t_max)) * (lr - low) + low;
}

static double next_restarts(const tc_schedule *s, int g, double lr) {
  (void)lr;
  double low = s->cosine.eta_min;
  return low + (s->initial[g] - low) * (1 + cos(M_PI * (double)s->since / (double)s->period)) / 2;
}

static double next_constant(const tc_schedule *s, int g, double lr) {
  double factor = s->constant.factor;
  if (s->epoch == 0) return lr * factor;
  if (s->epoch != s->constant.total_iters) return lr;
  return factor == 0 ? s->initial[g] : lr * (1 / factor);
}

static double anew_constant(const tc_schedule *s, int g) {
  return s->initial[g] * s->constant.factor;
}

static double next_linear(const tc_schedule *s, int g, double lr) {
  (void)g;
  const tc_linear_lr_options *o = &s->linear;
  double way = o->end_factor - o->start_factor;
  if (s->epoch == 0) return lr * o->start_factor;
  if (s->is_first || s->epoch > o->total_iters) return lr;
  return lr * (1 + way / ((double)o->total_iters * o->start_factor + (double)(s->epoch - 1) * way));
}

static double anew_linear(const tc_schedule *s, int g) {
  return s->initial[g] * s->linear.start_factor;
}

static double next_polynomial(const tc_schedule *s, int g, double lr) {
  (void)g;
  double total = (double)s->polynomial.total_iters, at = (double)s->epoch;
  if (s->is_first || s->epoch > s->polynomial.total_iters) return lr;
  return lr * pow((1 - at / total) / (1 - (at - 1) / total), s->polynomial.power);
}

static double next_lambda(const tc_schedule *s, int g, double lr) {
  (void)lr;
  return s->initial[g] * s->lambda.fn(s->epoch, g, s->lambda.user);
}

// ---- One cycle ----

// A part of the cycle: to which step, and between which rates and momenta.
typedef struct phase {
  double end, lr[2], momentum[2];
} phase;

static int phases_of(const tc_schedule *s, double initial, phase out[3]) {
  const tc_one_cycle_lr_options *o = &s->cycle;
  double up = o->pct_start * (double)o->total_steps, last = (double)o->total_steps - 1;
  double low = o->base_momentum, high = o->max_momentum, least = initial / o->final_div_factor;
  out[0] = (phase){up - 1, {initial, o->max_lr}, {high, low}};
  if (!o->three_phase) {
    out[1] = (phase){last, {o->max_lr, least}, {low, high}};
    return 2;
  }
  out[1] = (phase){2 * up - 2, {o->max_lr, initial}, {low, high}};
  out[2] = (phase){last, {initial, least}, {high, high}};
  return 3;
}

static double anneal(const tc_schedule *s, const double ends[2], double part) {
  if (s->cycle.linear) return (ends[1] - ends[0]) * part + ends[0];
  return ends[1] + (ends[0] - ends[1]) / 2 * (cos(M_PI * part) + 1);
}

// The phase of s->epoch, and how much of it has gone.
static phase phase_at(const tc_schedule *s, double initial, double *out_part) {
  phase all[3];
  int n = phases_of(s, initial, all), i = 0;
  double at = (double)s->epoch, start = 0;
  for (; i < n - 1 && at > all[i].end; i++) start = all[i].end;
  *out_part = (at - start) / (all[i].end - start);
  return all[i];
}

static double next_cycle(const tc_schedule *s, int g, double lr) {
  (void)lr;
  double part;
  phase p = phase_at(s, s->initial[g], &part);
  return anneal(s, p.lr, part);
}

double tc_schedule_momentum(const tc_schedule *s) {
  double part;
  phase p = phase_at(s, s->initial[0], &part);
  return anneal(s, p.momentum, part);
}

// ---- Plateau ----

bool tc_schedule_is_better(const tc_schedule *s, double metric) {
  const tc_reduce_lr_on_plateau_options *o = &s->plateau;
  if (o->max) return o->absolute ? metric > s->best + o->threshold : metric > s->best * (o->threshold + 1);
  return o->absolute ? metric < s->best - o->threshold : metric < s->best * (1 - o->threshold);
}

static double next_plateau(const tc_schedule *s, int g, double lr) {
  (void)g;
  double next = fmax(lr * s->plateau.factor, s->plateau.min_lr);
  return lr - next > s->plateau.eps ? next : lr;
}

const tc_schedule_row tc_schedule_step_row = {"StepLR", next_step, anew_as_initial};
const tc_schedule_row tc_schedule_multi_step_row = {"MultiStepLR", next_multi_step, anew_multi_step};
const tc_schedule_row tc_schedule_exponential_row = {"ExponentialLR", next_exponential, anew_as_initial};
const tc_schedule_row tc_schedule_cosine_row = {"CosineAnnealingLR", next_cosine, anew_as_initial};
const tc_schedule_row tc_schedule_restarts_row = {"CosineAnnealingWarmRestarts", next_restarts, NULL};
const tc_schedule_row tc_schedule_constant_row = {"ConstantLR", next_constant, anew_constant};
const tc_schedule_row tc_schedule_linear_row = {"LinearLR", next_linear, anew_linear};
const tc_schedule_row tc_schedule_polynomial_row = {"PolynomialLR", next_polynomial, anew_as_initial};
const tc_schedule_row tc_schedule_lambda_row = {"LambdaLR", next_lambda, NULL};
const tc_schedule_row tc_schedule_cycle_row = {"OneCycleLR", next_cycle, NULL};
const tc_schedule_row tc_schedule_plateau_row = {"ReduceLROnPlateau", next_plateau, NULL};
const tc_schedule_row tc_schedule_sequential_row = {"SequentialLR", NULL, NULL};
const tc_schedule_row tc_schedule_chained_row = {"ChainedScheduler", NULL, NULL};
