// Layout: elementwise work on a product's moved result is done where the product lies, and moved afterwards, so that it can follow the product in one
// kernel and so that a move back, as between two convolutions, cancels. Only the order in memory changes, no value.
#ifndef TC_LOWERING_GRAPH_SINK_PERMUTE_H
#define TC_LOWERING_GRAPH_SINK_PERMUTE_H

#include "lowering/graph/graph.h"

// Rewrites the graph; false without memory. pre: nodes 0 .. n are in topological order and simplified.
bool tc_layout(tc_graph *g);

// What is still moved then, at the edges of the graph: a product whose last axis, as a convolution's channels, is moved in front of others is made in that
// order, [n, o, k] by [n, k, p] where it was [n p, k] by [k, o], with the elementwise work between, if its left factor lies so that this reads it in place.
// The same sums in the same order. False without memory. pre: convolutions are taken apart.
bool tc_layout_edges(tc_graph *g);

#endif
