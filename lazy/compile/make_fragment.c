// Makes a fragment of what a capture noted. See make_fragment.h.
#include "lazy/compile/make_fragment.h"

#include <string.h>

#include "lazy/record/record.h"
#include "lazy/trace/body.h"
#include "lazy/trace/watched.h"
#include "runtime/arena.h"

#define IS_NEEDED 1u
#define IS_OPERAND 2u

typedef struct maker {
  tc_trace *t;
  tc_capture *c;
  const tc_tensor *stand_in;
  int n_arg;
  const tc_body_result *result;
  int n_result;
  tc_fragment *f;
  // per node of the trace
  uint8_t *mark;  // IS_ bits
  uint32_t *seen;  // 1 + its number among what was seen. 0: it was not
  uint32_t *number;  // in the fragment. TC_NODE_ERR: none yet
  uint32_t *arg_number;  // per arg of the trace: in the fragment. UINT32_MAX: left out
} maker;

static bool is_same(tc_tensor a, tc_tensor b) {
  return a.slot == b.slot && a.gen == b.gen;
}

// A slot of this thread's whose handle is alive; NULL: it is not.
static tc_slot *find_alive(const tc_trace *t, tc_tensor h) {
  tc_trace *owner;
  tc_slot *s = tc_slot_find(h, &owner);
  return s && owner == t && h.gen && s->gen == h.gen ? s : NULL;
}

static bool break_here(const maker *m, const char *why, tc_node n) {
  tc_call by = m->t->call[n];
  tc_capture *inner = m->t->capture;
  m->t->capture = m->c;
  tc_capture_break(m->t, why, by.op, by.site);
  m->t->capture = inner;
  return false;
}

static bool allocate(maker *m) {
  uint32_t n = m->t->n_node + 1;
  m->f = tc_calloc(1, sizeof *m->f);
  m->mark = tc_calloc(n, 1);
  m->seen = tc_calloc(n, sizeof *m->seen);
  m->number = tc_malloc(n * sizeof *m->number);
  if (m->number) memset(m->number, 0xFF, n * sizeof *m->number);
  m->arg_number = tc_malloc((m->t->n_arg + 1) * sizeof *m->arg_number);
  if (m->arg_number) memset(m->arg_number, 0xFF, (m->t->n_arg + 1) * sizeof *m->arg_number);
  if (m->f) atomic_store_explicit(&m->f->refs, 1, memory_order_relaxed);
  return m->f && m->mark && m->seen && m->number && m->arg_number;
}

// ---- what is needed, and what comes from outside ----

static void mark_seen(maker *m) {
  const tc_capture *c = m->c;
  for (uint32_t i = 0; i < c->n_seen; i++) {
    tc_node n = c->seen[i].node;
    m->mark[n] |= IS_OPERAND;
    if (!m->seen[n]) m->seen[n] = i + 1;
  }
}

// The number among the capture's of an assigned tensor. n_assigned: it is not assigned.
static uint32_t find_assigned(const tc_capture *c, tc_tensor h) {
  uint32_t i = 0;
  while (i < c->n_assigned && !is_same(c->assigned[i].handle, h)) i++;
  return i;
}

// Whether the handle is a gradient's from before the body: its value is set with the parameter's.
static bool is_former_grad(const tc_capture *c, tc_tensor h) {
  for (uint32_t i = 0; i < c->n_graded; i++)
    if (is_same(c->graded[i].was, h)) return true;
  return false;
}

// Whether a parameter's gradient is as it was before the body.
static bool keeps_grad(const tc_capture *c, const tc_slot *param, const tc_graded *g) {
  return is_same(param->grad, g->was) && (!g->was.gen || find_assigned(c, g->was) == c->n_assigned);
}

