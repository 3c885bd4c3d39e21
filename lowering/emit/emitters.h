// Declares the emitters, one for each kind of kernel. Only emitter.c calls them, by its table.
//
// In: the context, just reset. Out: kernel IR, its units (extent) and its
// estimated work in the context's result.
// Invariants: a failure sticks in the context (tc_emit_fail), as does a node that must be stored
// first (tc_emit_not_affine).
#pragma once

#include "lowering/emit/context.h"

typedef void tc_emitter(tc_emit_ctx *s);

// Elementwise with K as one range: [begin, end) counts blocks of lanes.
tc_emitter tc_emitter_elementwise;
// Elementwise with K split: [begin, end) counts rows of K0 by blocks of lanes.
tc_emitter tc_emitter_elementwise_rows;
// Elementwise with loads contiguous along K0: [begin, end) counts blocks of rows of K0 by blocks of
// lanes.
tc_emitter tc_emitter_transpose;
// Folds along rows (ROW) or over columns (COLUMN): [begin, end) counts rows of A and K0 by blocks
// of lanes.
tc_emitter tc_emitter_reduction;
// ROW with sums of columns: [begin, end) counts parts, each some rows.
tc_emitter tc_emitter_reduction_parts;
// A matmul and its epilogue: [begin, end) counts tiles of the result.
tc_emitter tc_emitter_matmul, tc_emitter_gpu_matmul;
// Attention, forward or backward: [begin, end) counts blocks of rows of a head.
tc_emitter tc_emitter_attention, tc_emitter_gpu_attention;
// A convolution of few channels, and its epilogue: [begin, end) counts blocks of rows of an image.
tc_emitter tc_emitter_conv_direct;
// Winograd convolution, its weight transform, and its weight gradient.
tc_emitter tc_emitter_winograd, tc_emitter_winograd_weight, tc_emitter_winograd_wgrad;
