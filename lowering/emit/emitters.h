// The emitters: a kind of kernel each. emitter.c lists them in a table and is the only one to call
// them.
//
// In: the context, just reset, and what is asked for. Out: the kernel IR, its units (extent) and
// its estimated work in the context's expansion. A failure sticks in the context (tc_emit_fail), as
// does a node that must be stored first (tc_emit_not_affine).
#ifndef TC_LOWERING_EMIT_EMITTERS_H
#define TC_LOWERING_EMIT_EMITTERS_H

#include "lowering/emit/context.h"

typedef void tc_emitter(tc_emit_ctx *s, const tc_build_request *r);

// Elements that are each by themselves, K in one range: [begin, end) counts blocks of lanes.
tc_emitter tc_emitter_elementwise;
// The same with K split: [begin, end) counts rows of K0 by blocks of lanes.
tc_emitter tc_emitter_elementwise_rows;
// The same where loads lie along K0: [begin, end) counts blocks of rows of K0 by blocks of lanes.
tc_emitter tc_emitter_transpose;
// Folds along rows (ROW) or down columns (COL): [begin, end) counts rows of A and K0 by blocks of
// lanes.
tc_emitter tc_emitter_reduction;
// ROW with sums of columns: [begin, end) counts parts of rows.
tc_emitter tc_emitter_reduction_parts;
// A matmul and its epilogue: [begin, end) counts tiles of the result.
tc_emitter tc_emitter_matmul, tc_emitter_gpu_matmul;
// Attention, forward or backward: [begin, end) counts blocks of rows of a head.
tc_emitter tc_emitter_attention, tc_emitter_gpu_attention;
// A convolution of few channels, and its epilogue: [begin, end) counts blocks of rows of an image.
tc_emitter tc_emitter_conv_direct;
// Winograd's convolution, the transform of its weight, and the gradient of the weight.
tc_emitter tc_emitter_winograd, tc_emitter_winograd_weight, tc_emitter_winograd_wgrad;

#endif
