// Short names for the recording calls that rules are made of, so that a rule reads like its
// formula. Included by lazy/autograd/vjp*.c only. Inside a rule `v` is its tc_vjp; all of these
// pass TC_NODE_ERR on silently, as record.h does.
#pragma once

#include "lazy/autograd/vjp.h"

static inline tc_node un(tc_vjp *v, tc_op op, tc_node a) {
  return tc_rec_unary(v->t, op, a);
}
static inline tc_node bin(tc_vjp *v, tc_op op, tc_node a, tc_node b) {
  return tc_rec_binary(v->t, op, a, b);
}
static inline tc_node num(tc_vjp *v, tc_op op, tc_node a, double b) {
  return tc_rec_num(v->t, op, a, tc_num_float(b));
}
static inline tc_node neg(tc_vjp *v, tc_node a) {
  return un(v, TC_OP_NEG, a);
}
static inline tc_node mul(tc_vjp *v, tc_node a, tc_node b) {
  return bin(v, TC_OP_MUL, a, b);
}
static inline tc_node add(tc_vjp *v, tc_node a, tc_node b) {
  return bin(v, TC_OP_ADD, a, b);
}
static inline tc_node scale(tc_vjp *v, tc_node a, double b) {
  return num(v, TC_OP_MUL, a, b);
}
// b - a
static inline tc_node num_minus(tc_vjp *v, double b, tc_node a) {
  return bin(v, TC_OP_SUB, tc_rec_const(v->t, a, b), a);
}
// a where cond holds, else zero. A product with a mask would turn an infinite a into nan.
static inline tc_node only_where(tc_vjp *v, tc_node cond, tc_node a) {
  return tc_rec_where(v->t, cond, a, tc_rec_const(v->t, a, 0));
}
static inline tc_node zero_where(tc_vjp *v, tc_node cond, tc_node a) {
  return tc_rec_where(v->t, cond, tc_rec_const(v->t, a, 0), a);
}
// Zeros in the shape and type of operand k.
static inline tc_node zeros_in(tc_vjp *v, int k) {
  return tc_rec_full(v->t, tc_vjp_in_dims(v, k), tc_vjp_in_type(v, k), 0);
}
