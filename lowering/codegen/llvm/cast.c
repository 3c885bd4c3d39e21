// Prints conversions between element types.
//
// Narrow floats live as their bits and convert by integer operations unless the target has
// instructions. LLVM 14 aborts on vectors of bfloat.
// Without F16C, half would become calls to a run-time library that is not linked.
// Invariants: one rounding, to nearest even. A value that passes through a wider float to 16 bits
// is rounded to odd there, which keeps the last rounding right. Float to integer saturates, and NaN
// gives 0.
#include <string.h>

#include "lowering/codegen/llvm/values.h"

// A cast at work: short names for the many small steps.
typedef struct cast {
  tc_llvm_build *b;
  LLVMBuilderRef at;
  unsigned lanes;
} cast;

static LLVMTypeRef wide(cast c, LLVMTypeRef scalar) {
  return tc_llvm_widen_type(scalar, c.lanes);
}

static LLVMValueRef i32(cast c, uint32_t value) {
  return tc_llvm_int(c.b->i32, (int32_t)value, c.lanes);
}

static LLVMValueRef to_bits(cast c, LLVMValueRef f) {
  return LLVMBuildBitCast(c.at, f, wide(c, c.b->i32), "");
}

static LLVMValueRef from_bits(cast c, LLVMValueRef v) {
  return LLVMBuildBitCast(c.at, v, wide(c, c.b->f32), "");
}

static LLVMValueRef and32(cast c, LLVMValueRef v, uint32_t mask) {
  return LLVMBuildAnd(c.at, v, i32(c, mask), "");
}

static LLVMValueRef or32(cast c, LLVMValueRef v, uint32_t mask) {
  return LLVMBuildOr(c.at, v, i32(c, mask), "");
}

static LLVMValueRef shl32(cast c, LLVMValueRef v, unsigned n) {
  return LLVMBuildShl(c.at, v, i32(c, n), "");
}

static LLVMValueRef shr32(cast c, LLVMValueRef v, unsigned n) {
  return LLVMBuildLShr(c.at, v, i32(c, n), "");
}

static LLVMValueRef if_above(cast c, LLVMValueRef v, uint32_t limit, LLVMValueRef yes, LLVMValueRef no) {
  return LLVMBuildSelect(c.at, LLVMBuildICmp(c.at, LLVMIntUGT, v, i32(c, limit), ""), yes, no, "");
}

static LLVMValueRef bf16_to_f32(cast c, LLVMValueRef v) {
  return from_bits(c, shl32(c, LLVMBuildZExt(c.at, v, wide(c, c.b->i32), ""), 16));
}

// Adds half of the last kept bit, less one where that bit is even; NaN keeps its upper bits and
// becomes quiet.
static LLVMValueRef f32_to_bf16_in_steps(cast c, LLVMValueRef v) {
  LLVMValueRef bits = to_bits(c, v), odd = and32(c, shr32(c, bits, 16), 1);
  LLVMValueRef rounded = LLVMBuildAdd(c.at, bits, LLVMBuildAdd(c.at, odd, i32(c, 0x7fff), ""), "");
  LLVMValueRef nan = LLVMBuildFCmp(c.at, LLVMRealUNO, v, v, "");
  bits = LLVMBuildSelect(c.at, nan, or32(c, bits, 0x400000), rounded, "");
  return LLVMBuildTrunc(c.at, shr32(c, bits, 16), wide(c, c.b->i16), "");
}

