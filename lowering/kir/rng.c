// Builds Philox4x32-10 and the distributions made from its words. See rng.h and kernels/philox.h.
//
// One block holds the words of several elements. For consecutive positions a quarter as many lanes
// (f64: half) compute blocks, and each block's elements are interleaved.
// For scattered positions every lane computes its own block and picks its element.
// Words are held in 64-bit lanes below 2^32, so that one vector instruction gives both halves of a
// product.
#include "lowering/kir/rng.h"

#include <math.h>

#include "lazy/record/record.h"
#include "lowering/kir/scalar_ops.h"

#define ADD(a, b) tc_build_bin(e, TC_IR_ADD, (a), (b))
#define MUL(a, b) tc_build_bin(e, TC_IR_MUL, (a), (b))
#define XOR(a, b) tc_build_bin(e, TC_IR_XOR, (a), (b))
#define I32(v) tc_build_const_i(e, TC_I32, (v))
#define I64(v) tc_build_const_i(e, TC_I64, (v))
#define F(v) tc_build_const_f(e, type, (v))

static tc_val low_half(tc_kir_builder *e, tc_val v) {
  return tc_build_bin(e, TC_IR_AND, v, I64(0xFFFFFFFF));
}

static tc_val shifted(tc_kir_builder *e, tc_val v, int64_t n) {
  return tc_build_bin(e, TC_IR_USHR, v, tc_build_const_i(e, tc_build_type(e, v), n));
}

static tc_val bit(tc_kir_builder *e, tc_val v, int64_t b) {
  tc_type type = tc_build_type(e, v);
  return tc_build_bin(e, TC_IR_NE, tc_build_bin(e, TC_IR_AND, v, tc_build_const_i(e, type, b)),
                      tc_build_const_i(e, type, 0));
}

// The four words of every lane's block. The rounds are a loop: unrolled they take three times as
// long to compile and run no faster. Only the lower halves of lanes count there.
static void philox(tc_kir_builder *e, const tc_draw *d, tc_val block, tc_val w[4]) {
  const tc_val counter[4] = {block, shifted(e, block, 32), d->counter, shifted(e, d->counter, 32)};
  const tc_val seed[2] = {d->seed, shifted(e, d->seed, 32)};
  tc_val key[2], c[4];
  for (int k = 0; k < 2; k++) key[k] = tc_build_var(e, seed[k]);
  for (int k = 0; k < 4; k++) c[k] = tc_build_var(e, tc_build_splat(e, counter[k], tc_build_lanes(e, block)));
  (void)tc_build_loop(e, I64(0), I64(10), 1);
  tc_val p0 = MUL(low_half(e, c[0]), I64(0xD2511F53)), p1 = MUL(low_half(e, c[2]), I64(0xCD9E8D57));
  tc_val c0 = XOR(XOR(shifted(e, p1, 32), c[1]), key[0]), c2 = XOR(XOR(shifted(e, p0, 32), c[3]), key[1]);
  tc_build_set(e, c[0], c0), tc_build_set(e, c[1], p1), tc_build_set(e, c[2], c2), tc_build_set(e, c[3], p0);
  tc_build_set(e, key[0], ADD(key[0], I64(0x9E3779B9)));
  tc_build_set(e, key[1], ADD(key[1], I64(0xBB67AE85)));
  tc_build_end(e, TC_IR_ENDLOOP);
  for (int k = 0; k < 4; k++) w[k] = low_half(e, c[k]);
}

static tc_val interleave(tc_kir_builder *e, tc_val a, tc_val b) {
  return tc_build_raw(e, TC_IR_INTERLEAVE, tc_build_type(e, a), 2 * tc_build_lanes(e, a), a, b, TC_NONE, 0);
}

// Selects from a block's two elements: both, interleaved, or each lane's own.
static tc_val of_two(tc_kir_builder *e, const tc_draw *d, tc_val a, tc_val b) {
  return d->lanes ? interleave(e, a, b) : tc_build_select(e, bit(e, d->at, 1), b, a);
}

static tc_val of_four(tc_kir_builder *e, const tc_draw *d, const tc_val v[4]) {
  if (d->lanes) return interleave(e, interleave(e, v[0], v[2]), interleave(e, v[1], v[3]));
  tc_val odd = bit(e, d->at, 1), second = bit(e, d->at, 2);
  return tc_build_select(e, second, tc_build_select(e, odd, v[3], v[2]), tc_build_select(e, odd, v[1], v[0]));
}

// The upper n bits of a word, n below 32, as a number of the type: exact.
static tc_val upper_bits(tc_kir_builder *e, tc_val word, int n, tc_type type) {
  return tc_build_cast(e, tc_build_cast(e, shifted(e, word, 32 - n), TC_I32), type);
}

static tc_val uniform_f64(tc_kir_builder *e, const tc_draw *d, const tc_val w[4]) {
  tc_val v[2];
  for (int k = 0; k < 2; k++)
    v[k] = shifted(e, tc_build_bin(e, TC_IR_OR, tc_build_bin(e, TC_IR_SHL, w[2 * k + 1], I64(32)), w[2 * k]), 11);
  return MUL(tc_build_cast(e, of_two(e, d, v[0], v[1]), TC_F64), tc_build_const_f(e, TC_F64, 0x1p-53));
}

