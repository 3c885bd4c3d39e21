// Convolutions as a simulated library does them: work of a stream, done late and captured as any
// other, with plain loops.
//
// Tensors are dense, with channels last. Results are the sums in double, rounded once, but where an
// engine is there to be refused: then they are a little wrong, so that a test sees who uses it.
#pragma once

#include "tests/sim/tensors.h"

enum { SIM_CONV_AXES = 3 };

typedef enum sim_conv_direction { SIM_CONV_FORWARD, SIM_CONV_BY_IMAGE, SIM_CONV_BY_WEIGHT } sim_conv_direction;
typedef enum sim_conv_fault { SIM_CONV_RIGHT, SIM_CONV_NARROW, SIM_CONV_OTHER_BITS } sim_conv_fault;

typedef struct sim_conv {
  sim_element type;
  sim_conv_direction direction;
  sim_conv_fault fault;
  int64_t batch, in, out, groups;
  // Fewer axes have ones before them.
  int64_t image[SIM_CONV_AXES], taps[SIM_CONV_AXES], result[SIM_CONV_AXES];
  int64_t stride[SIM_CONV_AXES], dilation[SIM_CONV_AXES], low[SIM_CONV_AXES];
  uintptr_t image_at, weight_at, result_at, workspace;
  uint64_t workspace_bytes;
  const char *function;  // that was called, for the texts of mistakes
} sim_conv;

sim_error sim_conv_enqueue(sim_stream *s, const sim_conv *c);  // copied
