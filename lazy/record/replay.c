// The nodes of slots and runs: a stored value becomes a leaf, and a recipe is recorded again. See
// append.h.
#include <string.h>

#include "lazy/record/append.h"
#include "lazy/record/outline.h"
#include "lazy/trace/capture.h"
#include "runtime/passes.h"

// Gives node n of the trace the history of a run's node, if it has one. TC_NODE_ERR after
// reporting.
static tc_node add_past(tc_trace *t, tc_node n, tc_run *run, uint32_t run_node) {
  uint8_t kept = run->flag[run_node] & (TC_NODE_TAPE | TC_NODE_NO_HISTORY);
  if (!(kept & TC_NODE_TAPE) || (t->flag[n] & TC_NODE_TAPE)) return t->flag[n] |= kept, n;
  if (!TC_GROW(t->past, t->cap_past, t->n_past + 1)) return tc_rec_fail(t, TC_ERR_MEMORY, "no room to record");
  t->past[t->n_past++] = (tc_past){n, run_node, tc_run_retain(run)};
  t->flag[n] |= kept;
  return n;
}

static bool todo_push(tc_trace *t, uint32_t *n_todo, uint32_t node) {
  if (!TC_GROW(t->todo, t->cap_todo, *n_todo + 1)) return tc_rec_fail(t, TC_ERR_MEMORY, "no room to record"), false;
  t->todo[(*n_todo)++] = node;
  return true;
}

// Records one record of run r in t, its operands being there.
static tc_node record_again(tc_trace *t, const tc_run *r, uint32_t node) {
  const tc_plan *p = r->plan;
  const tc_rec *rec = tc_plan_rec(p, node);
  tc_node in[512];
  int n_in = tc_rec_arity(rec), n_attr = tc_rec_attrs(rec);
  for (int i = 0; i < n_in; i++) in[i] = r->memo[tc_rec_in(rec)[i]];
  bool tape = tc_rec_tape(t, false);
  tc_node n = tc_trace_append(t, tc_rec_op(rec), (tc_type)rec->dtype, rec->shape, n_in, in, n_attr, tc_rec_attr(rec),
                              (int)tc_rec_args(rec), r->arg + p->arg_at[node], (tc_device)p->dev[node]);
  if (n != TC_NODE_ERR) t->call[n] = r->call[node];
  tc_rec_tape(t, tape);
  return n;
}

// Records node of run r again in t, without history: a stored value or leaf becomes a leaf; a
// recipe its records, operands first. Recipes are long: what is still to do lies in the trace's
// memory, not on the stack.
static tc_node replay(tc_trace *t, tc_run *r, uint32_t root) {
  const tc_plan *p = r->plan;
  uint32_t n_todo = 0;
  if (!todo_push(t, &n_todo, root)) return TC_NODE_ERR;
  while (n_todo) {
    uint32_t node = t->todo[n_todo - 1];
    tc_count(TC_PASS_RUNS, 1);
    if (r->memo[node] != TC_NODE_ERR) {
      n_todo--;
      continue;
    }
    const tc_rec *rec = tc_plan_rec(p, node);
    bool leaf = tc_rec_op(rec) == TC_OP_LEAF, stored = p->out_of[node] != TC_LEAF_NONE;
    tc_buffer *buf = leaf ? r->leaf[p->leaf_of[node]].buf : stored ? r->out[p->out_of[node]] : NULL;
    if (!buf && (leaf || (stored && !r->failed)))
      return tc_rec_fail(t, TC_ERR_STATE, "the value of an earlier %s is gone", r->call[node].op);
    uint32_t n_before = n_todo;
    for (int i = buf ? 0 : tc_rec_arity(rec); i-- > 0;)
      if (r->memo[tc_rec_in(rec)[i]] == TC_NODE_ERR && !todo_push(t, &n_todo, tc_rec_in(rec)[i])) return TC_NODE_ERR;
    if (n_todo > n_before) continue;
    tc_node n = buf ? tc_trace_leaf(t, buf, (tc_type)rec->dtype, rec->shape, (tc_device)p->dev[node])
                    : record_again(t, r, node);
    if (n == TC_NODE_ERR) return n;
    r->memo[node] = n;
  }
  return r->memo[root];
}

tc_node tc_run_replay(tc_trace *t, tc_run *r, uint32_t node) {
  if (r->memo_epoch != t->memo_epoch || r->memo_trace != t) {
    memset(r->memo, 0xFF, r->plan->n_node * sizeof r->memo[0]);
    r->memo_epoch = t->memo_epoch, r->memo_trace = t;
  }
  tc_node n = replay(t, r, node);
  return n == TC_NODE_ERR ? n : add_past(t, n, r, node);
}

static tc_node node_of_stored(tc_trace *t, tc_slot *s, tc_tensor h) {
  tc_node n;
  if (!tc_trace_enter_memory(t, (tc_device)s->device)) return TC_NODE_ERR;
  if (s->err) {
    const char *absent = tc_device_absent((tc_device)s->device);
    if (absent)
      return tc_rec_fail(t, s->err, "the operand's value was lost with %s: %s", tc_device_name((tc_device)s->device),
                         absent);
    return tc_rec_fail(t, s->err, "the operand's value %s", tc_slot_lost(s));
  }
  if (TC_UNLIKELY(t->outline != NULL)) return tc_outline_slot(t, s, h);
  bool strided = s->buf && s->buf->strided;
  if (s->buf) {
    n = strided ? tc_trace_strided_leaf(t, s->buf, (tc_type)s->dtype, (tc_device)s->device)
                : tc_trace_leaf(t, s->buf, (tc_type)s->dtype, s->shape, (tc_device)s->device);
    if (n != TC_NODE_ERR && s->run) n = add_past(t, n, s->run, s->run_node);
    if (n != TC_NODE_ERR && (s->flags & TC_SLOT_FREED)) t->flag[n] |= TC_NODE_FREED_IN;
  } else if (s->run) {
    n = tc_run_replay(t, s->run, s->run_node);
    if (n != TC_NODE_ERR && tc_rec_op(tc_rec_of(t, n)) != TC_OP_LEAF) t->flag[n] |= TC_NODE_REMATERIALIZE;
  } else {
    return tc_rec_fail(t, TC_ERR_STATE, "the operand has no value");
  }
  if (n == TC_NODE_ERR || ((s->flags & TC_SLOT_GRAD) && !tc_trace_requires_grad(t, n, h))) return TC_NODE_ERR;
  if (TC_UNLIKELY(strided)) {
    s->epoch = t->epoch, s->node = n;  // found again, and not the slot's to publish
  } else if (t->slot_of[n] == TC_SLOT_NONE) {  // a replayed recipe may be another slot's node already
    s->epoch = t->epoch, s->node = n;
    t->slot_of[n] = h.slot;
    t->flag[n] |= TC_NODE_LIVE;
    if (s->flags & (TC_SLOT_KEEP | TC_SLOT_GRAD)) t->flag[n] |= TC_NODE_KEEP;
  }
  return n;
}

tc_node tc_trace_node(tc_trace *t, tc_slot *s, tc_tensor h) {
  if (TC_LIKELY(s->epoch == t->epoch)) return s->node;
  tc_node n = node_of_stored(t, s, h);
  if (TC_UNLIKELY(t->capture != NULL)) tc_capture_see(t, n, TC_SEEN_HANDLE, h);
  return n;
}
