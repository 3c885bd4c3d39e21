// Differentiation of the recorded trace: the walk. Rules are in vjp*.c.
//
// The tape is the records with the tape bit, in the pending trace and in older runs, reached through the origin of a leaf. A walk goes down from y by
// falling numbers, first in the trace, then in the runs it crosses into, latest first. Each record reached calls its rule, which appends ordinary
// records. Adjoints are node numbers in scratch arrays of the trace's, one array per segment.
// A backward frees the history it walked unless told to retain: tape bits are cleared, runs drop what only differentiation needed.
#include <string.h>

#include "lazy/plan.h"
#include "lazy/vjp.h"
#include "runtime/arena.h"

typedef void vjp_fn(tc_vjp *v);
static vjp_fn *const rules[TC_N_OP_ROWS] = {
#define TC_OP(NAME, name, kind, arity, results, dtype, shape, vjp, saves, autocast, lower, reference, sample) [TC_OP_##NAME] = tc_vjp_##vjp,
#include <tc/ops.def>
#undef TC_OP
};

typedef struct segment {
  tc_run *run;  // NULL: the pending trace
  tc_node *adjoint;  // per node
  uint32_t n;
  struct segment *next;
} segment;

// What a parameter gathers over the whole walk: one sum in the order of the records, however the syncs cut them into runs.
typedef struct gathered {
  tc_tensor param;
  tc_node sum;
  struct gathered *next;
} gathered;

typedef struct walk {
  tc_trace *t;
  segment *segments;  // the trace's first, then runs, latest first
  gathered *params, **last_param;
  segment *at;  // of the record being differentiated
  uint32_t node;
  const tc_rec *rec;
  bool create_graph;
  // where gradients go: into xs (grads_of), or to parameters
  const tc_tensor *xs;
  tc_node *x_grad;
  int n_xs;
} walk;

static segment *segment_add(walk *w, tc_run *run, uint32_t n) {
  segment *s = tc_arena_alloc(&w->t->walk, sizeof *s), **at = &w->segments;
  if (s) s->adjoint = tc_arena_alloc(&w->t->walk, (n + 1) * sizeof s->adjoint[0]);
  if (!s || !s->adjoint) return tc_rec_fail(w->t, TC_ERR_MEMORY, "no room to differentiate"), NULL;
  memset(s->adjoint, 0xFF, n * sizeof s->adjoint[0]);
  s->run = run ? tc_run_retain(run) : NULL, s->n = n;  // freeing one run's history may release another
  while (*at && (!run || !(*at)->run || (*at)->run->serial > run->serial)) at = &(*at)->next;
  s->next = *at;
  return *at = s;
}

static segment *segment_of(walk *w, tc_run *run) {
  for (segment *s = w->segments; s; s = s->next)
    if (s->run == run) return s;
  return segment_add(w, run, run->plan->n_node);
}

static void walk_fini(walk *w) {
  for (segment *s = w->segments; s; s = s->next) tc_run_release(s->run);
  tc_arena_reset(&w->t->walk);
}

static const tc_rec *rec_at(const walk *w, const segment *s, uint32_t n) {
  return s->run ? tc_plan_rec(s->run->plan, n) : tc_rec_of(w->t, n);
}

static uint8_t flag_at(const walk *w, const segment *s, uint32_t n) {
  return s->run ? s->run->flag[n] : w->t->flag[n];
}

static tc_tensor param_of(const walk *w, const segment *s, uint32_t n) {
  const tc_want *want = s->run ? s->run->want : w->t->want;
  uint32_t n_want = s->run ? s->run->n_want : w->t->n_want;
  for (uint32_t i = 0; i < n_want; i++)
    if (want[i].node == n) return want[i].param;
  return (tc_tensor){0, 0};
}

static tc_node *sum_of_param(walk *w, tc_tensor p) {
  for (gathered *g = w->params; g; g = g->next)
    if (g->param.slot == p.slot && g->param.gen == p.gen) return &g->sum;
  gathered *g = tc_arena_alloc(&w->t->walk, sizeof *g);
  if (!g) return tc_rec_fail(w->t, TC_ERR_MEMORY, "no room to differentiate"), NULL;
  *g = (gathered){p, TC_NODE_ERR, NULL};
  *(w->last_param ? w->last_param : &w->params) = g;
  w->last_param = &g->next;
  return &g->sum;
}

// The record of an older run that node n stands for; NULL if it was made here.
static const tc_past *past_of(const walk *w, const segment *s, uint32_t n) {
  const tc_past *past = s->run ? s->run->past : w->t->past;
  for (uint32_t i = s->run ? s->run->n_past : w->t->n_past; i-- > 0;)
    if (past[i].node == n) return &past[i];
  return NULL;
}

