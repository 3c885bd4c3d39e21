// Declares the parts of attention's CPU kernels: packing of keys and rows, matmuls of tiles, and
// steps over scores. Used by forward.c and backward.c; private to attention/.
//
// Invariants: failures stick in the context, as builder.h says.
#pragma once

#include "lowering/emit/attention/operands.h"

// Rows of a tile: with 4 vectors of 16 lanes, or 2 of 8, the accumulators fill the registers.
#define TC_ATTENTION_ROWS 6
#define TC_ATTENTION_MOST_ROWS 16  // rows of a tile by tile registers
#define TC_ATTENTION_STEP 16  // lanes of the softmax
#define TC_ATTENTION_WIDEST 64  // lanes of the widest panel

// One operand of a matmul: element at + i * row + k * step, or rows[i] + k * step if rows is not
// NULL. i counts accumulators. buf is an operand's buffer or a tile.
typedef struct tc_attention_matmul_operand {
  int buf;
  tc_type type;
  tc_val at;
  int64_t row, step;
  const tc_val *rows;
} tc_attention_matmul_operand;

// What to prefetch for later tiles, row by row: queries of the next tile, keys of the next panel
// under a causal mask, and values. Packed values belong to that panel, others to the next tile. A
// core has few outstanding misses, and panels need some. So a query row is prefetched before each
// panel, and rows of keys and values at each step of the softmax, which has no misses.
// Measured: Sapphire Rapids, 1 thread, 4x12x512x64 f32: no prefetch 13.4 ms, all rows at once
// before a tile's scores 13.0, row by row 12.1.
typedef struct tc_attention_prefetch {
  bool queries, keys, values;  // true: they are prefetched; values only with keys
  tc_val row, key, value;  // first row, key and value to prefetch
} tc_attention_prefetch;

// Scores as Winograd inner products (1968):
//   q1 k1 + q2 k2 = (q1 + k2) (q2 + k1) - q1 q2 - k1 k2
// The last two are sums over a row and over a key alone. Two additions replace a multiplication,
// and run on units that are otherwise idle. Of TC_ATTENTION_WINOGRAD_DOT columns, as many as a
// vector has lanes, five pairs keep both kinds of units busy.
// The error is proportional to the larger of the row's and the key's elements, not to their
// product: see forward.c.
#define TC_ATTENTION_WINOGRAD_DOT 16
typedef struct tc_attention_winograd_dot {
  // tiles of corrections: for each key of the block and each row of the tile, minus the sum of the
  // products of its pairs
  int keys, rows;
  // variable: for each lane, as bits, the greatest sum of squares of paired columns of keys, scaled
  // as they are multiplied
  tc_val top;
} tc_attention_winograd_dot;

// Returns the magnitude of v as bits, which order like it; NaN is the greatest.
static inline tc_val magnitude(tc_attention_emitter *p, tc_val v) {
  tc_val bits = bitcast(p->s, TC_I32, tc_build_lanes(&p->s->e, v), v);
  return bin(p->s, TC_IR_AND, bits, const_i(p->s, TC_I32, INT32_MAX));
}

static inline bool tc_attention_begins_pair(int64_t column) {
  return column % TC_ATTENTION_WINOGRAD_DOT % 3 == 0 &&
         column % TC_ATTENTION_WINOGRAD_DOT < TC_ATTENTION_WINOGRAD_DOT - 1;
}
static inline int64_t tc_attention_winograd_columns(int64_t columns) {
  return columns / TC_ATTENTION_WINOGRAD_DOT * TC_ATTENTION_WINOGRAD_DOT;
}

// Iterates over the panels of `columns` columns. tc_attention_next_panel enters one after the
// other, and sets its first column (a value) and its lanes.
typedef struct tc_attention_panels {
  int64_t columns;
  int iteration, lanes;
  tc_val at;
} tc_attention_panels;

// Iterates over the softmax's steps, up to `count` keys. Steps that every row sees whole come
// first; in the others keys are compared with the `limit` of each row.
typedef struct tc_attention_steps {
  int iteration;
  // first key of the step; numbers of its keys, or TC_NONE in steps that every row sees whole
  tc_val at, keys;
  tc_val limit[TC_ATTENTION_MOST_ROWS];  // number of keys of the block that each row sees
} tc_attention_steps;

