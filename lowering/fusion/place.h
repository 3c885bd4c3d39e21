// Places a node in a fusion that computes one of its operands, or in a new one. Internal to
// fusion/.
//
//   exp(x), then a sum over rows: exp is placed in a FLAT fusion; the sum reduces the same
//   elements, so the fusion becomes ROW and takes both
//
// A placing rule is a condition in place.c. A kind of fusion is an enumerator of tc_fusion_kind and
// an emitter (lowering/emit).
#pragma once

#include "lowering/fusion/fuser.h"

// pre: the operands of n are placed. Merges fusions that n reads with its own where the rules allow
// it. Sets w->failed without memory.
void tc_fuser_place_node(tc_fuser *w, uint32_t n);
