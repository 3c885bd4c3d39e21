// Runs: what a sync leaves behind where values or history may still be asked for.
//
// In: a plan and what its trace held. Out: recipes and history of values, by number of their
// record.
// Invariants: only flags, memo and what is dropped change; a leaf or output that neither a recipe
// nor history needs is NULL.
// Threads: under the lock of the trace that made it, but for refs. Owner: slots together one
// reference, traces, runs and walks one each.
#pragma once

#include "device/buffer.h"
#include "lazy/trace/plan.h"

typedef struct tc_run tc_run;

typedef struct tc_leaf {
  uint32_t node;
  tc_buffer *buf;  // retained
} tc_leaf;

// The history of a value that was made before: a stored one that is a leaf here, or a recipe
// recorded again. Its gradient goes to that record of that run, so that a sum over several uses has
// one order however syncs cut the program.
typedef struct tc_past {
  uint32_t node, run_node;  // run_node: number in run
  tc_run *run;  // retained
} tc_past;

typedef struct tc_param_node {
  uint32_t node;
  tc_tensor param;
} tc_param_node;

// What a sync leaves behind where values or history may still be asked for.
struct tc_run {
  _Atomic uint32_t refs;
  uint32_t n_slots;  // that name it and share one reference; under their trace's lock
  uint32_t n_recipes;  // of these, how many have no stored value; with none left the run drops what only recipes need
  uint64_t serial;  // later runs have greater ones
  struct tc_plan *plan;  // retained
  tc_buffer *memory;  // this run's own, from the pool: training steps allocate nothing
  tc_leaf *leaf;  // as recorded; buf NULL where no recipe or history needs it
  tc_past *past;
  tc_buffer **out;  // the plan's outputs, NULL where not needed
  uint64_t *arg;
  uint8_t *flag;  // node flags at the sync; TAPE is cleared and FREED set by backward
  tc_param_node *param_node;
  tc_call *call;  // per node: the user's, for errors of recipes
  uint32_t n_leaf, n_past, n_out, n_param_node, n_arg;
  bool freed;  // history is gone
  tc_site freed_by;  // the latest backward that freed history here
  bool failed;  // its plan did not run: every value is a recipe
  tc_run *next_dead;  // while it is freed
  uint64_t memo_epoch;  // memo[node]: number in the trace memo_trace, of this memo_epoch
  tc_trace *memo_trace;
  uint32_t *memo;
};

// A run of the plan with space for these counts; NULL out of memory.
tc_run *tc_run_allocate(tc_plan *p, uint32_t n_past, uint32_t n_param_node);
static inline tc_run *tc_run_retain(tc_run *r) {
  atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
  return r;
}
void tc_run_release(tc_run *r);
// The history of a value that was carried to another memory: a run of two records, a leaf and TO,
// which never ran. of, run_node: the leaf's own history; of NULL: the leaf is the value of param.
// NULL out of memory.
tc_run *tc_run_create_carried(tc_plan *p, tc_run *of, uint32_t run_node, tc_tensor param, tc_call call);
// Gives back the values that neither a recipe that somebody may ask for nor history needs.
void tc_run_drop_unneeded(tc_run *r);
// The last of its slots, or the last without a stored value, no longer names the run.
void tc_run_leave_last(tc_run *r, bool none_left, bool last);
// A slot no longer names the run. as_recipe: the run was its recipe.
static inline void tc_run_leave(tc_run *r, bool as_recipe) {
  bool none_left = as_recipe && --r->n_recipes == 0, last = --r->n_slots == 0;
  if (TC_UNLIKELY(none_left || last)) tc_run_leave_last(r, none_left, last);
}
// Drops what only differentiation needed.
void tc_run_free_history(tc_run *r, tc_site by);
