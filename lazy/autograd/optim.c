// Optimizers: one op per step that records every parameter's update (optim_rules.c) and assigns it.
//
// In: parameters with gradients. Out: assigned parameters and state.
// Learning rate, decay and bias corrections are arguments: neither a schedule nor the step count
// makes a new plan. Which terms exist follows from the options.
// State (moments) is made, zeroed, at a parameter's first step with a gradient. It has the
// parameter's type and device. Steps of f16 and bf16 compute in f32 and round each new value once:
// an eps below the type's least still counts in its step.
//
// Invariants: the first step's plan is the next one's, since state is stored, not recorded, and
// parameters are evaluated when an optimizer is made. A step that fails while recording changes
// nothing: all new values are recorded before the first is assigned. Parameters on several devices
// are stepped device by device; a step that fails has done the devices before.
// Threads: thread-compatible; an optimizer belongs to the thread that made it.
// Owner: an optimizer has a reference to each parameter and each state tensor.
#define TC_NO_SITES
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lazy/autograd/optim.h"
#include "lazy/autograd/optim_capture.h"
#include "lazy/autograd/optim_rules.h"
#include "lazy/autograd/params_check.h"
#include "lazy/sync/sync.h"
#include "lazy/trace/capture.h"
#include "lazy/trace/deferred_error.h"
#include "runtime/arena.h"

static tc_status no_optimizer(const char *name, tc_site site) {
  char why[256];
  const char *makers = "sgd adam adamw rmsprop adagrad nadam radam adamax lion";
  return tc_fail(TC_ERR_ARG, name, site, "no optimizer%s", tc_error_of(makers, why, sizeof why));
}

static int names_each(const tc_optimizer *opt) {
  return opt->n_states + opt->n_counts;
}

// ---- Making and unmaking ----

static void name_states(const tc_optimizer *opt, tc_optim_name *names, int n) {
  static const char *const counts[] = {"step", "mu_product"};
  int each = names_each(opt);
  for (int i = 0; i < n; i++)
    for (int k = 0; k < each; k++)
      snprintf(names[i * each + k], sizeof(tc_optim_name), "%s.%d",
               k < opt->n_states ? opt->rule->state[k] : counts[k - opt->n_states], i);
}

static int find_parts(tc_optim_entry *entries, int n, tc_site site) {
  int n_parts = 0;
  for (int i = 0; i < n; i++) {
    entries[i].device = tc_device_of_at(entries[i].param, site), entries[i].part = n_parts;
    for (int k = 0; k < i && entries[i].part == n_parts; k++)
      if (entries[k].device == entries[i].device) entries[i].part = entries[k].part;
    if (entries[i].part == n_parts) n_parts++;
  }
  return n_parts;
}

// Parameters that are still to be computed would be a part of the first step's plan. That plan and
// its kernels would be used once.
static tc_status evaluate_params(const tc_optim_entry *entries, int n, int n_parts, const char *name, tc_site site) {
  tc_tensor *of_part = tc_malloc((size_t)n * sizeof *of_part);
  tc_status st = of_part ? TC_OK : tc_fail(TC_ERR_MEMORY, name, site, "%d parameters", n);
  for (int part = 0; part < n_parts && st == TC_OK; part++) {
    int n_of_part = 0;
    for (int i = 0; i < n; i++)
      if (entries[i].part == part) of_part[n_of_part++] = entries[i].param;
    st = tc_compute(n_of_part, of_part, site);
  }
  tc_free(of_part);
  return st;
}

// Makes the state of an entry where it is missing. Recorded zeros would make the first step's plan,
// and its kernels, others than the next one's.
static tc_status ensure_state(const tc_optimizer *opt, tc_optim_entry *e, tc_site site) {
  for (int k = 0; k < opt->n_states; k++)
    if (tc_is_null(e->state[k])) TC_TRY(tc_param_zeros("optimizer_step", e->param, site, &e->state[k]));
  return TC_OK;
}

