// From a plan to its program, and the interface that lazy sees (lazy/sync/plan.h, tc_lowering).
#ifndef TC_LOWERING_PIPELINE_H
#define TC_LOWERING_PIPELINE_H

#include "lowering/program/program_types.h"

tc_status tc_program_create(tc_plan *plan, tc_program **out);

#endif
