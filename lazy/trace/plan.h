// A plan: how to run a pending trace. Found by the trace's bytes, compared whole before use; holds
// sizes and numbers, never addresses.
//
// The part lazy reads is here; `program` is lowering's own. Threads: immutable once found, counted;
// the cache is under one lock, and each trace finds its latest plans without it.
#ifndef TC_LAZY_TRACE_PLAN_H
#define TC_LAZY_TRACE_PLAN_H

#include "lazy/trace/dims.h"
#include "lazy/trace/node.h"
#include "lazy/trace/rec.h"
#include "device/device.h"
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
  // node -> the earliest node that has its bytes: its operand's, and so on, where that is what it
  // is
  uint32_t *same_bytes;
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

static inline bool tc_plan_is_leaf(const tc_plan *p, uint32_t node) {
  return tc_rec_op(tc_plan_rec(p, node)) == TC_OP_LEAF;
}

// In the word of a key before the last: what the plan makes of parameters alone is kept from run to
// run. Where that has no room, the plan of the key without this bit runs.
#define TC_KEY_PREPARES (UINT64_C(1) << 32)
static inline bool tc_plan_prepares(const tc_plan *p) {
  return p->word[p->n_word - 2] & TC_KEY_PREPARES;
}
// The last word of a key: bytes that the temporaries of the plan's runs should take at most, 0: any
// number.
static inline size_t tc_plan_budget(const tc_plan *p) {
  return p->word[p->n_word - 1];
}
// The leaf whose memory becomes this value's too, or TC_LEAF_NONE: of a leaf detached, reshaped or
// assigned whose memory cannot change in the run, since others hold it or nothing is assigned over
// it. Never of a value with history.
uint32_t tc_plan_alias(const tc_plan *p, uint32_t node);

static inline tc_plan *tc_plan_retain(tc_plan *p) {
  atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
  return p;
}
void tc_plan_release(tc_plan *p);  // NULL is fine
// A plan with room for what these counts ask for, and for as many outputs as nodes; NULL out of
// memory.
tc_plan *tc_plan_allocate(uint32_t n_node, uint32_t n_leaf, uint32_t n_arg, uint32_t n_rec_words, uint32_t n_word);
// Once its number of outputs is known: gives back room for others.
void tc_plan_shrink(tc_plan *p);
// Fills same_bytes.
void tc_plan_find_same_bytes(tc_plan *p);

#endif
