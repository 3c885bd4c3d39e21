// The state of one differentiation. See walk.h.
//
// Adjoints are in scratch arrays of the trace's, one array per segment: nodes of the pending trace,
// or, where that was run meanwhile, values held.
#include "lazy/autograd/walk.h"

#include <string.h>

#include "lazy/ops/cross_device.h"
#include "lazy/record/append.h"
#include "lazy/sync/sync.h"
#include "runtime/options.h"
#include "runtime/arena.h"
#include "runtime/passes.h"

// Returns a new segment with room for the adjoints, parameters and pasts of n nodes; NULL after
// reporting.
static tc_segment *segment_make(tc_walk *w, uint32_t n) {
  tc_segment *s = tc_arena_alloc(&w->t->walk, sizeof *s);
  uint32_t *notes = tc_arena_alloc(&w->t->walk, ((size_t)n + 1) * 3 * sizeof *notes);
  if (!s || !notes) return tc_rec_fail(w->t, TC_ERR_MEMORY, "no room to differentiate"), NULL;
  s->adjoint = notes, s->param = notes + n + 1, s->past = s->param + n + 1, s->n = n;
  memset(s->adjoint, 0xFF, n * sizeof s->adjoint[0]);
  return s;
}

tc_segment *tc_walk_add_segment(tc_walk *w, tc_segment **at, tc_run *run, uint32_t n) {
  tc_segment *s = segment_make(w, n);
  if (!s) return NULL;
  s->run = run ? tc_run_retain(run) : NULL;  // freeing one run's history may release another
  while (*at && (!run || !(*at)->run || (*at)->run->serial > run->serial)) at = &(*at)->next;
  s->next = *at;
  return *at = s;
}

// The segment of a run that the one of `from` leads to, and so of an older one.
static tc_segment *segment_of(tc_walk *w, tc_segment *from, tc_run *run) {
  tc_segment **at = from->run ? &from->next : &w->segments;
  while (*at && (!(*at)->run || (*at)->run->serial > run->serial)) at = &(*at)->next, tc_count(TC_PASS_WALK, 1);
  return *at && (*at)->run == run ? *at : tc_walk_add_segment(w, at, run, run->plan->n_node);
}

const tc_rec *tc_walk_rec(const tc_walk *w, const tc_segment *s, uint32_t n) {
  return s->run ? tc_plan_rec(s->run->plan, n) : tc_rec_of(w->t, n);
}

uint8_t tc_walk_flag(const tc_walk *w, const tc_segment *s, uint32_t n) {
  return s->run ? s->run->flag[n] : w->t->flag[n];
}

tc_device tc_walk_device(const tc_walk *w, const tc_segment *s, uint32_t n) {
  return (tc_device)(s->run ? s->run->plan->dev[n] : w->t->dev[n]);
}

// Looks at what was noted since.
static void look_at_notes(const tc_walk *w, tc_segment *s) {
  const tc_param_node *nodes = s->run ? s->run->param_node : w->t->param_node;
  const tc_past *past = s->run ? s->run->past : w->t->past;
  uint32_t n_param_node = s->run ? s->run->n_param_node : w->t->n_param_node,
           n_past = s->run ? s->run->n_past : w->t->n_past;
  for (uint32_t i = s->n_param_node; i < n_param_node; i++)
    if (nodes[i].node < s->n && !s->param[nodes[i].node]) s->param[nodes[i].node] = i + 1;
  for (uint32_t i = s->n_past; i < n_past; i++)
    if (past[i].node < s->n) s->past[past[i].node] = i + 1;
  tc_count(TC_PASS_WALK,
           TC_MAX_OF(n_param_node, s->n_param_node) - s->n_param_node + TC_MAX_OF(n_past, s->n_past) - s->n_past);
  s->n_param_node = n_param_node, s->n_past = n_past;
}

static tc_tensor param_of(const tc_walk *w, tc_segment *s, uint32_t n) {
  look_at_notes(w, s);
  uint32_t i = s->param[n];
  return i ? (s->run ? s->run->param_node : w->t->param_node)[i - 1].param : (tc_tensor){0, 0};
}

uint32_t tc_walk_hash(uint64_t a, uint64_t b, uint32_t size) {
  uint64_t h = (a + b * UINT64_C(0xD6E8FEB86659FD93)) * UINT64_C(0x9E3779B97F4A7C15);
  return (uint32_t)(h >> 32) & (size - 1);
}

