// Strided memory of a caller: where its elements lie, and copies that leave the gaps alone.
//
// In: extents and strides. Out: the span from the lowest to the highest element; elements gathered
// to dense row-major memory, or scattered from it.
// Invariants: elements do not overlap, and axes nest: the stride of each is at least the span of
// those with smaller strides. The bytes between elements are neither read nor written.
// Threads: immutable and counted. Owner: the buffers that describe their memory by it.
#pragma once

#include <stdatomic.h>
#include <tc/tc.h>

typedef struct tc_strided {
  _Atomic uint32_t refs;
  tc_dims shape;
  int64_t stride[TC_MAX_RANK];  // in elements, negative ones too; of an axis of one element: 0
  int64_t first;  // where element [0, .., 0] lies behind the lowest address, in elements
  size_t item_bytes, span_bytes;  // of an element; from the lowest address to the end of the highest element
  // The axes of more than one element, greatest stride first: n_nested of them.
  int n_nested, nested[TC_MAX_RANK];
} tc_strided;

// Fills all but refs. -1: fine; else the axis whose stride is too small, with the span of the axes
// inside it, in elements, in *out_span. pre: no extent is 0. TC_MAX_RANK: the span is too large.
int tc_strided_fill(tc_strided *s, const tc_dims *shape, const int64_t *strides, size_t item_bytes, int64_t *out_span);
// Whether it is dense row-major after all.
bool tc_strided_is_dense(const tc_strided *s);
// A counted copy; NULL out of memory.
tc_strided *tc_strided_create(const tc_strided *of);
static inline tc_strided *tc_strided_retain(tc_strided *s) {
  atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  return s;
}
void tc_strided_release(tc_strided *s);
// To and from dense row-major memory. span is the lowest address.
void tc_strided_gather(const tc_strided *s, void *dense, const void *span);
void tc_strided_scatter(const tc_strided *s, void *span, const void *dense);
// From one such memory to another.
void tc_strided_move(const tc_strided *s, void *to_span, const void *from_span);
