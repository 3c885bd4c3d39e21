// Makes a failing trace small: it still fails in the same way, with fewer nodes, extents and types.
//
//   120 nodes, two of them asked for           %0 = leaf f32[2] tc:cpu live
//                                        ->    %1 = softmax f32[2] tc:cpu in %0 attr 0 live asked
//
// In: a trace that fails. Out: a smaller one. Each step removes or simplifies something, and stays
// if an attempt still fails so; larger pieces are tried before smaller ones (delta debugging, Zeller
// and Hildebrandt 2002).
// Invariants: deterministic, but for a failure that is not.
// Threads: thread-compatible. Owner: the caller has the result.
#pragma once

#include "tools/minify/attempt.h"

// x must fail with *outcome, which on return is the smaller trace's. most_attempts: it stops then.
tc_status tc_shrink(tc_judge *j, const tc_text *x, uint64_t most_attempts, tc_outcome *outcome, tc_text *out);
