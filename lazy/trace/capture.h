// Notes of what a body touches outside it while it is traced for its graph: operands that it finds,
// tensors that it assigns, gradients.
//
// In: the calls of the thread while its trace has a capture. Out: notes, from which a fragment is
// made (lazy/compile/fragment.h), and by which the trace is put back to what it was.
// Invariants: of a tensor or gradient the first note tells what it was before the body. A capture
// that is broken has no graph: of what follows only which tensors are assigned is noted, and the
// body's records stay.
// Threads: under the lock of the trace. Owner: the call that traces the body.
#pragma once

#include "lazy/trace/capture_break.h"
#include "lazy/trace/trace.h"

typedef enum tc_seen_kind {
  TC_SEEN_ARG,  // a stand-in for an argument; handle.slot is its number
  TC_SEEN_HANDLE,  // the value of a handle
} tc_seen_kind;

// A node that comes from outside.
typedef struct tc_seen {
  tc_node node;
  tc_seen_kind kind;
  tc_tensor handle;
} tc_seen;

// A tensor that the body assigns, as it was before.
typedef struct tc_assigned {
  tc_tensor handle;
  tc_slot was;  // its buffer and run are retained
  uint8_t node_flag;  // LIVE and KEEP of its node, where it had one in this trace
  tc_call by;  // what assigns it first
} tc_assigned;

// A parameter whose gradient the body reads or sets.
typedef struct tc_graded {
  tc_tensor param, was;  // was: its gradient before, with a reference. {0, 0}: it had none
} tc_graded;

// What an optimizer's step is to a body. owner: the optimizer, which counts steps in C and records
// numbers that follow from its learning rates and counts.
typedef struct tc_step_ops {
  void (*retain)(void *owner), (*release)(void *owner);
  // A note of the entries that a step updates, those of `like`, and of what the owner has counted
  // for them until now. NULL out of memory.
  void *(*note)(void *owner, const void *like);
  // Whether the step can be taken again as it was noted.
  bool (*fits)(const void *owner, const void *note);
  // Records the step's numbers behind the trace's others, as it would record them now. False after
  // reporting.
  bool (*record_numbers)(tc_trace *t, void *owner, const void *note);
  // The step whose numbers were recorded last is taken: it is counted.
  void (*count)(void *owner, const void *note);
  // The owner has counted what it had at the note.
  void (*undo)(void *owner, const void *note);
} tc_step_ops;

typedef struct tc_step {
  const tc_step_ops *ops_of;  // the kind of owner
  void *owner;  // retained
  void *note;  // owned; freed by tc_free
  uint64_t ops;  // hash of the records that its numbers were recorded by: tc_trace_ops
  uint32_t n_arg, *arg;  // where its numbers lie among the args; owned. UINT32_MAX: one is left out
} tc_step;

// A number of an object, such as a training mode, that the body read; a guard compares it.
typedef struct tc_watch_note {
  struct tc_watched *of;  // retained
  uint64_t value;
} tc_watch_note;

// Counts of a trace, at which it can be cut.
typedef struct tc_trace_mark {
  uint32_t n_word, n_node, n_arg, n_leaf, n_past, n_user;
  uint64_t counter, most_nodes, leaf_bytes, byte_check, assigned_bytes;
  bool passed;
} tc_trace_mark;

typedef struct tc_capture {
  struct tc_capture *outer;  // of a body that calls this one. NULL: none
  tc_trace_mark was;  // before the body and its stand-ins
  tc_node first_node;  // of the body; stand-ins for arguments stand before
  tc_seen *seen;
  uint32_t n_seen, cap_seen;
  tc_assigned *assigned;
  uint32_t n_assigned, cap_assigned;
  tc_graded *graded;
  uint32_t n_graded, cap_graded;
  tc_step *step;  // in their order
  uint32_t n_step, cap_step;
  tc_watch_note *watch;
  uint32_t n_watch, cap_watch;
  bool keeps_steps;  // true: a fragment has taken over what they own
  bool has_landmark;  // true: the program repeats at the body's end
  // Why the body has no graph, and where that is known. NULL: it may have one
  const char *why, *by;  // by: the op, or the cause of the sync
  tc_site where;
  bool may_pass;  // true: that was for want of memory, or a sync that the body did not ask for
} tc_capture;

// Whether an assigned tensor was there before the body.
static inline bool tc_was_before(const tc_trace *t, const tc_capture *c, const tc_assigned *a) {
  return a->was.buf || a->was.run || a->was.epoch != t->epoch || a->was.node < c->first_node;
}

// The notes. pre: t has a capture.
void tc_capture_see(tc_trace *t, tc_node n, tc_seen_kind kind, tc_tensor handle);
// False after reporting: the op fails, since without the note its effect would be lost.
bool tc_capture_assign(tc_trace *t, tc_tensor handle, const tc_slot *s);
void tc_capture_grad(tc_trace *t, tc_tensor param, tc_slot *s);
void tc_capture_watch(tc_trace *t, struct tc_watched *w, uint64_t value);
// Forgets what was seen at nodes from `first` on, which leave the trace.
void tc_capture_forget(tc_trace *t, tc_node first);
// The body, and those that call it, have no graph. why: static, "a sync point"; by: the op's name.
void tc_capture_break(tc_trace *t, const char *why, const char *by, tc_site where);
// Breaks this capture for a cause that may pass: another trial may succeed.
void tc_capture_break_for_now(tc_trace *t, const char *why, const char *by, tc_site where);
// A step of which the trace has the numbers at its args. Takes over note and args, and retains the
// owner. note or arg NULL: there was no memory. pre: t has a capture.
void tc_capture_step(tc_trace *t, tc_step step);
// Hash of the ops of the records from `first` on, whatever their operands.
uint64_t tc_trace_ops(const tc_trace *t, tc_node first);
void tc_step_fini(tc_step *s);
// Takes the records from the mark on, which no slot stands for, out of the trace.
void tc_trace_cut(tc_trace *t, const tc_trace_mark *mark);
tc_trace_mark tc_trace_mark_now(const tc_trace *t);
// As tc_capture_break, by the open op. Does nothing if its trace has no capture.
static inline void tc_capture_break_op(tc_trace *t, const char *why) {
  if (TC_UNLIKELY(t->capture != NULL)) tc_capture_break(t, why, t->op, t->op_site);
}

// Begins: what is recorded from now on is the body's, but for stand-ins of arguments, after which
// the caller sets first_node. c is overwritten.
void tc_capture_begin(tc_trace *t, tc_capture *c);
// Ends it, the innermost; notes stay until tc_capture_fini.
void tc_capture_end(tc_trace *t, tc_capture *c);
// pre: it is not broken. Takes out of the trace what was recorded since it began, and gives
// assigned tensors, gradients and the random counter back what they were.
void tc_capture_undo(tc_trace *t, tc_capture *c);
// Releases what the notes hold.
void tc_capture_fini(tc_trace *t, tc_capture *c);