static void mark_roots(maker *m) {
  const tc_capture *c = m->c;
  for (int i = 0; i < m->n_result; i++)
    if (m->result[i].kind == TC_RESULT_NODE) m->mark[m->result[i].number] |= IS_NEEDED;
  for (uint32_t i = 0; i < c->n_assigned; i++) {
    const tc_slot *s = find_alive(m->t, c->assigned[i].handle);
    if (s && s->epoch == m->t->epoch && !is_former_grad(c, c->assigned[i].handle)) m->mark[s->node] |= IS_NEEDED;
  }
  for (uint32_t i = 0; i < c->n_graded; i++) {
    const tc_slot *s = find_alive(m->t, c->graded[i].param), *g = s ? find_alive(m->t, s->grad) : NULL;
    if (g && !keeps_grad(c, s, &c->graded[i]) && g->epoch == m->t->epoch) m->mark[g->node] |= IS_NEEDED;
  }
}

// Walks down from the roots. What was recorded before the body, and leaves, come from outside.
static void mark_needed(maker *m) {
  tc_trace *t = m->t;
  for (tc_node n = t->n_node; n-- > 0;) {
    const tc_rec *r = tc_rec_of(t, n);
    if (n < m->c->first_node || tc_rec_op(r) == TC_OP_LEAF) m->mark[n] |= IS_OPERAND;
    if (m->mark[n] != IS_NEEDED) continue;
    for (int i = tc_rec_arity(r); i-- > 0;) m->mark[tc_rec_in(r)[i]] |= IS_NEEDED;
  }
}

// A handle that the body left behind, which no later call could make anew.
static bool find_escape(const maker *m) {
  tc_trace *t = m->t;
  const tc_capture *c = m->c;
  for (tc_node n = c->first_node; n < t->n_node; n++) {
    if (t->slot_of[n] == TC_SLOT_NONE || (m->mark[n] & IS_OPERAND)) continue;
    tc_tensor h = {t->slot_of[n], tc_slot_of(t->slot_of[n])->gen};
    bool known = !(h.gen & 1);  // released, with a deferred assign
    for (int i = 0; i < m->n_result && !known; i++) known = is_same(m->result[i].handle, h);
    for (int i = 0; i < m->n_arg && !known; i++) known = is_same(m->stand_in[i], h);
    for (uint32_t i = 0; i < c->n_graded && !known; i++) {
      const tc_slot *p = find_alive(t, c->graded[i].param);
      known = p && is_same(p->grad, h);
    }
    if (known) continue;
    uint32_t k = find_assigned(c, h);
    known = k < c->n_assigned && tc_was_before(t, c, &c->assigned[k]);
    if (!known) return !break_here(m, "a tensor that outlives it and is no result", n);
  }
  for (uint32_t i = 0; i < c->n_assigned; i++)
    if (!find_alive(t, c->assigned[i].handle) && (c->assigned[i].was.buf || c->assigned[i].was.run))
      return !break_here(m, "the release of a tensor that it assigns", t->n_node - 1);
  return false;
}

// ---- operands ----

// The tensor that node n is the value of.
static tc_tensor handle_of(const maker *m, tc_node n) {
  const tc_trace *t = m->t;
  const tc_capture *c = m->c;
  if (m->seen[n]) return c->seen[m->seen[n] - 1].handle;
  for (uint32_t i = 0; i < c->n_assigned; i++)
    if (c->assigned[i].was.epoch == t->epoch && c->assigned[i].was.node == n) return c->assigned[i].handle;
  if (t->slot_of[n] == TC_SLOT_NONE) return (tc_tensor){0, 0};
  return (tc_tensor){t->slot_of[n], tc_slot_of(t->slot_of[n])->gen};
}

// Whether the handle is alive, or another thread's.
static bool may_hold(const maker *m, tc_tensor h) {
  tc_trace *owner;
  const tc_slot *s = tc_slot_find(h, &owner);
  return s && h.gen && (owner != m->t || s->gen == h.gen);
}

static bool is_arg(const maker *m, tc_node n) {
  return m->seen[n] && m->c->seen[m->seen[n] - 1].kind == TC_SEEN_ARG;
}

