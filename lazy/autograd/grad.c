// Differentiation of the recorded trace: the walk. Rules are in vjp*.c.
//
// The tape is the records with the tape bit, in the pending trace and in older runs, reached through the origin of a leaf. A walk goes down from y by
// falling numbers, first in the trace, then in the runs it crosses into, latest first. Each record reached calls its rule, which appends ordinary
// records. Adjoints are in scratch arrays of the trace's, one array per segment: nodes of the pending trace, or, where that was run meanwhile, values held.
// Where a value was carried to another memory its gradient is carried back (cross): what is pending runs first, and everything still to be used is stored
// by that sync and held. So each side's part of a backward is recorded whole, and runs once.
// A backward frees the history it walked unless told to retain: tape bits are cleared, runs drop what only differentiation needed.
#include <string.h>

#include "lazy/trace/plan.h"
#include "lazy/autograd/vjp.h"
#include "runtime/arena.h"
#include "runtime/options.h"
#include "runtime/passes.h"

typedef void vjp_fn(tc_vjp *v);
static vjp_fn *const rules[TC_N_OP_ROWS] = {
#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, lower, reference, sample) [TC_OP_##NAME] = tc_vjp_##vjp,
#include <tc/ops.def>
#undef TC_OP
};

typedef struct segment {
  tc_run *run;  // NULL: the pending trace
  tc_node *adjoint;  // per node
  uint32_t n;
  uint32_t *want, *past;  // per node: one more than the number of what the run or trace notes of it, 0: nothing
  uint32_t n_want, n_past;  // of these notes, how many were looked at
  struct segment *next;
} segment;

// What a parameter gathers over the whole walk: one sum in the order of the records, however the syncs cut them into runs.
typedef struct gathered {
  tc_tensor param;
  tc_node sum;
  bool whole;  // with the gradient that the parameter had
  struct gathered *next;
} gathered;

// An adjoint is TC_NODE_ERR (none), a node of the pending trace, or with this bit the number of a slot, of which the walk has a reference: a stored value.
#define HELD (UINT32_C(1) << 31)

typedef struct walk {
  tc_trace *t;
  segment *segments;  // the trace's first until it runs, then runs, latest first
  gathered *params, **last_param;
  gathered **param_at;  // the same, by the hash of their slots
  uint32_t n_params, n_param_at;
  segment *at;  // of the record being differentiated
  uint32_t node;
  bool create_graph, retain;
  uint32_t n_held;
  segment *now;  // of the pending trace, while it is to be run
  tc_node *asked;  // of the sync being prepared
  int n_asked;
  // where gradients go: into xs (grads_of), or to parameters
  const tc_tensor *xs;
  tc_node *x_grad;
  int n_xs;
  int *x_at,
      *x_next;  // at each hash of run and node: the first of xs there; behind each: the next. Twice its number, and 1, or 2 by its run; 0: none
  uint32_t n_x_at;
} walk;

// A segment of the list that at is in; NULL after reporting.
static segment *segment_make(walk *w, uint32_t n) {
  segment *s = tc_arena_alloc(&w->t->walk, sizeof *s);
  uint32_t *notes = tc_arena_alloc(&w->t->walk, ((size_t)n + 1) * 3 * sizeof *notes);
  if (!s || !notes) return tc_rec_fail(w->t, TC_ERR_MEMORY, "no room to differentiate"), NULL;
  s->adjoint = notes, s->want = notes + n + 1, s->past = s->want + n + 1, s->n = n;
  memset(s->adjoint, 0xFF, n * sizeof s->adjoint[0]);
  return s;
}

// Adds a segment behind those of later runs, of which `at` is in the list.
static segment *segment_add(walk *w, segment **at, tc_run *run, uint32_t n) {
  segment *s = segment_make(w, n);
  if (!s) return NULL;
  s->run = run ? tc_run_retain(run) : NULL;  // freeing one run's history may release another
  while (*at && (!run || !(*at)->run || (*at)->run->serial > run->serial)) at = &(*at)->next;
  s->next = *at;
  return *at = s;
}

