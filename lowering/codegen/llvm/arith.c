// Prints arithmetic: one IR expression per operation, with the corner cases that kir.h fixes
// (wrapping, division by zero, NaN in MIN).
#include "lowering/codegen/llvm/values.h"

#include <string.h>

#include "lowering/kir/lookup_tables.h"

static unsigned int_bits(unsigned dtype) {
  return tc_kir_type_bytes(dtype) * 8;
}

static LLVMValueRef intrinsic1(tc_llvm_build *b, const char *name, LLVMValueRef *arg, unsigned n_arg) {
  LLVMTypeRef type = LLVMTypeOf(arg[0]);
  return tc_llvm_intrinsic(b, name, &type, 1, arg, n_arg);
}

// (x < y or x is NaN) ? x : y, in the form that is minps and one blend.
static LLVMValueRef min_max(tc_llvm_build *b, unsigned dtype, bool is_min, LLVMValueRef x, LLVMValueRef y) {
  if (!tc_kir_is_real(dtype)) {
    LLVMIntPredicate less = tc_kir_is_unsigned(dtype) ? LLVMIntULT : LLVMIntSLT,
                     more = tc_kir_is_unsigned(dtype) ? LLVMIntUGT : LLVMIntSGT;
    return LLVMBuildSelect(b->b, LLVMBuildICmp(b->b, is_min ? less : more, x, y, ""), x, y, "");
  }
  LLVMValueRef pick =
      LLVMBuildSelect(b->b, LLVMBuildFCmp(b->b, is_min ? LLVMRealOLT : LLVMRealOGT, x, y, ""), x, y, "");
  return LLVMBuildSelect(b->b, LLVMBuildFCmp(b->b, LLVMRealUNO, x, x, ""), x, pick, "");
}

// The constant a value is made of, if it is one over all lanes.
static bool find_constant(const tc_llvm_build *b, uint32_t at, int64_t *out) {
  const tc_kir_inst *inst = &b->kir->inst[at];
  if (inst->op == TC_IR_SPLAT) inst = &b->kir->inst[inst->src[0]];
  if (inst->op != TC_IR_CONST) return false;
  *out = inst->imm;
  return true;
}

// Quotient for a divisor that is neither 0 nor -1. Vectors of narrow integers divide as floats,
// which is exact.
// A quotient that is not whole differs from the next whole number by at least 1 part in 2^n. That
// exceeds the rounding error of a float wider than n bits.
static LLVMValueRef safe_quotient(tc_llvm_build *b, unsigned dtype, unsigned lanes, LLVMValueRef x, LLVMValueRef y) {
  if (lanes == 1 || dtype == TC_I64)
    return tc_kir_is_unsigned(dtype) ? LLVMBuildUDiv(b->b, x, y, "") : LLVMBuildSDiv(b->b, x, y, "");
  LLVMTypeRef real = tc_llvm_widen_type(dtype == TC_I32 ? b->f64 : b->f32, lanes),
              wide = tc_llvm_widen_type(b->i32, lanes);
  if (dtype != TC_I32) {
    x = tc_kir_is_unsigned(dtype) ? LLVMBuildZExt(b->b, x, wide, "") : LLVMBuildSExt(b->b, x, wide, "");
    y = tc_kir_is_unsigned(dtype) ? LLVMBuildZExt(b->b, y, wide, "") : LLVMBuildSExt(b->b, y, wide, "");
  }
  LLVMValueRef q = LLVMBuildFDiv(b->b, LLVMBuildSIToFP(b->b, x, real, ""), LLVMBuildSIToFP(b->b, y, real, ""), "");
  q = LLVMBuildFPToSI(b->b, q, wide, "");
  return dtype == TC_I32 ? q : LLVMBuildTrunc(b->b, q, tc_llvm_value_type(b, dtype, lanes), "");
}

