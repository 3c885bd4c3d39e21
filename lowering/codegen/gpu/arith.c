// Operations lane by lane. What takes more than one C expression, or an operand twice, is a helper
// function, printed before the kernel when first used. The corner cases are those of
// lowering/kir/kir.h: integers wrap, nothing traps, NaN in MIN and MAX.
#include <string.h>

#include "lowering/codegen/gpu/text.h"
#include "lowering/kir/libm.h"

static const char *name_of(unsigned dtype) {
  return tc_type_name((tc_type)dtype);
}

// ---- integers ----

// v in the type, wrapped; v is of unsigned arithmetic where it could overflow.
static tc_gpu_name wrapped(unsigned dtype, const char *a, const char *op, const char *b) {
  const char *as = dtype == TC_I32 ? "(u32)" : dtype == TC_I64 ? "(u64)" : "";
  return tc_gpu_named("(%s)(%s%s %s %s%s)", tc_gpu_type(dtype), as, a, op, as, b);
}

// Prints a division or remainder as a call of a helper: divisors 0 and -1 are special cases.
static tc_gpu_name divide(tc_gpu_text *t, unsigned dtype, bool is_rem, const char *a, const char *b) {
  const tc_gpu_name f = tc_gpu_named("tc_%s_%s", is_rem ? "rem" : "quot", name_of(dtype)),
                    call = tc_gpu_named("%s(", f.text);
  const char *type = tc_gpu_type(dtype);
  if (tc_gpu_is_new(t, call.text)) {
    tc_gpu_put(&t->helpers, "TC_DEVICE %s %s(%s a, %s b) {\n  ", type, f.text, type, type);
    if (tc_kir_is_unsigned(dtype))
      tc_gpu_put(&t->helpers, "return b == 0 ? 0 : (%s)(a %s b);\n}\n", type, is_rem ? "%" : "/");
    else if (is_rem)
      tc_gpu_put(&t->helpers, "return b == 0 || b == -1 ? 0 : (%s)(a %% b);\n}\n", type);
    else
      tc_gpu_put(&t->helpers, "return b == 0 ? 0 : b == -1 ? %s : (%s)(a / b);\n}\n",
                 wrapped(dtype, "0", "-", "a").text, type);
  }
  return tc_gpu_named("%s(%s, %s)", f.text, a, b);
}

// A shift by a constant, which is less than the type's number of bits.
static tc_gpu_name shift_known(unsigned op, unsigned dtype, const char *a, int64_t by) {
  const char *type = tc_gpu_type(dtype);
  const unsigned bits = 8 * tc_kir_type_bytes(dtype);
  if (op == TC_IR_SHR) return tc_gpu_named("(%s)(%s >> %d)", type, a, (int)by);
  if (op == TC_IR_SHL) return tc_gpu_named("(%s)((u%u)%s << %d)", type, bits < 32 ? 32 : bits, a, (int)by);
  return tc_gpu_named("(%s)((u%u)%s >> %d)", type, bits, a, (int)by);
}

static tc_gpu_name shift(tc_gpu_text *t, unsigned op, unsigned dtype, const char *a, const char *b) {
  const tc_gpu_name f = tc_gpu_named("tc_%s_%s", tc_kir_op_name((tc_kir_op)op), name_of(dtype)),
                    call = tc_gpu_named("%s(", f.text);
  const char *type = tc_gpu_type(dtype);
  const unsigned bits = 8 * tc_kir_type_bytes(dtype);
  if (tc_gpu_is_new(t, call.text)) {
    tc_gpu_put(&t->helpers, "TC_DEVICE %s %s(%s a, %s n) {\n  return (u%u)n < %u ? ", type, f.text, type, type, bits,
               bits);
    if (op == TC_IR_SHL)
      tc_gpu_put(&t->helpers, "(%s)((u%u)a << n) : 0;\n}\n", type, bits < 32 ? 32 : bits);
    else if (op == TC_IR_USHR || tc_kir_is_unsigned(dtype))
      tc_gpu_put(&t->helpers, "(%s)((u%u)a >> n) : 0;\n}\n", type, bits);
    else
      tc_gpu_put(&t->helpers, "(%s)(a >> n) : (%s)(a >> %u);\n}\n", type, type, bits - 1);
  }
  return tc_gpu_named("%s(%s, %s)", f.text, a, b);
}

