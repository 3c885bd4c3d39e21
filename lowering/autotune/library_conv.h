// Decides whether a library or a generated kernel computes a convolution. It is asked while the
// graph is built, before the convolution is expanded.
//
// A library's convolution is a step of its own. Its operands and result lie in memory with channels
// last.
// A kernel before it permutes the weight to that order; for a parameter that runs once
// (lowering/program/constant_cache.h). The weight's gradient is read in that order by its
// consumers.
// The library computes no epilogue, since it would round a 16-bit type before the epilogue and not
// after it. Gradients by image and by weight are convolutions too.
// A rule chooses, or a measurement (TC_AUTOTUNE) of the convolution alone with all that either way
// needs. The choice holds for the process.
// In: a graph and a node. Out: the library's call, or NULL.
// Threads: thread-safe.
#pragma once

#include "lowering/autotune/library_select.h"
#include "lowering/graph/graph.h"

// Returns the library's call that computes node n, a non-empty convolution: a new reference. NULL:
// it is generated.
tc_gpu_call *tc_library_conv_choose(const tc_graph *g, uint32_t n);

// ---- between the files of this ----

typedef struct tc_library_conv {
  const tc_graph *graph;
  uint32_t node;
  tc_gpu_work work;
  // true: all readers are elementwise: fused into a generated kernel, a kernel of their own behind
  // a library's
  bool followed;
  // true: the address may differ in each run, so a replayed graph copies; indexed as in
  // tc_gpu_work_bytes
  bool moves[4];
} tc_library_conv;

// Times both ways; conv: a tc_library_conv. False: could not be timed.
bool tc_library_conv_measure(void *conv, tc_library_gemm_times *out);
// The choice forced while this thread makes a plan to be timed. False: none is forced. True: *out
// is as tc_library_conv_choose returns.
bool tc_library_conv_forced(tc_gpu_call **out);
