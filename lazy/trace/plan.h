// A plan: how to run a pending trace. Found by the trace's bytes, compared whole before use; holds sizes and numbers, never addresses.
//
// The part lazy reads is here; `program` is lowering's own. Threads: immutable once found, counted; the cache is under one lock, and each trace finds its latest
// plans without it.
#ifndef TC_LAZY_TRACE_PLAN_H
#define TC_LAZY_TRACE_PLAN_H

#include <stdio.h>

#include "lazy/trace/trace.h"
#include "runtime/hash.h"

#define TC_LEAF_NONE UINT32_MAX

typedef struct tc_out {
  uint32_t node;
  uint32_t home;  // leaf whose buffer the result is written to, or TC_LEAF_NONE for a fresh one; set by lowering
  size_t bytes;
} tc_out;

enum { TC_HELD_FOR_RECIPES = 1, TC_HELD_FOR_HISTORY = 2 };

typedef struct tc_plan {
  _Atomic uint32_t refs;
  tc_hash hash;
  uint64_t *word;  // the key: records, then node flags, then the environment
  uint32_t n_rec_words, n_word;
  uint32_t n_node, n_leaf, n_arg, n_out;
  uint32_t *at, *arg_at;  // as in the trace
  uint32_t *leaf_of;  // node -> leaf number
  uint32_t *same_bytes;  // node -> the earliest node that has its bytes: its operand's, and so on, where that is what it is
  uint32_t *out_of;  // node -> out number, or TC_LEAF_NONE
  const uint8_t *flag;  // in word
  uint8_t *dev;
  tc_out *out;
  uint8_t *hold_leaf, *hold_out;  // bits: who needs it after the run
  uint8_t *over_leaf;  // a tensor that has it is assigned: it may be written over
  bool leaves_run;  // some live value is a recipe or has history
  void *program;
  // facts for the profiler
  uint32_t n_kernels, n_compiled, n_left;  // n_left: nodes after simplification
  const char *tier;  // how its kernels run when they are all compiled, static
  uint64_t bytes_moved;  // of every run; what prepares is told by launch
  size_t taken_bytes;  // memory that a run takes: results that have none yet, and the arena; likewise
  size_t bytes;  // all that it holds, with its program; 0: not counted, since it is used once
  struct tc_plan *next;  // in its bucket
  _Atomic uint64_t used;  // of all the cache's uses, the number of its last one
  _Atomic bool gone;  // from the cache
} tc_plan;

static inline const tc_rec *tc_plan_rec(const tc_plan *p, uint32_t node) {
  return (const tc_rec *)(const void *)(p->word + p->at[node]);
}

// In the word of a key before the last: what the plan makes of parameters alone is kept from run to run. Where that has no room, the plan of the key without
// this bit runs.
#define TC_KEY_PREPARES (UINT64_C(1) << 32)
static inline bool tc_plan_prepares(const tc_plan *p) {
  return p->word[p->n_word - 2] & TC_KEY_PREPARES;
}
// The last word of a key: bytes that the temporaries of the plan's runs should take at most, 0: any number.
static inline size_t tc_plan_budget(const tc_plan *p) {
  return p->word[p->n_word - 1];
}
// The budget of plans that are made from now on: what tc_set_memory_budget said, or TC_MEMORY_BUDGET.
uint64_t tc_plan_budget_now(void);

// The leaf whose memory becomes this value's too, or TC_LEAF_NONE: of a leaf detached, reshaped or assigned whose memory cannot change in the run, since others
// hold it or nothing is assigned over it. Never of a value with history.
uint32_t tc_plan_alias(const tc_plan *p, uint32_t node);

// The plan of these words (records, flags, environment), looked up or made; retained. hit tells which.
// compile_ticks: what making it took is added.
tc_status tc_plan_get(tc_trace *t, uint32_t n_rec_words, uint32_t n_word, tc_plan **out, bool *hit, uint64_t *compile_ticks);
static inline tc_plan *tc_plan_retain(tc_plan *p) {
  atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
  return p;
}
void tc_plan_release(tc_plan *p);  // NULL is fine
// pre: t is locked. Releases the plans that it would find without the cache.
void tc_plan_forget_latest(tc_trace *t);
// By any thread: the trace does not find this plan, which is no longer in the cache, without it.
void tc_plan_forget(tc_trace *t, tc_plan *gone);
// A plan of one of p's records, which is no leaf, on a device of the caller's choice: its operands are the leaves, by position, its value the one output,
// its scalars begin at the record's first; retained, not cached.
tc_status tc_plan_of_record(const tc_plan *p, uint32_t node, tc_device device, tc_plan **out);

// The plan of a run of two records, which is never launched: a leaf, and its value in another memory; retained, cached.
tc_status tc_plan_of_carried(tc_type type, uint32_t shape, tc_device from, tc_device to, tc_plan **out);

typedef struct tc_work_done {
  uint32_t n_kernels;
  uint64_t bytes;
  size_t taken_bytes;  // for what it prepared
  bool replayed;  // as in tc_sync_point
  const char *gpu_note;
  uint64_t copied_bytes;
  bool interpreted;  // some of its kernels, which are compiled later
  bool lacks_forms;  // it failed with nothing done: there is no memory for what it would prepare, or that would not be used for long
} tc_work_done;

typedef struct tc_anomaly {
  uint32_t node;
  char text[320];  // what it makes, and of what
} tc_anomaly;

// What lazy needs of an evaluator; lowering/ defines it, tests of lazy alone may link another.
typedef struct tc_lowering_ops {
  // Fills plan->program and the homes of plan->out. On failure the plan is destroyed with program NULL.
  tc_status (*lower)(tc_plan *plan);
  // Runs the plan to its end. leaf and out are memory in the plan's order. call: per node the user's call, for errors; NULL: not known. held: the leaves'
  // buffers; what is prepared from parameters is kept for later runs. NULL: it is not. prepared: added to by what that took in this run, if not NULL.
  tc_status (*launch)(const tc_plan *plan, void *const *leaf, void *const *out, const uint64_t *arg, const tc_call *call, const tc_leaf *held,
                      tc_work_done *prepared);
  void (*destroy)(void *program);
  size_t (*bytes)(const void *program);  // of the host's memory that it holds; kernels, which programs share, are not among it
  // TC_VERIFY=1 (lowering/program/verify.h): what the plan should store, to be had before the run, which may write over its operands; NULL where nothing is to
  // be compared. After the run, how many results are wrong. A line for each goes to the file.
  struct tc_verified *(*verify_begin)(const tc_plan *plan, void *const *leaf, const uint64_t *arg, FILE *to);
  // ran: whether there is anything to compare.
  uint32_t (*verify_end)(const tc_plan *plan, void *const *leaf, void *const *out, struct tc_verified *expected, bool ran, FILE *to);
  // TC_ANOMALY=1 (lowering/program/anomaly.h), before a run: whether it would store a NaN or infinity that its leaves do not have, and what makes the first one.
  bool (*find_anomaly)(const tc_plan *plan, void *const *leaf, const uint64_t *arg, tc_anomaly *out);
  // Drops cached kernels and waits for compilers; adds its counters.
  void (*clear)(void);
  void (*stats)(tc_cache_info *info);
} tc_lowering_ops;
extern const tc_lowering_ops tc_lowering;

#endif