// The segment of a run that the one of `from` leads to, and so of an older one.
static segment *segment_of(walk *w, segment *from, tc_run *run) {
  segment **at = from->run ? &from->next : &w->segments;
  while (*at && (!(*at)->run || (*at)->run->serial > run->serial)) at = &(*at)->next, tc_count(TC_PASS_WALK, 1);
  return *at && (*at)->run == run ? *at : segment_add(w, at, run, run->plan->n_node);
}

static const tc_rec *rec_at(const walk *w, const segment *s, uint32_t n) {
  return s->run ? tc_plan_rec(s->run->plan, n) : tc_rec_of(w->t, n);
}

static uint8_t flag_at(const walk *w, const segment *s, uint32_t n) {
  return s->run ? s->run->flag[n] : w->t->flag[n];
}

static tc_device dev_at(const walk *w, const segment *s, uint32_t n) {
  return (tc_device)(s->run ? s->run->plan->dev[n] : w->t->dev[n]);
}

// Looks at what was noted since.
static void look_at_notes(const walk *w, segment *s) {
  const tc_want *want = s->run ? s->run->want : w->t->want;
  const tc_past *past = s->run ? s->run->past : w->t->past;
  uint32_t n_want = s->run ? s->run->n_want : w->t->n_want, n_past = s->run ? s->run->n_past : w->t->n_past;
  for (uint32_t i = s->n_want; i < n_want; i++)
    if (want[i].node < s->n && !s->want[want[i].node]) s->want[want[i].node] = i + 1;
  for (uint32_t i = s->n_past; i < n_past; i++)
    if (past[i].node < s->n) s->past[past[i].node] = i + 1;
  tc_count(TC_PASS_WALK, TC_MAX_OF(n_want, s->n_want) - s->n_want + TC_MAX_OF(n_past, s->n_past) - s->n_past);
  s->n_want = n_want, s->n_past = n_past;
}

static tc_tensor param_of(const walk *w, segment *s, uint32_t n) {
  look_at_notes(w, s);
  uint32_t i = s->want[n];
  return i ? (s->run ? s->run->want : w->t->want)[i - 1].param : (tc_tensor){0, 0};
}

static uint32_t hash_of(uint64_t a, uint64_t b, uint32_t size) {
  uint64_t h = (a + b * UINT64_C(0xD6E8FEB86659FD93)) * UINT64_C(0x9E3779B97F4A7C15);
  return (uint32_t)(h >> 32) & (size - 1);
}

static gathered **find_param(const walk *w, tc_tensor p) {
  uint32_t i = hash_of(p.slot, p.gen, w->n_param_at);
  for (; w->param_at[i] && (w->param_at[i]->param.slot != p.slot || w->param_at[i]->param.gen != p.gen); i = (i + 1) & (w->n_param_at - 1))
    tc_count(TC_PASS_WALK, 1);
  return &w->param_at[i];
}

static bool grow_params(walk *w) {
  uint32_t size = TC_MAX_OF(2 * w->n_param_at, 64);
  gathered **more = tc_arena_alloc(&w->t->walk, size * sizeof *more);
  if (!more) return tc_rec_fail(w->t, TC_ERR_MEMORY, "no room to differentiate"), false;
  w->param_at = more, w->n_param_at = size;
  for (gathered *g = w->params; g; g = g->next) *find_param(w, g->param) = g;
  return true;
}

static tc_node *sum_of_param(walk *w, tc_tensor p) {
  if (2 * (w->n_params + 1) > w->n_param_at && !grow_params(w)) return NULL;
  gathered **at = find_param(w, p), *g = *at;
  if (g) return &g->sum;
  if (!(g = tc_arena_alloc(&w->t->walk, sizeof *g))) return tc_rec_fail(w->t, TC_ERR_MEMORY, "no room to differentiate"), NULL;
  *g = (gathered){.param = p, .sum = TC_NODE_ERR};
  *(w->last_param ? w->last_param : &w->params) = g;
  w->last_param = &g->next, w->n_params++;
  *at = g;
  return &g->sum;
}

