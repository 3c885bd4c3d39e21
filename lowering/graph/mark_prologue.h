// Prologues: the right factor of a product that is cheap arithmetic on a narrower tensor, as
// dequantised weights are, is made where the product loads it: the narrow tensor is what is read
// from memory, and the factor is never stored.
#ifndef TC_LOWERING_GRAPH_MARK_PROLOGUE_H
#define TC_LOWERING_GRAPH_MARK_PROLOGUE_H

#include "lowering/graph/graph.h"

// Whether n, through views, is a node that the pass marked (tc_gnode.prologue).
bool tc_prologue_makes(const tc_graph *g, uint32_t n);

#endif
