// Panels: a factor that stays the same from run to run is kept as products of few rows read it, so that no run packs it again and its bytes arrive in
// order. Packing is a view like any other, of which the result is stored: only the order in memory changes, no value.
#ifndef TC_LOWERING_GRAPH_PREPACK_WEIGHTS_H
#define TC_LOWERING_GRAPH_PREPACK_WEIGHTS_H

#include "lowering/graph/graph.h"

// Rewrites the right factors of products; false without memory. pre: nodes are simplified; operands may have higher numbers than what reads them.
bool tc_panels(tc_graph *g);

#endif
