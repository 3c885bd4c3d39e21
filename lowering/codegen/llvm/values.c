// Types, constants, operands and leaves as LLVM has them. See values.h.
#include "lowering/codegen/llvm/values.h"

#include <stdarg.h>
#include <string.h>

LLVMValueRef tc_llvm_fail(tc_llvm_build *b, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  if (b->text_bytes > 0 && b->text[0] == 0) vsnprintf(b->text, b->text_bytes, fmt, args);
  va_end(args);
  return NULL;
}

bool tc_llvm_no_memory(tc_llvm_build *b) {
  b->no_memory = true;
  return tc_llvm_fail(b, "out of memory") != NULL;
}

LLVMTypeRef tc_llvm_scalar_type(const tc_llvm_build *b, unsigned dtype) {
  switch (dtype) {
    case TC_BOOL: return b->i1;
    case TC_U8:
    case TC_I8: return b->i8;
    case TC_I16:
    case TC_F16:
    case TC_BF16: return b->i16;
    case TC_I32: return b->i32;
    case TC_F32: return b->f32;
    case TC_F64: return b->f64;
    default: return b->i64;
  }
}

LLVMTypeRef tc_llvm_memory_type(const tc_llvm_build *b, unsigned dtype) {
  return dtype == TC_BOOL ? b->i8 : tc_llvm_scalar_type(b, dtype);
}

LLVMTypeRef tc_llvm_widen_type(LLVMTypeRef scalar, unsigned lanes) {
  return lanes > 1 ? LLVMVectorType(scalar, lanes) : scalar;
}

LLVMTypeRef tc_llvm_value_type(const tc_llvm_build *b, unsigned dtype, unsigned lanes) {
  return tc_llvm_widen_type(tc_llvm_scalar_type(b, dtype), lanes);
}

static LLVMValueRef constant_splat(LLVMValueRef scalar, unsigned lanes) {
  LLVMValueRef all[128];  // of vectors of 16 bits twice as many lanes as of words
  if (lanes <= 1) return scalar;
  for (unsigned i = 0; i < lanes; i++) all[i] = scalar;
  return LLVMConstVector(all, lanes);
}

LLVMValueRef tc_llvm_splat(tc_llvm_build *b, LLVMBuilderRef at, LLVMValueRef scalar, unsigned lanes) {
  if (lanes <= 1) return scalar;
  if (LLVMIsConstant(scalar)) return constant_splat(scalar, lanes);
  LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(scalar), lanes);
  LLVMValueRef one = LLVMBuildInsertElement(at, LLVMGetUndef(type), scalar, LLVMConstInt(b->i32, 0, 0), "");
  return LLVMBuildShuffleVector(at, one, LLVMGetUndef(type), LLVMConstNull(LLVMVectorType(b->i32, lanes)), "");
}

LLVMValueRef tc_llvm_int(LLVMTypeRef type, int64_t value, unsigned lanes) {
  return constant_splat(LLVMConstInt(type, (unsigned long long)value, 1), lanes);
}

LLVMValueRef tc_llvm_float(LLVMTypeRef type, double value, unsigned lanes) {
  return constant_splat(LLVMConstReal(type, value), lanes);
}

static LLVMValueRef intrinsic_at(tc_llvm_build *b, LLVMBuilderRef at, const char *name, LLVMTypeRef *overload,
                                 unsigned n_overload, LLVMValueRef *arg, unsigned n_arg) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  if (id == 0) return tc_llvm_fail(b, "this LLVM has no %s", name);
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(b->mod, id, overload, n_overload);
  return LLVMBuildCall2(at, LLVMIntrinsicGetType(b->ctx, id, overload, n_overload), fn, arg, n_arg, "");
}

LLVMValueRef tc_llvm_intrinsic(tc_llvm_build *b, const char *name, LLVMTypeRef *overload, unsigned n_overload,
                               LLVMValueRef *arg, unsigned n_arg) {
  return intrinsic_at(b, b->b, name, overload, n_overload, arg, n_arg);
}

LLVMValueRef tc_llvm_lanes(tc_llvm_build *b, LLVMValueRef v, unsigned from, unsigned n) {
  LLVMValueRef at[16];
  for (unsigned i = 0; i < n; i++) at[i] = LLVMConstInt(b->i32, from + i, 0);
  return LLVMBuildShuffleVector(b->b, v, LLVMGetUndef(LLVMTypeOf(v)), LLVMConstVector(at, n), "");
}

LLVMValueRef tc_llvm_joined(tc_llvm_build *b, LLVMValueRef *part, unsigned n, unsigned width) {
  LLVMValueRef at[64];
  for (unsigned i = 0; i < 64; i++) at[i] = LLVMConstInt(b->i32, i, 0);
  for (; n > 1; n /= 2, width *= 2)
    for (unsigned k = 0; k < n / 2; k++)
      part[k] = LLVMBuildShuffleVector(b->b, part[2 * k], part[2 * k + 1], LLVMConstVector(at, 2 * width), "");
  return part[0];
}

LLVMValueRef tc_llvm_operand(tc_llvm_build *b, const tc_kir_inst *inst, unsigned which) {
  ptrdiff_t at = inst - b->kir->inst;
  if (inst->src[which] >= (uint64_t)at || b->val[inst->src[which]] == NULL)
    return tc_llvm_fail(b, "%%%td %s: operand %u has no value", at, tc_kir_op_name((tc_kir_op)inst->op), which);
  return b->val[inst->src[which]];
}

// ---- leaves: values without operands ----

