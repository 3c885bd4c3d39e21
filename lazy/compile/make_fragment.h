// Makes a fragment of what a capture noted.
//
// In: a body that has ended in its capture, and its results. Out: the fragment.
// Invariants: the trace does not change. What no result and no effect needs is left out.
// Threads: under the trace's lock. Owner: the caller has the fragment's one reference.
#pragma once

#include "lazy/compile/fragment.h"

// A result of the body.
typedef struct tc_body_result {
  tc_tensor handle;
  tc_result_kind kind;
  uint32_t number;  // of the node, argument or earlier result that `kind` names
} tc_body_result;

// pre: the handles of the body's own scope have ended, but for results. stand_in: per argument what
// stood for it, itself where it is a parameter.
// *f NULL: there is none, and the capture says why. The handles in it are not retained yet:
// tc_fragment_hold does, once the trace is unlocked.
void tc_fragment_make(tc_trace *t, tc_capture *c, int n_arg, const tc_tensor *stand_in, int n_result,
                      const tc_body_result *result, tc_fragment **f);
