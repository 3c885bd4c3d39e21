// A loaded program: per combination of sizes a plan with its program, as lowering would have made
// them, over weights in the file.
//
// In: an image. Out: plans that tc_program_launch runs.
// Invariants: immutable once loaded; a run has an arena of its own.
// Threads: thread-safe. Owner: the program owns kernels and buffers, and retains the image, as each
// tensor over its weights does.
#pragma once

#include <tc/program.h>

#include "lazy/trace/body.h"
#include "lazy/trace/plan.h"
#include "lazy/trace/run.h"
#include "lowering/export/image.h"

// Invariants: steps are divided into tasks by the first run, which asks for the number of threads:
// finding the machine's processors takes longer than loading.
typedef struct tc_loaded_plan {
  tc_plan plan;  // what a launch reads of one; in no cache, counted by nobody
  const tc_tcx_plan *file;
  tc_leaf *held;  // per leaf; weights have their buffers, inputs NULL
  tc_call *call;  // per step
  uint64_t *arg;
  const int64_t *dim;  // extents of inputs, then of outputs
  tc_body body;  // of a body: what control flow reads of one
  _Atomic bool divided;  // release: by who divided the steps, under a lock; acquire: by runs
} tc_loaded_plan;

struct tc_program_file {
  tc_tcx_image *x;
  uint32_t target;  // number in the file
  char target_name[48];
  tc_program_value *input, *output, *weight;
  tc_buffer **weight_buf;  // per weight, stored constants too
  struct tc_kernel **kernel;  // per kernel of the file; NULL: not of this target
  tc_loaded_plan *plan;  // per combination
  tc_loaded_plan *body;  // per body; those of other targets are zeros
};

// Divides the steps for this process's team, once, and those of all bodies.
tc_status tc_loaded_plan_divide(const tc_program_file *p, tc_loaded_plan *l);
