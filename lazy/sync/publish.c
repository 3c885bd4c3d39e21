// What a sync does with results. See publish.h.
#include "lazy/sync/publish.h"

#include <string.h>

tc_status tc_outputs_take(tc_trace *t, const tc_plan *p) {
  uint32_t need = 2 * p->n_out + p->n_leaf;
  if (!TC_GROW(t->out, t->cap_out, need)) return TC_FAIL(TC_ERR_MEMORY, "no room for results");
  for (uint32_t i = 0; i < p->n_out; i++) {
    if (p->out[i].donor != TC_LEAF_NONE) {
      t->out[i] = tc_buffer_retain(t->leaf[p->out[i].donor].buf);
      tc_buffer_restamp(t->out[i]);
      continue;
    }
    tc_status st = tc_buffer_create_on((tc_device)p->dev[p->out[i].node], p->out[i].bytes, &t->out[i]);
    if (st == TC_OK) {
      tc_buffer_tell(t->out[i], TC_HOLDS_TENSOR, t->call[p->out[i].node]);
      continue;
    }
    while (i-- > 0) tc_buffer_release(t->out[i]);
    return st;
  }
  return TC_OK;
}

// Where the run puts a value, or NULL; borrowed.
static tc_buffer *stored_at(const tc_trace *t, const tc_plan *p, uint32_t n) {
  if (p->out_of[n] != TC_LEAF_NONE) return t->out[p->out_of[n]];
  uint32_t alias = tc_plan_alias(p, n);
  return alias != TC_LEAF_NONE ? t->leaf[alias].buf : NULL;
}

// Whether somebody beside this trace, which ends, holds what the caller's memory held before the
// assigns to it, or will once the run is published.
static bool is_seen(const tc_trace *t, const tc_plan *p, const struct tc_user *u) {
  uint32_t out = p->out_of[tc_slot_of(u->slot)->node];
  if (out != TC_LEAF_NONE && p->out[out].donor != TC_LEAF_NONE) return false;  // it lands in place
  uint32_t leaf = p->leaf_of[u->leaf_node];
  bool ours = leaf != TC_LEAF_NONE && t->leaf[leaf].buf == u->buf;
  return tc_buffer_refs(u->buf) > 1 + (uint32_t)ours || (ours && p->leaves_run && p->hold_leaf[leaf]);
}

tc_status tc_spares_take(tc_trace *t, const tc_plan *p, size_t *bytes) {
  for (uint32_t i = 0; i < t->n_user; i++) {
    struct tc_user *u = &t->user[i];
    if (!is_seen(t, p, u)) continue;
    TC_TRY(tc_buffer_create(u->buf->bytes, &u->spare));
    *bytes += u->spare->bytes;
  }
  return TC_OK;
}

void tc_taken_drop(tc_trace *t, const tc_plan *p) {
  for (uint32_t i = 0; i < p->n_out; i++) tc_buffer_release(t->out[i]);
  for (uint32_t i = 0; i < t->n_user; i++) {
    tc_buffer_release(t->user[i].spare);
    t->user[i].spare = NULL;
  }
}

void tc_run_fill(tc_run *r, const tc_trace *t, bool failed) {
  const tc_plan *p = r->plan;
  r->failed = failed, r->freed_by = t->freed_by;
  for (uint32_t i = 0; i < p->n_leaf; i++) {
    r->leaf[i] = (tc_leaf){t->leaf[i].node, NULL};
    if (p->hold_leaf[i] || failed) r->leaf[i].buf = tc_buffer_retain(t->leaf[i].buf);
  }
  for (uint32_t i = 0; i < t->n_past; i++)
    r->past[i] = (tc_past){t->past[i].node, t->past[i].run_node, tc_run_retain(t->past[i].run)};
  for (uint32_t i = 0; i < p->n_out; i++) r->out[i] = p->hold_out[i] && !failed ? tc_buffer_retain(t->out[i]) : NULL;
  if (p->n_arg) memcpy(r->arg, t->arg, p->n_arg * sizeof r->arg[0]);
  if (t->n_param_node) memcpy(r->param_node, t->param_node, t->n_param_node * sizeof r->param_node[0]);
  memcpy(r->flag, t->flag, p->n_node);
  memcpy(r->call, t->call, p->n_node * sizeof r->call[0]);
}

