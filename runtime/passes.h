// Counts of planning's elementary steps, by pass. They show how planning grows, which a clock shows
// badly.
// Threads: each thread has its own counts.
#pragma once

#include <stdint.h>

typedef enum tc_pass {
#define TC_PASS(NAME, name) TC_PASS_##NAME,
#include "runtime/passes.def"
#undef TC_PASS
  TC_N_PASSES
} tc_pass;

extern const char *const tc_pass_names[TC_N_PASSES];
extern _Thread_local uint64_t tc_pass_steps[TC_N_PASSES];

static inline void tc_count(tc_pass pass, uint64_t steps) {
  tc_pass_steps[pass] += steps;
}