static LLVMValueRef int_divide(tc_llvm_build *b, const tc_kir_inst *inst, LLVMValueRef x, LLVMValueRef y) {
  LLVMTypeRef type = tc_llvm_scalar_type(b, inst->dtype);
  LLVMValueRef zero = tc_llvm_int(type, 0, inst->lanes), q;
  bool is_rem = inst->op == TC_IR_REM;
  int64_t divisor = 0, largest = (int64_t)(UINT64_MAX >> (65 - int_bits(inst->dtype)));
  if (find_constant(b, inst->src[1], &divisor) && divisor > 0 && divisor <= largest) {
    // A positive constant needs no guard, and LLVM multiplies instead.
    q = tc_kir_is_unsigned(inst->dtype) ? LLVMBuildUDiv(b->b, x, y, "") : LLVMBuildSDiv(b->b, x, y, "");
  } else {
    LLVMValueRef is_zero = LLVMBuildICmp(b->b, LLVMIntEQ, y, zero, ""), bad = is_zero, is_minus = NULL;
    if (!tc_kir_is_unsigned(inst->dtype)) {
      is_minus = LLVMBuildICmp(b->b, LLVMIntEQ, y, tc_llvm_int(type, -1, inst->lanes), "");
      bad = LLVMBuildOr(b->b, is_zero, is_minus, "");
    }
    LLVMValueRef safe = LLVMBuildSelect(b->b, bad, tc_llvm_int(type, 1, inst->lanes), y, "");
    q = safe_quotient(b, inst->dtype, inst->lanes, x, safe);
    // X - x for 0 and -1.
    if (is_rem) return LLVMBuildSub(b->b, x, LLVMBuildMul(b->b, q, safe, ""), "");
    if (is_minus != NULL) q = LLVMBuildSelect(b->b, is_minus, LLVMBuildNeg(b->b, x, ""), q, "");
    return LLVMBuildSelect(b->b, is_zero, zero, q, "");
  }
  return is_rem ? LLVMBuildSub(b->b, x, LLVMBuildMul(b->b, q, y, ""), "") : q;
}

static LLVMValueRef shift(tc_llvm_build *b, const tc_kir_inst *inst, LLVMValueRef x, LLVMValueRef count) {
  LLVMTypeRef type = tc_llvm_scalar_type(b, inst->dtype);
  bool is_signed = inst->op == TC_IR_SHR && !tc_kir_is_unsigned(inst->dtype);
  unsigned bits = int_bits(inst->dtype);
  LLVMValueRef fits = LLVMBuildICmp(b->b, LLVMIntULT, count, tc_llvm_int(type, bits, inst->lanes), "");
  LLVMValueRef safe = LLVMBuildSelect(b->b, fits, count, tc_llvm_int(type, is_signed ? bits - 1 : 0, inst->lanes), "");
  if (is_signed) return LLVMBuildAShr(b->b, x, safe, "");
  LLVMValueRef v = inst->op == TC_IR_SHL ? LLVMBuildShl(b->b, x, safe, "") : LLVMBuildLShr(b->b, x, safe, "");
  return LLVMBuildSelect(b->b, fits, v, tc_llvm_int(type, 0, inst->lanes), "");
}

static LLVMValueRef compare(tc_llvm_build *b, unsigned op, unsigned dtype, LLVMValueRef x, LLVMValueRef y) {
  static const LLVMRealPredicate real[] = {LLVMRealOEQ, LLVMRealUNE, LLVMRealOLT,
                                           LLVMRealOLE, LLVMRealOGT, LLVMRealOGE};
  static const LLVMIntPredicate sign[] = {LLVMIntEQ, LLVMIntNE, LLVMIntSLT, LLVMIntSLE, LLVMIntSGT, LLVMIntSGE};
  static const LLVMIntPredicate plain[] = {LLVMIntEQ, LLVMIntNE, LLVMIntULT, LLVMIntULE, LLVMIntUGT, LLVMIntUGE};
  unsigned i = op - TC_IR_EQ;
  if (tc_kir_is_real(dtype)) return LLVMBuildFCmp(b->b, real[i], x, y, "");
  return LLVMBuildICmp(b->b, tc_kir_is_unsigned(dtype) ? plain[i] : sign[i], x, y, "");
}

static LLVMValueRef mul_high(tc_llvm_build *b, unsigned lanes, LLVMValueRef x, LLVMValueRef y) {
  LLVMTypeRef wide = tc_llvm_widen_type(b->i64, lanes);
  LLVMValueRef p = LLVMBuildMul(b->b, LLVMBuildZExt(b->b, x, wide, ""), LLVMBuildZExt(b->b, y, wide, ""), "");
  return LLVMBuildTrunc(b->b, LLVMBuildLShr(b->b, p, tc_llvm_int(b->i64, 32, lanes), ""),
                        tc_llvm_widen_type(b->i32, lanes), "");
}

