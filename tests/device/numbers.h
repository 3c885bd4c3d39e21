// Numbers for tests of libraries: small whole ones, whose sums every type holds exactly.
#pragma once

#include <stdint.h>
#include <string.h>

#include "device/gpu.h"

// Writes v, of f32, f16 or bf16, as element i.
static inline void put(tc_type type, void *at, int64_t i, int v) {
  float f = (float)v;
  uint32_t bits;
  memcpy(&bits, &f, 4);
  uint16_t half = (uint16_t)(bits >> 16);
  if (type == TC_F16)
    half = v ? (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 23 & 255) - 127 + 15) << 10 | (bits >> 13 & 1023)) : 0;
  if (type == TC_F32)
    memcpy((char *)at + 4 * i, &bits, 4);
  else
    memcpy((char *)at + 2 * i, &half, 2);
}

// The i-th one.
static inline int number(int64_t i) {
  return (int)(i * 2654435761u >> 7 & 3) - 1;
}
