// In-place writes: chooses outputs that are written over the leaves they are assigned to. Internal
// to program/.
// In: a program with steps and stages. Out: `donor` of the plan's outputs.
//
//   w = w - g, l0 is w's leaf, o0 its new value; no other step reads l0 from then on
//   ->  o0 is written over l0
//
// Threads: one thread builds a program.
#pragma once

#include "lowering/program/program_types.h"

// Moves writers of large leaves to a later stage, behind their readers. The gradient of a layer's
// input reads its weight in the stage in which the weight's own gradient is ready. False without
// memory.
bool tc_in_place_delay_writers(const tc_program *p, const tc_plan *plan);
// Chooses the leaf that each output is written over. The leaf belongs to the trace alone, and
// nothing later needs it. Every reader runs before the writer, or is the writer itself reading only
// the element it writes. tc_step.same says so: the emitter marks it (note_same), for reference
// kernels add_row does. False without memory.
bool tc_in_place_choose(tc_program *p, tc_plan *plan);
