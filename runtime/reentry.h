// Keeps a thread from entering the library while it is inside: a signal handler that interrupted a call, a release callback, a log sink. Locks are not
// recursive and a trace may be half written, so such a call is an error instead of a deadlock.
// Every public function that takes a lock begins with tc_enter and ends with tc_leave; the library itself calls none of them in between. Where exit()
// is called inside, destructors take no lock either: they return, and what they would free the system does.
// Threads: per thread; safe in signal handlers.
#ifndef TC_RUNTIME_REENTRY_H
#define TC_RUNTIME_REENTRY_H

#include <signal.h>
#include <stdatomic.h>

#include "runtime/status.h"

extern _Thread_local volatile sig_atomic_t tc_inside;
// The call that is inside: what an error names when nothing nearer is known, such as memory that a sync did not get.
extern _Thread_local tc_call tc_inside_call;

static inline tc_status tc_refuse_inside(const char *op, tc_site site) {
  return tc_fail(TC_ERR_STATE, op, site, "called inside another call of this thread, by a signal handler or a callback");
}

// False after reporting TC_ERR_STATE: then nothing may be touched, and tc_leave is not called.
static inline bool tc_enter(const char *op, tc_site site) {
  if (TC_UNLIKELY(tc_inside)) {
    (void)tc_refuse_inside(op, site);
    return false;
  }
  tc_inside_call = (tc_call){tc_outer_op ? tc_outer_op : op, site};
  if (!tc_outer_op) tc_call_failed = false;
  tc_inside = 1;
  atomic_signal_fence(memory_order_seq_cst);
  return true;
}

static inline void tc_leave(void) {
  atomic_signal_fence(memory_order_seq_cst);
  tc_inside = 0;
}

#endif
