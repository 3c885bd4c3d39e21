// Views: how indices of an op's result become indices of its operand. Threads: thread-safe, pure.
#pragma once

#include "lowering/graph/graph.h"
#include "lowering/kir/index_expr.h"

// From indices of x's result to indices of operand k (broadcasting included; PAD, CAT and
// WRITE_SLICE are not views in this sense).
bool tc_view_operand(const tc_graph *g, uint32_t n, int k, const tc_index *idx, const tc_extents *e, tc_index *out);
