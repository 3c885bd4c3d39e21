// The open op: what every public op begins and ends with, and how its operands become nodes. See
// record.h.
#include "lazy/record/op.h"

#include "lazy/record/append.h"
#include "lazy/record/record.h"
#include "lazy/record/value.h"
#include "lazy/trace/capture.h"
#include "runtime/profile.h"
#include "runtime/profile_file.h"
#include "runtime/team.h"

// Whether memory that only the trace holds is over its bound. What is assigned does not count: a
// sync would write over it, not free it. Looked at again when leaves have grown by another such
// amount.
static bool holds_much(tc_trace *t) {
  uint64_t held = 0, bound = (uint64_t)tc_options_get()->max_bytes;
  for (uint32_t i = 0; i < t->n_leaf; i++)
    if (tc_buffer_refs(t->leaf[i].buf) == 1) held += t->leaf[i].buf->bytes;
  for (uint32_t n = 0; n < t->n_node && held > bound; n++) {
    const tc_rec *r = tc_rec_of(t, n);
    if (tc_rec_op(r) != TC_OP_ASSIGN || tc_rec_op(tc_rec_of(t, r->in[1])) != TC_OP_LEAF) continue;
    const tc_buffer *old = tc_trace_leaf_of(t, r->in[1]);
    if (tc_buffer_refs(old) == 1) held -= old->bytes;
  }
  t->byte_check = t->leaf_bytes + bound - TC_MIN(held, bound);
  return held > bound;
}

// An op finds the trace empty.
static void begin_trace(tc_trace *t) {
  tc_team_warm();
  if (tc_profile_is_on()) t->first = tc_ticks();
}

static tc_trace *open_op(const char *name, tc_site site) {
  if (TC_UNLIKELY(!tc_enter(name, site))) return &tc_trace_refused;
  tc_trace *t = tc_trace_self();
  if (TC_UNLIKELY(!t)) {
    tc_fail(TC_ERR_MEMORY, name, site, "no room for a trace");
    tc_leave();
    return &tc_trace_no_memory;
  }
  tc_biased_lock_own(&t->lock);
  tc_op_open(t, tc_inside_call.op, site);  // name, or of the function written over this one
  return t;
}

tc_trace *tc_op_begin_sync(const char *name, tc_site site) {
  tc_trace *t = open_op(name, site);
  if (TC_LIKELY(t->op_status == TC_OK) && TC_UNLIKELY(t->context != 0)) t->cast_rule = tc_autocast_rule_of(name);
  return t;
}

tc_trace *tc_op_begin_seldom(tc_trace *t, const char *name) {
  if (t->context != 0) t->cast_rule = tc_autocast_rule_of(name);
  // waking takes as long as recording: a futex wake of an idle core is 28 to 38 us
  if (t->n_node == 0) begin_trace(t);
  bool full = t->n_node >= t->most_nodes || (t->leaf_bytes > t->byte_check && holds_much(t));
  if (TC_UNLIKELY(full) && !t->outline) {
    tc_cause cause = t->most_nodes == 0 ? TC_CAUSE_ALIAS : TC_CAUSE_BOUND;
    t->op_status = tc_trace_make_way(t, cause, t->op_site);
    t->cut_at_bound |= cause == TC_CAUSE_BOUND && t->n_node == 0;
  }
  return t;
}

tc_trace *tc_op_begin_slow(const char *name, tc_site site) {
  tc_trace *t = open_op(name, site);
  return t->op_status == TC_OK && !tc_op_is_usual(t) ? tc_op_begin_seldom(t, name) : t;
}

tc_trace *tc_op_begin(const char *name, tc_site site) {
  return tc_op_begin_inline(name, site);
}

tc_status tc_op_done(tc_trace *t) {
  tc_status st = t->op_status;
  if (TC_UNLIKELY(t == &tc_trace_refused || t == &tc_trace_no_memory)) return st;
  tc_op_close(t);
  return st;
}

