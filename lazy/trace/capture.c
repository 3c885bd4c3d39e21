// Notes of a body that is traced for its graph. See capture.h.
#include "lazy/trace/capture.h"

#include <string.h>

#include "lazy/trace/watched.h"
#include "runtime/arena.h"

void tc_capture_break(tc_trace *t, const char *why, const char *by, tc_site where) {
  for (tc_capture *c = t->capture; c; c = c->outer)
    if (!c->why) c->why = why, c->by = by, c->where = where;
}

void tc_capture_break_for_now(tc_trace *t, const char *why, const char *by, tc_site where) {
  for (tc_capture *c = t->capture; c; c = c->outer)
    if (!c->why) c->may_pass = true;
  tc_capture_break(t, why, by, where);
}

static void break_without_memory(tc_trace *t) {
  tc_capture_break_for_now(t, "no memory for notes of its graph", t->op, t->op_site);
}

void tc_capture_see(tc_trace *t, tc_node n, tc_seen_kind kind, tc_tensor handle) {
  tc_capture *c = t->capture;
  if (n == TC_NODE_ERR || c->why) return;
  const tc_buffer *buf = kind == TC_SEEN_HANDLE ? tc_slot_of(handle.slot)->buf : NULL;
  if (buf && atomic_load_explicit(&buf->aliased, memory_order_relaxed)) {
    tc_capture_break(t, "memory that another borrow covers, too", t->op, t->op_site);
    return;
  }
  if (!TC_GROW(c->seen, c->cap_seen, c->n_seen + 1)) {
    break_without_memory(t);
    return;
  }
  c->seen[c->n_seen++] = (tc_seen){n, kind, handle};
}

void tc_capture_forget(tc_trace *t, tc_node first) {
  for (tc_capture *c = t->capture; c; c = c->outer) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n_seen; i++)
      if (c->seen[i].node < first) c->seen[n++] = c->seen[i];
    c->n_seen = n;
  }
}

bool tc_capture_assign(tc_trace *t, tc_tensor handle, const tc_slot *s) {
  tc_capture *c = t->capture;
  for (uint32_t i = 0; i < c->n_assigned; i++)
    if (c->assigned[i].handle.slot == handle.slot && c->assigned[i].handle.gen == handle.gen) return true;
  const tc_call by = {t->op, t->op_site};
  if (!TC_GROW(c->assigned, c->cap_assigned, c->n_assigned + 1)) {
    t->op_status = tc_fail(TC_ERR_MEMORY, t->op, t->op_site, "no room for a note of what is assigned");
    return false;
  }
  if (c->why) {
    c->assigned[c->n_assigned++] = (tc_assigned){.handle = handle, .by = by};
    return true;
  }
  bool has_node = s->epoch == t->epoch && t->slot_of[s->node] == handle.slot;
  uint8_t flag = has_node ? t->flag[s->node] & (TC_NODE_LIVE | TC_NODE_KEEP) : 0;
  c->assigned[c->n_assigned++] = (tc_assigned){handle, *s, flag, by};
  if (s->buf) (void)tc_buffer_retain(s->buf);
  if (s->run) (void)tc_run_retain(s->run);
  return true;
}

void tc_capture_grad(tc_trace *t, tc_tensor param, tc_slot *s) {
  tc_capture *c = t->capture;
  for (uint32_t i = 0; i < c->n_graded; i++)
    if (c->graded[i].param.slot == param.slot && c->graded[i].param.gen == param.gen) return;
  if (c->why) return;
  if (!TC_GROW(c->graded, c->cap_graded, c->n_graded + 1)) {
    break_without_memory(t);
    return;
  }
  c->graded[c->n_graded++] = (tc_graded){param, s->grad};
  if (s->grad.gen) tc_slot_of(s->grad.slot)->refs++;
}

void tc_capture_watch(tc_trace *t, tc_watched *w, uint64_t value) {
  tc_capture *c = t->capture;
  for (uint32_t i = 0; i < c->n_watch; i++)
    if (c->watch[i].of == w) return;
  if (!TC_GROW(c->watch, c->cap_watch, c->n_watch + 1)) {
    break_without_memory(t);
    return;
  }
  c->watch[c->n_watch++] = (tc_watch_note){tc_watched_retain(w), value};
}

void tc_step_fini(tc_step *s) {
  s->ops_of->release(s->owner);
  tc_free(s->note), tc_free(s->arg);
}

void tc_capture_step(tc_trace *t, tc_step step) {
  tc_capture *c = t->capture;
  if (!step.note || !step.arg || !TC_GROW(c->step, c->cap_step, c->n_step + 1)) {
    tc_free(step.note), tc_free(step.arg);
    break_without_memory(t);
    return;
  }
  step.ops_of->retain(step.owner);
  c->step[c->n_step++] = step;
}

uint64_t tc_trace_ops(const tc_trace *t, tc_node first) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (tc_node n = first; n < t->n_node; n++) hash = (hash ^ tc_rec_of(t, n)->op_args) * UINT64_C(0x100000001b3);
  return hash;
}

tc_trace_mark tc_trace_mark_now(const tc_trace *t) {
  return (tc_trace_mark){.n_word = t->n_word,
                         .n_node = t->n_node,
                         .n_arg = t->n_arg,
                         .n_leaf = t->n_leaf,
                         .n_past = t->n_past,
                         .n_user = t->n_user,
                         .counter = t->counter,
                         .most_nodes = t->most_nodes,
                         .leaf_bytes = t->leaf_bytes,
                         .byte_check = t->byte_check,
                         .assigned_bytes = t->assigned_bytes,
                         .passed = t->passed};
}

