// Chooses values that are cheaper to recompute in each reader than to store and load. Examples are
// moved or indexed elementwise values, and what a backward pass reads of a forward pass. The
// estimate is time: bytes, arithmetic, and kernels that vanish. Results are the same bits either
// way.
#pragma once

#include "lowering/fusion/fusion.h"

// Runs after nodes are placed and fusions are merged. must: per node, true if it has memory in any
// case. Clears `stored` of recomputed values, and removes members and whole fusions that nobody
// reads any more. A fusion without members is no kernel.
// low_memory: memory costs more than time, and no kernel reads more large temporaries than before.
tc_status tc_recompute(tc_fusion_plan *gr, const bool *must, bool low_memory);