// An f32 constant over lanes in a kernel that calls functions.
// A call, even on the rare path, clobbers all vector registers. LLVM would then splat the constant
// again in every iteration, which with AVX-512 occupies the shuffle units.
// A fence hides that it is a constant, so it is spilled and read from the stack.
// Measured: Zen 4, sin(a) + cos(b): 0.92 of the time.
static LLVMValueRef spilled_splat(tc_llvm_build *b, LLVMValueRef scalar, unsigned lanes) {
  LLVMValueRef v = constant_splat(scalar, 16), at[64];
  LLVMTypeRef type = LLVMTypeOf(v);
  if ((v = intrinsic_at(b, b->entry, "llvm.arithmetic.fence", &type, 1, &v, 1)) == NULL) return NULL;
  for (unsigned i = 0; i < lanes; i++) at[i] = LLVMConstInt(b->i32, i % 16, 0);
  return LLVMBuildShuffleVector(b->entry, v, LLVMGetUndef(type), LLVMConstVector(at, lanes), "");
}

LLVMValueRef tc_llvm_splat_value(tc_llvm_build *b, const tc_kir_inst *inst) {
  LLVMValueRef v = tc_llvm_operand(b, inst, 0);
  if (v == NULL) return NULL;
  bool keep = b->calls && b->can.lookup && inst->dtype == TC_F32 && inst->lanes >= 16 && LLVMIsConstant(v);
  return keep ? spilled_splat(b, v, inst->lanes) : tc_llvm_splat(b, b->b, v, inst->lanes);
}

LLVMValueRef tc_llvm_const_value(tc_llvm_build *b, const tc_kir_inst *inst) {
  LLVMTypeRef type = tc_llvm_scalar_type(b, inst->dtype);
  LLVMValueRef v;
  if (inst->dtype == TC_F32)  // by bits, so that NaNs keep theirs
    v = LLVMConstBitCast(LLVMConstInt(b->i32, (uint32_t)inst->imm, 0), type);
  else if (inst->dtype == TC_F64)
    v = LLVMConstBitCast(LLVMConstInt(b->i64, (uint64_t)inst->imm, 0), type);
  else if (inst->dtype == TC_BOOL)
    v = LLVMConstInt(type, inst->imm != 0, 0);
  else
    v = LLVMConstInt(type, (uint64_t)inst->imm, 1);
  return constant_splat(v, inst->lanes);
}

LLVMValueRef tc_llvm_lanes_value(tc_llvm_build *b, const tc_kir_inst *inst) {
  bool is_float = tc_kir_is_real(inst->dtype);
  LLVMTypeRef type = tc_llvm_scalar_type(b, inst->dtype);
  LLVMValueRef all[64];
  for (unsigned i = 0; i < inst->lanes; i++) all[i] = is_float ? LLVMConstReal(type, i) : LLVMConstInt(type, i, 0);
  return inst->lanes > 1 ? LLVMConstVector(all, inst->lanes) : all[0];
}

// Read once, in the entry block: the caller's array does not change while the kernel runs.
LLVMValueRef tc_llvm_num_value(tc_llvm_build *b, const tc_kir_inst *inst) {
  bool is_float = tc_kir_is_real(inst->dtype);
  LLVMTypeRef type = is_float ? b->f64 : b->i64;
  LLVMValueRef at = LLVMConstInt(b->i64, (uint64_t)inst->imm, 0);
  LLVMValueRef from = LLVMBuildBitCast(b->entry, LLVMGetParam(b->fn, 2), LLVMPointerType(type, 0), "");
  LLVMValueRef v = LLVMBuildLoad2(b->entry, type, LLVMBuildGEP2(b->entry, type, from, &at, 1, ""), "");
  if (inst->dtype == TC_F32)
    v = LLVMBuildFPTrunc(b->entry, v, b->f32, "");
  else if (inst->dtype == TC_BOOL)
    v = LLVMBuildICmp(b->entry, LLVMIntNE, v, LLVMConstInt(b->i64, 0, 0), "");
  else if (!is_float && inst->dtype != TC_I64)
    v = LLVMBuildTrunc(b->entry, v, tc_llvm_scalar_type(b, inst->dtype), "");
  return tc_llvm_splat(b, b->entry, v, inst->lanes);
}

// ---- memory ----

LLVMValueRef tc_llvm_cast_pointer(LLVMBuilderRef at, LLVMValueRef p, LLVMTypeRef to) {
  return LLVMBuildBitCast(at, p, LLVMPointerType(to, 0), "");
}

LLVMValueRef tc_llvm_buffer_base(tc_llvm_build *b, int64_t k) {
  const tc_kir *kir = b->kir;
  if (k < 0 || k >= (int64_t)kir->n_buf + kir->n_tile) return tc_llvm_fail(b, "no buffer %lld", (long long)k);
  if (b->base[k] != NULL) return b->base[k];
  if (k < kir->n_buf) {
    LLVMValueRef at = LLVMConstInt(b->i64, (uint64_t)k, 0);
    b->base[k] =
        LLVMBuildLoad2(b->entry, b->ptr, LLVMBuildGEP2(b->entry, b->ptr, LLVMGetParam(b->fn, 1), &at, 1, ""), "");
  } else {  // struct tc_worker: scratch is its first field
    LLVMValueRef scratch =
        LLVMBuildLoad2(b->entry, b->ptr, tc_llvm_cast_pointer(b->entry, LLVMGetParam(b->fn, 5), b->ptr), "");
    LLVMValueRef at = LLVMConstInt(b->i64, (uint64_t)kir->tile[k - kir->n_buf].offset, 0);
    b->base[k] = LLVMBuildGEP2(b->entry, b->i8, scratch, &at, 1, "");
  }
  return b->base[k];
}

bool tc_llvm_can_gather(const tc_llvm_build *b, const tc_kir_inst *inst) {
  return inst->lanes >= 8 && tc_kir_type_bytes(inst->dtype) >= 4 && b->can.gather;
}
