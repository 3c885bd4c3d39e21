// Bodies of control flow, from records of a trace. See outline.h.
#include "lazy/record/outline.h"

#include <string.h>

#include "lazy/record/record.h"
#include "lazy/trace/capture.h"
#include "runtime/arena.h"

void tc_outline_init(tc_outline *c, tc_trace *t, tc_device device, uint32_t n_fixed, const tc_type *type,
                     const uint32_t *shape) {
  *c = (tc_outline){.t = t, .op = t->op, .device = device, .n_fixed = n_fixed, .type = type, .shape = shape};
  c->outer = t->outline, c->first = t->n_node;
  t->outline = c;
}

void tc_outline_close(tc_outline *c) {
  if (c->t->outline == c) c->t->outline = c->outer;
}

void tc_outline_fini(tc_outline *c) {
  for (uint32_t i = 0; i < c->n; i++) {
    tc_buffer_release(c->list[i].buf);
    if (c->list[i].handle.gen) tc_slot_release_handle(c->t, c->list[i].handle);
  }
  tc_free(c->list);
}

void tc_extract_fini(tc_extract *d) {
  void *const owned[] = {d->body.word, d->body.at, d->body.arg_at, d->body.call, d->body.out, d->body.counter, d->arg};
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) tc_free(owned[i]);
  *d = (tc_extract){.arg = NULL};
}

// A leaf without a value, which is no entry of the trace's leaves.
static tc_node append_input(tc_trace *t, tc_type type, uint32_t shape, tc_device device) {
  return tc_trace_append(t, TC_OP_LEAF, type, shape, 0, NULL, 0, NULL, 0, NULL, device);
}

// Whether the trace began anew meanwhile: what was recorded is gone.
static bool is_lost(const tc_outline *c) {
  return c->t->outline != c;
}

static bool fail_lost(const tc_outline *c) {
  return tc_rec_fail(c->t, TC_ERR_STATE, "the body of %s ended all tensors (tc_shutdown)", c->op), false;
}

bool tc_outline_begin(tc_outline *c, bool tape) {
  tc_trace *t = c->t;
  if (is_lost(c)) return fail_lost(c);
  c->first = t->n_node, c->was = tc_trace_mark_now(t);
  c->outer_fault = t->body_fault, t->body_fault = NULL;
  for (uint32_t i = 0; i < c->n_fixed && t->op_status == TC_OK; i++) {
    tc_node n = append_input(t, c->type[i], c->shape[i], c->device);
    if (n != TC_NODE_ERR) t->flag[n] = tape && tc_type_is_float(c->type[i]) ? TC_NODE_TAPE : 0;
  }
  if (t->op_status == TC_OK) return true;
  (void)tc_outline_end(c, 0, NULL, NULL);
  return false;
}

// ---- what comes from outside ----

// The number of something captured, which is entered if it is new. UINT32_MAX without memory.
static uint32_t enter(tc_outline *c, const tc_outlined *x) {
  for (uint32_t i = 0; i < c->n; i++) {
    const tc_outlined *y = &c->list[i];
    if (x->node == y->node && x->buf == y->buf && x->handle.slot == y->handle.slot && x->handle.gen == y->handle.gen &&
        x->shape == y->shape && x->type == y->type && x->param.slot == y->param.slot && x->param.gen == y->param.gen)
      return i;
  }
  if (!TC_GROW(c->list, c->cap, c->n + 1))
    return tc_rec_fail(c->t, TC_ERR_MEMORY, "no room for what the body captures"), UINT32_MAX;
  c->list[c->n] = *x;
  if (x->buf) (void)tc_buffer_retain(x->buf);
  if (x->handle.gen) tc_slot_of(x->handle.slot)->refs++;
  return c->n++;
}

tc_node tc_outline_slot(tc_trace *t, tc_slot *s, tc_tensor h) {
  bool history = (s->flags & TC_SLOT_GRAD) || (s->run && (s->run->flag[s->run_node] & TC_NODE_TAPE));
  if (!s->buf && !s->run) return tc_rec_fail(t, TC_ERR_STATE, "the operand has no value");
  if (enter(t->outline,
            &(tc_outlined){.node = TC_NODE_ERR, .handle = h, .shape = s->shape, .type = (tc_type)s->dtype}) ==
      UINT32_MAX)
    return TC_NODE_ERR;
  tc_node n = append_input(t, (tc_type)s->dtype, s->shape, (tc_device)s->device);
  if (n == TC_NODE_ERR) return n;
  if (history) t->flag[n] |= TC_NODE_TAPE;
  s->epoch = t->epoch, s->node = n;
  t->slot_of[n] = h.slot;
  return n;
}

