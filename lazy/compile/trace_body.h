// Traces a body for its graph alone: it runs once, and its records are taken out of the trace
// again, as a fragment.
//
// In: a function over tensors, and its arguments. Out: its fragment, or why it has none.
// Invariants: with a fragment the trace, assigned tensors, gradients and the random counter are
// what they were. Without one the body stands recorded, and its results are tensors.
// Threads: of the calling thread. Owner: the caller has the fragment's one reference.
#pragma once

#include <tc/compile.h>

#include "lazy/compile/fragment.h"

// Why a body has no fragment.
typedef struct tc_no_fragment {
  char text[320];  // "a sync point (item at model.c:12)"
  // true: it may have one the next time: memory was short, the trace was long, or another thread
  // read one of its tensors
  bool may_pass;
} tc_no_fragment;

// name: of the call that traces, static. pre: no op is open. The body sees a parameter among in as
// itself, and of other arguments stand-ins.
// TC_OK with *f: nothing stands recorded, and out is not set.
// TC_OK with *f NULL: the body has no graph, why says so; it stands recorded, and out has its
// results, in the current scope.
// Else the body's error, or the one of an argument or result; out is poison.
tc_status tc_body_trace(const char *name, tc_compile_fn fn, void *user, const tc_tensor *in, int n_in, tc_tensor *out,
                        int n_out, tc_site site, tc_fragment **f, tc_no_fragment *why);
