// See tensors.h.
#include "tests/sim/tensors.h"

#include <math.h>
#include <string.h>

// What nobody wrote is NaN: a device says nothing of it, for a run that has failed reads it, too.
double sim_element_read(sim_element type, uintptr_t at) {
  float v;
  uint16_t half;
  if (sim_state[at - (uintptr_t)sim_memory] != SIM_WRITTEN) return NAN;
  if (type == SIM_F32) return memcpy(&v, (const void *)at, 4), (double)v;
  memcpy(&half, (const void *)at, 2);
  return (double)(type == SIM_F16 ? sim_half_value(half) : sim_bfloat_value(half));
}

void sim_element_write(sim_element type, uintptr_t at, double value) {
  float v = (float)value;
  uint16_t half = type == SIM_F16 ? sim_half_of(value) : sim_bfloat_of(value);
  memcpy((void *)at, type == SIM_F32 ? (const void *)&v : &half, sim_element_bytes(type));
  memset(sim_state + (at - (uintptr_t)sim_memory), SIM_WRITTEN, sim_element_bytes(type));
}

sim_error sim_look(const char *function, uintptr_t at, uint64_t bytes, const char *what) {
  const uint8_t *state = sim_memory_device(at) ? sim_state + (at - (uintptr_t)sim_memory) : NULL;
  for (uint64_t i = 0; i < bytes; i++) {
    if (state && (state[i] == SIM_WRITTEN || state[i] == SIM_UNWRITTEN)) continue;
    sim_fault(sim_hash(what, strlen(what), 21), "%s: %s is %s", function, what,
              state && state[i] == SIM_GONE ? "freed memory" : "not of an allocation");
    return SIM_ILLEGAL_ADDRESS;
  }
  return SIM_OK;
}

void sim_look_apart(const char *function, uintptr_t a, uintptr_t a_end, uintptr_t b, uintptr_t b_end,
                    const char *what) {
  if (a < b_end && b < a_end) sim_fault(sim_hash(what, strlen(what), 22), "%s: %s overlap", function, what);
}

void sim_workspace_spoil(uintptr_t at, uint64_t bytes) {
  if (!bytes) return;
  memset((void *)at, 0xa5, bytes);
  memset(sim_state + (at - (uintptr_t)sim_memory), SIM_UNWRITTEN, bytes);
}

sim_stream *sim_library_stream(void *stream) {
  if (!stream) return sim_here()->legacy;
  sim_stream *s = stream;
  return sim_alive(s, SIM_STREAM) && s->object.device == sim_here() ? s : NULL;
}