static LLVMValueRef binary(tc_llvm_build *b, unsigned op, unsigned dtype, LLVMValueRef x, LLVMValueRef y) {
  bool real = tc_kir_is_real(dtype);
  switch (op) {
    case TC_IR_ADD: return real ? LLVMBuildFAdd(b->b, x, y, "") : LLVMBuildAdd(b->b, x, y, "");
    case TC_IR_SUB: return real ? LLVMBuildFSub(b->b, x, y, "") : LLVMBuildSub(b->b, x, y, "");
    case TC_IR_MUL: return real ? LLVMBuildFMul(b->b, x, y, "") : LLVMBuildMul(b->b, x, y, "");
    case TC_IR_MIN:
    case TC_IR_MAX: return min_max(b, dtype, op == TC_IR_MIN, x, y);
    case TC_IR_AND: return real ? NULL : LLVMBuildAnd(b->b, x, y, "");
    case TC_IR_OR: return real ? NULL : LLVMBuildOr(b->b, x, y, "");
    case TC_IR_XOR: return real ? NULL : LLVMBuildXor(b->b, x, y, "");
    default: return NULL;
  }
}

// x * 2^n in two steps, of which the first is exact. Small n, which reaches denormals: by 2^(n +
// 64) and 2^-64. Else: by 2^(n - 1) and 2.
static LLVMValueRef scale_in_steps(tc_llvm_build *b, unsigned lanes, LLVMValueRef x, LLVMValueRef n, bool small) {
  LLVMTypeRef whole = tc_llvm_value_type(b, TC_I32, lanes), real = tc_llvm_value_type(b, TC_F32, lanes);
  // 1.5 * 2^23: the sum's low bits hold n, and no others are left by the shift.
  LLVMValueRef rounder = tc_llvm_float(b->f32, 12582912.0, lanes);
  LLVMValueRef bits = LLVMBuildBitCast(b->b, LLVMBuildFAdd(b->b, n, rounder, ""), whole, "");
  LLVMValueRef bias = tc_llvm_int(b->i32, (127 + 64) << 23, lanes), rest = tc_llvm_float(b->f32, 0x1p-64, lanes);
  if (!small) {  // by n's sign bit, which a blend takes without a compare
    LLVMValueRef negative =
        LLVMBuildICmp(b->b, LLVMIntSLT, LLVMBuildBitCast(b->b, n, whole, ""), tc_llvm_int(b->i32, 0, lanes), "");
    bias = LLVMBuildSelect(b->b, negative, bias, tc_llvm_int(b->i32, (127 - 1) << 23, lanes), "");
    rest = LLVMBuildSelect(b->b, negative, rest, tc_llvm_float(b->f32, 2, lanes), "");
  }
  LLVMValueRef power = LLVMBuildAdd(b->b, LLVMBuildShl(b->b, bits, tc_llvm_int(b->i32, 23, lanes), ""), bias, "");
  return LLVMBuildFMul(b->b, LLVMBuildFMul(b->b, x, LLVMBuildBitCast(b->b, power, real, ""), ""), rest, "");
}

// AVX-512 has an instruction for it, of 16 lanes.
static LLVMValueRef scale(tc_llvm_build *b, unsigned lanes, LLVMValueRef x, LLVMValueRef n, bool small) {
  if (!b->can.scale || lanes < 16) return scale_in_steps(b, lanes, x, n, small);
  LLVMValueRef part[4];
  for (unsigned k = 0; k < lanes / 16; k++) {
    LLVMValueRef from = tc_llvm_lanes(b, x, 16 * k, 16);
    LLVMValueRef arg[] = {from, tc_llvm_lanes(b, n, 16 * k, 16), from,
                          LLVMConstAllOnes(LLVMIntTypeInContext(b->ctx, 16)), LLVMConstInt(b->i32, 4, 0)};
    if ((part[k] = tc_llvm_intrinsic(b, "llvm.x86.avx512.mask.scalef.ps.512", NULL, 0, arg, 5)) == NULL) return NULL;
  }
  return tc_llvm_joined(b, part, lanes / 16, 16);
}

// Bits of floats, where denormals count as zeros, as floats.
static LLVMValueRef without_denormals(tc_llvm_build *b, unsigned lanes, LLVMValueRef bits) {
  LLVMValueRef exponent = LLVMBuildAnd(b->b, bits, tc_llvm_int(b->i32, 0x7f800000, lanes), "");
  LLVMValueRef tiny = LLVMBuildICmp(b->b, LLVMIntEQ, exponent, tc_llvm_int(b->i32, 0, lanes), "");
  bits = LLVMBuildSelect(b->b, tiny, LLVMBuildAnd(b->b, bits, tc_llvm_int(b->i32, INT32_MIN, lanes), ""), bits, "");
  return LLVMBuildBitCast(b->b, bits, tc_llvm_value_type(b, TC_F32, lanes), "");
}