// Where gradients of node n are summed: at the record that made the value, in whichever run that is, or at the parameter.
static tc_node *adjoint_of(walk *w, segment *s, uint32_t n) {
  while (s) {
    uint8_t flags = flag_at(w, s, n);
    if (flags & TC_NODE_WANT) return sum_of_param(w, param_of(w, s, n));
    const tc_past *past = (flags & TC_NODE_FREED) ? NULL : past_of(w, s, n);
    if (!past) break;
    n = past->home;
    s = segment_of(w, past->run);
  }
  return s ? &s->adjoint[n] : NULL;
}

static tc_node sum_of(tc_trace *t, tc_node a, tc_node b) {
  return a == TC_NODE_ERR ? b : tc_rec_binary(t, TC_OP_ADD, a, b);
}

// ---- what rules see ----

static tc_node value_of(walk *w, uint32_t n) {
  return w->at->run ? tc_run_replay(w->t, w->at->run, n) : n;
}

tc_node tc_vjp_in(tc_vjp *v, int k) {
  walk *w = v->walk;
  return value_of(w, tc_rec_in(rec_at(w, w->at, w->node))[k]);
}

tc_node tc_vjp_out(tc_vjp *v) {
  walk *w = v->walk;
  return value_of(w, w->node);
}

static const tc_rec *operand(const tc_vjp *v, int k) {
  const walk *w = v->walk;
  return rec_at(w, w->at, tc_rec_in(rec_at(w, w->at, w->node))[k]);
}

const tc_dims *tc_vjp_in_dims(const tc_vjp *v, int k) {
  return &tc_dims_at(operand(v, k)->shape)->d;
}

tc_type tc_vjp_in_type(const tc_vjp *v, int k) {
  return (tc_type)operand(v, k)->dtype;
}

const tc_dims *tc_vjp_out_dims(const tc_vjp *v) {
  const walk *w = v->walk;
  return &tc_dims_at(rec_at(w, w->at, w->node)->shape)->d;
}

bool tc_vjp_wants(const tc_vjp *v, int k) {
  const walk *w = v->walk;
  return flag_at(w, w->at, tc_rec_in(rec_at(w, w->at, w->node))[k]) & (TC_NODE_TAPE | TC_NODE_FREED);
}

// Sums g over the axes that broadcasting from d repeated.
static tc_node unbroadcast(tc_trace *t, tc_node g, const tc_dims *d) {
  if (g == TC_NODE_ERR) return g;
  const tc_dims *have = tc_node_dims(t, g);
  if (tc_dims_equal(have, d)) return g;
  uint32_t mask = 0;
  for (int i = 0; i < have->rank; i++) {
    int k = i - (have->rank - d->rank);
    if (k < 0 || (d->dim[k] == 1 && have->dim[i] != 1)) mask |= 1u << i;
  }
  return tc_rec_reshape(t, tc_rec_fold(t, TC_OP_SUM, g, mask, true), d);
}

void tc_vjp_give(tc_vjp *v, int k, tc_node g) {
  walk *w = v->walk;
  if (g == TC_NODE_ERR || !tc_vjp_wants(v, k)) return;
  g = tc_rec_cast(w->t, unbroadcast(w->t, g, tc_vjp_in_dims(v, k)), tc_vjp_in_type(v, k));
  tc_node *at = adjoint_of(w, w->at, tc_rec_in(rec_at(w, w->at, w->node))[k]);
  if (at) *at = sum_of(w->t, *at, g);
}

// ---- the walk ----

static void give_param(walk *w, tc_tensor p, tc_node g) {
  for (int i = 0; i < w->n_xs; i++)
    if (w->xs[i].slot == p.slot && w->xs[i].gen == p.gen) w->x_grad[i] = sum_of(w->t, w->x_grad[i], g);
  tc_trace *owner;
  tc_slot *s = tc_slot_find(p, &owner);
  if (w->xs || (owner == w->t && s->gen != p.gen)) return;  // released since
  tc_node have = tc_rec_grad(w->t, p);
  (void)tc_rec_set_grad(w->t, p, sum_of(w->t, have, g));
}

// Adds to the gradients of those xs that stand for node n.
static void give_asked(walk *w, const segment *s, uint32_t n, tc_node g) {
  for (int i = 0; i < w->n_xs; i++) {
    tc_trace *owner;
    tc_slot *slot = tc_slot_find(w->xs[i], &owner);
    bool here = s->run ? slot->run == s->run && slot->home == n : slot->epoch == w->t->epoch && slot->node == n;
    if (here) w->x_grad[i] = sum_of(w->t, w->x_grad[i], g);
  }
}