bool tc_outline_made(const tc_outline *c, const tc_slot *s) {
  return s->epoch == c->t->epoch && s->node >= c->first && tc_rec_op(tc_rec_of(c->t, s->node)) != TC_OP_LEAF;
}

// What a leaf of the body is.
static bool describe_leaf(const tc_outline *c, tc_node n, tc_outlined *out) {
  const tc_trace *t = c->t;
  const tc_rec *r = tc_rec_of(t, n);
  *out = (tc_outlined){.node = TC_NODE_ERR, .shape = r->shape, .type = (tc_type)r->dtype};
  for (uint32_t i = c->was.n_leaf; i < t->n_leaf; i++)
    if (t->leaf[i].node == n) out->buf = t->leaf[i].buf;
  for (uint32_t i = 0; i < t->n_param_node && out->buf; i++)
    if (t->param_node[i].node == n) out->param = t->param_node[i].param;
  if (out->buf) return true;
  for (uint32_t i = 0; i < c->n && t->slot_of[n] != TC_SLOT_NONE; i++)
    if (c->list[i].handle.gen && c->list[i].handle.slot == t->slot_of[n]) out->handle = c->list[i].handle;
  return out->handle.gen;
}

// How the extract names node n of the trace. of: per node of the body, its number in the extract.
static uint32_t name_of(tc_outline *c, tc_node n, const uint32_t *of) {
  tc_trace *t = c->t;
  const tc_rec *r = tc_rec_of(t, n);
  tc_outlined x = {.node = n, .shape = r->shape, .type = (tc_type)r->dtype};
  if (n >= c->first && n < c->first + c->n_fixed) return n - c->first;
  if (n >= c->first && tc_rec_op(r) != TC_OP_LEAF) return TC_EXTRACT_RECORD | of[n - c->first];
  if (n >= c->first && !describe_leaf(c, n, &x))
    return tc_rec_fail(t, TC_ERR_HANDLE, "the body of %s released what it captured", c->op), UINT32_MAX;
  uint32_t i = enter(c, &x);
  return i == UINT32_MAX ? i : TC_EXTRACT_CAPTURED | i;
}

// ---- the extract ----

// Marks what results need. False after reporting.
static bool mark_needed(const tc_outline *c, uint32_t n_out, const tc_node *out, uint8_t *need) {
  tc_trace *t = c->t;
  for (uint32_t i = 0; i < n_out; i++)
    if (out[i] >= c->first) need[out[i] - c->first] = 1;
  for (tc_node n = t->n_node; n-- > c->first;) {
    const tc_rec *r = tc_rec_of(t, n);
    if (!need[n - c->first]) continue;
    if (t->dev[n] != c->device)
      return tc_rec_fail(t, TC_ERR_DEVICE, "the body of %s computes on %s and %s; a body is of one device", c->op,
                         tc_device_name(c->device), tc_device_name((tc_device)t->dev[n])),
             false;
    for (int i = 0; i < tc_rec_arity(r); i++) {
      tc_node in = tc_rec_in(r)[i];
      if (in >= c->first) need[in - c->first] = 1;
    }
  }
  return true;
}

// Notes which of the record's scalars are random counters, numbered from first on.
static bool note_counters(tc_extract *d, uint32_t *cap, const tc_rec *r, uint32_t first) {
  tc_body *b = &d->body;
  uint32_t n = tc_rec_counters(r, NULL);
  if (n == 0) return true;
  if (!TC_GROW(b->counter, *cap, b->n_counter + n)) return false;
  (void)tc_rec_counters(r, b->counter + b->n_counter);
  for (uint32_t k = 0; k < n; k++) b->counter[b->n_counter++] += first;
  return true;
}

static bool no_room_for_body(const tc_outline *c) {
  return tc_rec_fail(c->t, TC_ERR_MEMORY, "no room for the body of %s", c->op), false;
}

