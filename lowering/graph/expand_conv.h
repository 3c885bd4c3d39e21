// What decides who makes a convolution. The pass itself is tc_pass_expand_conv.
#pragma once

#include "lowering/graph/graph.h"

// Describes node n, a CONV, CONV_INPUT or CONV_WEIGHT with elements, as a library is asked for it.
// False where no library's convolution is the same.
bool tc_conv_facts(const tc_graph *g, uint32_t n, tc_gpu_conv_facts *out);
