// Plans bound to sizes. A graph that was recorded at a second size is lowered once for many sizes.
// Later sizes are bound to that, without lowering.
//
//   f32[8,64] ..   lowered for 8
//   f32[9,64] ..   lowered for s from 2 to 4099, bound to 9
//   f32[10,64] ..  bound to 10
//
// In: closed keys that have no plan. Out: plans of them, where they differ from earlier keys in
// sizes alone.
// Invariants: a bound plan is found by all bytes of its key. A family keeps few of them.
// Threads: thread-safe, one lock; a graph is lowered for many sizes by one thread, while others
// lower each size for itself. Owner: families retain their plans.
#pragma once

#include "lazy/trace/plan.h"
#include "lazy/trace/trace.h"

// The plan of a closed key, retained; NULL: there is none. *is_new: true: it was bound now.
// *ticks: what that took is added. pattern: the key's, 0: it has none.
tc_plan *tc_size_cache_find(const tc_trace *t, uint32_t n_rec_words, uint32_t n_word, tc_hash hash, uint64_t *pattern,
                            bool *is_new, uint64_t *ticks);
// A plan of this pattern was lowered for its own sizes, in so many ticks.
void tc_size_cache_note(tc_plan *p, uint64_t pattern, uint64_t ticks);
// The plan left the cache of plans: a graph of one size is forgotten with it.
void tc_size_cache_forget(const tc_plan *gone);
void tc_size_cache_clear(void);
// How many plans were bound.
uint64_t tc_size_cache_count(void);
