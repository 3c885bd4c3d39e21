// Deferred errors. See deferred_error.h.
#include "lazy/trace/thread_trace.h"
#include "lazy/trace/deferred_error.h"

#include "runtime/reentry.h"

// One error is deferred at a time: one that stands, or that clearing does not settle (clears: 0),
// stays before one that clearing settles.
void tc_trace_defer_error(tc_trace *t, tc_status st, tc_site site, uint64_t clears) {
  bool stands = t->deferred != TC_OK && (!t->deferred_clears || t->deferred_clears == tc_error_clears());
  if (stands && clears) return;
  t->deferred = st, t->deferred_site = site, t->deferred_clears = clears;
  t->deferred_error = (tc_error_mark){tc_error_now().status == st ? tc_error_now().id : 0, st, true};
}

tc_status tc_trace_deferred_error(tc_trace *t, const char *op, tc_site site) {
  if (TC_LIKELY(t->deferred == TC_OK)) return TC_OK;
  tc_status st = t->deferred;
  char at[160];
  tc_site_text(t->deferred_site, at, sizeof at);
  t->deferred = TC_OK;
  if (t->deferred_clears && t->deferred_clears != tc_error_clears()) return TC_OK;
  if (tc_error_tell(t->deferred_error)) return st;
  return tc_fail(st, op, site, "what failed at %s has left tensors as they were", at[0] ? at : "an unknown place");
}

tc_status tc_defer_error(tc_status st, tc_site site) {
  if (TC_LIKELY(st == TC_OK) || tc_inside || !tc_enter("deferred error", site)) return st;
  tc_trace *t = tc_trace_self();
  if (t) {
    tc_biased_lock_own(&t->lock);
    tc_trace_defer_error(t, st, site, tc_error_clears());
    tc_biased_unlock_own(&t->lock);
  }
  tc_leave();
  return st;
}
