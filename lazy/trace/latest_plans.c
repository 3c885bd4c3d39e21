// The plans of a trace's latest syncs. See latest_plans.h.
#include "lazy/trace/latest_plans.h"

#include <string.h>

#include "lazy/trace/trace.h"

// Locks the list of latest plans: cheap for the trace's own thread, slower for other threads.
static void lock_latest(tc_trace *t) {
  if (t == tc_trace_mine)
    tc_biased_lock_own(&t->latest_lock);
  else
    tc_biased_lock_other(&t->latest_lock);
}

static void unlock_latest(tc_trace *t) {
  if (t == tc_trace_mine)
    tc_biased_unlock_own(&t->latest_lock);
  else
    tc_biased_unlock_other(&t->latest_lock);
}

// Stores a plan, which may be NULL, in a place among them. Returns the previous one, with its
// reference.
static tc_plan *replace_latest(tc_trace *t, uint32_t i, tc_plan *p) {
  lock_latest(t);
  tc_plan *was = t->latest[i];
  t->latest[i] = p;
  unlock_latest(t);
  return was;
}

void tc_plan_forget_latest(tc_trace *t) {
  for (uint32_t i = 0; i < TC_LATEST_PLANS; i++) tc_plan_release(replace_latest(t, i, NULL));
}

void tc_plan_forget(tc_trace *t, tc_plan *gone) {
  uint32_t n = 0;
  lock_latest(t);
  for (int i = 0; i < TC_LATEST_PLANS; i++) {
    if (t->latest[i] != gone) continue;
    t->latest[i] = NULL;
    n++;
  }
  unlock_latest(t);
  while (n--) tc_plan_release(gone);
}

tc_plan *tc_latest_find(tc_trace *t, uint32_t n_word) {
  tc_plan *found = NULL;
  lock_latest(t);
  for (int i = 0; i < TC_LATEST_PLANS && !found; i++) {
    tc_plan *p = t->latest[i];
    if (p && p->n_word == n_word && memcmp(p->word, t->word, (size_t)n_word * sizeof t->word[0]) == 0)
      found = tc_plan_retain(p);
  }
  unlock_latest(t);
  return found;
}

// A plan that was evicted since it was found is removed again: the evicting thread has looked here
// already.
void tc_latest_add(tc_trace *t, tc_plan *p) {
  uint32_t i = t->next_latest++ % TC_LATEST_PLANS;
  tc_plan_release(replace_latest(t, i, tc_plan_retain(p)));
  if (atomic_load(&p->gone)) tc_plan_forget(t, p);
}
