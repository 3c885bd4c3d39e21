// Differentiation of the recorded trace: the walk. Rules are in vjp*.c.
//
// In: a scalar with history. Out: gradients of parameters, or of the tensors asked for, as records.
//
// The tape is the records with the TAPE bit, in the pending trace and in older runs, reached
// through the past of a leaf. A walk (walk.h) goes down from y. Each record reached calls its rule,
// which appends ordinary records.
// Where a value was carried to another memory, its gradient is carried back (cross). What is
// pending runs first; that sync stores every adjoint that is still to be used, and the walk holds
// it. So each side's part of a backward is recorded whole, and runs once.
//
// Invariants: a backward frees the history it walked, unless it is to retain: TAPE becomes FREED,
// and runs drop what only history needed. A walk that fails has changed no gradient.
// Threads: under the trace's lock. Owner: the walk, for its duration.
#include <string.h>

#include "lazy/autograd/param.h"
#include "lazy/autograd/walk.h"
#include "lazy/ops/cross_device.h"
#include "lazy/record/append.h"
#include "lazy/trace/capture.h"
#include "lazy/trace/deferred_error.h"
#include "runtime/arena.h"
#include "runtime/options.h"
#include "runtime/passes.h"

typedef void vjp_fn(tc_vjp *v);
static vjp_fn *const rules[TC_N_OP_ROWS] = {
#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, autocast, lower, reference, sample) \
  [TC_OP_##NAME] = tc_vjp_##vjp,
#include <tc/ops.def>
#undef TC_OP
};

// Adds the gradient that a parameter has to its sum. Not yet, unless told to, if that is in another
// memory than what is pending.
static void add_former(tc_walk *w, tc_param_sum *p, bool anyway) {
  tc_trace *owner;
  tc_slot *s = tc_slot_find(p->param, &owner);
  tc_device d = (tc_device)s->device;
  bool gone = owner == w->t && s->gen != p->param.gen;
  if (TC_UNLIKELY(w->t->capture != NULL) && owner == w->t && !gone) tc_capture_grad(w->t, p->param, s);
  if (!gone && s->grad.gen && !anyway && !tc_walk_is_pending_in(w->t, d)) return;
  p->whole = true;
  if (gone || !s->grad.gen || !tc_walk_enter(w, d)) return;
  tc_node have = tc_rec_grad(w->t, p->param), sum = tc_walk_take(w, &p->sum);
  p->sum = tc_rec_binary(w->t, TC_OP_ADD, have, sum);
}

static void give_param(tc_walk *w, tc_param_sum *p) {
  tc_trace *owner;
  tc_tensor h;
  if (tc_slot_find(p->param, &owner)->gen != p->param.gen && owner == w->t) return;  // released since
  if (tc_walk_is_held(p->sum))
    (void)tc_trace_set_grad(w->t, p->param, tc_walk_held_slot(p->sum, &h));
  else
    (void)tc_rec_set_grad(w->t, p->param, p->sum);
}

// To the parameters, or to those of xs that are some. Sums are made whole first, in what is pending
// and then memory by memory: what fails by then has changed no gradient.
static void give_params(tc_walk *w) {
  for (int i = 0; i < w->n_xs && w->n_params; i++) {
    tc_param_sum *p = *tc_walk_param(w, w->xs[i]);
    if (p) tc_walk_add_to(w, &w->x_grad[i], tc_walk_use_again(w, p->sum), (tc_device)tc_slot_of(p->param.slot)->device);
  }
  if (w->xs) return;
  for (tc_param_sum *p = w->params; p && w->t->op_status == TC_OK; p = p->next) add_former(w, p, false);
  for (tc_param_sum *p = w->params; p && w->t->op_status == TC_OK; p = p->next) {
    if (p->whole) continue;
    for (tc_param_sum *q = p; q && w->t->op_status == TC_OK; q = q->next)
      if (!q->whole) add_former(w, q, q == p);
  }
  for (tc_param_sum *p = w->params; p && w->t->op_status == TC_OK; p = p->next) give_param(w, p);
}

// Adds to the gradients of those xs that stand for node n.
static void give_asked(tc_walk *w, const tc_segment *s, uint32_t n, tc_node g) {
  for (int i = w->x_at[tc_walk_hash((uintptr_t)s->run, n, w->n_x_at)], next; i; i = next) {
    int x = (i - 1) / 2;
    const tc_slot *slot = tc_slot_of(w->xs[x].slot);
    bool by_run = (i - 1) % 2, here = s->run ? by_run && slot->run == s->run && slot->run_node == n
                                             : !by_run && slot->epoch == w->t->epoch && slot->node == n;
    tc_count(TC_PASS_WALK, 1);
    next = w->x_next[i - 1];
    if (here) tc_walk_add_to(w, &w->x_grad[x], tc_walk_use_again(w, g), tc_walk_device(w, s, n));
  }
}

// The gradient of a value that was carried to another memory, node n, goes back to where that was.
static void cross(tc_walk *w, tc_segment *s, uint32_t n) {
  tc_tensor h;
  tc_node *from = &s->adjoint[n];
  uint32_t to = tc_rec_in(tc_walk_rec(w, s, n))[0];
  if (!tc_walk_is_held(*from) && !tc_walk_settle(w)) return;
  tc_tensor there =
      tc_trace_cross_device(w->t, tc_walk_held_slot(*from, &h), (tc_tensor){0, 0}, tc_walk_device(w, s, to), false);
  tc_walk_drop(w, from);
  if (w->t->op_status != TC_OK) return;
  tc_node g = tc_walk_held(w, there), *at = tc_walk_adjoint(w, s, to);
  if (at)
    tc_walk_add_to(w, at, g, tc_walk_device(w, s, to));
  else
    tc_walk_drop(w, &g);
}

static bool is_carried(const tc_walk *w, const tc_segment *s, uint32_t n) {
  const tc_rec *r = tc_walk_rec(w, s, n);
  return s->run && tc_rec_op(r) == TC_OP_TO &&
         tc_device_memory(tc_walk_device(w, s, n)) != tc_device_memory(tc_walk_device(w, s, tc_rec_in(r)[0]));
}

// TC_ANOMALY=1: marks the nodes that the walk recorded from `first` on as part of this call's
// gradient. Recomputed nodes of the forward keep the user's call.
static void tell_origin(tc_trace *t, uint32_t first, tc_call call) {
  if (!TC_GROW(t->of, t->cap_of, t->n_node)) return;
  for (uint32_t n = t->n_of; n < t->n_node; n++) {
    bool by_walk = n >= first && t->call[n].op == t->op && t->call[n].site == t->op_site;
    t->of[n] = by_walk ? call : (tc_call){NULL, 0};
  }
  t->n_of = t->n_node;
}

// Whose gradient it is that the record of node n gives.
static tc_call origin_of(const tc_walk *w, const tc_segment *s, uint32_t n) {
  if (s->run) return s->run->call[n];
  return n < w->t->n_of && w->t->of[n].op ? w->t->of[n] : w->t->call[n];
}

// The walk has come to node n, whose history a former backward has freed. A leaf is named by what
// reads it.
static void fail_freed(const tc_walk *w, const tc_segment *s, uint32_t n) {
  char first[160];
  tc_site_text(s->run ? s->run->freed_by : w->t->freed_by, first, sizeof first);
  const char *op = s->run ? s->run->call[n].op : w->t->call[n].op,
             *read = tc_rec_op(tc_walk_rec(w, s, n)) == TC_OP_LEAF ? "n operand of" : "";
  tc_rec_fail(w->t, TC_ERR_GRAD,
              "the history of a%s %s was freed by the backward at %s; pass TC_RETAIN to that one, or detach the value",
              read, op, first);
}

// A result of control flow: its adjoint waits, and the CONTROL is visited for all of them.
static void visit_element(tc_walk *w, tc_segment *s, uint32_t n) {
  tc_element *e = tc_arena_alloc(&w->t->walk, sizeof *e);
  const tc_rec *r = tc_walk_rec(w, s, n);
  uint32_t control = tc_rec_in(r)[0], number = (uint32_t)tc_rec_attr(r)[1];
  tc_segment *at = s;
  bool found = e && tc_walk_find_record(w, &at, &control) && at;
  if (!found) {
    tc_rec_fail(w->t, TC_ERR_MEMORY, "no room to differentiate");
    return;
  }
  *e = (tc_element){at, control, number, s->adjoint[n], w->elements};
  w->elements = e;
  if (s->run) s->adjoint[n] = TC_NODE_ERR;  // the trace's own are looked at again when its history is freed
  if (at->adjoint[control] == TC_NODE_ERR) at->adjoint[control] = tc_walk_use_again(w, e->adjoint);
}

static void visit_node(tc_walk *w, tc_segment *s, uint32_t n) {
  tc_node g = s->adjoint[n];
  uint8_t flags = tc_walk_flag(w, s, n);
  tc_count(TC_PASS_WALK, 1);
  if (g == TC_NODE_ERR || w->t->op_status != TC_OK) return;
  const tc_rec *r = tc_walk_rec(w, s, n);
  tc_op op = tc_rec_op(r);
  if (w->n_xs) give_asked(w, s, n, g);
  if (flags & TC_NODE_NO_HISTORY) {
    fail_freed(w, s, n);
    return;
  }
  if (!(flags & TC_NODE_TAPE) || op == TC_OP_LEAF) return;
  if (TC_UNLIKELY(w->t->capture != NULL) && (s->run || n < w->t->capture->first_node))
    tc_capture_break(w->t, "a gradient of what was made outside it", w->t->op, w->t->op_site);
  if (op == TC_OP_TUPLE_ELEMENT) {
    visit_element(w, s, n);
    return;
  }
  if (is_carried(w, s, n)) {
    cross(w, s, n);
    return;
  }
  if (!tc_walk_enter(w, tc_walk_device(w, s, n))) return;
  g = tc_walk_take(w, &s->adjoint[n]);
  if (s->run) s->adjoint[n] = TC_NODE_ERR;  // the trace's own are looked at again when its history is freed
  w->at = s, w->node = n;
  uint64_t attr[64], arg[TC_MAX_ARGS];  // copies: recording may move the trace
  int n_in = tc_rec_arity(r), n_attr = tc_rec_attrs(r);
  memcpy(attr, tc_rec_attr(r), (size_t)TC_MIN(n_attr, 64) * sizeof attr[0]);
  const uint64_t *args = s->run ? s->run->arg + s->run->plan->arg_at[n] : w->t->arg + w->t->arg_at[n];
  if (tc_rec_args(r)) memcpy(arg, args, tc_rec_args(r) * sizeof arg[0]);
  tc_vjp v = {.t = w->t, .op = op, .n_in = n_in, .attr = attr, .arg = arg, .create_graph = w->create_graph, .walk = w};
  if (TC_LIKELY(!tc_options_get()->anomaly)) {
    v.g = tc_walk_widened(&v, g);
    rules[op](&v);
    return;
  }
  uint32_t first = w->t->n_node;
  tc_call call = origin_of(w, s, n);
  v.g = tc_walk_widened(&v, g);
  rules[op](&v);
  tell_origin(w->t, first, call);
}

static bool make_room_for_asked(tc_walk *w) {
  if (w->n_xs == 0) return true;
  for (w->n_x_at = 16; w->n_x_at < 4 * (uint32_t)w->n_xs;) w->n_x_at *= 2;
  w->x_at = tc_arena_alloc(&w->t->walk, w->n_x_at * sizeof *w->x_at);
  w->x_next = tc_arena_alloc(&w->t->walk, 2 * (size_t)w->n_xs * sizeof *w->x_next);
  if (!w->x_at || !w->x_next) return tc_rec_fail(w->t, TC_ERR_MEMORY, "no room to differentiate"), false;
  tc_walk_find_asked(w);
  return true;
}

// Differentiates y, whose gradient is g (TC_NODE_ERR: one).
static void run_walk(tc_walk *w, tc_node y, tc_node g) {
  tc_trace *t = w->t;
  const tc_dims *d = tc_node_dims(t, y);
  if (g == TC_NODE_ERR && tc_dims_count(d) != 1) {
    char text[128];
    tc_rec_fail(t, TC_ERR_GRAD, "%s is no scalar; give its gradient", tc_dims_text(d, text, sizeof text));
    return;
  }
  if (!(t->flag[y] & (TC_NODE_TAPE | TC_NODE_NO_HISTORY))) {
    tc_rec_fail(t, TC_ERR_GRAD, "nothing it was made from wants a gradient");
    return;
  }
  uint32_t n = t->n_node;
  bool tape = tc_rec_tape(t, w->create_graph);
  tc_segment *s = tc_walk_add_segment(w, &w->segments, NULL, n);
  if (s && !make_room_for_asked(w)) s = NULL;
  t->op_device = (tc_device)t->dev[y];
  if (g == TC_NODE_ERR) g = tc_rec_full(t, d, tc_node_type(t, y), 1);
  tc_node *first = s && g != TC_NODE_ERR ? tc_walk_adjoint(w, s, y) : NULL;
  if (first) *first = tc_rec_cast(t, g, tc_node_type(t, y));
  for (; s && t->op_status == TC_OK; s = s->next)
    for (uint32_t i = s->n; i-- > 0;) visit_node(w, s, i);
  give_params(w);
  tc_rec_tape(t, tape);
}

// Clears the tape where adjoints went.
static void free_history(tc_walk *w) {
  w->t->freed_by = w->t->op_site;
  for (tc_segment *s = w->segments; s; s = s->next)
    if (s->run)
      tc_run_free_history(s->run, w->t->op_site);
    else
      tc_walk_free_pending(w, s);
}

static tc_status backward(tc_tensor y, tc_tensor grad, int flags, tc_site site) {
  tc_trace *t = tc_op_begin("backward", site);
  if (t->op_status == TC_OK && t->outline)
    tc_rec_fail(t, TC_ERR_STATE, "a body of control flow gives parameters no gradients: tc_grads_of makes them values");
  tc_walk w = {.t = t,
               .visit = visit_node,
               .create_graph = flags & TC_CREATE_GRAPH,
               .retain = flags & (TC_RETAIN | TC_CREATE_GRAPH)};
  tc_node node = tc_op_in(t, y), g = grad.gen ? tc_op_in(t, grad) : TC_NODE_ERR;
  if (node != TC_NODE_ERR && g != TC_NODE_ERR && tc_rec_of(t, g)->shape != tc_rec_of(t, node)->shape) {
    char tg[128], ty[128];
    tc_rec_fail(t, TC_ERR_SHAPE, "the gradient is %s, the tensor %s", tc_dims_text(tc_node_dims(t, g), tg, sizeof tg),
                tc_dims_text(tc_node_dims(t, node), ty, sizeof ty));
  } else if (node != TC_NODE_ERR && g != TC_NODE_ERR && t->dev[g] != t->dev[node]) {
    tc_rec_fail(t, TC_ERR_DEVICE, "the gradient is on %s, the tensor on %s", tc_device_name((tc_device)t->dev[g]),
                tc_device_name((tc_device)t->dev[node]));
  } else if (node != TC_NODE_ERR && t->op_status == TC_OK) {
    run_walk(&w, node, g);
    if (t->op_status == TC_OK && !w.retain) free_history(&w);
  }
  tc_walk_fini(&w);
  return tc_defer_error(tc_op_done(t), site);
}

tc_status tc_backward_at(tc_tensor y, tc_site site) {
  return backward(y, (tc_tensor){0, 0}, 0, site);
}

tc_status tc_backward_with_at(tc_tensor y, tc_tensor grad, int flags, tc_site site) {
  return backward(y, grad, flags, site);
}

// Whether gradients may be asked for the tensor, which is not recorded for it; reports a bad
// handle.
static bool wants_grad(tc_trace *t, tc_tensor x) {
  tc_trace *owner;
  const tc_slot *s = tc_slot_find(x, &owner);
  if (!s || owner != t || !x.gen || s->gen != x.gen) {  // no good, or another thread's
    tc_node a = tc_op_in(t, x);
    t->n_taken = 0;  // no node is kept: what is differentiated may be in another memory
    return a != TC_NODE_ERR && (t->flag[a] & TC_NODE_TAPE);
  }
  if (s->epoch == t->epoch) return t->flag[s->node] & (TC_NODE_TAPE | TC_NODE_NO_HISTORY);
  return (s->flags & (TC_SLOT_GRAD | TC_SLOT_FREED)) ||
         (s->run && (s->run->flag[s->run_node] & (TC_NODE_TAPE | TC_NODE_NO_HISTORY)));
}

// Handles of the gradients in the current scope; zeros where nothing leads to x.
static void give_out(tc_walk *w, tc_tensor *out) {
  tc_trace *t = w->t;
  for (int i = 0; i < w->n_xs; i++) {
    const tc_slot *s = tc_slot_of(w->xs[i].slot);
    if (w->x_grad[i] != TC_NODE_ERR || !tc_walk_enter(w, (tc_device)s->device)) continue;
    w->x_grad[i] = tc_rec_full(t, &tc_dims_at(s->shape)->d, (tc_type)s->dtype, 0);
  }
  for (int i = 0; i < w->n_xs && t->op_status == TC_OK; i++) {
    tc_tensor h;
    tc_node *g = &w->x_grad[i];
    if (tc_walk_is_held(*g)) {
      const tc_slot *s = tc_walk_held_slot(*g, &h);
      const tc_stored v = {s->buf, s->shape, (tc_type)s->dtype, (tc_device)s->device, false};
      out[i] = tc_trace_handle_stored(t, &v, s->run, s->run_node, true);
      tc_walk_drop(w, g);
      continue;
    }
    if (t->slot_of[*g] != TC_SLOT_NONE) *g = tc_trace_copy(t, *g);  // already some handle's node
    if (*g != TC_NODE_ERR) out[i] = tc_trace_handle(t, *g, true);
  }
}

tc_status tc_grads_of_at(tc_tensor y, const tc_tensor *xs, int n, tc_tensor *out, int flags, tc_site site) {
  tc_trace *t = tc_op_begin("grads_of", site);
  tc_node small[32], *x_grad = small;
  if (n < 0 || (n > 0 && (!xs || !out)))
    tc_rec_fail(t, TC_ERR_ARG, "%d tensors%s", n, n < 0 ? "" : " at a null pointer");
  if (t->op_status == TC_OK && n > 32 && !(x_grad = tc_malloc((size_t)n * sizeof *x_grad)))
    tc_rec_fail(t, TC_ERR_MEMORY, "no room for %d tensors", n);
  tc_walk w = {.t = t,
               .visit = visit_node,
               .create_graph = flags & TC_CREATE_GRAPH,
               .retain = (flags & (TC_RETAIN | TC_CREATE_GRAPH)) || t->outline,
               .xs = xs,
               .x_grad = x_grad};
  for (int i = 0; i < n && t->op_status == TC_OK; i++) {
    x_grad[i] = TC_NODE_ERR, w.n_xs = i + 1;
    bool wants = wants_grad(t, xs[i]);
    if (t->op_status == TC_OK && !wants) tc_rec_fail(t, TC_ERR_GRAD, "tensor %d does not want a gradient", i);
  }
  for (int i = 0; i < n && out; i++) out[i] = tc_poison(TC_ERR_GRAD);
  tc_node node = t->op_status == TC_OK ? tc_op_in(t, y) : TC_NODE_ERR;
  if (t->op_status == TC_OK) run_walk(&w, node, TC_NODE_ERR);
  if (t->op_status == TC_OK && !w.retain) free_history(&w);
  if (t->op_status == TC_OK) give_out(&w, out);
  for (int i = 0; i < n && out && t->op_status != TC_OK; i++) out[i] = tc_poison(t->op_status);
  tc_walk_fini(&w);
  if (x_grad != small) tc_free(x_grad);
  return tc_op_done(t);
}
