// Convolutions as graphs: the three rows of the op table taken apart into movement, products and sums, or what a GPU vendor's library makes.
#ifndef TC_LOWERING_GRAPH_EXPAND_CONV_H
#define TC_LOWERING_GRAPH_EXPAND_CONV_H

#include "lowering/graph/graph.h"

// What a library would be asked for of node n, a CONV, CONV_INPUT or CONV_WEIGHT with elements to compute; false where it cannot be said.
bool tc_conv_facts(const tc_graph *g, uint32_t n, tc_gpu_conv_facts *out);
// Rewrites such a node; false without memory. call: of a library that makes it, taken over, whatever the result; NULL: it is generated.
bool tc_conv_expand(tc_graph *g, uint32_t n, tc_gpu_call *call);

#endif
