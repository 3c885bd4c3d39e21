// TC_LOG=fusion: prints the nodes of each kernel, and why another kernel computes what it reads.
//
//   k1 ROW [4, 64, 1]: %3 exp, %5 sum reduced
//     reads %0
//     stores %5
//     %2 is made by k0: read at other positions
//
// Threads: thread-safe.
#pragma once

#include "lowering/fusion/fusion.h"

void tc_fusion_log(const tc_fusion_plan *gr);
