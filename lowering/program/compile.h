// Compiles a program: chooses the kernel IR of its steps, then compiles all kernels in parallel.
// In: steps with pending kernels. Out: steps with kernels.
// Threads: a builder belongs to one thread; kernels are compiled on many.
#pragma once

#include "lowering/program/steps.h"

// A hash of a graph's ops, types, ranks and edges, without sizes; 0 without memory.
uint64_t tc_graph_hash(const tc_graph *g, tc_arena *arena);
// Retunes the pending matmuls of p: autotuned tiling, and a kernel for any number of rows beside
// it. graph: tc_graph_hash of the program's graph; 0: no kernel for any number of rows.
void tc_program_choose_kernels(tc_builder *b, tc_program *p, uint64_t graph);
// Compiles all kernels of b->p: those of its steps, of its GPU rows, and of its cached constants.
tc_status tc_program_compile(tc_builder *b, uint64_t graph);
