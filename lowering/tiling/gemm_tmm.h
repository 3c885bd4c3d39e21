// Tiling of a matmul by tile registers. In: its facts, where tmm is true. Out: the tiling.
// Invariants, threads: as gemm.h says.
#pragma once

#include "lowering/tiling/gemm.h"

// Chooses the tiling. lanes: of a panel, where b is not in panels.
void tc_tiling_choose_tmm(tc_tiling_params *b, const tc_matmul_facts *f, int lanes);
// Whether the units are ones that a kernel can be made for.
bool tc_tiling_tmm_is_legal(const tc_tiling_params *b, const tc_matmul_facts *f);
