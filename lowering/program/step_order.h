// The order of a program's steps, where one step after another holds less than stages do. Inside
// programs; not for others.
#ifndef TC_LOWERING_PROGRAM_STEP_ORDER_H
#define TC_LOWERING_PROGRAM_STEP_ORDER_H

#include "lowering/program/program_types.h"

// Places for blocks, having chosen the order of the steps. Early stages make much at once: where
// temporaries are large and one step after another, what begins to hold memory as late as can be,
// needs clearly less, that is the order; where a budget, if not 0, does not hold the temporaries,
// it is if it needs no more.
bool tc_memory_order(tc_program *p, const tc_plan *plan, size_t budget);

#endif
