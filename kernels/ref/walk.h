// Visits a box of elements of several operands in row-major order, one span at a time. A span is a
// piece of the innermost axis, at most max_span long.
//
// Axes of extent 1 are dropped first, and neighbours that are contiguous in every operand are
// merged. So a dense box is a single row, and kernels switch on types once a span, not once an
// element.
// Invariants: spans ascend in row-major order. After tc_walk_next returned true, operand k's
// elements of the span are at offset[k] + i * step[k], 0 <= i < n. A box of rank 0 has one element;
// a box with an extent of 0 has none.
// Threads: a walk is one thread's.
// Owner: nothing.
#pragma once

#include "runtime/status.h"

// Elements converted at once: two or three buffers of doubles fit in half of a 32 KiB first-level
// cache.
#define TC_SPAN 256
#define TC_WALK_OPERANDS 4

typedef struct tc_walk {
  int rank, n_operands;
  int64_t dim[TC_MAX_RANK];
  int64_t at[TC_MAX_RANK];  // of the present span's first element
  int64_t stride[TC_WALK_OPERANDS][TC_MAX_RANK];
  int64_t max_span, n;  // n: elements in the present span; 0 before the first
  int64_t offset[TC_WALK_OPERANDS], step[TC_WALK_OPERANDS];
} tc_walk;

static inline void tc_walk_init(tc_walk *w, int rank, const int64_t *dim, int64_t max_span) {
  *w = (tc_walk){.rank = rank, .max_span = max_span};
  for (int d = 0; d < rank; d++) w->dim[d] = dim[d];
}

// Operand k is the k-th added.
static inline void tc_walk_add(tc_walk *w, const int64_t *stride) {
  TC_ASSERT(w->n_operands < TC_WALK_OPERANDS);
  for (int d = 0; d < w->rank; d++) w->stride[w->n_operands][d] = stride[d];
  w->n_operands++;
}

static inline bool tc_walk_merges(const tc_walk *w, int outer, int inner) {
  for (int k = 0; k < w->n_operands; k++) {
    if (w->stride[k][outer] != w->stride[k][inner] * w->dim[inner]) return false;
  }
  return true;
}

// Ends the description: merges axes. Call it after the last tc_walk_add.
static inline void tc_walk_begin(tc_walk *w) {
  int last = -1;
  for (int d = 0; d < w->rank; d++) {
    if (w->dim[d] == 1) continue;
    bool merge = last >= 0 && tc_walk_merges(w, last, d);
    int64_t outer_dim = merge ? w->dim[last] : 1;
    if (!merge) last++;
    w->dim[last] = outer_dim * w->dim[d];
    for (int k = 0; k < w->n_operands; k++) w->stride[k][last] = w->stride[k][d];
  }
  if (last < 0) {  // one element
    last = 0;
    w->dim[0] = 1;
    for (int k = 0; k < w->n_operands; k++) w->stride[k][0] = 1;
  }
  w->rank = last + 1;
  for (int k = 0; k < w->n_operands; k++) w->step[k] = w->stride[k][last];
}

static inline bool tc_walk_first(tc_walk *w) {
  for (int d = 0; d < w->rank; d++) {
    if (w->dim[d] == 0) return false;
  }
  w->n = TC_MIN(w->max_span, w->dim[w->rank - 1]);
  return true;
}

// Moves to the next span; false: there is none.
static inline bool tc_walk_next(tc_walk *w) {
  if (w->n == 0) return tc_walk_first(w);
  int64_t moved = w->n;
  for (int d = w->rank - 1; d >= 0; d--) {
    w->at[d] += moved;
    for (int k = 0; k < w->n_operands; k++) w->offset[k] += moved * w->stride[k][d];
    if (w->at[d] < w->dim[d]) {
      w->n = TC_MIN(w->max_span, w->dim[w->rank - 1] - w->at[w->rank - 1]);
      return true;
    }
    for (int k = 0; k < w->n_operands; k++) w->offset[k] -= w->dim[d] * w->stride[k][d];
    w->at[d] = 0;
    moved = 1;
  }
  return false;
}
