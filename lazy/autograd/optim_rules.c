// The optimizers' formulas, one function each.
//
// In: a parameter, its gradient, its state. Out: nodes of the next ones.
// The formulas and their order are PyTorch's single-tensor ones (torch.optim). Lion is its paper's:
// Chen et al., Symbolic Discovery of Optimization Algorithms, 2023, program 1.
// Invariants: learning rate, decay and corrections are arguments of the plan.
// Threads: thread-compatible. Owner: nobody.
#define TC_NO_SITES
#include <math.h>

#include "lazy/autograd/optim_rules.h"

static tc_node state_of(tc_trace *t, const tc_optim_entry *e, int k) {
  return tc_optim_widen(t, tc_op_in(t, e->state[k]));
}

// a + alpha * b
static tc_node add_scaled(tc_trace *t, tc_node a, tc_node b, double alpha) {
  return f_add(t, a, f_num(t, TC_OP_MUL, b, alpha));
}

// a * keep + value * g * g
static tc_node decay_square(tc_trace *t, tc_node a, tc_node g, double keep, double value) {
  tc_node square = f_mul(t, f_num(t, TC_OP_MUL, g, value), g);
  return f_add(t, f_num(t, TC_OP_MUL, a, keep), square);
}

// a + value * b / c
static tc_node add_quotient(tc_trace *t, tc_node a, tc_node b, tc_node c, double value) {
  return f_add(t, a, f_div(t, f_num(t, TC_OP_MUL, b, value), c));
}

// torch.lerp: from + weight * (to - from), from the nearer end.
static tc_node lerp(tc_trace *t, tc_node from, tc_node to, double weight) {
  tc_node way = f_sub(t, to, from);
  if (weight < 0.5) return add_scaled(t, from, way, weight);
  return f_sub(t, to, f_num(t, TC_OP_MUL, way, 1 - weight));
}

// Weight decay: of the parameter itself, or as a share of it in the gradient.
static void decay_weight(const tc_optimizer *opt, tc_trace *t, const tc_optim_entry *e, bool decoupled, tc_node *p,
                         tc_node *g) {
  double decay = opt->groups[e->group].weight_decay;
  if (decay == 0) return;
  if (decoupled)
    *p = f_num(t, TC_OP_MUL, *p, 1 - tc_optim_lr(opt, e->group) * decay);
  else
    *g = add_scaled(t, *g, *p, decay);
}

// The two moments of the Adam family into the entry's next state.
static void record_moments(const tc_optimizer *opt, tc_trace *t, tc_optim_entry *e, tc_node g, double beta2) {
  e->next_state[0] = lerp(t, state_of(t, e, 0), g, 1 - opt->momentum);
  e->next_state[1] = decay_square(t, state_of(t, e, 1), g, beta2, 1 - beta2);
}

// ---- Corrections, which follow from the number of the step ----

// The number of this step of the entry's, counted on the device; TC_NODE_ERR: on the host.
static tc_node step_there(const tc_optimizer *opt, const tc_optim_entry *e) {
  return e->next_count == TC_ON_HOST ? TC_NODE_ERR : opt->counts_there.at[e->next_count].number;
}

// That number in the type of g.
static tc_node count_there(const tc_optimizer *opt, tc_trace *t, const tc_optim_entry *e, tc_node g) {
  tc_node step = step_there(opt, e);
  return step == TC_NODE_ERR || g == TC_NODE_ERR ? TC_NODE_ERR : tc_rec_cast(t, step, tc_node_type(t, g));
}

// 1 - beta^step, without cancellation
static tc_node bias_of(tc_trace *t, tc_node step, double beta) {
  return f_neg(t, tc_rec_unary(t, TC_OP_EXPM1, f_num(t, TC_OP_MUL, step, log(beta))));
}

static void count_bias(tc_optimizer *opt, int64_t step) {
  if (opt->bias.step == step && opt->bias.beta1 == opt->momentum) return;
  opt->bias = (struct tc_optim_bias){step, opt->momentum, 1 - pow(opt->momentum, (double)step),
                                     1 / sqrt(1 - pow(opt->adam.beta2, (double)step))};
}

