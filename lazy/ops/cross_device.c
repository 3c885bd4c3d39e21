// Values that go from one device to another. See cross_device.h. In the same memory that is a
// record, TO. To another memory a value goes as a copy, once it is stored. The copy has the history
// of what was carried: a run of two records (tc_run_create_carried). By it gradients find the way
// back (lazy/autograd/grad.c).
// Threads: under the trace's lock. Owner: nobody.
#define TC_NO_SITES
#include "lazy/ops/cross_device.h"

#include "lazy/record/append.h"
#include "lazy/record/record.h"
#include "lazy/record/value.h"
#include "lazy/sync/plan_cache.h"

tc_node tc_trace_to(tc_trace *t, tc_node a, tc_device to) {
  if (a == TC_NODE_ERR) return a;
  const tc_rec *r = tc_rec_of(t, a);
  return tc_trace_append(t, TC_OP_TO, (tc_type)r->dtype, r->shape, 1, &a, 1, &(uint64_t){to}, 0, NULL, to);
}

static tc_status history_of(const tc_trace *t, const tc_slot *s, tc_tensor param, tc_device to, tc_run **out) {
  tc_plan *p;
  bool past = s->run && (s->run->flag[s->run_node] & (TC_NODE_TAPE | TC_NODE_NO_HISTORY));
  *out = NULL;
  if (!t->tape || (!past && !param.gen)) return TC_OK;
  TC_TRY(tc_plan_of_carried((tc_type)s->dtype, s->shape, (tc_device)s->device, to, &p));
  *out = tc_run_create_carried(p, param.gen ? NULL : s->run, s->run_node, param, (tc_call){t->op, t->op_site});
  tc_plan_release(p);
  return *out ? TC_OK : TC_FAIL(TC_ERR_MEMORY, "no room for a run");
}

tc_tensor tc_trace_cross_device(tc_trace *t, const tc_slot *s, tc_tensor param, tc_device to, bool pooled) {
  tc_stored v = {.shape = s->shape, .type = (tc_type)s->dtype, .device = to};
  size_t bytes = (size_t)tc_dims_at(s->shape)->count * tc_type_bytes(v.type);
  tc_run *history = NULL;
  tc_tensor h = {0, 0};
  tc_status st = tc_buffer_create_on(to, bytes, &v.buf);
  if (st == TC_OK && bytes) st = tc_buffer_copy(v.buf, s->buf, bytes);
  if (st == TC_OK) st = history_of(t, s, param, to, &history);
  if (st == TC_OK)
    h = tc_trace_handle_stored(t, &v, history, 1, pooled);
  else
    t->op_status = st, h = tc_poison(st);
  if (st == TC_OK && h.slot < TC_POISON && t->tape && !param.gen) tc_slot_of(h.slot)->flags |= s->flags & TC_SLOT_FREED;
  tc_run_release(history);
  tc_buffer_release(v.buf);
  return h;
}

static tc_tensor carried(tc_trace *t, tc_slot *s, tc_tensor x, tc_device to) {
  tc_buffer *buf;
  tc_status st = tc_trace_store(t, s, x, TC_CAUSE_TO, t->op_site, &buf);
  if (st != TC_OK) return t->op_status = st, tc_poison(st);
  tc_buffer_release(buf);  // the slot has it
  return tc_trace_cross_device(t, s, (s->flags & TC_SLOT_GRAD) ? x : (tc_tensor){0, 0}, to, true);
}

// Carries another thread's tensor, which is leaf n here. It has no history, but may be a parameter.
static tc_tensor carried_leaf(tc_trace *t, tc_node n, tc_tensor x, tc_device to) {
  const tc_rec *r = tc_rec_of(t, n);
  tc_slot there = {.buf = tc_trace_leaf_of(t, n), .shape = r->shape, .dtype = r->dtype, .device = t->dev[n]};
  return tc_trace_cross_device(t, &there, (t->flag[n] & TC_NODE_REQUIRES_GRAD) ? x : (tc_tensor){0, 0}, to, true);
}

tc_tensor tc_to_at(tc_tensor x, const char *device, tc_site site) {
  tc_trace *t = tc_op_begin("to", site), *owner;
  tc_slot *s = tc_slot_find(x, &owner);
  bool own = s && owner == t && x.gen && s->gen == x.gen;
  tc_node a = own ? TC_NODE_ERR : tc_op_in(t, x);
  tc_device d = TC_DEVICE_CPU;
  if (t->op_status == TC_OK) t->op_status = tc_device_parse(device, t->op, site, &d);
  if (t->op_status != TC_OK) return tc_op_end(t, TC_NODE_ERR);
  if (tc_device_memory(d) == tc_device_memory(own ? (tc_device)s->device : (tc_device)t->dev[a]))
    return tc_op_end(t, tc_trace_to(t, own ? tc_op_in(t, x) : a, d));
  tc_tensor there = own ? carried(t, s, x, d) : carried_leaf(t, a, x, d);
  tc_status st = tc_op_done(t);
  return st == TC_OK ? there : tc_poison(st);
}
