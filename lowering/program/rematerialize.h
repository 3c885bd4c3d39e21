// Rematerialization: keeps a plan's temporaries within its memory budget. Values that are idle
// between forward and backward are recomputed by their kernels just before they are read. Results
// are the same bits: the same kernels run on the same operands.
//
//       a = relu(x); ... peak ...; d = grad(a)
//   ->  a = relu(x); ... peak ...; a' = relu(x); d = grad(a')
//
// Internal to program/.
#pragma once

#include "lowering/program/program_types.h"

// Runs after in-place writes were chosen, and before kernels are compiled. Orders the steps one
// after another, and changes them until the arena fits the budget, or nothing more is gained.
// Stages, bindings and allocations are then new and placed. False out of memory: the program may
// then only be destroyed.
bool tc_rematerialize_fit(tc_program *p, const tc_plan *plan, size_t budget);
