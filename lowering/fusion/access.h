// Maps positions of a fusion's domain through views to positions of the viewed tensors.
// Threads: thread-safe, pure.
#pragma once

#include "lowering/fusion/fusion.h"
#include "lowering/graph/view.h"

tc_extents tc_view_extents(int64_t a, int64_t f, int64_t k);
// The position of an iteration at a level, as one flat (row-major) index.
tc_index tc_view_flat(const tc_fusion *gp, tc_level level);
// The indices that an iteration has in a node of shape d. False if they are not affine.
bool tc_view_position(const tc_fusion *gp, const tc_extents *e, tc_level level, const tc_dims *d, tc_index *idx);
// Whether node n, at a level of the fusion, reads `source` exactly where source is at its own
// level. The condition holds on every path, also through views that are computed where they are
// read.
bool tc_view_links(const tc_fusion_plan *gr, const tc_fusion *gp, const tc_extents *e, uint32_t n, tc_level level,
                   uint32_t source, tc_level source_level);
// The node that must have memory so that n is addressable. It lies below reshapes, permutations,
// expansions, slices, flips and windows.
uint32_t tc_view_root(const tc_fusion_plan *gr, uint32_t n);