// Whether the bits of floats, without their sign, exceed `size`. Those of NaNs exceed infinity's.
static LLVMValueRef exceeds(tc_llvm_build *b, unsigned lanes, LLVMValueRef bits, int64_t size) {
  LLVMValueRef magnitude = LLVMBuildAnd(b->b, bits, tc_llvm_int(b->i32, INT32_MAX, lanes), "");
  return LLVMBuildICmp(b->b, LLVMIntUGT, magnitude, tc_llvm_int(b->i32, size, lanes), "");
}

// The bits of x y + sum by the rules of codegen/interp/bf16_dot.h, from bits of floats.
static LLVMValueRef dot_step(tc_llvm_build *b, unsigned lanes, LLVMValueRef x, LLVMValueRef y, LLVMValueRef sum) {
  LLVMTypeRef whole = tc_llvm_value_type(b, TC_I32, lanes), wide = tc_llvm_value_type(b, TC_F64, lanes);
  LLVMValueRef in[] = {x, y, sum}, f[3], d[3];
  for (int i = 0; i < 3; i++) {
    f[i] = without_denormals(b, lanes, in[i]);
    d[i] = LLVMBuildFPExt(b->b, f[i], wide, "");
  }
  LLVMValueRef v = intrinsic1(b, "llvm.fma", f, 3);
  if (v == NULL) return NULL;
  v = LLVMBuildBitCast(b->b, v, whole, "");
  LLVMValueRef sign = LLVMBuildAnd(b->b, v, tc_llvm_int(b->i32, INT32_MIN, lanes), "");
  // What rounds to 2^-126 among denormals counts as zero below 2^-126 - 2^-151.
  LLVMValueRef exact = LLVMBuildFAdd(b->b, LLVMBuildFMul(b->b, d[0], d[1], ""), d[2], "");
  if ((exact = intrinsic1(b, "llvm.fabs", &exact, 1)) == NULL) return NULL;
  LLVMValueRef small = LLVMBuildFCmp(b->b, LLVMRealOLT, exact, tc_llvm_float(b->f64, 0x1p-126 - 0x1p-151, lanes), "");
  LLVMValueRef is_nan = exceeds(b, lanes, v, 0x7f800000);
  v = LLVMBuildSelect(b->b, small, sign, v, "");
  v = LLVMBuildSelect(b->b, is_nan, tc_llvm_int(b->i32, (int32_t)0xffc00000, lanes), v, "");
  for (int i = 2; i >= 0; i--) {
    LLVMValueRef quiet = LLVMBuildOr(b->b, in[i], tc_llvm_int(b->i32, 0x00400000, lanes), "");
    v = LLVMBuildSelect(b->b, exceeds(b, lanes, in[i], 0x7f800000), quiet, v, "");
  }
  return v;
}

static LLVMValueRef dot_in_steps(tc_llvm_build *b, unsigned lanes, LLVMValueRef x, LLVMValueRef y, LLVMValueRef sum) {
  LLVMTypeRef whole = tc_llvm_value_type(b, TC_I32, lanes);
  LLVMValueRef upper = tc_llvm_int(b->i32, -0x10000, lanes), half = tc_llvm_int(b->i32, 16, lanes);
  sum = LLVMBuildBitCast(b->b, sum, whole, "");
  sum = dot_step(b, lanes, LLVMBuildAnd(b->b, x, upper, ""), LLVMBuildAnd(b->b, y, upper, ""), sum);
  if (sum != NULL) sum = dot_step(b, lanes, LLVMBuildShl(b->b, x, half, ""), LLVMBuildShl(b->b, y, half, ""), sum);
  return sum != NULL ? LLVMBuildBitCast(b->b, sum, tc_llvm_value_type(b, TC_F32, lanes), "") : NULL;
}

// The sum of products of bf16 pairs (DOT), by an instruction that some processors have. LLVM's
// version decides the type of its operands.
static LLVMValueRef dot(tc_llvm_build *b, unsigned lanes, LLVMValueRef x, LLVMValueRef y, LLVMValueRef sum) {
  const unsigned width = lanes < 16 ? lanes : 16;
  const char *name = width == 16  ? "llvm.x86.avx512bf16.dpbf16ps.512"
                     : width == 8 ? "llvm.x86.avx512bf16.dpbf16ps.256"
                                  : "llvm.x86.avx512bf16.dpbf16ps.128";
  unsigned id = b->can.dot && lanes >= 4 ? LLVMLookupIntrinsicID(name, strlen(name)) : 0;
  if (id == 0) return dot_in_steps(b, lanes, x, y, sum);
  LLVMTypeRef type[3];
  LLVMGetParamTypes(LLVMIntrinsicGetType(b->ctx, id, NULL, 0), type);
  LLVMValueRef part[4];
  for (unsigned k = 0; k < lanes / width; k++) {
    LLVMValueRef arg[] = {tc_llvm_lanes(b, sum, width * k, width),
                          LLVMBuildBitCast(b->b, tc_llvm_lanes(b, x, width * k, width), type[1], ""),
                          LLVMBuildBitCast(b->b, tc_llvm_lanes(b, y, width * k, width), type[2], "")};
    if ((part[k] = tc_llvm_intrinsic(b, name, NULL, 0, arg, 3)) == NULL) return NULL;
  }
  return tc_llvm_joined(b, part, lanes / width, width);
}

