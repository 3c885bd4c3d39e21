// Size classes of pooled memory.
//
// In: bytes. Out: the class that holds them, and the bytes of a class.
// Invariants: four classes a power of two from 64 bytes waste at most a quarter, sixteen from a
// mebibyte on at most a sixteenth.
// Threads: pure. Owner: nobody.
#pragma once

#include <stddef.h>

enum { TC_N_SMALL_CLASSES = 56, TC_N_CLASSES = TC_N_SMALL_CLASSES + 28 * 16 };  // small: below a mebibyte

static inline size_t tc_class_bytes(int c) {
  int large = c - TC_N_SMALL_CLASSES;
  return large < 0 ? (size_t)(4 + c % 4) << (c / 4 + 4) : (size_t)(16 + large % 16) << (large / 16 + 16);
}

// Returns the smallest class that holds `bytes`.
static inline int tc_class_of(size_t bytes) {
  if (bytes <= 64) return 0;
  int e = 63 - __builtin_clzll((unsigned long long)bytes - 1), log_parts = e < 20 ? 2 : 4;  // 2^e < bytes <= 2^(e + 1)
  int part = (int)((bytes - 1 - ((size_t)1 << e)) >> (e - log_parts)) + 1;
  return e < 20 ? (e - 6) * 4 + part : TC_N_SMALL_CLASSES + (e - 20) * 16 + part;
}
