// Tuning: the cut of a matrix product by measurement (TC_AUTOTUNE=1).
//
// The model's cut, its neighbours (tiling/gemm.h), and those of the best of them while that gains,
// are compiled and run by turns: by the team, on operands of the plan's shapes, as a run would;
// what is clearly slower drops out. So a choice is there before the plan's first run, and holds for
// the process and, through tuning_cache.h, for later ones. No bits depend on it. Without memory for
// operands the model's cut is taken. Threads: thread-safe; who measures while another thread
// computes measures that too.
#ifndef TC_LOWERING_AUTOTUNE_TUNE_GEMM_H
#define TC_LOWERING_AUTOTUNE_TUNE_GEMM_H

#include "lowering/emit/emitter.h"

// The cut of the group's product, found or made; false: as the model has it.
bool tc_tune(const tc_matmul_facts *f, const tc_fusion_plan *gr, const tc_fusion *group, tc_arena *arena,
             tc_gemm_tiling *tiling);
// By what a choice is kept: the product's facts and the number of threads.
void tc_tune_key(const tc_matmul_facts *f, char *out, size_t bytes);

#endif
