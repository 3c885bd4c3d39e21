// Appending to the pending trace: records as they are given, leaves, and nodes of slots. Checks nothing; see trace.h.
#include <string.h>

#include "lazy/trace/trace.h"

bool tc_trace_grow(tc_trace *t, uint32_t words, uint32_t args) {
  if (t->n_word + words > t->cap_word) {
    uint32_t cap = TC_MAX_OF(t->cap_word * 2, t->n_word + words + 1024);
    uint64_t *p = tc_realloc(t->word, cap * sizeof *p);
    if (!p) return false;
    t->word = p, t->cap_word = cap;
  }
  if (t->n_arg + args > t->cap_arg) {
    uint32_t cap = TC_MAX_OF(t->cap_arg * 2, t->n_arg + args + 256);
    uint64_t *p = tc_realloc(t->arg, cap * sizeof *p);
    if (!p) return false;
    t->arg = p, t->cap_arg = cap;
  }
  if (t->n_node < t->cap_node) return true;
  uint32_t cap = t->cap_node ? t->cap_node * 2 : 512;
  bool ok = true;
#define GROW(field) \
  do { \
    void *p = tc_realloc(t->field, cap * sizeof t->field[0]); \
    if (p) \
      t->field = p; \
    else \
      ok = false; \
  } while (0)
  GROW(at);
  GROW(arg_at);
  GROW(slot_of);
  GROW(call);
  GROW(flag);
  GROW(dev);
#undef GROW
  if (ok) t->cap_node = cap;
  return ok;
}

// Nodes of a trace are all in one memory. Before the first of another one is recorded what is pending runs; in the middle of an op that holds nodes
// already it cannot.
static bool enter_memory(tc_trace *t, tc_device d) {
  if (TC_LIKELY(t->n_node == 0 || t->dev[0] == d || tc_device_memory((tc_device)t->dev[0]) == tc_device_memory(d))) return true;
  if (t->n_taken || t->dropped)
    return tc_rec_fail(t, TC_ERR_DEVICE, "operands are on %s and %s", tc_device_name((tc_device)t->dev[0]), tc_device_name(d)), false;
  t->op_status = tc_trace_make_way(t, TC_CAUSE_MEMORY, t->op_site);
  return t->op_status == TC_OK;
}

tc_node tc_trace_append(tc_trace *t, tc_op op, tc_type type, uint32_t shape, int n_in, const tc_node *in, int n_attr, const uint64_t *attr, int n_arg,
                        const uint64_t *arg, tc_device device) {
  bool wide = tc_op_arity[op] > 2;
  uint32_t extra = (uint32_t)(wide ? (n_in + 1) / 2 : 0) + (uint32_t)n_attr;
  if (extra > 255 || n_arg > 63) return tc_rec_fail(t, TC_ERR_ARG, "%d operands are more than one record can hold", n_in);
  if (n_in == 0 && !enter_memory(t, device)) return TC_NODE_ERR;
  if (TC_UNLIKELY(!tc_trace_room(t, 2 + extra, (uint32_t)n_arg))) return tc_rec_fail(t, TC_ERR_MEMORY, "no room to record");
  tc_rec *r = (tc_rec *)(void *)(t->word + t->n_word);
  r->op_args = (uint16_t)(op | (uint32_t)n_arg << 10);
  r->dtype = (uint8_t)type, r->n_extra = (uint8_t)extra, r->shape = shape;
  r->in[0] = wide ? (uint32_t)n_in : n_in > 0 ? in[0] : (uint32_t)device;
  r->in[1] = !wide && n_in > 1 ? in[1] : 0;
  uint64_t *w = t->word + t->n_word + 2;
  if (wide) {
    if (n_in & 1) w[n_in / 2] = 0;
    memcpy(w, in, (size_t)n_in * sizeof in[0]);
    w += (n_in + 1) / 2;
  }
  for (int i = 0; i < n_attr; i++) w[i] = attr[i];
  for (int i = 0; i < n_arg; i++) t->arg[t->n_arg + (uint32_t)i] = arg[i];
  uint8_t operands = 0;
  for (int i = 0; i < n_in; i++) operands |= t->flag[in[i]];
  return tc_trace_take(t, 2 + extra, (uint32_t)n_arg, tc_trace_history(t, op, type, operands), device);
}

