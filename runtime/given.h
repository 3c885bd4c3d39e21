// What callers leave out: numbers among options, and tensors.
// Threads: pure. Owner: nobody.
#pragma once

#include <string.h>
#include <tc/tc.h>

// A number among options: 0 is left out, TC_ZERO, the smallest subnormal, is 0. By its bits, since
// processors may be set to take subnormals for 0. (A zero with a minus sign would not do: gcc
// -ffast-math makes it a plain one.)
static inline double tc_option(double given, double otherwise) {
  uint64_t bits;
  memcpy(&bits, &given, sizeof bits);
  return bits << 1 == 0 ? otherwise : bits == 1 ? 0 : given;
}
// An integer among options: 0 is left out, TC_ZERO_INT is 0.
static inline int64_t tc_option_int(int64_t given, int64_t otherwise) {
  return given == 0 ? otherwise : given == TC_ZERO_INT ? 0 : given;
}
// No tensor.
static inline bool tc_is_null(tc_tensor t) {
  return t.slot == 0 && t.gen == 0;
}