// States that do not start as zeros are made, and computed, with the optimizer. Recorded in the
// first step they would make its plan another than the next one's.
static tc_status fill_states(const tc_optimizer *opt, tc_optim_entry *entries, int n, tc_site site) {
  if (opt->initial == 0) return TC_OK;
  tc_scope scope = tc_scope_begin_at(site);
  tc_status st = TC_OK;
  for (int i = 0; i < n && st == TC_OK; i++) {
    st = ensure_state(opt, &entries[i], site);
    for (int k = 0; k < opt->n_states && st == TC_OK; k++) {
      tc_tensor state = entries[i].state[k];
      st = tc_assign_at(state, tc_full_like_at(state, opt->initial, site), site);
      if (st == TC_OK) st = tc_compute(1, &state, site);
    }
  }
  tc_scope_end_at(scope, 0);
  return st;
}

static void release_states(const tc_optimizer *opt, const tc_optim_entry *entries, int n) {
  for (int i = 0; i < n; i++)
    for (int k = 0; k < opt->n_states; k++)
      if (!tc_is_null(entries[i].state[k])) tc_release_at(entries[i].state[k], 0);
}

// A new last group, of n checked parameters. Nothing has changed where that fails.
static tc_status add_group(tc_optimizer *opt, const char *name, const tc_tensor *params, int n, tc_optim_group options,
                           tc_site site) {
  int n_all = opt->n + n, n_groups = opt->n_groups + 1, n_parts = 0;
  tc_optim_entry *entries = tc_calloc((size_t)n_all, sizeof *entries);
  tc_optim_name *names = tc_calloc((size_t)n_all * (TC_OPTIM_MAX_STATES + 2), sizeof *names);
  tc_optim_group *groups = tc_calloc((size_t)n_groups, sizeof *groups);
  tc_status st = entries && names && groups ? TC_OK : tc_fail(TC_ERR_MEMORY, name, site, "%d parameters", n);
  if (st == TC_OK) {
    if (opt->n) memcpy(entries, opt->entries, (size_t)opt->n * sizeof *entries);
    if (opt->n_groups) memcpy(groups, opt->groups, (size_t)opt->n_groups * sizeof *groups);
    groups[opt->n_groups] = options;
    for (int i = 0; i < n; i++)
      entries[opt->n + i] =
          (tc_optim_entry){.param = params[i], .group = opt->n_groups, .mu_product = 1, .count = TC_ON_HOST};
    n_parts = find_parts(entries, n_all, site);
    name_states(opt, names, n_all);
    st = evaluate_params(entries + opt->n, n, n_parts, name, site);
    if (st == TC_OK) st = fill_states(opt, entries + opt->n, n, site);
  }
  if (st != TC_OK) {
    if (entries) release_states(opt, entries + opt->n, n);
    tc_free(entries), tc_free(names), tc_free(groups);
    return st;
  }
  for (int i = 0; i < n; i++) (void)tc_retain_at(params[i], site);
  tc_free(opt->entries), tc_free(opt->names), tc_free(opt->groups);
  opt->entries = entries, opt->names = names, opt->groups = groups;
  opt->n = n_all, opt->n_groups = n_groups, opt->n_parts = n_parts;
  return TC_OK;
}

// Whether a group may be made of them.
static tc_status check_group_params(const char *name, const tc_tensor *params, int n, tc_site site) {
  if (n == 0) return tc_fail(TC_ERR_ARG, name, site, "0 parameters");
  TC_TRY(tc_params_check(name, params, n, site));
  TC_TRY(tc_params_check_distinct(name, params, n, site));
  for (int i = 0; i < n; i++) {
    tc_type type = tc_dtype_at(params[i], site);
    if (!tc_type_is_float(type))
      return tc_fail(TC_ERR_DTYPE, name, site, "parameter %d is %s, not floating", i, tc_type_name(type));
  }
  return TC_OK;
}

tc_optimizer *tc_optim_create(const char *name, tc_site site, const tc_tensor *params, int n, tc_optimizer options,
                              double lr, double weight_decay) {
  if (check_group_params(name, params, n, site) != TC_OK) return NULL;
  tc_optimizer *opt = tc_malloc(sizeof *opt);
  if (opt == NULL) {
    tc_fail(TC_ERR_MEMORY, name, site, "%d parameters", n);
    return NULL;
  }
  *opt = options, opt->refs = 1;
  opt->counts_there.has_product = options.rule == &tc_optim_nadam;
  if (add_group(opt, name, params, n, (tc_optim_group){lr, weight_decay, NAN, true}, site) == TC_OK) return opt;
  tc_free(opt);
  return NULL;
}

