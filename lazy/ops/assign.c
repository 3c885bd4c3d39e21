// Assignment of whole tensors: a handle's next value, and the caller's memory where it has to land.
#include "lazy/record/append.h"
#include "lazy/record/outline.h"
#include "lazy/record/record.h"
#include "lazy/trace/capture.h"
#include "lazy/trace/deferred_error.h"
#include "runtime/arena.h"

// Notes that slot s is assigned, so that a sync writes its value to the caller's memory. old: its
// value: a leaf in that memory, or a view of such a leaf.
static bool user_add(tc_trace *t, tc_tensor h, tc_slot *s, tc_node old) {
  if (s->flags & TC_SLOT_HAS_DEFERRED) return true;
  if (!TC_GROW(t->user, t->cap_user, t->n_user + 1)) return tc_rec_fail(t, TC_ERR_MEMORY, "no room to record"), false;
  while (tc_rec_op(tc_rec_of(t, old)) != TC_OP_LEAF) old = tc_rec_of(t, old)->in[0];
  s->flags |= TC_SLOT_HAS_DEFERRED;
  t->user[t->n_user++] = (struct tc_user){h.slot, old, tc_buffer_retain(s->buf), NULL};
  return true;
}

// The slot of a handle that this thread may assign; NULL after reporting.
static tc_slot *find_assignable(tc_trace *t, tc_tensor h) {
  tc_trace *owner;
  tc_slot *s = tc_slot_find(h, &owner);
  if (s && owner != t && h.gen)
    return tc_rec_fail(t, TC_ERR_STATE, "a tensor is assigned by the thread that made it"), NULL;
  if (!s || s->gen != h.gen || h.gen == 0) return tc_rec_fail(t, TC_ERR_HANDLE, "%s", tc_handle_fault(h)), NULL;
  return s;
}

static bool is_aliased(const tc_slot *s) {
  return s->buf && s->buf->aliased && s->buf->origin == TC_ORIGIN_USER;
}

// Before the slot's value, node old, is replaced: the caller's memory that it has to reach.
static bool note_old(tc_trace *t, tc_tensor h, tc_slot *s, tc_node old) {
  if (is_aliased(s) && t->record_only)
    return tc_rec_fail(t, TC_ERR_STATE,
                       "another borrow covers some of the memory, so the assign would run before the next op, and this "
                       "thread only records (tc_record_only_begin)"),
           false;
  if (TC_UNLIKELY(t->capture != NULL) && !tc_capture_assign(t, h, s)) return false;
  return !(s->buf && s->buf->origin == TC_ORIGIN_USER) || user_add(t, h, s, old);
}

tc_status tc_rec_take_assign(tc_trace *t, tc_tensor h, tc_node n) {
  tc_slot *s = t->op_status == TC_OK ? find_assignable(t, h) : NULL;
  tc_node old = s ? tc_trace_node(t, s, h) : TC_NODE_ERR;
  if (old == TC_NODE_ERR) return t->op_status;
  bool aliased = is_aliased(s);
  if (!note_old(t, h, s, old)) return t->op_status;
  tc_slot_stand_for(t, s, h, n);
  if (TC_UNLIKELY(aliased)) t->most_nodes = 0;
  return TC_OK;
}

tc_status tc_rec_assign(tc_trace *t, tc_tensor h, tc_node value) {
  if (value == TC_NODE_ERR || t->op_status != TC_OK) return t->op_status == TC_OK ? TC_ERR_STATE : t->op_status;
  tc_slot *s = find_assignable(t, h);
  if (!s) return t->op_status;
  uint32_t shape = tc_rec_of(t, value)->shape;  // the record itself moves when one is appended
  tc_type type = tc_node_type(t, value);
  char ta[128], tb[128];
  if (s->shape != shape || s->dtype != (uint8_t)type)
    return tc_rec_fail(t, TC_ERR_SHAPE, "%s %s cannot become %s %s", tc_type_name((tc_type)s->dtype),
                       tc_dims_text(&tc_dims_at(s->shape)->d, ta, sizeof ta), tc_type_name(type),
                       tc_dims_text(&tc_dims_at(shape)->d, tb, sizeof tb)),
           t->op_status;
  if (t->dev[value] != s->device)
    return tc_rec_fail(t, TC_ERR_DEVICE, "the tensor is on %s, the value on %s", tc_device_name((tc_device)s->device),
                       tc_device_name((tc_device)t->dev[value])),
           t->op_status;
  if (TC_UNLIKELY(t->outline != NULL) && !tc_outline_made(t->outline, s))
    return tc_rec_fail(t, TC_ERR_STATE, "the body of %s assigns a tensor from outside: make it a carry",
                       t->outline->op),
           t->op_status;
  tc_node old = tc_trace_node(t, s, h);
  if (old == TC_NODE_ERR) return t->op_status;
  bool aliased = is_aliased(s);
  if (!note_old(t, h, s, old)) return t->op_status;
  uint8_t history = tc_trace_history(t, TC_OP_ASSIGN, type, t->flag[value]);
  tc_node n =
      tc_trace_append(t, TC_OP_ASSIGN, type, shape, 2, (tc_node[]){value, old}, 0, NULL, 0, NULL, (tc_device)s->device);
  if (n == TC_NODE_ERR) return t->op_status;
  t->assigned_bytes += (uint64_t)tc_dims_at(shape)->count * tc_type_bytes(type);
  t->flag[n] = history;
  if (s->flags & TC_SLOT_GRAD) {  // a parameter stays a leaf
    t->flag[n] = 0;
    if (!tc_trace_requires_grad(t, n, h)) return t->op_status;
  }
  tc_slot_stand_for(t, s, h, n);
  if (TC_UNLIKELY(aliased)) t->most_nodes = 0;
  return TC_OK;
}

tc_status tc_assign_at(tc_tensor h, tc_tensor value, tc_site site) {
  tc_trace *t = tc_op_begin("assign", site), *owner;
  tc_node v = tc_op_in(t, value);
  tc_slot *s = tc_slot_find(h, &owner);
  if (v != TC_NODE_ERR && s && owner == t && s->gen == h.gen) {
    tc_dims d = tc_dims_at(s->shape)->d;
    v = tc_rec_expand(t, tc_rec_cast(t, v, (tc_type)s->dtype), &d);
  }
  (void)tc_rec_assign(t, h, v);
  return tc_defer_error(tc_op_done(t), site);
}
