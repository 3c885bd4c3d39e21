// Convolutions by a vendor's library, beside generated ones: which of the two makes one, told when
// its graph is built, before it is taken apart.
//
// A library's convolution is a step of its own, whose operands and result lie in memory with
// channels last: the weight is moved to that order by a kernel before it, which for a parameter
// runs once (lowering/program/constant_cache.h), and its gradient is read in the other order by
// what follows. Nothing of what follows is the library's: it would round a half type after it, not
// before. Gradients by image and weight are convolutions as others.
// Who makes it is a rule's to say, or a measurement's (TC_AUTOTUNE), of the convolution alone with
// all that either way needs, and stays so for the process.
// Threads: thread-safe.
#ifndef TC_LOWERING_AUTOTUNE_LIBRARY_CONV_H
#define TC_LOWERING_AUTOTUNE_LIBRARY_CONV_H

#include "lowering/autotune/library_select.h"
#include "lowering/graph/graph.h"

// The call by which a library makes node n of the graph, a convolution with elements to compute: a
// new reference; NULL: it is generated.
tc_gpu_call *tc_library_conv_choose(const tc_graph *g, uint32_t n);

// ---- between the files of this ----

typedef struct tc_library_conv {
  const tc_graph *graph;
  uint32_t node;
  tc_gpu_conv_facts facts;
  bool followed;  // by elementwise work alone, which a generated kernel does with it, and a library leaves to another
  // by the call's addresses (tc_gpu_work_bytes): whether it may be elsewhere in each run, where a
  // graph that is replayed copies it
  bool moves[3];
} tc_library_conv;

size_t tc_library_conv_copied_bytes(const tc_library_conv *v);  // in a run
bool tc_library_conv_measure(const tc_library_conv *v, tc_library_gemm_times *out);
// While this thread makes a plan to be timed, who makes its convolution is said. False: it is to be
// chosen. Else *out as tc_library_conv_choose.
bool tc_library_conv_said(tc_gpu_call **out);

#endif
