// Appends instructions. See builder.h.
#include "lowering/kir/builder.h"

#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"

tc_val tc_build_raw(tc_kir_builder *e, tc_kir_op op, tc_type type, int lanes, tc_val s0, tc_val s1, tc_val s2,
                    int64_t imm) {
  tc_kir *n = e->kir;
  if (e->failed) return 0;
  if (!TC_GROW(n->inst, n->cap_inst, n->n_inst + 1)) return e->failed = true, 0;
  n->inst[n->n_inst] = (tc_kir_inst){
      .op = (uint8_t)op, .dtype = (uint8_t)type, .lanes = (uint16_t)lanes, .src = {s0, s1, s2, TC_NONE}, .imm = imm};
  return n->n_inst++;
}

int tc_build_lanes(const tc_kir_builder *e, tc_val v) {
  return e->failed ? 1 : e->kir->inst[v].lanes;
}

tc_type tc_build_type(const tc_kir_builder *e, tc_val v) {
  return e->failed ? TC_F32 : (tc_type)e->kir->inst[v].dtype;
}

tc_val tc_build_splat(tc_kir_builder *e, tc_val v, int lanes) {
  int n = tc_build_lanes(e, v);
  if (n == lanes) return v;
  if (n > lanes) return e->failed = e->uneven = true, 0;
  if (n == 1) return tc_build_raw(e, TC_IR_SPLAT, tc_build_type(e, v), lanes, v, TC_NONE, TC_NONE, 0);
  return tc_build_splat(e, tc_build_raw(e, TC_IR_INTERLEAVE, tc_build_type(e, v), 2 * n, v, v, TC_NONE, 0), lanes);
}

tc_val tc_build_const_i(tc_kir_builder *e, tc_type type, int64_t v) {
  return tc_build_raw(e, TC_IR_CONST, type, 1, TC_NONE, TC_NONE, TC_NONE, v);
}

tc_val tc_build_const_f(tc_kir_builder *e, tc_type type, double v) {
  int64_t bits = 0;
  float f = (float)v;
  if (type == TC_F64)
    memcpy(&bits, &v, sizeof v);
  else if (type == TC_F32)
    memcpy(&bits, &f, sizeof f);
  else
    bits = (int64_t)v;
  return tc_build_const_i(e, type, bits);
}

tc_val tc_build_un(tc_kir_builder *e, tc_kir_op op, tc_val a) {
  return tc_build_raw(e, op, tc_build_type(e, a), tc_build_lanes(e, a), a, TC_NONE, TC_NONE, 0);
}

int tc_kir_widest(const tc_kir_builder *e, tc_val a, tc_val b) {
  return TC_MAX_OF(tc_build_lanes(e, a), tc_build_lanes(e, b));
}

tc_val tc_build_bin(tc_kir_builder *e, tc_kir_op op, tc_val a, tc_val b) {
  int lanes = tc_kir_widest(e, a, b);
  tc_type type = tc_kir_ops[op].traits & TC_KIR_COMPARE ? TC_BOOL : tc_build_type(e, a);
  a = tc_build_splat(e, a, lanes), b = tc_build_splat(e, b, lanes);
  return tc_build_raw(e, op, type, lanes, a, b, TC_NONE, 0);
}

tc_val tc_build_fma(tc_kir_builder *e, tc_val a, tc_val b, tc_val c) {
  int lanes = TC_MAX_OF(tc_kir_widest(e, a, b), tc_build_lanes(e, c));
  a = tc_build_splat(e, a, lanes), b = tc_build_splat(e, b, lanes), c = tc_build_splat(e, c, lanes);
  return tc_build_raw(e, TC_IR_FMA, tc_build_type(e, a), lanes, a, b, c, 0);
}

void tc_build_prefetch(tc_kir_builder *e, int buf, tc_val at, bool far) {
  tc_val line = tc_build_raw(e, TC_IR_PREFETCH, TC_I64, 1, at, TC_NONE, TC_NONE, buf);
  if (far && !e->failed) e->kir->inst[line].flags = 2;
}