// The record of an older run that node n stands for; NULL if it was made here.
static const tc_past *past_of(const walk *w, segment *s, uint32_t n) {
  look_at_notes(w, s);
  uint32_t i = s->past[n];
  return i && i <= s->n_past ? &(s->run ? s->run->past : w->t->past)[i - 1] : NULL;
}

// Where gradients of node n are summed: at the record that made the value, in whichever run that is, or at the parameter.
static tc_node *adjoint_of(walk *w, segment *s, uint32_t n) {
  while (s) {
    uint8_t flags = flag_at(w, s, n);
    if (flags & TC_NODE_WANT) return sum_of_param(w, param_of(w, s, n));
    const tc_past *past = (flags & TC_NODE_NO_HISTORY) ? NULL : past_of(w, s, n);
    if (!past) break;
    n = past->home;
    s = segment_of(w, s, past->run);
  }
  return s ? &s->adjoint[n] : NULL;
}

// ---- adjoints that outlive a sync ----

static bool is_node(tc_node a) {
  return a < HELD;
}

static bool is_held(tc_node a) {
  return a != TC_NODE_ERR && !is_node(a);
}

static tc_slot *held_slot(tc_node a, tc_tensor *out) {
  tc_trace *owner;
  *out = (tc_tensor){a & ~HELD, 0};
  tc_slot *s = tc_slot_find(*out, &owner);
  out->gen = s->gen;
  return s;
}

static tc_node held(walk *w, tc_tensor h) {
  w->n_held++;
  return HELD | h.slot;
}

static void drop(walk *w, tc_node *a) {
  tc_tensor h;
  if (is_held(*a)) (void)held_slot(*a, &h), tc_slot_release(w->t, h), w->n_held--;
  *a = TC_NODE_ERR;
}

// Another use of the same adjoint.
static tc_node again(walk *w, tc_node a) {
  tc_tensor h;
  if (!is_held(a)) return a;
  held_slot(a, &h)->refs++;
  return held(w, h);
}

// As a node of the trace, which is in its memory; no longer held.
static tc_node take(walk *w, tc_node *a) {
  tc_tensor h;
  if (!is_held(*a)) return *a;
  tc_node n = tc_trace_node(w->t, held_slot(*a, &h), h);
  drop(w, a);
  return *a = n;
}

// Calls f for each adjoint that is still to be used. Of the pending trace's own there is none left whenever this is asked: a walk begins with them.
static void each(walk *w, void (*f)(walk *, tc_node *)) {
  for (segment *s = w->segments; s; s = s->next)
    for (uint32_t i = 0; s->run && i < s->n; i++)
      if (s->adjoint[i] != TC_NODE_ERR) f(w, &s->adjoint[i]);
  for (gathered *p = w->params; p; p = p->next) f(w, &p->sum);
  for (int i = 0; i < w->n_xs; i++) f(w, &w->x_grad[i]);
}

static void count(walk *w, tc_node *a) {
  w->n_asked += is_node(*a);
}

// The sync that follows stores it, and the walk holds it: a copy where a parameter's handle would be taken for the parameter, or the memory is the caller's.
static void hold(walk *w, tc_node *a) {
  tc_trace *t = w->t, *owner;
  tc_tensor h;
  if (!is_node(*a) || t->op_status != TC_OK) return;
  tc_slot *s = t->slot_of[*a] == TC_SLOT_NONE ? NULL : tc_slot_find((tc_tensor){t->slot_of[*a], 0}, &owner);
  bool users = tc_rec_op(tc_rec_of(t, *a)) == TC_OP_LEAF && tc_trace_leaf_of(t, *a)->origin == TC_ORIGIN_USER;
  if (users || (s && (s->flags & (TC_SLOT_GRAD | TC_SLOT_OWES)))) {
    const tc_rec *r = tc_rec_of(t, *a);
    *a = tc_trace_append_plain(t, TC_OP_RESHAPE, (tc_type)r->dtype, r->shape, false, *a, 0);
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
    s = tc_slot_find(h, &owner);
    if (past) s->home = past->home, tc_slot_set_run(s, past->run);
  }
  *a = held(w, h);
}

