// Fragments: their memory, and their records appended to a trace. See fragment.h.
#define TC_NO_SITES
#include "lazy/compile/fragment.h"

#include <string.h>

#include "lazy/record/append.h"
#include "lazy/record/record.h"
#include "lazy/trace/watched.h"
#include "runtime/arena.h"

void tc_fragment_free(tc_fragment *f) {
  if (!f) return;
  for (uint32_t i = 0; i < f->n_operand; i++)
    if (f->operand[i].buf) tc_buffer_release(f->operand[i].buf);
  for (uint32_t i = 0; i < f->n_watch; i++) tc_watched_release(f->watch[i].of);
  for (uint32_t i = 0; i < f->n_step; i++) tc_step_fini(&f->step[i]);
  void *const owned[] = {f->word,   f->at,   f->call, f->flag,       f->arg,  f->operand, f->result,
                         f->assign, f->grad, f->draw, f->param_node, f->step, f->of,      f->watch};
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) tc_free(owned[i]);
  tc_free(f);
}

// Calls fn for each tensor that the fragment names.
static void each_handle(const tc_fragment *f, void (*fn)(tc_tensor h, tc_site site), tc_site site) {
  for (uint32_t i = 0; i < f->n_operand; i++) fn(f->operand[i].handle, site);
  for (uint32_t i = 0; i < f->n_assign; i++) fn(f->assign[i].handle, site);
  for (uint32_t i = 0; i < f->n_grad; i++) fn(f->grad[i].param, site);
  for (uint32_t i = 0; i < f->n_result; i++) fn(f->result[i].handle, site);
}

static void hold(tc_tensor h, tc_site site) {
  if (h.gen) (void)tc_retain_at(h, site);
}

// One that tc_shutdown has ended is no error.
static void let_go(tc_tensor h, tc_site site) {
  if (tc_is_valid(h)) tc_release_at(h, site);
}

void tc_fragment_hold(tc_fragment *f, tc_site site) {
  each_handle(f, hold, site);
}

void tc_fragment_release(tc_fragment *f) {
  if (!f || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1) return;
  each_handle(f, let_go, 0);
  tc_fragment_free(f);
}

bool tc_fragment_operands(tc_trace *t, const tc_fragment *f, const tc_node *arg, tc_node *out) {
  for (uint32_t i = 0; i < f->n_operand; i++) {
    const tc_operand *o = &f->operand[i];
    switch (o->kind) {
      case TC_OPERAND_ARG: out[i] = arg[o->arg]; break;
      case TC_OPERAND_HANDLE: out[i] = tc_op_in(t, o->handle); break;
      case TC_OPERAND_GRAD: out[i] = tc_rec_grad(t, o->handle); break;
      case TC_OPERAND_CONST:
        out[i] = tc_trace_enter_memory(t, (tc_device)o->device)
                     ? tc_trace_leaf(t, o->buf, (tc_type)o->type, o->shape, (tc_device)o->device)
                     : TC_NODE_ERR;
        break;
    }
    if (out[i] == TC_NODE_ERR && t->op_status != TC_OK) return false;
  }
  return true;
}

// Gives operands of the records from `at` on the numbers that they have in the trace.
static void renumber(const tc_trace *t, const tc_fragment *f, const tc_node *operand, tc_node first) {
  for (uint32_t n = 0; n < f->n_node; n++) {
    tc_rec *r = tc_rec_of(t, first + n);
    uint32_t *in = (uint32_t *)(uintptr_t)tc_rec_in(r);
    for (int i = tc_rec_arity(r); i-- > 0;) in[i] = tc_fragment_node(f, operand, first, in[i]);
  }
}

// With TC_ANOMALY=1: whose gradients the records from first on are a part of.
static void tell_origins(tc_trace *t, const tc_fragment *f, tc_node first) {
  if (!TC_GROW(t->of, t->cap_of, t->cap_node)) return;
  while (t->n_of < first) t->of[t->n_of++] = (tc_call){NULL, 0};
  memcpy(t->of + first, f->of, f->n_node * sizeof *t->of);
  t->n_of = first + f->n_node;
}

