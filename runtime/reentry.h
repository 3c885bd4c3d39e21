// Keeps a thread from entering the library while it is inside. Calls come from a signal handler
// that interrupted one, a release callback or a log sink. Locks are not recursive and a trace may
// be half written, so such a call fails instead of deadlocking.
// Invariants: every public function that takes a lock begins with tc_enter and ends with tc_leave.
// The library itself calls none of them in between. If exit() is called inside, destructors take no
// lock and return; the system frees the memory.
// Threads: per thread; safe in signal handlers.
#pragma once

#include <stdatomic.h>

#include "runtime/inside.h"
#include "runtime/status.h"

// pre: this thread is outside. Returns the op that the call is named by.
static inline const char *tc_enter_outside(const char *op, tc_site site) {
  if (tc_outer_op)
    op = tc_outer_op;
  else
    tc_call_failed = false;
  tc_inside_call = (tc_call){op, site};
  tc_inside = 1;
  atomic_signal_fence(memory_order_seq_cst);
  return op;
}
// Returns false after reporting TC_ERR_STATE; then the caller touches nothing and does not call
// tc_leave.
static inline bool tc_enter(const char *op, tc_site site) {
  if (TC_UNLIKELY(tc_inside)) {
    (void)tc_refuse_inside(op, site);
    return false;
  }
  (void)tc_enter_outside(op, site);
  return true;
}

static inline void tc_leave(void) {
  atomic_signal_fence(memory_order_seq_cst);
  tc_inside = 0;
}
