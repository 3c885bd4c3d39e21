// Philox4x32-10, a counter-based generator.
//
// Element i of a draw with (seed, counter) uses block i / 4, word i % 4. The counter words are
// {lo(block), hi(block), lo(counter), hi(counter)}, the key is {lo(seed), hi(seed)}. A 32-bit word
// w becomes:
//  - uniform f32: (w >> 8) * 2^-24;
//  - uniform f16, bf16: the same rounded, at most their largest number below 1 (TC_MOST_F16,
// TC_MOST_BF16). So mean and variance are a uniform value's, and 1 is never drawn;
//  - uniform f64: elements of two words (block i / 2, words 2*(i%2) and 2*(i%2)+1): ((hi << 32 |
// lo) >> 11) * 2^-53, where lo is the even word;
//  - integers in [low, high): low + (w * (high - low)) >> 32, for a span of at most 2^32;
//  - normals: Box-Muller on pairs. Element i uses words (i%4) & ~1 and | 1 of its block: u1 = ((w0
// >> 8) + 1) * 2^-24, u2 = (w1 >> 8) * 2^-24, r = sqrt(-2 ln u1). Even i is r cos(2 pi u2), odd i
// is r sin(2 pi u2). f64 normals use the same words, of f32's precision, with double arithmetic.
//
// Threads: thread-safe, pure.
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <stdint.h>

#define TC_MOST_F16 (1 - 0x1p-11)
#define TC_MOST_BF16 (1 - 0x1p-8)

void tc_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
