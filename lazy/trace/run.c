// Runs: made, retained by slots, and given back. See run.h.
#include "lazy/trace/run.h"

#include <string.h>

#include "runtime/passes.h"

static _Atomic uint64_t run_serial;

tc_run *tc_run_allocate(tc_plan *p, uint32_t n_past, uint32_t n_param_node) {
  tc_buffer *memory;
  size_t zeroed =
             sizeof(tc_run) + p->n_leaf * sizeof(tc_leaf) + n_past * sizeof(tc_past) + p->n_out * sizeof(tc_buffer *),
         filled = p->n_arg * sizeof(uint64_t) + n_param_node * sizeof(tc_param_node) +
                  p->n_node * (sizeof(tc_call) + sizeof(uint32_t) + 1);
  if (tc_buffer_create(zeroed + filled, &memory) != TC_OK) return NULL;
  tc_run *r = memset(memory->ptr, 0, zeroed);
  r->memory = memory;
  r->serial = atomic_fetch_add_explicit(&run_serial, 1, memory_order_relaxed) + 1;
  atomic_store_explicit(&r->refs, 1, memory_order_relaxed);
  r->leaf = (tc_leaf *)(r + 1);
  r->past = (tc_past *)(r->leaf + p->n_leaf);
  r->out = (tc_buffer **)(r->past + n_past);
  r->arg = (uint64_t *)(r->out + p->n_out);
  r->call = (tc_call *)(r->arg + p->n_arg);
  r->param_node = (tc_param_node *)(r->call + p->n_node);
  r->memo = (uint32_t *)(r->param_node + n_param_node);
  r->flag = (uint8_t *)(r->memo + p->n_node);
  r->n_leaf = p->n_leaf, r->n_past = n_past, r->n_out = p->n_out, r->n_param_node = n_param_node, r->n_arg = p->n_arg;
  r->plan = tc_plan_retain(p);
  return r;
}

tc_run *tc_run_create_carried(tc_plan *p, tc_run *of, uint32_t run_node, tc_tensor param, tc_call call) {
  tc_run *r = tc_run_allocate(p, of != NULL, of == NULL);
  if (!r) return NULL;
  r->call[0] = r->call[1] = call;
  r->flag[0] = r->flag[1] = of ? of->flag[run_node] & (TC_NODE_TAPE | TC_NODE_NO_HISTORY) : TC_NODE_TAPE;
  if (of)
    r->past[0] = (tc_past){0, run_node, tc_run_retain(of)}, r->freed_by = of->freed_by;
  else
    r->param_node[0] = (tc_param_node){0, param}, r->flag[0] |= TC_NODE_REQUIRES_GRAD;
  return r;
}

void tc_run_leave_last(tc_run *r, bool none_left, bool last) {
  if (none_left && atomic_load_explicit(&r->refs, memory_order_relaxed) > (uint32_t)last) tc_run_drop_unneeded(r);
  if (last) tc_run_release(r);
}

// Adds the run, if there is one, to those to be freed if this was its last reference. The last
// needs no atomic write: nobody else has one to make another from.
static void run_drop(tc_run *r, tc_run **dead) {
  if (!r || (atomic_load_explicit(&r->refs, memory_order_acquire) != 1 &&
             atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1))
    return;
  r->next_dead = *dead;
  *dead = r;
}

// A run may hold the last reference to others, and these to more: they are freed in a loop, not by
// recursion.
void tc_run_release(tc_run *r) {
  tc_run *dead = NULL;
  if (r) run_drop(r, &dead);
  while ((r = dead) != NULL) {
    dead = r->next_dead;
    tc_count(TC_PASS_RUNS, 1 + r->n_leaf + r->n_past + r->n_out);
    for (uint32_t i = 0; i < r->n_leaf; i++) tc_buffer_release(r->leaf[i].buf);
    for (uint32_t i = 0; i < r->n_past; i++) run_drop(r->past[i].run, &dead);
    for (uint32_t i = 0; i < r->n_out; i++) tc_buffer_release(r->out[i]);
    tc_plan_release(r->plan);
    tc_buffer_release(r->memory);
  }
}

// A failed run has stored nothing, so it needs every leaf.
void tc_run_drop_unneeded(tc_run *r) {
  const tc_plan *p = r->plan;
  uint8_t needed = (uint8_t)((r->n_recipes ? TC_HELD_FOR_RECIPES : 0) | (r->freed ? 0 : TC_HELD_FOR_HISTORY));
  if (r->failed && needed) return;
  tc_count(TC_PASS_RUNS, r->n_leaf + r->n_out);
  for (uint32_t i = 0; i < r->n_leaf; i++) {
    if (p->hold_leaf[i] & needed) continue;
    tc_buffer_release(r->leaf[i].buf);
    r->leaf[i].buf = NULL;
  }
  for (uint32_t i = 0; i < r->n_out; i++) {
    if (p->hold_out[i] & needed) continue;
    tc_buffer_release(r->out[i]);
    r->out[i] = NULL;
  }
}

void tc_run_free_history(tc_run *r, tc_site by) {
  const tc_plan *p = r->plan;
  uint32_t n_past = r->n_past;
  r->n_past = 0;
  for (uint32_t i = 0; i < n_past; i++) tc_run_release(r->past[i].run);
  tc_count(TC_PASS_RUNS, p->n_node);
  for (uint32_t i = 0; i < p->n_node; i++)
    if ((r->flag[i] & TC_NODE_TAPE) && !(r->flag[i] & TC_NODE_REQUIRES_GRAD))
      r->flag[i] = (uint8_t)((r->flag[i] & ~TC_NODE_TAPE) | TC_NODE_FREED);
  r->freed = true, r->freed_by = by;
  tc_run_drop_unneeded(r);
}