tc_node tc_trace_leaf(tc_trace *t, tc_buffer *buf, tc_type type, uint32_t shape, tc_device device) {
  if (t->n_leaf == t->cap_leaf) {
    uint32_t cap = t->cap_leaf ? t->cap_leaf * 2 : 64;
    tc_leaf *leaf = tc_realloc(t->leaf, cap * sizeof *leaf);
    if (!leaf) return tc_rec_fail(t, TC_ERR_MEMORY, "no room to record");
    t->leaf = leaf, t->cap_leaf = cap;
  }
  tc_node n = tc_trace_append(t, TC_OP_LEAF, type, shape, 0, NULL, 0, NULL, 0, NULL, device);
  if (n == TC_NODE_ERR) return n;
  t->flag[n] = buf->origin == TC_ORIGIN_USER ? TC_NODE_USER : 0;
  t->leaf[t->n_leaf++] = (tc_leaf){n, tc_buffer_retain(buf)};
  t->leaf_bytes += buf->bytes;
  return n;
}

// Leaves stand in the order of their nodes.
tc_buffer *tc_trace_leaf_of(const tc_trace *t, tc_node n) {
  uint32_t low = 0, high = t->n_leaf;
  while (high - low > 1) {
    uint32_t mid = (low + high) / 2;
    *(t->leaf[mid].node <= n ? &low : &high) = mid;
  }
  return t->leaf[low].buf;
}

tc_node tc_trace_past(tc_trace *t, tc_node n, tc_run *run, uint32_t home) {
  uint8_t kept = run->flag[home] & (TC_NODE_TAPE | TC_NODE_NO_HISTORY);
  if (!(kept & TC_NODE_TAPE) || (t->flag[n] & TC_NODE_TAPE)) return t->flag[n] |= kept, n;
  if (t->n_past == t->cap_past) {
    uint32_t cap = t->cap_past ? t->cap_past * 2 : 64;
    tc_past *past = tc_realloc(t->past, cap * sizeof *past);
    if (!past) return tc_rec_fail(t, TC_ERR_MEMORY, "no room to record");
    t->past = past, t->cap_past = cap;
  }
  t->past[t->n_past++] = (tc_past){n, home, tc_run_retain(run)};
  t->flag[n] |= kept;
  return n;
}

bool tc_trace_want(tc_trace *t, tc_node n, tc_tensor param) {
  if (t->n_want == t->cap_want) {
    uint32_t cap = t->cap_want ? t->cap_want * 2 : 64;
    tc_want *want = tc_realloc(t->want, cap * sizeof *want);
    if (!want) return tc_rec_fail(t, TC_ERR_MEMORY, "no room to record"), false;
    t->want = want, t->cap_want = cap;
  }
  t->want[t->n_want++] = (tc_want){n, param};
  t->flag[n] |= TC_NODE_WANT | TC_NODE_TAPE;
  return true;
}

static tc_node node_of_stored(tc_trace *t, tc_slot *s, tc_tensor h) {
  tc_node n;
  if (!enter_memory(t, (tc_device)s->device)) return TC_NODE_ERR;
  if (s->err) {
    const char *absent = tc_device_absent((tc_device)s->device);
    if (absent) return tc_rec_fail(t, s->err, "the operand's value was lost with %s: %s", tc_device_name((tc_device)s->device), absent);
    return tc_rec_fail(t, s->err, "the operand's value was lost by a run that failed");
  }
  if (s->buf) {
    n = tc_trace_leaf(t, s->buf, (tc_type)s->dtype, s->shape, (tc_device)s->device);
    if (n != TC_NODE_ERR && s->run) n = tc_trace_past(t, n, s->run, s->home);
    if (n != TC_NODE_ERR && (s->flags & TC_SLOT_FREED)) t->flag[n] |= TC_NODE_FREED_IN;
  } else if (s->run) {
    n = tc_run_replay(t, s->run, s->home);
    if (n != TC_NODE_ERR && tc_rec_op(tc_rec_of(t, n)) != TC_OP_LEAF) t->flag[n] |= TC_NODE_AGAIN;
  } else {
    return tc_rec_fail(t, TC_ERR_STATE, "the operand has no value");
  }
  if (n == TC_NODE_ERR || ((s->flags & TC_SLOT_GRAD) && !tc_trace_want(t, n, h))) return TC_NODE_ERR;
  if (t->slot_of[n] == TC_SLOT_NONE) {  // a replayed recipe may be another slot's node already
    s->epoch = t->epoch, s->node = n;
    t->slot_of[n] = h.slot;
    t->flag[n] |= TC_NODE_LIVE;
    if (s->flags & (TC_SLOT_KEEP | TC_SLOT_GRAD)) t->flag[n] |= TC_NODE_KEEP;
  }
  return n;
}

tc_node tc_trace_node(tc_trace *t, tc_slot *s, tc_tensor h) {
  return s->epoch == t->epoch ? s->node : node_of_stored(t, s, h);
}
