// The optimizers' formulas, one function each.
//
// In: a parameter, its gradient, its state. Out: nodes of the next ones.
// The formulas and their order are PyTorch's single-tensor ones (torch.optim). Where a
// correction's root divides there, a multiplication by its inverse stands here: one more rounding,
// one division less. Lion is its paper's: Chen et al., Symbolic Discovery of Optimization
// Algorithms, 2023, program 1.
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

// sqrt(square) * factor + eps
static tc_node root_of(tc_trace *t, tc_node square, double factor, double eps) {
  return f_num(t, TC_OP_ADD, f_num(t, TC_OP_MUL, tc_rec_unary(t, TC_OP_SQRT, square), factor), eps);
}

static void update_sgd(tc_optimizer *opt, tc_trace *t, tc_optim_entry *e, tc_node p, tc_node g) {
  const tc_sgd_options *o = &opt->sgd;
  decay_weight(opt, t, e, false, &p, &g);
  if (opt->n_states) {
    // The buffer starts as the first gradient, undamped: zero * momentum + 1 * g, so that every
    // step records the same ops.
    double share = e->n_steps == 0 ? 1 : 1 - o->dampening;
    tc_node buffer = add_scaled(t, f_num(t, TC_OP_MUL, state_of(t, e, 0), opt->momentum), g, share);
    e->next_state[0] = buffer;
    g = o->nesterov ? add_scaled(t, g, buffer, opt->momentum) : buffer;
  }
  e->next_param = tc_rec_add_sum_at(t, p, g, -tc_optim_lr(opt, e->group));
}

static void update_adam(tc_optimizer *opt, tc_trace *t, tc_optim_entry *e, tc_node p, tc_node g) {
  const tc_adam_options *o = &opt->adam;
  int64_t step = e->n_steps + 1;
  if (opt->bias.step != step || opt->bias.beta1 != opt->momentum)
    opt->bias = (struct tc_optim_bias){step, opt->momentum, 1 - pow(opt->momentum, (double)step),
                                       1 / sqrt(1 - pow(o->beta2, (double)step))};
  decay_weight(opt, t, e, o->decoupled, &p, &g);
  record_moments(opt, t, e, g, o->beta2);
  tc_node root = root_of(t, e->next_state[1], opt->bias.second, o->eps);
  e->next_param = add_quotient(t, p, e->next_state[0], root, -(tc_optim_lr(opt, e->group) / opt->bias.first));
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
  double lr = tc_optim_lr(opt, e->group) / (1 + (double)e->n_steps * o->lr_decay);
  decay_weight(opt, t, e, false, &p, &g);
  e->next_state[0] = f_add(t, state_of(t, e, 0), f_mul(t, g, g));
  tc_node root = f_num(t, TC_OP_ADD, tc_rec_unary(t, TC_OP_SQRT, e->next_state[0]), o->eps);
  e->next_param = add_quotient(t, p, g, root, -lr);
}

static void update_nadam(tc_optimizer *opt, tc_trace *t, tc_optim_entry *e, tc_node p, tc_node g) {
  const tc_nadam_options *o = &opt->nadam;
  double step = (double)e->n_steps + 1, lr = tc_optim_lr(opt, e->group);
  double mu = opt->momentum * (1 - 0.5 * pow(0.96, step * o->momentum_decay));
  double mu_next = opt->momentum * (1 - 0.5 * pow(0.96, (step + 1) * o->momentum_decay));
  double product = e->mu_product * mu;
  e->next_mu_product = product;
  decay_weight(opt, t, e, o->decoupled, &p, &g);
  record_moments(opt, t, e, g, o->beta2);
  tc_node root = root_of(t, e->next_state[1], 1 / sqrt(1 - pow(o->beta2, step)), o->eps);
  p = add_quotient(t, p, g, root, -lr * (1 - mu) / (1 - product));
  e->next_param = add_quotient(t, p, e->next_state[0], root, -lr * mu_next / (1 - product * mu_next));
}

// The first steps, whose variance is not to be rectified, record the same ops as the later ones,
// with a factor of 0. Where eps is 0 that could be 0 / 0, and they record less: a plan more.
static void update_radam(tc_optimizer *opt, tc_trace *t, tc_optim_entry *e, tc_node p, tc_node g) {
  const tc_radam_options *o = &opt->radam;
  double step = (double)e->n_steps + 1, decayed = pow(o->beta2, step), second = 1 - decayed;
  double rate = tc_optim_lr(opt, e->group) / (1 - pow(opt->momentum, step));
  double most = 2 / (1 - o->beta2) - 1, length = most - 2 * step * decayed / second;
  bool rectified = length > 5;
  double rect =
      rectified ? sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)) * sqrt(second) : 0;
  decay_weight(opt, t, e, o->decoupled, &p, &g);
  record_moments(opt, t, e, g, o->beta2);
  tc_node avg = e->next_state[0];
  if (!rectified && o->eps == 0) {
    e->next_param = add_scaled(t, p, avg, -rate);
    return;
  }
  tc_node root = f_num(t, TC_OP_ADD, tc_rec_unary(t, TC_OP_SQRT, e->next_state[1]), o->eps);
  tc_node factor = tc_rec_num_first(t, TC_OP_DIV, tc_num_float(rect), root);
  e->next_param = add_scaled(t, p, f_mul(t, avg, f_num(t, TC_OP_ADD, factor, rectified ? 0 : 1)), -rate);
}

static void update_adamax(tc_optimizer *opt, tc_trace *t, tc_optim_entry *e, tc_node p, tc_node g) {
  const tc_adamax_options *o = &opt->adamax;
  double rate = tc_optim_lr(opt, e->group) / (1 - pow(opt->momentum, (double)e->n_steps + 1));
  decay_weight(opt, t, e, false, &p, &g);
  e->next_state[0] = lerp(t, state_of(t, e, 0), g, 1 - opt->momentum);
  tc_node size = f_num(t, TC_OP_ADD, tc_rec_unary(t, TC_OP_ABS, g), o->eps);
  e->next_state[1] = tc_rec_binary(t, TC_OP_MAXIMUM, f_num(t, TC_OP_MUL, state_of(t, e, 1), o->beta2), size);
  e->next_param = add_quotient(t, p, e->next_state[0], e->next_state[1], -rate);
}

static void update_lion(tc_optimizer *opt, tc_trace *t, tc_optim_entry *e, tc_node p, tc_node g) {
  const tc_lion_options *o = &opt->lion;
  tc_node avg = state_of(t, e, 0);
  decay_weight(opt, t, e, true, &p, &g);
  tc_node way = add_scaled(t, f_num(t, TC_OP_MUL, avg, opt->momentum), g, 1 - opt->momentum);
  e->next_param = add_scaled(t, p, tc_rec_unary(t, TC_OP_SIGN, way), -tc_optim_lr(opt, e->group));
  e->next_state[0] = add_scaled(t, f_num(t, TC_OP_MUL, avg, o->beta2), g, 1 - o->beta2);
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