// As processors round that have dot products of bf16: denormals become zeros of their sign. Of 8
// lanes or whole vectors of 16; NULL where there is none. LLVM 14 has bf16 as i16 there.
static LLVMValueRef f32_to_bf16_at_once(cast c, LLVMValueRef v) {
  const unsigned width = c.lanes < 16 ? 8 : 16;
  const char *name = width == 16 ? "llvm.x86.avx512bf16.cvtneps2bf16.512" : "llvm.x86.avx512bf16.cvtneps2bf16.256";
  if (!c.b->can.dot || c.lanes < 8 || LLVMLookupIntrinsicID(name, strlen(name)) == 0) return NULL;
  LLVMValueRef part[4];
  for (unsigned k = 0; k < c.lanes / width; k++) {
    LLVMValueRef arg = tc_llvm_lanes(c.b, v, width * k, width), bf16 = tc_llvm_intrinsic(c.b, name, NULL, 0, &arg, 1);
    if (bf16 == NULL) return NULL;
    part[k] = LLVMBuildBitCast(c.at, bf16, tc_llvm_widen_type(c.b->i16, width), "");
  }
  return tc_llvm_joined(c.b, part, c.lanes / width, width);
}

// Whether one of the lanes, whole vectors of 16, is a denormal.
static LLVMValueRef has_denormal(cast c, LLVMValueRef v) {
  LLVMValueRef any = NULL;
  for (unsigned k = 0; k < c.lanes / 16; k++) {
    LLVMValueRef arg[] = {tc_llvm_lanes(c.b, v, 16 * k, 16), LLVMConstInt(c.b->i32, 0x20, 0)};
    LLVMValueRef part = tc_llvm_intrinsic(c.b, "llvm.x86.avx512.fpclass.ps.512", NULL, 0, arg, 2);
    if (part == NULL) return NULL;
    any = k == 0 ? part : LLVMBuildOr(c.at, any, part, "");
  }
  LLVMTypeRef word = LLVMIntTypeInContext(c.b->ctx, 16);
  return LLVMBuildICmp(c.at, LLVMIntNE, LLVMBuildBitCast(c.at, any, word, ""), LLVMConstInt(word, 0, 0), "");
}

// A branch that is hardly ever taken, so that what it leads to lies elsewhere.
static void branch_seldom(cast c, LLVMValueRef rare, LLVMBasicBlockRef slow, LLVMBasicBlockRef after) {
  LLVMMetadataRef weight[3] = {LLVMMDStringInContext2(c.b->ctx, "branch_weights", strlen("branch_weights"))};
  for (unsigned i = 0; i < 2; i++) weight[1 + i] = LLVMValueAsMetadata(LLVMConstInt(c.b->i32, i ? 2000 : 1, 0));
  LLVMValueRef branch = LLVMBuildCondBr(c.at, rare, slow, after),
               weights = LLVMMetadataAsValue(c.b->ctx, LLVMMDNodeInContext2(c.b->ctx, weight, 3));
  LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(c.b->ctx, "prof", strlen("prof")), weights);
}

// At once, and in steps where there is a denormal, which is rare: 3 instructions a vector for 8.
static LLVMValueRef f32_to_bf16(cast c, LLVMValueRef v) {
  LLVMValueRef quick = c.lanes >= 16 ? f32_to_bf16_at_once(c, v) : NULL,
               rare = quick != NULL ? has_denormal(c, v) : NULL;
  if (rare == NULL) return f32_to_bf16_in_steps(c, v);
  LLVMBasicBlockRef from = LLVMGetInsertBlock(c.at), slow = LLVMAppendBasicBlockInContext(c.b->ctx, c.b->fn, ""),
                    after = LLVMAppendBasicBlockInContext(c.b->ctx, c.b->fn, "");
  branch_seldom(c, rare, slow, after);
  LLVMPositionBuilderAtEnd(c.at, slow);
  LLVMValueRef steps = f32_to_bf16_in_steps(c, v);
  LLVMBuildBr(c.at, after);
  LLVMPositionBuilderAtEnd(c.at, after);
  LLVMValueRef phi = LLVMBuildPhi(c.at, LLVMTypeOf(quick), "");
  LLVMAddIncoming(phi, (LLVMValueRef[]){quick, steps}, (LLVMBasicBlockRef[]){from, slow}, 2);
  return phi;
}