tc_param_sum **tc_walk_param(const tc_walk *w, tc_tensor p) {
  uint32_t i = tc_walk_hash(p.slot, p.gen, w->n_param_at);
  for (; w->param_at[i] && (w->param_at[i]->param.slot != p.slot || w->param_at[i]->param.gen != p.gen);
       i = (i + 1) & (w->n_param_at - 1))
    tc_count(TC_PASS_WALK, 1);
  return &w->param_at[i];
}

static bool grow_params(tc_walk *w) {
  uint32_t size = TC_MAX_OF(2 * w->n_param_at, 64);
  tc_param_sum **more = tc_arena_alloc(&w->t->walk, size * sizeof *more);
  if (!more) return tc_rec_fail(w->t, TC_ERR_MEMORY, "no room to differentiate"), false;
  w->param_at = more, w->n_param_at = size;
  for (tc_param_sum *g = w->params; g; g = g->next) *tc_walk_param(w, g->param) = g;
  return true;
}

static tc_node *sum_of_param(tc_walk *w, tc_tensor p) {
  if (2 * (w->n_params + 1) > w->n_param_at && !grow_params(w)) return NULL;
  tc_param_sum **at = tc_walk_param(w, p), *g = *at;
  if (g) return &g->sum;
  if (!(g = tc_arena_alloc(&w->t->walk, sizeof *g)))
    return tc_rec_fail(w->t, TC_ERR_MEMORY, "no room to differentiate"), NULL;
  *g = (tc_param_sum){.param = p, .sum = TC_NODE_ERR};
  *(w->last_param ? w->last_param : &w->params) = g;
  w->last_param = &g->next, w->n_params++;
  *at = g;
  return &g->sum;
}

// The record of an older run that node n stands for; NULL if it was made here.
static const tc_past *past_of(const tc_walk *w, tc_segment *s, uint32_t n) {
  look_at_notes(w, s);
  uint32_t i = s->past[n];
  return i && i <= s->n_past ? &(s->run ? s->run->past : w->t->past)[i - 1] : NULL;
}

bool tc_walk_find_record(tc_walk *w, tc_segment **s, uint32_t *n) {
  while (*s) {
    uint8_t flags = tc_walk_flag(w, *s, *n);
    if (flags & TC_NODE_REQUIRES_GRAD) return false;
    const tc_past *past = (flags & TC_NODE_NO_HISTORY) ? NULL : past_of(w, *s, *n);
    if (!past) break;
    *n = past->run_node;
    *s = segment_of(w, *s, past->run);
  }
  return true;
}

tc_node *tc_walk_adjoint(tc_walk *w, tc_segment *s, uint32_t n) {
  if (!tc_walk_find_record(w, &s, &n)) return sum_of_param(w, param_of(w, s, n));
  return s ? &s->adjoint[n] : NULL;
}

// ---- adjoints that outlive a sync ----

static bool is_node(tc_node a) {
  return a < TC_WALK_HELD;
}

bool tc_walk_is_held(tc_node a) {
  return a != TC_NODE_ERR && !is_node(a);
}

tc_slot *tc_walk_held_slot(tc_node a, tc_tensor *out) {
  *out = (tc_tensor){a & ~TC_WALK_HELD, 0};
  tc_slot *s = tc_slot_of(out->slot);
  out->gen = s->gen;
  return s;
}

tc_node tc_walk_held(tc_walk *w, tc_tensor h) {
  w->n_held++;
  return TC_WALK_HELD | h.slot;
}

void tc_walk_drop(tc_walk *w, tc_node *a) {
  tc_tensor h;
  if (tc_walk_is_held(*a)) {
    tc_slot *s = tc_walk_held_slot(*a, &h);
    tc_slot_release(w->t, s, h);
    w->n_held--;
  }
  *a = TC_NODE_ERR;
}

tc_node tc_walk_use_again(tc_walk *w, tc_node a) {
  tc_tensor h;
  if (!tc_walk_is_held(a)) return a;
  tc_walk_held_slot(a, &h)->refs++;
  return tc_walk_held(w, h);
}

tc_node tc_walk_take(tc_walk *w, tc_node *a) {
  tc_tensor h;
  if (!tc_walk_is_held(*a)) return *a;
  tc_slot *s = tc_walk_held_slot(*a, &h);
  tc_node n = tc_trace_node(w->t, s, h);
  tc_walk_drop(w, a);
  return *a = n;
}

