// Counts of an optimizer's steps, on the device. A step that a gradient scaler skips is not one,
// and the host does not know of it.
//
// In: which parameters take part in a step, and whether it is skipped. Out: the number of the step,
// as a node, and counts that have moved on.
// Parameters that took the same steps share a count. Where only some of them take part, those get a
// count of their own. A parameter counts on the host until its first step with a scaler.
// Invariants: what a failed step has made is in use by no parameter.
// Threads: thread-compatible, under the trace's lock where nodes are recorded. Owner: an optimizer
// has a reference to each count.
#pragma once

#include "lazy/record/record.h"

enum { TC_ON_HOST = -1 };  // no number of a count: the parameter counts on the host

typedef struct tc_step_count {
  tc_tensor steps;  // i64, rank 0
  tc_tensor product;  // of the steps' momenta, f64, rank 0. {0, 0}: none is kept
  int n_members;  // parameters that count by it. 0: the place is free
  int n_here, n_next;  // of the step being recorded: members that take part; members after it
  int source;  // the number of the count that the step adds to: itself, or the one it leaves
  int64_t host;  // the host's count that it continues, if it is new; else -1
  double host_product;  // likewise
  tc_node number, next;  // of this step; the count after it
  tc_node product_before, product_now, product_next;  // before the step, with it, and after it
} tc_step_count;
typedef struct tc_step_counts {
  tc_step_count *at;
  int n;
  uint32_t cap;
  bool has_product;
} tc_step_counts;

// Begins a step: no parameter takes part yet.
void tc_step_counts_open(tc_step_counts *c);
// A parameter takes part, whose count is `now`: first all that take part are told so.
void tc_step_counts_join(tc_step_counts *c, int now);
// Then each asks for its count after the step. host_steps, host_product: on the host until now.
// TC_ERR_MEMORY.
tc_status tc_step_counts_next(tc_step_counts *c, int now, int64_t host_steps, double host_product, tc_tensor param,
                              tc_site site, int *out);
// Records the number of the step and the counts after it. skip: bool of rank 0, or TC_NODE_ERR.
// Products with this step are the caller's to record. False after reporting.
bool tc_step_counts_record(tc_step_counts *c, tc_trace *t, tc_node skip);
// Assigns the counts; parameters then have those that they were given.
tc_status tc_step_counts_assign(tc_step_counts *c, tc_trace *t);
// A parameter counts by another one, or on the host, from now on.
void tc_step_counts_move(tc_step_counts *c, int *now, int next);
void tc_step_counts_fini(tc_step_counts *c);