static bool add_operand(maker *m, tc_node n) {
  tc_trace *t = m->t;
  const tc_capture *c = m->c;
  const tc_rec *r = tc_rec_of(t, n);
  tc_operand *o = &m->f->operand[m->f->n_operand];
  *o = (tc_operand){.shape = r->shape, .type = r->dtype, .device = t->dev[n], .history = tc_history_of(t, n)};
  m->number[n] = m->f->n_operand++;
  if (is_arg(m, n)) {
    o->kind = TC_OPERAND_ARG, o->arg = c->seen[m->seen[n] - 1].handle.slot;
    return true;
  }
  tc_tensor h = handle_of(m, n);
  o->kind = TC_OPERAND_HANDLE;
  for (uint32_t i = 0; i < c->n_graded; i++)
    if (h.gen && is_same(c->graded[i].was, h)) o->kind = TC_OPERAND_GRAD, h = c->graded[i].param;
  for (int i = 0; i < m->n_arg; i++)
    if (is_same(m->stand_in[i], h)) o->kind = TC_OPERAND_ARG, o->arg = (uint32_t)i;
  if (o->kind == TC_OPERAND_ARG) return true;
  if (h.gen) {
    if (!may_hold(m, h)) return break_here(m, "a tensor that is released in it", n);
    o->handle = h;
    return true;
  }
  if (tc_rec_op(r) != TC_OP_LEAF || n < c->first_node) return break_here(m, "a value that no tensor has", n);
  o->kind = TC_OPERAND_CONST, o->buf = tc_buffer_retain(tc_trace_leaf_of(t, n));
  return true;
}

// ---- records ----

static bool count_records(maker *m) {
  tc_fragment *f = m->f;
  tc_trace *t = m->t;
  uint32_t n_operand = 0, n_draw = 0;
  for (tc_node n = 0; n < t->n_node; n++) {
    if (!(m->mark[n] & IS_NEEDED)) continue;
    if (m->mark[n] & IS_OPERAND) {
      n_operand++;
      continue;
    }
    const tc_rec *r = tc_rec_of(t, n);
    f->n_node++, f->n_word += 2 + r->n_extra, f->n_arg += tc_rec_args(r), n_draw += tc_rec_counters(r, NULL);
  }
  f->word = tc_malloc((f->n_word + 1) * sizeof f->word[0]);
  f->at = tc_malloc((f->n_node + 1) * 2 * sizeof f->at[0]);
  f->call = tc_malloc((f->n_node + 1) * sizeof f->call[0]);
  if (t->n_of > m->c->first_node) f->of = tc_calloc(f->n_node + 1, sizeof f->of[0]);
  f->flag = tc_malloc((f->n_node + 1) * 2);
  f->arg = tc_malloc((f->n_arg + 1) * sizeof f->arg[0]);
  f->operand = tc_calloc(n_operand + 1, sizeof f->operand[0]);
  f->draw = tc_malloc((n_draw + 1) * sizeof f->draw[0]);
  f->param_node = tc_malloc((t->n_param_node + 1) * sizeof f->param_node[0]);
  if (!f->word || !f->at || !f->call || !f->flag || !f->arg || !f->operand || !f->draw || !f->param_node) return false;
  f->arg_at = f->at + f->n_node + 1, f->dev = f->flag + f->n_node + 1;
  return true;
}

// first: the number of the record's first scalar in the fragment.
static void add_draws(maker *m, const tc_rec *r, const uint64_t *arg, uint32_t first) {
  uint32_t at[2 * TC_MAX_ARGS], n = tc_rec_counters(r, at);
  for (uint32_t i = 0; i < n; i++) {
    const uint64_t *drawn = arg + at[i] - 1;  // the seed, then the counter
    uint64_t counter = drawn[1] & ((UINT64_C(1) << 40) - 1);
    if (drawn[0] == m->t->seed && drawn[1] >> 40 == m->t->stream && counter >= m->c->was.counter)
      m->f->draw[m->f->n_draw++] = (tc_fragment_draw){first + at[i] - 1, (uint32_t)(counter - m->c->was.counter)};
  }
}