// Calls f for each adjoint that is still to be used. Of the pending trace's own there is none left
// whenever this is asked: a walk begins with them.
static void each(tc_walk *w, void (*f)(tc_walk *, tc_node *)) {
  for (tc_segment *s = w->segments; s; s = s->next)
    for (uint32_t i = 0; s->run && i < s->n; i++)
      if (s->adjoint[i] != TC_NODE_ERR) f(w, &s->adjoint[i]);
  for (tc_element *e = w->elements; e; e = e->next)
    if (e->adjoint != TC_NODE_ERR) f(w, &e->adjoint);
  for (tc_param_sum *p = w->params; p; p = p->next) f(w, &p->sum);
  for (int i = 0; i < w->n_xs; i++) f(w, &w->x_grad[i]);
}

static void count(tc_walk *w, tc_node *a) {
  w->n_asked += is_node(*a);
}

// The sync that follows stores the adjoint, and the walk holds it. It is a copy if the memory is
// the caller's, or if its slot is a parameter's, for which it would be taken.
static void hold(tc_walk *w, tc_node *a) {
  tc_trace *t = w->t;
  tc_tensor h;
  if (!is_node(*a) || t->op_status != TC_OK) return;
  tc_slot *s = t->slot_of[*a] == TC_SLOT_NONE ? NULL : tc_slot_of(t->slot_of[*a]);
  bool users = tc_rec_op(tc_rec_of(t, *a)) == TC_OP_LEAF && tc_trace_leaf_of(t, *a)->origin == TC_ORIGIN_USER;
  bool param = t->flag[*a] & TC_NODE_REQUIRES_GRAD;
  if (users || param || (s && (s->flags & (TC_SLOT_GRAD | TC_SLOT_HAS_DEFERRED)))) {
    *a = tc_trace_copy(t, *a);
    s = NULL;
  }
  if (s) {
    h = (tc_tensor){t->slot_of[*a], s->gen};
    s->refs++;
  } else if (*a == TC_NODE_ERR || (h = tc_trace_handle(t, *a, false)).slot >= TC_POISON) {
    return;
  }
  if (tc_rec_op(tc_rec_of(t, *a)) != TC_OP_LEAF) {
    w->asked[w->n_asked++] = *a;
  } else if (!s) {  // no sync gives a leaf's slot its history
    const tc_past *past = past_of(w, w->now, *a);
    s = tc_slot_of(h.slot);
    if (past) s->run_node = past->run_node, tc_slot_set_value(s, s->buf, past->run, false);
  }
  *a = tc_walk_held(w, h);
}

void tc_walk_free_pending(tc_walk *w, const tc_segment *s) {
  w->t->freed_by = w->t->op_site;
  for (uint32_t n = 0; n < s->n; n++)
    if (s->adjoint[n] != TC_NODE_ERR && (w->t->flag[n] & TC_NODE_TAPE) && !(w->t->flag[n] & TC_NODE_REQUIRES_GRAD))
      w->t->flag[n] = (uint8_t)((w->t->flag[n] & ~TC_NODE_TAPE) | TC_NODE_FREED);
}

void tc_walk_find_asked(tc_walk *w) {
  if (w->n_xs == 0) return;
  memset(w->x_at, 0, w->n_x_at * sizeof *w->x_at);
  for (int i = 2 * w->n_xs; i-- > 0;) {
    tc_trace *owner;
    const tc_slot *s = tc_slot_find(w->xs[i / 2], &owner);
    bool of_run = i % 2, here = owner == w->t && (of_run ? s->run != NULL : s->epoch == w->t->epoch);
    if (!here) continue;
    int *at = &w->x_at[tc_walk_hash(of_run ? (uintptr_t)s->run : 0, of_run ? s->run_node : s->node, w->n_x_at)];
    w->x_next[i] = *at, *at = i + 1;
  }
  tc_count(TC_PASS_WALK, (uint64_t)w->n_xs);
}

bool tc_walk_settle(tc_walk *w) {
  tc_trace *t = w->t;
  if (w->segments && !w->segments->run) {
    if (!w->retain) tc_walk_free_pending(w, w->segments);
    w->segments = w->segments->next;
  }
  w->n_asked = 0;
  each(w, count);
  w->asked = tc_arena_alloc(&t->walk, ((size_t)w->n_asked + 1) * sizeof w->asked[0]);
  if (!w->asked) return tc_rec_fail(t, TC_ERR_MEMORY, "no room to differentiate"), false;
  w->n_asked = 0;
  if (!(w->now = segment_make(w, t->n_node))) return false;
  each(w, hold);
  if (t->op_status == TC_OK && tc_options_get()->fullgraph && t->n_node > t->n_leaf)
    t->op_status = tc_trace_may_read(t, w->n_asked ? w->asked[0] : t->n_node - 1, t->op_site);
  if (t->op_status == TC_OK) t->op_status = tc_trace_sync(t, TC_CAUSE_BACKWARD, t->op_site, w->n_asked, w->asked);
  tc_walk_find_asked(w);
  return t->op_status == TC_OK;
}

