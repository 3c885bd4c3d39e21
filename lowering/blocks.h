// How a matrix product is cut: registers, panels, chunks of k, units of work. Inside expansion, for product.c.
// A product's bits depend on none of this: an element is one chain over k wherever it is cut.
#ifndef TC_LOWERING_BLOCKS_H
#define TC_LOWERING_BLOCKS_H

#include "lowering/factor.h"

typedef struct tc_blocks {
  int lanes, rows;           // accumulators in registers: rows x lanes
  int64_t tiles, tall;       // tiles of rows: `tall` ones of `rows`, then shorter ones by one row
  int64_t n_panels;          // panels of `lanes` columns
  int64_t chunk;             // of k; k if there is one chunk
  int64_t unit_panels, unit_tiles;  // of a unit of work
  bool turn;                 // b lies along k and is turned in registers as it is multiplied
  bool pack, pack_a;
  bool once;                 // b is read once, where it lies, in short chunks: each asks for the next one
  bool widen_a;              // rows of a, of a narrower type than the accumulators, are widened to memory of the worker
  int64_t a_tiles;           // tiles of a packed or widened at a time
} tc_blocks;

typedef struct tc_extent3 {
  int64_t batch, m, n, k;
} tc_extent3;

// Elements of the right factor that are turned as one: neighbours along k of a type narrower than a register's lanes.
int tc_blocks_turned_as_one(const tc_factor *right, tc_type acc);
// Columns of a panel that suits products with n columns, and divides them; 0: none does.
int64_t tc_blocks_panel(int64_t n, tc_type acc);
void tc_blocks_choose(tc_blocks *b, const tc_extent3 *of, tc_type acc, const tc_factor *left, const tc_factor *right);

#endif
