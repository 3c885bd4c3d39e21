// What the table of ops says of an instruction, and freeing a nest. See kir.h.
#include "lowering/kir/kir.h"

#include "lowering/kir/libm.h"
#include "runtime/arena.h"

bool tc_nest_is_pure(const tc_ninst *inst) {
  return (inst->op >= TC_N_ADD && inst->op <= TC_N_HREDUCE) || inst->op == TC_N_SPLAT;
}

bool tc_nest_has_value(const tc_ninst *inst) {
  switch (inst->op) {
    case TC_N_ENDLOOP:
    case TC_N_IF:
    case TC_N_ENDIF:
    case TC_N_SET:
    case TC_N_STORE:
    case TC_N_SCATTER:
    case TC_N_PREFETCH:
    case TC_N_COPY:
    case TC_N_COMMIT:
    case TC_N_WAIT:
    case TC_N_FETCH:
    case TC_N_ARRIVED:
    case TC_N_WGMMA:
    case TC_N_SETTLED: return false;
    default: return true;
  }
}

// How many operands an op has at most.
int tc_kir_n_operands(const tc_ninst *i) {
  switch (i->op) {
    case TC_N_BEGIN:
    case TC_N_FINISH:
    case TC_N_CONST:
    case TC_N_NUM:
    case TC_N_ENDLOOP:
    case TC_N_ENDIF:
    case TC_N_COMMIT:
    case TC_N_WAIT:
    case TC_N_LANES: return 0;
    case TC_N_IF:
    case TC_N_VAR:
    case TC_N_SPLAT:
    case TC_N_PREFETCH:
    case TC_N_NEG:
    case TC_N_ABS:
    case TC_N_SQRT:
    case TC_N_FLOOR:
    case TC_N_CEIL:
    case TC_N_TRUNC:
    case TC_N_RINT:
    case TC_N_NOT:
    case TC_N_CAST:
    case TC_N_BITCAST:
    case TC_N_LOOKUP:
    case TC_N_PICK:
    case TC_N_LDMATRIX:
    case TC_N_EXP2:
    case TC_N_TRADE:
    case TC_N_ARRIVED:
    case TC_N_SETTLED:
    case TC_N_HREDUCE: return 1;
    case TC_N_FETCH: return 4;
    case TC_N_STORE:
    case TC_N_SCATTER:
    case TC_N_COPY:
    case TC_N_MMA:
    case TC_N_MFMA:
    case TC_N_WGMMA:
    case TC_N_FMA:
    case TC_N_DOT:
    case TC_N_SELECT: return 3;
    case TC_N_CALL: return tc_nest_math_operands(i->imm);
    default: return 2;
  }
}

const char *tc_nest_op_name(tc_nest_op op) {
  static const char *const names[] = {
#define X(NAME, name) #name,
      TC_NEST_OPS(X)
#undef X
  };
  return (unsigned)op < TC_N_OPS ? names[op] : "?";
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
