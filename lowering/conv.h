// Convolutions as graphs: the three rows of the op table taken apart into movement, products and sums.
#ifndef TC_LOWERING_CONV_H
#define TC_LOWERING_CONV_H

#include "lowering/graph.h"

// Rewrites node n, a CONV, CONV_INPUT or CONV_WEIGHT with elements to compute; false without memory.
bool tc_conv_expand(tc_graph *g, uint32_t n);

#endif
