// Permutes: orders of axes, and moving work across a permute. An order has eight bits an axis from
// the lowest on, as PERMUTE's attribute.
// Threads: thread-compatible.
#pragma once

#include "lowering/graph/graph.h"

// The operand's axis that is the result's axis i.
static inline int tc_permute_axis(uint64_t order, int i) {
  return (int)(order >> (8 * i) & 255);
}
uint64_t tc_permute_inverse(uint64_t order, int rank);
// The order that swaps the last two axes.
uint64_t tc_permute_transpose(int rank);
// Whether permuting the operands of x permutes its result: x is elementwise, without attributes and
// arguments.
bool tc_permute_commutes(const tc_gnode *x);
// Operand n as it is before the permute: the same permute taken off, or a small one, which is
// repeated, permuted back. A cast stays behind what is permuted, where it is known to be the same
// along a row. *ok: false without memory.
uint32_t tc_permute_undo(tc_graph *g, uint32_t n, uint64_t order, int rank, bool *ok);