static tc_gpu_name least_or_most(tc_gpu_text *t, bool is_min, unsigned dtype, const char *a, const char *b) {
  const tc_gpu_name f = tc_gpu_named("tc_%s_%s", is_min ? "min" : "max", name_of(dtype)),
                    call = tc_gpu_named("%s(", f.text);
  const char *type = tc_gpu_type(dtype);
  if (tc_gpu_is_new(t, call.text))
    tc_gpu_put(&t->helpers, "TC_DEVICE %s %s(%s a, %s b) {\n  return a %c b%s ? a : b;\n}\n", type, f.text, type, type,
               is_min ? '<' : '>', tc_kir_is_real(dtype) ? " || a != a" : "");
  return tc_gpu_named("%s(%s, %s)", f.text, a, b);
}

// ---- conversions ----

// The first value too large, and the least, of an integer type; a float holds them all.
static tc_gpu_name saturating(tc_gpu_text *t, unsigned from, unsigned to, const char *x) {
  const tc_gpu_name f = tc_gpu_named("tc_%s_%s", name_of(from), name_of(to)), call = tc_gpu_named("%s(", f.text);
  static const struct {
    const char *below, *above, *least, *most;
  } of[TC_N_TYPES] = {
      [TC_U8] = {"0.0", "255.0", "0", "255"},
      [TC_I8] = {"-128.0", "127.0", "-128", "127"},
      [TC_I16] = {"-32768.0", "32767.0", "-32768", "32767"},
      [TC_I32] = {"-2147483648.0", "2147483648.0", "-2147483647 - 1", "2147483647"},
      [TC_I64] = {"-9223372036854775808.0", "9223372036854775808.0", "-9223372036854775807ll - 1",
                  "9223372036854775807ll"},
  };
  const char *mark = from == TC_F32 ? "f" : "";
  if (tc_gpu_is_new(t, call.text))
    tc_gpu_put(&t->helpers,
               "TC_DEVICE %s %s(%s x) {\n  return x != x ? 0 : x >= %s%s ? %s : x <= %s%s ? %s : (%s)x;\n}\n",
               tc_gpu_type(to), f.text, tc_gpu_type(from), of[to].above, mark, of[to].most, of[to].below, mark,
               of[to].least, tc_gpu_type(to));
  return tc_gpu_named("%s(%s)", f.text, x);
}

// Beyond 2^53 a whole number becomes a double with its last bits as one, so that rounding that
// again rounds once.
static tc_gpu_name sticky_double(tc_gpu_text *t, const char *x) {
  if (tc_gpu_is_new(t, "tc_sticky_i64("))
    tc_gpu_put(&t->helpers,
               "TC_DEVICE f64 tc_sticky_i64(i64 x) {\n"
               "  const i64 high = x & ~(i64)2047, low = x & 2047;\n"
               "  return (f64)((u64)x + ((u64)1 << 53) <= (u64)1 << 54 ? x : high | (low != 0 ? 2048 : 0));\n}\n");
  return tc_gpu_named("tc_sticky_i64(%s)", x);
}

static tc_gpu_name to_half(tc_gpu_text *t, unsigned from, unsigned to, const char *x) {
  const char *half = name_of(to);
  switch (from) {
    case TC_F32: return tc_gpu_named("tc_f32_%s(%s)", half, x);
    case TC_F64: return tc_gpu_named("tc_f64_%s(%s)", half, x);
    case TC_I64: return tc_gpu_named("tc_f64_%s(%s)", half, sticky_double(t, x).text);
    case TC_I32: return tc_gpu_named("tc_f64_%s((f64)%s)", half, x);
    default: return tc_gpu_named("tc_f32_%s((f32)%s)", half, x);
  }
}