// Of a value whose denormals count as zeros.
static LLVMValueRef settled_to_bf16(cast c, LLVMValueRef v) {
  LLVMValueRef quick = f32_to_bf16_at_once(c, v);
  if (quick != NULL) return quick;
  LLVMValueRef bits = to_bits(c, v), normal = LLVMBuildICmp(c.at, LLVMIntNE, and32(c, bits, 0x7f800000), i32(c, 0), "");
  return f32_to_bf16_in_steps(c, from_bits(c, LLVMBuildSelect(c.at, normal, bits, and32(c, bits, 0x80000000), "")));
}

// The exponent is moved by a multiplication, which also normalises denormals; both are exact.
static LLVMValueRef f16_to_f32(cast c, LLVMValueRef v) {
  if (c.b->can.half)
    return LLVMBuildFPExt(c.at, LLVMBuildBitCast(c.at, v, wide(c, c.b->f16), ""), wide(c, c.b->f32), "");
  LLVMValueRef all = LLVMBuildZExt(c.at, v, wide(c, c.b->i32), ""), rest = and32(c, all, 0x7fff),
               up = shl32(c, rest, 13);
  LLVMValueRef number =
      to_bits(c, LLVMBuildFMul(c.at, from_bits(c, up), tc_llvm_float(c.b->f32, 0x1p112, c.lanes), ""));
  LLVMValueRef special = or32(c, up, 0x7f800000);
  special = if_above(c, rest, 0x7c00, or32(c, special, 0x400000), special);
  number = if_above(c, rest, 0x7bff, special, number);
  return from_bits(c, LLVMBuildOr(c.at, number, shl32(c, and32(c, all, 0x8000), 16), ""));
}

// After F. Giesen, float_to_half_fast3_rtne: denormals are rounded by adding 0.5, whose last bit
// has their weight.
static LLVMValueRef f32_to_f16(cast c, LLVMValueRef v) {
  if (c.b->can.half)
    return LLVMBuildBitCast(c.at, LLVMBuildFPTrunc(c.at, v, wide(c, c.b->f16), ""), wide(c, c.b->i16), "");
  LLVMValueRef bits = to_bits(c, v), size = and32(c, bits, 0x7fffffff), odd = and32(c, shr32(c, size, 13), 1);
  LLVMValueRef normal = LLVMBuildAdd(c.at, size, LLVMBuildAdd(c.at, odd, i32(c, 0xc8000fffu), ""), "");
  LLVMValueRef tiny = to_bits(c, LLVMBuildFAdd(c.at, from_bits(c, size), tc_llvm_float(c.b->f32, 0.5, c.lanes), ""));
  tiny = LLVMBuildSub(c.at, tiny, i32(c, 0x3f000000), "");
  LLVMValueRef nan = or32(c, and32(c, shr32(c, size, 13), 0x3ff), 0x7e00);
  LLVMValueRef number = if_above(c, size, 0x387fffff, shr32(c, normal, 13), tiny);
  number = if_above(c, size, 0x477fffff, if_above(c, size, 0x7f800000, nan, i32(c, 0x7c00)), number);
  number = LLVMBuildOr(c.at, number, and32(c, shr32(c, bits, 16), 0x8000), "");
  return LLVMBuildTrunc(c.at, number, wide(c, c.b->i16), "");
}

