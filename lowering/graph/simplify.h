// Identities that hold for every value, by structure alone: numbers are arguments and are not known
// here. Values keep their bits, but for which NaN.
#ifndef TC_LOWERING_GRAPH_SIMPLIFY_H
#define TC_LOWERING_GRAPH_SIMPLIFY_H

#include "lowering/graph/graph.h"

// Rewrites node n, whose operands are simplified already, in place; returns the node that it
// equals, n if there is none.
uint32_t tc_simplify(tc_graph *g, uint32_t n);

#endif
