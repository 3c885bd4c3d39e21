// The elementwise ops of include/tc/ops.def as instructions, and what they cost. See scalar_ops.h.
#include "lowering/kir/scalar_ops.h"

#include "lazy/record/record.h"
#include "lowering/kir/builder_shorthand.h"
#include "lowering/kir/math.h"
#include "runtime/options.h"

#define LIBM_COST 400.0  // lane by lane, in double

// Whether a quotient truncated toward 0, with this remainder, lies above its floor.
static tc_val is_above_floor(tc_kir_builder *e, tc_val rem, tc_val b, tc_type type) {
  tc_val zero = tc_build_const_i(e, type, 0), inexact = tc_build_bin(e, TC_IR_NE, rem, zero);
  return tc_build_bin(e, TC_IR_AND, inexact, tc_build_bin(e, TC_IR_LT, tc_build_bin(e, TC_IR_XOR, rem, b), zero));
}

// Round toward minus infinity of integer a / b; 0 where b is 0.
static tc_val floor_div_int(tc_kir_builder *e, tc_val a, tc_val b, tc_type type) {
  tc_val q = DIV(a, b);
  if (type == TC_U8 || type == TC_BOOL) return q;
  tc_val above = is_above_floor(e, tc_build_bin(e, TC_IR_REM, a, b), b, type);
  return tc_build_select(e, above, SUB(q, tc_build_const_i(e, type, 1)), q);
}

// The remainder with the sign of b; 0 where b is 0, as REM gives.
static tc_val remainder_int(tc_kir_builder *e, tc_val a, tc_val b, tc_type type) {
  tc_val rem = tc_build_bin(e, TC_IR_REM, a, b);
  if (type == TC_U8 || type == TC_BOOL) return rem;
  return tc_build_select(e, is_above_floor(e, rem, b, type), ADD(rem, b), rem);
}

static tc_val remainder_float(tc_kir_builder *e, tc_val a, tc_val b) {
  tc_val x = a, m = tc_kir_call_libm(e, TC_KIR_MATH_FMOD, a, b, true);
  tc_val wrong = tc_build_bin(e, TC_IR_NE, tc_build_bin(e, TC_IR_LT, m, F(0)), tc_build_bin(e, TC_IR_LT, b, F(0)));
  return tc_build_select(e, tc_build_bin(e, TC_IR_AND, tc_build_bin(e, TC_IR_NE, m, F(0)), wrong), ADD(m, b), m);
}

// Not floor(a / b), since a / b may round up to a whole number. Computed in f64, as the reference
// does.
// Source: PyTorch, c10/util/generic_math.h, div_floor_floating.
static tc_val floor_div_float(tc_kir_builder *e, tc_val a, tc_val b, tc_type type) {
  int lanes = tc_kir_widest(e, a, b);
  a = tc_build_cast(e, tc_build_splat(e, a, lanes), TC_F64), b = tc_build_cast(e, tc_build_splat(e, b, lanes), TC_F64);
  tc_val x = a, plain = DIV(a, b), m = tc_kir_call_libm(e, TC_KIR_MATH_FMOD, a, b, true), q = DIV(SUB(a, m), b);
  tc_val differ = tc_build_bin(e, TC_IR_NE, tc_build_bin(e, TC_IR_LT, m, F(0)), tc_build_bin(e, TC_IR_LT, b, F(0)));
  q = tc_build_select(e, tc_build_bin(e, TC_IR_AND, tc_build_bin(e, TC_IR_NE, m, F(0)), differ), SUB(q, F(1)), q);
  tc_val floored = tc_build_un(e, TC_IR_FLOOR, q), up = tc_build_bin(e, TC_IR_GT, SUB(q, floored), F(0.5));
  floored = tc_build_select(e, up, ADD(floored, F(1)), floored);
  // A zero result has the quotient's sign.
  floored = tc_build_select(e, tc_build_bin(e, TC_IR_EQ, q, F(0)), MUL(plain, F(0)), floored);
  return tc_build_cast(e, tc_build_select(e, tc_build_bin(e, TC_IR_EQ, b, F(0)), plain, floored), type);
}

// a^b for integers by squaring; negative exponents give 0 but for bases 1 and -1.
static tc_val pow_int(tc_kir_builder *e, tc_val a, tc_val b, tc_type type) {
  int bits = (int)tc_type_bytes(type) * 8, lanes = tc_kir_widest(e, a, b);
  a = tc_build_splat(e, a, lanes), b = tc_build_splat(e, b, lanes);
  tc_val one = tc_build_splat(e, tc_build_const_i(e, type, 1), lanes), zero = tc_build_const_i(e, type, 0), y = one,
         base = a;
  for (int i = 0; i < bits - (type == TC_U8 ? 0 : 1); i++) {
    tc_val bit = tc_build_bin(
        e, TC_IR_AND, tc_build_bin(e, type == TC_U8 ? TC_IR_USHR : TC_IR_SHR, b, tc_build_const_i(e, type, i)), one);
    y = tc_build_select(e, tc_build_bin(e, TC_IR_NE, bit, zero), MUL(y, base), y);
    base = MUL(base, base);
  }
  if (type == TC_U8) return y;
  tc_val minus = tc_build_const_i(e, type, -1);
  tc_val odd = tc_build_bin(e, TC_IR_NE, tc_build_bin(e, TC_IR_AND, b, one), zero);
  tc_val unit = tc_build_select(
      e, tc_build_bin(e, TC_IR_EQ, a, one), one,
      tc_build_select(e, tc_build_bin(e, TC_IR_EQ, a, minus), tc_build_select(e, odd, minus, one), zero));
  return tc_build_select(e, tc_build_bin(e, TC_IR_LT, b, zero), unit, y);
}

