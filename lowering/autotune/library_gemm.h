// Matrix products by a vendor's library, beside generated ones: which of a plan's the library could
// make, and which of the two makes them.
//
// A product is the library's to make if its operands lie in memory as rows of elements, transposed
// or not, by constant strides, and all are of one type: f32, f16 or bf16. What follows it in its
// kernel is the library's, too, where it is a sum with a row in f32, which is the very sum that was
// recorded. Otherwise it is left for a kernel of its own: a library rounds a half type after what
// follows, not before, its GELU and ReLU are not the recorded ones bit by bit. An operand that the
// program gives and that is no parameter, or a result that it keeps, may lie elsewhere in each run,
// where a graph that is replayed copies it: that is in the library's price (roofline.h).
// Who makes it is a rule's to say, or a measurement's (TC_AUTOTUNE), before the plan's first run,
// and stays so for the process. Threads: thread-safe.
#ifndef TC_LOWERING_AUTOTUNE_LIBRARY_GEMM_H
#define TC_LOWERING_AUTOTUNE_LIBRARY_GEMM_H

#include "lowering/emit/emitter.h"
#include "lowering/autotune/library_select.h"

typedef enum tc_library_gemm_after { TC_AFTER_NOTHING, TC_AFTER_BIAS, TC_AFTER_MORE } tc_library_gemm_after;

// A node with memory, and where in it the operand begins, in elements.
typedef struct tc_library_gemm_operand {
  uint32_t node;
  int64_t first;
} tc_library_gemm_operand;

typedef struct tc_library_gemm {
  tc_gpu_matmul_facts facts;
  uint32_t node;  // the product
  uint32_t result;  // the product, or its sum with the bias
  tc_library_gemm_operand left, right, bias;
  tc_library_gemm_after after;  // MORE: then the facts are of the product alone
  bool moves[4];  // by the call's addresses (tc_gpu_work_bytes): whether it may be elsewhere in each run
} tc_library_gemm;

// Whether a library could make the group's product.
bool tc_library_gemm_find(const tc_fusion_plan *gr, const tc_fusion *gp, tc_library_gemm *out);
// Bytes that a replayed graph copies for the library where what moves is elsewhere in each run.
size_t tc_library_gemm_copied_bytes(const tc_library_gemm *v);
// Whether it does; then *out is a new reference. Where more follows, a kernel of its own makes
// that, whose price counts; a bias becomes such where the library adds none. scratch is reset.
bool tc_library_gemm_choose(tc_library_gemm *v, const tc_fusion_plan *gr, const tc_fusion *gp, tc_arena *scratch,
                            tc_gpu_call **out);

// ---- between the files of this ----

// Of the group's generated kernel and of the library's fastest algorithm with what follows it.
bool tc_library_gemm_measure(const tc_library_gemm *v, const tc_fusion_plan *gr, const tc_emit_result *e,
                             tc_library_gemm_times *out);

#endif
