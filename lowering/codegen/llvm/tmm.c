// Prints instructions on tile registers. See tmm.h.
// The intrinsics take registers as constants. LLVM allocates none of them, and keeps the order of
// their instructions among loads and stores.
#include "lowering/codegen/llvm/tmm.h"

#include <string.h>

#include "lowering/codegen/llvm/address.h"
#include "lowering/codegen/llvm/values.h"

// The 64 bytes that LDTILECFG loads: a palette, bytes of a row (16 bits each), and rows (8 bits).
#define CONFIG_BYTES 64
#define CONFIG_ROW_BYTES 16
#define CONFIG_ROWS 48
#define TMM_ROW 64  // bytes from one row of the caller's to the next, where they wait

static LLVMValueRef after(tc_llvm_build *b, LLVMValueRef p, uint64_t bytes) {
  LLVMValueRef at = LLVMConstInt(b->i64, bytes, 0);
  return LLVMBuildGEP2(b->b, b->i8, p, &at, 1, "");
}

static LLVMValueRef stack_bytes(tc_llvm_build *b, unsigned bytes) {
  LLVMValueRef p = LLVMBuildAlloca(b->entry, LLVMArrayType(b->i8, bytes), "");
  LLVMSetAlignment(p, 64);
  return tc_llvm_cast_pointer(b->entry, p, b->i8);
}

static bool call_intrinsic(tc_llvm_build *b, const char *name, LLVMValueRef *arg, unsigned n) {
  return tc_llvm_intrinsic(b, name, NULL, 0, arg, n) != NULL;
}

static LLVMBasicBlockRef block_behind(tc_llvm_build *b) {
  LLVMBasicBlockRef block = LLVMAppendBasicBlockInContext(b->ctx, b->fn, "");
  LLVMMoveBasicBlockAfter(block, LLVMGetInsertBlock(b->b));
  return block;
}

static LLVMValueRef is_nonzero(tc_llvm_build *b, LLVMValueRef from, uint64_t bytes) {
  LLVMValueRef v = LLVMBuildLoad2(b->b, b->i8, after(b, from, bytes), "");
  return LLVMBuildICmp(b->b, LLVMIntNE, v, LLVMConstInt(b->i8, 0, 0), "");
}

// Stores the caller's registers, or loads them, as far as its configuration has them.
static bool move_callers(tc_llvm_build *b, const char *name) {
  bool ok = true;
  for (unsigned t = 0; ok && t < TC_KIR_TMMS; t++) {
    LLVMBasicBlockRef next = block_behind(b), body = block_behind(b);
    LLVMBuildCondBr(b->b, is_nonzero(b, b->tmm_config, CONFIG_ROWS + t), body, next);
    LLVMPositionBuilderAtEnd(b->b, body);
    LLVMValueRef arg[] = {LLVMConstInt(b->i8, t, 0), after(b, b->tmm_data, (uint64_t)t * TC_KIR_TMM_MOST * TMM_ROW),
                          LLVMConstInt(b->i64, TMM_ROW, 0)};
    ok = call_intrinsic(b, name, arg, 3);
    LLVMBuildBr(b->b, next);
    LLVMPositionBuilderAtEnd(b->b, next);
  }
  return ok;
}

static bool has_all(tc_llvm_build *b) {
  bool bf16 = false, bytes = false;
  for (uint32_t i = 0; i < b->kir->n_inst; i++) {
    const unsigned op = b->kir->inst[i].op;
    bf16 |= op == TC_IR_TMM_DOT;
    bytes |= op == TC_IR_TMM_DOT_SS || op == TC_IR_TMM_DOT_SU || op == TC_IR_TMM_DOT_US || op == TC_IR_TMM_DOT_UU;
  }
  if (b->can.tmm && (b->can.tmm_bf16 || !bf16) && (b->can.tmm_bytes || !bytes)) return true;
  return tc_llvm_fail(b, "the target lacks tile registers or products of them") != NULL;
}

// The kernel's configuration as a constant on the stack.
static LLVMValueRef own_config(tc_llvm_build *b, const tc_kir_tmm *shape) {
  uint8_t config[CONFIG_BYTES] = {1};
  for (unsigned t = 0; t < TC_KIR_TMMS; t++)
    if (shape[t].rows > 0)
      config[CONFIG_ROW_BYTES + 2 * t] = (uint8_t)(4 * shape[t].words),
                                    config[CONFIG_ROWS + t] = (uint8_t)shape[t].rows;
  LLVMValueRef p = stack_bytes(b, CONFIG_BYTES);
  for (unsigned i = 0; i < CONFIG_BYTES; i += 8) {
    uint64_t word;
    memcpy(&word, config + i, sizeof word);
    LLVMBuildStore(b->b, LLVMConstInt(b->i64, word, 0), tc_llvm_cast_pointer(b->b, after(b, p, i), b->i64));
  }
  return p;
}