static void free_pending(walk *w, const segment *s) {
  w->t->freed_by = w->t->op_site;
  for (uint32_t n = 0; n < s->n; n++)
    if (s->adjoint[n] != TC_NODE_ERR && (w->t->flag[n] & TC_NODE_TAPE) && !(w->t->flag[n] & TC_NODE_WANT))
      w->t->flag[n] = (uint8_t)((w->t->flag[n] & ~TC_NODE_TAPE) | TC_NODE_FREED);
}

// Where gradients are asked for: node of the pending trace, and run and node, of each of xs. Those of another thread are found as parameters.
static void find_asked(walk *w) {
  if (w->n_xs == 0) return;
  memset(w->x_at, 0, w->n_x_at * sizeof *w->x_at);
  for (int i = 2 * w->n_xs; i-- > 0;) {
    tc_trace *owner;
    const tc_slot *s = tc_slot_find(w->xs[i / 2], &owner);
    bool of_run = i % 2, here = owner == w->t && (of_run ? s->run != NULL : s->epoch == w->t->epoch);
    if (!here) continue;
    int *at = &w->x_at[hash_of(of_run ? (uintptr_t)s->run : 0, of_run ? s->home : s->node, w->n_x_at)];
    w->x_next[i] = *at, *at = i + 1;
  }
  tc_count(TC_PASS_WALK, (uint64_t)w->n_xs);
}

// Runs what is pending; adjoints are held from then on. The trace's own records were walked before: the history of those that were reached is freed here, so
// that the sync need not store for it.
static bool settle(walk *w) {
  tc_trace *t = w->t;
  if (w->segments && !w->segments->run) {
    if (!w->retain) free_pending(w, w->segments);
    w->segments = w->segments->next;
  }
  w->n_asked = 0;
  each(w, count);
  w->asked = tc_arena_alloc(&t->walk, ((size_t)w->n_asked + 1) * sizeof w->asked[0]);
  if (!w->asked) return tc_rec_fail(t, TC_ERR_MEMORY, "no room to differentiate"), false;
  w->n_asked = 0;
  if (!(w->now = segment_make(w, t->n_node))) return false;
  each(w, hold);
  if (t->op_status == TC_OK) t->op_status = tc_trace_sync(t, TC_CAUSE_BACKWARD, t->op_site, w->n_asked, w->asked);
  find_asked(w);
  return t->op_status == TC_OK;
}

static bool is_pending_in(const tc_trace *t, tc_device d) {
  return t->n_node == 0 || tc_device_memory((tc_device)t->dev[0]) == tc_device_memory(d);
}

// Before something is recorded on a device.
static bool enter(walk *w, tc_device d) {
  tc_trace *t = w->t;
  t->op_device = d;
  if (t->op_status != TC_OK) return false;
  return is_pending_in(t, d) || settle(w);
}

// Adds g, which is used up, to what is at a place, both on device d. If g is a node, what is pending is there.
static void add_to(walk *w, tc_node *at, tc_node g, tc_device d) {
  if (*at == TC_NODE_ERR) {
    *at = g;
  } else if (enter(w, d)) {
    tc_node sum = take(w, at);
    *at = tc_rec_binary(w->t, TC_OP_ADD, sum, take(w, &g));
  } else {
    drop(w, &g);
  }
}

static void walk_fini(walk *w) {
  if (w->n_held) each(w, drop);
  for (segment *s = w->segments; s; s = s->next) tc_run_release(s->run);
  tc_arena_reset(&w->t->walk);
}

// ---- what rules see ----

static tc_node value_of(walk *w, uint32_t n) {
  return w->at->run ? tc_run_replay(w->t, w->at->run, n) : n;
}