static tc_val sign_of(tc_kir_builder *e, tc_val x, tc_type type) {
  tc_val zero = tc_build_const_f(e, type, 0), one = tc_build_const_f(e, type, 1);
  tc_val s = tc_build_select(e, tc_build_bin(e, TC_IR_GT, x, zero), one, zero);
  if (type == TC_U8 || type == TC_BOOL) return s;
  return tc_build_select(e, tc_build_bin(e, TC_IR_LT, x, zero), tc_build_const_f(e, type, -1), s);
}

// Ops that a libm function computes (`lower` in ops.def): 1 + its row; 0 for others.
#define MATH_fused 0
#define MATH_libm(function) 1 + TC_KIR_MATH_##function
#define MATH_alias 0
#define MATH_extern 0
#define MATH_expand(word) 0
static const uint8_t math_of[TC_N_OP_ROWS] = {
#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, autocast, lower, ...) [TC_OP_##NAME] = MATH_##lower,
#include <tc/ops.def>
#undef TC_OP
};

static tc_val via_table(tc_kir_builder *e, uint32_t op, tc_val a, tc_val b) {
  if (op == TC_OP_POLYGAMMA)
    return tc_build_cast(e, tc_kir_call_libm(e, TC_KIR_MATH_POLYGAMMA, b, a, true), tc_build_type(e, a));
  bool two = tc_op_arity[op] == 2;
  return tc_kir_call_libm(e, math_of[op] - 1, a, two ? b : 0, two);
}

static tc_val fast_f32(tc_kir_builder *e, uint32_t op, tc_val x, bool *known) {
  *known = true;
  switch (op) {
    case TC_OP_EXP: return tc_kir_exp_f32(e, x);
    case TC_OP_LOG: return tc_kir_log_f32(e, x);
    case TC_OP_SIN: return tc_kir_trig_f32(e, x, false);
    case TC_OP_COS: return tc_kir_trig_f32(e, x, true);
    case TC_OP_TANH: return tc_kir_tanh_f32(e, x);
    case TC_OP_ERF: return tc_kir_erf_f32(e, x);
    case TC_OP_GELU: return tc_kir_gelu_f32(e, x);
    case TC_OP_GELU_TANH: return tc_kir_gelu_tanh_f32(e, x);
    default: *known = false; return x;
  }
}

