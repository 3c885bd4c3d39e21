// Stored values of slots and handles. See value.h.
#include "lazy/trace/thread_trace.h"
#include "lazy/record/value.h"

#include "lazy/trace/capture.h"

#include <time.h>

#include "lazy/record/append.h"
#include "lazy/trace/deferred_error.h"
#include "runtime/options.h"
#include "runtime/profile_file.h"

tc_status tc_trace_store(tc_trace *t, tc_slot *s, tc_tensor handle, tc_cause cause, tc_site site, tc_buffer **out) {
  *out = NULL;
  // Another borrow of its memory may have been assigned.
  if (TC_UNLIKELY(t->most_nodes == 0) && !t->dropped)
    TC_TRY(tc_options_get()->fullgraph ? tc_trace_make_way(t, TC_CAUSE_ALIAS, site)
                                       : tc_trace_sync(t, TC_CAUSE_ALIAS, site, 0, NULL));
  bool pending = tc_slot_is_pending(t, s);
  if (!pending && s->err) {
    const char *name = tc_device_name((tc_device)s->device), *absent = tc_device_absent((tc_device)s->device);
    if (absent) return tc_fail(s->err, tc_inside_call.op, site, "the value was lost with %s: %s", name, absent);
    return tc_fail(s->err, tc_inside_call.op, site, "the value %s", tc_slot_lost(s));
  }
  if (!s->buf || pending) {
    if (!pending) t->op_status = TC_OK, t->op = tc_inside_call.op, t->op_site = site;
    tc_node n = tc_trace_node(t, s, handle);
    if (n == TC_NODE_ERR) return t->op_status;
    TC_TRY(tc_trace_may_read(t, n, site));
    TC_TRY(tc_trace_sync(t, cause, site, 1, &n));
  }
  if (!s->buf) return tc_fail(TC_ERR_STATE, tc_inside_call.op, site, "the tensor has no value");
  *out = tc_buffer_retain(s->buf);
  return TC_OK;
}

// What this thread is deferred, where the value that is read is not of its trace.
static tc_status tell_deferred(const char *op, tc_site site) {
  tc_trace *t = tc_trace_mine;
  if (!t) return TC_OK;
  tc_biased_lock_own(&t->lock);
  tc_status st = tc_trace_deferred_error(t, op, site);
  tc_biased_unlock_own(&t->lock);
  return st;
}

tc_status tc_value_copy(tc_stored *v) {
  size_t bytes = (size_t)tc_dims_at(v->shape)->count * tc_type_bytes(v->type);
  tc_buffer *copy = NULL;
  tc_status st = tc_buffer_create(bytes, &copy);
  if (st == TC_OK && bytes) st = tc_buffer_copy(copy, v->buf, bytes);
  if (st != TC_OK) tc_buffer_release(copy), copy = NULL;
  tc_buffer_release(v->buf);
  v->buf = copy;
  return st;
}

tc_status tc_value(tc_tensor h, tc_cause cause, tc_site site, tc_stored *out) {
  const char *op = tc_inside_call.op;
  tc_trace *t;
  *out = (tc_stored){.buf = NULL};
  if (cause != TC_CAUSE_CROSS_THREAD) tc_capture_break_mine("a value that it reads", op, site);
  (void)tc_trace_self();
  tc_slot *s = tc_slot_find(h, &t);
  bool own = s && h.gen && t == tc_trace_mine;
  if (!own && cause != TC_CAUSE_CROSS_THREAD) TC_TRY(tell_deferred(op, site));  // an op's operand is no sync point
  if (!s && h.slot >= TC_POISON) return tc_poison_told(h);
  if (!s || h.gen == 0) return tc_fail(TC_ERR_HANDLE, op, site, "%s", tc_handle_fault(h));
  TC_TRY(tc_trace_here(t, op, site));
  tc_trace_lock(t);
  tc_status st = own ? tc_trace_deferred_error(t, op, site) : TC_OK;
  if (st == TC_OK && s->gen != h.gen) st = tc_fail(TC_ERR_HANDLE, op, site, "%s", tc_handle_fault(h));
  if (st == TC_OK) {
    *out = (tc_stored){NULL, s->shape, (tc_type)s->dtype, (tc_device)s->device, s->flags & TC_SLOT_GRAD, NULL};
    st = tc_trace_store(t, s, h, cause, site, &out->buf);
  }
  if (st == TC_OK && tc_profile_is_on()) tc_buffer_set_read(out->buf);
  if (st == TC_OK && (out->buf->origin == TC_ORIGIN_USER || out->buf->strided)) {
    if (cause == TC_CAUSE_ITEM || cause == TC_CAUSE_TO_HOST || cause == TC_CAUSE_PRINT) return out->locked = t, TC_OK;
    st = tc_value_copy(out);  // assigns write there: this is read later, or in another trace
  } else if (st == TC_OK && !own && out->buf->origin == TC_ORIGIN_BORROWED) {
    out->buf->foreign = true;
  }
  tc_trace_unlock(t);
  return st;
}

// The thread of t is inside an op that waits for another thread's value: its nodes keep their
// numbers, so its assigns cannot land. It waits for no lock that the caller holds.
static void wait_for_op(tc_trace *t) {
  while (t->dropped) {
    tc_trace_unlock(t);
    (void)nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    tc_trace_lock(t);
  }
}

tc_status tc_value_sync(tc_tensor h, tc_site site, tc_device *out_device) {
  const char *op = tc_inside_call.op;
  tc_trace *t;
  (void)tc_trace_self();
  const tc_slot *s = tc_slot_find(h, &t);
  bool own = s && h.gen && t == tc_trace_mine;
  if (!own) TC_TRY(tell_deferred(op, site));
  if (!s && h.slot >= TC_POISON) return tc_poison_told(h);
  if (!s || h.gen == 0) return tc_fail(TC_ERR_HANDLE, op, site, "%s", tc_handle_fault(h));
  TC_TRY(tc_trace_here(t, op, site));
  tc_trace_lock(t);
  wait_for_op(t);
  tc_status st = own ? tc_trace_deferred_error(t, op, site) : TC_OK;
  if (st == TC_OK && s->gen != h.gen) st = tc_fail(TC_ERR_HANDLE, op, site, "%s", tc_handle_fault(h));
  *out_device = (tc_device)s->device;
  if (st == TC_OK) st = tc_trace_sync(t, TC_CAUSE_SYNC, site, 0, NULL);
  tc_trace_unlock_or_retire(t);
  return st;
}

void tc_value_end(const tc_stored *v) {
  if (v->locked) tc_trace_unlock(v->locked);
  tc_buffer_release(v->buf);
}
