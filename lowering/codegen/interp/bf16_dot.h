// A multiply-add and an add of floats as the instructions on pairs of bf16 do them, bit for bit.
//
// Both round to nearest even. Denormals count as zeros of their sign, in and out. Whether a result
// is one is decided after rounding to 24 bits with an unbounded exponent. Less than 2^-126 - 2^-151
// is a zero, from there on it is 2^-126.
// The first operand that is NaN is the result, made quiet. Infinities that cancel, and zero times
// infinity, give 0xffc00000.
// Floats are passed as their bits. x and y are bf16 values, with zeros in their lower halves.
// Checked against values that a processor with AMX made: tests/lowering/test_bf16_products.c.
// Threads: pure.
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t tc_bits_of(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

// The float with these bits, where denormals count as zeros.
static inline float tc_settled(uint32_t bits) {
  float v;
  if ((bits & 0x7f800000) == 0) bits &= 0x80000000;
  memcpy(&v, &bits, sizeof v);
  return v;
}

static inline bool tc_bits_are_nan(uint32_t bits) {
  return (bits & 0x7fffffff) > 0x7f800000;
}

// Whether a multiply-add that gave these bits, denormals aside, may have other ones by the rules
// above.
static inline uint32_t tc_is_rare_sum(uint32_t bits) {
  const uint32_t size = bits & 0x7fffffff;
  return (uint32_t)(size == 0x00800000) | (uint32_t)(size > 0x7f800000);
}

static inline uint32_t tc_exact_fma(uint32_t x, uint32_t y, uint32_t sum) {
  const uint32_t operand[3] = {x, y, sum};
  for (int i = 0; i < 3; i++)
    if (tc_bits_are_nan(operand[i])) return operand[i] | 0x00400000;
  const float fx = tc_settled(x), fy = tc_settled(y), fs = tc_settled(sum);
  const uint32_t bits = tc_bits_of(fmaf(fx, fy, fs));
  if (tc_bits_are_nan(bits)) return 0xffc00000;
  // The product has 16 bits. Where it matters, its sum with a float has few more than 24.
  const double exact = (double)fx * (double)fy + (double)fs;
  if ((bits & 0x7fffffff) == 0x00800000 && fabs(exact) < 0x1p-126 - 0x1p-151) return bits & 0x80000000;
  return tc_bits_of(tc_settled(bits));
}

static inline uint32_t tc_exact_add(uint32_t x, uint32_t y) {
  if (tc_bits_are_nan(x)) return x | 0x00400000;
  if (tc_bits_are_nan(y)) return y | 0x00400000;
  const uint32_t bits = tc_bits_of(tc_settled(x) + tc_settled(y));
  return tc_bits_are_nan(bits) ? 0xffc00000 : tc_bits_of(tc_settled(bits));
}

// The sum of two products of pairs, of which that of the upper halves is added first.
static inline uint32_t tc_exact_dot(uint32_t x, uint32_t y, uint32_t sum) {
  return tc_exact_fma(x << 16, y << 16, tc_exact_fma(x & 0xffff0000, y & 0xffff0000, sum));
}