// Whether the history of a stored value with these flags was freed.
static bool is_freed(uint8_t flag) {
  return (flag & TC_NODE_NO_HISTORY) && !(flag & TC_NODE_REQUIRES_GRAD);
}

// Takes what is stored at a node out of what the trace holds; NULL: nothing is. An output has one
// node, and a node one slot.
static tc_buffer *take_stored(tc_trace *t, const tc_plan *p, uint32_t n) {
  tc_buffer *stored = stored_at(t, p, n);
  if (p->out_of[n] == TC_LEAF_NONE) return stored ? tc_buffer_retain(stored) : NULL;
  t->out[p->out_of[n]] = NULL;
  return stored;
}

tc_status tc_values_publish(tc_trace *t, const tc_plan *p, tc_run *run) {
  tc_status st = TC_OK;
  for (uint32_t n = 0; n < t->n_node; n++) {
    if (t->slot_of[n] == TC_SLOT_NONE || p->leaf_of[n] != TC_LEAF_NONE) continue;
    tc_slot *s = tc_slot_of(t->slot_of[n]);
    tc_buffer *stored = take_stored(t, p, n);
    s->run_node = n;
    if (TC_LIKELY(!stored && run && !s->buf && !s->run)) {  // as tc_slot_give_value does it
      tc_slot_take_recipe(s, run);
      continue;
    }
    bool history = (t->flag[n] & TC_NODE_TAPE) && !(t->flag[n] & TC_NODE_REQUIRES_GRAD);
    tc_slot_give_value(s, stored, history || !stored ? run : NULL, stored && is_freed(t->flag[n]));
  }
  for (uint32_t i = 0; i < t->n_user; i++) {
    struct tc_user *u = &t->user[i];
    tc_slot *s = tc_slot_of(u->slot);
    tc_buffer *now = s->buf;
    if (!now || now == u->buf) continue;
    if (u->spare) {
      tc_buffer_move(u->buf, u->spare);
      tc_buffer_release(u->buf);
      u->buf = u->spare, u->spare = NULL;
    }
    tc_status copied = tc_buffer_copy(u->buf, now, TC_MIN(u->buf->bytes, now->bytes));
    if (st == TC_OK) st = copied;
    tc_buffer_release(s->buf);
    s->buf = tc_buffer_retain(u->buf);
  }
  return st;
}

void tc_values_restore(tc_trace *t, tc_run *run, tc_status st) {
  for (uint32_t n = 0; n < t->n_node; n++) {
    if (t->slot_of[n] == TC_SLOT_NONE || tc_rec_op(tc_rec_of(t, n)) == TC_OP_LEAF) continue;
    tc_slot *s = tc_slot_of(t->slot_of[n]);
    uint32_t old = n;
    while (tc_rec_op(tc_rec_of(t, old)) == TC_OP_ASSIGN) old = tc_rec_of(t, old)->in[1];
    tc_buffer *buf = tc_rec_op(tc_rec_of(t, old)) == TC_OP_LEAF ? tc_trace_leaf_of(t, old) : NULL;
    tc_slot_set_value(s, buf, buf ? NULL : run, buf && is_freed(t->flag[old]));
    s->run_node = old;
    s->err = buf || run ? TC_OK : st;
  }
  for (uint32_t i = 0; i < t->n_user; i++) {  // a leaf may be the copy that a GPU read
    tc_slot *s = tc_slot_of(t->user[i].slot);
    tc_slot_set_value(s, t->user[i].buf, NULL, s->flags & TC_SLOT_FREED);
    s->err = TC_OK;
  }
}

void tc_values_publish_asked(tc_trace *t, const tc_plan *p, int n_asked, const tc_node *asked) {
  for (int i = 0; i < n_asked; i++) {
    tc_buffer *stored = stored_at(t, p, asked[i]);
    if (t->slot_of[asked[i]] == TC_SLOT_NONE || !stored) continue;
    tc_slot *s = tc_slot_of(t->slot_of[asked[i]]);
    tc_buffer_release(s->buf);
    s->buf = tc_buffer_retain(stored);
  }
}
