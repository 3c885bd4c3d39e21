// Parameters: who wants gradients, and the gradients they have. What sums them is
// lazy/autograd/grad.c.
// Threads: under the trace's lock; a parameter's gradient is its own thread's. A parameter owns a
// reference to its gradient.
#include "lazy/trace/thread_trace.h"
#include "lazy/autograd/param.h"

#include "lazy/record/append.h"
#include "lazy/record/record.h"
#include "lazy/trace/capture.h"

static tc_slot *own_slot(tc_trace *t, tc_tensor h) {
  tc_trace *owner;
  tc_slot *s = tc_slot_find(h, &owner);
  if (s && owner != t && h.gen) return tc_rec_fail(t, TC_ERR_STATE, "the parameter belongs to another thread"), NULL;
  if (!s || s->gen != h.gen || h.gen == 0) return tc_rec_fail(t, TC_ERR_HANDLE, "%s", tc_handle_fault(h)), NULL;
  return s;
}

tc_tensor tc_param_at(tc_tensor x, tc_site site) {
  tc_trace *t = tc_op_begin("param", site);
  tc_node a = tc_op_in(t, x);
  if (a != TC_NODE_ERR && !tc_type_is_float(tc_node_type(t, a)))
    a = tc_rec_fail(t, TC_ERR_DTYPE, "a parameter is floating, not %s", tc_type_name(tc_node_type(t, a)));
  a = tc_rec_detach(t, a);
  if (a == TC_NODE_ERR) return tc_op_end(t, a);
  tc_tensor h = tc_trace_handle(t, a, false);
  if (h.slot < TC_POISON) {
    tc_slot_of(h.slot)->flags |= TC_SLOT_GRAD;
    if (!tc_trace_requires_grad(t, a, h)) return tc_op_end(t, TC_NODE_ERR);
    t->flag[a] |= TC_NODE_KEEP;
  }
  (void)tc_op_done(t);
  return h;
}

tc_status tc_set_requires_grad_at(tc_tensor h, bool on, tc_site site) {
  tc_trace *t = tc_op_begin("set_requires_grad", site);
  tc_slot *s = t->op_status == TC_OK ? own_slot(t, h) : NULL;
  if (TC_UNLIKELY(t->op_status == TC_OK && t->capture != NULL)) {
    tc_rec_fail(t, TC_ERR_STATE, "a function that is compiled sets requires_grad: set it before the call");
    s = NULL;
  }
  if (s && on && !tc_type_is_float((tc_type)s->dtype))
    tc_rec_fail(t, TC_ERR_DTYPE, "%s has no gradients", tc_type_name((tc_type)s->dtype));
  if (s && t->op_status == TC_OK && on != ((s->flags & TC_SLOT_GRAD) != 0)) {
    bool history = s->epoch == t->epoch ? (t->flag[s->node] & TC_NODE_TAPE) && tc_slot_is_pending(t, s)
                                        : s->run && (s->run->flag[s->run_node] & TC_NODE_TAPE);
    if (on && history) {
      tc_rec_fail(t, TC_ERR_GRAD, "the tensor has history; detach it first");
    } else if (on) {
      s->flags = (uint8_t)((s->flags | TC_SLOT_GRAD) & ~TC_SLOT_FREED);
      if (s->epoch == t->epoch && !tc_slot_is_pending(t, s)) {  // its next use is a fresh leaf
        if (t->slot_of[s->node] == h.slot) {
          t->slot_of[s->node] = TC_SLOT_NONE;
          t->flag[s->node] &= (uint8_t)~TC_NODE_LIVE;
        }
        s->epoch = 0;
      } else if (s->epoch == t->epoch) {
        if (!tc_trace_requires_grad(t, s->node, h)) return tc_op_done(t);
        t->flag[s->node] |= TC_NODE_KEEP;
      }
    } else {
      s->flags &= (uint8_t)~TC_SLOT_GRAD;
      if (s->epoch == t->epoch)
        t->flag[s->node] &= (uint8_t)~(TC_NODE_REQUIRES_GRAD | TC_NODE_TAPE | TC_NODE_NO_HISTORY);
    }
  }
  return tc_op_done(t);
}

bool tc_requires_grad(tc_tensor h) {
  tc_trace *owner;
  tc_slot *s = tc_slot_lock(h, NULL, 0, &owner);
  if (!s) return false;
  bool pending = s->epoch == owner->epoch, wants = s->flags & TC_SLOT_GRAD;
  uint8_t history = pending ? owner->flag[s->node] : s->run ? s->run->flag[s->run_node] : 0;
  bool freed = !pending && (s->flags & TC_SLOT_FREED);
  const tc_capture *c = owner == tc_trace_mine ? owner->capture : NULL;
  bool made_here = c && pending && s->node >= c->was.n_node && !s->buf && !s->run && !wants;
  tc_slot_unlock(owner);
  if (!made_here) tc_capture_break_mine("a tensor from outside of which it asks for gradients", "requires_grad", 0);
  return wants || freed || (history & (TC_NODE_TAPE | TC_NODE_NO_HISTORY));
}

tc_tensor tc_grad(tc_tensor h) {
  tc_trace *owner;
  tc_slot *s = tc_slot_lock(h, "grad", 0, &owner);
  tc_tensor grad = s ? s->grad : (tc_tensor){0, 0};
  if (s && TC_UNLIKELY(owner->capture != NULL) && owner == tc_trace_mine) tc_capture_grad(owner, h, s);
  if (s) tc_slot_unlock(owner);
  return grad;
}

