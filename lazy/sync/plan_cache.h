// The cache of plans, by the bytes of their keys.
//
// In: a closed key. Out: its plan, looked up or made.
// Invariants: a hash hit is confirmed by comparing the bytes; the plan used last stays, however
// large.
// Threads: thread-safe, one lock; each trace finds its latest plans without it. Owner: the cache
// retains its plans.
#pragma once

#include "lazy/trace/plan.h"
#include "lazy/trace/body.h"
#include "runtime/profile_format.h"

// The plan of the closed key of t, looked up or built; retained. hit: true if it was looked up.
// compile_ticks: what building it took is added.
tc_status tc_plan_get(tc_trace *t, uint32_t n_rec_words, uint32_t n_word, tc_plan **out, bool *hit,
                      uint64_t *compile_ticks);
// Why this plan was not cached when it was looked up last. Of plans that left the cache, the latest
// 1024 are known, but for those whose place another one took.
tc_prof_miss tc_plan_miss(const tc_plan *p);
// The plan of a run of two records, which is never launched: a leaf, and its value in another
// memory; retained, cached.
tc_status tc_plan_of_carried(tc_type type, uint32_t shape, tc_device from, tc_device to, tc_plan **out);
// The plan that runs a body once on this device, with the options and threads of plan `like`. Its
// leaves are the inputs, its outputs the results. Cached and retained.
tc_status tc_plan_of_body(const tc_body *b, tc_device device, const tc_plan *like, tc_plan **out);
// The plan of a body, neither lowered nor cached, for a caller that lowers it for another
// instruction set. NULL without memory.
tc_plan *tc_plan_allocate_of_body(const tc_body *b, tc_device device, const tc_plan *like);
