// Compiling a program: the kernel IR of its steps is chosen, then all of its kernels are compiled
// beside each other.
//
// In: steps with their pending kernels. Out: steps with kernels. Threads: a builder is one
// thread's; kernels are compiled by many.
#ifndef TC_LOWERING_PROGRAM_COMPILE_H
#define TC_LOWERING_PROGRAM_COMPILE_H

#include "lowering/program/steps.h"

// What graphs have in common that are recorded alike at different sizes; 0 without memory.
uint64_t tc_graph_hash(const tc_graph *g, tc_arena *arena);
// The kernels that the steps' kernels are made from: of matmuls, in the tiling that tuning found,
// and beside it one that does for any number of rows. graph: the hash of the program's graph; 0: no
// kernel is made for any number of rows.
void tc_program_choose_kernels(tc_builder *b, tc_program *p, uint64_t graph);
// Compiles the kernels of b->p, whatever they are for: its steps, its rows on a GPU, what it
// prepares.
tc_status tc_program_compile(tc_builder *b, uint64_t graph);

#endif
