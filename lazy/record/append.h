// Appending to the pending trace: records as they are given, leaves, and the nodes of slots and
// runs.
//
// In: what a record is made of, or a slot or run's node. Out: the node.
// Invariants: nothing is checked; a trace's nodes are all in one memory.
// Threads: under the trace's lock. Owner: the trace retains the buffers of leaves.
#pragma once

#include "lazy/trace/trace.h"

// Room for a record of so many words and args, slow part: false out of memory.
bool tc_trace_grow(tc_trace *t, uint32_t words, uint32_t args);
static inline bool tc_trace_room(tc_trace *t, uint32_t words, uint32_t args) {
  bool fits = t->n_word + words <= t->cap_word && (args == 0 || t->n_arg + args <= t->cap_arg);
  return TC_LIKELY(fits && t->n_node < t->cap_node) || tc_trace_grow(t, words, args);
}
// The node of the record whose words and args lie behind the others.
static inline __attribute__((always_inline)) tc_node tc_trace_take(tc_trace *t, uint32_t words, uint32_t args,
                                                                   uint8_t flag, tc_device device) {
  tc_node n = t->n_node++;
  t->at[n] = t->n_word, t->arg_at[n] = t->n_arg, t->slot_of[n] = TC_SLOT_NONE,
  t->call[n] = (tc_call){t->op, t->op_site};
  t->flag[n] = flag, t->dev[n] = (uint8_t)device;
  t->n_word += words, t->n_arg += args;
  return n;
}
// What a record of operands with these flags, all together, has of their history: TAPE, FREED_IN or
// neither. Where no gradient goes through, it has none.
static inline uint8_t tc_trace_history(const tc_trace *t, tc_op op, tc_type type, uint8_t operands) {
  if (!t->tape) return 0;
  if (TC_LIKELY((operands & TC_NODE_TAPE) || !(operands & TC_NODE_NO_HISTORY))) return operands & TC_NODE_TAPE;
  return !tc_op_rows[op].is_flat && tc_type_is_float(type) ? TC_NODE_FREED_IN : 0;
}
// What most records are: an op of one operand, a, or of two, with nothing else; of one, b is 0.
// Checks nothing. TC_NODE_ERR after reporting when out of memory.
static inline __attribute__((always_inline)) tc_node tc_trace_append_plain(tc_trace *t, tc_op op, tc_type type,
                                                                           uint32_t shape, bool two, tc_node a,
                                                                           tc_node b) {
  if (TC_UNLIKELY(!tc_trace_room(t, 2, 0))) return tc_rec_fail(t, TC_ERR_MEMORY, "no room to record");
  tc_rec *r = (tc_rec *)(void *)(t->word + t->n_word);
  r->op_args = (uint16_t)op, r->dtype = (uint8_t)type, r->n_extra = 0, r->shape = shape, r->in[0] = a, r->in[1] = b;
  uint8_t operands = two ? t->flag[a] | t->flag[b] : t->flag[a];
  return tc_trace_take(t, 2, 0, tc_trace_history(t, op, type, operands), (tc_device)t->dev[a]);
}
// Appends a record; checks nothing. TC_NODE_ERR after reporting when out of memory.
tc_node tc_trace_append(tc_trace *t, tc_op op, tc_type type, uint32_t shape, int n_in, const tc_node *in, int n_attr,
                        const uint64_t *attr, int n_arg, const uint64_t *arg, tc_device device);
// Another node with the value of n, for a handle of its own.
tc_node tc_trace_copy(tc_trace *t, tc_node n);
// A leaf for a buffer (retained).
tc_node tc_trace_leaf(tc_trace *t, tc_buffer *buf, tc_type type, uint32_t shape, tc_device device);
// The value in a strided buffer: a leaf of its span, and the records that leave out the gaps. It is
// no slot's node: the slot's value stays in its memory.
tc_node tc_trace_strided_leaf(tc_trace *t, tc_buffer *buf, tc_type type, tc_device device);
// Makes node n the value of a parameter: differentiation ends there. False after reporting.
bool tc_trace_requires_grad(tc_trace *t, tc_node n, tc_tensor param);
// Where the open op makes what it is given no value of: beside its operands, or on the thread's
// default device.
static inline tc_device tc_trace_device(const tc_trace *t) {
  return t->n_taken ? t->op_device : tc_device_default();
}
// The node of a slot of this trace.
tc_node tc_trace_node(tc_trace *t, tc_slot *s, tc_tensor handle);
// Before the first node in another memory is appended, what is pending runs. False after reporting.
bool tc_trace_enter_memory(tc_trace *t, tc_device d);
// The value of a run's node in trace t, with its history: a leaf if stored, else its recipe
// recorded again.
tc_node tc_run_replay(tc_trace *t, tc_run *r, uint32_t node);