static tc_gpu_name cast(tc_gpu_text *t, unsigned from, unsigned to, const char *x) {
  if (from == to) return tc_gpu_named("%s", x);
  if (tc_kir_is_half(from)) {
    const tc_gpu_name wide = tc_gpu_named("tc_%s_f32(%s)", name_of(from), x);
    return cast(t, TC_F32, to, wide.text);
  }
  if (tc_kir_is_half(to)) return to_half(t, from, to, x);
  if (to == TC_BOOL) return tc_gpu_named("%s != 0", x);
  if (tc_kir_is_real(from) && !tc_kir_is_real(to)) return saturating(t, from, to, x);
  return tc_gpu_named("(%s)%s", tc_gpu_type(to), x);
}

static tc_gpu_name bitcast(const tc_gpu_text *t, uint32_t from, unsigned k) {
  const unsigned type = t->kir->inst[from].dtype;
  const tc_gpu_name x = tc_gpu_element(t, from, k);
  switch (type) {
    case TC_F32: return tc_gpu_named("(i32)tc_bits_f32(%s)", x.text);
    case TC_F64: return tc_gpu_named("(i64)tc_bits_f64(%s)", x.text);
    case TC_I32: return tc_gpu_named("tc_f32_bits((u32)%s)", x.text);
    case TC_I64: return tc_gpu_named("tc_f64_bits((u64)%s)", x.text);
    default: return tc_gpu_named("(i32)%s", tc_gpu_register(t, from, k).text);
  }
}

// ---- floats ----

// x 2^n in two steps of which the first is exact. n up to 63: by 2^(n + 64), which no n takes out
// of range, and 2^-64; else by halves of n.
static tc_gpu_name scale(tc_gpu_text *t, bool is_small, const char *x, const char *n) {
  const char *f = is_small ? "tc_scale_small_f32" : "tc_scale_f32";
  const tc_gpu_name call = tc_gpu_named("%s(", f);
  if (tc_gpu_is_new(t, call.text) && is_small)
    tc_gpu_put(&t->helpers,
               "TC_DEVICE f32 tc_scale_small_f32(f32 x, f32 n) {\n"
               "  return x * tc_f32_bits((tc_bits_f32(n + 12582912.0f) << 23) + (191u << 23)) * 0x1p-64f;\n}\n");
  else if (tc_gpu_is_new(t, call.text))
    tc_gpu_put(
        &t->helpers,
        "TC_DEVICE f32 tc_scale_f32(f32 x, f32 n) {\n"
        "  const i32 whole = (i32)(tc_bits_f32(n + 12582912.0f) - 0x4B400000u), half = whole >> 1;\n"
        "  return x * tc_f32_bits((u32)(half + 127) << 23) * tc_f32_bits((u32)(whole - half + 127) << 23);\n}\n");
  return tc_gpu_named("%s(%s, %s)", f, x, n);
}

// Words are tc_math_ and the C function's name; some functions are called so themselves.
static tc_gpu_name call_math(const tc_kir_inst *i, const char *a, const char *b) {
  static const char *const names[] = {
#define TC_KIR_MATH(NAME, function, operands) #function,
#include "lowering/kir/libm.def"
#undef TC_KIR_MATH
  };
  const char *f = names[i->imm], *before = strncmp(f, "tc_math_", 8) == 0 ? "" : "tc_math_";
  return tc_kir_math_operands(i->imm) == 2 ? tc_gpu_named("%s%s(%s, %s)", before, f, a, b)
                                           : tc_gpu_named("%s%s(%s)", before, f, a);
}

// ---- all ----

