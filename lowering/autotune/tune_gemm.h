// Tunes the tiling of a matmul by measurement (TC_AUTOTUNE=1).
//
// Candidates are the model's tiling, its neighbours (tiling/gemm.h), and the neighbours of the best
// one while that gains. They are compiled and run alternately.
// The team runs them on operands of the plan's shapes, as a run would; slow candidates drop out.
// In: the matmul's facts and its fusion. Out: a tiling.
// Invariants: a choice is made before the plan's first run. It holds for the process and, through
// tuning_cache.h, for later ones. No bits depend on it. Without memory for operands the model's
// tiling is used.
// Threads: thread-safe. Work of other threads during a measurement distorts it.
#pragma once

#include "lowering/emit/emitter.h"

// The tiling of the fusion's matmul, found in the cache or measured. False: it is the model's.
bool tc_tune(const tc_matmul_facts *f, const tc_fusion_plan *gr, const tc_fusion *group, tc_arena *arena,
             tc_gemm_tiling *tiling);
// The cache key of a choice: the matmul's facts and the number of threads.
void tc_tune_key(const tc_matmul_facts *f, char *out, size_t bytes);
