// The table of ops, and freeing a kernel. See kir.h.
#include "lowering/kir/kir.h"

#include "lowering/kir/libm.h"
#include "runtime/arena.h"

// The words of ops.def's traits.
enum {
  PURE = TC_KIR_PURE,
  HOIST = TC_KIR_HOIST,
  LEAF = TC_KIR_LEAF,
  LOADS = TC_KIR_LOADS,
  STORES = TC_KIR_STORES,
  INDEXED = TC_KIR_INDEXED,
  COMPARE = TC_KIR_COMPARE,
  OPENS = TC_KIR_OPENS,
  CLOSES = TC_KIR_CLOSES,
  HOST = TC_KIR_HOST,
  GPU = TC_KIR_GPU,
  TMM = TC_KIR_TMM
};

const tc_kir_op_row tc_kir_ops[TC_N_KIR_OPS + 1] = {
#define TC_KIR_OP(NAME, name, operands, mask, result, types, rule, imm, traits) \
  [TC_IR_##NAME] = {#name, operands, mask, TC_KIR_RESULT_##result, TC_KIR_IMM_##imm, traits},
#include "lowering/kir/ops.def"
#undef TC_KIR_OP
    [TC_N_KIR_OPS] = {.name = "?"},
};

int tc_kir_n_operands(const tc_kir_inst *inst) {
  return tc_kir_op_of(inst)->imm == TC_KIR_IMM_FUNCTION ? tc_kir_math_operands(inst->imm)
                                                        : tc_kir_op_of(inst)->operands;
}

int tc_kir_tmms_of(const tc_kir_inst *inst, tc_kir_tmm out[3]) {
  const unsigned rows = inst->flags & 255, words = inst->flags >> 8 & 255, last = inst->flags >> 16;
  if (!tc_kir_is(inst, TC_KIR_TMM)) return 0;
  out[0] = (tc_kir_tmm){last, rows, words};
  if (tc_kir_op_of(inst)->imm != TC_KIR_IMM_NUMBER) return 1;
  out[0].at = (unsigned)inst->imm & 255;
  out[1] = (tc_kir_tmm){(unsigned)(inst->imm >> 8) & 255, rows, last};
  out[2] = (tc_kir_tmm){(unsigned)(inst->imm >> 16), last, words};
  return 3;
}

bool tc_kir_tmm_shapes(const tc_kir *kir, tc_kir_tmm out[TC_KIR_TMMS]) {
  bool any = false;
  for (unsigned t = 0; t < TC_KIR_TMMS; t++) out[t] = (tc_kir_tmm){.at = t};
  for (uint32_t i = 0; i < kir->n_inst; i++) {
    tc_kir_tmm of[3];
    const int n = tc_kir_tmms_of(&kir->inst[i], of);
    for (int k = 0; k < n; k++)
      if (of[k].at < TC_KIR_TMMS) out[of[k].at] = of[k], any = true;
  }
  return any;
}

void tc_kir_destroy(tc_kir *kir) {
  if (kir == NULL) return;
  tc_free(kir->inst);
  tc_free(kir->tile);
  tc_free(kir->buf_type);
  kir->inst = NULL;
  kir->tile = NULL;
  kir->buf_type = NULL;
  kir->n_inst = kir->cap_inst = kir->n_tile = kir->n_buf = 0;
}
