// Orders a program's steps one after another, where that takes less memory than stages. Internal to
// program/.
// In: steps with stages. Out: steps in an order, their stages, and placed allocations.
//
//   stage 0: a, b, c; stage 1: f(a), f(b), f(c)  ->  a, f(a), b, f(b), c, f(c)
//
// Threads: one thread builds a program.
#pragma once

#include "lowering/program/program_types.h"

// Chooses the order of the steps, and places allocations. Early stages allocate much at once. The
// sequential order delays allocations as far as possible. It is taken for a large arena if it
// clearly needs less. It is taken if it needs no more than stages, if those exceed the budget.
// budget 0: there is none. False without memory.
bool tc_memory_order(tc_program *p, const tc_plan *plan, size_t budget);
