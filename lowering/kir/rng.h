// Random draws as kernel instructions: the values kernels/philox.h fixes by position, the same in
// every kernel that makes them.
// Threads: thread-compatible. Owns nothing.
#ifndef TC_LOWERING_KIR_RNG_H
#define TC_LOWERING_KIR_RNG_H

#include "lowering/kir/builder.h"

#define TC_DRAW_NS 0.7  // an element, on one thread

typedef struct tc_draw {
  uint32_t op;         // RAND, RANDN, RANDINT
  tc_type type;        // of the result, not a half type
  tc_val seed, counter, low, high;  // I64 scalars; RANDINT: [low, high)
  tc_val at;           // I64: the position of every lane; or, with lanes, a scalar
  int lanes;           // not 0: so many positions (4 or more) from `at`, a multiple of 4
} tc_draw;

// Values of the type: one for each lane.
tc_val tc_draw_emit(tc_kir_builder *e, const tc_draw *draw);

#endif
