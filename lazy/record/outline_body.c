// Bodies of control flow: made of what was taken out of a trace, and recorded again. See outline.h.
#include <string.h>

#include "lazy/record/outline.h"
#include "lazy/record/record.h"
#include "runtime/arena.h"

static const tc_body *no_room_for_body(const tc_outline *c) {
  (void)tc_rec_fail(c->t, TC_ERR_MEMORY, "no room for the body of %s", c->op);
  return NULL;
}

static tc_node resolve_one(tc_trace *t, const tc_outlined *x) {
  if (x->node != TC_NODE_ERR) return x->node;
  if (x->handle.gen) return tc_op_in(t, x->handle);
  tc_node n = tc_trace_leaf(t, x->buf, x->type, x->shape, t->op_device);
  if (n != TC_NODE_ERR && x->param.gen && !tc_trace_requires_grad(t, n, x->param)) return TC_NODE_ERR;
  return n;
}

bool tc_outline_resolve(tc_outline *c, tc_node *in) {
  for (uint32_t i = 0; i < c->n; i++) {
    c->t->op_device = c->device;
    if ((in[i] = resolve_one(c->t, &c->list[i])) == TC_NODE_ERR) return false;
    if (c->t->dev[in[i]] != c->device)
      return tc_rec_fail(c->t, TC_ERR_DEVICE, "the body of %s is on %s, and uses a tensor on %s", c->op,
                         tc_device_name(c->device), tc_device_name((tc_device)c->t->dev[in[i]])),
             false;
  }
  return true;
}

static uint32_t renumbered(const tc_outline *c, uint32_t name) {
  if (name & TC_EXTRACT_RECORD) return c->n_fixed + c->n + (name & ~TC_EXTRACT_RECORD);
  return name & TC_EXTRACT_CAPTURED ? c->n_fixed + (name & ~TC_EXTRACT_CAPTURED) : name;
}

static void put_input(const tc_outline *c, tc_body *b, uint32_t i) {
  bool fixed = i < c->n_fixed;
  tc_type type = fixed ? c->type[i] : c->list[i - c->n_fixed].type;
  uint32_t shape = fixed ? c->shape[i] : c->list[i - c->n_fixed].shape;
  b->at[i] = 2 * i, b->arg_at[i] = 0, b->call[i] = (tc_call){c->op, 0};
  *(tc_rec *)(void *)(b->word + 2 * i) = (tc_rec){.op_args = TC_OP_LEAF, .dtype = (uint8_t)type, .shape = shape};
}

// A result that is an input or another result is a copy.
static void copy_result(tc_body *b, uint32_t i) {
  bool other = b->out[i] < b->n_in;
  for (uint32_t k = 0; k < i; k++) other |= b->out[k] == b->out[i];
  if (!other) return;
  const tc_rec *from = tc_body_rec(b, b->out[i]);
  tc_rec r = {.op_args = TC_OP_RESHAPE, .dtype = from->dtype, .shape = from->shape, .in = {b->out[i]}};
  b->at[b->n_node] = b->n_word, b->arg_at[b->n_node] = b->n_arg, b->call[b->n_node] = b->call[b->out[i]];
  memcpy(b->word + b->n_word, &r, sizeof r);
  b->n_word += 2;
  b->out[i] = b->n_node++;
}

const tc_body *tc_outline_finish(tc_outline *c, tc_extract *d) {
  const tc_body *from = &d->body;
  tc_body b = *from;
  const tc_body *made = NULL;
  uint32_t n_in = c->n_fixed + c->n;
  size_t n = (size_t)n_in + from->n_node + from->n_out + 1;
  b.word = tc_calloc(from->n_word + 2 * ((size_t)n_in + from->n_out) + 1, sizeof *b.word);
  b.at = tc_malloc(n * sizeof *b.at), b.arg_at = tc_malloc(n * sizeof *b.at), b.call = tc_malloc(n * sizeof *b.call);
  b.n_in = n_in, b.n_node = n_in + from->n_node, b.n_word = 2 * n_in + from->n_word;
  bool room = b.word && b.at && b.arg_at && b.call;
  for (uint32_t i = 0; i < n_in && room; i++) put_input(c, &b, i);
  if (room && from->n_word) memcpy(b.word + 2 * (size_t)n_in, from->word, from->n_word * sizeof *b.word);
  for (uint32_t i = 0; i < from->n_node && room; i++) {
    b.at[n_in + i] = 2 * n_in + from->at[i], b.arg_at[n_in + i] = from->arg_at[i], b.call[n_in + i] = from->call[i];
    const tc_rec *r = tc_body_rec(&b, n_in + i);
    uint32_t *in = (uint32_t *)(uintptr_t)tc_rec_in(r);
    for (int k = 0; k < tc_rec_arity(r); k++) in[k] = renumbered(c, in[k]);
  }
  for (uint32_t i = 0; i < from->n_out && room; i++) b.out[i] = renumbered(c, from->out[i]);
  for (uint32_t i = 0; i < from->n_out && room; i++) copy_result(&b, i);
  if (room) made = tc_body_intern(&b);
  if (!made) (void)no_room_for_body(c);
  tc_free(b.word);
  tc_free(b.at);
  tc_free(b.arg_at);
  tc_free(b.call);
  return made;
}

bool tc_body_append(tc_trace *t, const tc_body *b, tc_device device, const tc_node *in, const uint64_t *arg,
                    tc_node *out) {
  tc_node *at = tc_malloc((b->n_node + 1) * sizeof *at), of[512];
  if (!at) return tc_rec_fail(t, TC_ERR_MEMORY, "no room for a body"), false;
  memcpy(at, in, b->n_in * sizeof *at);
  bool ok = t->op_status == TC_OK;
  for (uint32_t n = b->n_in; n < b->n_node && ok; n++) {
    const tc_rec *r = tc_body_rec(b, n);
    int n_in = tc_rec_arity(r);
    for (int i = 0; i < n_in; i++) of[i] = at[tc_rec_in(r)[i]];
    at[n] = tc_trace_append(t, tc_rec_op(r), (tc_type)r->dtype, r->shape, n_in, of, tc_rec_attrs(r), tc_rec_attr(r),
                            (int)tc_rec_args(r), arg + b->arg_at[n], device);
    ok = at[n] != TC_NODE_ERR;
    if (ok) t->call[at[n]] = b->call[n];
  }
  for (uint32_t i = 0; i < b->n_out && ok; i++) out[i] = at[b->out[i]];
  tc_free(at);
  return ok;
}