// Applies an x86 instruction of 4, 8 or 16 lanes of i32, part by part of at most `most` lanes.
// name: the intrinsic for each of these widths. arg: the operands, all of `lanes` lanes of i32.
// LLVM's version decides the type that an operand is passed as.
static LLVMValueRef by_parts(tc_llvm_build *b, unsigned lanes, unsigned most, const char *const name[3],
                             LLVMValueRef *arg, unsigned n_arg) {
  const unsigned width = lanes < most ? lanes : most;
  const char *of = name[width == 16 ? 2 : width == 8 ? 1 : 0];
  LLVMTypeRef type[3], whole = tc_llvm_value_type(b, TC_I32, width);
  LLVMValueRef part[16], x[3];
  unsigned id = LLVMLookupIntrinsicID(of, strlen(of));
  if (id == 0) return tc_llvm_fail(b, "LLVM has no %s", of);
  LLVMGetParamTypes(LLVMIntrinsicGetType(b->ctx, id, NULL, 0), type);
  for (unsigned k = 0; k < lanes / width; k++) {
    for (unsigned i = 0; i < n_arg; i++)
      x[i] = LLVMBuildBitCast(b->b, tc_llvm_lanes(b, arg[i], width * k, width), type[i], "");
    if ((part[k] = tc_llvm_intrinsic(b, of, NULL, 0, x, n_arg)) == NULL) return NULL;
    part[k] = LLVMBuildBitCast(b->b, part[k], whole, "");
  }
  return tc_llvm_joined(b, part, lanes / width, width);
}

// The bytes `at`, at + 2, .. of each word as 16 bits each, in a word again.
static LLVMValueRef every_other_byte(tc_llvm_build *b, unsigned lanes, LLVMValueRef x, bool is_signed, unsigned at) {
  LLVMTypeRef half = LLVMIntTypeInContext(b->ctx, 16);
  LLVMValueRef eight = tc_llvm_int(half, 8, 2 * lanes);
  x = LLVMBuildBitCast(b->b, x, tc_llvm_widen_type(half, 2 * lanes), "");
  if (at == 0) x = LLVMBuildShl(b->b, x, eight, "");
  x = is_signed ? LLVMBuildAShr(b->b, x, eight, "") : LLVMBuildLShr(b->b, x, eight, "");
  return LLVMBuildBitCast(b->b, x, tc_llvm_value_type(b, TC_I32, lanes), "");
}

// Byte `at` of each word.
static LLVMValueRef byte_of(tc_llvm_build *b, unsigned lanes, LLVMValueRef x, bool is_signed, unsigned at) {
  x = LLVMBuildShl(b->b, x, tc_llvm_int(b->i32, 24 - 8 * (int)at, lanes), "");
  LLVMValueRef shift = tc_llvm_int(b->i32, 24, lanes);
  return is_signed ? LLVMBuildAShr(b->b, x, shift, "") : LLVMBuildLShr(b->b, x, shift, "");
}

// DOT4 without an instruction for bytes. Products of 16 bits, added in pairs, cannot overflow;
// those of bytes, as PMADDUBSW adds them, saturate.
static LLVMValueRef dot4_in_steps(tc_llvm_build *b, unsigned lanes, int64_t is_signed, LLVMValueRef x, LLVMValueRef y,
                                  LLVMValueRef sum) {
  static const char *const pairs[3] = {"llvm.x86.sse2.pmadd.wd", "llvm.x86.avx2.pmadd.wd",
                                       "llvm.x86.avx512.pmaddw.d.512"};
  bool has_pairs = b->can.pair_lanes && lanes >= 4;
  for (unsigned at = 0; at < (has_pairs ? 2 : 4); at++) {
    LLVMValueRef (*take)(tc_llvm_build *, unsigned, LLVMValueRef, bool, unsigned) =
        has_pairs ? every_other_byte : byte_of;
    LLVMValueRef f[] = {take(b, lanes, x, is_signed & 1, at), take(b, lanes, y, is_signed & 2, at)};
    LLVMValueRef p =
        has_pairs ? by_parts(b, lanes, b->can.pair_lanes, pairs, f, 2) : LLVMBuildMul(b->b, f[0], f[1], "");
    if (p == NULL) return NULL;
    sum = LLVMBuildAdd(b->b, sum, p, "");
  }
  return sum;
}

