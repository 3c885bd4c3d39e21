// Decides which matmuls of a plan a library could compute, and whether the library or a generated
// kernel computes each.
//
// A library can compute a matmul whose operands lie in memory as rows with constant strides,
// transposed or not. All are of one type: f32, f16 or bf16.
// Its epilogue may only be an f32 bias, which gives exactly the recorded sum. Any other epilogue
// becomes a kernel of its own.
// A library rounds a 16-bit type after the epilogue and not before it. Its GELU and ReLU differ
// from the recorded ones in some bits.
// Operands given by the caller (parameters aside) and results that the caller keeps may have
// another address in each run. A replayed graph copies them, and the library's price includes that
// (roofline.c).
// A rule chooses, or a measurement (TC_AUTOTUNE), before the plan's first run. The choice holds for
// the process.
// Threads: thread-safe.
#pragma once

#include "lowering/emit/emitter.h"
#include "lowering/autotune/library_select.h"

typedef enum tc_library_gemm_after { TC_AFTER_NOTHING, TC_AFTER_BIAS, TC_AFTER_MORE } tc_library_gemm_after;

// An operand: a node with memory, and its first element there.
typedef struct tc_library_gemm_operand {
  uint32_t node;
  int64_t first;
} tc_library_gemm_operand;

typedef struct tc_library_gemm {
  tc_gpu_work work;
  uint32_t node;  // the matmul
  uint32_t result;  // the matmul, or its sum with the bias
  tc_library_gemm_operand left, right, bias;
  tc_library_gemm_after after;  // MORE: the work is the matmul alone
  bool moves[4];  // true: the address may differ in each run; indexed as in tc_gpu_work_bytes
} tc_library_gemm;

// Whether a library could compute the fusion's matmul. Fills *out.
bool tc_library_gemm_find(const tc_fusion_plan *gr, const tc_fusion *gp, tc_library_gemm *out);
// Whether the library computes it; then *out is a new reference. An epilogue that it cannot compute
// is priced as a kernel of its own.
// A bias that the library cannot add becomes such an epilogue: after is then MORE. scratch is
// reset.
bool tc_library_gemm_choose(tc_library_gemm *v, const tc_fusion_plan *gr, const tc_fusion *gp, tc_arena *scratch,
                            tc_gpu_call **out);

// ---- between the files of this ----

// Times the fusion's generated kernel and the library's fastest algorithm with its epilogue kernel.
// False: could not be timed.
typedef struct tc_library_gemm_rivals {
  const tc_library_gemm *v;
  const tc_fusion_plan *gr;
  const tc_emit_result *e;  // the generated kernel
} tc_library_gemm_rivals;
bool tc_library_gemm_measure(void *rivals, tc_library_gemm_times *out);
