// Winograd's algorithm for convolutions of 3 x 3 windows with stride 1: which shapes use it, and
// their tiles, panels and parts.
// In: shapes. Out: sizes. Invariants: all but tc_winograd_allowed depends on the shape alone.
#pragma once

#include "lazy/trace/dims.h"
#include "lowering/kir/index_expr.h"

#define TC_WLANES 16  // channels transformed at once
#define TC_WTAPS 9
#define TC_WINOGRAD_MOST_SIDE 64  // most channels or outputs of a unit of the wgrad

// Tiles of m x m pixels of [images, p, q].
typedef struct tc_wtiles {
  int m, alpha;  // alpha = m + 2
  int64_t images, p, q;
  int64_t across, n;  // tiles in a row of an image, and in all images
} tc_wtiles;
tc_wtiles tc_wtiles_of(int m, int64_t images, int64_t p, int64_t q);
static inline int64_t wplaces(const tc_wtiles *by) {
  return (int64_t)by->alpha * by->alpha;
}

// Outputs along a side of a tile, 2 or 4, for image [n, h, w, c] -> [n, p, q, o] of f32. 0: a
// direct matmul is expected to be as fast.
int tc_winograd_size(const tc_dims *image, int64_t p, int64_t q, int64_t o);
// Outputs along a side of a tile, for the wgrad of `image` and the gradient of the result,
// [n, p, q, o].
int tc_winograd_wgrad_size(const tc_dims *image, const tc_dims *result);
// Parts of the sum over tiles of m x m; each wgrad unit computes one of them.
int64_t tc_winograd_wgrad_parts(int m, const tc_dims *image, const tc_dims *result);
// The largest multiple of TC_WLANES, at most `most`, that divides n.
int64_t tc_wside_of(int64_t n, int64_t most);
// Operations of a wgrad unit of c channels by o outputs. Transforming a value takes some 16
// operations a tile element, a sum 32.
double tc_winograd_wgrad_flops(const tc_wtiles *by, int64_t parts, int64_t c, int64_t o);
// Outputs of a panel of the transformed weight: 64, or fewer if many of them would be unused.
int64_t tc_winograd_panel(int64_t outputs);

// Whether the options accept its error.
bool tc_winograd_allowed(void);
