// Shares: the slice of a result that one of several calls makes, for kernels whose slices are
// independent.
//
// A result is cut along one axis. A kernel narrows its views to its slice and proceeds as if that
// were all. So every element is made by the same steps in the same order, however many calls share
// the work. Slices of the last axis are whole blocks, so that no two write to one cache line.
// Threads: thread-safe, pure.
// Owner: nothing.
#pragma once

#include "kernels/ref/ref.h"
#include "runtime/status.h"

#define TC_SHARE_BLOCK 64  // elements of the last axis

typedef struct tc_share {
  int axis;  // -1: the whole result
  int64_t lo, hi;  // of the axis
} tc_share;

static inline int64_t tc_share_parts(const tc_view *v, int axis) {
  return axis == v->rank - 1 ? (v->dim[axis] + TC_SHARE_BLOCK - 1) / TC_SHARE_BLOCK : v->dim[axis];
}

// Writes the call's slice; false: there is nothing for it to do. Outer axes are preferred if they
// have a part for every share. Axis `last` (-1: none) is cut only where no other is, and only if
// may_cut_last. A result that cannot be cut is made by the call with the first part.
static inline bool tc_share_find(const tc_ref_call *call, int last, bool may_cut_last, tc_share *out) {
  const tc_view *v = &call->out;
  int64_t parts = 1;
  *out = (tc_share){.axis = -1};
  if (call->extent <= 1) return true;
  for (int d = 0; d < v->rank && parts < call->extent; d++)
    if (d != last && tc_share_parts(v, d) > parts) out->axis = d, parts = tc_share_parts(v, d);
  if (may_cut_last && last >= 0 && last < v->rank && parts < call->extent && tc_share_parts(v, last) > parts)
    out->axis = last, parts = tc_share_parts(v, last);
  if (out->axis < 0) return call->begin == 0;
  int64_t block = out->axis == v->rank - 1 ? TC_SHARE_BLOCK : 1;
  out->lo = parts * call->begin / call->extent * block;
  out->hi = TC_MIN(parts * call->end / call->extent * block, v->dim[out->axis]);
  return out->lo < out->hi;
}

// Returns elements [lo, hi) of an axis.
static inline tc_view tc_share_slice(const tc_view *v, int axis, int64_t lo, int64_t hi) {
  tc_view out = *v;
  out.ptr = (char *)v->ptr + lo * v->stride[axis] * (int64_t)tc_type_bytes(v->type);
  out.dim[axis] = hi - lo;
  return out;
}

// Copies between views of one shape and type.
void tc_copy_view(const tc_view *to, const tc_view *from);
