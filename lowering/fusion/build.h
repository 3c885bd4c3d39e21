// Builds the fusion plan of a graph: decides what must have memory, places the nodes in order,
// merges fusions that read the same, and decides what is made again where it is read.
// In: a graph whose passes have run. Out: a plan (fusion.h) that lives in the arena. Threads:
// thread-safe.
#ifndef TC_LOWERING_FUSION_BUILD_H
#define TC_LOWERING_FUSION_BUILD_H

#include "lowering/fusion/fusion.h"

// TIGHT: kernels are kept so small that none can read and write more tensors or scalars than it can
// name. THRIFTY: a kernel reads so few large temporaries that fusion holds no more of them than op
// by op.
typedef enum tc_fusion_mode { TC_FUSE_ANY, TC_FUSE_LOW_MEMORY, TC_FUSE_SMALL } tc_fusion_mode;
// What out points to lives in the arena. must_materialize: per node, TC_FORCE_* or 0.
tc_status tc_fusion_build(tc_fusion_plan *out, const tc_graph *g, tc_arena *arena, const uint8_t *must_materialize,
                          tc_fusion_mode mode);

#endif
