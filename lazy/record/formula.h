// Short names for the arithmetic of formulas over nodes, so that compositions read like the
// mathematics they come from.
// Private to the compositions: lazy/ops/ops.c, ops_move.c, compose.c, lazy/ops/attention.c,
// order.c, rotary.c, lazy/ops/conv.c, pool.c, norm.c, losses.c, losses_classes.c,
// losses_distance.c, quantize.c and activations.c; and to the optimizers' formulas. Invariants:
// poison in, poison out, silently, as in record.h.
#pragma once

#include "lazy/record/record.h"

static inline tc_node f_add(tc_trace *t, tc_node a, tc_node b) {
  return tc_rec_binary(t, TC_OP_ADD, a, b);
}
static inline tc_node f_sub(tc_trace *t, tc_node a, tc_node b) {
  return tc_rec_binary(t, TC_OP_SUB, a, b);
}
static inline tc_node f_mul(tc_trace *t, tc_node a, tc_node b) {
  return tc_rec_binary(t, TC_OP_MUL, a, b);
}
static inline tc_node f_div(tc_trace *t, tc_node a, tc_node b) {
  return tc_rec_binary(t, TC_OP_DIV, a, b);
}
// a op a floating constant: keeps the type of a floating a.
static inline tc_node f_num(tc_trace *t, tc_op op, tc_node a, double b) {
  return tc_rec_num(t, op, a, tc_num_float(b));
}
static inline tc_node f_int(tc_trace *t, tc_op op, tc_node a, int64_t b) {
  return tc_rec_num(t, op, a, tc_num_int(b));
}
static inline tc_node f_neg(tc_trace *t, tc_node a) {
  return tc_rec_unary(t, TC_OP_NEG, a);
}
static inline tc_node f_exp(tc_trace *t, tc_node a) {
  return tc_rec_unary(t, TC_OP_EXP, a);
}
// cond ? value : a and cond ? a : value, value of a's type.
static inline tc_node f_fill(tc_trace *t, tc_node cond, double value, tc_node a) {
  return tc_rec_where(t, cond, tc_rec_const(t, a, value), a);
}
static inline tc_node f_keep(tc_trace *t, tc_node cond, tc_node a, double value) {
  return tc_rec_where(t, cond, a, tc_rec_const(t, a, value));
}
// An optional operand: {0, 0} is left out.
static inline bool f_given(tc_tensor x) {
  return x.slot != 0 || x.gen != 0;
}
// Formulas of several steps run in f32 where the operand is f16, bf16 or an integer, as PyTorch's
// kernels do; f_narrow rounds the result once. f_narrow takes the type f_type read from the
// operand: integers and poison stay f32.
static inline tc_type f_type(const tc_trace *t, tc_node a) {
  tc_type type = a == TC_NODE_ERR ? TC_F32 : tc_node_type(t, a);
  return tc_type_is_float(type) ? type : TC_F32;
}
static inline tc_node f_widen(tc_trace *t, tc_node a) {
  return a == TC_NODE_ERR || tc_node_type(t, a) == TC_F64 ? a : tc_rec_cast(t, a, TC_F32);
}
static inline tc_node f_narrow(tc_trace *t, tc_node a, tc_type type) {
  return tc_rec_cast(t, a, type);
}

// A scalar has one axis to be named, 0 or -1, as in PyTorch. It goes as a row of one element. If
// the result has one element too, it is a scalar again (lazy/ops/ops.c).
tc_node tc_compose_row_of(tc_trace *t, tc_node a);
// The axis of a that an op looks along, of *out_row where a is a scalar; -1 after reporting.
int tc_compose_axis(tc_trace *t, tc_node a, int axis, tc_node *out_row);
tc_node tc_compose_like_row(tc_trace *t, tc_node a, tc_node row, tc_node result);

// Shared by compositions (lazy/ops/compose.c).
tc_node tc_compose_mean(tc_trace *t, tc_node a, uint32_t axes_mask, bool keepdim);
// Moments over the axes: the mean, each element less the mean, and the sum of the squares of these
// differences. The axes are kept with extent one.
typedef struct tc_moments {
  tc_node mean, centred, squares;
} tc_moments;
tc_moments tc_compose_moments(tc_trace *t, tc_node a, uint32_t axes_mask);
// min(x, 0) - log(1 + exp(-|x|)), with slope 1/2 at zero (lazy/ops/activations.c).
tc_node tc_compose_log_sigmoid(tc_trace *t, tc_node x);
// Zero with probability p, else a / (1 - p); a is floating (lazy/ops/activations.c).
tc_node tc_compose_dropout(tc_trace *t, tc_node a, double p);
// n numbers from an option's list of n, or of one for all; an empty list is `none` for all. False
// after reporting one below `least` (lazy/ops/conv.c).
bool tc_compose_list(tc_trace *t, const char *name, const tc_dims *list, int n, int64_t none, int64_t least,
                     int64_t *out);
// [n, c, ..] as [n, .., c], and back (lazy/ops/conv.c).
tc_node tc_compose_channels_last(tc_trace *t, tc_node a);
tc_node tc_compose_channels_first(tc_trace *t, tc_node a);
// a's root (or power) with slope 0 where a is 0, PyTorch's choice for std and norm.
tc_node tc_compose_root(tc_trace *t, tc_node a, double power);
// What is left of a loss's elements by a reduction; poison after reporting one that there is not
// (lazy/ops/losses.c).
tc_node tc_compose_reduce(tc_trace *t, tc_node each, tc_reduction reduction);
// The result type of a loss: the wider of the two operands' (lazy/ops/losses.c).
tc_type tc_compose_loss_type(const tc_trace *t, tc_node a, tc_node b);
// A bit for each axis of a.
static inline uint32_t f_all_axes(const tc_trace *t, tc_node a) {
  return a == TC_NODE_ERR ? 0 : UINT32_C(0xff) >> (TC_MAX_RANK - tc_node_dims(t, a)->rank);
}
// Elements that the axes of the mask hold together.
double tc_compose_count(const tc_trace *t, tc_node a, uint32_t axes_mask);