static void add_record(maker *m, tc_node n, uint32_t nth, uint32_t *n_word, uint32_t *n_arg) {
  const tc_trace *t = m->t;
  tc_fragment *f = m->f;
  const tc_rec *from = tc_rec_of(t, n);
  tc_rec *r = (tc_rec *)(void *)(f->word + *n_word);
  memcpy(r, from, (2 + (size_t)from->n_extra) * sizeof(uint64_t));
  uint32_t *in = (uint32_t *)(uintptr_t)tc_rec_in(r);
  for (int i = tc_rec_arity(r); i-- > 0;) in[i] = m->number[in[i]];
  const uint64_t *arg = t->arg + t->arg_at[n];
  if (tc_rec_args(r)) memcpy(f->arg + *n_arg, arg, tc_rec_args(r) * sizeof f->arg[0]);
  for (uint32_t i = 0; i < tc_rec_args(r); i++) m->arg_number[t->arg_at[n] + i] = *n_arg + i;
  add_draws(m, r, arg, *n_arg);
  if (tc_rec_op(r) == TC_OP_ASSIGN)
    f->assigned_bytes += (uint64_t)tc_dims_at(r->shape)->count * tc_type_bytes((tc_type)r->dtype);
  f->at[nth] = *n_word, f->arg_at[nth] = *n_arg;
  f->call[nth] = t->call[n], f->dev[nth] = t->dev[n];
  if (f->of && n < t->n_of) f->of[nth] = t->of[n];
  f->flag[nth] = (uint8_t)(t->flag[n] & ~(TC_NODE_LIVE | TC_NODE_KEEP | TC_NODE_ASKED));
  *n_word += 2 + r->n_extra, *n_arg += tc_rec_args(r);
  m->number[n] = f->n_operand + nth;
}

// Operands are numbered by the body alone: arguments first, then others as records read them.
static bool add_operands(maker *m) {
  const tc_trace *t = m->t;
  for (tc_node n = 0; n < t->n_node; n++)
    if (m->mark[n] == (IS_NEEDED | IS_OPERAND) && is_arg(m, n) && !add_operand(m, n)) return false;
  for (tc_node n = m->c->first_node; n < t->n_node; n++) {
    const tc_rec *r = tc_rec_of(t, n);
    if (m->mark[n] != IS_NEEDED) continue;
    for (int i = 0; i < tc_rec_arity(r); i++) {
      tc_node in = tc_rec_in(r)[i];
      if ((m->mark[in] & IS_OPERAND) && m->number[in] == TC_NODE_ERR && !add_operand(m, in)) return false;
    }
  }
  for (tc_node n = 0; n < t->n_node; n++)  // results that are operands
    if (m->mark[n] == (IS_NEEDED | IS_OPERAND) && m->number[n] == TC_NODE_ERR && !add_operand(m, n)) return false;
  return true;
}

static bool add_records(maker *m) {
  uint32_t n_word = 0, n_arg = 0, nth = 0;
  if (!add_operands(m)) return false;
  for (tc_node n = m->c->first_node; n < m->t->n_node; n++)
    if (m->mark[n] == IS_NEEDED) add_record(m, n, nth++, &n_word, &n_arg);
  for (uint32_t i = 0; i < m->t->n_param_node; i++) {
    tc_param_node p = m->t->param_node[i];
    if (m->mark[p.node] == IS_NEEDED)
      m->f->param_node[m->f->n_param_node++] = (tc_param_node){m->number[p.node] - m->f->n_operand, p.param};
  }
  m->f->n_drawn = (uint32_t)(m->t->counter - m->c->was.counter);
  return true;
}

// ---- results and effects ----

static bool add_results(maker *m) {
  tc_fragment *f = m->f;
  if (!(f->result = tc_calloc((size_t)m->n_result + 1, sizeof f->result[0]))) return false;
  for (int i = 0; i < m->n_result; i++) {
    const tc_body_result *r = &m->result[i];
    tc_fragment_result *to = &f->result[f->n_result++];
    *to = (tc_fragment_result){.kind = r->kind, .number = r->number};
    if (r->kind == TC_RESULT_NODE) to->number = m->number[r->number];
    if (r->kind == TC_RESULT_HANDLE) to->handle = r->handle;
  }
  return true;
}

