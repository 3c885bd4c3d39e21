// Records: an op with its operands, attributes and type, as words; and the flags of nodes.
//
// In: words of a trace or plan. Out: what they say.
// Invariants: operands are smaller numbers than the record; a scalar is not in it but among the
// args, by position.
// Threads: constant once recorded. Owner: the trace or plan.
#pragma once

#include "lazy/trace/op_table.h"

typedef struct tc_rec {
  uint16_t op_args;  // op in the low 8 bits, number of args above
  uint8_t dtype, n_extra;
  uint32_t shape;    // interned
  // The operands. Of a row with more than two, in[0] is their count, and they lie in the extra
  // words, two a word. Of a row with none, in[0] is the device.
  uint32_t in[2];
} tc_rec;  // n_extra words of 8 bytes follow
_Static_assert(TC_N_OP_ROWS <= 256, "a record's op has 8 bits");
#define TC_MAX_ARGS 255  // of one record

// Flags of a node. Bit 16 is SOLE in a key, and FREED_IN in the flags of a trace or run.
// FREED_IN is in no key: what is recorded of such a value needs no plan of its own.
enum {
  TC_NODE_LIVE = 1,  // a handle stands for it
  TC_NODE_KEEP = 2,  // stored whatever it costs: a parameter, a gradient, or kept by tc_keep
  TC_NODE_TAPE = 4,  // may be differentiated through
  TC_NODE_ASKED = 8,  // the sync stores it for its caller
  TC_NODE_SOLE = 16,  // a leaf: nobody but the trace holds the buffer
  // Computed from a value whose history was freed: a backward that gives it a gradient fails.
  TC_NODE_FREED_IN = 16,
  TC_NODE_FREED = 32,  // its history was freed by a backward
  TC_NODE_REQUIRES_GRAD = 64,  // the value of a parameter (requires_grad): differentiation ends here
  TC_NODE_USER = 128,  // a leaf: memory of the caller, which assigns must reach
  TC_NODE_REMATERIALIZE = 128,  // not a leaf: a recipe used again, stored this time
};

#define TC_NODE_NO_HISTORY (TC_NODE_FREED | TC_NODE_FREED_IN)  // a backward that meets it fails

static inline tc_op tc_rec_op(const tc_rec *r) {
  return (tc_op)(r->op_args & 255);
}
static inline uint32_t tc_rec_args(const tc_rec *r) {
  return r->op_args >> 8;
}
static inline int tc_rec_arity(const tc_rec *r) {
  int arity = tc_op_arity[tc_rec_op(r)];
  return arity > 2 ? (int)r->in[0] : arity;
}
static inline const uint32_t *tc_rec_in(const tc_rec *r) {
  return tc_op_arity[tc_rec_op(r)] > 2 ? (const uint32_t *)(const void *)(r + 1) : r->in;
}
static inline const uint64_t *tc_rec_attr(const tc_rec *r) {
  const uint64_t *extra = (const uint64_t *)(const void *)(r + 1);
  return tc_op_arity[tc_rec_op(r)] > 2 ? extra + (r->in[0] + 1) / 2 : extra;
}
// How many attributes the record has.
static inline int tc_rec_attrs(const tc_rec *r) {
  return tc_op_arity[tc_rec_op(r)] > 2 ? r->n_extra - (int)(r->in[0] + 1) / 2 : r->n_extra;
}
