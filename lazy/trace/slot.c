// Slots: what handles stand for, in chunks that belong to a trace, and the scopes that release them. See trace.h.
//
// Always: a slot is free (gen even, in its trace's list) or in use (gen odd, refs at least 1); a chunk's owner never changes, and it is freed with the last
// trace. Threads: finding a slot takes no lock; all else is under the lock of its trace.
#include "lazy/trace/plan.h"
#include "lazy/trace/trace.h"
#include "runtime/log.h"
#include "runtime/reentry.h"

_Atomic(tc_chunk *) tc_slot_chunk[TC_N_CHUNKS];
static _Atomic uint32_t n_chunks;

static bool chunk_add(tc_trace *t) {
  tc_chunk *chunk = tc_calloc(1, sizeof *chunk);
  if (!chunk) return false;
  chunk->owner = t;
  uint32_t c = atomic_load(&n_chunks);
  while (c < TC_N_CHUNKS && !atomic_compare_exchange_weak(&n_chunks, &c, c + 1)) {
  }
  if (c == TC_N_CHUNKS) return tc_free(chunk), false;
  for (uint32_t i = TC_CHUNK_SLOTS; i-- > 0;) {
    if (c == 0 && i == 0) continue;  // handle {0, 0} is no tensor
    chunk->slot[i].next = t->free_slot;
    t->free_slot = c * TC_CHUNK_SLOTS + i;
  }
  atomic_store_explicit(&tc_slot_chunk[c], chunk, memory_order_release);
  return true;
}

void tc_slot_free_all(void) {
  for (uint32_t c = 0; c < atomic_load(&n_chunks); c++) tc_free(atomic_exchange(&tc_slot_chunk[c], NULL));
}

// Takes handles released before their scope's end out of the innermost scope (or of what belongs to none): a loop may keep and release for ever. Looks
// only once they may have become twice as many.
static void pool_tidy(tc_trace *t) {
  uint32_t from = t->n_mark ? t->mark[t->n_mark - 1] : 0, to = from;
  if (t->n_pool - from < 2 * t->n_tidy + 64) return;
  for (uint32_t i = from; i < t->n_pool; i++) {
    tc_trace *owner;
    if (tc_slot_find(t->pool[i], &owner)->gen == t->pool[i].gen) t->pool[to++] = t->pool[i];
  }
  t->n_pool = to;
  t->n_tidy = to - from;
}

tc_tensor tc_trace_handle(tc_trace *t, tc_node n, bool pooled) {
  tc_trace *owner;
  if (t->free_slot == TC_SLOT_NONE && !chunk_add(t)) return tc_rec_fail(t, TC_ERR_MEMORY, "no room for a handle"), tc_poison(TC_ERR_MEMORY);
  if (pooled && t->n_pool == t->cap_pool) pool_tidy(t);
  if (pooled && t->n_pool == t->cap_pool) {
    uint32_t cap = t->cap_pool ? t->cap_pool * 2 : 256;
    tc_tensor *pool = tc_realloc(t->pool, cap * sizeof *pool);
    if (!pool) return tc_rec_fail(t, TC_ERR_MEMORY, "no room for a handle"), tc_poison(TC_ERR_MEMORY);
    t->pool = pool, t->cap_pool = cap;
  }
  tc_tensor h = {t->free_slot, 0};
  tc_slot *s = tc_slot_find(h, &owner);
  t->free_slot = s->next;
  h.gen = s->gen + 1;
  s->gen = h.gen, s->refs = 1, s->epoch = 0, s->flags = 0, s->grad = (tc_tensor){0, 0}, s->err = TC_OK;  // no buf, no run
  if (n != TC_NODE_ERR) {
    const tc_rec *r = tc_rec_of(t, n);
    s->epoch = t->epoch, s->node = n, s->shape = r->shape, s->dtype = r->dtype, s->device = t->dev[n];
    t->slot_of[n] = h.slot;
    t->flag[n] |= TC_NODE_LIVE;
    if (TC_UNLIKELY(tc_rec_op(r) == TC_OP_LEAF)) s->buf = tc_buffer_retain(tc_trace_leaf_of(t, n));  // data: the slot has its value already
  }
  t->n_slots++;
  if (pooled) t->pool[t->n_pool++] = h;
  return h;
}

tc_tensor tc_trace_handle_stored(tc_trace *t, const tc_stored *v, tc_run *run, uint32_t home, bool pooled) {
  tc_tensor h = tc_trace_handle(t, TC_NODE_ERR, pooled);
  if (h.slot >= TC_POISON) return h;
  tc_trace *owner;
  tc_slot *s = tc_slot_find(h, &owner);
  s->shape = v->shape, s->dtype = (uint8_t)v->type, s->device = (uint8_t)v->device, s->home = home;
  s->buf = tc_buffer_retain(v->buf);
  tc_slot_set_run(s, run);
  return h;
}

