// Spans of f16 and bf16 as f32, without a branch, so that the compiler makes vectors of them. See
// half.h.
#include "kernels/blas/half.h"

#include <string.h>

static inline float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// Source: Maratyszcza/FP16, fp16_ieee_to_fp32_value. An integer addition and a multiplication move
// the exponent and keep infinities and NaN. A subnormal is the low bits of a number between 0.5 and
// 1, less 0.5.
static inline float widen_f16(uint16_t half) {
  uint32_t word = (uint32_t)half << 16, sign = word & 0x80000000u, twice = word + word;
  float normal = float_of((twice >> 4) + 0x70000000u) * 0x1p-112f;
  float subnormal = float_of((twice >> 17) | 0x3f000000u) - 0.5f;
  uint32_t bits, low;
  memcpy(&bits, &normal, sizeof bits);
  memcpy(&low, &subnormal, sizeof low);
  return float_of(sign | (twice < (1u << 27) ? low : bits));
}

void tc_blas_widen(tc_type type, float *out, const void *in, int64_t n) {
  const uint16_t *halves = in;
  if (type == TC_F16)
    for (int64_t i = 0; i < n; i++) out[i] = widen_f16(halves[i]);
  else
    for (int64_t i = 0; i < n; i++) out[i] = float_of((uint32_t)halves[i] << 16);
}