static void visit(walk *w, segment *s, uint32_t n) {
  tc_node g = s->adjoint[n];
  uint8_t flags = flag_at(w, s, n);
  if (g == TC_NODE_ERR || w->t->op_status != TC_OK) return;
  const tc_rec *r = rec_at(w, s, n);
  tc_op op = tc_rec_op(r);
  if (w->n_xs) give_asked(w, s, n, g);
  if (flags & TC_NODE_FREED) {
    char first[160];
    tc_site_text(s->run ? s->run->freed_by : w->t->freed_by, first, sizeof first);
    const tc_call *by = s->run ? &s->run->call[n] : &w->t->call[n];
    tc_rec_fail(w->t, TC_ERR_GRAD, "the history of a %s was freed by the backward at %s; pass TC_RETAIN to that one", by->op, first);
    return;
  }
  if (!(flags & TC_NODE_TAPE) || op == TC_OP_LEAF) return;
  w->at = s, w->node = n;
  uint64_t attr[64], arg[64];  // copies: recording may move the trace
  int n_in = tc_rec_arity(r), n_attr = r->n_extra - (tc_op_arity[op] > 2 ? (n_in + 1) / 2 : 0);
  memcpy(attr, tc_rec_attr(r), (size_t)TC_MIN(n_attr, 64) * sizeof attr[0]);
  const uint64_t *args = s->run ? s->run->arg + s->run->plan->arg_at[n] : w->t->arg + w->t->arg_at[n];
  if (tc_rec_args(r)) memcpy(arg, args, tc_rec_args(r) * sizeof arg[0]);
  tc_vjp v = {.t = w->t, .g = g, .op = op, .n_in = n_in, .attr = attr, .arg = arg, .create_graph = w->create_graph, .walk = w};
  rules[op](&v);
}

// Differentiates y, whose gradient is g (TC_NODE_ERR: one).
static void run_walk(walk *w, tc_node y, tc_node g) {
  tc_trace *t = w->t;
  const tc_dims *d = tc_node_dims(t, y);
  if (g == TC_NODE_ERR && tc_dims_count(d) != 1) {
    char text[128];
    tc_rec_fail(t, TC_ERR_GRAD, "%s is no scalar; give its gradient", tc_dims_text(d, text, sizeof text));
    return;
  }
  if (!(t->flag[y] & (TC_NODE_TAPE | TC_NODE_FREED))) {
    tc_rec_fail(t, TC_ERR_GRAD, "nothing it was made from wants a gradient");
    return;
  }
  uint32_t n = t->n_node;
  bool tape = tc_rec_tape(t, w->create_graph);
  segment *s = segment_add(w, NULL, n);
  if (g == TC_NODE_ERR) g = tc_rec_full(t, d, tc_node_type(t, y), 1);
  tc_node *first = s && g != TC_NODE_ERR ? adjoint_of(w, s, y) : NULL;
  if (first) *first = tc_rec_cast(t, g, tc_node_type(t, y));
  for (; s && t->op_status == TC_OK; s = s->next)
    for (uint32_t i = s->n; i-- > 0;) visit(w, s, i);
  for (gathered *p = w->params; p && t->op_status == TC_OK; p = p->next) give_param(w, p->param, p->sum);
  tc_rec_tape(t, tape);
}

// Clears the tape where adjoints went.
static void free_history(walk *w) {
  w->t->freed_by = w->t->op_site;
  for (segment *s = w->segments; s; s = s->next) {
    if (s->run) {
      tc_run_free_history(s->run, w->t->op_site);
      continue;
    }
    for (uint32_t n = 0; n < s->n; n++)
      if (s->adjoint[n] != TC_NODE_ERR && (w->t->flag[n] & TC_NODE_TAPE) && !(w->t->flag[n] & TC_NODE_WANT))
        w->t->flag[n] = (uint8_t)((w->t->flag[n] & ~TC_NODE_TAPE) | TC_NODE_FREED);
  }
}

