// Convolutions of 3 x 3 windows, side by side, by Winograd's algorithm: which shapes, and their kernel.
#ifndef TC_LOWERING_TILING_WINOGRAD_H
#define TC_LOWERING_TILING_WINOGRAD_H

#include "lowering/emit/emitter.h"

// Outputs along a side of a tile, 2 or 4; 0 where direct products are expected to be as fast. image [n, h, w, c] -> [n, p, q, o], f32. By shape alone.
int tc_winograd_size(const tc_dims *image, int64_t p, int64_t q, int64_t o);
// The same of the gradient by the weight, of the image and the gradient of the result, [n, p, q, o].
int tc_winograd_gradient_size(const tc_dims *image, const tc_dims *result);
// Parts of the sum over tiles of m x m that such a gradient is made in.
int64_t tc_winograd_gradient_parts(int m, const tc_dims *image, const tc_dims *result);
// Outputs of a panel of the transformed weight: 64 unless that computes many that nobody wants.
int64_t tc_winograd_panel(int64_t outputs);

// Whether the options leave room for its error.
bool tc_winograd_allowed(void);

#endif
