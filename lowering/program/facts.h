// Facts of a program for a profile: its kernels, the boundaries between them, what lies in memory
// when, and its texts. Internal to program/.
// In: a builder whose program is whole, before its graph is freed. Out: tc_plan_facts.
// Invariants: kernels are the program's steps in their order, without those of cached constants.
// Threads: a builder belongs to one thread; facts are immutable. Owner: the program.
#pragma once

#include "lowering/program/steps.h"

// named: the program whose kernels have names, with the same steps. NULL: no memory.
tc_plan_facts *tc_facts_make(const tc_builder *b, const tc_program *named);
void tc_facts_destroy(tc_plan_facts *f);  // NULL: does nothing
// Floating-point operations of a node: an element of an elementwise op or of a fold's operand is
// one, a multiply-add two. Convolutions by Winograd count as the direct ones.
double tc_facts_flops(const tc_graph *g, uint32_t n);