static void count_bias_there(tc_optimizer *opt, tc_trace *t, tc_node step, tc_type type) {
  struct tc_optim_bias_there *b = &opt->bias_there;
  if (b->step == step && b->type == type) return;
  tc_node count = tc_rec_cast(t, step, type);
  tc_node second = tc_rec_unary(t, TC_OP_RSQRT, bias_of(t, count, opt->adam.beta2));
  *b = (struct tc_optim_bias_there){step, bias_of(t, count, opt->momentum), second, type};
}

// p - rate * b / c, the rate a number or, where it is counted on the device, a node.
static tc_node step_by(tc_trace *t, tc_node p, tc_node b, tc_node c, double rate, tc_node rate_there) {
  if (rate_there == TC_NODE_ERR) return add_quotient(t, p, b, c, -rate);
  return f_sub(t, p, f_div(t, f_mul(t, b, rate_there), c));
}

// ---- The formulas ----

static void update_sgd(tc_optimizer *opt, tc_trace *t, tc_optim_entry *e, tc_node p, tc_node g) {
  const tc_sgd_options *o = &opt->sgd;
  decay_weight(opt, t, e, false, &p, &g);
  if (opt->n_states) {
    // The buffer starts as the first gradient, undamped: zero * momentum + 1 * g, so that every
    // step records the same ops.
    double share = e->n_steps == 0 ? 1 : 1 - o->dampening;
    tc_node damped = g, step = step_there(opt, e);
    if (step == TC_NODE_ERR || o->dampening == 0)
      damped = f_num(t, TC_OP_MUL, g, share);
    else
      damped = tc_rec_where(t, f_int(t, TC_OP_EQ, step, 1), g, f_num(t, TC_OP_MUL, g, 1 - o->dampening));
    tc_node buffer = f_add(t, f_num(t, TC_OP_MUL, state_of(t, e, 0), opt->momentum), damped);
    e->next_state[0] = buffer;
    g = o->nesterov ? add_scaled(t, g, buffer, opt->momentum) : buffer;
  }
  e->next_param = tc_rec_add_sum_at(t, p, g, -tc_optim_lr(opt, e->group));
}

// Multiplies by the inverse of the second correction's root where PyTorch divides: one more
// rounding, one division less.
static void update_adam(tc_optimizer *opt, tc_trace *t, tc_optim_entry *e, tc_node p, tc_node g) {
  const tc_adam_options *o = &opt->adam;
  double lr = tc_optim_lr(opt, e->group);
  tc_node there = step_there(opt, e);
  if (there == TC_NODE_ERR)
    count_bias(opt, e->n_steps + 1);
  else
    count_bias_there(opt, t, there, tc_node_type(t, g));
  decay_weight(opt, t, e, o->decoupled, &p, &g);
  record_moments(opt, t, e, g, o->beta2);
  tc_node avg = e->next_state[0], root = tc_rec_unary(t, TC_OP_SQRT, e->next_state[1]);
  if (there == TC_NODE_ERR) {
    root = f_num(t, TC_OP_MUL, root, opt->bias.second);
    e->next_param = add_quotient(t, p, avg, f_num(t, TC_OP_ADD, root, o->eps), -(lr / opt->bias.first));
  } else {
    root = f_num(t, TC_OP_ADD, f_mul(t, root, opt->bias_there.second), o->eps);
    tc_node rate = tc_rec_num_first(t, TC_OP_DIV, tc_num_float(-lr), opt->bias_there.first);
    e->next_param = f_add(t, p, f_div(t, f_mul(t, avg, rate), root));
  }
}

static void update_rmsprop(tc_optimizer *opt, tc_trace *t, tc_optim_entry *e, tc_node p, tc_node g) {
  const tc_rmsprop_options *o = &opt->rmsprop;
  double lr = tc_optim_lr(opt, e->group);
  decay_weight(opt, t, e, false, &p, &g);
  tc_node square = decay_square(t, state_of(t, e, 0), g, o->alpha, 1 - o->alpha);
  tc_node root = f_num(t, TC_OP_ADD, tc_rec_unary(t, TC_OP_SQRT, square), o->eps);
  e->next_state[0] = square;
  if (opt->n_states == 2) {
    tc_node buffer = add_quotient(t, f_num(t, TC_OP_MUL, state_of(t, e, 1), opt->momentum), g, root, 1);
    e->next_state[1] = buffer;
    e->next_param = add_scaled(t, p, buffer, -lr);
  } else {
    e->next_param = add_quotient(t, p, g, root, -lr);
  }
}