static void release_optimizer(void *owner) {
  tc_optimizer *opt = owner;
  if (atomic_fetch_sub_explicit(&opt->refs, 1, memory_order_acq_rel) != 1) return;
  tc_free(opt->entries), tc_free(opt->names), tc_free(opt->groups);
  tc_free(opt);
}

void tc_optimizer_destroy(tc_optimizer *opt) {
  if (opt == NULL) return;
  release_states(opt, opt->entries, opt->n);
  for (int i = 0; i < opt->n; i++) tc_release_at(opt->entries[i].param, 0);
  tc_step_counts_fini(&opt->counts_there);
  opt->ended = true;
  release_optimizer(opt);
}

tc_status tc_optimizer_add_group_at(tc_optimizer *opt, const tc_tensor *params, int n, tc_group_options o,
                                    tc_site site) {
  static const char name[] = "optimizer_add_group";
  TC_CALLED_AS(name);
  tc_capture_break_mine("parameters that it gives an optimizer", name, site);
  if (opt == NULL) return no_optimizer(name, site);
  tc_optim_group g = {tc_option(o.lr, 0), tc_option(o.weight_decay, opt->groups[0].weight_decay), NAN,
                      tc_option(o.lr, -1) >= 0};
  TC_TRY(tc_optim_check_range(name, site, "lr", o.lr, INFINITY));
  TC_TRY(tc_optim_check_range(name, site, "weight_decay", o.weight_decay, INFINITY));
  TC_TRY(check_group_params(name, params, n, site));
  for (int i = 0; i < n; i++)
    for (int k = 0; k < opt->n; k++)
      if (params[i].slot == opt->entries[k].param.slot)
        return tc_fail(TC_ERR_ARG, name, site, "parameter %d is in group %d already", i, opt->entries[k].group);
  return add_group(opt, name, params, n, g, site);
}

// ---- One step ----

static tc_status ensure_states(const tc_optimizer *opt, int part, bool is_counted_there, tc_site site) {
  for (int i = 0; i < opt->n; i++) {
    tc_optim_entry *e = &opt->entries[i];
    bool has_states = opt->n_states == 0 || !tc_is_null(e->state[opt->n_states - 1]);
    e->next_count = TC_ON_HOST;
    if (e->part != part || (has_states && !is_counted_there)) continue;
    tc_scope scope = tc_scope_begin_at(site);  // tc_grad's handle is only looked at
    e->takes_part = !tc_is_null(tc_grad(e->param));
    tc_scope_end_at(scope, 0);
    if (e->takes_part) TC_TRY(ensure_state(opt, e, site));
  }
  return TC_OK;
}

// Gives the entries that take part their counts after the step. scaled: all count on the device,
// else those that do already.
static tc_status next_counts(tc_optimizer *opt, int part, bool scaled, tc_site site) {
  tc_step_counts *c = &opt->counts_there;
  tc_step_counts_open(c);
  opt->bias_there.step = TC_NODE_ERR;
  for (int i = 0; i < opt->n; i++)
    if (opt->entries[i].part == part && opt->entries[i].takes_part) tc_step_counts_join(c, opt->entries[i].count);
  for (int i = 0; i < opt->n; i++) {
    tc_optim_entry *e = &opt->entries[i];
    if (e->part != part || !e->takes_part || !(scaled || e->count != TC_ON_HOST)) continue;
    TC_TRY(tc_step_counts_next(c, e->count, e->n_steps, e->mu_product, e->param, site, &e->next_count));
  }
  return TC_OK;
}

// The next value of one that is assigned: its present one if the step is skipped.
static tc_node unless(tc_trace *t, tc_node skip, tc_tensor now, tc_node next, tc_type type) {
  next = tc_rec_cast(t, next, type);
  return skip == TC_NODE_ERR ? next : tc_rec_where(t, skip, tc_op_in(t, now), next);
}

