// Writing in place: which outputs go over the leaves that they are assigned to. Inside programs;
// not for others.
#ifndef TC_LOWERING_PROGRAM_IN_PLACE_H
#define TC_LOWERING_PROGRAM_IN_PLACE_H

#include "lowering/program/program_types.h"

// Moves what assigns a large leaf behind its readers: a layer's weight is read, for the gradient of
// what the layer read, in the stage of its own gradient. False without memory.
bool tc_in_place_delay_writers(const tc_program *p, const tc_plan *plan);
// An output may be written over a leaf that dies here: the leaf is the trace's alone, nothing later
// needs it, every reader runs before the writer, or is the writer itself reading the same element
// (which expand has marked).
// False without memory.
bool tc_in_place_choose(tc_program *p, tc_plan *plan);

#endif
