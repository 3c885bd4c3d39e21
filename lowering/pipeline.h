// Lowers a plan to a program, and implements the interface that lazy/ sees (tc_lowering).
// In: a plan (lazy/lowering.h). Out: a program (program_types.h).
#pragma once

#include "lazy/lowering.h"
#include "lowering/program/program_types.h"

// Imports a plan's records as a graph and runs every pass of lowering/graph. The graph lives in the
// arena.
tc_status tc_graph_build(tc_graph *g, const tc_plan *plan, tc_arena *arena);
// Runs the passes on an imported graph, up to and including pass `last`; NULL: all. Builds without
// NDEBUG verify the graph after each pass.
tc_status tc_graph_run_passes(tc_graph *g, const char *last);
// Lowers a plan to a program whose steps have their kernel IR (tc_step.pending) and no code: for
// who compiles it for another instruction set. It runs nowhere. The caller destroys it.
tc_status tc_pipeline_lower_steps(tc_plan *plan, tc_program **out);
// The name of pass i; NULL behind the last one.
const char *tc_graph_pass_name(size_t i);