// The sum of products of four bytes (DOT4). VPDPBUSD takes unsigned bytes by signed ones. Two
// signed operands: 128 is added to one, and 128 times the other taken away, which LLVM computes
// once for all sums that share it.
static LLVMValueRef dot4(tc_llvm_build *b, unsigned lanes, int64_t is_signed, LLVMValueRef x, LLVMValueRef y,
                         LLVMValueRef sum) {
  static const char *const name[3] = {"llvm.x86.avx512.vpdpbusd.128", "llvm.x86.avx512.vpdpbusd.256",
                                      "llvm.x86.avx512.vpdpbusd.512"};
  if (!b->can.dot4_lanes || lanes < 4 || is_signed == 0) return dot4_in_steps(b, lanes, is_signed, x, y, sum);
  if (is_signed == 1) return by_parts(b, lanes, b->can.dot4_lanes, name, (LLVMValueRef[]){sum, y, x}, 3);
  if (is_signed == 2) return by_parts(b, lanes, b->can.dot4_lanes, name, (LLVMValueRef[]){sum, x, y}, 3);
  LLVMValueRef offset = tc_llvm_int(b->i32, (int32_t)0x80808080, lanes), zero = tc_llvm_int(b->i32, 0, lanes);
  LLVMValueRef more = by_parts(b, lanes, b->can.dot4_lanes, name, (LLVMValueRef[]){zero, offset, y}, 3);
  if (more == NULL) return NULL;
  LLVMValueRef arg[] = {LLVMBuildSub(b->b, sum, more, ""), LLVMBuildXor(b->b, x, offset, ""), y};
  return by_parts(b, lanes, b->can.dot4_lanes, name, arg, 3);
}

static LLVMValueRef unary_float(tc_llvm_build *b, unsigned op, LLVMValueRef x) {
  switch (op) {
    case TC_IR_NEG: return LLVMBuildFNeg(b->b, x, "");
    case TC_IR_ABS: return intrinsic1(b, "llvm.fabs", &x, 1);
    case TC_IR_SQRT: return intrinsic1(b, "llvm.sqrt", &x, 1);
    case TC_IR_FLOOR: return intrinsic1(b, "llvm.floor", &x, 1);
    case TC_IR_CEIL: return intrinsic1(b, "llvm.ceil", &x, 1);
    case TC_IR_TRUNC: return intrinsic1(b, "llvm.trunc", &x, 1);
    case TC_IR_RINT: return intrinsic1(b, "llvm.rint", &x, 1);
    default: return NULL;
  }
}

static LLVMValueRef unary_int(tc_llvm_build *b, const tc_kir_inst *inst, LLVMValueRef x) {
  LLVMValueRef negative;
  switch (inst->op) {
    case TC_IR_NEG: return LLVMBuildNeg(b->b, x, "");
    case TC_IR_NOT: return LLVMBuildNot(b->b, x, "");
    case TC_IR_ABS:
      if (tc_kir_is_unsigned(inst->dtype)) return x;
      negative =
          LLVMBuildICmp(b->b, LLVMIntSLT, x, tc_llvm_int(tc_llvm_scalar_type(b, inst->dtype), 0, inst->lanes), "");
      return LLVMBuildSelect(b->b, negative, LLVMBuildNeg(b->b, x, ""), x, "");
    default: return NULL;
  }
}

