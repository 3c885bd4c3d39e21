// A plan: how to run every pending trace of one key.
//
// In: a closed key. Out: what is stored, kept and dropped; `program` is the evaluator's own.
// Invariants: it holds sizes and numbers, never addresses, and is immutable once it is found.
// Threads: counted; any thread may retain and release it. Owner: the cache, traces and runs.
#pragma once

#include "lazy/trace/dims.h"
#include "lazy/trace/node.h"
#include "lazy/trace/rec.h"
#include "device/device.h"
#include "runtime/lru.h"
#include "runtime/hash.h"

#define TC_LEAF_NONE UINT32_MAX

typedef struct tc_out {
  uint32_t node;
  uint32_t donor;  // leaf that the result is written over, set by lowering. TC_LEAF_NONE: fresh memory
  size_t bytes;
} tc_out;

enum { TC_HELD_FOR_RECIPES = 1, TC_HELD_FOR_HISTORY = 2 };

typedef struct tc_plan {
  // of the cache; bytes: host memory of the plan and its program, 0: not counted, since it is used
  // once
  tc_lru_entry entry;
  _Atomic uint32_t refs;
  tc_hash hash;
  uint64_t *word;  // the key: records, then node flags, then the environment
  uint32_t n_rec_words, n_word;
  uint32_t n_node, n_leaf, n_arg, n_out;
  uint32_t *at, *arg_at;  // as in the trace
  uint32_t *leaf_of;  // node -> leaf number, or TC_LEAF_NONE
  // node -> the earliest node with the same bytes: itself, unless it is an alias of its operand
  uint32_t *same_bytes;
  uint32_t *out_of;  // node -> out number, or TC_LEAF_NONE
  const uint8_t *flag;  // in word
  uint8_t *dev;
  tc_out *out;
  uint8_t *hold_leaf, *hold_out;  // TC_HELD_ bits: who needs it after the run. 0: nobody
  uint8_t *over_leaf;  // 1: a tensor with this value is assigned, so it may be written over
  bool leaves_run;  // true: some live value is a recipe or has history
  void *program;  // the evaluator's. NULL: not lowered
  tc_graph_runner runner;  // a backend's of the program, in the place of it. run NULL: none
  const struct tc_options *options;  // that it was made under. NULL: not lowered
  bool by_rows;  // true: lowered as for tc:ref, op by op
  // facts for the profiler
  uint32_t n_kernels, n_compiled, n_left;  // n_left: nodes after simplification
  const char *tier;  // how its kernels run when they are all compiled, static
  uint64_t bytes_moved;  // by every run; launch reports what filling the constant cache moves
  size_t taken_bytes;  // memory that every run takes: fresh results, and the arena
  uint64_t compile_ticks, describe_ticks;  // of making it: compiling kernels; facts for a profile
  _Atomic uint64_t profiled;  // the profile that has it (its generation), and its number there. 0: none has
  _Atomic bool gone;  // true: no longer in the cache
  bool is_bound;  // true: bound to its sizes, not lowered for them (lazy/sync/size_cache.h)
} tc_plan;

static inline const tc_rec *tc_plan_rec(const tc_plan *p, uint32_t node) {
  return (const tc_rec *)(const void *)(p->word + p->at[node]);
}

static inline bool tc_plan_is_leaf(const tc_plan *p, uint32_t node) {
  return tc_rec_op(tc_plan_rec(p, node)) == TC_OP_LEAF;
}

// In the last word but one of a key: results computed from parameters alone are cached from run to
// run. Where memory for that is missing, the plan of the key without this bit runs.
#define TC_KEY_PREPARES (UINT64_C(1) << 32)
static inline bool tc_plan_prepares(const tc_plan *p) {
  return p->word[p->n_word - 2] & TC_KEY_PREPARES && tc_device_kind_of((tc_device)p->dev[0]) != TC_DEVICE_LOADED;
}
// The last word of a key: the most bytes that temporaries of a run should take. 0: any number.
static inline size_t tc_plan_budget(const tc_plan *p) {
  return p->word[p->n_word - 1];
}
// The leaf whose memory becomes this value's too, or TC_LEAF_NONE. The value is that leaf detached,
// reshaped or assigned, and has no history. The leaf's memory does not change in the run: others
// hold it, or nothing is assigned over it.
uint32_t tc_plan_alias_leaf(const tc_plan *p, uint32_t node);
static inline uint32_t tc_plan_alias(const tc_plan *p, uint32_t node) {
  return p->same_bytes[node] == node ? TC_LEAF_NONE : tc_plan_alias_leaf(p, node);
}

static inline tc_plan *tc_plan_retain(tc_plan *p) {
  atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
  return p;
}
void tc_plan_release(tc_plan *p);  // NULL: does nothing
// A plan with space for these counts, and for as many outputs as nodes; NULL out of memory.
tc_plan *tc_plan_allocate(uint32_t n_node, uint32_t n_leaf, uint32_t n_arg, uint32_t n_rec_words, uint32_t n_word);
// A plan of other sizes: these words, of the same records, and outputs of their bytes. It is not
// lowered. NULL out of memory.
tc_plan *tc_plan_copy(const tc_plan *from, const uint64_t *word);
// Once its number of outputs is known: frees the space for others.
void tc_plan_shrink(tc_plan *p);
// Fills same_bytes.
void tc_plan_find_same_bytes(tc_plan *p);
