// Tiles of Winograd's algorithm, which its kernels share: where they are, how they are read, and
// the transformations of their sides. Inside expansion.
//
// With points p (0, 1, -1, (2, -2,) infinity), outputs y, taps w and inputs d of one side obey sum
// y[i] w[k] d[i + k] = sum_p (A y)[p] (G w)[p] (B d)[p], whichever of the three is asked for: a
// convolution makes y, the gradient by the weight makes w, and the matrix of what is made is
// transposed.
// Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015.
#ifndef TC_LOWERING_EMIT_CONV_WINOGRAD_TILE_H
#define TC_LOWERING_EMIT_CONV_WINOGRAD_TILE_H

#include "lowering/emit/emitters.h"
#include "lowering/emit/register_block.h"
#include "lowering/emit/shorthand.h"
#include "lowering/emit/strided_operand.h"
#include "lowering/tiling/winograd.h"

#define TC_WMOST 6  // values of a side
#define TC_WPITCH_MORE \
  16  // elements that keep rows or places from lying a power of two apart, where all of them would share lines of the
      // cache

// One side of a tile, d, in place.
typedef void tc_wside(tc_emit_ctx *s, int m, tc_val *d);

// What is read of [images, h, w, ..]: for each tile a square of `size` pixels, from its first pixel
// less `low`, which `side` makes alpha values of.
typedef struct tc_wsource {
  tc_operand4 in;
  tc_val from;  // the first channel's first element
  int64_t h, w, low[2], channels;  // channels: to be read
  int size;
  tc_wside *side;
  int tile;  // where the values go: [place][tile][channel]
  int64_t pitch, place;  // elements from tile to tile, and from place to place
} tc_wsource;

// The operand as a source of all its channels; false if it must be stored first, which the
// expansion then says.
bool tc_wsource_find(tc_emit_ctx *s, uint32_t node, int k, tc_wsource *out);
// Reads and transforms tiles [first, last), which are the tile's first ones.
void tc_wtiles_read(tc_emit_ctx *s, const tc_wtiles *by, const tc_wsource *from, tc_val first, tc_val last);

// A block of sums in registers, rows x lanes: of a's elements, each spread over lanes, times b's,
// over k.
typedef struct tc_wblock {
  int rows, lanes;
  tc_multiply_way way;
  bool adds;  // true: to the sums that are there
  int a, b, sums;  // buffers
  int64_t a_row, a_k, b_k, sums_row;  // elements from row to row, from k to k
} tc_wblock;

// The sums at `to` of n elements from a and b on. ahead: where b is asked for meanwhile, so many
// elements further at each; TC_NONE: nowhere.
void tc_wmultiply(tc_emit_ctx *s, const tc_wblock *by, tc_val a, tc_val b, tc_val to, tc_val n,
                  tc_val prefetch_distance, int64_t further);

typedef struct tc_wplace {
  tc_val image, y, x;  // of the first of a tile's pixels
} tc_wplace;
tc_wplace tc_wplace_of(tc_emit_ctx *s, const tc_wtiles *by, tc_val tile);

// v[rows][columns], from x from, becomes to x to.
void tc_wtransform(tc_emit_ctx *s, int m, tc_wside *side, int from, int to, tc_val v[TC_WMOST][TC_WMOST]);
tc_wside tc_wside_inputs;  // B: alpha to alpha
tc_wside tc_wside_sums;  // A, transposed: alpha to m outputs
tc_wside tc_wside_outputs;  // A: m outputs to alpha
tc_wside tc_wside_taps;  // G: 3 taps to alpha
tc_wside tc_wside_by_taps;  // G, transposed: alpha to 3 taps

#endif