// AVX-512 has an instruction for it, of 16 lanes. Elsewhere a lane at a time, in memory.
static LLVMValueRef lookup(tc_llvm_build *b, const tc_kir_inst *inst, LLVMValueRef at) {
  LLVMValueRef entry[TC_KIR_TABLE_LENGTH], part[4];
  for (int i = 0; i < TC_KIR_TABLE_LENGTH; i++) entry[i] = LLVMConstReal(b->f32, (double)tc_kir_table[inst->imm][i]);
  LLVMValueRef table = LLVMConstVector(entry, TC_KIR_TABLE_LENGTH);
  if (b->can.lookup && inst->lanes >= 16) {
    for (unsigned k = 0; k < inst->lanes / 16U; k++) {
      LLVMValueRef arg[] = {table, tc_llvm_lanes(b, at, 16 * k, 16)};
      if ((part[k] = tc_llvm_intrinsic(b, "llvm.x86.avx512.permvar.sf.512", NULL, 0, arg, 2)) == NULL) return NULL;
    }
    return tc_llvm_joined(b, part, inst->lanes / 16U, 16);
  }
  at = LLVMBuildAnd(b->b, at, tc_llvm_int(b->i32, TC_KIR_TABLE_LENGTH - 1, inst->lanes), "");
  if (inst->lanes == 1) return LLVMBuildExtractElement(b->b, table, at, "");
  LLVMValueRef v = LLVMGetUndef(tc_llvm_value_type(b, TC_F32, inst->lanes));
  for (unsigned i = 0; i < inst->lanes; i++) {
    LLVMValueRef lane = LLVMConstInt(b->i32, i, 0);
    v = LLVMBuildInsertElement(
        b->b, v, LLVMBuildExtractElement(b->b, table, LLVMBuildExtractElement(b->b, at, lane, ""), ""), lane, "");
  }
  return v;
}

LLVMValueRef tc_llvm_unpack(tc_llvm_build *b, const tc_kir_inst *inst) {
  LLVMValueRef x = tc_llvm_operand(b, inst, 0), y = tc_llvm_operand(b, inst, 1), lane[64];
  unsigned half = inst->lanes / 2U, from = inst->imm ? half : 0;
  if (x == NULL || y == NULL) return NULL;
  for (unsigned i = 0; i < half; i++) {
    lane[2 * i] = LLVMConstInt(b->i32, from + i, 0);
    lane[2 * i + 1] = LLVMConstInt(b->i32, inst->lanes + from + i, 0);
  }
  LLVMValueRef v = LLVMBuildShuffleVector(b->b, x, y, LLVMConstVector(lane, inst->lanes), "");
  // A fence stops LLVM from combining this shuffle with the ones it is made of. In a transpose that
  // finds nothing.
  // Measured: it took a tenth of the compile time of a ResNet18 step. A fence emits no instruction.
  return tc_kir_is_real(inst->dtype) ? intrinsic1(b, "llvm.arithmetic.fence", &v, 1) : v;
}

// The low and the high half of v's lanes.
static void halve(tc_llvm_build *b, LLVMValueRef v, unsigned half, LLVMValueRef out[2]) {
  LLVMValueRef at[2][64], none = LLVMGetUndef(LLVMTypeOf(v));
  for (unsigned i = 0; i < half; i++) {
    at[0][i] = LLVMConstInt(b->i32, i, 0);
    at[1][i] = LLVMConstInt(b->i32, i + half, 0);
  }
  for (int k = 0; k < 2; k++) out[k] = LLVMBuildShuffleVector(b->b, v, none, LLVMConstVector(at[k], half), "");
}

// A mask to a bool. With AVX-512 it is an integer as it is. Elsewhere its lanes are as wide as what
// was compared, and would be packed: so the registers of wide ones are combined before that.
static LLVMValueRef reduce_mask(tc_llvm_build *b, unsigned op, unsigned lanes, LLVMValueRef v) {
  bool all = op == TC_IR_AND || op == TC_IR_MIN;
  if (!all && op != TC_IR_OR && op != TC_IR_MAX) return NULL;
  if (!b->can.mask8 && lanes > 8) {
    v = LLVMBuildSExt(b->b, v, tc_llvm_widen_type(b->i32, lanes), "");
    for (; lanes > 8; lanes /= 2) {
      LLVMValueRef half[2];
      halve(b, v, lanes / 2, half);
      v = all ? LLVMBuildAnd(b->b, half[0], half[1], "") : LLVMBuildOr(b->b, half[0], half[1], "");
    }
    v = LLVMBuildICmp(b->b, LLVMIntSLT, v, tc_llvm_int(b->i32, 0, lanes), "");
  }
  LLVMTypeRef mask = LLVMIntTypeInContext(b->ctx, lanes);
  LLVMValueRef bits = LLVMBuildBitCast(b->b, v, mask, "");
  if (all) return LLVMBuildICmp(b->b, LLVMIntEQ, bits, LLVMConstAllOnes(mask), "");
  return LLVMBuildICmp(b->b, LLVMIntNE, bits, LLVMConstNull(mask), "");
}

