// What pooling's forward functions and gradients share. Private to lazy/ops/pool.c, adaptive.c,
// resize.c and vjp_pool.c.
#pragma once

#include "lazy/record/formula.h"

#define TC_POOL_AXES 3

// Windows over n axes of an image of shape d, from axis `first` on. They are numbered row by row,
// as the elements of the image are.
typedef struct tc_pool {
  int n, first;
  tc_dims d;
  int64_t size[TC_POOL_AXES], stride[TC_POOL_AXES], padding[TC_POOL_AXES], dilation[TC_POOL_AXES];
  int64_t out[TC_POOL_AXES];  // windows
} tc_pool;

// The place in its window, row by row, of the greatest element, the first of equals: i32 in the
// shape of the result. y: the greatest.
tc_node tc_pool_place(tc_trace *t, const tc_pool *p, tc_node a, tc_node y);
// Converts an element's place in its window to its flat index in the image.
tc_node tc_pool_flat_index(tc_trace *t, const tc_pool *p, tc_node place);
// d with the spatial axes as one.
tc_dims tc_pool_image_as_row(const tc_pool *p, const tc_dims *d);
// v [k] so that it broadcasts along `axis` of a tensor of rank `rank`.
tc_node tc_pool_on_axis(tc_trace *t, tc_node v, int rank, int axis);
