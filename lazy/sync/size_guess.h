// Which sizes of a graph may vary, before a second key shows it (TC_DYNAMIC=1).
// In: a plan. Out: a key of the same records at other sizes, as far as they can be guessed.
// Invariants: a wrong guess costs time alone, since keys are compared with the map made of it.
// Threads: pure. Owns nothing.
#pragma once

#include "lazy/trace/plan.h"

// Writes the plan's words with other extents: those of inputs that no parameter has, and what
// follows from them. word has room for them. False: no extent may vary, or there is no memory.
bool tc_size_guess_key(const tc_plan *p, uint64_t *word);