// To nearest, then, if that was inexact and the last bit is even, one step back towards v: the
// result is odd.
static LLVMValueRef f64_to_f32_odd(cast c, LLVMValueRef v) {
  LLVMTypeRef f64 = wide(c, c.b->f64);
  LLVMValueRef near = LLVMBuildFPTrunc(c.at, v, wide(c, c.b->f32), ""), back = LLVMBuildFPExt(c.at, near, f64, "");
  LLVMValueRef size = tc_llvm_intrinsic(c.b, "llvm.fabs", &f64, 1, &v, 1),
               size_back = tc_llvm_intrinsic(c.b, "llvm.fabs", &f64, 1, &back, 1);
  LLVMValueRef bits = to_bits(c, near);
  LLVMValueRef step =
      LLVMBuildSelect(c.at, LLVMBuildFCmp(c.at, LLVMRealOGT, size_back, size, ""), i32(c, UINT32_MAX), i32(c, 1), "");
  LLVMValueRef even = LLVMBuildICmp(c.at, LLVMIntEQ, and32(c, bits, 1), i32(c, 0), "");
  LLVMValueRef move = LLVMBuildAnd(c.at, even, LLVMBuildFCmp(c.at, LLVMRealONE, size_back, size, ""), "");
  return from_bits(c, LLVMBuildSelect(c.at, move, LLVMBuildAdd(c.at, bits, step, ""), bits, ""));
}

// 64-bit integers beyond 2^53: the lower 11 bits become one sticky bit, so that the conversion to
// double is exact.
static LLVMValueRef i64_to_f64_odd(cast c, LLVMValueRef v) {
  LLVMTypeRef t = c.b->i64;
  LLVMValueRef lost = LLVMBuildICmp(c.at, LLVMIntNE, LLVMBuildAnd(c.at, v, tc_llvm_int(t, 0x7ff, c.lanes), ""),
                                    tc_llvm_int(t, 0, c.lanes), "");
  LLVMValueRef high = LLVMBuildAShr(c.at, v, tc_llvm_int(t, 11, c.lanes), "");
  high = LLVMBuildShl(c.at, LLVMBuildOr(c.at, high, LLVMBuildZExt(c.at, lost, wide(c, t), ""), ""),
                      tc_llvm_int(t, 11, c.lanes), "");
  LLVMValueRef moved = LLVMBuildAdd(c.at, v, tc_llvm_int(t, INT64_C(1) << 53, c.lanes), "");
  LLVMValueRef small = LLVMBuildICmp(c.at, LLVMIntULE, moved, tc_llvm_int(t, INT64_C(1) << 54, c.lanes), "");
  return LLVMBuildSIToFP(c.at, LLVMBuildSelect(c.at, small, v, high, ""), wide(c, c.b->f64), "");
}

static LLVMValueRef float_to_int(cast c, LLVMValueRef v, unsigned from, unsigned to) {
  LLVMTypeRef real = from == TC_F32 ? c.b->f32 : c.b->f64, type = tc_llvm_scalar_type(c.b, to);
  unsigned bits = tc_kir_type_bytes(to) * 8;
  // The first value too large.
  double low = to == TC_U8 ? 0 : -(double)(UINT64_C(1) << (bits - 1)), end = to == TC_U8 ? 256 : -low;
  LLVMValueRef zero = tc_llvm_float(real, 0, c.lanes), lowest = tc_llvm_float(real, low, c.lanes);
  if (bits < 32 || (bits == 32 && from == TC_F64)) {  // the largest is a float, so clamp before
    LLVMValueRef highest = tc_llvm_float(real, end - 1, c.lanes);
    if (low < 0) v = LLVMBuildSelect(c.at, LLVMBuildFCmp(c.at, LLVMRealORD, v, v, ""), v, zero, "");
    // U8: NaN gives 0 here.
    v = LLVMBuildSelect(c.at, LLVMBuildFCmp(c.at, LLVMRealOGT, v, lowest, ""), v, lowest, "");
    v = LLVMBuildSelect(c.at, LLVMBuildFCmp(c.at, LLVMRealOLT, v, highest, ""), v, highest, "");
    v = LLVMBuildFPToSI(c.at, v, wide(c, c.b->i32), "");
    return bits < 32 ? LLVMBuildTrunc(c.at, v, wide(c, type), "") : v;
  }
  LLVMValueRef over = LLVMBuildFCmp(c.at, LLVMRealOGE, v, tc_llvm_float(real, end, c.lanes), "");
  LLVMValueRef under = LLVMBuildFCmp(c.at, LLVMRealULT, v, lowest, "");  // or NaN
  LLVMValueRef nan = LLVMBuildFCmp(c.at, LLVMRealUNO, v, v, "");
  LLVMValueRef safe = LLVMBuildSelect(c.at, LLVMBuildOr(c.at, over, under, ""), zero, v, "");
  LLVMValueRef i = LLVMBuildFPToSI(c.at, safe, wide(c, type), "");
  int64_t most = (int64_t)(UINT64_MAX >> (65 - bits));
  i = LLVMBuildSelect(c.at, over, tc_llvm_int(type, most, c.lanes), i, "");
  i = LLVMBuildSelect(c.at, under, tc_llvm_int(type, -most - 1, c.lanes), i, "");
  return LLVMBuildSelect(c.at, nan, tc_llvm_int(type, 0, c.lanes), i, "");
}