static tc_status backward(tc_tensor y, tc_tensor grad, int flags, tc_site site) {
  tc_trace *t = tc_op_begin("backward", site);
  walk w = {.t = t, .create_graph = flags & TC_CREATE_GRAPH};
  tc_node node = tc_op_in(t, y), g = grad.gen ? tc_op_in(t, grad) : TC_NODE_ERR;
  if (node != TC_NODE_ERR && g != TC_NODE_ERR && tc_rec_of(t, g)->shape != tc_rec_of(t, node)->shape) {
    tc_rec_fail(t, TC_ERR_SHAPE, "the gradient's shape differs from the tensor's");
  } else if (node != TC_NODE_ERR && t->op_status == TC_OK) {
    run_walk(&w, node, g);
    if (t->op_status == TC_OK && !(flags & (TC_RETAIN | TC_CREATE_GRAPH))) free_history(&w);
  }
  walk_fini(&w);
  return tc_op_done(t);
}

tc_status tc_backward_at(tc_tensor y, tc_site site) {
  return backward(y, (tc_tensor){0, 0}, 0, site);
}

tc_status tc_backward_with_at(tc_tensor y, tc_tensor grad, int flags, tc_site site) {
  return backward(y, grad, flags, site);
}

tc_status tc_grads_of_at(tc_tensor y, const tc_tensor *xs, int n, tc_tensor *out, int flags, tc_site site) {
  tc_trace *t = tc_op_begin("grads_of", site);
  tc_node small[32], *x_grad = small;
  if (n < 0 || (n > 0 && (!xs || !out))) tc_rec_fail(t, TC_ERR_ARG, "%d tensors at a null pointer", n);
  if (t->op_status == TC_OK && n > 32 && !(x_grad = tc_malloc((size_t)n * sizeof *x_grad)))
    tc_rec_fail(t, TC_ERR_MEMORY, "no room for %d tensors", n);
  walk w = {.t = t, .create_graph = flags & TC_CREATE_GRAPH, .xs = xs, .x_grad = x_grad, .n_xs = n};
  tc_node node = t->op_status == TC_OK ? tc_op_in(t, y) : TC_NODE_ERR;
  for (int i = 0; i < n && t->op_status == TC_OK; i++) {
    tc_node x = tc_op_in(t, xs[i]);
    x_grad[i] = TC_NODE_ERR;
    if (x != TC_NODE_ERR && !(t->flag[x] & TC_NODE_TAPE)) tc_rec_fail(t, TC_ERR_GRAD, "tensor %d does not want a gradient", i);
  }
  if (t->op_status == TC_OK) run_walk(&w, node, TC_NODE_ERR);
  if (t->op_status == TC_OK && !(flags & (TC_RETAIN | TC_CREATE_GRAPH))) free_history(&w);
  for (int i = 0; i < n && out; i++) out[i] = tc_poison(t->op_status ? t->op_status : TC_ERR_GRAD);
  for (int i = 0; i < n && t->op_status == TC_OK; i++) {
    tc_trace *owner;
    tc_slot *s = tc_slot_find(xs[i], &owner);
    if (x_grad[i] == TC_NODE_ERR) {
      x_grad[i] = tc_rec_full(t, &tc_dims_at(s->shape)->d, (tc_type)s->dtype, 0);
    } else if (t->slot_of[x_grad[i]] != TC_SLOT_NONE) {  // already some handle's node
      const tc_rec *r = tc_rec_of(t, x_grad[i]);
      x_grad[i] = tc_trace_append(t, TC_OP_RESHAPE, (tc_type)r->dtype, r->shape, 1, &x_grad[i], 0, NULL, 0, NULL, (tc_device)t->dev[x_grad[i]]);
    }
    if (x_grad[i] != TC_NODE_ERR) out[i] = tc_trace_handle(t, x_grad[i], true);
  }
  if (x_grad != small) tc_free(x_grad);
  walk_fini(&w);
  return tc_op_done(t);
}

// ---- parameters and their gradients ----

static tc_slot *own_slot(tc_trace *t, tc_tensor h) {
  tc_trace *owner;
  tc_slot *s = tc_slot_find(h, &owner);
  if (s && owner != t && h.gen) return tc_rec_fail(t, TC_ERR_STATE, "the parameter belongs to another thread"), NULL;
  if (!s || s->gen != h.gen || h.gen == 0) return tc_rec_fail(t, TC_ERR_HANDLE, "the parameter was released, or is the null tensor"), NULL;
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
  tc_trace *owner;
  tc_slot *s = tc_slot_find(h, &owner);
  if (s && s->gen == h.gen) {
    s->flags |= TC_SLOT_GRAD;
    if (!tc_trace_want(t, a, h)) return tc_op_end(t, TC_NODE_ERR);
    t->flag[a] |= TC_NODE_KEEP;
  }
  (void)tc_op_done(t);
  return h;
}

