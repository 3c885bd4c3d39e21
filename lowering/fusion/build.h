// Builds the fusion plan of a graph. It decides which nodes have memory, places the nodes in order,
// merges fusions that read the same data, and decides which values are recomputed.
// In: a graph whose passes have run.
// Out: a plan (fusion.h).
// Threads: thread-safe. Owner: the plan lives in the caller's arena.
#pragma once

#include "lowering/fusion/fusion.h"

// TC_FUSE_LOW_MEMORY: a kernel reads so few large temporaries that the plan holds no more of them
// than op-by-op execution does. TC_FUSE_SMALL: kernels are so small that none can exceed the number
// of tensors and scalars that a kernel can name.
typedef enum tc_fusion_mode { TC_FUSE_ANY, TC_FUSE_LOW_MEMORY, TC_FUSE_SMALL } tc_fusion_mode;
// Fills *out; what it points to lives in the arena. must_materialize: per node,
// TC_MUST_MATERIALIZE, TC_NO_FUSION or 0.
tc_status tc_fusion_build(tc_fusion_plan *out, const tc_graph *g, tc_arena *arena, const uint8_t *must_materialize,
                          tc_fusion_mode mode);