static LLVMValueRef int_to_float(cast c, LLVMValueRef v, unsigned from, unsigned to) {
  LLVMTypeRef real = to == TC_F32 ? c.b->f32 : c.b->f64;
  if (from == TC_BOOL)
    return LLVMBuildSelect(c.at, v, tc_llvm_float(real, 1, c.lanes), tc_llvm_float(real, 0, c.lanes), "");
  return from == TC_U8 ? LLVMBuildUIToFP(c.at, v, wide(c, real), "") : LLVMBuildSIToFP(c.at, v, wide(c, real), "");
}

static LLVMValueRef to_half(cast c, LLVMValueRef v, unsigned from, unsigned to) {
  if (from == TC_I64)
    v = f64_to_f32_odd(c, i64_to_f64_odd(c, v));
  else if (from == TC_I32)
    v = f64_to_f32_odd(c, int_to_float(c, v, from, TC_F64));
  else if (from == TC_F64)
    v = f64_to_f32_odd(c, v);
  else if (from != TC_F32)
    v = int_to_float(c, v, from, TC_F32);
  return to == TC_F16 ? f32_to_f16(c, v) : f32_to_bf16(c, v);
}

LLVMValueRef tc_llvm_cast(tc_llvm_build *b, const tc_kir_inst *inst, LLVMValueRef v, unsigned from) {
  const unsigned to = inst->dtype, lanes = inst->lanes;
  cast c = {b, b->b, lanes};
  if (inst->imm != 0) return settled_to_bf16(c, v);
  if (from == to) return v;
  if (tc_kir_is_half(from)) {
    v = from == TC_F16 ? f16_to_f32(c, v) : bf16_to_f32(c, v);
    from = TC_F32;
    if (to == TC_F32) return v;
  }
  LLVMTypeRef type = tc_llvm_value_type(b, to, lanes);
  if (tc_kir_is_half(to)) return to_half(c, v, from, to);
  if (to == TC_BOOL) {
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(v));
    return tc_kir_is_real(from) ? LLVMBuildFCmp(c.at, LLVMRealUNE, v, zero, "")
                                : LLVMBuildICmp(c.at, LLVMIntNE, v, zero, "");
  }
  if (tc_kir_is_real(from) && tc_kir_is_real(to))
    return to == TC_F64 ? LLVMBuildFPExt(c.at, v, type, "") : LLVMBuildFPTrunc(c.at, v, type, "");
  if (tc_kir_is_real(from)) return float_to_int(c, v, from, to);
  if (tc_kir_is_real(to)) return int_to_float(c, v, from, to);
  if (tc_kir_type_bytes(to) == tc_kir_type_bytes(from) && from != TC_BOOL) return v;  // I8 and U8
  if (tc_kir_type_bytes(to) < tc_kir_type_bytes(from)) return LLVMBuildTrunc(c.at, v, type, "");
  return from == TC_U8 || from == TC_BOOL ? LLVMBuildZExt(c.at, v, type, "") : LLVMBuildSExt(c.at, v, type, "");
}