tc_status tc_set_requires_grad_at(tc_tensor h, bool on, tc_site site) {
  tc_trace *t = tc_op_begin("set_requires_grad", site);
  tc_slot *s = t->op_status == TC_OK ? own_slot(t, h) : NULL;
  if (s && on && !tc_type_is_float((tc_type)s->dtype)) tc_rec_fail(t, TC_ERR_DTYPE, "%s has no gradients", tc_type_name((tc_type)s->dtype));
  if (s && t->op_status == TC_OK && on != ((s->flags & TC_SLOT_GRAD) != 0)) {
    bool history = s->epoch == t->epoch ? (t->flag[s->node] & TC_NODE_TAPE) && tc_rec_op(tc_rec_of(t, s->node)) != TC_OP_LEAF
                                        : s->run && (s->run->flag[s->home] & TC_NODE_TAPE);
    if (on && history) {
      tc_rec_fail(t, TC_ERR_GRAD, "the tensor has history; detach it first");
    } else if (on) {
      s->flags |= TC_SLOT_GRAD;
      if (s->epoch == t->epoch && tc_rec_op(tc_rec_of(t, s->node)) == TC_OP_LEAF) {  // its next use is a fresh leaf
        t->slot_of[s->node] = TC_SLOT_NONE;
        t->flag[s->node] &= (uint8_t)~TC_NODE_LIVE;
        s->epoch = 0;
      } else if (s->epoch == t->epoch) {
        if (!tc_trace_want(t, s->node, h)) return tc_op_done(t);
        t->flag[s->node] |= TC_NODE_KEEP;
      }
    } else {
      s->flags &= (uint8_t)~TC_SLOT_GRAD;
      if (s->epoch == t->epoch) t->flag[s->node] &= (uint8_t)~(TC_NODE_WANT | TC_NODE_TAPE);
    }
  }
  return tc_op_done(t);
}

bool tc_requires_grad(tc_tensor h) {
  tc_trace *owner;
  tc_slot *s = tc_slot_lock(h, NULL, 0, &owner);
  if (!s) return false;
  bool pending = s->epoch == owner->epoch, wants = s->flags & TC_SLOT_GRAD;
  bool tape = pending ? owner->flag[s->node] & TC_NODE_TAPE : s->run && (s->run->flag[s->home] & TC_NODE_TAPE);
  tc_slot_unlock(owner);
  return wants || tape;
}

tc_tensor tc_grad(tc_tensor h) {
  tc_trace *owner;
  tc_slot *s = tc_slot_lock(h, NULL, 0, &owner);
  tc_tensor grad = s ? s->grad : (tc_tensor){0, 0};
  if (s) tc_slot_unlock(owner);
  return grad;
}

tc_node tc_rec_grad(tc_trace *t, tc_tensor param) {
  tc_trace *owner;
  tc_slot *s = tc_slot_find(param, &owner);
  if (s && owner != t && param.gen) return (void)own_slot(t, param), TC_NODE_ERR;  // another thread's: refused
  if (!s || s->gen != param.gen || param.gen == 0 || !s->grad.gen) return TC_NODE_ERR;
  return tc_op_in(t, s->grad);
}

void tc_rec_clear_grad(tc_trace *t, tc_tensor param) {
  tc_slot *s = own_slot(t, param);
  if (!s || !s->grad.gen) return;
  tc_tensor grad = s->grad;
  s->grad = (tc_tensor){0, 0};
  tc_slot_release(t, grad);
}

tc_status tc_rec_set_grad(tc_trace *t, tc_tensor param, tc_node g) {
  if (g == TC_NODE_ERR || t->op_status != TC_OK) return t->op_status == TC_OK ? TC_ERR_STATE : t->op_status;
  tc_slot *s = own_slot(t, param);
  if (!s) return t->op_status;
  tc_rec_clear_grad(t, param);
  if (t->slot_of[g] != TC_SLOT_NONE) {
    const tc_rec *r = tc_rec_of(t, g);
    g = tc_trace_append(t, TC_OP_RESHAPE, (tc_type)r->dtype, r->shape, 1, &g, 0, NULL, 0, NULL, (tc_device)t->dev[g]);
    if (g == TC_NODE_ERR) return t->op_status;
  }
  tc_tensor h = tc_trace_handle(t, g, false);
  if (t->op_status != TC_OK) return t->op_status;
  s = own_slot(t, param);
  s->grad = h;
  t->flag[g] |= TC_NODE_KEEP;
  tc_trace *owner;
  tc_slot_find(h, &owner)->flags |= TC_SLOT_KEEP;
  return TC_OK;
}
