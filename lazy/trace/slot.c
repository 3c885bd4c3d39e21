// Slots: what handles stand for, in chunks that belong to a trace. See trace.h.
//
// Invariants: a slot is free (gen even, in its trace's list) or in use (gen odd, refs at least 1).
// A chunk's owner never changes. Chunks are freed with the last trace.
// Threads: finding a slot takes no lock; all else is under the lock of its trace.
#include "lazy/trace/trace.h"
#include "runtime/log.h"

_Atomic(tc_chunk *) tc_slot_chunk[TC_N_CHUNKS];
_Atomic uint32_t tc_slot_n_chunks;

static bool chunk_add(tc_trace *t) {
  tc_chunk *chunk = tc_calloc(1, sizeof *chunk);
  if (!chunk) return false;
  chunk->owner = t;
  uint32_t c = atomic_load(&tc_slot_n_chunks);
  while (c < TC_N_CHUNKS && !atomic_compare_exchange_weak(&tc_slot_n_chunks, &c, c + 1)) {
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
  for (uint32_t c = 0; c < atomic_load(&tc_slot_n_chunks); c++) tc_free(atomic_exchange(&tc_slot_chunk[c], NULL));
}

void tc_pool_tidy(tc_trace *t) {
  uint32_t from = t->n_mark ? t->mark[t->n_mark - 1] : 0, to = from;
  if (t->n_pool - from < 2 * t->n_tidy + 64) return;
  for (uint32_t i = from; i < t->n_pool; i++)
    if (tc_slot_of(t->pool[i].slot)->gen == t->pool[i].gen) t->pool[to++] = t->pool[i];
  t->n_pool = to;
  t->n_tidy = to - from;
}

#define LEAST_POOL 256  // handles that a scope list has room for from the start

static __attribute__((noinline)) bool pool_grow(tc_trace *t) {
  tc_pool_tidy(t);
  return TC_GROW(t->pool, t->cap_pool, TC_MAX_OF(t->n_pool + 1, LEAST_POOL));
}

tc_tensor tc_trace_handle(tc_trace *t, tc_node n, bool pooled) {
  if (t->free_slot == TC_SLOT_NONE && !chunk_add(t))
    return tc_rec_fail(t, TC_ERR_MEMORY, "no room for a handle"), tc_poison(TC_ERR_MEMORY);
  if (pooled && TC_UNLIKELY(t->n_pool == t->cap_pool) && !pool_grow(t))
    return tc_rec_fail(t, TC_ERR_MEMORY, "no room for a handle"), tc_poison(TC_ERR_MEMORY);
  tc_slot *s;
  tc_tensor h = tc_slot_take(t, &s);
  if (n != TC_NODE_ERR) {
    tc_slot_name(t, s, h.slot, n);
    // data: the slot has its value already
    if (TC_UNLIKELY(tc_rec_op(tc_rec_of(t, n)) == TC_OP_LEAF)) s->buf = tc_buffer_retain(tc_trace_leaf_of(t, n));
  }
  if (pooled) t->pool[t->n_pool++] = h;
  return h;
}

// Of the slot's node, which was a parameter's value.
static void drop_param(tc_trace *t, uint32_t node) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < t->n_param_node; i++)
    if (t->param_node[i].node != node) t->param_node[n++] = t->param_node[i];
  t->n_param_node = n;
  t->flag[node] &= (uint8_t)~(TC_NODE_REQUIRES_GRAD | TC_NODE_TAPE | TC_NODE_NO_HISTORY);
}

tc_tensor tc_slot_refer(tc_trace *t, uint32_t slot) {
  tc_slot *s = tc_slot_of(slot);
  if (TC_UNLIKELY(t->n_pool == t->cap_pool) && !pool_grow(t))
    return tc_rec_fail(t, TC_ERR_MEMORY, "no room for a handle"), tc_poison(TC_ERR_MEMORY);
  if (s->gen & 1) {
    s->flags |= TC_SLOT_REBORROWED;
  } else {  // its handle is dead, and no parameter
    if (s->flags & TC_SLOT_GRAD) drop_param(t, s->node);
    s->gen++, s->refs = 0, s->flags &= TC_SLOT_HAS_DEFERRED;
    t->n_slots++;
  }
  s->refs++;
  return t->pool[t->n_pool++] = (tc_tensor){slot, s->gen};
}

tc_tensor tc_trace_handle_stored(tc_trace *t, const tc_stored *v, tc_run *run, uint32_t run_node, bool pooled) {
  tc_tensor h = tc_trace_handle(t, TC_NODE_ERR, pooled);
  if (h.slot >= TC_POISON) return h;
  tc_slot *s = tc_slot_of(h.slot);
  s->shape = v->shape, s->dtype = (uint8_t)v->type, s->device = (uint8_t)v->device, s->run_node = run_node;
  tc_slot_set_value(s, v->buf, run, false);
  return h;
}