// Rules of arithmetic compute in f32 where values are f16 or bf16, and tc_vjp_give rounds once. Rules that move, index or multiply matrices, and those that
// read no value, do not: widening what they pass on would change no bit, or double what kernels of their own read.
static bool computes_wide(tc_op op) {
  tc_op_kind kind = tc_op_kind_of(op);
  return tc_op_rows[op].saves && (kind == TC_KIND_ELEM || kind == TC_KIND_FOLD || kind == TC_KIND_SCAN || kind == TC_KIND_COMPOSED);
}

static tc_node widened(const tc_vjp *v, tc_node n) {
  return n != TC_NODE_ERR && computes_wide(v->op) && tc_type_is_half(tc_node_type(v->t, n)) ? tc_rec_cast(v->t, n, TC_F32) : n;
}

tc_node tc_vjp_in(tc_vjp *v, int k) {
  walk *w = v->walk;
  return widened(v, value_of(w, tc_rec_in(rec_at(w, w->at, w->node))[k]));
}

tc_node tc_vjp_out(tc_vjp *v) {
  walk *w = v->walk;
  return widened(v, value_of(w, w->node));
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
  return flag_at(w, w->at, tc_rec_in(rec_at(w, w->at, w->node))[k]) & (TC_NODE_TAPE | TC_NODE_NO_HISTORY);
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
  uint32_t n = tc_rec_in(rec_at(w, w->at, w->node))[k];
  tc_device d = dev_at(w, w->at, n);
  g = tc_rec_cast(w->t, unbroadcast(w->t, g, tc_vjp_in_dims(v, k)), tc_vjp_in_type(v, k));
  if (g != TC_NODE_ERR && (tc_device)w->t->dev[g] != d) g = tc_trace_to(w->t, g, d);
  tc_node *at = g == TC_NODE_ERR ? NULL : adjoint_of(w, w->at, n);
  if (at) add_to(w, at, g, d);
}

// ---- the walk ----

// Adds the gradient that a parameter has to its sum. Not yet, unless told to, if that is in another memory than what is pending.
static void add_former(walk *w, gathered *p, bool anyway) {
  tc_trace *owner;
  const tc_slot *s = tc_slot_find(p->param, &owner);
  tc_device d = (tc_device)s->device;
  bool gone = owner == w->t && s->gen != p->param.gen;
  if (!gone && s->grad.gen && !anyway && !is_pending_in(w->t, d)) return;
  p->whole = true;
  if (gone || !s->grad.gen || !enter(w, d)) return;
  tc_node have = tc_rec_grad(w->t, p->param), sum = take(w, &p->sum);
  p->sum = tc_rec_binary(w->t, TC_OP_ADD, have, sum);
}

static void give_param(walk *w, gathered *p) {
  tc_trace *owner;
  tc_tensor h;
  if (tc_slot_find(p->param, &owner)->gen != p->param.gen && owner == w->t) return;  // released since
  if (is_held(p->sum))
    (void)tc_trace_set_grad(w->t, p->param, held_slot(p->sum, &h));
  else
    (void)tc_rec_set_grad(w->t, p->param, p->sum);
}

// To the parameters, or to those of xs that are some. Sums are made whole first, in what is pending and then memory by memory: what fails by then has changed
// no gradient.
static void give_params(walk *w) {
  for (int i = 0; i < w->n_xs && w->n_params; i++) {
    tc_trace *owner;
    gathered *p = *find_param(w, w->xs[i]);
    if (p) add_to(w, &w->x_grad[i], again(w, p->sum), (tc_device)tc_slot_find(p->param, &owner)->device);
  }
  if (w->xs) return;
  for (gathered *p = w->params; p && w->t->op_status == TC_OK; p = p->next) add_former(w, p, false);
  for (gathered *p = w->params; p && w->t->op_status == TC_OK; p = p->next) {
    if (p->whole) continue;
    for (gathered *q = p; q && w->t->op_status == TC_OK; q = q->next)
      if (!q->whole) add_former(w, q, q == p);
  }
  for (gathered *p = w->params; p && w->t->op_status == TC_OK; p = p->next) give_param(w, p);
}

