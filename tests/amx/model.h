// Products of tile registers in plain C, bit for bit as a processor with AMX makes them, and DOT's
// instruction, VDPBF16PS. Shares no code with the library.
//
// TDPBF16PS: an element of c takes two sums over the tile's k, of the even elements and of the odd
// ones. Each begins at +0, and each step is one fused multiply-add. Then c = c + (even + odd).
// All round to nearest even. Denormals are zeros of their sign, in and out, which is decided after
// rounding to 24 bits with an unbounded exponent: 2^-126 - 2^-150 becomes 0.
// NaN: the first of the operands (a, b, sum), (even, odd), (c, sum) that is one, made quiet;
// inf - inf and 0 * inf make 0xffc00000.
// Checked against tests/golden/bf16_products.bin by lowering/test_bf16_products.c.
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t model_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
static inline float model_float(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}
static inline uint32_t model_daz(uint32_t u) {
  return (u & 0x7f800000u) == 0 ? u & 0x80000000u : u;
}
static inline bool model_is_nan(uint32_t u) {
  return (u & 0x7fffffffu) > 0x7f800000u;
}

static inline uint32_t model_fma(uint32_t x, uint32_t y, uint32_t c) {
  x = model_daz(x), y = model_daz(y), c = model_daz(c);
  if (model_is_nan(x)) return x | 0x00400000u;
  if (model_is_nan(y)) return y | 0x00400000u;
  if (model_is_nan(c)) return c | 0x00400000u;
  uint32_t r = model_bits(fmaf(model_float(x), model_float(y), model_float(c)));
  if (model_is_nan(r)) return 0xffc00000u;
  if ((r & 0x7fffffffu) > 0x00800000u || (r & 0x7fffffffu) == 0) return r;
  // |exact| < 2^-126 - 2^-151 rounds to less than 2^-126. The product is exact in double, and so is
  // sum + rest.
  double p = (double)model_float(x) * (double)model_float(y), q = (double)model_float(c), s = p + q, v = s - p,
         e = (p - (s - v)) + (q - v), limit = 0x1p-126 - 0x1p-151;
  if (s < 0) s = -s, e = -e;
  bool is_zero = s < limit || (s <= limit && e < 0);
  return is_zero ? r & 0x80000000u : (r & 0x80000000u) | 0x00800000u;
}

static inline uint32_t model_add(uint32_t x, uint32_t y) {
  x = model_daz(x), y = model_daz(y);
  if (model_is_nan(x)) return x | 0x00400000u;
  if (model_is_nan(y)) return y | 0x00400000u;
  uint32_t r = model_bits(model_float(x) + model_float(y));
  return model_is_nan(r) ? 0xffc00000u : model_daz(r);
}

// c, a and b: tile registers, rows of 16 words. `words`: of a row of a; these are b's rows.
static inline void model_dot(uint32_t *c, const uint32_t *a, const uint32_t *b, int rows, int cols, int words) {
  for (int m = 0; m < rows; m++)
    for (int n = 0; n < cols; n++) {
      uint32_t even = 0, odd = 0;
      for (int k = 0; k < words; k++) {
        uint32_t x = a[16 * m + k], y = b[16 * k + n];
        even = model_fma(x << 16, y << 16, even);
        odd = model_fma(x & 0xffff0000u, y & 0xffff0000u, odd);
      }
      c[16 * m + n] = model_add(c[16 * m + n], model_add(even, odd));
    }
}

// The same of bytes; sums wrap.
static inline void model_dot_bytes(uint32_t *c, const uint32_t *a, const uint32_t *b, int rows, int cols, int words,
                                   bool a_signed, bool b_signed) {
  for (int m = 0; m < rows; m++)
    for (int n = 0; n < cols; n++)
      for (int k = 0; k < words; k++)
        for (int i = 0; i < 4; i++) {
          uint8_t x = (uint8_t)(a[16 * m + k] >> 8 * i), y = (uint8_t)(b[16 * k + n] >> 8 * i);
          c[16 * m + n] += (uint32_t)((a_signed ? (int8_t)x : x) * (b_signed ? (int8_t)y : y));
        }
}

// One lane of VDPBF16PS.
static inline uint32_t model_vdpbf16ps(uint32_t c, uint32_t x, uint32_t y) {
  return model_fma(x << 16, y << 16, model_fma(x & 0xffff0000u, y & 0xffff0000u, c));
}