tc_val tc_build_select(tc_kir_builder *e, tc_val c, tc_val a, tc_val b) {
  int lanes = TC_MAX_OF(tc_kir_widest(e, a, b), tc_build_lanes(e, c));
  c = tc_build_splat(e, c, lanes), a = tc_build_splat(e, a, lanes), b = tc_build_splat(e, b, lanes);
  return tc_build_raw(e, TC_IR_SELECT, tc_build_type(e, a), lanes, c, a, b, 0);
}

// Undoes a widening: a value cast from a narrow type and back to it is the original. The first
// rounding already made NaNs quiet.
static tc_val before_widening(const tc_kir_builder *e, tc_val a, tc_type to) {
  if (e->failed || (to != TC_BF16 && to != TC_F16) || e->kir->inst[a].op != TC_IR_CAST ||
      e->kir->inst[a].dtype != TC_F32)
    return TC_NONE;
  tc_val from = e->kir->inst[a].src[0];
  return e->kir->inst[from].op == TC_IR_CAST && tc_build_type(e, from) == to ? from : TC_NONE;
}

tc_val tc_build_cast(tc_kir_builder *e, tc_val a, tc_type to) {
  tc_val narrow = before_widening(e, a, to);
  if (narrow != TC_NONE) return narrow;
  return tc_build_type(e, a) == to ? a : tc_build_raw(e, TC_IR_CAST, to, tc_build_lanes(e, a), a, TC_NONE, TC_NONE, 0);
}

tc_val tc_build_cast_bf16_daz(tc_kir_builder *e, tc_val a) {
  if (tc_build_type(e, a) != TC_F32 || before_widening(e, a, TC_BF16) != TC_NONE) return tc_build_cast(e, a, TC_BF16);
  return tc_build_raw(e, TC_IR_CAST, TC_BF16, tc_build_lanes(e, a), a, TC_NONE, TC_NONE, 1);
}

tc_val tc_build_var(tc_kir_builder *e, tc_val init) {
  return tc_build_raw(e, TC_IR_VAR, tc_build_type(e, init), tc_build_lanes(e, init), init, TC_NONE, TC_NONE, 0);
}

void tc_build_set(tc_kir_builder *e, tc_val var, tc_val v) {
  (void)tc_build_raw(e, TC_IR_SET, tc_build_type(e, var), tc_build_lanes(e, var), var,
                     tc_build_splat(e, v, tc_build_lanes(e, var)), TC_NONE, 0);
}

tc_val tc_build_loop(tc_kir_builder *e, tc_val from, tc_val to, int64_t step) {
  return tc_build_raw(e, TC_IR_LOOP, TC_I64, 1, from, to, TC_NONE, step);
}

tc_val tc_build_load_words(tc_kir_builder *e, int buf, tc_val at, int lanes, tc_val mask) {
  tc_val v = tc_build_raw(e, TC_IR_LOAD, TC_BF16, 2 * lanes, at, mask, TC_NONE, buf);
  return tc_build_raw(e, TC_IR_BITCAST, TC_I32, lanes, v, TC_NONE, TC_NONE, 0);
}

tc_val tc_build_words(tc_kir_builder *e, tc_val first, tc_val second) {
  int lanes = tc_build_lanes(e, first);
  first = tc_build_cast_bf16_daz(e, first), second = tc_build_cast_bf16_daz(e, second);
  tc_val both = tc_build_raw(e, TC_IR_INTERLEAVE, TC_BF16, 2 * lanes, first, second, TC_NONE, 0);
  return tc_build_raw(e, TC_IR_BITCAST, TC_I32, lanes, both, TC_NONE, TC_NONE, 0);
}

tc_val tc_build_load_byte_words(tc_kir_builder *e, int buf, tc_type type, tc_val at, int lanes) {
  tc_val v = tc_build_raw(e, TC_IR_LOAD, type, 4 * lanes, at, TC_NONE, TC_NONE, buf);
  return tc_build_raw(e, TC_IR_BITCAST, TC_I32, lanes, v, TC_NONE, TC_NONE, 0);
}