static void update_adagrad(tc_optimizer *opt, tc_trace *t, tc_optim_entry *e, tc_node p, tc_node g) {
  const tc_adagrad_options *o = &opt->adagrad;
  double lr = tc_optim_lr(opt, e->group), rate = lr / (1 + (double)e->n_steps * o->lr_decay);
  tc_node count = o->lr_decay > 0 ? count_there(opt, t, e, g) : TC_NODE_ERR, rate_there = TC_NODE_ERR;
  if (count != TC_NODE_ERR) {
    tc_node divisor = f_num(t, TC_OP_MUL, f_num(t, TC_OP_SUB, count, 1), o->lr_decay);
    rate_there = tc_rec_num_first(t, TC_OP_DIV, tc_num_float(lr), f_num(t, TC_OP_ADD, divisor, 1));
  }
  decay_weight(opt, t, e, false, &p, &g);
  e->next_state[0] = f_add(t, state_of(t, e, 0), f_mul(t, g, g));
  tc_node root = f_num(t, TC_OP_ADD, tc_rec_unary(t, TC_OP_SQRT, e->next_state[0]), o->eps);
  e->next_param = step_by(t, p, g, root, rate, rate_there);
}

static double nadam_mu(const tc_optimizer *opt, double step) {
  return opt->momentum * (1 - 0.5 * pow(0.96, step * opt->nadam.momentum_decay));
}

// nadam_mu on the device, of a step's number in f64.
static tc_node nadam_mu_there(const tc_optimizer *opt, tc_trace *t, tc_node step) {
  tc_node power = tc_rec_unary(t, TC_OP_EXP, f_num(t, TC_OP_MUL, step, opt->nadam.momentum_decay * log(0.96)));
  return f_num(t, TC_OP_MUL, tc_rec_num_first(t, TC_OP_SUB, tc_num_float(1), f_num(t, TC_OP_MUL, power, 0.5)),
               opt->momentum);
}

// What NAdam's steps take from the number of the step: the rates of the gradient and of its
// average, and the correction of the root.
typedef struct nadam_numbers {
  double of_gradient, of_average, root;
  tc_node of_gradient_there, of_average_there, root_there;
} nadam_numbers;

static nadam_numbers nadam_host(const tc_optimizer *opt, const tc_optim_entry *e, double lr) {
  double step = (double)e->n_steps + 1, mu = nadam_mu(opt, step), mu_next = nadam_mu(opt, step + 1);
  double product = e->mu_product * mu;
  return (nadam_numbers){.of_gradient = -lr * (1 - mu) / (1 - product),
                         .of_average = -lr * mu_next / (1 - product * mu_next),
                         .root = 1 / sqrt(1 - pow(opt->nadam.beta2, step)),
                         .of_gradient_there = TC_NODE_ERR};
}

// In f64, since products of many momenta are near 0 and their complements near 1.
static nadam_numbers nadam_there(const tc_optimizer *opt, tc_trace *t, const tc_step_count *c, double lr,
                                 tc_type type) {
  tc_node step = tc_rec_cast(t, c->number, TC_F64);
  tc_node mu = nadam_mu_there(opt, t, step), mu_next = nadam_mu_there(opt, t, f_num(t, TC_OP_ADD, step, 1));
  tc_node rest = tc_rec_num_first(t, TC_OP_SUB, tc_num_float(1), c->product_now);
  tc_node rest_next = tc_rec_num_first(t, TC_OP_SUB, tc_num_float(1), f_mul(t, c->product_now, mu_next));
  tc_node first = f_div(t, f_num(t, TC_OP_MUL, f_num(t, TC_OP_SUB, mu, 1), lr), rest);
  tc_node second = f_div(t, f_num(t, TC_OP_MUL, mu_next, -lr), rest_next);
  tc_node root = tc_rec_unary(t, TC_OP_RSQRT, bias_of(t, step, opt->nadam.beta2));
  return (nadam_numbers){.of_gradient_there = tc_rec_cast(t, first, type),
                         .of_average_there = tc_rec_cast(t, second, type),
                         .root_there = tc_rec_cast(t, root, type)};
}

bool tc_optim_count_step_there(tc_optimizer *opt, tc_trace *t, tc_node skip) {
  tc_step_counts *c = &opt->counts_there;
  for (int i = 0; i < c->n && c->has_product; i++) {
    tc_step_count *s = &c->at[i];
    if (s->n_next == 0) continue;
    s->product_now = f_mul(t, s->product_before, nadam_mu_there(opt, t, tc_rec_cast(t, s->number, TC_F64)));
    s->product_next = skip == TC_NODE_ERR ? s->product_now : tc_rec_where(t, skip, s->product_before, s->product_now);
    if (s->product_next == TC_NODE_ERR) return false;
  }
  return true;
}