// pre: gen is even.
static void slot_free(tc_trace *t, tc_slot *s, uint32_t slot) {
  if (s->epoch == t->epoch && t->slot_of[s->node] == slot) {
    t->slot_of[s->node] = TC_SLOT_NONE;
    t->flag[s->node] &= (uint8_t)~(TC_NODE_LIVE | TC_NODE_KEEP);
  }
  if (s->buf) tc_buffer_release(s->buf);
  tc_slot_set_run(s, NULL);
  s->buf = NULL;
  if (s->gen == 0) return;  // a slot whose generation wraps is retired
  s->next = t->free_slot;
  t->free_slot = slot;
}

static void slot_release(tc_trace *t, tc_slot *s, tc_tensor h) {
  if (--s->refs > 0) return;
  tc_tensor grad = s->grad;
  s->grad = (tc_tensor){0, 0};
  s->gen++;
  t->n_slots--;
  if (!(s->flags & TC_SLOT_OWES)) slot_free(t, s, h.slot);
  if (grad.gen) tc_slot_release(t, grad);
}

void tc_slot_settle(tc_trace *t, uint32_t slot) {
  tc_trace *owner;
  tc_slot *s = tc_slot_find((tc_tensor){slot, 0}, &owner);
  s->flags &= (uint8_t)~TC_SLOT_OWES;
  if (!(s->gen & 1)) slot_free(t, s, slot);
}

void tc_slot_release(tc_trace *t, tc_tensor h) {
  tc_trace *owner;
  tc_slot *s = tc_slot_find(h, &owner);
  if (s->gen == h.gen) slot_release(t, s, h);
}

void tc_slot_unlock(tc_trace *owner) {
  tc_trace_unlock(owner);
  tc_leave();
}

tc_slot *tc_slot_lock(tc_tensor h, const char *what, tc_site site, tc_trace **owner) {
  if (h.slot >= TC_POISON || !tc_enter(what ? what : "is_valid", site)) return NULL;
  (void)tc_trace_self();  // with one, nothing is freed at an exit beside this thread
  tc_slot *s = tc_slot_find(h, owner);
  bool here = s && (what ? tc_trace_here(*owner, what, site) == TC_OK : tc_trace_is_here(*owner));
  if (here) {
    tc_trace_lock(*owner);
    if (s->gen == h.gen && h.gen) return s;
    tc_trace_unlock(*owner);
  }
  tc_leave();
  if (what && (!s || here)) tc_fail(TC_ERR_HANDLE, what, site, "%s", tc_handle_fault(h));
  return NULL;
}

// ---- scopes ----

// The place where the oldest open scope was begun, and the one that begins most like the newest: there an end is missing.
static tc_status fail_too_deep(const tc_trace *t) {
  char oldest[160], newest[160];
  uint32_t n = 0;
  tc_site last = t->scope_site[TC_MAX_SCOPES - 1];
  for (uint32_t i = 0; i < TC_MAX_SCOPES; i++) n += t->scope_site[i] == last;
  tc_site_text(t->scope_site[0], oldest, sizeof oldest);
  tc_site_text(last, newest, sizeof newest);
  return TC_FAIL(TC_ERR_STATE, "scopes nest too deeply: %d are open, the oldest of them since %s, and %u since %s: a tc_scope_end is missing",
                 TC_MAX_SCOPES, oldest[0] ? oldest : "an unknown place", n, newest[0] ? newest : "an unknown place");
}

// A scope that does not begin is owed to the next sync point: a program that looks at these alone would keep all its temporaries from then on.
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
  (void)tc_owe(st, site);
  return scope;
}

