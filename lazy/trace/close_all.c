// tc_shutdown's end of all traces: each closes its handles, and none finds a plan any more. See
// thread_trace.h.
#include "lazy/trace/latest_plans.h"
#include "lazy/trace/thread_trace.h"
#include "runtime/reentry.h"

// Forgets every slot of a chunk of this trace. Handles to them are stale from now on.
static void chunk_close(tc_trace *t, tc_chunk *chunk, uint32_t first) {
  for (uint32_t i = 0; i < TC_CHUNK_SLOTS; i++) {
    tc_slot *s = &chunk->slot[i];
    if (!(s->gen & 1)) continue;
    s->refs = 1, s->grad = (tc_tensor){0, 0};
    tc_slot_release(t, s, (tc_tensor){first + i, s->gen});
  }
}

void tc_trace_forget_plan(struct tc_plan *gone) {
  if (tc_trace_mine) tc_plan_forget(tc_trace_mine, gone);  // which may have no chunk
  for (uint32_t c = 0; c < atomic_load(&tc_slot_n_chunks); c++) {
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
    t->deferred = TC_OK;
    tc_plan_forget_latest(t);
    while (t->n_map) tc_buffer_release(t->map[--t->n_map].buf);
    chunk_close(t, chunk, c * TC_CHUNK_SLOTS);
    tc_trace_unlock_or_retire(t);
  }
  tc_trace *mine = tc_trace_mine;  // which may have no chunk
  if (mine) {
    tc_biased_lock_own(&mine->lock);
    mine->deferred = TC_OK;
    tc_biased_unlock_own(&mine->lock);
  }
  tc_leave();
}
