// Random draws as kernel IR: the values that kernels/philox.h fixes by position, so every kernel
// draws the same ones.
// Threads: thread-compatible. Owns nothing.
#pragma once

#include "lowering/kir/builder.h"

#define TC_DRAW_NS 0.7  // nanoseconds an element on one thread

typedef struct tc_draw {
  uint32_t op;         // RAND, RANDN, RANDINT
  tc_type type;        // of the result, not a half type
  tc_val seed, counter, low, high;  // I64 scalars; RANDINT: [low, high)
  tc_val at;           // I64: the position of every lane; or, with lanes, a scalar
  // not 0: this many positions (4 or more, a multiple of 4) from the scalar `at`; 0: `at` is per
  // lane
  int lanes;
} tc_draw;

// Values of the type: one for each lane.
tc_val tc_draw_emit(tc_kir_builder *e, const tc_draw *draw);