// Records the entry's new values; false after a failure.
static bool record_entry(tc_optimizer *opt, tc_trace *t, tc_optim_entry *e, tc_node skip) {
  e->next_param = TC_NODE_ERR;
  tc_node g = tc_rec_grad(t, e->param);
  if (g == TC_NODE_ERR) return true;
  tc_node p = tc_op_in(t, e->param);
  if (p == TC_NODE_ERR) return false;
  tc_type type = tc_node_type(t, p);
  g = tc_optim_widen(t, tc_rec_cast(t, g, type)), p = tc_optim_widen(t, p);
  opt->rule->update(opt, t, e, p, g);
  e->next_param = unless(t, skip, e->param, e->next_param, type);
  for (int k = 0; k < opt->n_states; k++)
    if ((e->next_state[k] = unless(t, skip, e->state[k], e->next_state[k], type)) == TC_NODE_ERR) return false;
  return e->next_param != TC_NODE_ERR;
}

static tc_status assign_entry(tc_optimizer *opt, tc_trace *t, tc_optim_entry *e) {
  if (e->next_param == TC_NODE_ERR) return TC_OK;
  for (int k = 0; k < opt->n_states; k++) TC_TRY(tc_rec_assign(t, e->state[k], e->next_state[k]));
  TC_TRY(tc_rec_assign(t, e->param, e->next_param));
  if (e->next_count == TC_ON_HOST)
    tc_optim_count_step(opt, e);
  else
    tc_step_counts_move(&opt->counts_there, &e->count, e->next_count);
  return TC_OK;
}

// ---- A step in a compiled function (optim_capture.h) ----

static void retain_optimizer(void *owner) {
  atomic_fetch_add_explicit(&((tc_optimizer *)owner)->refs, 1, memory_order_relaxed);
}

// Which entries a step updates, and what they had counted before.
typedef struct step_note {
  int n;
  struct {
    bool steps;
    int64_t n_steps;
    double mu_product;
  } entry[];
} step_note;

static void *note_step(void *owner, const void *like) {
  const tc_optimizer *opt = owner;
  step_note *note = tc_malloc(sizeof *note + (size_t)opt->n * sizeof note->entry[0]);
  if (!note) return NULL;
  note->n = opt->n;
  for (int i = 0; i < opt->n; i++) {
    note->entry[i].steps = like && ((const step_note *)like)->entry[i].steps;
    note->entry[i].n_steps = opt->entries[i].n_steps, note->entry[i].mu_product = opt->entries[i].mu_product;
  }
  return note;
}

static void undo_step(void *owner, const void *note) {
  tc_optimizer *opt = owner;
  const step_note *was = note;
  for (int i = 0; i < opt->n; i++)
    opt->entries[i].n_steps = was->entry[i].n_steps, opt->entries[i].mu_product = was->entry[i].mu_product;
}

static bool step_fits(const void *owner, const void *note) {
  const tc_optimizer *opt = owner;
  return !opt->ended && opt->n == ((const step_note *)note)->n && opt->counts_there.n == 0;
}

// The numbers do not depend on the gradient.
static bool record_step_numbers(tc_trace *t, void *owner, const void *note) {
  tc_optimizer *opt = owner;
  for (int i = 0; i < opt->n; i++) {
    if (!((const step_note *)note)->entry[i].steps) continue;
    tc_optim_entry e = opt->entries[i];
    tc_node p = tc_optim_widen(t, tc_op_in(t, e.param));
    opt->rule->update(opt, t, &e, p, p);
  }
  return t->op_status == TC_OK;
}

static void count_step(void *owner, const void *note) {
  tc_optimizer *opt = owner;
  for (int i = 0; i < opt->n; i++)
    if (((const step_note *)note)->entry[i].steps) tc_optim_count_step(opt, &opt->entries[i]);
}

static const tc_step_ops step_ops = {.retain = retain_optimizer,
                                     .release = release_optimizer,
                                     .note = note_step,
                                     .undo = undo_step,
                                     .fits = step_fits,
                                     .record_numbers = record_step_numbers,
                                     .count = count_step};