tc_node tc_rec_grad(tc_trace *t, tc_tensor param) {
  tc_trace *owner;
  tc_slot *s = tc_slot_find(param, &owner);
  if (s && owner != t && param.gen) return (void)own_slot(t, param), TC_NODE_ERR;  // another thread's: refused
  if (!s || s->gen != param.gen || param.gen == 0) return TC_NODE_ERR;
  if (TC_UNLIKELY(t->capture != NULL)) tc_capture_grad(t, param, s);
  return s->grad.gen ? tc_op_in(t, s->grad) : TC_NODE_ERR;
}

void tc_rec_clear_grad(tc_trace *t, tc_tensor param) {
  tc_slot *s = own_slot(t, param);
  if (s && TC_UNLIKELY(t->capture != NULL)) tc_capture_grad(t, param, s);
  if (!s || !s->grad.gen) return;
  tc_tensor grad = s->grad;
  s->grad = (tc_tensor){0, 0};
  tc_slot_release_handle(t, grad);
}

// The gradient is h from here on; the reference is consumed.
static void own_grad(tc_slot *param, tc_tensor h) {
  tc_slot_of(h.slot)->flags |= TC_SLOT_KEEP;
  param->grad = h;
}

// The slot of the gradient that a parameter has, which gets another value. Who has its handle sees
// that. NULL: it gets another handle. It has none, or one that the program made something else.
static tc_slot *find_grad(tc_trace *t, tc_tensor param, tc_slot *s, uint32_t shape, tc_type type, tc_device device) {
  if (TC_UNLIKELY(t->capture != NULL)) tc_capture_grad(t, param, s);
  tc_slot *g = s->grad.gen ? tc_slot_of(s->grad.slot) : NULL;
  if (!g || g->gen != s->grad.gen || (g->flags & (TC_SLOT_GRAD | TC_SLOT_HAS_DEFERRED))) return NULL;
  if (g->shape != shape || g->dtype != (uint8_t)type || g->device != (uint8_t)device) return NULL;
  if (TC_UNLIKELY(t->capture != NULL) && !tc_capture_assign(t, s->grad, g)) return NULL;
  return g;
}

tc_status tc_rec_set_grad(tc_trace *t, tc_tensor param, tc_node g) {
  if (g == TC_NODE_ERR || t->op_status != TC_OK) return t->op_status == TC_OK ? TC_ERR_STATE : t->op_status;
  tc_slot *s = own_slot(t, param);
  if (!s) return t->op_status;
  tc_slot *had = find_grad(t, param, s, tc_rec_of(t, g)->shape, tc_node_type(t, g), (tc_device)t->dev[g]);
  if (t->op_status != TC_OK) return t->op_status;
  if (had && had->epoch == t->epoch && had->node == g) return TC_OK;
  if (!had) tc_rec_clear_grad(t, param);
  if (t->slot_of[g] != TC_SLOT_NONE && (g = tc_trace_copy(t, g)) == TC_NODE_ERR) return t->op_status;
  if (had) return tc_slot_stand_for(t, had, s->grad, g), TC_OK;
  tc_tensor h = tc_trace_handle(t, g, false);
  if (t->op_status != TC_OK) return t->op_status;
  t->flag[g] |= TC_NODE_KEEP;
  own_grad(s, h);
  return TC_OK;
}

tc_status tc_trace_set_grad(tc_trace *t, tc_tensor param, const tc_slot *grad) {
  tc_slot *s = own_slot(t, param);
  if (!s) return t->op_status;
  const tc_stored v = {grad->buf, grad->shape, (tc_type)grad->dtype, (tc_device)grad->device, false};
  tc_slot *had = find_grad(t, param, s, v.shape, v.type, v.device);
  if (had) {
    tc_slot_leave_node(t, had, s->grad);
    tc_slot_set_value(had, grad->buf, grad->run, false);
    had->run_node = grad->run_node;
    return TC_OK;
  }
  tc_tensor h = tc_trace_handle_stored(t, &v, grad->run, grad->run_node, false);
  if (t->op_status != TC_OK) return t->op_status;
  tc_rec_clear_grad(t, param);
  own_grad(s, h);
  return TC_OK;
}

tc_status tc_param_zeros(const char *op, tc_tensor param, tc_site site, tc_tensor *out) {
  tc_trace *owner;
  const tc_slot *s = tc_slot_lock(param, op, site, &owner);
  if (!s) return tc_last_error()->status;
  tc_stored v = {.shape = s->shape, .type = (tc_type)s->dtype, .device = (tc_device)s->device};
  tc_slot_unlock(owner);
  size_t bytes = (size_t)tc_dims_at(v.shape)->count * tc_type_bytes(v.type);
  tc_trace *t = tc_op_begin(op, site);
  t->op_status = tc_buffer_create_on(v.device, bytes, &v.buf);
  if (t->op_status != TC_OK) return tc_op_done(t);
  t->op_status = tc_buffer_clear(v.buf, bytes);
  tc_tensor zeros = t->op_status == TC_OK ? tc_trace_handle_stored(t, &v, NULL, 0, false) : (tc_tensor){0, 0};
  tc_buffer_release(v.buf);
  if (t->op_status == TC_OK) *out = zeros;
  return tc_op_done(t);
}
