// Bodies of control flow: records that a control op runs, as often as it says.
//
//   tc_scan(body, ..)   the body is called once, and what it records becomes a tc_body
//   CONTROL             names it by its id, among its attributes
//   TUPLE_ELEMENT       one result of the CONTROL: its bytes at an offset
//
// In: records that were taken out of a trace. Out: the body of that content, and its id.
// Invariants: equal content has one id, in every process. The first n_in nodes are the inputs, as
// leaves. Records name no device: all are on the CONTROL's. A body is pure: its results follow from
// its inputs and scalars. It lives as long as the process does.
// Threads: thread-safe; a body does not change. Owner: the table of bodies.
#pragma once

#include "lazy/trace/dims.h"
#include "lazy/trace/rec.h"

// CALL runs its body once. COND reads a bool, its first operand, and runs the first body or the
// second. WHILE runs the second body while the first gives true. SCAN runs its body over slices.
typedef enum tc_control_kind { TC_CONTROL_CALL, TC_CONTROL_COND, TC_CONTROL_WHILE, TC_CONTROL_SCAN } tc_control_kind;

typedef struct tc_body {
  uint64_t id;
  uint32_t n_word, n_node, n_arg, n_in, n_out, n_counter;
  uint64_t n_draw;  // random counters that a run of it takes
  uint64_t *word;  // the records
  uint32_t *at, *arg_at;  // per node: first word, first scalar
  uint32_t *out;  // per result: its node, which is no input and no other result's
  uint32_t *counter;  // the scalars that are random counters, by number
  tc_call *call;  // per node: the user's, when the body was recorded first
  struct tc_body *next;  // in the table
} tc_body;

static inline const tc_rec *tc_body_rec(const tc_body *b, uint32_t node) {
  return (const tc_rec *)(const void *)(b->word + b->at[node]);
}

// The body of this content, which is copied if it is new. NULL without memory.
const tc_body *tc_body_intern(const tc_body *content);
// The body with the id; NULL: there is none.
const tc_body *tc_body_find(uint64_t id);

// What the attributes of a CONTROL say.
typedef struct tc_control_facts {
  tc_control_kind kind;
  bool reverse;  // SCAN: the last slice first
  bool keeps;  // SCAN: the carries that enter each step are results, too
  uint32_t n_carry, n_scanned, n_stacked;  // results of a step after its carries, of which SCAN stacks all
  int64_t n_step;  // SCAN
  uint32_t n_body;
  const tc_body *body[2];
  uint32_t first_in;  // operands before those that are the bodies' inputs
} tc_control_facts;

// How many of a record's scalars are random counters, and which; the seed stands before each.
// out NULL: only counts.
uint32_t tc_rec_counters(const tc_rec *r, uint32_t *out);

// A result of a CONTROL. By number: last carries, then the step's results, of SCAN stacked, then
// kept carries.
typedef struct tc_control_result {
  uint32_t shape;  // interned
  tc_type type;
  uint64_t offset, bytes;  // where it lies in the CONTROL's value
  uint64_t step_bytes;  // of a stacked or kept one: of each step
} tc_control_result;

enum { TC_CONTROL_ATTRS = 4 };  // before the ids of bodies
#define TC_CONTROL_ALIGNED 64  // offsets of results
// The attributes of these facts. Returns their number.
int tc_control_attrs(const tc_control_facts *f, uint64_t attr[TC_CONTROL_ATTRS + 2]);
// False: the attributes name no body that is known, or do not fit it.
bool tc_control_facts_of(const uint64_t *attr, int n_attr, tc_control_facts *out);
uint32_t tc_control_n_results(const tc_control_facts *f);
// The layout of the value of a CONTROL. n_result: as tc_control_n_results has it. *bytes: of all.
// False: a shape is too large, or there is no memory for it.
bool tc_control_layout(const tc_control_facts *f, tc_control_result *result, uint64_t *bytes);
