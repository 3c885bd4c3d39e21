// Schedules made of others, and the state of all kinds.
//
// In: schedules, which are taken over. Out: one over them.
// Invariants: what a constructor is given is its own from then on, also where it fails.
// Threads: thread-compatible. Owner: schedule.h.
#define TC_NO_SITES
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lazy/front/operand.h"
#include "lazy/front/schedule.h"
#include "lazy/trace/capture_break.h"

// ---- Schedules made of others ----

// What is given and was not taken goes, each once.
static void drop_all(int n, tc_schedule *const *given) {
  for (int i = 0; given && i < n; i++) {
    bool is_twice = false;
    for (int k = 0; k < i; k++) is_twice = is_twice || given[k] == given[i];
    if (!is_twice) tc_schedule_destroy(given[i]);
  }
}

static tc_status check_part(const char *op, const tc_optimizer *opt, int i, tc_schedule *const *given, bool simple,
                            tc_site site) {
  const tc_schedule *s = given[i];
  char why[256];
  if (!s)
    return tc_fail(TC_ERR_ARG, op, site, "schedule %d is NULL%s", i, tc_error_of(TC_SCHEDULE_MAKERS, why, sizeof why));
  for (int k = 0; k < i; k++)
    if (given[k] == s) return tc_fail(TC_ERR_ARG, op, site, "schedules %d and %d are the same", k, i);
  if (s->is_taken) return tc_fail(TC_ERR_ARG, op, site, "schedule %d, %s, is a part of another already", i, s->name);
  if (s->opt != opt) return tc_fail(TC_ERR_ARG, op, site, "schedule %d, %s, is of another optimizer", i, s->name);
  bool fits = s->row != &tc_schedule_plateau_row && s->row != &tc_schedule_chained_row &&
              (!simple || s->row != &tc_schedule_sequential_row);
  if (!fits)
    return tc_fail(TC_ERR_ARG, op, site, "schedule %d is %s, which cannot be a part of this; step it by itself", i,
                   s->name);
  return TC_OK;
}

static tc_status check_parts(const char *op, const tc_optimizer *opt, int n, tc_schedule *const *given, bool simple,
                             tc_site site) {
  if (n < 1 || !given) return tc_fail(TC_ERR_ARG, op, site, "%d schedules%s", n, n < 1 ? "" : " at a null pointer");
  for (int i = 0; i < n; i++) TC_TRY(check_part(op, opt, i, given, simple, site));
  return TC_OK;
}

// "SequentialLR(LinearLR,StepLR)"
static char *name_of(const tc_schedule_row *row, int n, tc_schedule *const *parts) {
  size_t bytes = strlen(row->name) + 3;
  for (int i = 0; i < n; i++) bytes += strlen(parts[i]->name) + 1;
  char *name = malloc(bytes), *to = name;
  if (!name) return NULL;
  to += sprintf(to, "%s(", row->name);
  for (int i = 0; i < n; i++) to += sprintf(to, i ? ",%s" : "%s", parts[i]->name);
  sprintf(to, ")");
  return name;
}

// A schedule over n checked ones, taken over; NULL after reporting.
static tc_schedule *create_over(const char *op, tc_optimizer *opt, const tc_schedule_row *row, int n,
                                tc_schedule *const *given, const int64_t *milestones, tc_site site) {
  tc_schedule *s = tc_schedule_create(op, opt, (tc_schedule){.row = row}, site);
  if (!s) return NULL;
  free(s->name);
  s->name = name_of(row, n, given);
  s->parts = calloc((size_t)n, sizeof(tc_schedule *));
  s->milestones = calloc((size_t)n, sizeof *s->milestones);
  if (!s->name || !s->parts || !s->milestones) {
    tc_schedule_destroy(s);
    return tc_fail(TC_ERR_MEMORY, op, site, "%d schedules", n), NULL;
  }
  for (int i = 0; i < n; i++) s->parts[i] = given[i], given[i]->is_taken = true;
  for (int i = 0; milestones && i < n - 1; i++) s->milestones[i] = milestones[i];
  s->n_parts = n, s->epoch = 0;
  return s;
}

