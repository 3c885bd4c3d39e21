// Guards: what a call must have in common with the one that a graph was traced for.
//
// In: a call's arguments as nodes, and the memory its function reads. Out: whether a graph serves
// it, else which guard failed first.
// Invariants: immutable once made. What the fragment's operands must be stands in the fragment.
// Threads: under the lock of the calling thread's trace. Owner: the graph.
#pragma once

#include <tc/compile.h>

#include "lazy/compile/fragment.h"

// Of an argument, as its node has it.
typedef struct tc_guard_arg {
  uint32_t shape;
  uint8_t type, device, history;  // history: as tc_history_of
  int same;  // the first argument that is the same tensor
  tc_tensor param;  // the parameter that it is. {0, 0}: it is none
} tc_guard_arg;

typedef struct tc_guards {
  uint64_t context;  // tc_record_context
  int n_in, n_num, n_out;
  tc_guard_arg *arg;  // n_in of them
  uint8_t *bytes;  // of the statics, one after the other
} tc_guards;

// What a call gives.
typedef struct tc_call_facts {
  const tc_tensor *in;
  const double *num;
  int n_in, n_num, n_out;
  const tc_node *node;  // of the arguments, then of the numbers
  const tc_static *statics;
  int n_statics;
} tc_call_facts;

typedef enum tc_guard_kind {
  TC_GUARD_HOLDS,
  TC_GUARD_COUNT,
  TC_GUARD_CONTEXT,
  TC_GUARD_ARG,
  TC_GUARD_FOUND,  // an argument that the function finds, too
  TC_GUARD_STATIC,
  TC_GUARD_WATCH,  // a number of an object's that the function went by
  TC_GUARD_GRAD,
  TC_GUARD_OPERAND,
  TC_GUARD_OWNER,  // of an optimizer, which has ended or changed
} tc_guard_kind;

// The first guard that failed.
typedef struct tc_guard_failure {
  tc_guard_kind kind;
  uint32_t index;  // of the argument, static, gradient or operand
  tc_operand now;  // of an operand: what it is
} tc_guard_failure;

// The guards of a call. False out of memory.
bool tc_guards_make(const tc_trace *t, const tc_call_facts *call, tc_guards *g);
void tc_guards_free(tc_guards *g);
// Whether they hold. Those of arguments and gradients need no operand of the fragment.
bool tc_guards_hold(const tc_trace *t, const tc_guards *g, const tc_fragment *f, const tc_call_facts *call,
                    tc_guard_failure *failed);
// Whether the operands are what they were.
bool tc_guards_hold_operands(const tc_trace *t, const tc_fragment *f, const tc_node *operand, tc_guard_failure *failed);
// "argument 0 is f32[16,4], was f32[8,4]"
void tc_guards_tell(const tc_trace *t, const tc_guards *g, const tc_fragment *f, const tc_call_facts *call,
                    const tc_guard_failure *failed, char *out, size_t bytes);
// All of them, one a line.
void tc_guards_text(const tc_guards *g, const tc_fragment *f, const tc_static *statics, int n_statics, char *out,
                    size_t bytes);
