// Values that are cheaper to make again in each kernel that reads them than to store in one and
// load in another: a moved or indexed elementwise value, what a backward reads of a forward. Judged
// by estimated time, which counts bytes, arithmetic and kernels that vanish. Bits do not depend on
// it.
#ifndef TC_LOWERING_FUSION_RECOMPUTE_H
#define TC_LOWERING_FUSION_RECOMPUTE_H

#include "lowering/fusion/fusion.h"

// After fusion plan. must: per node, whether it has memory whatever is decided here. Takes `stored`
// from what is made again, and members and whole fusions away that nobody needs then; a fusion
// without members is no kernel.
// thrifty: memory is dearer than time, and no kernel then reads more large temporaries than before.
tc_status tc_recompute(tc_fusion_plan *gr, const bool *must, bool low_memory);

#endif
