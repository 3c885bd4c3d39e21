// Creates each optimizer: options with PyTorch's defaults filled in, and checked.
//
// In: parameters, options. Out: an optimizer; NULL after reporting.
// Threads: thread-compatible. Owner: the caller.
#define TC_NO_SITES
#include "lazy/autograd/optim_rules.h"

// A number of the options, which must lie within [0, below).
typedef struct checked {
  const char *what;
  double value, below;
} checked;

// What most of them have.
#define RATE_AND_BETAS(o) {"lr", (o).lr, INFINITY}, {"beta1", (o).beta1, 1}, {"beta2", (o).beta2, 1}
#define DECAY(o) {"weight_decay", (o).weight_decay, INFINITY}

static bool check_numbers(const char *name, tc_site site, const checked *numbers) {
  for (const checked *c = numbers; c->what; c++)
    if (tc_optim_check_range(name, site, c->what, c->value, c->below) != TC_OK) return false;
  return true;
}

static tc_optimizer *create_checked(const char *name, tc_site site, const tc_tensor *params, int n, tc_optimizer opt,
                                    double lr, double weight_decay, const checked *numbers) {
  if (!check_numbers(name, site, numbers)) return NULL;
  return tc_optim_create(name, site, params, n, opt, lr, weight_decay);
}

#define NUMBERS(...) \
  (const checked[]) { \
    __VA_ARGS__, {NULL, 0, 0} \
  }

tc_optimizer *tc_sgd_at(const tc_tensor *params, int n, tc_sgd_options o, tc_site site) {
  o.lr = tc_option(o.lr, 1e-3), o.momentum = tc_option(o.momentum, 0);
  o.dampening = tc_option(o.dampening, 0), o.weight_decay = tc_option(o.weight_decay, 0);
  if (!check_numbers("sgd", site, NUMBERS({"lr", o.lr, INFINITY}, {"momentum", o.momentum, INFINITY}, DECAY(o))))
    return NULL;
  if (!isfinite(o.dampening) || (o.nesterov && (o.momentum == 0 || o.dampening != 0))) {
    tc_fail(TC_ERR_ARG, "sgd", site, "momentum is %g, dampening %g%s", o.momentum, o.dampening,
            o.nesterov ? "; nesterov needs momentum and no dampening" : "");
    return NULL;
  }
  tc_optimizer opt = {.rule = &tc_optim_sgd, .sgd = o, .momentum = o.momentum};
  opt.n_states = opt.n_counts = o.momentum != 0;  // the first step takes the gradient whole
  return tc_optim_create("sgd", site, params, n, opt, o.lr, o.weight_decay);
}

static tc_optimizer *create_adam(const char *name, tc_site site, const tc_tensor *params, int n, tc_adam_options o) {
  o.lr = tc_option(o.lr, 1e-3), o.beta1 = tc_option(o.beta1, 0.9), o.beta2 = tc_option(o.beta2, 0.999);
  o.eps = tc_option(o.eps, 1e-8), o.weight_decay = tc_option(o.weight_decay, o.decoupled ? 0.01 : 0);
  tc_optimizer opt = {.rule = o.decoupled ? &tc_optim_adamw : &tc_optim_adam,
                      .adam = o,
                      .momentum = o.beta1,
                      .n_states = 2,
                      .n_counts = 1};
  return create_checked(name, site, params, n, opt, o.lr, o.weight_decay,
                        NUMBERS(RATE_AND_BETAS(o), {"eps", o.eps, INFINITY}, DECAY(o)));
}

tc_optimizer *tc_adam_at(const tc_tensor *params, int n, tc_adam_options options, tc_site site) {
  return create_adam("adam", site, params, n, options);
}

tc_optimizer *tc_adamw_at(const tc_tensor *params, int n, tc_adam_options options, tc_site site) {
  options.decoupled = true;
  return create_adam("adamw", site, params, n, options);
}

tc_optimizer *tc_rmsprop_at(const tc_tensor *params, int n, tc_rmsprop_options o, tc_site site) {
  o.lr = tc_option(o.lr, 0.01), o.alpha = tc_option(o.alpha, 0.99), o.eps = tc_option(o.eps, 1e-8);
  o.weight_decay = tc_option(o.weight_decay, 0), o.momentum = tc_option(o.momentum, 0);
  tc_optimizer opt = {.rule = &tc_optim_rmsprop, .rmsprop = o, .momentum = o.momentum};
  opt.n_states = o.momentum > 0 ? 2 : 1;
  return create_checked("rmsprop", site, params, n, opt, o.lr, o.weight_decay,
                        NUMBERS({"lr", o.lr, INFINITY}, {"alpha", o.alpha, INFINITY}, {"eps", o.eps, INFINITY},
                                DECAY(o), {"momentum", o.momentum, INFINITY}));
}

