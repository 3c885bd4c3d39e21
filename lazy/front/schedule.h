// A schedule's fields, and the rows of the table of schedules.
//
// In: an optimizer's learning rates. Out: the next ones.
// Invariants: a schedule that another took over is stepped by that one alone.
// Threads: thread-compatible. Owner: a schedule owns those it took over; it borrows its optimizer.
#pragma once

#include <tc/train.h>

#include "runtime/status.h"

typedef struct tc_schedule_row tc_schedule_row;

struct tc_schedule {
  const tc_schedule_row *row;
  tc_optimizer *opt;  // borrowed
  int n_groups;  // of opt when the schedule was made
  double *initial;  // their initial rates
  int64_t epoch;  // steps so far; -1 before step 0
  bool is_first;  // whether step 0 is being taken
  union {
    struct {
      int64_t size;
      double gamma;
    } step;
    struct {
      int64_t *at;  // owned
      int n;
      double gamma;
    } multi_step;
    double gamma;
    struct {
      int64_t t_max, t_mult;
      double eta_min;
    } cosine;
    tc_constant_lr_options constant;
    tc_linear_lr_options linear;
    tc_polynomial_lr_options polynomial;
    struct {
      double (*fn)(int64_t step, int group, void *user);
      void *user;
    } lambda;
    tc_one_cycle_lr_options cycle;
    tc_reduce_lr_on_plateau_options plateau;
  };
  int64_t since, period;  // of warm restarts: steps since the last one, and until the next
  double best;  // of a plateau
  int64_t n_bad, n_cooling;
  int n_parts;
  tc_schedule **parts;  // owned: taken over
  int64_t *milestones;  // n_parts - 1
  bool is_taken;
  char *name;
};

// PyTorch's name, and the next rate of group g, whose rate is lr, at s->epoch.
struct tc_schedule_row {
  const char *name;
  double (*next)(const tc_schedule *s, int g, double lr);
  // the rate at step 0 from the initial one alone, for a SequentialLR that begins the schedule
  // anew;
  // NULL: next
  double (*anew)(const tc_schedule *s, int g);
};

extern const tc_schedule_row tc_schedule_step_row, tc_schedule_multi_step_row, tc_schedule_exponential_row,
    tc_schedule_cosine_row, tc_schedule_restarts_row, tc_schedule_constant_row, tc_schedule_linear_row,
    tc_schedule_polynomial_row, tc_schedule_lambda_row, tc_schedule_cycle_row, tc_schedule_plateau_row,
    tc_schedule_sequential_row, tc_schedule_chained_row;

// A schedule of options (row and numbers set, the rest zeros) over opt, before its step 0; NULL
// after reporting. What options own is the schedule's, or gone.
tc_schedule *tc_schedule_create(const char *op, tc_optimizer *opt, tc_schedule options, tc_site site);
// Step 0.
tc_status tc_schedule_step_first(const char *op, tc_schedule *s, tc_site site);
// The constructors, for an error about a schedule that is NULL to say why it is.
#define TC_SCHEDULE_MAKERS \
  "step_lr multi_step_lr exponential_lr cosine_annealing_lr cosine_annealing_warm_restarts constant_lr linear_lr " \
  "polynomial_lr lambda_lr one_cycle_lr reduce_lr_on_plateau sequential_lr chained_scheduler"
// The momentum of a one-cycle schedule at s->epoch.
double tc_schedule_momentum(const tc_schedule *s);
// Whether a plateau takes metric for better than the best one.
bool tc_schedule_is_better(const tc_schedule *s, double metric);
