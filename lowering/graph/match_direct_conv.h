// Recognises convolutions of few channels, such as those of a picture, whose result is wanted
// channels first. Their kernel: lowering/emit/conv/direct.c.
#pragma once

#include "lowering/graph/graph.h"

// Whether node n is the matmul that a two-dimensional convolution of so many images became, of few
// enough channels for the kernel.
bool tc_direct_fits(const tc_graph *g, uint32_t n, int64_t images);
// That convolution as a node CONV_DIRECT [images, o, p * q]: the same sums in the same order.
// TC_GNODE_NONE without memory.
uint32_t tc_direct_add(tc_graph *g, uint32_t n);