static inline int64_t ceil_to(int64_t n, int64_t of) {
  return tc_ceil_div(n, of) * of;
}
// Returns the lanes of the last, partial panel: as narrow as holds the remaining columns.
static inline int last_lanes(const tc_attention_emitter *p, int64_t columns) {
  int lanes = p->vector;
  while (lanes < columns % p->lanes) lanes *= 2;
  return TC_MIN(lanes, p->lanes);
}
static inline int64_t packed_columns(const tc_attention_emitter *p, int64_t columns) {
  return columns / p->lanes * p->lanes + (columns % p->lanes ? last_lanes(p, columns) : 0);
}
static inline int64_t panel_columns(const tc_attention_emitter *p, int64_t columns) {
  return ceil_to(columns, TC_MIN(p->vector, p->lanes));
}
// Returns a matmul operand that is in a tile.
static inline tc_attention_matmul_operand tile_side(tc_attention_emitter *p, int tile, tc_val at, int64_t row,
                                                    int64_t step) {
  return (tc_attention_matmul_operand){tile, p->packed_type, at, row, step, NULL};
}
static inline bool sees_all(const tc_attention_emitter *p) {
  return !p->causal && !p->has_length && p->keys % TC_ATTENTION_STEP == 0;
}
static inline tc_val seen_by(tc_attention_emitter *p, const tc_attention_steps *x, int i) {
  return x->keys == TC_NONE ? TC_NONE : bin(p->s, TC_IR_LT, x->keys, x->limit[i]);
}
static inline tc_val only(tc_attention_emitter *p, tc_val seen, tc_val v, double other) {
  return seen == TC_NONE ? v : select_val(p->s, seen, v, number(p, other));
}

// ---- packing ----

// Returns the mask of the columns below `columns`, of `lanes` columns from column `from` on.
tc_val tc_attention_column_mask(tc_attention_emitter *p, int64_t from, int64_t columns, int lanes);
// Loads `lanes` elements of row `row`, from column `column` on, in the accumulators' type. mask:
// elements that exist; others are zeros; TC_NONE: all do.
tc_val tc_attention_load_part(tc_attention_emitter *p, const tc_attention_operand *f, tc_val row, tc_val column,
                              int lanes, tc_val mask);
// Packs `count` steps of rows, from row `first` on, into a tile from element `start` on, `pitch`
// apart. Rows past `last` repeat the last row; in the word that holds the last row, the half past
// it is zero.
void tc_attention_pack_rows(tc_attention_emitter *p, const tc_attention_operand *f, tc_val first, tc_val count,
                            tc_val last, int64_t columns, int64_t pitch, int tile, tc_val start);
// Packs panels of keys `from` .. to - 1 of the block k0 .. k1 - 1, transposed; `from` is the first
// key of a panel. Step c of a key is at panel * columns * lanes + c * lanes + key % lanes. Keys
// past k1 repeat the last key; nobody reads them. by: factor of the keys, or TC_NONE. dot: its
// sums of keys and `top` are computed; NULL: not needed.
void tc_attention_transpose_keys(tc_attention_emitter *p, const tc_attention_operand *f, tc_val k0, tc_val k1,
                                 tc_val from, tc_val to, int64_t columns, int tile, tc_val by,
                                 const tc_attention_winograd_dot *dot);

// ---- matmuls ----

// Creates the accumulators as variables that are zero.
void tc_attention_clear(tc_attention_emitter *p, int rows, int lanes, tc_val *acc);
// Emits acc[i] += sum over k, from .. to - 1, of a(i, k) * b(k).
void tc_attention_multiply(tc_attention_emitter *p, int rows, int lanes, tc_attention_matmul_operand a,
                           tc_attention_matmul_operand b, tc_val from, tc_val to, tc_val *acc);
// Prefetches a row of an operand; a row past `n_rows` is replaced by the last one.
void tc_attention_prefetch_row(tc_attention_emitter *p, const tc_attention_operand *f, tc_val row, int64_t n_rows,
                               int64_t columns);
