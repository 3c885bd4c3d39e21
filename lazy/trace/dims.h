// Interned shapes: equal ids have equal extents, and an id lives as long as the process. Threads:
// thread-safe; lookups of an id take no lock.
#pragma once

#include <stdatomic.h>

#include "runtime/status.h"

#define TC_SHAPE_NONE UINT32_MAX
#define TC_SHAPES_EACH 256  // shapes of a chunk
#define TC_SHAPE_CHUNKS 16384

typedef struct tc_shape_info {
  tc_dims d;
  int64_t count;  // product of extents
} tc_shape_info;

// The id of a shape whose extents are not negative and whose product fits; TC_SHAPE_NONE out of
// memory.
uint32_t tc_dims_intern(const tc_dims *d);
// At the end of the process, when no thread holds a shape: forgets all of them.
void tc_dims_free_all(void);
extern _Atomic(tc_shape_info *) tc_shape_chunk[TC_SHAPE_CHUNKS];
static inline const tc_shape_info *tc_dims_at(uint32_t id) {
  return atomic_load_explicit(&tc_shape_chunk[id / TC_SHAPES_EACH], memory_order_acquire) + id % TC_SHAPES_EACH;
}
// How a dense value of shape `own` lies where it is broadcast to d: extents, and strides in
// elements.
void tc_dims_broadcast(const tc_dims *own, const tc_dims *d, int64_t *dim, int64_t *stride);
// False if an extent is negative, the rank is out of range or the product of the extents times 8
// overflows; *out is the product.
bool tc_dims_product(const tc_dims *d, int64_t *out);
static inline bool tc_dims_equal(const tc_dims *a, const tc_dims *b) {
  bool equal = a->rank == b->rank;
  for (int i = 0; equal && i < a->rank; i++) equal = a->dim[i] == b->dim[i];
  return equal;
}
