// The table of ops, and freeing a nest. See kir.h.
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

const tc_kir_op tc_kir_ops[TC_N_OPS + 1] = {
#define TC_KIR_OP(NAME, name, operands, mask, result, types, rule, imm, traits) \
  [TC_N_##NAME] = {#name, operands, mask, TC_KIR_RESULT_##result, TC_KIR_IMM_##imm, traits},
#include "lowering/kir/ops.def"
#undef TC_KIR_OP
    [TC_N_OPS] = {.name = "?"},
};

int tc_kir_n_operands(const tc_ninst *inst) {
  return tc_kir_op_of(inst)->imm == TC_KIR_IMM_FUNCTION ? tc_nest_math_operands(inst->imm) : tc_kir_op_of(inst)->operands;
}

void tc_nest_destroy(tc_nest *nest) {
  if (nest == NULL) return;
  tc_free(nest->inst);
  tc_free(nest->tile);
  tc_free(nest->buf_type);
  nest->inst = NULL;
  nest->tile = NULL;
  nest->buf_type = NULL;
  nest->n_inst = nest->cap_inst = nest->n_tile = nest->n_buf = 0;
}
