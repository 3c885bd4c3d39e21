// Sync points: run what is pending, publish values, and begin the trace anew.
#pragma once

#include "lazy/trace/trace.h"

typedef enum tc_cause {
  TC_CAUSE_ITEM,
  TC_CAUSE_TO_HOST,
  TC_CAUSE_MAP,
  TC_CAUSE_PRINT,
  TC_CAUSE_SAVE,
  TC_CAUSE_EVAL,
  TC_CAUSE_SYNC,
  TC_CAUSE_BOUND,
  TC_CAUSE_LANDMARK,
  TC_CAUSE_CROSS_THREAD,
  TC_CAUSE_EAGER,
  TC_CAUSE_REPLAY,  // of a trace's text
  TC_CAUSE_RETAKE,  // an expensive recipe was asked for
  TC_CAUSE_TO,  // a value goes to another memory
  TC_CAUSE_MEMORY,  // what follows is in another memory
  TC_CAUSE_BACKWARD,  // a gradient goes to another memory
  TC_CAUSE_ALIAS,  // an assign goes to memory that another borrow covers, too
  TC_CAUSE_REGION,  // a region begins or ends whose options make other plans
  TC_N_CAUSES
} tc_cause;
// pre: locked. Runs what is pending and closes the trace; asked nodes are stored.
tc_status tc_trace_sync(tc_trace *t, tc_cause cause, tc_site site, int n_asked, const tc_node *asked);
// pre: locked. Appends flags, sole bits and environment after the records, so that the key is one
// run of words; returns its length, 0 out of memory.
// peek: true: another thread looks at values of the trace, which goes on.
uint32_t tc_trace_close_key(tc_trace *t, int n_asked, const tc_node *asked, bool peek);
// pre: locked. Runs what is pending for an op that may need none of it. If that fails because its
// device is lost, the op goes on without an error; reading those values reports it.
// Where memory of the caller's was to be written, the op fails.
tc_status tc_trace_make_way(tc_trace *t, tc_cause cause, tc_site site);
// pre: locked. TC_OK, or why node n may not be run because it is read here: TC_SYNC=error, or a
// region with fullgraph.
tc_status tc_trace_may_read(const tc_trace *t, tc_node n, tc_site site);

// pre: locked. The program repeats here, at a scope's end or an optimizer's: a long trace is cut if
// nothing on the tape is alive.
void tc_trace_landmark(tc_trace *t, tc_site site, bool is_scope);
// A landmark at the place of the open op.
void tc_rec_landmark(tc_trace *t);
