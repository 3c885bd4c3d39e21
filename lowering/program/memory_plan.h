// The memory plan: where a program's temporaries live. Internal to program/.
// In: steps with stages. Out: storage of each allocation, and the arena's size.
//
//   t0 lives in stages 0 to 1, t1 in 2 to 3, output o0 is written in stage 2
//   ->  t0 lies in o0, if it fits; t1 at offset 0 of the arena
#pragma once

#include "lowering/program/program_types.h"

#define LARGE_ARENA ((size_t)1 << 20)  // arenas of fewer bytes are not worth reordering steps or another fusion mode

// Places each allocation in an output that is written after the allocation dies, else in the arena.
// Operands and results of library calls are always in the arena. Its address is mostly that of the
// run before, and a replayed graph cannot give a library other addresses. False without memory.
bool tc_memory_plan_place(tc_program *p, const tc_plan *plan);
// Fills *bytes: the peak of results and temporaries if the records ran one by one. Each value dies
// at its last reader, and views cost nothing. False without memory.
bool tc_memory_op_by_op(const tc_plan *plan, size_t *bytes);

// ---- the order of steps (step_order.c) ----

// Orders a program's steps one after another, where that takes less memory than stages.
// In: steps with stages. Out: steps in an order, their stages, and placed allocations.
//
//   stage 0: a, b, c; stage 1: f(a), f(b), f(c)  ->  a, f(a), b, f(b), c, f(c)
//
// Chooses the order of the steps, and places allocations. Early stages allocate much at once. The
// sequential order delays allocations as far as possible. It is taken for a large arena if it
// clearly needs less. It is taken if it needs no more than stages, if those exceed the budget.
// budget 0: there is none. False without memory.
bool tc_memory_order(tc_program *p, const tc_plan *plan, size_t budget);

// ---- writes over leaves (in_place.c) ----

// In-place writes: chooses outputs that are written over the leaves they are assigned to.
// In: a program with steps and stages. Out: `donor` of the plan's outputs.
//
//   w = w - g, l0 is w's leaf, o0 its new value; no other step reads l0 from then on
//   ->  o0 is written over l0
//
// Moves writers of large leaves to a later stage, behind their readers. The gradient of a layer's
// input reads its weight in the stage in which the weight's own gradient is ready. False without
// memory.
bool tc_in_place_delay_writers(const tc_program *p, const tc_plan *plan);
// Chooses the leaf that each output is written over. The leaf belongs to the trace alone, and
// nothing later needs it. Every reader runs before the writer, or is the writer itself reading only
// the element it writes. tc_step.same says so: the emitter marks it (note_same), for reference
// kernels add_row does. False without memory.
bool tc_in_place_choose(tc_program *p, tc_plan *plan);

// ---- rematerialization (rematerialize.c) ----

// Rematerialization: keeps a plan's temporaries within its memory budget. Values that are idle
// between forward and backward are recomputed by their kernels just before they are read. Results
// are the same bits: the same kernels run on the same operands.
//
//       a = relu(x); ... peak ...; d = grad(a)
//   ->  a = relu(x); ... peak ...; a' = relu(x); d = grad(a')
//
// Runs after in-place writes were chosen, and before kernels are compiled. Orders the steps one
// after another, and changes them until the arena fits the budget, or nothing more is gained.
// Stages, bindings and allocations are then new and placed. False out of memory: the program may
// then only be destroyed.
bool tc_rematerialize_fit(tc_program *p, const tc_plan *plan, size_t budget);
