// What of a convolution decides who makes it. The pass is tc_pass_expand_conv: convolutions as
// movement, products and sums, or as a library's call.
#ifndef TC_LOWERING_GRAPH_EXPAND_CONV_H
#define TC_LOWERING_GRAPH_EXPAND_CONV_H

#include "lowering/graph/graph.h"

// What a library would be asked for of node n, a CONV, CONV_INPUT or CONV_WEIGHT with elements to
// compute; false where it cannot be said.
bool tc_conv_facts(const tc_graph *g, uint32_t n, tc_gpu_conv_facts *out);

#endif