tc_optimizer *tc_adagrad_at(const tc_tensor *params, int n, tc_adagrad_options o, tc_site site) {
  o.lr = tc_option(o.lr, 0.01), o.lr_decay = tc_option(o.lr_decay, 0), o.eps = tc_option(o.eps, 1e-10);
  o.weight_decay = tc_option(o.weight_decay, 0),
  o.initial_accumulator_value = tc_option(o.initial_accumulator_value, 0);
  tc_optimizer opt = {.rule = &tc_optim_adagrad, .adagrad = o, .n_states = 1, .n_counts = 1};
  opt.initial = o.initial_accumulator_value;
  return create_checked("adagrad", site, params, n, opt, o.lr, o.weight_decay,
                        NUMBERS({"lr", o.lr, INFINITY}, {"lr_decay", o.lr_decay, INFINITY}, {"eps", o.eps, INFINITY},
                                DECAY(o), {"initial_accumulator_value", o.initial_accumulator_value, INFINITY}));
}

tc_optimizer *tc_nadam_at(const tc_tensor *params, int n, tc_nadam_options o, tc_site site) {
  o.lr = tc_option(o.lr, 2e-3), o.beta1 = tc_option(o.beta1, 0.9), o.beta2 = tc_option(o.beta2, 0.999);
  o.eps = tc_option(o.eps, 1e-8), o.weight_decay = tc_option(o.weight_decay, 0);
  o.momentum_decay = tc_option(o.momentum_decay, 4e-3);
  tc_optimizer opt = {.rule = &tc_optim_nadam, .nadam = o, .momentum = o.beta1, .n_states = 2, .n_counts = 2};
  return create_checked(
      "nadam", site, params, n, opt, o.lr, o.weight_decay,
      NUMBERS(RATE_AND_BETAS(o), {"eps", o.eps, INFINITY}, DECAY(o), {"momentum_decay", o.momentum_decay, INFINITY}));
}

tc_optimizer *tc_radam_at(const tc_tensor *params, int n, tc_radam_options o, tc_site site) {
  o.lr = tc_option(o.lr, 1e-3), o.beta1 = tc_option(o.beta1, 0.9), o.beta2 = tc_option(o.beta2, 0.999);
  o.eps = tc_option(o.eps, 1e-8), o.weight_decay = tc_option(o.weight_decay, 0);
  tc_optimizer opt = {.rule = &tc_optim_radam, .radam = o, .momentum = o.beta1, .n_states = 2, .n_counts = 1};
  return create_checked("radam", site, params, n, opt, o.lr, o.weight_decay,
                        NUMBERS(RATE_AND_BETAS(o), {"eps", o.eps, INFINITY}, DECAY(o)));
}

tc_optimizer *tc_adamax_at(const tc_tensor *params, int n, tc_adamax_options o, tc_site site) {
  o.lr = tc_option(o.lr, 2e-3), o.beta1 = tc_option(o.beta1, 0.9), o.beta2 = tc_option(o.beta2, 0.999);
  o.eps = tc_option(o.eps, 1e-8), o.weight_decay = tc_option(o.weight_decay, 0);
  tc_optimizer opt = {.rule = &tc_optim_adamax, .adamax = o, .momentum = o.beta1, .n_states = 2, .n_counts = 1};
  return create_checked("adamax", site, params, n, opt, o.lr, o.weight_decay,
                        NUMBERS(RATE_AND_BETAS(o), {"eps", o.eps, INFINITY}, DECAY(o)));
}

tc_optimizer *tc_lion_at(const tc_tensor *params, int n, tc_lion_options o, tc_site site) {
  o.lr = tc_option(o.lr, 1e-4), o.beta1 = tc_option(o.beta1, 0.9), o.beta2 = tc_option(o.beta2, 0.99);
  o.weight_decay = tc_option(o.weight_decay, 0);
  tc_optimizer opt = {.rule = &tc_optim_lion, .lion = o, .momentum = o.beta1, .n_states = 1};
  return create_checked("lion", site, params, n, opt, o.lr, o.weight_decay, NUMBERS(RATE_AND_BETAS(o), DECAY(o)));
}
