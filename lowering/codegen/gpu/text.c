// Text that grows, names of types and values, and literals.
#include "lowering/codegen/gpu/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "runtime/arena.h"

// ---- text ----

static bool make_room(tc_gpu_out *out, size_t bytes) {
  out->failed |= !TC_GROW(out->at, out->cap, (uint32_t)(out->n + bytes + 1));
  return !out->failed;
}

static void put_list(tc_gpu_out *out, const char *fmt, va_list args) {
  va_list again;
  va_copy(again, args);
  const int n = vsnprintf(NULL, 0, fmt, again);
  va_end(again);
  if (n < 0 || !make_room(out, (size_t)n)) return;
  (void)vsnprintf(out->at + out->n, out->cap - out->n, fmt, args);
  out->n += (size_t)n;
}

void tc_gpu_put(tc_gpu_out *out, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  put_list(out, fmt, args);
  va_end(args);
}

void tc_gpu_indent(tc_gpu_text *t) {
  tc_gpu_put(&t->body, "%*s", 2 * t->depth, "");
}

void tc_gpu_line(tc_gpu_text *t, const char *fmt, ...) {
  va_list args;
  tc_gpu_indent(t);
  va_start(args, fmt);
  put_list(&t->body, fmt, args);
  va_end(args);
}

tc_gpu_name tc_gpu_named(const char *fmt, ...) {
  tc_gpu_name name;
  va_list args;
  va_start(args, fmt);
  // Names, casts and literals: their lengths are bounded.
  (void)vsnprintf(name.text, sizeof name.text, fmt, args);
  va_end(args);
  return name;
}

bool tc_gpu_is_new(const tc_gpu_text *t, const char *name) {
  return t->helpers.at == NULL || strstr(t->helpers.at, name) == NULL;
}

// ---- types ----

static const struct {
  const char *reg, *memory;
} type_row[TC_N_TYPES] = {
    [TC_BOOL] = {"i32", "u8"}, [TC_U8] = {"u8", "u8"},    [TC_I8] = {"i8", "i8"},    [TC_I16] = {"i16", "i16"},
    [TC_I32] = {"i32", "i32"}, [TC_I64] = {"i64", "i64"}, [TC_F16] = {"u16", "u16"}, [TC_BF16] = {"u16", "u16"},
    [TC_F32] = {"f32", "f32"}, [TC_F64] = {"f64", "f64"},
};

const char *tc_gpu_type(unsigned dtype) {
  return type_row[dtype].reg;
}
const char *tc_gpu_memory_type(unsigned dtype) {
  return type_row[dtype].memory;
}

// ---- values ----

bool tc_gpu_is_of_lanes(const tc_kir *kir, int64_t buffer) {
  return buffer >= kir->n_buf && kir->tile[buffer - kir->n_buf].of_lanes;
}

bool tc_gpu_constant(const tc_gpu_text *t, uint32_t v, int64_t *out) {
  const tc_kir_inst *i = &t->kir->inst[v];
  if (i->op == TC_IR_SPLAT) i = &t->kir->inst[i->src[0]];
  *out = i->imm;
  return i->op == TC_IR_CONST;
}

unsigned tc_gpu_width(const tc_kir *kir, unsigned lanes) {
  return lanes == 1 ? 1 : lanes / kir->threads;
}

bool tc_gpu_is_narrow(const tc_gpu_text *t, uint32_t v) {
  const int64_t most = INT64_C(1) << 30;
  return t->kir->inst[v].dtype == TC_I64 && t->range[v].low >= -most && t->range[v].high <= most;
}

bool tc_gpu_is_one(const tc_gpu_text *t, uint32_t v) {
  const tc_kir_inst *i = &t->kir->inst[v];
  return i->op == TC_IR_CONST || i->op == TC_IR_NUM || i->op == TC_IR_SPLAT || tc_gpu_width(t->kir, i->lanes) == 1;
}

bool tc_gpu_is_packed(const tc_gpu_text *t, uint32_t v) {
  return tc_kir_is_half(t->kir->inst[v].dtype) && !tc_gpu_is_one(t, v);
}

// In brackets, where a sign would bind otherwise.
static tc_gpu_name whole_literal(int64_t v) {
  if (v == INT64_MIN) return tc_gpu_named("(-9223372036854775807ll - 1)");
  if (v == INT32_MIN) return tc_gpu_named("(-2147483647 - 1)");
  const bool wide = v > INT32_MAX || v < INT32_MIN;
  return v < 0 ? tc_gpu_named("(%" PRId64 "%s)", v, wide ? "ll" : "")
               : tc_gpu_named("%" PRId64 "%s", v, wide ? "ll" : "");
}

// Exact: few digits where they say it, else hexadecimal ones.
static tc_gpu_name float_literal(double v, const char *suffix) {
  const bool small = v == trunc(v) && fabs(v) < 1e6;
  const char *open = signbit(v) ? "(" : "", *close = signbit(v) ? ")" : "";
  return small ? tc_gpu_named("%s%.1f%s%s", open, v, suffix, close) : tc_gpu_named("%s%a%s%s", open, v, suffix, close);
}