void tc_capture_begin(tc_trace *t, tc_capture *c) {
  *c = (tc_capture){.outer = t->capture, .was = tc_trace_mark_now(t), .first_node = t->n_node};
  t->autocast.casts.epoch = 0;  // the body has casts of its own
  t->capture = c;
}

void tc_capture_end(tc_trace *t, tc_capture *c) {
  t->capture = c->outer;
}

// Slots whose node is taken out have none; what they store is as it was.
static void forget_nodes(tc_trace *t, const tc_capture *c) {
  for (uint32_t n = c->was.n_node; n < t->n_node; n++)
    if (t->slot_of[n] != TC_SLOT_NONE) tc_slot_of(t->slot_of[n])->epoch = 0;
  for (uint32_t i = 0; i < c->n_seen; i++) {
    if (c->seen[i].kind != TC_SEEN_HANDLE) continue;
    tc_trace *owner;
    tc_slot *s = tc_slot_find(c->seen[i].handle, &owner);
    if (owner == t && s->epoch == t->epoch && s->node >= c->was.n_node) s->epoch = 0;
  }
}

static void restore_assigned(tc_trace *t, const tc_capture *c, const tc_assigned *a) {
  tc_slot *s = tc_slot_of(a->handle.slot);
  if (s->gen != a->handle.gen) return;
  tc_slot_set_value(s, a->was.buf, a->was.run, a->was.flags & TC_SLOT_FREED);
  s->run_node = a->was.run_node, s->err = a->was.err, s->node = a->was.node;
  s->epoch = a->was.epoch == t->epoch && a->was.node >= c->was.n_node ? 0 : a->was.epoch;
  s->flags = (uint8_t)((s->flags & ~TC_SLOT_HAS_DEFERRED) | (a->was.flags & TC_SLOT_HAS_DEFERRED));
  if (s->epoch != t->epoch || !(a->node_flag & TC_NODE_LIVE)) return;
  t->slot_of[s->node] = a->handle.slot;
  t->flag[s->node] |= a->node_flag;
}

static void restore_grads(tc_trace *t, tc_capture *c) {
  for (uint32_t i = 0; i < c->n_graded; i++) {
    tc_graded *g = &c->graded[i];
    tc_slot *s = tc_slot_of(g->param.slot);
    if (s->gen != g->param.gen) continue;
    tc_tensor now = s->grad;
    s->grad = g->was, g->was = (tc_tensor){0, 0};
    if (now.gen) tc_slot_release_handle(t, now);
  }
}

void tc_trace_cut(tc_trace *t, const tc_trace_mark *was) {
  for (uint32_t i = was->n_leaf; i < t->n_leaf; i++) tc_buffer_release(t->leaf[i].buf);
  for (uint32_t i = was->n_past; i < t->n_past; i++) tc_run_release(t->past[i].run);
  uint32_t n_param_node = 0;
  for (uint32_t i = 0; i < t->n_param_node; i++)
    if (t->param_node[i].node < was->n_node) t->param_node[n_param_node++] = t->param_node[i];
  t->n_leaf = was->n_leaf, t->n_past = was->n_past, t->n_param_node = n_param_node;
  t->n_node = was->n_node, t->n_word = was->n_word, t->n_arg = was->n_arg;
  t->n_of = TC_MIN(t->n_of, was->n_node);
  t->counter = was->counter, t->most_nodes = was->most_nodes;
  t->leaf_bytes = was->leaf_bytes, t->byte_check = was->byte_check, t->assigned_bytes = was->assigned_bytes;
  t->passed = was->passed;
  t->memo_epoch++;
}

void tc_capture_undo(tc_trace *t, tc_capture *c) {
  const tc_trace_mark *was = &c->was;
  for (uint32_t i = c->n_step; i-- > 0;) c->step[i].ops_of->undo(c->step[i].owner, c->step[i].note);
  restore_grads(t, c);
  for (uint32_t i = was->n_user; i < t->n_user; i++) {
    tc_buffer_release(t->user[i].buf);
    tc_slot_settle(t, t->user[i].slot);
  }
  t->n_user = TC_MIN(t->n_user, was->n_user);
  forget_nodes(t, c);
  for (uint32_t i = 0; i < c->n_assigned; i++) restore_assigned(t, c, &c->assigned[i]);
  tc_trace_cut(t, was);
}

void tc_capture_fini(tc_trace *t, tc_capture *c) {
  for (uint32_t i = 0; i < c->n_assigned; i++) {
    if (c->assigned[i].was.buf) tc_buffer_release(c->assigned[i].was.buf);
    tc_run_release(c->assigned[i].was.run);
  }
  for (uint32_t i = 0; i < c->n_graded; i++)
    if (c->graded[i].was.gen) tc_slot_release_handle(t, c->graded[i].was);
  for (uint32_t i = 0; i < c->n_step && !c->keeps_steps; i++) tc_step_fini(&c->step[i]);
  for (uint32_t i = 0; i < c->n_watch; i++) tc_watched_release(c->watch[i].of);
  tc_free(c->seen), tc_free(c->assigned), tc_free(c->graded), tc_free(c->step), tc_free(c->watch);
}