static void update_nadam(tc_optimizer *opt, tc_trace *t, tc_optim_entry *e, tc_node p, tc_node g) {
  const tc_nadam_options *o = &opt->nadam;
  double lr = tc_optim_lr(opt, e->group);
  bool there = e->next_count != TC_ON_HOST;
  nadam_numbers n = there ? nadam_there(opt, t, &opt->counts_there.at[e->next_count], lr, tc_node_type(t, g))
                          : nadam_host(opt, e, lr);
  decay_weight(opt, t, e, o->decoupled, &p, &g);
  record_moments(opt, t, e, g, o->beta2);
  tc_node root = tc_rec_unary(t, TC_OP_SQRT, e->next_state[1]);
  root = there ? f_mul(t, root, n.root_there) : f_num(t, TC_OP_MUL, root, n.root);
  root = f_num(t, TC_OP_ADD, root, o->eps);
  if (there) {
    p = f_add(t, p, f_div(t, f_mul(t, g, n.of_gradient_there), root));
    e->next_param = f_add(t, p, f_div(t, f_mul(t, e->next_state[0], n.of_average_there), root));
  } else {
    p = add_quotient(t, p, g, root, n.of_gradient);
    e->next_param = add_quotient(t, p, e->next_state[0], root, n.of_average);
  }
}

// What RAdam's steps take from the number of the step: the rate, and the factor of a rectified step
// with whether it is one.
typedef struct radam_numbers {
  double rate, factor;
  bool rectified;
  tc_node rate_there, factor_there, rectified_there;
} radam_numbers;

static radam_numbers radam_host(const tc_optimizer *opt, double lr, double step) {
  double beta2 = opt->radam.beta2, decayed = pow(beta2, step), second = 1 - decayed;
  double most = 2 / (1 - beta2) - 1, length = most - 2 * step * decayed / second;
  radam_numbers n = {.rate = lr / (1 - pow(opt->momentum, step)), .rectified = length > 5};
  n.rate_there = n.factor_there = n.rectified_there = TC_NODE_ERR;
  if (n.rectified)
    n.factor = sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)) * sqrt(second);
  return n;
}

static radam_numbers radam_there(const tc_optimizer *opt, tc_trace *t, double lr, tc_node step) {
  double beta2 = opt->radam.beta2, most = 2 / (1 - beta2) - 1, scale = most / ((most - 4) * (most - 2));
  tc_node second = bias_of(t, step, beta2), decayed = tc_rec_num_first(t, TC_OP_SUB, tc_num_float(1), second);
  tc_node length = f_div(t, f_mul(t, f_num(t, TC_OP_MUL, step, 2), decayed), second);
  length = tc_rec_num_first(t, TC_OP_SUB, tc_num_float(most), length);
  radam_numbers n = {.rate_there = tc_rec_num_first(t, TC_OP_DIV, tc_num_float(lr), bias_of(t, step, opt->momentum))};
  n.rectified_there = f_num(t, TC_OP_GT, length, 5);
  tc_node long_one = f_keep(t, n.rectified_there, length, 6);
  tc_node up = f_mul(t, f_num(t, TC_OP_SUB, long_one, 4), f_num(t, TC_OP_SUB, long_one, 2));
  tc_node square = f_mul(t, f_num(t, TC_OP_MUL, f_div(t, up, long_one), scale), second);
  n.factor_there = tc_rec_unary(t, TC_OP_SQRT, square);
  return n;
}

