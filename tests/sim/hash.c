// FNV-1a, 64 bits, for keys of the simulator's own.
#include "tests/sim/core.h"

uint64_t sim_hash(const void *p, size_t bytes, uint64_t seed) {
  const uint8_t *at = p;
  uint64_t h = seed ^ 0xcbf29ce484222325u;
  for (size_t i = 0; i < bytes; i++) h = (h ^ at[i]) * 0x100000001b3u;
  return h ^ h >> 29;
}