static bool add_assigns(maker *m) {
  const tc_capture *c = m->c;
  tc_fragment *f = m->f;
  if (!(f->assign = tc_calloc(c->n_assigned + 1, sizeof f->assign[0]))) return false;
  for (uint32_t i = 0; i < c->n_assigned; i++) {
    tc_tensor h = c->assigned[i].handle;
    const tc_slot *s = find_alive(m->t, h);
    if (!s || !tc_was_before(m->t, c, &c->assigned[i])) continue;  // made in the body
    if (is_former_grad(c, h)) continue;
    tc_fragment_assign *a = &f->assign[f->n_assign];
    *a = (tc_fragment_assign){.arg = -1, .node = m->number[s->node]};
    for (int k = 0; k < m->n_arg && a->arg < 0; k++)
      if (is_same(m->stand_in[k], h)) a->arg = k;
    if (a->arg < 0) a->handle = h;
    f->n_assign++;
  }
  return true;
}

static bool add_grads(maker *m) {
  const tc_capture *c = m->c;
  tc_fragment *f = m->f;
  if (!(f->grad = tc_calloc(c->n_graded + 1, sizeof f->grad[0]))) return false;
  for (uint32_t i = 0; i < c->n_graded; i++) {
    tc_tensor h = c->graded[i].param;
    const tc_slot *s = find_alive(m->t, h), *g = s ? find_alive(m->t, s->grad) : NULL;
    if (!s) continue;  // made and ended in the body
    tc_fragment_grad *to = &f->grad[f->n_grad];
    *to = (tc_fragment_grad){.had = c->graded[i].was.gen != 0, .node = TC_NODE_ERR};
    to->keeps = keeps_grad(c, s, &c->graded[i]);
    if (!to->keeps && g) {
      if (g->epoch != m->t->epoch) return break_here(m, "a gradient that is stored", m->t->n_node - 1);
      to->node = m->number[g->node];
    }
    to->param = h;
    f->n_grad++;
  }
  return true;
}

static bool add_watches(maker *m) {
  const tc_capture *c = m->c;
  tc_fragment *f = m->f;
  if (!(f->watch = tc_calloc(c->n_watch + 1, sizeof f->watch[0]))) return false;
  for (; f->n_watch < c->n_watch; f->n_watch++) {
    f->watch[f->n_watch] = c->watch[f->n_watch];
    (void)tc_watched_retain(f->watch[f->n_watch].of);
  }
  return true;
}

// Steps, which the fragment takes over: last, since nothing may fail behind it.
static bool add_steps(maker *m) {
  tc_capture *c = m->c;
  tc_fragment *f = m->f;
  if (!(f->step = tc_calloc(c->n_step + 1, sizeof f->step[0]))) return false;
  for (uint32_t i = 0; i < c->n_step; i++) {
    tc_step *s = &f->step[i];
    *s = c->step[i];
    for (uint32_t k = 0; k < s->n_arg; k++)
      if (s->arg[k] != UINT32_MAX) s->arg[k] = m->arg_number[s->arg[k]];
  }
  f->n_step = c->n_step, f->has_landmark = c->has_landmark;
  c->keeps_steps = true;
  return true;
}

void tc_fragment_make(tc_trace *t, tc_capture *c, int n_arg, const tc_tensor *stand_in, int n_result,
                      const tc_body_result *result, tc_fragment **f) {
  maker m = {.t = t, .c = c, .stand_in = stand_in, .n_arg = n_arg, .result = result, .n_result = n_result};
  bool ok = allocate(&m);
  if (ok) {
    mark_seen(&m);
    mark_roots(&m);
    mark_needed(&m);
    ok = !find_escape(&m) && count_records(&m) && add_records(&m) && add_results(&m) && add_assigns(&m) &&
         add_grads(&m) && add_watches(&m) && add_steps(&m);
  }
  *f = ok ? m.f : NULL;
  tc_free(m.mark), tc_free(m.seen), tc_free(m.number), tc_free(m.arg_number);
  if (ok) return;
  if (!c->why) c->why = "no memory for its graph", c->by = t->op, c->where = t->op_site, c->may_pass = true;
  tc_fragment_free(m.f);
}
