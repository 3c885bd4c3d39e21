// Records a function once, on inputs of given extents, as a plan that is not lowered.
//
// In: the function and its inputs. Out: the plan, with what its leaves, outputs, arguments and
// random ops are.
// Invariants: nothing of the function runs. Its thread's pending work ran before; afterwards the
// trace is empty, and the thread's random state is what it was.
// Threads: the calling thread's trace. Owner: the caller owns a tc_recorded.
#pragma once

#include <tc/program.h>

#include "lazy/trace/plan.h"
#include "lazy/trace/run.h"

// What a leaf of the plan is.
typedef struct tc_recorded_leaf {
  int input;  // its number, or -1: a tensor of the function's own
  tc_buffer *buf;  // of such a tensor; retained
} tc_recorded_leaf;

typedef struct tc_recorded_result {
  bool is_leaf;  // it has the bytes of a leaf of the plan; else it is one of its outputs
  uint32_t number;
  tc_type type;
  tc_dims shape;
} tc_recorded_result;

// A random counter among the args, whose seed stands before it.
typedef struct tc_recorded_draw {
  uint32_t arg;
  uint64_t more;  // than the thread's counter when the function began
} tc_recorded_draw;

typedef struct tc_recorded {
  tc_plan *plan;
  tc_recorded_leaf *leaf;  // per leaf of the plan
  tc_recorded_result *result;  // per output of the function
  uint64_t *arg;
  tc_recorded_draw *draw;  // per random counter
  uint32_t n_draw_args;
  uint64_t n_draw;  // counters that the function took of its thread
  tc_call *call;  // per node
} tc_recorded;

// What is recorded: inputs at these extents.
typedef struct tc_recording {
  tc_compile_fn fn;
  void *user;
  int n_inputs, n_outputs;
  const tc_export_input *input;
  const tc_dims *shape;  // per input
  const char *const *output_name;
  tc_site site;
} tc_recording;

tc_status tc_recorded_make(const tc_recording *what, tc_recorded *out);
void tc_recorded_fini(tc_recorded *r);
