// The state of one differentiation: adjoints of records in the pending trace and in older runs, and
// of parameters.
//
// In: records on the tape. Out: a place for the gradient of each, and what rules may ask (vjp.h).
// Invariants: a walk goes down by falling numbers, first in the trace, then in the runs it crosses
// into, latest first.
// Threads: under the trace's lock. Owner: the walk holds runs and stored adjoints until
// tc_walk_fini; its memory is the trace's scratch.
#pragma once

#include "lazy/autograd/vjp.h"
#include "lazy/trace/run.h"
#include "lazy/trace/trace.h"

typedef struct tc_segment {
  tc_run *run;  // retained. NULL: the pending trace
  tc_node *adjoint;  // per node; TC_NODE_ERR: none
  uint32_t n;
  uint32_t *param, *past;  // per node: 1 + its number among param_node and past. 0: none
  uint32_t n_param_node, n_past;  // of those lists, how many were entered
  struct tc_segment *next;
} tc_segment;

// What a parameter gathers over the whole walk: one sum in the order of the records, however the
// syncs cut them into runs.
typedef struct tc_param_sum {
  tc_tensor param;
  tc_node sum;
  bool whole;  // true: the gradient that the parameter had is in it
  struct tc_param_sum *next;
} tc_param_sum;

// An adjoint is TC_NODE_ERR (none), a node of the pending trace, or a stored value. With this bit
// it is the number of a slot to which the walk holds a reference.
#define TC_WALK_HELD (UINT32_C(1) << 31)

// A result of control flow that has an adjoint, which waits for the others'.
typedef struct tc_element {
  const tc_segment *s;  // of the CONTROL, whose node it is
  uint32_t control, number;  // number: which result it is
  tc_node adjoint;
  struct tc_element *next;
} tc_element;

typedef struct tc_walk {
  tc_trace *t;
  void (*visit)(struct tc_walk *w, tc_segment *s, uint32_t node);  // differentiates one record
  tc_element *elements;
  tc_segment *segments;  // the trace's first until it runs, then runs, latest first
  tc_param_sum *params, **last_param;
  tc_param_sum **param_at;  // the same, by the hash of their slots
  uint32_t n_params, n_param_at;
  tc_segment *at;  // of the record being differentiated
  uint32_t node;  // that record
  bool create_graph, retain;  // true: TC_CREATE_GRAPH; history is kept
  uint32_t n_held;  // adjoints that are stored values
  tc_segment *now;  // of the pending trace, while it is to be run
  tc_node *asked;  // of the sync being prepared
  int n_asked;
  // where gradients go: into xs (grads_of), or to parameters
  const tc_tensor *xs;
  tc_node *x_grad;
  int n_xs;
  int *x_at,
      // x_at: by hash of run and node, the first of xs there; x_next: the one after each. Coded as
      // twice its number plus 1, or plus 2 if it is found by its run. 0: none
      *x_next;
  uint32_t n_x_at;
} tc_walk;

// Adds a segment behind those of later runs, from `at` in the list on. NULL after reporting.
tc_segment *tc_walk_add_segment(tc_walk *w, tc_segment **at, tc_run *run, uint32_t n);
// Facts of node n of a segment.
const tc_rec *tc_walk_rec(const tc_walk *w, const tc_segment *s, uint32_t n);
uint8_t tc_walk_flag(const tc_walk *w, const tc_segment *s, uint32_t n);
tc_device tc_walk_device(const tc_walk *w, const tc_segment *s, uint32_t n);
// size: a power of two.
uint32_t tc_walk_hash(uint64_t a, uint64_t b, uint32_t size);
// The place of a parameter in the table; what is there is NULL if it has no sum.
tc_param_sum **tc_walk_param(const tc_walk *w, tc_tensor p);
// Where gradients of node n are summed: at the record that made the value, in whichever run that
// is, or at the parameter.
tc_node *tc_walk_adjoint(tc_walk *w, tc_segment *s, uint32_t n);
// The record at which gradients of node n of segment s are summed: on return it is node n of s.
// False: they are summed at a parameter.
bool tc_walk_find_record(tc_walk *w, tc_segment **s, uint32_t *n);
// Whether the adjoint is a stored value; its slot; a new one; its end.
bool tc_walk_is_held(tc_node a);
tc_slot *tc_walk_held_slot(tc_node a, tc_tensor *out);
tc_node tc_walk_held(tc_walk *w, tc_tensor h);
void tc_walk_drop(tc_walk *w, tc_node *a);
// Another use of the same adjoint.
tc_node tc_walk_use_again(tc_walk *w, tc_node a);
// Returns the adjoint as a node of the pending trace, and ends the walk's hold on it.
tc_node tc_walk_take(tc_walk *w, tc_node *a);
// Frees the history of the trace's records that have adjoints.
void tc_walk_free_pending(tc_walk *w, const tc_segment *s);
// Enters each of xs by its node of the pending trace, and by its run and node. Those of another
// thread are found as parameters.
void tc_walk_find_asked(tc_walk *w);
// Runs what is pending; adjoints are held from then on. False after reporting. The trace's own
// records were walked before. The history of those reached is freed here: the sync need not store
// for it.
bool tc_walk_settle(tc_walk *w);
// Whether a node on d can be recorded with what is pending.
bool tc_walk_is_pending_in(const tc_trace *t, tc_device d);
// To be called before something is recorded on a device: settles if need be. False after reporting.
bool tc_walk_enter(tc_walk *w, tc_device d);
// Adds g, which is used up, to what is at a place, both on device d. If g is a node, what is
// pending is there.
void tc_walk_add_to(tc_walk *w, tc_node *at, tc_node g, tc_device d);
void tc_walk_fini(tc_walk *w);
tc_node tc_walk_widened(const tc_vjp *v, tc_node n);