// The first steps, whose variance is not to be rectified, record the same ops as the later ones,
// with a factor of 0. Where eps is 0 that could be 0 / 0, and they record less: a plan more.
static void update_radam(tc_optimizer *opt, tc_trace *t, tc_optim_entry *e, tc_node p, tc_node g) {
  const tc_radam_options *o = &opt->radam;
  double lr = tc_optim_lr(opt, e->group);
  tc_node count = count_there(opt, t, e, g);
  radam_numbers n = count == TC_NODE_ERR ? radam_host(opt, lr, (double)e->n_steps + 1) : radam_there(opt, t, lr, count);
  decay_weight(opt, t, e, o->decoupled, &p, &g);
  record_moments(opt, t, e, g, o->beta2);
  tc_node avg = e->next_state[0];
  tc_node root = f_num(t, TC_OP_ADD, tc_rec_unary(t, TC_OP_SQRT, e->next_state[1]), o->eps);
  if (count != TC_NODE_ERR) {
    tc_node by = tc_rec_where(t, n.rectified_there, f_div(t, n.factor_there, root), tc_rec_const(t, root, 1));
    e->next_param = f_sub(t, p, f_mul(t, f_mul(t, avg, by), n.rate_there));
  } else if (!n.rectified && o->eps == 0) {
    e->next_param = add_scaled(t, p, avg, -n.rate);
  } else {
    tc_node factor = tc_rec_num_first(t, TC_OP_DIV, tc_num_float(n.factor), root);
    factor = f_num(t, TC_OP_ADD, factor, n.rectified ? 0 : 1);
    e->next_param = add_scaled(t, p, f_mul(t, avg, factor), -n.rate);
  }
}

static void update_adamax(tc_optimizer *opt, tc_trace *t, tc_optim_entry *e, tc_node p, tc_node g) {
  const tc_adamax_options *o = &opt->adamax;
  double lr = tc_optim_lr(opt, e->group), rate = lr / (1 - pow(opt->momentum, (double)e->n_steps + 1));
  tc_node count = count_there(opt, t, e, g), rate_there = TC_NODE_ERR;
  if (count != TC_NODE_ERR)
    rate_there = tc_rec_num_first(t, TC_OP_DIV, tc_num_float(lr), bias_of(t, count, opt->momentum));
  decay_weight(opt, t, e, false, &p, &g);
  e->next_state[0] = lerp(t, state_of(t, e, 0), g, 1 - opt->momentum);
  tc_node size = f_num(t, TC_OP_ADD, tc_rec_unary(t, TC_OP_ABS, g), o->eps);
  e->next_state[1] = tc_rec_binary(t, TC_OP_MAXIMUM, f_num(t, TC_OP_MUL, state_of(t, e, 1), o->beta2), size);
  e->next_param = step_by(t, p, e->next_state[0], e->next_state[1], rate, rate_there);
}

static void update_lion(tc_optimizer *opt, tc_trace *t, tc_optim_entry *e, tc_node p, tc_node g) {
  const tc_lion_options *o = &opt->lion;
  tc_node avg = state_of(t, e, 0);
  decay_weight(opt, t, e, true, &p, &g);
  tc_node way = add_scaled(t, f_num(t, TC_OP_MUL, avg, opt->momentum), g, 1 - opt->momentum);
  e->next_param = add_scaled(t, p, tc_rec_unary(t, TC_OP_SIGN, way), -tc_optim_lr(opt, e->group));
  e->next_state[0] = add_scaled(t, f_num(t, TC_OP_MUL, avg, o->beta2), g, 1 - o->beta2);
}

void tc_optim_count_step(const tc_optimizer *opt, tc_optim_entry *e) {
  e->n_steps++;
  if (opt->rule == &tc_optim_nadam) e->mu_product *= nadam_mu(opt, (double)e->n_steps);
}

const tc_optim_rule tc_optim_sgd = {"sgd", update_sgd, "momentum", {"momentum_buffer"}};
const tc_optim_rule tc_optim_adam = {"adam", update_adam, "beta1", {"exp_avg", "exp_avg_sq"}};
const tc_optim_rule tc_optim_adamw = {"adamw", update_adam, "beta1", {"exp_avg", "exp_avg_sq"}};
const tc_optim_rule tc_optim_rmsprop = {"rmsprop", update_rmsprop, "momentum", {"square_avg", "momentum_buffer"}};
const tc_optim_rule tc_optim_adagrad = {"adagrad", update_adagrad, NULL, {"sum"}};
const tc_optim_rule tc_optim_nadam = {"nadam", update_nadam, "beta1", {"exp_avg", "exp_avg_sq"}};
const tc_optim_rule tc_optim_radam = {"radam", update_radam, "beta1", {"exp_avg", "exp_avg_sq"}};
const tc_optim_rule tc_optim_adamax = {"adamax", update_adamax, "beta1", {"exp_avg", "exp_inf"}};
const tc_optim_rule tc_optim_lion = {"lion", update_lion, "beta1", {"exp_avg"}};