// Adds to the gradients of those xs that stand for node n.
static void give_asked(walk *w, const segment *s, uint32_t n, tc_node g) {
  for (int i = w->x_at[hash_of((uintptr_t)s->run, n, w->n_x_at)], next; i; i = next) {
    tc_trace *owner;
    int x = (i - 1) / 2;
    const tc_slot *slot = tc_slot_find(w->xs[x], &owner);
    bool by_run = (i - 1) % 2,
         here = s->run ? by_run && slot->run == s->run && slot->home == n : !by_run && slot->epoch == w->t->epoch && slot->node == n;
    tc_count(TC_PASS_WALK, 1);
    next = w->x_next[i - 1];
    if (here) add_to(w, &w->x_grad[x], again(w, g), dev_at(w, s, n));
  }
}

// The gradient of a value that was carried to another memory, node n, goes back to where that was.
static void cross(walk *w, segment *s, uint32_t n) {
  tc_tensor h;
  tc_node *from = &s->adjoint[n];
  uint32_t to = tc_rec_in(rec_at(w, s, n))[0];
  if (!is_held(*from) && !settle(w)) return;
  tc_tensor there = tc_trace_carry(w->t, held_slot(*from, &h), (tc_tensor){0, 0}, dev_at(w, s, to), false);
  drop(w, from);
  if (w->t->op_status != TC_OK) return;
  tc_node g = held(w, there), *at = adjoint_of(w, s, to);
  if (at)
    add_to(w, at, g, dev_at(w, s, to));
  else
    drop(w, &g);
}

static bool is_carried(const walk *w, const segment *s, uint32_t n) {
  const tc_rec *r = rec_at(w, s, n);
  return s->run && tc_rec_op(r) == TC_OP_TO && tc_device_memory(dev_at(w, s, n)) != tc_device_memory(dev_at(w, s, tc_rec_in(r)[0]));
}

// TC_ANOMALY=1: what the walk recorded from node `first` on is a part of the gradient of this call. What is recorded again for it is the user's as it was.
static void tell_origin(tc_trace *t, uint32_t first, tc_call call) {
  if (t->cap_of < t->n_node) {
    tc_call *of = tc_realloc(t->of, t->cap_node * sizeof *of);
    if (!of) return;
    t->of = of, t->cap_of = t->cap_node;
  }
  for (uint32_t n = t->n_of; n < t->n_node; n++) {
    bool by_walk = n >= first && t->call[n].op == t->op && t->call[n].site == t->op_site;
    t->of[n] = by_walk ? call : (tc_call){NULL, 0};
  }
  t->n_of = t->n_node;
}

// Whose gradient it is that the record of node n gives.
static tc_call origin_of(const walk *w, const segment *s, uint32_t n) {
  if (s->run) return s->run->call[n];
  return n < w->t->n_of && w->t->of[n].op ? w->t->of[n] : w->t->call[n];
}

// The walk has come to node n, whose history a former backward has freed. A leaf is named by what reads it.
static void fail_freed(const walk *w, const segment *s, uint32_t n) {
  char first[160];
  tc_site_text(s->run ? s->run->freed_by : w->t->freed_by, first, sizeof first);
  const char *op = s->run ? s->run->call[n].op : w->t->call[n].op, *read = tc_rec_op(rec_at(w, s, n)) == TC_OP_LEAF ? "n operand of" : "";
  tc_rec_fail(w->t, TC_ERR_GRAD, "the history of a%s %s was freed by the backward at %s; pass TC_RETAIN to that one, or detach the value", read, op,
              first);
}