static void capture_step(tc_optimizer *opt, tc_trace *t, int part, uint32_t first_arg) {
  step_note *note = note_step(opt, NULL);
  for (int i = 0; i < opt->n && note; i++)
    note->entry[i].steps = opt->entries[i].part == part && opt->entries[i].next_param != TC_NODE_ERR;
  tc_optimizer_capture(t, &step_ops, opt, note, first_arg);
}

// Steps the parameters of one part, which are on one device.
static tc_status step_part(tc_optimizer *opt, int part, const tc_tensor *skip, tc_site site) {
  bool is_counted_there = opt->n_counts && (skip || opt->counts_there.n);
  TC_TRY(ensure_states(opt, part, is_counted_there, site));
  if (is_counted_there) TC_TRY(next_counts(opt, part, skip, site));
  tc_status st = TC_OK;
  tc_trace *t = tc_op_begin("optimizer_step", site);
  bool tape = tc_rec_tape(t, false);
  uint32_t first_arg = t->n_arg;
  tc_node skipped = skip ? tc_op_in(t, skip[part]) : TC_NODE_ERR;
  bool ok = !skip || skipped != TC_NODE_ERR;
  if (is_counted_there) tc_capture_break_op(t, "a step that is counted on the device");
  if (ok && is_counted_there)
    ok = tc_step_counts_record(&opt->counts_there, t, skipped) && tc_optim_count_step_there(opt, t, skipped);
  for (int i = 0; i < opt->n && ok; i++)
    if (opt->entries[i].part == part) ok = record_entry(opt, t, &opt->entries[i], skipped);
  if (TC_UNLIKELY(t->capture != NULL) && ok && !is_counted_there) capture_step(opt, t, part, first_arg);
  if (ok && is_counted_there) st = tc_step_counts_assign(&opt->counts_there, t);
  for (int i = 0; i < opt->n && ok && st == TC_OK; i++)
    if (opt->entries[i].part == part) st = assign_entry(opt, t, &opt->entries[i]);
  tc_rec_tape(t, tape);
  if (ok && st == TC_OK && part == opt->n_parts - 1) tc_rec_landmark(t);
  tc_status done = tc_op_done(t);
  if (st != TC_OK) return st;
  return done == TC_OK && !ok ? tc_last_status() : done;  // passed poison is silent: its own error is the reason
}

tc_status tc_optimizer_step_unless(tc_optimizer *opt, const tc_tensor *skip, tc_site site) {
  tc_status st = TC_OK;
  for (int part = 0; part < opt->n_parts && st == TC_OK; part++) st = step_part(opt, part, skip, site);
  return tc_defer_error(st, site);
}

tc_status tc_optimizer_step_at(tc_optimizer *opt, tc_site site) {
  TC_CALLED_AS("optimizer_step");
  if (opt == NULL) return tc_defer_error(no_optimizer("optimizer_step", site), site);
  return tc_optimizer_step_unless(opt, NULL, site);
}

// ---- Gradients ----

tc_status tc_zero_grad_at(tc_optimizer *opt, tc_site site) {
  if (opt == NULL) return no_optimizer("zero_grad", site);
  tc_trace *t = tc_op_begin("zero_grad", site);
  for (int i = 0; i < opt->n; i++) tc_rec_clear_grad(t, opt->entries[i].param);
  return tc_op_done(t);
}

// ---- Learning rate and state ----

static tc_status check_group(const char *name, const tc_optimizer *opt, int g, tc_site site) {
  if (opt == NULL) return no_optimizer(name, site);
  if (g >= 0 && g < opt->n_groups) return TC_OK;
  return tc_fail(TC_ERR_ARG, name, site, "there is no group %d among %d", g, opt->n_groups);
}

static const char reads_lr[] = "a learning rate that it reads";

static tc_status set_lr(const char *name, tc_optimizer *opt, int g, double lr, tc_site site) {
  TC_TRY(check_group(name, opt, g, site));
  TC_TRY(tc_optim_check_range(name, site, "lr", lr, INFINITY));
  tc_capture_break_mine("a learning rate that it sets", name, site);
  opt->groups[g].lr = lr, opt->groups[g].has_lr = true;
  return TC_OK;
}

