// Where a program's temporaries live. Inside programs; not for others.
#ifndef TC_LOWERING_PROGRAM_MEMORY_PLAN_H
#define TC_LOWERING_PROGRAM_MEMORY_PLAN_H

#include "lowering/program/program_types.h"

#define LARGE_ARENA ((size_t)1 << 20)  // bytes of temporaries worth planning for less

// Places for blocks: in an output that is written after they die, else in the arena. What libraries
// read or make is in the arena, which mostly is where it was in the run before: a graph that is
// replayed cannot tell a library other addresses.
bool tc_memory_plan_place(tc_program *p, const tc_plan *plan);
// *bytes: of results and temporaries at once if the records ran one by one, each value dying at its
// last reader and views costing nothing.
bool tc_memory_op_by_op(const tc_plan *plan, size_t *bytes);

#endif