static tc_gpu_name whole_unary(const tc_kir_inst *i, bool plain, const char *a) {
  const char *type = tc_gpu_type(i->dtype);
  const tc_gpu_name less = plain ? tc_gpu_named("-%s", a) : wrapped(i->dtype, "0", "-", a);
  switch (i->op) {
    case TC_IR_NEG: return less;
    case TC_IR_ABS:
      return tc_kir_is_unsigned(i->dtype) ? tc_gpu_named("%s", a) : tc_gpu_named("%s < 0 ? %s : %s", a, less.text, a);
    default: return i->dtype == TC_BOOL ? tc_gpu_named("%s ^ 1", a) : tc_gpu_named("(%s)~%s", type, a);
  }
}

tc_gpu_name tc_gpu_combine(tc_gpu_text *t, unsigned op, unsigned dtype, const char *a, const char *b) {
  static const char *const sign[TC_N_KIR_OPS] = {
      [TC_IR_ADD] = "+", [TC_IR_SUB] = "-", [TC_IR_MUL] = "*", [TC_IR_AND] = "&", [TC_IR_OR] = "|", [TC_IR_XOR] = "^"};
  if (op == TC_IR_MIN || op == TC_IR_MAX) return least_or_most(t, op == TC_IR_MIN, dtype, a, b);
  if (op == TC_IR_ADD || op == TC_IR_SUB || op == TC_IR_MUL)
    return tc_kir_is_real(dtype) ? tc_gpu_named("%s %s %s", a, sign[op], b) : wrapped(dtype, a, sign[op], b);
  return dtype == TC_BOOL || tc_kir_type_bytes(dtype) >= 4
             ? tc_gpu_named("%s %s %s", a, sign[op], b)
             : tc_gpu_named("(%s)(%s %s %s)", tc_gpu_type(dtype), a, sign[op], b);
}

// Counters and constants: as they are written, in 64 bits unless what comes out is small.
static tc_gpu_name plain_sum(const tc_gpu_text *t, uint32_t at, const char *a, const char *b) {
  const tc_kir_inst *i = &t->kir->inst[at];
  const char *sign = i->op == TC_IR_ADD ? "+" : i->op == TC_IR_SUB ? "-" : "*";
  const bool wide = !tc_gpu_is_narrow(t, at) && tc_gpu_is_narrow(t, i->src[0]) && tc_gpu_is_narrow(t, i->src[1]);
  return tc_gpu_named("%s%s %s %s", wide ? "(i64)" : "", a, sign, b);
}

static tc_gpu_name shifted(tc_gpu_text *t, const tc_kir_inst *i, const char *a, const char *b) {
  int64_t by;
  if (!tc_gpu_constant(t, i->src[1], &by) || by < 0 || by >= 8 * (int64_t)tc_kir_type_bytes(i->dtype))
    return shift(t, i->op, i->dtype, a, b);
  if (i->op != TC_IR_SHL && tc_gpu_is_narrow(t, i->src[0]) && t->range[i->src[0]].low >= 0 && by < 32)
    return tc_gpu_named("%s >> %d", a, (int)by);
  return shift_known(i->op, i->dtype, a, by);
}

static tc_gpu_name divided(tc_gpu_text *t, const tc_kir_inst *i, const char *a, const char *b) {
  if (tc_kir_is_real(i->dtype)) return tc_gpu_named("tc_div_%s(%s, %s)", name_of(i->dtype), a, b);
  if (i->dtype == TC_I64 && t->range[i->src[1]].low > 0)
    return tc_gpu_named("%s %s %s", a, i->op == TC_IR_DIV ? "/" : "%", b);
  return divide(t, i->dtype, i->op == TC_IR_REM, a, b);
}