static tc_val uniform_f32(tc_kir_builder *e, const tc_draw *d, const tc_val w[4]) {
  tc_val v[4];
  for (int k = 0; k < 4; k++) v[k] = tc_build_cast(e, shifted(e, w[k], 8), TC_I32);
  return MUL(tc_build_cast(e, of_four(e, d, v), TC_F32), tc_build_const_f(e, TC_F32, 0x1p-24));
}

// low + (word * span >> 32). A span of 2^32 uses the word unchanged.
static tc_val whole(tc_kir_builder *e, const tc_draw *d, const tc_val w[4]) {
  tc_val v[4], span = tc_build_bin(e, TC_IR_SUB, d->high, d->low);
  for (int k = 0; k < 4; k++) v[k] = tc_build_cast(e, w[k], TC_I32);
  tc_val word = of_four(e, d, v), part = tc_build_bin(e, TC_IR_MULHU, word, tc_build_cast(e, span, TC_I32));
  tc_val n = tc_build_select(e, bit(e, span, INT64_C(1) << 32), word, part);
  if (tc_type_bytes(d->type) <= 4 && d->type != TC_BOOL)
    return tc_build_cast(e, ADD(n, tc_build_cast(e, d->low, TC_I32)), d->type);
  return tc_build_cast(e, ADD(low_half(e, tc_build_cast(e, n, TC_I64)), d->low), d->type);
}

// cos and sin of 2 pi k 2^-24 in f32. The nearest quarter turn is subtracted exactly; the rest uses
// the polynomials of Cephes sinf and cosf.
static void turn_f32(tc_kir_builder *e, tc_val k, tc_val *cosine, tc_val *sine) {
  tc_type type = TC_F32;
  tc_val quarter = shifted(e, ADD(k, I32(1 << 21)), 22);
  tc_val rest = tc_build_bin(e, TC_IR_SUB, k, tc_build_bin(e, TC_IR_SHL, quarter, I32(22)));
  tc_val x = MUL(tc_build_cast(e, rest, type), F(0x1p-23 * M_PI)), z = MUL(x, x);
  tc_val s = tc_build_fma(e, tc_build_fma(e, F(-1.9515295891e-4), z, F(8.3321608736e-3)), z, F(-1.6666654611e-1));
  s = tc_build_fma(e, MUL(s, z), x, x);
  tc_val c = tc_build_fma(e, tc_build_fma(e, F(2.443315711809948e-5), z, F(-1.388731625493765e-3)), z,
                          F(4.166664568298827e-2));
  c = tc_build_fma(e, MUL(c, z), z, tc_build_fma(e, z, F(-0.5), F(1)));
  tc_val odd = bit(e, quarter, 1);
  tc_val values[2] = {tc_build_select(e, odd, s, c), tc_build_select(e, odd, c, s)},
         turns[2] = {ADD(quarter, I32(1)), quarter};
  // Negative in the second and third quarter, and in the third and fourth.
  for (int i = 0; i < 2; i++) {
    tc_val sign = tc_build_bin(e, TC_IR_SHL, tc_build_bin(e, TC_IR_AND, turns[i], I32(2)), I32(30));
    tc_val bits = tc_build_raw(e, TC_IR_BITCAST, TC_I32, tc_build_lanes(e, values[i]), values[i], TC_NONE, TC_NONE, 0);
    bits = XOR(bits, sign);
    *(i ? sine : cosine) = tc_build_raw(e, TC_IR_BITCAST, type, tc_build_lanes(e, bits), bits, TC_NONE, TC_NONE, 0);
  }
}

// Box-Muller on two words.
static void normal_pair(tc_kir_builder *e, tc_type type, tc_val w0, tc_val w1, tc_val out[2]) {
  tc_val u = MUL(ADD(upper_bits(e, w0, 24, type), F(1)), F(0x1p-24)), cosine, sine;
  tc_val radius = tc_build_un(e, TC_IR_SQRT, MUL(F(-2), tc_build_scalar_op(e, TC_OP_LOG, type, u, 0, 0)));
  if (type == TC_F32) {
    turn_f32(e, upper_bits(e, w1, 24, TC_I32), &cosine, &sine);
  } else {
    tc_val angle = MUL(F(2 * M_PI), MUL(upper_bits(e, w1, 24, type), F(0x1p-24)));
    cosine = tc_build_scalar_op(e, TC_OP_COS, type, angle, 0, 0),
    sine = tc_build_scalar_op(e, TC_OP_SIN, type, angle, 0, 0);
  }
  out[0] = MUL(radius, cosine), out[1] = MUL(radius, sine);
}

static tc_val normal(tc_kir_builder *e, const tc_draw *d, const tc_val w[4]) {
  tc_val v[4];
  for (int k = 0; k < 4; k += 2) normal_pair(e, d->type, w[k], w[k + 1], v + k);
  return of_four(e, d, v);
}

tc_val tc_draw_emit(tc_kir_builder *e, const tc_draw *d) {
  tc_val w[4], block;
  int log = d->op == TC_OP_RAND && d->type == TC_F64 ? 1 : 2;  // log2 of the elements in a block
  block = shifted(e, d->at, log);
  if (d->lanes) block = ADD(block, tc_build_raw(e, TC_IR_LANES, TC_I64, d->lanes >> log, TC_NONE, TC_NONE, TC_NONE, 0));
  philox(e, d, block, w);
  if (d->op == TC_OP_RANDINT) return whole(e, d, w);
  if (d->op == TC_OP_RANDN) return normal(e, d, w);
  return d->type == TC_F64 ? uniform_f64(e, d, w) : uniform_f32(e, d, w);
}