// Copies the records that are needed. of: filled in.
static bool copy_records(tc_outline *c, const uint8_t *need, uint32_t *of, tc_extract *d) {
  tc_trace *t = c->t;
  tc_body *b = &d->body;
  uint32_t n = t->n_node - c->first, cap = 0;
  b->word = tc_malloc((t->n_word - c->was.n_word + 1) * sizeof *b->word);
  b->at = tc_malloc((n + 1) * sizeof *b->at), b->arg_at = tc_malloc((n + 1) * sizeof *b->at);
  b->call = tc_malloc((n + 1) * sizeof *b->call);
  d->arg = tc_malloc((t->n_arg - c->was.n_arg + 1) * sizeof *d->arg);
  if (!b->word || !b->at || !b->arg_at || !b->call || !d->arg) return no_room_for_body(c);
  for (tc_node m = c->first + c->n_fixed; m < t->n_node; m++) {
    const tc_rec *r = tc_rec_of(t, m);
    if (!need[m - c->first] || tc_rec_op(r) == TC_OP_LEAF) continue;
    uint32_t n_word = 2 + r->n_extra, n_arg = tc_rec_args(r);
    of[m - c->first] = b->n_node;
    b->at[b->n_node] = b->n_word, b->arg_at[b->n_node] = b->n_arg, b->call[b->n_node] = t->call[m];
    memcpy(b->word + b->n_word, r, n_word * sizeof *b->word);
    if (n_arg) memcpy(d->arg + b->n_arg, t->arg + t->arg_at[m], n_arg * sizeof *d->arg);
    if (!note_counters(d, &cap, r, b->n_arg)) return no_room_for_body(c);
    uint32_t *in = (uint32_t *)(uintptr_t)tc_rec_in((tc_rec *)(void *)(b->word + b->n_word));
    if (tc_rec_arity(r) == 0) ((tc_rec *)(void *)(b->word + b->n_word))->in[0] = 0;  // the device
    for (int i = 0; i < tc_rec_arity(r); i++)
      if ((in[i] = name_of(c, in[i], of)) == UINT32_MAX) return false;
    b->n_word += n_word, b->n_arg += n_arg, b->n_node++;
  }
  return true;
}

static bool extract_body(tc_outline *c, uint32_t n_out, const tc_node *out, tc_extract *d) {
  tc_trace *t = c->t;
  uint32_t n = t->n_node - c->first;
  uint8_t *need = tc_calloc(n + 1, 1);
  uint32_t *of = tc_malloc((n + 1) * sizeof *of);
  bool ok = need && of && (d->body.out = tc_malloc((n_out + 1) * sizeof *d->body.out));
  if (!ok) (void)no_room_for_body(c);
  ok = ok && mark_needed(c, n_out, out, need) && copy_records(c, need, of, d);
  for (uint32_t i = 0; i < n_out && ok; i++) ok = (d->body.out[i] = name_of(c, out[i], of)) != UINT32_MAX;
  d->body.n_out = n_out, d->body.n_draw = t->counter - c->was.counter;
  if (ok && t->body_fault) ok = (tc_rec_fail(t, TC_ERR_STATE, "the body of %s %s", c->op, t->body_fault), false);
  if (ok && d->body.n_arg > TC_MAX_ARGS)
    ok = (tc_rec_fail(t, TC_ERR_ARG,
                      "the body of %s has %u scalars; a body may have %d: split it, or make tensors of them", c->op,
                      d->body.n_arg, TC_MAX_ARGS),
          false);
  tc_free(need);
  tc_free(of);
  return ok;
}

// Takes the body's records out of the trace. Handles of them lose their values; those of what was
// captured find theirs again. Returns a handle that outlives its value was met.
static bool truncate_trace(tc_outline *c) {
  tc_trace *t = c->t;
  bool outlives = false;
  for (tc_node n = c->first; n < t->n_node; n++) {
    if (t->slot_of[n] == TC_SLOT_NONE) continue;
    tc_slot *s = tc_slot_of(t->slot_of[n]);
    if (s->epoch != t->epoch || s->node != n) continue;
    s->epoch = 0;
    if (s->buf || s->run) continue;
    s->err = TC_ERR_STATE, s->of_body = true;
    outlives |= (s->flags & (TC_SLOT_KEEP | TC_SLOT_GRAD)) != 0;
  }
  uint64_t counter = t->counter;
  tc_trace_cut(t, &c->was);
  t->counter = counter;  // draws are taken
  if (TC_UNLIKELY(t->capture != NULL)) tc_capture_forget(t, c->first);
  return outlives;
}

bool tc_outline_end(tc_outline *c, uint32_t n_out, const tc_node *out, tc_extract *extract) {
  if (extract) *extract = (tc_extract){.arg = NULL};
  if (is_lost(c)) return fail_lost(c);
  bool ok = out && c->t->op_status == TC_OK && extract_body(c, n_out, out, extract);
  if (truncate_trace(c) && ok)
    ok = (tc_rec_fail(c->t, TC_ERR_STATE,
                      "a tensor that the body of %s makes outlives it (tc_keep, tc_param): make it a result", c->op),
          false);
  c->t->body_fault = c->outer_fault;
  if (!ok && extract) tc_extract_fini(extract);
  return ok;
}
