// The open op on its usual path, inline: what op.c and the elementwise ops, the shortest to record,
// are made of.
//
// In: a handle, or a node. Out: as tc_op_begin, tc_op_in and tc_op_end (record.h), which are these.
// Invariants: what is not usual is one call of a function of op.c, the last of each path. So no
// register is saved for it.
// Threads: the calling thread's trace, locked in between. Owner: the trace.
#pragma once

#include "lazy/record/autocast.h"
#include "lazy/trace/thread_trace.h"
#include "runtime/options.h"
#include "runtime/reentry.h"

// This thread is inside a call, has no trace yet, or its trace's lock has no bias.
tc_trace *tc_op_begin_slow(const char *name, tc_site site);
// The op is open. The trace is empty or at a bound, or autocast is on.
tc_trace *tc_op_begin_seldom(tc_trace *t, const char *name);
// The operand is not in the trace yet, or is invalid. cast: as autocast asks.
tc_node tc_op_in_slow(tc_trace *t, tc_tensor h, bool cast);
// The op failed, its value needs another node, no handle is free, or each op runs at once.
tc_tensor tc_op_end_slow(tc_trace *t, tc_node n);

#define TC_INLINE static inline __attribute__((always_inline))

TC_INLINE void tc_op_open(tc_trace *t, const char *name, tc_site site) {
  t->op = name, t->op_site = site;
  t->op_status = TC_OK;
  t->n_taken = 0;
  t->tape = t->no_grad == 0;
  t->cast_rule = TC_AUTOCAST_none;
}

TC_INLINE bool tc_op_is_usual(const tc_trace *t) {
  return t->n_node != 0 && t->n_node < t->most_nodes && t->leaf_bytes <= t->byte_check && t->context == 0;
}

TC_INLINE tc_trace *tc_op_begin_inline(const char *name, tc_site site) {
  tc_trace *t = tc_trace_mine;
  if (TC_UNLIKELY(tc_inside || !t)) return tc_op_begin_slow(name, site);
  const char *called = tc_enter_outside(name, site);
  if (!tc_biased_lock_by_bias(&t->lock)) return tc_leave(), tc_op_begin_slow(name, site);
  tc_op_open(t, called, site);
  return TC_LIKELY(tc_op_is_usual(t)) ? t : tc_op_begin_seldom(t, name);
}

TC_INLINE tc_node tc_op_in_inline(tc_trace *t, tc_tensor h, bool cast) {
  tc_trace *owner;
  const tc_slot *s = tc_slot_find(h, &owner);
  bool known = s && owner == t && s->gen == h.gen && s->epoch == t->epoch && t->op_status == TC_OK;
  if (TC_UNLIKELY(!known)) return tc_op_in_slow(t, h, cast);
  t->n_taken++, t->op_device = (tc_device)t->dev[s->node];
  return TC_LIKELY(!cast || t->cast_rule == TC_AUTOCAST_none) ? s->node : tc_autocast_operand(t, s->node);
}

// pre: the trace is none of those that stand for an op that cannot be recorded.
TC_INLINE void tc_op_close(tc_trace *t) {
  t->n_taken = 0;
  tc_biased_unlock_own(&t->lock);
  tc_leave();
}

TC_INLINE tc_tensor tc_op_end_inline(tc_trace *t, tc_node n) {
  bool usual = n != TC_NODE_ERR && t->op_status == TC_OK && t->slot_of[n] == TC_SLOT_NONE &&
               !(t->flag[n] & TC_NODE_REQUIRES_GRAD) && tc_rec_op(tc_rec_of(t, n)) != TC_OP_LEAF &&
               !tc_options_get()->eager && tc_slot_has_room(t);
  if (TC_UNLIKELY(!usual)) return tc_op_end_slow(t, n);
  tc_slot *s;
  tc_tensor h = tc_slot_take(t, &s);
  tc_slot_name(t, s, h.slot, n);
  t->pool[t->n_pool++] = h;
  tc_op_close(t);
  return h;
}
