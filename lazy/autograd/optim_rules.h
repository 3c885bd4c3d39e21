// An optimizer's fields, and the table of its rules.
//
// In: options with their defaults filled in. Out: the next values of a parameter and its state.
// Invariants: a rule records; it assigns nothing. Every step of an optimizer records the same ops,
// but where a rule says otherwise.
// Threads: thread-compatible. Owner: an optimizer owns its state.
#pragma once

#include <math.h>
#include <stdatomic.h>

#include "lazy/autograd/step_count.h"
#include "lazy/record/formula.h"

enum { TC_OPTIM_MAX_STATES = 2 };

typedef struct tc_optim_group {
  double lr, weight_decay;
  double initial_lr;  // NaN until it is set
  bool has_lr;  // false: it goes by the first group's
} tc_optim_group;

typedef struct tc_optim_entry {
  tc_tensor param;  // retained
  int group;
  tc_tensor state[TC_OPTIM_MAX_STATES];  // retained; {0, 0} before the first step
  int64_t n_steps;  // with a gradient, while they are counted on the host
  int count, next_count;  // whose steps are its own (step_count.h), and after the step being recorded
  bool takes_part;  // true: it has a gradient in the step being recorded
  double mu_product;  // NAdam's, of its momenta so far
  const char *device;  // its name, static; a tensor's never changes
  int part;  // of a step: which of the parameters' devices, by first appearance
  // of the step being recorded; TC_NODE_ERR: no gradient, nothing to assign
  tc_node next_param, next_state[TC_OPTIM_MAX_STATES];
} tc_optim_entry;

// Sets the entry's next values from its parameter p and gradient g, which are f32 at least.
typedef void (*tc_optim_update)(tc_optimizer *opt, tc_trace *t, tc_optim_entry *e, tc_node p, tc_node g);

// What an optimizer is; a row of a table each.
typedef struct tc_optim_rule {
  const char *kind;
  tc_optim_update update;
  const char *momentum;  // what tc_set_momentum sets: the option's name; NULL: there is none
  const char *state[TC_OPTIM_MAX_STATES];  // names, PyTorch's
} tc_optim_rule;

extern const tc_optim_rule tc_optim_sgd, tc_optim_adam, tc_optim_adamw, tc_optim_rmsprop, tc_optim_adagrad,
    tc_optim_nadam, tc_optim_radam, tc_optim_adamax, tc_optim_lion;

typedef char tc_optim_name[32];

struct tc_optimizer {
  const tc_optim_rule *rule;
  union {
    tc_sgd_options sgd;
    tc_adam_options adam;
    tc_rmsprop_options rmsprop;
    tc_adagrad_options adagrad;
    tc_nadam_options nadam;
    tc_radam_options radam;
    tc_adamax_options adamax;
    tc_lion_options lion;
  };
  double momentum;  // of the rules that have one; tc_set_momentum changes it
  double initial;  // value of a state of a parameter before its first step
  int n, n_states, n_groups;  // parameters; state tensors of each
  int n_parts;  // devices of parameters
  int n_counts;  // numbers of an entry that are state: none, step, or step and mu_product
  struct tc_optim_bias {  // of the step counted last: parameters mostly have the same
    int64_t step;
    double beta1;
    double first, second;  // 1 - beta1^step, 1 / sqrt(1 - beta2^step)
  } bias;
  tc_step_counts counts_there;  // on the device: of parameters that a gradient scaler has stepped
  struct tc_optim_bias_there {  // the same on the device, of the count and type seen last
    tc_node step, first, second;
    tc_type type;
  } bias_there;
  _Atomic int refs;  // the program's, and those of compiled functions that step it
  bool ended;  // true: the program has destroyed it
  tc_optim_entry *entries;
  tc_optim_name *names;  // n * (n_states + n_counts)
  tc_optim_group *groups;
};

// Counts a step on the host: all that a step changes there.
void tc_optim_count_step(const tc_optimizer *opt, tc_optim_entry *e);
// What else a step that is counted on the device changes there: records the products of momenta
// with this step, and after it. skip: bool of rank 0, or TC_NODE_ERR. False after reporting.
bool tc_optim_count_step_there(tc_optimizer *opt, tc_trace *t, tc_node skip);
// TC_OK if value is at least 0 and less than below.
static inline tc_status tc_optim_check_range(const char *name, tc_site site, const char *what, double value,
                                             double below) {
  if (value >= 0 && value < below) return TC_OK;  // false for nan
  return below == INFINITY ? tc_fail(TC_ERR_ARG, name, site, "%s is %g, not a number from 0 on", what, value)
                           : tc_fail(TC_ERR_ARG, name, site, "%s is %g, not within [0, %g)", what, value, below);
}
// A copy of options (rule, numbers, n_states and n_counts set) over params; NULL after reporting.
tc_optimizer *tc_optim_create(const char *name, tc_site site, const tc_tensor *params, int n, tc_optimizer options,
                              double lr, double weight_decay);

static inline double tc_optim_lr(const tc_optimizer *opt, int g) {
  return opt->groups[opt->groups[g].has_lr ? g : 0].lr;
}
// In f32 at least.
static inline tc_node tc_optim_widen(tc_trace *t, tc_node a) {
  return a != TC_NODE_ERR && tc_type_is_half(tc_node_type(t, a)) ? tc_rec_cast(t, a, TC_F32) : a;
}