static void visit(walk *w, segment *s, uint32_t n) {
  tc_node g = s->adjoint[n];
  uint8_t flags = flag_at(w, s, n);
  tc_count(TC_PASS_WALK, 1);
  if (g == TC_NODE_ERR || w->t->op_status != TC_OK) return;
  const tc_rec *r = rec_at(w, s, n);
  tc_op op = tc_rec_op(r);
  if (w->n_xs) give_asked(w, s, n, g);
  if (flags & TC_NODE_NO_HISTORY) {
    fail_freed(w, s, n);
    return;
  }
  if (!(flags & TC_NODE_TAPE) || op == TC_OP_LEAF) return;
  if (is_carried(w, s, n)) {
    cross(w, s, n);
    return;
  }
  if (!enter(w, dev_at(w, s, n))) return;
  g = take(w, &s->adjoint[n]);
  if (s->run) s->adjoint[n] = TC_NODE_ERR;  // the trace's own are looked at again when its history is freed
  w->at = s, w->node = n;
  uint64_t attr[64], arg[64];  // copies: recording may move the trace
  int n_in = tc_rec_arity(r), n_attr = tc_rec_attrs(r);
  memcpy(attr, tc_rec_attr(r), (size_t)TC_MIN(n_attr, 64) * sizeof attr[0]);
  const uint64_t *args = s->run ? s->run->arg + s->run->plan->arg_at[n] : w->t->arg + w->t->arg_at[n];
  if (tc_rec_args(r)) memcpy(arg, args, tc_rec_args(r) * sizeof arg[0]);
  tc_vjp v = {.t = w->t, .op = op, .n_in = n_in, .attr = attr, .arg = arg, .create_graph = w->create_graph, .walk = w};
  if (TC_LIKELY(!tc_options_get()->anomaly)) {
    v.g = widened(&v, g);
    rules[op](&v);
    return;
  }
  uint32_t first = w->t->n_node;
  tc_call call = origin_of(w, s, n);
  v.g = widened(&v, g);
  rules[op](&v);
  tell_origin(w->t, first, call);
}

static bool make_room_for_asked(walk *w) {
  if (w->n_xs == 0) return true;
  for (w->n_x_at = 16; w->n_x_at < 4 * (uint32_t)w->n_xs;) w->n_x_at *= 2;
  w->x_at = tc_arena_alloc(&w->t->walk, w->n_x_at * sizeof *w->x_at);
  w->x_next = tc_arena_alloc(&w->t->walk, 2 * (size_t)w->n_xs * sizeof *w->x_next);
  if (!w->x_at || !w->x_next) return tc_rec_fail(w->t, TC_ERR_MEMORY, "no room to differentiate"), false;
  find_asked(w);
  return true;
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
  if (!(t->flag[y] & (TC_NODE_TAPE | TC_NODE_NO_HISTORY))) {
    tc_rec_fail(t, TC_ERR_GRAD, "nothing it was made from wants a gradient");
    return;
  }
  uint32_t n = t->n_node;
  bool tape = tc_rec_tape(t, w->create_graph);
  segment *s = segment_add(w, &w->segments, NULL, n);
  if (s && !make_room_for_asked(w)) s = NULL;
  t->op_device = (tc_device)t->dev[y];
  if (g == TC_NODE_ERR) g = tc_rec_full(t, d, tc_node_type(t, y), 1);
  tc_node *first = s && g != TC_NODE_ERR ? adjoint_of(w, s, y) : NULL;
  if (first) *first = tc_rec_cast(t, g, tc_node_type(t, y));
  for (; s && t->op_status == TC_OK; s = s->next)
    for (uint32_t i = s->n; i-- > 0;) visit(w, s, i);
  give_params(w);
  tc_rec_tape(t, tape);
}

// Clears the tape where adjoints went.
static void free_history(walk *w) {
  w->t->freed_by = w->t->op_site;
  for (segment *s = w->segments; s; s = s->next)
    if (s->run)
      tc_run_free_history(s->run, w->t->op_site);
    else
      free_pending(w, s);
}

