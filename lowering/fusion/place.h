// Places a node: into a fusion that makes what it reads, or into one of its own. Inside fusion; not
// for others.
//
//   exp(x), then a sum over rows: exp is placed in a FLAT fusion; the sum folds the same
//   elements, so the fusion becomes ROW and takes both
//
// A rule of placing is a condition of place.c; a kind of fusion is a row of tc_fusion_kind, and of
// emit's.
#ifndef TC_LOWERING_FUSION_PLACE_H
#define TC_LOWERING_FUSION_PLACE_H

#include "lowering/fusion/fuser.h"

// pre: what n reads is placed. Groups that n reads become one with its own where they may. Sets
// w->failed without memory.
void tc_fuser_place_node(tc_fuser *w, uint32_t n);

#endif
