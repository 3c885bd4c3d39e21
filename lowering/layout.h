// Layout: elementwise work on a product's moved result is done where the product lies, and moved afterwards, so that it can follow the product in one
// kernel and so that a move back, as between two convolutions, cancels. Only the order in memory changes, no value.
#ifndef TC_LOWERING_LAYOUT_H
#define TC_LOWERING_LAYOUT_H

#include "lowering/graph.h"

// Rewrites the graph; false without memory. pre: nodes 0 .. n are in topological order and simplified.
bool tc_layout(tc_graph *g);

#endif
