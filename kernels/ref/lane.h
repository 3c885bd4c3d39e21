// Lanes: the elements of a tensor along one axis, for every position of the other axes. Scans and
// softmax run over them.
// Threads: a walk is one thread's.
// Owner: nothing.
#pragma once

#include "kernels/ref/ref.h"
#include "kernels/ref/walk.h"

// The lanes of in and out, which share a shape. walk is over the other axes; operand 0 is in,
// operand 1 is out.
typedef struct tc_lanes {
  tc_walk walk;
  int64_t n, in_step, out_step;  // along the axis
} tc_lanes;

static inline void tc_lanes_begin(tc_lanes *l, const tc_view *in, const tc_view *out, uint64_t axis, int64_t max_span) {
  if (in->rank == 0) {  // a scalar is one lane of one element
    l->n = l->in_step = l->out_step = 1;
    tc_walk_init(&l->walk, 0, in->dim, 1);
  } else {
    int64_t dim[TC_MAX_RANK];
    for (int d = 0; d < in->rank; d++) dim[d] = (uint64_t)d == axis ? 1 : in->dim[d];
    l->n = in->dim[axis], l->in_step = in->stride[axis], l->out_step = out->stride[axis];
    tc_walk_init(&l->walk, in->rank, dim, max_span);
  }
  tc_walk_add(&l->walk, in->stride);
  tc_walk_add(&l->walk, out->stride);
  tc_walk_begin(&l->walk);
}
