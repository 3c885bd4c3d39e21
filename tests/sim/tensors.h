// What simulated libraries of a vendor's share: elements of the device's memory as numbers, and
// looking at what a call reads and writes.
//
// All that it reads and writes must be of allocations when it runs; what was never written is read
// as NaN. Results are rounded once.
#pragma once

#include "tests/sim/core.h"

typedef enum sim_element { SIM_F32, SIM_F16, SIM_BF16 } sim_element;

enum { SIM_WORKSPACE_ALIGNMENT = 256 };

static inline uint64_t sim_element_bytes(sim_element type) {
  return type == SIM_F32 ? 4 : 2;
}

double sim_element_read(sim_element type, uintptr_t at);
void sim_element_write(sim_element type, uintptr_t at, double value);
// The bytes are of an allocation; else a mistake of the function that is named.
sim_error sim_look(const char *function, uintptr_t at, uint64_t bytes, const char *what);
void sim_look_apart(const char *function, uintptr_t a, uintptr_t a_end, uintptr_t b, uintptr_t b_end, const char *what);
// What was in a workspace is lost, and what is there now is nobody's.
void sim_workspace_spoil(uintptr_t at, uint64_t bytes);
// Of the current device, NULL being its legacy one. NULL: there is no such stream.
sim_stream *sim_library_stream(void *stream);
