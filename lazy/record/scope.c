// Scopes: they release the handles made in them. See trace.h.
#include "lazy/trace/thread_trace.h"
#include "lazy/sync/sync.h"
#include "lazy/trace/deferred_error.h"
#include "runtime/reentry.h"

// The place where the oldest open scope was begun, and the one that begins most like the newest:
// there an end is missing.
static tc_status fail_too_deep(const tc_trace *t) {
  char oldest[160], newest[160];
  uint32_t n = 0;
  tc_site last = t->scope_site[TC_MAX_SCOPES - 1];
  for (uint32_t i = 0; i < TC_MAX_SCOPES; i++) n += t->scope_site[i] == last;
  tc_site_text(t->scope_site[0], oldest, sizeof oldest);
  tc_site_text(last, newest, sizeof newest);
  return TC_FAIL(
      TC_ERR_STATE,
      "scopes nest too deeply: %d are open, the oldest of them since %s, and %u since %s: a tc_scope_end is missing",
      TC_MAX_SCOPES, oldest[0] ? oldest : "an unknown place", n, newest[0] ? newest : "an unknown place");
}

// If a scope does not begin, its error is deferred to the next sync point. A program that looks at
// sync points alone would keep all its temporaries from then on.
tc_scope tc_scope_begin_at(tc_site site) {
  tc_scope scope = {0, 0};
  tc_status st = TC_OK;
  if (!tc_enter("scope_begin", site)) return scope;
  tc_trace *t = tc_trace_self();
  if (t) tc_biased_lock_own(&t->lock);
  if (!t) {
    st = TC_FAIL(TC_ERR_MEMORY, "no room for a trace");
  } else if (t->n_mark < TC_MAX_SCOPES) {
    t->scope_site[t->n_mark] = site;
    t->mark[t->n_mark++] = t->n_pool;
    scope = (tc_scope){t->n_mark, t->n_pool};
  } else {
    st = fail_too_deep(t);
  }
  if (t) tc_biased_unlock_own(&t->lock);
  tc_leave();
  (void)tc_defer_error(st, site);
  return scope;
}

// Ends the scope and those left open inside it. Kept handles stay in the pool below the parent's
// mark.
static void scope_end(tc_trace *t, uint32_t depth) {
  uint32_t from = t->mark[depth - 1], to = from;
  for (uint32_t i = from; i < t->n_pool; i++) {
    tc_tensor h = t->pool[i];
    tc_slot *s = tc_slot_of(h.slot);
    if (s->gen != h.gen) continue;
    if (s->flags & TC_SLOT_KEEP) {
      s->flags &= (uint8_t)~TC_SLOT_KEEP;
      if (s->epoch == t->epoch && t->slot_of[s->node] == h.slot && !(s->flags & TC_SLOT_GRAD))
        t->flag[s->node] &= (uint8_t)~TC_NODE_KEEP;
      t->pool[to++] = h;
    } else {
      tc_slot_release(t, s, h);
    }
  }
  t->n_pool = to;
  t->watch.low = TC_MIN(t->watch.low, to);
  t->n_mark = depth - 1;
  t->n_old_mark = TC_MIN(t->n_old_mark, t->n_mark);
  tc_pool_tidy(t);
}

// site 0: a scope of the library's own; the program does not repeat there.
void tc_scope_end_at(tc_scope scope, tc_site site) {
  if (scope.depth == 0 || !tc_enter("scope_end", site)) return;
  tc_trace *t = tc_trace_self();
  if (t) tc_biased_lock_own(&t->lock);
  if (t && scope.depth <= t->n_mark && t->mark[scope.depth - 1] == scope.mark) {
    scope_end(t, scope.depth);
    if (site) tc_trace_landmark(t, site, true);
  } else {
    (void)TC_FAIL(TC_ERR_STATE, "the scope has ended already, or belongs to another thread");
  }
  if (t) tc_biased_unlock_own(&t->lock);
  tc_leave();
}