static tc_gpu_name expression(tc_gpu_text *t, uint32_t at, unsigned k) {
  const tc_kir_inst *i = &t->kir->inst[at];
  static const char *const test[TC_N_KIR_OPS] = {
      [TC_IR_EQ] = "==", [TC_IR_NE] = "!=", [TC_IR_LT] = "<", [TC_IR_LE] = "<=", [TC_IR_GT] = ">", [TC_IR_GE] = ">="};
  tc_gpu_name s[3] = {{""}, {""}, {""}};
  for (int j = 0; j < 3; j++)
    if (i->src[j] != TC_NONE && i->op != TC_IR_BITCAST) s[j] = tc_gpu_element(t, i->src[j], k);
  const char *a = s[0].text, *b = s[1].text, *name = name_of(i->dtype);
  switch (i->op) {
    case TC_IR_ADD:
    case TC_IR_SUB:
    case TC_IR_MUL:
      if (i->dtype == TC_I64 && t->plain[at]) return plain_sum(t, at, a, b);
      return tc_gpu_combine(t, i->op, i->dtype, a, b);
    case TC_IR_DIV:
    case TC_IR_REM: return divided(t, i, a, b);
    case TC_IR_FMA: return tc_gpu_named("tc_fma_%s(%s, %s, %s)", name, a, b, s[2].text);
    case TC_IR_EXP2: return tc_gpu_named("tc_exp2_f32(%s)", a);
    case TC_IR_LDEXP: return scale(t, i->imm != 0, a, b);
    case TC_IR_NEG:
    case TC_IR_ABS:
      if (!tc_kir_is_real(i->dtype)) return whole_unary(i, i->dtype == TC_I64 && t->plain[i->src[0]], a);
      return i->op == TC_IR_NEG ? tc_gpu_named("-%s", a) : tc_gpu_named("tc_abs_%s(%s)", name, a);
    case TC_IR_NOT: return whole_unary(i, false, a);
    case TC_IR_SQRT:
    case TC_IR_FLOOR:
    case TC_IR_CEIL:
    case TC_IR_TRUNC:
    case TC_IR_RINT: return tc_gpu_named("tc_%s_%s(%s)", tc_kir_op_name((tc_kir_op)i->op), name, a);
    case TC_IR_SHL:
    case TC_IR_SHR:
    case TC_IR_USHR: return shifted(t, i, a, b);
    case TC_IR_MULHU: return tc_gpu_named("(i32)tc_mulhi_u32((u32)%s, (u32)%s)", a, b);
    case TC_IR_EQ:
    case TC_IR_NE:
    case TC_IR_LT:
    case TC_IR_LE:
    case TC_IR_GT:
    case TC_IR_GE: return tc_gpu_named("%s %s %s", a, test[i->op], b);
    case TC_IR_SELECT: return tc_gpu_named("%s ? %s : %s", a, b, s[2].text);
    case TC_IR_CAST: return cast(t, t->kir->inst[i->src[0]].dtype, i->dtype, a);
    case TC_IR_BITCAST: return bitcast(t, i->src[0], k);
    case TC_IR_CALL: return call_math(i, a, b);
    default: return tc_gpu_combine(t, i->op, i->dtype, a, b);
  }
}

void tc_gpu_arith(tc_gpu_text *t, uint32_t at) {
  const tc_kir_inst *i = &t->kir->inst[at];
  const unsigned n = tc_gpu_is_one(t, at) ? 1 : tc_gpu_width(t->kir, i->lanes);
  if (tc_gpu_is_packed(t, at)) {
    for (unsigned k = 0; k < n / 2; k++) {
      const tc_gpu_name low = expression(t, at, 2 * k), high = expression(t, at, 2 * k + 1);
      tc_gpu_define(t, at, k);
      tc_gpu_put(&t->body, "%s | (u32)%s << 16", low.text, high.text);
    }
  } else {
    for (unsigned k = 0; k < n; k++) {
      const tc_gpu_name x = expression(t, at, k);
      tc_gpu_define(t, at, k);
      tc_gpu_put(&t->body, "%s", x.text);
    }
  }
  tc_gpu_put(&t->body, ";\n");
}
