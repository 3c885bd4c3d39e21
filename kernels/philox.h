// Philox4x32-10, counter-based. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011.
// Element i of a draw with (seed, counter) uses block i / 4, word i % 4: counter words {lo(block),
// hi(block), lo(counter), hi(counter)}, key {lo(seed), hi(seed)}. From a 32-bit word w: uniform f32
// = (w >> 8) * 2^-24; f16 and bf16 the same rounded, but at most their greatest number below 1
// (TC_MOST_F16, TC_MOST_BF16), so that mean and variance are a uniform value's and 1 is never
// drawn; f64 uses elements of two words (block i / 2, words 2*(i%2), 2*(i%2)+1): ((hi << 32 | lo)
// >> 11) * 2^-53 with lo the even word; integers in [low, high): low + (w * (high - low)) >> 32
// (span at most 2^32); normals: Box-Muller on pairs: element i uses words (i%4) & ~1 and | 1 of its
// block: u1 = ((w0 >> 8) + 1) * 2^-24, u2 = (w1 >> 8) * 2^-24, r = sqrt(-2 ln u1); even i: r cos(2
// pi u2), odd i: r sin(2 pi u2). f64 normals use the same f32-precision words with double
// arithmetic.
// Threads: thread-safe, pure.
#ifndef TC_KERNELS_PHILOX_H
#define TC_KERNELS_PHILOX_H

#include <stdint.h>

#define TC_MOST_F16 (1 - 0x1p-11)
#define TC_MOST_BF16 (1 - 0x1p-8)

void tc_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#endif