LLVMValueRef tc_llvm_reduce(tc_llvm_build *b, const tc_kir_inst *inst) {
  LLVMValueRef v = tc_llvm_operand(b, inst, 0);
  if (v == NULL) return NULL;
  unsigned lanes = b->kir->inst[inst->src[0]].lanes, op = (unsigned)inst->imm;
  if (lanes > 1 && inst->dtype == TC_BOOL) return reduce_mask(b, op, lanes, v);
  for (unsigned half = lanes / 2; half > 0; half /= 2) {
    LLVMValueRef part[2];
    halve(b, v, half, part);
    if ((v = binary(b, op, inst->dtype, part[0], part[1])) == NULL) return NULL;
  }
  return lanes > 1 ? LLVMBuildExtractElement(b->b, v, LLVMConstInt(b->i32, 0, 0), "") : v;
}

LLVMValueRef tc_llvm_interleave(tc_llvm_build *b, const tc_kir_inst *inst) {
  LLVMValueRef x = tc_llvm_operand(b, inst, 0), y = tc_llvm_operand(b, inst, 1), from[64];
  unsigned half = inst->lanes / 2u;
  if (x == NULL || y == NULL) return NULL;
  if (half == 1) {
    LLVMValueRef v = LLVMGetUndef(tc_llvm_value_type(b, inst->dtype, 2));
    v = LLVMBuildInsertElement(b->b, v, x, LLVMConstInt(b->i32, 0, 0), "");
    return LLVMBuildInsertElement(b->b, v, y, LLVMConstInt(b->i32, 1, 0), "");
  }
  for (unsigned i = 0; i < half; i++) {
    from[2 * i] = LLVMConstInt(b->i32, i, 0);
    from[2 * i + 1] = LLVMConstInt(b->i32, i + half, 0);
  }
  return LLVMBuildShuffleVector(b->b, x, y, LLVMConstVector(from, 2 * half), "");
}

LLVMValueRef tc_llvm_arith(tc_llvm_build *b, const tc_kir_inst *inst) {
  bool real = tc_kir_is_real(inst->dtype);
  LLVMValueRef s[3] = {NULL, NULL, NULL};
  for (unsigned i = 0; i < 3; i++)
    if (inst->src[i] != TC_NONE && (s[i] = tc_llvm_operand(b, inst, i)) == NULL) return NULL;
  if (s[0] == NULL) return tc_llvm_fail(b, "%s has no operand", tc_kir_op_name((tc_kir_op)inst->op));
  unsigned from = b->kir->inst[inst->src[0]].dtype;
  switch (inst->op) {
    case TC_IR_NEG:
    case TC_IR_ABS:
    case TC_IR_SQRT:
    case TC_IR_FLOOR:
    case TC_IR_CEIL:
    case TC_IR_TRUNC:
    case TC_IR_RINT:
    case TC_IR_NOT: return real ? unary_float(b, inst->op, s[0]) : unary_int(b, inst, s[0]);
    case TC_IR_CAST: return tc_llvm_cast(b, inst, s[0], from);
    case TC_IR_BITCAST: return LLVMBuildBitCast(b->b, s[0], tc_llvm_value_type(b, inst->dtype, inst->lanes), "");
    case TC_IR_LOOKUP: return lookup(b, inst, s[0]);
    default: break;
  }
  if (s[1] == NULL) return NULL;
  switch (inst->op) {
    case TC_IR_DIV: return real ? LLVMBuildFDiv(b->b, s[0], s[1], "") : int_divide(b, inst, s[0], s[1]);
    case TC_IR_REM: return real ? NULL : int_divide(b, inst, s[0], s[1]);
    case TC_IR_SHL:
    case TC_IR_SHR:
    case TC_IR_USHR: return real ? NULL : shift(b, inst, s[0], s[1]);
    case TC_IR_MULHU: return inst->dtype == TC_I32 ? mul_high(b, inst->lanes, s[0], s[1]) : NULL;
    case TC_IR_EQ:
    case TC_IR_NE:
    case TC_IR_LT:
    case TC_IR_LE:
    case TC_IR_GT:
    case TC_IR_GE: return compare(b, inst->op, from, s[0], s[1]);
    case TC_IR_LDEXP: return scale(b, inst->lanes, s[0], s[1], inst->imm != 0);
    case TC_IR_DOT: return s[2] != NULL ? dot(b, inst->lanes, s[0], s[1], s[2]) : NULL;
    case TC_IR_DOT4: return s[2] != NULL ? dot4(b, inst->lanes, inst->imm, s[0], s[1], s[2]) : NULL;
    case TC_IR_FMA: return real && s[2] != NULL ? intrinsic1(b, "llvm.fma", s, 3) : NULL;
    case TC_IR_SELECT: return s[2] != NULL ? LLVMBuildSelect(b->b, s[0], s[1], s[2], "") : NULL;
    default: return binary(b, inst->op, inst->dtype, s[0], s[1]);
  }
}
