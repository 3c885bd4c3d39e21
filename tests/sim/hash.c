// A hash for keys of the simulator's own: eight bytes at a time, multiplied and folded.
#include <string.h>

#include "tests/sim/core.h"

static uint64_t mixed(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 32;
}

uint64_t sim_hash(const void *p, size_t bytes, uint64_t seed) {
  const uint8_t *at = p;
  uint64_t h = mixed(seed, bytes), v;
  for (; bytes >= 8; at += 8, bytes -= 8) {
    memcpy(&v, at, 8);
    h = mixed(h, v);
  }
  v = 0;
  memcpy(&v, at, bytes);
  return mixed(h, v);
}
