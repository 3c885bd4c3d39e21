// What the files of CUDA's face share: handles to objects and back.
#pragma once

#include "tests/sim/core.h"
#include "tests/sim/cuda_api.h"

enum {
  SIM_USUAL = SIM_NEEDS_INIT | SIM_NEEDS_CONTEXT,
  SIM_UNCAPTURED = SIM_USUAL | SIM_NOT_IN_CAPTURE,  // illegal for a thread that captures
};

static inline sim_device *sim_cu_device(CUdevice d) {
  return d >= 0 && d < sim_option.n_devices ? &sim_devices[d] : NULL;
}

// NULL, 1 and 2 are the legacy stream. A stream of another device than the current context's is
// none.
static inline sim_stream *sim_cu_stream(CUstream s) {
  if ((uintptr_t)s <= 2) return sim_here()->legacy;
  sim_stream *p = (sim_stream *)s;
  return sim_alive(p, SIM_STREAM) && p->object.device == sim_here() ? p : NULL;
}

static inline sim_event *sim_cu_event(CUevent e) {
  return sim_alive(e, SIM_EVENT) ? (sim_event *)e : NULL;
}

#define SIM_STREAM_OR_RETURN(name, handle) \
  sim_stream *name = sim_cu_stream(handle); \
  if (!name) return SIM_INVALID_HANDLE

// The copy of a launch's words, checked against what the device allows.
sim_error sim_cu_launch(const CUDA_KERNEL_NODE_PARAMS *p, sim_op *out);
