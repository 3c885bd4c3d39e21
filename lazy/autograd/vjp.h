// Vector-Jacobian rules: one function tc_vjp_<word> per word of the op table's vjp column (a
// missing one does not link). A rule reads the gradient of a record's result and appends records
// for the gradients of its operands. Rules see node numbers, never handles or runs.
//
//   void tc_vjp_mul(tc_vjp *v) {
//     if (tc_vjp_requires_grad(v, 0))
//       tc_vjp_give(v, 0, tc_rec_binary(v->t, TC_OP_MUL, v->g, tc_vjp_in(v, 1)));
//     if (tc_vjp_requires_grad(v, 1))
//       tc_vjp_give(v, 1, tc_rec_binary(v->t, TC_OP_MUL, v->g, tc_vjp_in(v, 0)));
//   }
#pragma once

#include "lazy/record/record.h"

typedef struct tc_vjp {
  tc_trace *t;
  tc_node g;              // gradient of the result: its shape, and its type or f32 (below)
  tc_op op;
  int n_in;
  const uint64_t *attr, *arg;  // as recorded; layout at the head of ops.def
  bool create_graph;      // what the rule records will be differentiated
  void *walk;             // the walk's own
} tc_vjp;

// Operand k's or the result's value, as a node of the present trace (recorded again if it was only
// a recipe). Only what the row's saves column lists. Rules of arithmetic (lazy/autograd/grad.c,
// computes_wide) see g and values of f16 and bf16 as f32, so that a gradient is rounded once, by
// tc_vjp_give.
tc_node tc_vjp_in(tc_vjp *v, int k);
tc_node tc_vjp_out(tc_vjp *v);
// Shape and type of operand k and of the result: always known, cost nothing.
const tc_dims *tc_vjp_in_dims(const tc_vjp *v, int k);
tc_type tc_vjp_in_type(const tc_vjp *v, int k);
const tc_dims *tc_vjp_out_dims(const tc_vjp *v);
// Whether operand k's gradient is wanted; asking for others is allowed but wasteful.
bool tc_vjp_requires_grad(const tc_vjp *v, int k);
// Adds to the gradient of operand k; sums over axes that broadcasting repeated and casts to the
// operand's type.
void tc_vjp_give(tc_vjp *v, int k, tc_node grad);

#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, autocast, lower, reference, sample) \
  void tc_vjp_##vjp(tc_vjp *v);
#include <tc/ops.def>
#undef TC_OP