tc_status tc_set_lr_at(tc_optimizer *opt, double lr, tc_site site) {
  return set_lr("set_lr", opt, 0, lr, site);
}

tc_status tc_set_group_lr_at(tc_optimizer *opt, int g, double lr, tc_site site) {
  return set_lr("set_group_lr", opt, g, lr, site);
}

static double get_lr(const char *name, const tc_optimizer *opt, int g, tc_site site) {
  if (check_group(name, opt, g, site) != TC_OK) return NAN;
  tc_capture_break_mine(reads_lr, name, site);
  return tc_optim_lr(opt, g);
}

double tc_get_lr_at(const tc_optimizer *opt, tc_site site) {
  return get_lr("get_lr", opt, 0, site);
}

double tc_get_group_lr_at(const tc_optimizer *opt, int g, tc_site site) {
  return get_lr("get_group_lr", opt, g, site);
}

double tc_get_initial_lr_at(const tc_optimizer *opt, int g, tc_site site) {
  if (check_group("get_initial_lr", opt, g, site) != TC_OK) return NAN;
  tc_capture_break_mine(reads_lr, "get_initial_lr", site);
  return isnan(opt->groups[g].initial_lr) ? tc_optim_lr(opt, g) : opt->groups[g].initial_lr;
}

tc_status tc_set_initial_lr_at(tc_optimizer *opt, int g, double lr, tc_site site) {
  TC_TRY(check_group("set_initial_lr", opt, g, site));
  TC_TRY(tc_optim_check_range("set_initial_lr", site, "lr", lr, INFINITY));
  opt->groups[g].initial_lr = lr;
  return TC_OK;
}

tc_status tc_set_momentum_at(tc_optimizer *opt, double momentum, tc_site site) {
  if (opt == NULL) return no_optimizer("set_momentum", site);
  if (!opt->rule->momentum || (opt->n_states == 0 && opt->rule == &tc_optim_sgd) ||
      (opt->n_states == 1 && opt->rule == &tc_optim_rmsprop))
    return tc_fail(TC_ERR_ARG, "set_momentum", site, "this %s has no momentum%s", opt->rule->kind,
                   opt->rule->momentum ? "; create it with .momentum above 0" : ", nor beta1");
  TC_TRY(tc_optim_check_range("set_momentum", site, opt->rule->momentum, momentum, 1));
  tc_capture_break_mine("a momentum that it sets", "set_momentum", site);
  opt->momentum = momentum;
  return TC_OK;
}

double tc_get_momentum_at(const tc_optimizer *opt, tc_site site) {
  if (opt == NULL) return (void)no_optimizer("get_momentum", site), NAN;
  tc_capture_break_mine("a momentum that it reads", "get_momentum", site);
  return opt->rule->momentum ? opt->momentum : 0;
}

int tc_optimizer_n_groups(const tc_optimizer *opt) {
  return opt ? opt->n_groups : 0;
}

int tc_optimizer_group(const tc_optimizer *opt, int i) {
  return opt && i >= 0 && i < opt->n ? opt->entries[i].group : -1;
}

const char *tc_optimizer_kind(const tc_optimizer *opt) {
  return opt ? opt->rule->kind : "";
}

int tc_optimizer_n_parts(const tc_optimizer *opt) {
  return opt->n_parts;
}

int tc_optimizer_part(const tc_optimizer *opt, int i) {
  return opt->entries[i].part;
}

tc_tensor tc_optimizer_param(const tc_optimizer *opt, int i) {
  return opt && i >= 0 && i < opt->n ? opt->entries[i].param : (tc_tensor){0, 0};
}

const char *tc_optimizer_state_name(const tc_optimizer *opt, int i) {
  return opt == NULL || i < 0 || i >= opt->n * names_each(opt) ? NULL : opt->names[i];
}