static inline void leave_node(tc_trace *t, const tc_slot *s, uint32_t slot) {
  if (s->epoch != t->epoch || t->slot_of[s->node] != slot) return;
  t->slot_of[s->node] = TC_SLOT_NONE;
  t->flag[s->node] &= (uint8_t)~(TC_NODE_LIVE | TC_NODE_KEEP);
}

void tc_slot_leave_node(tc_trace *t, tc_slot *s, tc_tensor h) {
  leave_node(t, s, h.slot);
  s->epoch = 0, s->err = TC_OK;
}

void tc_slot_stand_for(tc_trace *t, tc_slot *s, tc_tensor h, tc_node n) {
  tc_slot_leave_node(t, s, h);
  tc_slot_set_value(s, NULL, NULL, false);
  s->epoch = t->epoch, s->node = n;
  t->slot_of[n] = h.slot;
  t->flag[n] |= TC_NODE_LIVE | ((s->flags & (TC_SLOT_KEEP | TC_SLOT_GRAD)) ? TC_NODE_KEEP : 0);
}

static inline void push_free(tc_trace *t, tc_slot *s, uint32_t slot) {
  if (TC_UNLIKELY(s->gen == 0)) return;  // a slot whose generation wraps is retired
  s->next = t->free_slot;
  t->free_slot = slot;
}

// pre: gen is even.
static void slot_free(tc_trace *t, tc_slot *s, uint32_t slot) {
  leave_node(t, s, slot);
  if (s->buf) tc_buffer_release(s->buf);
  if (s->run) tc_run_leave(s->run, s->flags & TC_SLOT_RECIPE);
  s->buf = NULL, s->run = NULL;
  push_free(t, s, slot);
}

// The slot, whose last reference is gone, has a stored value, a gradient or a deferred assign.
static __attribute__((noinline)) void end_value(tc_trace *t, tc_slot *s, uint32_t slot) {
  tc_tensor grad = s->grad;
  s->grad = (tc_tensor){0, 0};
  if (!(s->flags & TC_SLOT_HAS_DEFERRED)) slot_free(t, s, slot);
  if (grad.gen) tc_slot_release_handle(t, grad);
}

void tc_slot_release(tc_trace *t, tc_slot *s, tc_tensor h) {
  if (--s->refs > 0) return;
  s->gen++;
  t->n_slots--;
  if (s->buf || s->grad.gen || (s->flags & TC_SLOT_HAS_DEFERRED)) return end_value(t, s, h.slot);
  tc_run *run = s->run;
  s->run = NULL;
  leave_node(t, s, h.slot);
  push_free(t, s, h.slot);
  if (run) tc_run_leave(run, s->flags & TC_SLOT_RECIPE);
}

void tc_slot_settle(tc_trace *t, uint32_t slot) {
  tc_slot *s = tc_slot_of(slot);
  s->flags &= (uint8_t)~TC_SLOT_HAS_DEFERRED;
  if (!(s->gen & 1)) slot_free(t, s, slot);
}

void tc_slot_drop_assign(tc_trace *t, uint32_t slot) {
  for (uint32_t i = 0; i < t->n_user; i++) {
    if (t->user[i].slot != slot) continue;
    tc_buffer_release(t->user[i].buf);
    t->user[i] = t->user[--t->n_user];
    tc_slot_of(slot)->flags &= (uint8_t)~TC_SLOT_HAS_DEFERRED;
    return;
  }
}

void tc_slot_release_handle(tc_trace *t, tc_tensor h) {
  tc_slot *s = tc_slot_of(h.slot);
  if (s->gen == h.gen) tc_slot_release(t, s, h);
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
  tc_log_line(
      TC_LOG_WARN,
      "%u temporaries of the last %u steps that ran at %s are alive%s%s: memory grows until a scope ends; begin one (tc_scope_begin) "
      "before each step, and end it after",
      n_alive, t->watch.n_runs, at[0] ? at : "an unknown place", t->n_mark ? ", in the scope begun at " : "",
      t->n_mark ? scope : "");
}

// Counts the handles that no scope's end has reached between two runs. A step that is under way may
// have any number of handles.
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
  for (uint32_t i = stay - w->n_pool < LEFT_BEHIND * WATCHED_RUNS ? stay : w->n_pool; i < stay; i++)
    n_alive += tc_slot_of(t->pool[i].slot)->gen == t->pool[i].gen;
  if (n_alive >= LEFT_BEHIND * WATCHED_RUNS) warn_of_temporaries(t, n_alive);
  *w = (struct tc_pile){.site = site, .n_pool = stay, .low = t->n_pool};
}