// Whether the operands have the numbers that they have in the fragment.
static bool is_own_place(const tc_trace *t, const tc_fragment *f, const tc_node *operand) {
  if (t->n_node != f->n_operand) return false;
  for (uint32_t i = 0; i < f->n_operand; i++)
    if (operand[i] != i) return false;
  return true;
}

static bool make_room(tc_trace *t, const tc_fragment *f) {
  bool ok = TC_GROW(t->param_node, t->cap_param_node, t->n_param_node + f->n_param_node);
  while (ok && t->n_node + f->n_node > t->cap_node) {
    uint32_t n_node = t->n_node;
    t->n_node = t->cap_node;  // full: twice as many
    ok = tc_trace_grow(t, 0, 0);
    t->n_node = n_node;
  }
  ok = ok && TC_GROW(t->word, t->cap_word, t->n_word + f->n_word) && TC_GROW(t->arg, t->cap_arg, t->n_arg + f->n_arg);
  if (!ok) tc_rec_fail(t, TC_ERR_MEMORY, "no room to record");
  return ok;
}

static void draw(tc_trace *t, const tc_fragment *f) {
  for (uint32_t i = 0; i < f->n_draw; i++) {
    uint64_t *arg = t->arg + t->n_arg + f->draw[i].arg;
    arg[0] = t->seed, arg[1] = (t->counter + f->draw[i].nth) | t->stream << 40;
  }
  t->counter += f->n_drawn;
}

bool tc_fragment_steps_fit(const tc_fragment *f) {
  bool fit = true;
  for (uint32_t i = 0; i < f->n_step && fit; i++) fit = f->step[i].ops_of->fits(f->step[i].owner, f->step[i].note);
  return fit;
}

static uint32_t *args_of(const tc_step *s, uint32_t first_arg) {
  uint32_t *at = tc_malloc((s->n_arg + 1) * sizeof *at);
  for (uint32_t i = 0; i < s->n_arg && at; i++) at[i] = s->arg[i] == UINT32_MAX ? UINT32_MAX : first_arg + s->arg[i];
  return at;
}

// Records the numbers of an optimizer's step anew, behind what is there; mark: before them. False
// after reporting, or where they are recorded by other ops than they were.
static bool record_numbers(tc_trace *t, const tc_step *s, tc_trace_mark *mark) {
  *mark = tc_trace_mark_now(t);
  bool tape = tc_rec_tape(t, false);
  bool ok = s->ops_of->record_numbers(t, s->owner, s->note);
  tc_rec_tape(t, tape);
  return ok && t->n_arg - mark->n_arg == s->n_arg && tc_trace_ops(t, mark->n_node) == s->ops;
}

// Puts the step's numbers of now into the fragment, whose args begin at first_arg, and counts it.
static bool take_step(tc_trace *t, const tc_step *s, uint32_t first_arg) {
  tc_trace_mark mark;
  bool ok = record_numbers(t, s, &mark);
  for (uint32_t i = 0; i < s->n_arg && ok; i++)
    if (s->arg[i] != UINT32_MAX) t->arg[first_arg + s->arg[i]] = t->arg[mark.n_arg + i];
  tc_trace_cut(t, &mark);
  if (!ok) return false;
  if (TC_UNLIKELY(t->capture != NULL)) {
    tc_step step = *s;
    step.note = s->ops_of->note(s->owner, s->note), step.arg = args_of(s, first_arg);
    tc_capture_step(t, step);
  }
  s->ops_of->count(s->owner, s->note);
  return true;
}

// Of several steps none may be taken unless all can be.
static bool take_steps(tc_trace *t, const tc_fragment *f, uint32_t first_arg) {
  bool ok = true;
  for (uint32_t i = 0; i < f->n_step && ok && f->n_step > 1; i++) {
    tc_trace_mark mark;
    ok = record_numbers(t, &f->step[i], &mark);
    tc_trace_cut(t, &mark);
  }
  for (uint32_t i = 0; i < f->n_step && ok; i++) ok = take_step(t, &f->step[i], first_arg);
  return ok;
}

