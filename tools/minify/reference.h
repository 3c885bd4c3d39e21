// Values by the reference kernels (kernels/ref), record by record: no plan, no fusion, no generated
// code. With them, how far rounding alone may take a right result from them.
//
//   %2 = exp f32[2] %1         value[2] = exp of value[1], in double, rounded once
//
// In: a trace's text whose leaves have data, or a graph of it after some passes. Out: a value a node.
// Invariants: the trace was recorded before without an error, so the kernels see what fits.
// Threads: thread-compatible. Owner: the arena has the values.
#pragma once

#include "lazy/text/text.h"
#include "lowering/graph/graph.h"

// Computes every record into value, an array by node. TC_ERR_INDEX for an index out of range.
tc_status tc_reference_trace(const tc_text *x, tc_arena *arena, void **value);
// Computes what the graph's outputs need. value: by the graph's node, in the arena; NULL: not
// needed. leaf: by the plan's leaf. TC_ERR_STATE names a node that has no reference kernel.
tc_status tc_reference_graph(const tc_graph *g, const uint64_t *arg, void *const *leaf, tc_arena *arena, void ***value);

// How far element by element a right result may be from the reference's.
typedef struct tc_allowance {
  double **of;  // by node; NULL: the value must be the same
} tc_allowance;

// From runs whose inexact records are disturbed by some units in the last place, which shows how
// far these carry. tolerance: relative to a value's greatest element; 0: that of its type.
tc_status tc_reference_allow(const tc_text *x, void *const *value, double tolerance, tc_arena *arena,
                             tc_allowance *out);

typedef struct tc_difference {
  int64_t at;  // the element that differs most; -1: none differs by more than is allowed
  double got, want, allowed;
} tc_difference;
tc_difference tc_reference_compare(tc_type type, int64_t count, const void *got, const void *want,
                                   const double *allowed);
