// How a position in a kernel's domain moves through views to a position in what they show. Threads:
// thread-safe, pure.
#ifndef TC_LOWERING_FUSION_ACCESS_H
#define TC_LOWERING_FUSION_ACCESS_H

#include "lowering/fusion/fusion.h"
#include "lowering/graph/view.h"

tc_extents tc_view_extents(int64_t a, int64_t f, int64_t k);
// The position of an iteration at a level, as one flat index.
tc_index tc_view_flat(const tc_fusion *gp, tc_level level);
// Indices of a node of shape d at the iteration; false if they cannot be said in terms.
bool tc_view_position(const tc_fusion *gp, const tc_extents *e, tc_level level, const tc_dims *d, tc_index *idx);
// Whether node n, at a level of the fusion, reads `source` (through views made in place) exactly
// where source is at its level, on every path.
bool tc_view_links(const tc_fusion_plan *gr, const tc_fusion *gp, const tc_extents *e, uint32_t n, tc_level level,
                   uint32_t source, tc_level source_level);
// The node that must have memory so that n can be read by address: below reshapes, permutations,
// expansions, slices, flips and windows.
uint32_t tc_view_root(const tc_fusion_plan *gr, uint32_t n);

#endif
