// Steps that run again: where a plan's temporaries are more than its budget, values that lie idle
// between a forward and its backward are made again by their kernels just before they are read.
// Bits do not depend on it: the same kernels run on the same operands.
#ifndef TC_LOWERING_PROGRAM_REMATERIALIZE_H
#define TC_LOWERING_PROGRAM_REMATERIALIZE_H

#include "lowering/program/program_types.h"

// After homes were chosen, before kernels are compiled. Orders the steps one after another, and
// changes them until the arena has at most so many bytes, or nothing more is gained; stages, binds
// and blocks are then new, and places are chosen. False out of memory: the program may only be
// destroyed.
bool tc_rematerialize_fit(tc_program *p, const tc_plan *plan, size_t budget);

#endif
