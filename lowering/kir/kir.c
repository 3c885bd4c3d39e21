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
  GPU = TC_KIR_GPU
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
