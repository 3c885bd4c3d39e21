// A fragment: the records of a body of the program, traced once, which any trace takes as if the
// body had been recorded there.
//
// In: a capture of the body (lazy/trace/capture.h). Out: records with operands renumbered, and what
// the body does besides: tensors it assigns, gradients it sets, random draws it makes.
//
//   numbers   0 .. n_operand-1            operands from outside: arguments, tensors that the body
//                                         found, their gradients, constants
//             n_operand .. +n_node-1      records; what nothing needs is left out
//
// Invariants: immutable. A trace that holds the operands alone, in their order, takes the words as
// they are.
// Threads: counted; any thread may append it to its own trace. Owner: it retains the tensors that
// the body found, and constants.
#pragma once

#include "lazy/trace/capture.h"

// What guards see of a node's history: TAPE, FREED_IN where any of it was freed, REQUIRES_GRAD.
static inline uint8_t tc_history_of(const tc_trace *t, tc_node n) {
  uint8_t f = t->flag[n];
  return (uint8_t)((f & (TC_NODE_TAPE | TC_NODE_REQUIRES_GRAD)) | ((f & TC_NODE_NO_HISTORY) ? TC_NODE_FREED_IN : 0));
}

typedef enum tc_operand_kind {
  TC_OPERAND_ARG,     // an argument, by number
  TC_OPERAND_HANDLE,  // a tensor that the body found
  TC_OPERAND_GRAD,    // the gradient of the parameter that the handle is
  TC_OPERAND_CONST,   // a buffer that recording made
} tc_operand_kind;

typedef struct tc_operand {
  tc_operand_kind kind;
  uint32_t arg;
  tc_tensor handle;  // retained
  tc_buffer *buf;  // retained
  uint32_t shape;
  uint8_t type, device;
  uint8_t history;  // as tc_history_of; what the operand must have when the fragment is taken
} tc_operand;

// A tensor that the body assigns: an argument, or a tensor that it found.
typedef struct tc_fragment_assign {
  int arg;  // -1: handle
  tc_tensor handle;  // retained
  uint32_t node;  // the number of its new value
} tc_fragment_assign;

typedef struct tc_fragment_grad {
  tc_tensor param;  // retained
  bool had;  // it had a gradient before
  bool keeps;  // it keeps the one it had, or has none
  uint32_t node;  // the number of its new gradient. TC_NODE_ERR: it has none then
} tc_fragment_grad;

typedef struct tc_fragment_draw {
  uint32_t arg;  // of the seed; the counter follows
  uint32_t nth;  // of the body
} tc_fragment_draw;

typedef enum tc_result_kind {
  TC_RESULT_NODE,    // a new tensor
  TC_RESULT_ARG,     // an argument itself
  TC_RESULT_HANDLE,  // a tensor that the body found
  TC_RESULT_SAME,    // the same tensor as an earlier result
  TC_RESULT_NONE,    // no tensor
} tc_result_kind;

typedef struct tc_fragment_result {
  tc_result_kind kind;
  uint32_t number;  // of the node, argument or earlier result that `kind` names
  tc_tensor handle;  // retained
} tc_fragment_result;

typedef struct tc_fragment {
  _Atomic uint32_t refs;
  uint32_t n_operand, n_node, n_word, n_arg, n_result, n_assign, n_grad, n_draw, n_param_node, n_step, n_watch;
  uint32_t n_drawn;  // counters that the body takes
  uint64_t assigned_bytes;
  uint64_t *word;
  uint32_t *at, *arg_at;  // per record: its first word and arg
  tc_call *call;
  tc_call *of;  // with TC_ANOMALY=1: as in the trace. NULL: not known
  uint8_t *flag, *dev;
  uint64_t *arg;
  tc_operand *operand;
  tc_fragment_result *result;
  tc_fragment_assign *assign;
  tc_fragment_grad *grad;
  tc_fragment_draw *draw;
  tc_watch_note *watch;  // numbers that the body went by
  tc_step *step;  // optimizers' steps; their args are numbers of the fragment's
  bool has_landmark;  // true: the program repeats behind it
  tc_param_node *param_node;  // nodes that are parameters' values; node is the record's number
} tc_fragment;

// pre: no trace is locked. NULL: does nothing.
void tc_fragment_release(tc_fragment *f);
// pre: no trace is locked. Retains the tensors that it names: once, when it is made.
void tc_fragment_hold(tc_fragment *f, tc_site site);
// Frees one that was not held. NULL: does nothing.
void tc_fragment_free(tc_fragment *f);
static inline tc_fragment *tc_fragment_retain(tc_fragment *f) {
  atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
  return f;
}

static inline const tc_rec *tc_fragment_rec(const tc_fragment *f, uint32_t nth) {
  return (const tc_rec *)(const void *)(f->word + f->at[nth]);
}

// ---- taking it ----
// All within an op of the trace: between tc_op_begin and tc_op_done.

// The nodes of its operands, the arguments' being given. False after reporting. A gradient that is
// not there is TC_NODE_ERR.
bool tc_fragment_operands(tc_trace *t, const tc_fragment *f, const tc_node *arg, tc_node *out);
// Whether the optimizers that it steps can be stepped as when it was traced.
bool tc_fragment_steps_fit(const tc_fragment *f);
// Appends its records, with these operands, which fit. Returns the node of its first record.
// TC_NODE_ERR: after reporting; or, without a report and with nothing appended, where an
// optimizer's step is another one now.
// Random draws take the thread's next counters, and optimizers' steps are counted.
tc_node tc_fragment_append(tc_trace *t, const tc_fragment *f, const tc_node *operand);
// The node of a number of the fragment.
static inline tc_node tc_fragment_node(const tc_fragment *f, const tc_node *operand, tc_node first, uint32_t number) {
  return number < f->n_operand ? operand[number] : first + (number - f->n_operand);
}
// Assigns and sets gradients as the body did. arg: the arguments' handles. False after reporting.
bool tc_fragment_effects(tc_trace *t, const tc_fragment *f, const tc_tensor *arg, const tc_node *operand,
                         tc_node first);
// Handles of its results, in the current scope. False after reporting.
bool tc_fragment_results(tc_trace *t, const tc_fragment *f, const tc_tensor *arg, const tc_node *operand, tc_node first,
                         tc_tensor *out);
