// Appending to the pending trace: records as they are given, leaves and values of parameters. See
// append.h.
#include <string.h>

#include "lazy/record/append.h"
#include "lazy/sync/sync.h"

bool tc_trace_grow(tc_trace *t, uint32_t words, uint32_t args) {
  if (!TC_GROW(t->word, t->cap_word, t->n_word + words) || !TC_GROW(t->arg, t->cap_arg, t->n_arg + args)) return false;
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

// In the middle of an op that holds nodes already nothing can run.
bool tc_trace_enter_memory(tc_trace *t, tc_device d) {
  if (TC_LIKELY(t->n_node == 0 || t->dev[0] == d || tc_device_memory((tc_device)t->dev[0]) == tc_device_memory(d)))
    return true;
  if (t->n_taken || t->dropped)
    return tc_rec_fail(t, TC_ERR_DEVICE, "operands are on %s and %s", tc_device_name((tc_device)t->dev[0]),
                       tc_device_name(d)),
           false;
  t->op_status = tc_trace_make_way(t, TC_CAUSE_MEMORY, t->op_site);
  return t->op_status == TC_OK;
}

tc_node tc_trace_append(tc_trace *t, tc_op op, tc_type type, uint32_t shape, int n_in, const tc_node *in, int n_attr,
                        const uint64_t *attr, int n_arg, const uint64_t *arg, tc_device device) {
  bool wide = tc_op_arity[op] > 2;
  uint32_t extra = (uint32_t)(wide ? (n_in + 1) / 2 : 0) + (uint32_t)n_attr;
  if (extra > 255 || n_arg > TC_MAX_ARGS)
    return tc_rec_fail(t, TC_ERR_ARG, "%d operands and %d scalars are more than one record can hold", n_in, n_arg);
  if (n_in == 0 && !tc_trace_enter_memory(t, device)) return TC_NODE_ERR;
  if (TC_UNLIKELY(!tc_trace_room(t, 2 + extra, (uint32_t)n_arg)))
    return tc_rec_fail(t, TC_ERR_MEMORY, "no room to record");
  tc_rec *r = (tc_rec *)(void *)(t->word + t->n_word);
  r->op_args = (uint16_t)(op | (uint32_t)n_arg << 8);
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

tc_node tc_trace_copy(tc_trace *t, tc_node n) {
  const tc_rec *r = tc_rec_of(t, n);
  return tc_trace_append_plain(t, TC_OP_RESHAPE, (tc_type)r->dtype, r->shape, false, n, 0);
}

tc_node tc_trace_leaf(tc_trace *t, tc_buffer *buf, tc_type type, uint32_t shape, tc_device device) {
  if (!TC_GROW(t->leaf, t->cap_leaf, t->n_leaf + 1)) return tc_rec_fail(t, TC_ERR_MEMORY, "no room to record");
  tc_node n = tc_trace_append(t, TC_OP_LEAF, type, shape, 0, NULL, 0, NULL, 0, NULL, device);
  if (n == TC_NODE_ERR) return n;
  t->flag[n] = buf->origin == TC_ORIGIN_USER ? TC_NODE_USER : 0;
  t->leaf[t->n_leaf++] = (tc_leaf){n, tc_buffer_retain(buf)};
  t->leaf_bytes += buf->bytes;
  return n;
}

bool tc_trace_requires_grad(tc_trace *t, tc_node n, tc_tensor param) {
  if (!TC_GROW(t->param_node, t->cap_param_node, t->n_param_node + 1))
    return tc_rec_fail(t, TC_ERR_MEMORY, "no room to record"), false;
  t->param_node[t->n_param_node++] = (tc_param_node){n, param};
  t->flag[n] |= TC_NODE_REQUIRES_GRAD | TC_NODE_TAPE;
  return true;
}
