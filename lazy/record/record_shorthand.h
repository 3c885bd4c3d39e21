// What recording functions are made of: types and shapes of nodes, rules that they share, and
// appending. Included by record*.c only.
//
// Functions that check return false, TC_SHAPE_NONE or TC_NODE_ERR after reporting.
#pragma once

#include "lazy/record/append.h"
#include "lazy/record/record.h"

static inline tc_type type_of(const tc_trace *t, tc_node n) {
  return (tc_type)tc_rec_of(t, n)->dtype;
}
static inline uint32_t shape_of(const tc_trace *t, tc_node n) {
  return tc_rec_of(t, n)->shape;
}
static inline bool ok(const tc_trace *t, tc_node n) {
  return TC_LIKELY(n != TC_NODE_ERR && t->op_status == TC_OK);
}

uint32_t tc_rec_intern(tc_trace *t, const tc_dims *d);
// A record whose operands share a device; shape may be TC_SHAPE_NONE.
tc_node tc_rec_append(tc_trace *t, tc_op op, tc_type type, uint32_t shape, int n_in, const tc_node *in, int n_attr,
                      const uint64_t *attr, int n_arg, const uint64_t *arg);
tc_node tc_rec_append_dims(tc_trace *t, tc_op op, tc_type type, const tc_dims *d, tc_node a, int n_attr,
                           const uint64_t *attr);
// A record with the type and the shape of its operand, and one attribute.
tc_node tc_rec_append_like(tc_trace *t, tc_op op, tc_node a, uint64_t attr);
// PyTorch's rule within one category: the wider; u8 with a signed type takes the next wider signed
// one; f16 with bf16 is f32.
tc_type tc_type_promote(tc_type a, tc_type b);
// The shape two broadcast to.
uint32_t tc_rec_broadcast(tc_trace *t, uint32_t sa, uint32_t sb);
// A number that the type holds, as an argument.
uint64_t tc_rec_number_bits(tc_type type, double v);
// The first of a along each axis, as many as d says.
tc_node tc_rec_first(tc_trace *t, tc_node a, const tc_dims *d);