static tc_status backward(tc_tensor y, tc_tensor grad, int flags, tc_site site) {
  tc_trace *t = tc_op_begin("backward", site);
  walk w = {.t = t, .create_graph = flags & TC_CREATE_GRAPH, .retain = flags & (TC_RETAIN | TC_CREATE_GRAPH)};
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
  walk_fini(&w);
  return tc_owe(tc_op_done(t), site);
}

tc_status tc_backward_at(tc_tensor y, tc_site site) {
  return backward(y, (tc_tensor){0, 0}, 0, site);
}

tc_status tc_backward_with_at(tc_tensor y, tc_tensor grad, int flags, tc_site site) {
  return backward(y, grad, flags, site);
}

// Whether gradients may be asked for the tensor, which is not recorded for it; reports a bad handle.
static bool wants_grad(tc_trace *t, tc_tensor x) {
  tc_trace *owner;
  const tc_slot *s = tc_slot_find(x, &owner);
  if (!s || owner != t || !x.gen || s->gen != x.gen) {  // no good, or another thread's
    tc_node a = tc_op_in(t, x);
    t->n_taken = 0;  // no node is kept: what is differentiated may be in another memory
    return a != TC_NODE_ERR && (t->flag[a] & TC_NODE_TAPE);
  }
  if (s->epoch == t->epoch) return t->flag[s->node] & (TC_NODE_TAPE | TC_NODE_NO_HISTORY);
  return (s->flags & (TC_SLOT_GRAD | TC_SLOT_FREED)) || (s->run && (s->run->flag[s->home] & (TC_NODE_TAPE | TC_NODE_NO_HISTORY)));
}

// Handles of the gradients in the current scope; zeros where nothing leads to x.
static void give_out(walk *w, tc_tensor *out) {
  tc_trace *t = w->t, *owner;
  for (int i = 0; i < w->n_xs; i++) {
    const tc_slot *s = tc_slot_find(w->xs[i], &owner);
    if (w->x_grad[i] != TC_NODE_ERR || !enter(w, (tc_device)s->device)) continue;
    w->x_grad[i] = tc_rec_full(t, &tc_dims_at(s->shape)->d, (tc_type)s->dtype, 0);
  }
  for (int i = 0; i < w->n_xs && t->op_status == TC_OK; i++) {
    tc_tensor h;
    tc_node *g = &w->x_grad[i];
    if (is_held(*g)) {
      const tc_slot *s = held_slot(*g, &h);
      const tc_stored v = {s->buf, s->shape, (tc_type)s->dtype, (tc_device)s->device, false};
      out[i] = tc_trace_handle_stored(t, &v, s->run, s->home, true);
      drop(w, g);
      continue;
    }
    if (t->slot_of[*g] != TC_SLOT_NONE) {  // already some handle's node
      const tc_rec *r = tc_rec_of(t, *g);
      *g = tc_trace_append_plain(t, TC_OP_RESHAPE, (tc_type)r->dtype, r->shape, false, *g, 0);
    }
    if (*g != TC_NODE_ERR) out[i] = tc_trace_handle(t, *g, true);
  }
}

tc_status tc_grads_of_at(tc_tensor y, const tc_tensor *xs, int n, tc_tensor *out, int flags, tc_site site) {
  tc_trace *t = tc_op_begin("grads_of", site);
  tc_node small[32], *x_grad = small;
  if (n < 0 || (n > 0 && (!xs || !out))) tc_rec_fail(t, TC_ERR_ARG, "%d tensors%s", n, n < 0 ? "" : " at a null pointer");
  if (t->op_status == TC_OK && n > 32 && !(x_grad = tc_malloc((size_t)n * sizeof *x_grad)))
    tc_rec_fail(t, TC_ERR_MEMORY, "no room for %d tensors", n);
  walk w = {.t = t, .create_graph = flags & TC_CREATE_GRAPH, .retain = flags & (TC_RETAIN | TC_CREATE_GRAPH), .xs = xs, .x_grad = x_grad};
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
  walk_fini(&w);
  if (x_grad != small) tc_free(x_grad);
  return tc_op_done(t);
}