static tc_gpu_name literal(const tc_kir_inst *i) {
  const uint32_t low = (uint32_t)i->imm;
  double d;
  float f;
  memcpy(&d, &i->imm, sizeof d);
  memcpy(&f, &low, sizeof f);
  switch (i->dtype) {
    case TC_F32:
      return isfinite(f) ? float_literal((double)f, "f") : tc_gpu_named("tc_f32_bits(0x%08" PRIx32 "u)", low);
    case TC_F64:
      return isfinite(d) ? float_literal(d, "") : tc_gpu_named("tc_f64_bits(0x%016" PRIx64 "ull)", (uint64_t)i->imm);
    case TC_U8: return whole_literal((uint8_t)i->imm);
    case TC_I8: return whole_literal((int8_t)i->imm);
    case TC_I16: return whole_literal((int16_t)i->imm);
    case TC_I32: return whole_literal((int32_t)i->imm);
    default: return whole_literal(i->imm);
  }
}

// A splat of a variable keeps what the variable was.
static bool is_alias(const tc_gpu_text *t, uint32_t v) {
  const tc_kir_inst *i = &t->kir->inst[v];
  return i->op == TC_IR_SPLAT && t->kir->inst[i->src[0]].op != TC_IR_VAR;
}

tc_gpu_name tc_gpu_element(const tc_gpu_text *t, uint32_t v, unsigned k) {
  const tc_kir_inst *i = &t->kir->inst[v];
  if (i->op == TC_IR_CONST) return literal(i);
  if (is_alias(t, v)) return tc_gpu_element(t, i->src[0], 0);
  if (tc_gpu_is_one(t, v)) return tc_gpu_named("v%u", v);
  if (t->sums[v] || i->op == TC_IR_MMA || i->op == TC_IR_MFMA) return tc_gpu_named("v%u[%u]", v, k);
  if (!tc_gpu_is_packed(t, v)) return tc_gpu_named("v%u_%u", v, k);
  const tc_gpu_name word = tc_gpu_register(t, v, k / 2);
  return k % 2 == 0 ? tc_gpu_named("(u16)%s", word.text) : tc_gpu_named("(u16)(%s >> 16)", word.text);
}

tc_gpu_name tc_gpu_register(const tc_gpu_text *t, uint32_t v, unsigned k) {
  const tc_kir_inst *i = &t->kir->inst[v];
  if (tc_gpu_is_packed(t, v))
    return i->op == TC_IR_LDMATRIX ? tc_gpu_named("v%u[%u]", v, k) : tc_gpu_named("v%u_%u", v, k);
  switch (tc_kir_type_bytes(i->dtype)) {
    case 4: {
      const tc_gpu_name x = tc_gpu_element(t, v, k);
      return i->dtype == TC_F32 ? tc_gpu_named("tc_bits_f32(%s)", x.text) : tc_gpu_named("(u32)%s", x.text);
    }
    case 8: {
      const tc_gpu_name x = tc_gpu_element(t, v, k / 2), bits = i->dtype == TC_F64
                                                                    ? tc_gpu_named("tc_bits_f64(%s)", x.text)
                                                                    : tc_gpu_named("(u64)%s", x.text);
      return k % 2 == 0 ? tc_gpu_named("(u32)%s", bits.text) : tc_gpu_named("(u32)(%s >> 32)", bits.text);
    }
    case 2: {
      const tc_gpu_name x = tc_gpu_element(t, v, 2 * k), y = tc_gpu_element(t, v, 2 * k + 1);
      return tc_gpu_named("((u32)(u16)%s | (u32)(u16)%s << 16)", x.text, y.text);
    }
    default: {
      tc_gpu_name x[4];
      for (unsigned b = 0; b < 4; b++) x[b] = tc_gpu_element(t, v, 4 * k + b);
      return tc_gpu_named("((u32)(u8)%s | (u32)(u8)%s << 8 | (u32)(u8)%s << 16 | (u32)(u8)%s << 24)", x[0].text,
                          x[1].text, x[2].text, x[3].text);
    }
  }
}

void tc_gpu_define(tc_gpu_text *t, uint32_t v, unsigned k) {
  const tc_kir_inst *i = &t->kir->inst[v];
  const bool packed = tc_gpu_is_packed(t, v);
  if (k > 0)
    tc_gpu_put(&t->body, ", ");
  else
    tc_gpu_line(t, "%s%s ", i->op == TC_IR_VAR ? "" : "const ",
                packed                   ? "u32"
                : tc_gpu_is_narrow(t, v) ? "i32"
                                         : tc_gpu_type(i->dtype));
  if (tc_gpu_is_one(t, v))
    tc_gpu_put(&t->body, "v%u = ", v);
  else
    tc_gpu_put(&t->body, "v%u_%u = ", v, k);
}

void tc_gpu_sync(tc_gpu_text *t) {
  if (t->warp_only) t->peers = true;
  tc_gpu_line(t, t->warp_only ? "TC_SYNC_WARP(peers);\n" : t->blocks > 1 ? "TC_SYNC_CLUSTER();\n" : "TC_SYNC();\n");
}