bool tc_llvm_enter_tmms(tc_llvm_build *b) {
  tc_kir_tmm shape[TC_KIR_TMMS];
  if (!tc_kir_tmm_shapes(b->kir, shape)) return true;
  if (!has_all(b)) return false;
  b->tmm_config = stack_bytes(b, CONFIG_BYTES);
  b->tmm_data = stack_bytes(b, TC_KIR_TMMS * TC_KIR_TMM_MOST * TMM_ROW);
  if (!call_intrinsic(b, "llvm.x86.sttilecfg", &b->tmm_config, 1)) return false;
  LLVMValueRef in_use = is_nonzero(b, b->tmm_config, 0);
  LLVMBasicBlockRef next = block_behind(b), saves = block_behind(b);
  LLVMBuildCondBr(b->b, in_use, saves, next);
  LLVMPositionBuilderAtEnd(b->b, saves);
  if (!move_callers(b, "llvm.x86.tilestored64")) return false;
  LLVMMoveBasicBlockAfter(next, LLVMGetInsertBlock(b->b));
  LLVMBuildBr(b->b, next);
  LLVMPositionBuilderAtEnd(b->b, next);
  LLVMValueRef own = own_config(b, shape);
  return call_intrinsic(b, "llvm.x86.ldtilecfg", &own, 1);
}

bool tc_llvm_leave_tmms(tc_llvm_build *b) {
  if (b->tmm_config == NULL) return true;
  if (!call_intrinsic(b, "llvm.x86.tilerelease", NULL, 0)) return false;
  LLVMBasicBlockRef next = block_behind(b), restores = block_behind(b);
  LLVMBuildCondBr(b->b, is_nonzero(b, b->tmm_config, 0), restores, next);
  LLVMPositionBuilderAtEnd(b->b, restores);
  if (!call_intrinsic(b, "llvm.x86.ldtilecfg", &b->tmm_config, 1)) return false;
  if (!move_callers(b, "llvm.x86.tileloadd64")) return false;
  LLVMMoveBasicBlockAfter(next, LLVMGetInsertBlock(b->b));
  LLVMBuildBr(b->b, next);
  LLVMPositionBuilderAtEnd(b->b, next);
  return true;
}

// A load or store of a register, in bytes.
static bool move_tmm(tc_llvm_build *b, const tc_kir_inst *inst, const char *name, unsigned tmm) {
  int64_t element;
  bool indexed;
  LLVMValueRef p = tc_llvm_address(b, inst, &element, &indexed), apart = tc_llvm_operand(b, inst, 1);
  if (p == NULL || apart == NULL) return false;
  apart = LLVMBuildMul(b->b, apart, LLVMConstInt(b->i64, (uint64_t)element, 0), "");
  LLVMValueRef arg[] = {LLVMConstInt(b->i8, tmm, 0), tc_llvm_cast_pointer(b->b, p, b->i8), apart};
  return call_intrinsic(b, name, arg, 3);
}

LLVMValueRef tc_llvm_tmm(tc_llvm_build *b, const tc_kir_inst *inst) {
  static const char *const name[] = {"llvm.x86.tdpbf16ps", "llvm.x86.tdpbssd", "llvm.x86.tdpbsud", "llvm.x86.tdpbusd",
                                     "llvm.x86.tdpbuud"};
  tc_kir_tmm of[3];
  LLVMValueRef number[3];
  const int n = tc_kir_tmms_of(inst, of);
  bool ok = true;
  for (int k = 0; k < n; k++) {
    // LLVM does not refuse such a number.
    if (of[k].at >= TC_KIR_TMMS) return tc_llvm_fail(b, "no tile register %u", of[k].at);
    number[k] = LLVMConstInt(b->i8, of[k].at, 0);
  }
  switch (inst->op) {
    case TC_IR_TMM_ZERO: ok = call_intrinsic(b, "llvm.x86.tilezero", number, 1); break;
    case TC_IR_TMM_LOAD: ok = move_tmm(b, inst, "llvm.x86.tileloadd64", of[0].at); break;
    case TC_IR_TMM_STORE: ok = move_tmm(b, inst, "llvm.x86.tilestored64", of[0].at); break;
    default: ok = call_intrinsic(b, name[inst->op - TC_IR_TMM_DOT], number, 3); break;
  }
  return ok ? LLVMConstNull(b->i64) : NULL;
}