tc_tensor tc_op_end_slow(tc_trace *t, tc_node n) {
  if (n == TC_NODE_ERR || t->op_status != TC_OK) return tc_poison(tc_op_done(t));
  // An op that returns its operand's node (a cast to the same type) still makes a new value. A
  // parameter's may be in no slot.
  bool is_other = t->slot_of[n] != TC_SLOT_NONE || (t->flag[n] & TC_NODE_REQUIRES_GRAD);
  if (is_other && (n = tc_trace_copy(t, n)) == TC_NODE_ERR) return tc_poison(tc_op_done(t));
  tc_tensor h = tc_trace_handle(t, n, true);
  if (TC_UNLIKELY(tc_options_get()->eager) && !t->outline) (void)tc_trace_sync(t, TC_CAUSE_EAGER, t->op_site, 1, &n);
  tc_op_done(t);
  return h;
}

tc_tensor tc_op_end(tc_trace *t, tc_node n) {
  return tc_op_end_inline(t, n);
}

// Whether leaf i is the value v of the tensor h. Another leaf may have its buffer, too: with
// another shape, with a history, or with requires_grad.
static bool is_leaf_of(const tc_trace *t, uint32_t i, const tc_stored *v, tc_tensor h) {
  uint32_t n = t->leaf[i].node;
  const tc_rec *r = tc_rec_of(t, n);
  if (t->leaf[i].buf != v->buf || r->shape != v->shape || r->dtype != (uint8_t)v->type || t->dev[n] != v->device)
    return false;
  for (uint32_t w = 0; w < t->n_param_node; w++)
    if (t->param_node[w].node == n)
      return v->is_param && t->param_node[w].param.slot == h.slot && t->param_node[w].param.gen == h.gen;
  return !v->is_param && !(t->flag[n] & (TC_NODE_TAPE | TC_NODE_NO_HISTORY));
}

// Brings the value of another thread's tensor here as a leaf. The lock is dropped meanwhile, and
// `dropped` keeps our numbers in place.
static tc_node foreign(tc_trace *t, tc_trace *from, tc_tensor h) {
  if (tc_trace_here(from, t->op, t->op_site) != TC_OK) return t->op_status = TC_ERR_HANDLE, TC_NODE_ERR;
  tc_stored v;
  t->dropped = true;
  tc_biased_unlock_own(&t->lock);
  tc_status st = tc_value(h, TC_CAUSE_CROSS_THREAD, t->op_site, &v);
  tc_biased_lock_own(&t->lock);
  t->dropped = false;
  if (st != TC_OK) return t->op_status = st, TC_NODE_ERR;
  tc_node n = TC_NODE_ERR;
  for (uint32_t i = t->n_leaf; i-- > 0 && n == TC_NODE_ERR;)
    if (is_leaf_of(t, i, &v, h)) n = t->leaf[i].node;
  if (n == TC_NODE_ERR) n = tc_trace_leaf(t, v.buf, v.type, v.shape, v.device);
  tc_buffer_release(v.buf);
  if (n != TC_NODE_ERR && v.is_param && !(t->flag[n] & TC_NODE_REQUIRES_GRAD) && !tc_trace_requires_grad(t, n, h))
    return TC_NODE_ERR;
  if (TC_UNLIKELY(t->capture != NULL)) tc_capture_see(t, n, TC_SEEN_HANDLE, h);
  return n;
}

static tc_node find_operand(tc_trace *t, tc_tensor h) {
  tc_trace *owner;
  if (TC_UNLIKELY(t->op_status != TC_OK)) return TC_NODE_ERR;
  tc_slot *s = tc_slot_find(h, &owner);
  if (TC_UNLIKELY(s && owner != t && h.gen)) return foreign(t, owner, h);  // checks gen under the owner's lock
  if (TC_UNLIKELY(!s || h.gen == 0 || s->gen != h.gen)) {
    if (h.slot >= TC_POISON) return t->op_status = tc_poison_told(h), TC_NODE_ERR;
    return tc_rec_fail(t, TC_ERR_HANDLE, "%s", tc_handle_fault(h));
  }
  return tc_trace_node(t, s, h);
}

tc_node tc_op_in_slow(tc_trace *t, tc_tensor h, bool cast) {
  tc_node n = find_operand(t, h);
  t->n_taken++;
  if (n != TC_NODE_ERR) t->op_device = (tc_device)t->dev[n];
  return cast && t->cast_rule != TC_AUTOCAST_none ? tc_autocast_operand(t, n) : n;
}

tc_node tc_op_in_uncast(tc_trace *t, tc_tensor h) {
  return tc_op_in_inline(t, h, false);
}

tc_node tc_op_in(tc_trace *t, tc_tensor h) {
  return tc_op_in_inline(t, h, true);
}