// Ends the scope and those left open inside it. Kept handles stay in the pool below the parent's mark.
static void scope_end(tc_trace *t, uint32_t depth) {
  uint32_t from = t->mark[depth - 1], to = from;
  for (uint32_t i = from; i < t->n_pool; i++) {
    tc_tensor h = t->pool[i];
    tc_trace *owner;
    tc_slot *s = tc_slot_find(h, &owner);
    if (s->gen != h.gen) continue;
    if (s->flags & TC_SLOT_KEEP) {
      s->flags &= (uint8_t)~TC_SLOT_KEEP;
      if (s->epoch == t->epoch && !(s->flags & TC_SLOT_GRAD)) t->flag[s->node] &= (uint8_t)~TC_NODE_KEEP;
      t->pool[to++] = h;
    } else {
      slot_release(t, s, h);
    }
  }
  t->n_pool = to;
  t->watch.low = TC_MIN(t->watch.low, to);
  t->n_mark = depth - 1;
  t->n_old_mark = TC_MIN(t->n_old_mark, t->n_mark);
  pool_tidy(t);
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

// ---- temporaries that outlive the steps that made them ----

enum {
  WATCHED_RUNS = 128,  // at one place, in which
  LEFT_BEHIND = 2,  // so many handles more a run is a program without scopes
  RUNS_ELSEWHERE = 1024  // in a row, until another place is watched
};

static void warn_of_temporaries(const tc_trace *t, uint32_t n_alive) {
  static atomic_flag told = ATOMIC_FLAG_INIT;
  char at[160], scope[160];
  if (atomic_flag_test_and_set(&told)) return;
  tc_site_text(t->watch.site, at, sizeof at);
  tc_site_text(t->n_mark ? t->scope_site[t->n_mark - 1] : 0, scope, sizeof scope);
  tc_log_line(TC_LOG_WARN,
              "%u temporaries of the last %u steps that ran at %s are alive%s%s: memory grows until a scope ends; begin one (tc_scope_begin) "
              "before each step, and end it after",
              n_alive, t->watch.n_runs, at[0] ? at : "an unknown place", t->n_mark ? ", in the scope begun at " : "", t->n_mark ? scope : "");
}

// Counted is what no scope's end has reached between two runs: the handles of a step that is under way are as many as they like.
void tc_pool_watch(tc_trace *t, tc_site site) {
  struct tc_pile *w = &t->watch;
  uint32_t stay = TC_MIN(w->low, t->n_pool);
  w->low = t->n_pool;
  if (site != w->site && w->site && ++w->n_others < RUNS_ELSEWHERE) return;
  bool counting = site == w->site && stay >= w->n_pool;
  if (!counting) *w = (struct tc_pile){.site = site, .n_pool = stay, .low = t->n_pool};
  w->n_others = 0;
  if (++w->n_runs < WATCHED_RUNS) return;
  uint32_t n_alive = 0;
  for (uint32_t i = stay - w->n_pool < LEFT_BEHIND * WATCHED_RUNS ? stay : w->n_pool; i < stay; i++) {
    tc_trace *owner;
    n_alive += tc_slot_find(t->pool[i], &owner)->gen == t->pool[i].gen;
  }
  if (n_alive >= LEFT_BEHIND * WATCHED_RUNS) warn_of_temporaries(t, n_alive);
  *w = (struct tc_pile){.site = site, .n_pool = stay, .low = t->n_pool};
}

// ---- the end of all ----

// Forgets every slot of a chunk of this trace. Handles to them are stale from now on.
static void chunk_close(tc_trace *t, tc_chunk *chunk, uint32_t first) {
  for (uint32_t i = 0; i < TC_CHUNK_SLOTS; i++) {
    tc_slot *s = &chunk->slot[i];
    if (!(s->gen & 1)) continue;
    s->refs = 1, s->grad = (tc_tensor){0, 0};
    tc_slot_release(t, (tc_tensor){first + i, s->gen});
  }
}

void tc_trace_forget_plan(struct tc_plan *gone) {
  if (tc_trace_mine) tc_plan_forget(tc_trace_mine, gone);  // which may have no chunk
  for (uint32_t c = 0; c < atomic_load(&n_chunks); c++) {
    tc_chunk *chunk = atomic_load_explicit(&tc_slot_chunk[c], memory_order_acquire);
    if (chunk && chunk->owner != tc_trace_mine && tc_trace_is_here(chunk->owner)) tc_plan_forget(chunk->owner, gone);
  }
}

void tc_trace_close_all(void) {
  if (!tc_enter("shutdown", 0)) return;
  for (uint32_t c = 0; c < TC_N_CHUNKS; c++) {
    tc_chunk *chunk = atomic_load_explicit(&tc_slot_chunk[c], memory_order_acquire);
    tc_trace *t = chunk ? chunk->owner : NULL;
    if (!t || !tc_trace_is_here(t)) continue;
    tc_trace_lock(t);
    tc_trace_reset(t);
    t->n_pool = t->n_mark = t->n_old_mark = 0;
    t->owed = TC_OK;
    tc_plan_forget_latest(t);
    while (t->n_map) tc_buffer_release(t->map[--t->n_map].buf);
    chunk_close(t, chunk, c * TC_CHUNK_SLOTS);
    tc_trace_unlock_or_retire(t);
  }
  tc_trace *mine = tc_trace_mine;  // which may have no chunk
  if (mine) {
    tc_biased_lock_own(&mine->lock);
    mine->owed = TC_OK;
    tc_biased_unlock_own(&mine->lock);
  }
  tc_leave();
}
