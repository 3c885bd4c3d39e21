// From a plan to its program, and the interface that lazy sees (lazy/lowering.h, tc_lowering).
#ifndef TC_LOWERING_PIPELINE_H
#define TC_LOWERING_PIPELINE_H

#include "lazy/lowering.h"
#include "lowering/program/program_types.h"

// The graph of a plan's records, through every pass of lowering/graph; its memory is the arena's.
tc_status tc_graph_build(tc_graph *g, const tc_plan *plan, tc_arena *arena);
// Its passes on a graph that is imported, to the one of this name, that one too; NULL: all. Builds
// without NDEBUG verify the graph after each.
tc_status tc_graph_run_passes(tc_graph *g, const char *last);
// The passes' names in their order; NULL behind the last one.
const char *tc_graph_pass_name(size_t i);
tc_status tc_program_create(tc_plan *plan, tc_program **out);

#endif
