// Algebraic identities on one node, by structure alone: the values of scalars are not known here.
// Values keep their bits, but for which NaN. The passes cse and sink_permute apply them.
// Threads: thread-compatible.
#pragma once

#include "lowering/graph/graph.h"

// Rewrites node n in place; its operands are simplified already. Returns the node that it equals, n
// if there is none.
uint32_t tc_simplify(tc_graph *g, uint32_t n);