static tc_status check_milestones(const char *op, int n, const int64_t *milestones, tc_site site) {
  if (n > 1 && !milestones) return tc_fail(TC_ERR_ARG, op, site, "%d milestones at a null pointer", n - 1);
  for (int i = 0; i < n - 1; i++)
    if (milestones[i] <= (i ? milestones[i - 1] : 0))
      return tc_fail(TC_ERR_ARG, op, site, "milestone %d is %lld; they must rise from above 0", i,
                     (long long)milestones[i]);
  return TC_OK;
}

// Parts took their step 0 when they were made. That is undone, and the first one takes it again.
static tc_status begin_sequence(const char *op, const tc_schedule *s, tc_site site) {
  for (int g = 0; g < s->n_groups; g++)
    if (g == 0 || tc_get_group_lr_at(s->opt, g, site) != s->initial[g])
      TC_TRY(tc_set_group_lr_at(s->opt, g, s->initial[g], site));
  for (int i = 0; i < s->n_parts; i++) s->parts[i]->epoch--;
  return tc_schedule_step_first(op, s->parts[0], site);
}

tc_schedule *tc_sequential_lr_at(tc_optimizer *opt, int n, tc_schedule *const *schedules, const int64_t *milestones,
                                 tc_site site) {
  TC_CALLED_AS("sequential_lr");
  const char *op = "sequential_lr";
  tc_status st =
      opt ? check_parts(op, opt, n, schedules, true, site) : tc_fail(TC_ERR_ARG, op, site, "there is no optimizer");
  if (st == TC_OK) st = check_milestones(op, n, milestones, site);
  tc_schedule *s = NULL;
  if (st == TC_OK) s = create_over(op, opt, &tc_schedule_sequential_row, n, schedules, milestones, site);
  if (!s) return drop_all(n, schedules), NULL;
  if (begin_sequence(op, s, site) == TC_OK) return s;
  tc_schedule_destroy(s);
  return NULL;
}

tc_schedule *tc_chained_scheduler_at(int n, tc_schedule *const *schedules, tc_site site) {
  TC_CALLED_AS("chained_scheduler");
  const char *op = "chained_scheduler";
  tc_optimizer *opt = n > 0 && schedules && schedules[0] ? schedules[0]->opt : NULL;
  tc_status st = check_parts(op, opt, n, schedules, false, site);
  tc_schedule *s = NULL;
  if (st == TC_OK) s = create_over(op, opt, &tc_schedule_chained_row, n, schedules, NULL, site);
  if (!s) drop_all(n, schedules);
  return s;
}

const char *tc_schedule_name(const tc_schedule *s) {
  return s ? s->name : "";
}

int64_t tc_schedule_n_steps(const tc_schedule *s) {
  tc_capture_break_mine("a schedule's count that it reads", "schedule_n_steps", 0);
  return s ? s->epoch : 0;
}

// ---- State ----

// epoch, since, period, best, n_bad, n_cooling, momentum; then the initial rates, then the parts'.
enum { N_FIXED = 7 };

static int64_t count_numbers(const tc_schedule *s) {
  int64_t n = N_FIXED + s->n_groups;
  for (int i = 0; i < s->n_parts; i++) n += count_numbers(s->parts[i]);
  return n;
}

static bool has_momentum(const tc_schedule *s) {
  return s->row == &tc_schedule_cycle_row && !s->cycle.fixed_momentum;
}

static double *write_numbers(const tc_schedule *s, double *to, tc_site site) {
  double momentum = has_momentum(s) ? tc_get_momentum_at(s->opt, site) : 0;
  double fixed[N_FIXED] = {(double)s->epoch, (double)s->since,     (double)s->period, s->best,
                           (double)s->n_bad, (double)s->n_cooling, momentum};
  memcpy(to, fixed, sizeof fixed);
  to += N_FIXED;
  for (int g = 0; g < s->n_groups; g++) *to++ = s->initial[g];
  for (int i = 0; i < s->n_parts; i++) to = write_numbers(s->parts[i], to, site);
  return to;
}