tc_node tc_fragment_append(tc_trace *t, const tc_fragment *f, const tc_node *operand) {
  if (!make_room(t, f)) return TC_NODE_ERR;
  const tc_trace_mark before = tc_trace_mark_now(t);
  tc_node first = t->n_node;
  for (uint32_t i = 0; i < f->n_watch && TC_UNLIKELY(t->capture != NULL); i++)
    tc_capture_watch(t, f->watch[i].of, f->watch[i].value);
  bool as_is = is_own_place(t, f, operand);
  if (f->n_node == 0) return first;
  memcpy(t->word + t->n_word, f->word, f->n_word * sizeof t->word[0]);
  if (f->n_arg) memcpy(t->arg + t->n_arg, f->arg, f->n_arg * sizeof t->arg[0]);
  memcpy(t->call + first, f->call, f->n_node * sizeof t->call[0]);
  memcpy(t->flag + first, f->flag, f->n_node);
  memcpy(t->dev + first, f->dev, f->n_node);
  memset(t->slot_of + first, 0xFF, f->n_node * sizeof t->slot_of[0]);
  _Static_assert(TC_SLOT_NONE == UINT32_MAX, "all bits are set");
  uint32_t words = t->n_word, args = t->n_arg;
  for (uint32_t n = 0; n < f->n_node; n++) t->at[first + n] = f->at[n] + words;
  for (uint32_t n = 0; n < f->n_node; n++) t->arg_at[first + n] = f->arg_at[n] + args;
  draw(t, f);
  if (TC_UNLIKELY(f->of != NULL)) tell_origins(t, f, first);
  if (!as_is) renumber(t, f, operand, first);
  for (uint32_t i = 0; i < f->n_param_node; i++)
    t->param_node[t->n_param_node++] = (tc_param_node){first + f->param_node[i].node, f->param_node[i].param};
  t->n_node += f->n_node, t->n_word += f->n_word, t->n_arg += f->n_arg;
  t->assigned_bytes += f->assigned_bytes;
  if (TC_LIKELY(f->n_step == 0) || take_steps(t, f, args)) return first;
  tc_trace_cut(t, &before);
  return TC_NODE_ERR;
}

bool tc_fragment_effects(tc_trace *t, const tc_fragment *f, const tc_tensor *arg, const tc_node *operand,
                         tc_node first) {
  for (uint32_t i = 0; i < f->n_assign; i++) {
    const tc_fragment_assign *a = &f->assign[i];
    tc_tensor h = a->arg < 0 ? a->handle : arg[a->arg];
    if (tc_rec_take_assign(t, h, tc_fragment_node(f, operand, first, a->node)) != TC_OK) return false;
  }
  for (uint32_t i = 0; i < f->n_grad; i++) {
    const tc_fragment_grad *g = &f->grad[i];
    if (g->keeps) continue;
    if (g->node == TC_NODE_ERR)
      tc_rec_clear_grad(t, g->param);
    else
      (void)tc_rec_set_grad(t, g->param, tc_fragment_node(f, operand, first, g->node));
  }
  return t->op_status == TC_OK;
}

bool tc_fragment_results(tc_trace *t, const tc_fragment *f, const tc_tensor *arg, const tc_node *operand, tc_node first,
                         tc_tensor *out) {
  for (uint32_t i = 0; i < f->n_result; i++) {
    const tc_fragment_result *r = &f->result[i];
    switch (r->kind) {
      case TC_RESULT_NODE: {
        tc_node n = tc_fragment_node(f, operand, first, r->number);
        // as at the end of an op: what has a slot, or is a parameter's value, is another tensor
        bool is_other = t->slot_of[n] != TC_SLOT_NONE || (t->flag[n] & TC_NODE_REQUIRES_GRAD);
        if (is_other && (n = tc_trace_copy(t, n)) == TC_NODE_ERR) return false;
        out[i] = tc_trace_handle(t, n, true);
        break;
      }
      case TC_RESULT_ARG: out[i] = arg[r->number]; break;
      case TC_RESULT_HANDLE: out[i] = r->handle; break;
      case TC_RESULT_SAME: out[i] = out[r->number]; break;
      case TC_RESULT_NONE: out[i] = (tc_tensor){0, 0}; break;
    }
  }
  return t->op_status == TC_OK;
}