tc_val tc_build_byte_words(tc_kir_builder *e, const tc_val v[4]) {
  tc_val word = TC_NONE, byte = tc_build_const_i(e, TC_I32, 0xFF);
  for (int i = 0; i < 4; i++) {
    tc_val x = tc_build_bin(e, TC_IR_AND, tc_build_cast(e, v[i], TC_I32), byte);
    if (i) x = tc_build_bin(e, TC_IR_SHL, x, tc_build_const_i(e, TC_I32, 8 * i));
    word = i ? tc_build_bin(e, TC_IR_OR, word, x) : x;
  }
  return word;
}

tc_val tc_build_dot4(tc_kir_builder *e, tc_val a, tc_val b, tc_val sum, int is_signed) {
  int lanes = tc_build_lanes(e, sum);
  return tc_build_raw(e, TC_IR_DOT4, TC_I32, lanes, tc_build_splat(e, a, lanes), tc_build_splat(e, b, lanes), sum,
                      is_signed);
}

tc_val tc_build_dot(tc_kir_builder *e, tc_val a, tc_val b, tc_val sum) {
  int lanes = tc_build_lanes(e, sum);
  return tc_build_raw(e, TC_IR_DOT, TC_F32, lanes, tc_build_splat(e, a, lanes), tc_build_splat(e, b, lanes), sum, 0);
}

static void build_tmm(tc_kir_builder *e, tc_kir_op op, tc_type type, tc_val at, tc_val apart, int64_t imm,
                      uint32_t flags) {
  tc_val i = tc_build_raw(e, op, type, 1, at, apart, TC_NONE, imm);
  if (!e->failed) e->kir->inst[i].flags = flags;
}

void tc_build_tmm_zero(tc_kir_builder *e, unsigned tmm, unsigned rows, unsigned words) {
  build_tmm(e, TC_IR_TMM_ZERO, TC_I64, TC_NONE, TC_NONE, 0, tc_kir_tmm_flags(rows, words, tmm));
}

void tc_build_tmm_load(tc_kir_builder *e, unsigned tmm, unsigned rows, unsigned words, int buf, tc_type type, tc_val at,
                       tc_val apart) {
  build_tmm(e, TC_IR_TMM_LOAD, type, at, apart, buf, tc_kir_tmm_flags(rows, words, tmm));
}

void tc_build_tmm_store(tc_kir_builder *e, unsigned tmm, unsigned rows, unsigned words, int buf, tc_type type,
                        tc_val at, tc_val apart) {
  build_tmm(e, TC_IR_TMM_STORE, type, at, apart, buf, tc_kir_tmm_flags(rows, words, tmm));
}

void tc_build_tmm_dot(tc_kir_builder *e, tc_kir_op op, const unsigned tmm[3], const unsigned of[3]) {
  build_tmm(e, op, TC_I64, TC_NONE, TC_NONE, tc_kir_tmm_imm(tmm[0], tmm[1], tmm[2]),
            tc_kir_tmm_flags(of[0], of[1], of[2]));
}

void tc_build_transpose(tc_kir_builder *e, tc_val *v, int n) {
  tc_val transposed[64];
  for (int stride = 1; stride < n; stride *= 2) {
    for (int i = 0; i < n; i++)
      transposed[i] =
          tc_build_raw(e, TC_IR_UNPACK, tc_build_type(e, v[0]), n, v[i / 2], v[i / 2 + n / 2], TC_NONE, i % 2);
    memcpy(v, transposed, (size_t)n * sizeof v[0]);
  }
}

tc_val tc_build_halve(tc_kir_builder *e, tc_val a, tc_val b) {
  tc_val half[2];
  for (int i = 0; i < 2; i++)
    half[i] = tc_build_raw(e, TC_IR_UNPACK, tc_build_type(e, a), tc_build_lanes(e, a), a, b, TC_NONE, i);
  return tc_build_bin(e, TC_IR_ADD, half[0], half[1]);
}

void tc_build_end(tc_kir_builder *e, tc_kir_op op) {
  (void)tc_build_raw(e, op, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
}