static tc_status check_numbers(const char *op, const tc_schedule *s, const double **from, tc_site site) {
  static const char *const counts[N_FIXED] = {"epoch", "since", "period", NULL, "n_bad", "n_cooling", NULL};
  const double *at = *from;
  for (int i = 0; i < N_FIXED; i++)
    if (counts[i] && !(at[i] >= (i == 0 ? -2 : 0) && at[i] <= 0x1p53 && at[i] == floor(at[i])))
      return tc_fail(TC_ERR_ARG, op, site, "%s: %s is %g", s->name, counts[i], at[i]);
  if (!(at[6] >= 0 && at[6] < 1)) return tc_fail(TC_ERR_ARG, op, site, "%s: momentum is %g", s->name, at[6]);
  if (s->row == &tc_schedule_restarts_row && at[0] >= 0 && at[2] < 1)
    return tc_fail(TC_ERR_ARG, op, site, "%s: period is %g", s->name, at[2]);
  at += N_FIXED;
  for (int g = 0; g < s->n_groups; g++, at++)
    if (!(*at >= 0) || isinf(*at)) return tc_fail(TC_ERR_ARG, op, site, "%s: initial rate %d is %g", s->name, g, *at);
  for (int i = 0; i < s->n_parts; i++) TC_TRY(check_numbers(op, s->parts[i], &at, site));
  *from = at;
  return TC_OK;
}

static tc_status read_numbers(tc_schedule *s, const double **from, tc_site site) {
  const double *at = *from;
  s->epoch = (int64_t)at[0], s->since = (int64_t)at[1], s->period = (int64_t)at[2], s->best = at[3];
  s->n_bad = (int64_t)at[4], s->n_cooling = (int64_t)at[5];
  if (has_momentum(s)) TC_TRY(tc_set_momentum_at(s->opt, at[6], site));
  at += N_FIXED;
  for (int g = 0; g < s->n_groups; g++) {
    s->initial[g] = *at++;
    TC_TRY(tc_set_initial_lr_at(s->opt, g, s->initial[g], site));
  }
  for (int i = 0; i < s->n_parts; i++) TC_TRY(read_numbers(s->parts[i], &at, site));
  *from = at;
  return TC_OK;
}

tc_tensor tc_schedule_state_at(const tc_schedule *s, tc_site site) {
  TC_CALLED_AS("schedule_state");
  if (!s) return tc_poison(tc_fail(TC_ERR_ARG, "schedule_state", site, "there is no schedule"));
  int64_t n = count_numbers(s);
  double *numbers = malloc((size_t)n * sizeof *numbers);
  if (!numbers) return tc_poison(tc_fail(TC_ERR_MEMORY, "schedule_state", site, "%lld numbers", (long long)n));
  (void)write_numbers(s, numbers, site);
  tc_tensor state = tc_from_host_at(numbers, tc_dims_of(1, &n), TC_F64, site);
  free(numbers);
  return state;
}

tc_status tc_schedule_set_state_at(tc_schedule *s, tc_tensor state, tc_site site) {
  TC_CALLED_AS("schedule_set_state");
  const char *op = "schedule_set_state";
  if (!s) return tc_fail(TC_ERR_ARG, op, site, "there is no schedule");
  TC_TRY(tc_operand_check(op, state, site));
  int64_t n = count_numbers(s);
  tc_dims have = tc_shape_at(state, site);
  char text[64];
  if (have.rank != 1 || have.dim[0] != n)
    return tc_fail(TC_ERR_SHAPE, op, site, "%s has a state of [%lld], this is %s", s->name, (long long)n,
                   tc_dims_text(&have, text, sizeof text));
  double *numbers = malloc((size_t)n * sizeof *numbers);
  if (!numbers) return tc_fail(TC_ERR_MEMORY, op, site, "%lld numbers", (long long)n);
  tc_scope scope = tc_scope_begin_at(site);
  tc_status st = tc_to_host_at(tc_cast_at(state, TC_F64, site), numbers, (size_t)n * sizeof *numbers, site);
  tc_scope_end_at(scope, 0);
  const double *from = numbers;
  if (st == TC_OK) st = check_numbers(op, s, &from, site);
  from = numbers;
  if (st == TC_OK) st = read_numbers(s, &from, site);
  free(numbers);
  return st;
}
