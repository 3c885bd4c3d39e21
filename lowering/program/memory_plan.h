// The memory plan: where a program's temporaries live. Internal to program/.
// In: steps with stages. Out: storage of each allocation, and the arena's size.
//
//   t0 lives in stages 0 to 1, t1 in 2 to 3, output o0 is written in stage 2
//   ->  t0 lies in o0, if it fits; t1 at offset 0 of the arena
//
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
