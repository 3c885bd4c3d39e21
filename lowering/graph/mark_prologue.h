// Fused producers of a matmul's right operand, such as dequantised weights: cheap arithmetic on a
// narrower tensor, which the matmul does where it loads it. Only the narrow tensor is read from
// memory; the operand is never stored. The pass is tc_pass_mark_prologue.
#pragma once

#include "lowering/graph/graph.h"

// Whether n, through views, is a node that the pass marked (tc_gnode.prologue).
bool tc_in_matmul_prologue(const tc_graph *g, uint32_t n);