tc_tensor tc_optimizer_state_at(const tc_optimizer *opt, int i, tc_site site) {
  TC_CALLED_AS("optimizer_state");
  if (tc_optimizer_state_name(opt, i) == NULL) {
    tc_trace *t = tc_op_begin("optimizer_state", site);
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "no state %d", i));
  }
  const tc_optim_entry *e = &opt->entries[i / names_each(opt)];
  int k = i % names_each(opt);
  if (k == opt->n_states && e->count != TC_ON_HOST)
    return tc_cast_at(opt->counts_there.at[e->count].steps, TC_F64, site);
  if (k > opt->n_states && e->count != TC_ON_HOST) return tc_detach_at(opt->counts_there.at[e->count].product, site);
  if (k >= opt->n_states)
    return tc_full_at(TC_SCALAR, k == opt->n_states ? (double)e->n_steps : e->mu_product, TC_F64, site);
  return tc_is_null(e->state[k]) ? tc_zeros_like_at(e->param, site) : e->state[k];
}

// What an entry has counted on the device is the host's from here on; a sync point.
static tc_status count_on_host(tc_optimizer *opt, tc_optim_entry *e, tc_site site) {
  if (e->count == TC_ON_HOST) return TC_OK;
  const tc_step_count *c = &opt->counts_there.at[e->count];
  TC_TRY(tc_item_at(c->steps, TC_I64, &e->n_steps, site));
  if (opt->counts_there.has_product) TC_TRY(tc_item_at(c->product, TC_F64, &e->mu_product, site));
  tc_step_counts_move(&opt->counts_there, &e->count, TC_ON_HOST);
  return TC_OK;
}

static tc_status set_steps(tc_optimizer *opt, tc_optim_entry *e, tc_tensor value, tc_site site) {
  double steps = 0;
  TC_TRY(tc_item_at(value, TC_F64, &steps, site));
  if (!(steps >= 0 && steps <= 0x1p53) || steps != floor(steps))
    return tc_fail(TC_ERR_ARG, "optimizer_set_state", site, "step is %g", steps);
  TC_TRY(count_on_host(opt, e, site));
  e->n_steps = (int64_t)steps;
  return TC_OK;
}

static tc_status set_mu_product(tc_optimizer *opt, tc_optim_entry *e, tc_tensor value, tc_site site) {
  double product = 0;
  TC_TRY(tc_item_at(value, TC_F64, &product, site));
  if (!(product >= 0 && product <= 1))
    return tc_fail(TC_ERR_ARG, "optimizer_set_state", site, "mu_product is %g, not within [0, 1]", product);
  TC_TRY(count_on_host(opt, e, site));
  e->mu_product = product;
  return TC_OK;
}

tc_status tc_optimizer_set_state_at(tc_optimizer *opt, int i, tc_tensor value, tc_site site) {
  TC_CALLED_AS("optimizer_set_state");
  if (tc_optimizer_state_name(opt, i) == NULL)
    return tc_fail(TC_ERR_ARG, "optimizer_set_state", site, "no state %d", i);
  tc_optim_entry *e = &opt->entries[i / names_each(opt)];
  int k = i % names_each(opt);
  if (k >= opt->n_states)
    return k == opt->n_states ? set_steps(opt, e, value, site) : set_mu_product(opt, e, value, site);
  TC_TRY(ensure_state(opt, e, site));
  tc_trace *t = tc_op_begin("optimizer_set_state", site);
  bool tape = tc_rec_tape(t, false);
  tc_node to = tc_op_in(t, e->state[k]), from = tc_op_in(t, value);
  bool ok = to != TC_NODE_ERR && from != TC_NODE_ERR;
  if (ok) {
    const tc_dims *want = tc_node_dims(t, to), *have = tc_node_dims(t, from);
    bool same = want->rank == have->rank && memcmp(want->dim, have->dim, (size_t)want->rank * sizeof want->dim[0]) == 0;
    char text[2][128];
    if (!same)
      tc_rec_fail(t, TC_ERR_SHAPE, "%s has shape %s, the parameter %s", opt->names[i],
                  tc_dims_text(have, text[0], sizeof text[0]), tc_dims_text(want, text[1], sizeof text[1]));
    else
      (void)tc_rec_assign(t, e->state[k], tc_rec_cast(t, from, tc_node_type(t, to)));
  }
  tc_rec_tape(t, tape);
  tc_status done = tc_op_done(t);
  return done == TC_OK && !ok ? tc_last_status() : done;
}
