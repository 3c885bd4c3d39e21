// Convolutions of 3 x 3 windows, side by side, by Winograd's algorithm: which shapes, in what sizes
// of tiles, panels and parts. By shape alone.
#ifndef TC_LOWERING_TILING_WINOGRAD_H
#define TC_LOWERING_TILING_WINOGRAD_H

#include "lazy/trace/dims.h"
#include "lowering/kir/index_expr.h"

#define TC_WLANES 16  // channels transformed at once
#define TC_WTAPS 9
#define TC_WINOGRAD_MOST_SIDE 64  // channels or outputs of a unit of the gradient by the weight

// Tiles of m x m pixels of [images, p, q].
typedef struct tc_wtiles {
  int m, alpha;  // alpha: m + 2
  int64_t images, p, q;
  int64_t across, n;  // tiles in a row of an image, and in all
} tc_wtiles;
tc_wtiles tc_wtiles_of(int m, int64_t images, int64_t p, int64_t q);
static inline int64_t wplaces(const tc_wtiles *by) {
  return (int64_t)by->alpha * by->alpha;
}

// Outputs along a side of a tile, 2 or 4; 0 where direct products are expected to be as fast. image
// [n, h, w, c] -> [n, p, q, o], f32. By shape alone.
int tc_winograd_size(const tc_dims *image, int64_t p, int64_t q, int64_t o);
// The same of the gradient by the weight, of the image and the gradient of the result, [n, p, q,
// o].
int tc_winograd_gradient_size(const tc_dims *image, const tc_dims *result);
// Parts of the sum over tiles of m x m that such a gradient is made in.
int64_t tc_winograd_gradient_parts(int m, const tc_dims *image, const tc_dims *result);
// The most sixteens that divide n into parts of at most `most`.
int64_t tc_wside_of(int64_t n, int64_t most);
// Of units of c channels by o outputs: transforming a value takes some 16 operations a place, a sum
// 32.
double tc_winograd_gradient_flops(const tc_wtiles *by, int64_t parts, int64_t c, int64_t o);
// Outputs of a panel of the transformed weight: 64 unless that computes many that nobody wants.
int64_t tc_winograd_panel(int64_t outputs);

// Whether the options leave room for its error.
bool tc_winograd_allowed(void);

#endif
