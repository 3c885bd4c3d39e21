// Autocast: the type that an op's floating operands are cast to when it is recorded, between
// tc_autocast_begin and tc_autocast_end.
//
// In: the rule of a public op by its name, and the thread's autocast types. Out: casts.
// tc_op_begin finds the rule; tc_op_in casts by `lower` and `f32`. An op of the rule `promote` that
// does not promote its operands anyhow calls tc_autocast_promote. What an op records further, and
// what a backward or an optimizer records, is not cast.
// Invariants: a parameter is cast once in a trace while its value stays the same. Its gradients are
// summed in the low type and cast once, as with PyTorch's cache of weights. f64 is never cast.
// Threads: under the trace's lock. Owner: the trace.
#pragma once

#include "lazy/trace/trace.h"

// The rule of the public op of that name, a static string. Thread-safe.
tc_autocast_rule tc_autocast_rule_of(const char *name);
// pre: t->cast_rule is not `none`. The operand as the open op's rule wants it. Passes TC_NODE_ERR.
tc_node tc_autocast_operand(tc_trace *t, tc_node n);
// If the open op's rule is `promote`: casts two operands of different floating types to f32. f64 is
// left alone.
void tc_autocast_widen(tc_trace *t, tc_node *a, tc_node *b);
static inline void tc_autocast_promote(tc_trace *t, tc_node *a, tc_node *b) {
  if (TC_LIKELY(t->cast_rule != TC_AUTOCAST_promote)) return;
  tc_node wide_a = *a, wide_b = *b;  // only these are in memory
  tc_autocast_widen(t, &wide_a, &wide_b);
  *a = wide_a, *b = wide_b;
}
// Forgets the casts of parameters: what is recorded from now on refers to none that was recorded
// before. For what records a part of a trace that is to stand alone.
static inline void tc_autocast_forget(tc_trace *t) {
  t->autocast.casts.epoch = 0;
}
// Of a device: its place in a word of types, 0 to 2.
int tc_autocast_place(tc_device d);
// The type that is cast to on a device; TC_N_TYPES: none.
static inline tc_type tc_autocast_type_on(const tc_trace *t, tc_device d) {
  unsigned at = (unsigned)(t->context >> (8 * tc_autocast_place(d)) & 0xff);
  return at ? (tc_type)(at - 1) : TC_N_TYPES;
}