static tc_val arithmetic(tc_kir_builder *e, uint32_t op, tc_type type, tc_val a, tc_val b, tc_val c) {
  bool floats = tc_type_is_float(type);
  tc_val x = a;
  switch (op) {
    case TC_OP_NEG: return floats ? tc_build_un(e, TC_IR_NEG, a) : SUB(tc_build_const_i(e, type, 0), a);
    case TC_OP_ABS: return type == TC_BOOL || type == TC_U8 ? a : tc_build_un(e, TC_IR_ABS, a);
    case TC_OP_SIGN: return sign_of(e, a, type);
    case TC_OP_FLOOR: return floats ? tc_build_un(e, TC_IR_FLOOR, a) : a;
    case TC_OP_CEIL: return floats ? tc_build_un(e, TC_IR_CEIL, a) : a;
    case TC_OP_ROUND: return floats ? tc_build_un(e, TC_IR_RINT, a) : a;
    case TC_OP_TRUNC: return floats ? tc_build_un(e, TC_IR_TRUNC, a) : a;
    case TC_OP_SQUARE: return MUL(a, a);
    case TC_OP_SQRT: return tc_build_un(e, TC_IR_SQRT, a);
    case TC_OP_RSQRT: return DIV(F(1), tc_build_un(e, TC_IR_SQRT, a));
    case TC_OP_RECIPROCAL: return DIV(F(1), a);
    case TC_OP_SIGMOID: return tc_kir_sigmoid(e, a, type);
    case TC_OP_GELU: return tc_kir_gelu_f64(e, a);
    case TC_OP_GELU_TANH: return tc_kir_gelu_tanh_f64(e, a);
    case TC_OP_RELU: return tc_build_bin(e, TC_IR_MAX, a, tc_build_const_f(e, type, 0));
    case TC_OP_ISNAN:
      return floats ? tc_build_bin(e, TC_IR_NE, a, a)
                    : tc_build_splat(e, tc_build_const_i(e, TC_BOOL, 0), tc_build_lanes(e, a));
    case TC_OP_LOGICAL_NOT: return tc_build_un(e, TC_IR_NOT, tc_build_cast(e, a, TC_BOOL));
    case TC_OP_BITWISE_NOT: return tc_build_un(e, TC_IR_NOT, a);
    case TC_OP_ADD: return type == TC_BOOL ? tc_build_bin(e, TC_IR_OR, a, b) : ADD(a, b);
    case TC_OP_SUB: return SUB(a, b);
    case TC_OP_MUL: return type == TC_BOOL ? tc_build_bin(e, TC_IR_AND, a, b) : MUL(a, b);
    case TC_OP_DIV: return DIV(a, b);
    case TC_OP_POW: return floats ? tc_kir_call_libm(e, TC_KIR_MATH_POW, a, b, true) : pow_int(e, a, b, type);
    case TC_OP_MAXIMUM: return type == TC_BOOL ? tc_build_bin(e, TC_IR_OR, a, b) : tc_build_bin(e, TC_IR_MAX, a, b);
    case TC_OP_MINIMUM: return type == TC_BOOL ? tc_build_bin(e, TC_IR_AND, a, b) : tc_build_bin(e, TC_IR_MIN, a, b);
    case TC_OP_FMOD:
      return floats ? tc_kir_call_libm(e, TC_KIR_MATH_FMOD, a, b, true) : tc_build_bin(e, TC_IR_REM, a, b);
    case TC_OP_REMAINDER: return floats ? remainder_float(e, a, b) : remainder_int(e, a, b, type);
    case TC_OP_FLOOR_DIVIDE:
      return floats ? floor_div_float(e, a, b, tc_build_type(e, a)) : floor_div_int(e, a, b, type);
    case TC_OP_EQ: return tc_build_bin(e, TC_IR_EQ, a, b);
    case TC_OP_NE: return tc_build_bin(e, TC_IR_NE, a, b);
    case TC_OP_LT: return tc_build_bin(e, TC_IR_LT, a, b);
    case TC_OP_LE: return tc_build_bin(e, TC_IR_LE, a, b);
    case TC_OP_GT: return tc_build_bin(e, TC_IR_GT, a, b);
    case TC_OP_GE: return tc_build_bin(e, TC_IR_GE, a, b);
    case TC_OP_LOGICAL_AND:
    case TC_OP_BITWISE_AND: return tc_build_bin(e, TC_IR_AND, a, b);
    case TC_OP_LOGICAL_OR:
    case TC_OP_BITWISE_OR: return tc_build_bin(e, TC_IR_OR, a, b);
    case TC_OP_LOGICAL_XOR:
    case TC_OP_BITWISE_XOR: return tc_build_bin(e, TC_IR_XOR, a, b);
    case TC_OP_SHIFT_LEFT: return tc_build_bin(e, TC_IR_SHL, a, b);
    case TC_OP_SHIFT_RIGHT: return tc_build_bin(e, TC_IR_SHR, a, b);
    case TC_OP_WHERE: return tc_build_select(e, a, b, c);
    default: TC_ASSERT(!tc_op_is_elementwise((tc_op)op)); return a;  // reshapes stored on their own: a copy
  }
}

tc_val tc_build_scalar_op(tc_kir_builder *e, uint32_t op, tc_type type, tc_val a, tc_val b, tc_val c) {
  bool known = false, strict = tc_options_get()->strict;
  if (strict && type == TC_F32 && (op == TC_OP_SIGMOID || op == TC_OP_GELU || op == TC_OP_GELU_TANH))
    return tc_build_cast(e, arithmetic(e, op, TC_F64, tc_build_cast(e, a, TC_F64), b, c), type);
  tc_val v = type == TC_F32 && !strict ? fast_f32(e, op, a, &known) : a;
  if (known) return v;
  return math_of[op] ? via_table(e, op, a, b) : arithmetic(e, op, type, a, b, c);
}

double tc_build_cost(uint32_t op, tc_type type) {
  bool f32 = type == TC_F32 || type == TC_F16 || type == TC_BF16;
  switch (op) {
    case TC_OP_FULL:
    case TC_OP_RESHAPE:
    case TC_OP_PERMUTE:
    case TC_OP_EXPAND:
    case TC_OP_DETACH:
    case TC_OP_TO:
    case TC_OP_ASSIGN: return 0;
    case TC_OP_DIV:
    case TC_OP_SQRT:
    case TC_OP_RSQRT:
    case TC_OP_RECIPROCAL:
    case TC_OP_FLOOR_DIVIDE:
    case TC_OP_REMAINDER: return tc_type_is_float(type) ? 4 : 30;
    case TC_OP_EXP:
    case TC_OP_LOG:
    case TC_OP_SIN:
    case TC_OP_COS: return f32 ? 15 : LIBM_COST;
    case TC_OP_TANH:
    case TC_OP_SIGMOID: return f32 ? 25 : LIBM_COST;
    case TC_OP_GELU:
    case TC_OP_GELU_TANH:
    case TC_OP_ERF: return f32 ? 30 : LIBM_COST;
    case TC_OP_RAND:
    case TC_OP_RANDINT: return 30;
    case TC_OP_RANDN: return f32 ? 60 : LIBM_COST;
    case TC_OP_POW:
    case TC_OP_FMOD: return LIBM_COST;
    default: return math_of[op] ? LIBM_COST : 1;
  }
}