static inline void prefetch_query(tc_attention_emitter *p, const tc_attention_prefetch *x, tc_val i) {
  if (x->queries) tc_attention_prefetch_row(p, &p->q, add(p->s, x->row, i), p->f, p->e);
}
// Multiplies a tile of rows by the panels of keys up to `count`, into a tile: scores, or other
// products with keys. Where it suffices, only a half, a quarter or both of the last panel is
// computed. Every tile has a causal edge, and a panel is a large part of a short row's keys. next:
// prefetched meanwhile; NULL: nothing.
void tc_attention_with_panels(tc_attention_emitter *p, tc_attention_matmul_operand rows, int panels, int64_t columns,
                              tc_val count, int tile, tc_val to, const tc_attention_prefetch *next);
// Multiplies such a tile by the panels with Winograd inner products.
void tc_attention_with_winograd_dot(tc_attention_emitter *p, tc_attention_matmul_operand rows, int panels,
                                    int64_t columns, tc_val count, int tile, const tc_attention_winograd_dot *dot,
                                    const tc_attention_prefetch *next);
// ---- tmm.c: the same by tile registers, of TC_ATTENTION_MOST_ROWS rows ----

// Words of a packed row of `columns` elements.
int64_t tc_attention_tmm_pitch(int64_t columns);
// Packs a tile of rows of queries, or of the result's gradients, from `row` on; those past the last
// repeat it.
void tc_attention_tmm_pack(tc_attention_emitter *p, const tc_attention_operand *f, int64_t columns, tc_val row,
                           int tile);
// Multiplies packed rows by the panels of keys up to `count`, into a tile, without the scale. next:
// prefetched meanwhile; NULL: nothing.
void tc_attention_tmm_scores(tc_attention_emitter *p, int rows, int panels, int64_t columns, tc_val count, int tile,
                             const tc_attention_prefetch *next);
// Multiplies a tile of weights by `lanes` columns of packed values, into a tile whose rows are
// TC_ATTENTION_WIDEST apart. Summed are `count` keys, but for those of the `first` steps of 32.
// Weights behind them, up to a whole step, are zeros. tail: a tile of 16 such rows of words.
void tc_attention_tmm_mix(tc_attention_emitter *p, const tc_attention_matmul_operand *weights,
                          const tc_attention_matmul_operand *values, int lanes, tc_val first, tc_val count, int tail,
                          int tile);
// Stores zeros as the weights of the 16 keys behind the last step of the softmax. A step of their
// product with values is two such steps.
void tc_attention_tmm_clear(tc_attention_emitter *p, int weights, tc_val count);

// Ends the previous panel and enters the next one; false after the last.
bool tc_attention_next_panel(tc_attention_emitter *p, tc_attention_panels *x);

// ---- scores ----

// Returns the last row of a tile or block that ends before `stop`.
tc_val tc_attention_last_row(tc_attention_emitter *p, tc_val stop);
// Returns the rows of a tile; those past the last are replaced by the last.
void tc_attention_rows_from(tc_attention_emitter *p, tc_val row, tc_val *rows);
// Begins the steps of rows row .. row + rows - 1: finds how many keys of the block each sees. Rows
// past the last count as the last.
tc_attention_steps tc_attention_steps_of(tc_attention_emitter *p, const tc_val *rows, tc_val k0, tc_val k1);
// Ends the previous loop over steps and begins the next one; false after the last.
bool tc_attention_next_steps(tc_attention_emitter *p, tc_attention_steps *x, tc_val count);
// Returns the scores at a key with the mask applied. The mask is not read for unseen keys. A mask
// of bools narrows *seen instead.
tc_val tc_attention_masked(tc_attention_emitter *p, tc_val scores, tc_val row, tc_val key, tc_val *seen);

// ---- results ----

// Stores the current panel's columns of a result, as many as exist.
void tc_attention_store_part(tc_attention_emitter *p, uint32_t node, tc_val at, const tc_attention_panels *x, tc_val v);

// ---- backward.c ----

// Emits the kernel of the gradients.
void tc_attention_backward(tc_attention_emitter *p);
