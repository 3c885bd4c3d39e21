// A function that is traced has no graph. See capture_break.h.
#include "lazy/trace/thread_trace.h"
#include "lazy/trace/capture.h"

void tc_capture_break_mine(const char *why, const char *by, tc_site where) {
  tc_trace *t = tc_trace_mine;
  if (TC_LIKELY(!t || !t->capture)) return;
  tc_biased_lock_own(&t->lock);
  tc_capture_break(t, why, by, where);
  tc_biased_unlock_own(&t->lock);
}

uint64_t tc_capture_read(tc_watched *w) {
  tc_trace *t = tc_trace_mine;
  if (TC_UNLIKELY(t && t->capture)) {
    tc_biased_lock_own(&t->lock);
    tc_capture_watch(t, w, tc_watched_value(w));
    tc_biased_unlock_own(&t->lock);
  }
  return tc_watched_value(w);
}
