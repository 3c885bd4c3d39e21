// Building a plan: what a sync stores, keeps and drops, decided once per key.
//
// In: a closed trace. Out: a plan that is lowered.
// Invariants: the result depends on the key alone.
// Threads: thread-safe. Owner: the caller has the plan's one reference.
#pragma once

#include "lazy/trace/plan.h"
#include "lazy/trace/trace.h"

// The budget of plans that this thread makes from now on: a region's, what tc_set_memory_budget
// said, or TC_MEMORY_BUDGET.
uint64_t tc_plan_budget_now(void);
// What tc_set_memory_budget says.
void tc_plan_set_budget(uint64_t bytes);

// The plan of a closed key of t with this hash, not lowered.
tc_status tc_plan_create(const tc_trace *t, uint32_t n_rec_words, uint32_t n_word, tc_hash hash, tc_plan **out);
// Creates such a plan and lowers it.
tc_status tc_plan_build(const tc_trace *t, uint32_t n_rec_words, uint32_t n_word, tc_hash hash, tc_plan **out);
// Counts what the plan, which is whole, holds.
void tc_plan_count_bytes(tc_plan *p);
// A plan of one of p's records, which is no leaf, on a device of the caller's choice. Its operands
// are the leaves, by position, and its value is the one output. The args are the record's own.
// Retained, not cached.
tc_status tc_plan_of_record(const tc_plan *p, uint32_t node, tc_device device, tc_plan **out);
// Launches such a plan on these operands, outside any sync. leaf and out point to memory of its
// device.
tc_status tc_plan_launch_alone(const tc_plan *p, void *const *leaf, void *const *out);