bool tc_walk_is_pending_in(const tc_trace *t, tc_device d) {
  return t->n_node == 0 || tc_device_memory((tc_device)t->dev[0]) == tc_device_memory(d);
}

bool tc_walk_enter(tc_walk *w, tc_device d) {
  tc_trace *t = w->t;
  t->op_device = d;
  if (t->op_status != TC_OK) return false;
  return tc_walk_is_pending_in(t, d) || tc_walk_settle(w);
}

void tc_walk_add_to(tc_walk *w, tc_node *at, tc_node g, tc_device d) {
  if (*at == TC_NODE_ERR) {
    *at = g;
  } else if (tc_walk_enter(w, d)) {
    tc_node sum = tc_walk_take(w, at);
    *at = tc_rec_binary(w->t, TC_OP_ADD, sum, tc_walk_take(w, &g));
  } else {
    tc_walk_drop(w, &g);
  }
}

void tc_walk_fini(tc_walk *w) {
  if (w->n_held) each(w, tc_walk_drop);
  for (tc_segment *s = w->segments; s; s = s->next) tc_run_release(s->run);
  tc_arena_reset(&w->t->walk);
}

// ---- what rules see ----

static tc_node value_of(tc_walk *w, uint32_t n) {
  return w->at->run ? tc_run_replay(w->t, w->at->run, n) : n;
}

// Rules of arithmetic compute in f32 where values are f16 or bf16, and tc_vjp_give rounds once.
// Rules that move, index or multiply matrices, and those that read no value, do not. Widening what
// they pass on changes no bit, or doubles what kernels read.
static bool computes_wide(tc_op op) {
  tc_op_kind kind = tc_op_kind_of(op);
  return tc_op_rows[op].saves &&
         (kind == TC_KIND_ELEM || kind == TC_KIND_FOLD || kind == TC_KIND_SCAN || kind == TC_KIND_COMPOSED);
}

tc_node tc_walk_widened(const tc_vjp *v, tc_node n) {
  return n != TC_NODE_ERR && computes_wide(v->op) && tc_type_is_half(tc_node_type(v->t, n))
             ? tc_rec_cast(v->t, n, TC_F32)
             : n;
}

tc_node tc_vjp_in(tc_vjp *v, int k) {
  tc_walk *w = v->walk;
  return tc_walk_widened(v, value_of(w, tc_rec_in(tc_walk_rec(w, w->at, w->node))[k]));
}

tc_node tc_vjp_out(tc_vjp *v) {
  tc_walk *w = v->walk;
  return tc_walk_widened(v, value_of(w, w->node));
}

static const tc_rec *operand(const tc_vjp *v, int k) {
  const tc_walk *w = v->walk;
  return tc_walk_rec(w, w->at, tc_rec_in(tc_walk_rec(w, w->at, w->node))[k]);
}

const tc_dims *tc_vjp_in_dims(const tc_vjp *v, int k) {
  return &tc_dims_at(operand(v, k)->shape)->d;
}

tc_type tc_vjp_in_type(const tc_vjp *v, int k) {
  return (tc_type)operand(v, k)->dtype;
}

const tc_dims *tc_vjp_out_dims(const tc_vjp *v) {
  const tc_walk *w = v->walk;
  return &tc_dims_at(tc_walk_rec(w, w->at, w->node)->shape)->d;
}

bool tc_vjp_requires_grad(const tc_vjp *v, int k) {
  const tc_walk *w = v->walk;
  return tc_walk_flag(w, w->at, tc_rec_in(tc_walk_rec(w, w->at, w->node))[k]) & (TC_NODE_TAPE | TC_NODE_NO_HISTORY);
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
  tc_walk *w = v->walk;
  if (g == TC_NODE_ERR || !tc_vjp_requires_grad(v, k)) return;
  uint32_t n = tc_rec_in(tc_walk_rec(w, w->at, w->node))[k];
  tc_device d = tc_walk_device(w, w->at, n);
  g = tc_rec_cast(w->t, unbroadcast(w->t, g, tc_vjp_in_dims(v, k)), tc_vjp_in_type(v, k));
  if (g != TC_NODE_ERR && (tc_device)w->t->dev[g] != d) g = tc_trace_to(w->t, g, d);
  tc_node *at = g == TC_NODE_ERR ? NULL : tc_walk_adjoint(w, w->at, n);
  if (at) tc_walk_add_to(w, at, g, d);
}
