// Activations and dropout, composed at node level from elementwise records, which lowering fuses
// into one kernel.
// f16, bf16 and integer operands are computed in f32 and rounded once, as PyTorch's kernels do.
// Values and slopes on the edges are PyTorch's (aten/src/ATen/native/cpu/Activation.cpp); branches
// whose slope could be infinite see a harmless operand (the double where).
// Threads: thread-compatible, each thread records its own trace.
#define TC_NO_SITES
#include "lazy/record/formula.h"

#include <math.h>

// A function of the widened operand; p is the activation's one parameter.
typedef tc_node (*formula)(tc_trace *t, tc_node x, double p);

static tc_tensor activate(const char *name, formula f, tc_tensor x, double p, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  tc_node a = tc_op_in(t, x);
  if (a == TC_NODE_ERR) return tc_op_end(t, a);
  tc_type type = f_type(t, a);
  return tc_op_end(t, f_narrow(t, f(t, f_widen(t, a), p), type));
}

#define ACTIVATION(name) \
  tc_tensor tc_##name##_at(tc_tensor x, tc_site site) { \
    return activate(#name, name##_node, x, 0.0, site); \
  }
#define ACTIVATION_OF(name, parameter) \
  tc_tensor tc_##name##_at(tc_tensor x, double parameter, tc_site site) { \
    return activate(#name, name##_node, x, parameter, site); \
  }

static tc_node silu_node(tc_trace *t, tc_node x, double p) {
  (void)p;
  return f_mul(t, x, tc_rec_unary(t, TC_OP_SIGMOID, x));
}
ACTIVATION(silu)

// x itself above 20, where log(1 + exp(x)) - x is below f32's rounding; exp sees no operand that
// could overflow.
static tc_node softplus_node(tc_trace *t, tc_node x, double p) {
  (void)p;
  tc_node large = f_num(t, TC_OP_GT, x, 20.0);
  return tc_rec_where(t, large, x, tc_rec_unary(t, TC_OP_LOG1P, f_exp(t, f_fill(t, large, 0.0, x))));
}
ACTIVATION(softplus)

static tc_node leaky_relu_node(tc_trace *t, tc_node x, double slope) {
  return tc_rec_where(t, f_num(t, TC_OP_GT, x, 0.0), x, f_num(t, TC_OP_MUL, x, slope));
}
ACTIVATION_OF(leaky_relu, slope)

static tc_node elu_node(tc_trace *t, tc_node x, double alpha) {
  tc_node positive = f_num(t, TC_OP_GT, x, 0.0);
  tc_node curve = f_num(t, TC_OP_MUL, tc_rec_unary(t, TC_OP_EXPM1, f_fill(t, positive, 0.0, x)), alpha);
  return tc_rec_where(t, positive, x, curve);
}
ACTIVATION_OF(elu, alpha)

// x within [low, high] with slope 0 on the bounds; NaN stays NaN.
static tc_node squeeze_between(tc_trace *t, tc_node x, double low, double high) {
  tc_node y = f_fill(t, f_num(t, TC_OP_LE, x, low), low, x);
  return f_fill(t, f_num(t, TC_OP_GE, x, high), high, y);
}

// An integer tensor keeps its type, as PyTorch's hardtanh does.
static tc_tensor saturate(const char *name, tc_tensor x, double low, double high, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  tc_node a = tc_op_in(t, x);
  return tc_op_end(t, a == TC_NODE_ERR ? a : squeeze_between(t, a, low, high));
}

tc_tensor tc_relu6_at(tc_tensor x, tc_site site) {
  return saturate("relu6", x, 0.0, 6.0, site);
}

tc_tensor tc_hardtanh_at(tc_tensor x, tc_site site) {
  return saturate("hardtanh", x, -1.0, 1.0, site);
}

static tc_node hardsigmoid_node(tc_trace *t, tc_node x, double p) {
  (void)p;
  return f_num(t, TC_OP_DIV, squeeze_between(t, f_num(t, TC_OP_ADD, x, 3.0), 0.0, 6.0), 6.0);
}
ACTIVATION(hardsigmoid)

static tc_node hardswish_node(tc_trace *t, tc_node x, double p) {
  (void)p;
  return f_num(t, TC_OP_DIV, f_mul(t, x, squeeze_between(t, f_num(t, TC_OP_ADD, x, 3.0), 0.0, 6.0)), 6.0);
}
ACTIVATION(hardswish)

static tc_node mish_node(tc_trace *t, tc_node x, double p) {
  return f_mul(t, x, tc_rec_unary(t, TC_OP_TANH, softplus_node(t, x, p)));
}
ACTIVATION(mish)

// -|x| and min(x, 0) as wheres: abs and minimum have slopes at zero that do not add up to 1/2.
tc_node tc_compose_log_sigmoid(tc_trace *t, tc_node x) {
  if (x == TC_NODE_ERR) return x;
  tc_node negative = f_num(t, TC_OP_LT, x, 0.0);
  tc_node down = tc_rec_where(t, negative, x, f_neg(t, x));
  return f_sub(t, f_keep(t, negative, x, 0.0), tc_rec_unary(t, TC_OP_LOG1P, f_exp(t, down)));
}

static tc_node log_sigmoid_node(tc_trace *t, tc_node x, double p) {
  (void)p;
  return tc_compose_log_sigmoid(t, x);
}
ACTIVATION(log_sigmoid)

static tc_node softsign_node(tc_trace *t, tc_node x, double p) {
  (void)p;
  return f_div(t, x, f_num(t, TC_OP_ADD, tc_rec_unary(t, TC_OP_ABS, x), 1.0));
}
ACTIVATION(softsign)

// x times the mask times the scale, so that NaN and infinity show through as in PyTorch. The draw
// is f32 whatever x is.
tc_node tc_compose_dropout(tc_trace *t, tc_node a, double p) {
  if (a == TC_NODE_ERR || p == 0.0) return a;
  tc_node draw = tc_rec_rng(t, TC_OP_RAND, tc_node_dims(t, a), TC_F32, 0, 0);
  tc_node wide = f_widen(t, a), mask = tc_rec_cast(t, f_num(t, TC_OP_LT, draw, 1.0 - p), tc_node_type(t, wide));
  return f_narrow(t, f_mul(t, wide, f_num(t, TC_OP_MUL, mask, p < 1.0 ? 1.0 / (1.0 - p) : 0.0)), tc_node_type(t, a));
}

tc_tensor tc_dropout_at(tc_tensor x, double p, tc_site site) {
  tc_trace *t = tc_op_begin("dropout", site);
  tc_node a = tc_op_in(t, x);
  if (!(p >= 0.0 && p <= 1.0)) return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "p is %g, not within [0, 1]", p));
  if (a == TC_NODE_ERR || p == 0.0) return tc_op_end(t, a);
  if (!tc_type_is_float(tc_node_type(t, a)))
    return tc_op_end(
        t, tc_rec_fail(t, TC_ERR_DTYPE, "x is %s, a floating type is needed", tc_type_name(tc_node_type(t, a))));
  return tc_op_end(t, tc_compose_dropout(t, a, p));
}
