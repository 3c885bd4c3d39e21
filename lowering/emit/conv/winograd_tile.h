// Winograd tiles, shared by the convolution and its wgrad: their positions, how they are read, and
// the transforms of their sides. Private to the emitters.
//
// Points p (0, 1, -1, (2, -2,) infinity), outputs y, taps w and inputs d of one side obey
//   sum y[i] w[k] d[i + k] = sum_p (A y)[p] (G w)[p] (B d)[p]
// A convolution computes y, the wgrad computes w. The transform of what is computed is transposed.
// Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015.
#pragma once

#include "lowering/emit/emitters.h"
#include "lowering/emit/register_block.h"
#include "lowering/emit/shorthand.h"
#include "lowering/emit/strided_operand.h"
#include "lowering/tiling/winograd.h"

#define TC_WMOST 6  // most values of a side
// elements of padding: rows or places a power of two apart would share lines of the cache
#define TC_WPITCH_MORE 16

// Transforms one side of a tile, d, in place.
typedef void tc_wside(tc_emit_ctx *s, int m, tc_val *d);

// A tensor [images, h, w, ..] that tiles are read from. A tile reads a square of `size` pixels,
// from its first pixel less `low`; `side` makes alpha values of each side.
typedef struct tc_wsource {
  tc_operand4 in;
  tc_val from;  // the first channel's first element
  int64_t h, w, low[2], channels;  // channels: number to read
  int size;
  tc_wside *side;
  int tile;  // tile of the values: [place][tile][channel]
  int64_t pitch, place;  // elements from tile to tile, and from place to place
} tc_wsource;

// Describes the operand as a source of all its channels. False: it must be materialized first; the
// emitter's result says so.
bool tc_wsource_find(tc_emit_ctx *s, uint32_t node, int k, tc_wsource *out);
// Reads and transforms tiles [first, last) to the first tiles of from->tile.
void tc_wtiles_read(tc_emit_ctx *s, const tc_wtiles *by, const tc_wsource *from, tc_val first, tc_val last);

// A block of sums in registers, rows x lanes: elements of a, each broadcast, times vectors of b,
// over k.
typedef struct tc_wblock {
  int rows, lanes;
  tc_multiply_way way;
  bool adds;  // true: adds to the sums in memory; false: overwrites them
  int a, b, sums;  // buffers
  int64_t a_row, a_k, b_k, sums_row;  // elements from row to row, from k to k
} tc_wblock;

// Computes the sums at `to` of n elements from a and b on. prefetch_from: the element of b to
// prefetch at the first k, `further` more at each next one; TC_NONE: none.
void tc_wmultiply(tc_emit_ctx *s, const tc_wblock *by, tc_val a, tc_val b, tc_val to, tc_val n, tc_val prefetch_from,
                  int64_t further);

typedef struct tc_wplace {
  tc_val image, y, x;  // the first of a tile's pixels
} tc_wplace;
tc_wplace tc_wplace_of(tc_emit_ctx *s, const tc_wtiles *by, tc_val tile);

// Transforms v from `from` x `from` to `to` x `to` values.
void tc_wtransform(tc_emit_ctx *s, int m, tc_wside *side, int from, int to, tc_val v[TC_WMOST][TC_WMOST]);
tc_wside tc_wside_inputs;  // B: alpha to alpha
tc_wside tc_wside_sums;  // A, transposed: alpha to m outputs
tc_wside tc_wside_outputs;  // A: m outputs to alpha
tc_wside tc_wside_taps;  // G: 3 taps to alpha
tc_wside tc_wside_by_taps;  // G, transposed: alpha to 3 taps
