// Inside attention for a processor: what tile.c makes of keys, rows and scores for the kernels of
// forward.c and backward.c. Not for others. Failures stick in the expansion, as builder.h says.
#ifndef TC_LOWERING_EMIT_ATTENTION_TILE_H
#define TC_LOWERING_EMIT_ATTENTION_TILE_H

#include "lowering/emit/attention/operands.h"

#define TC_ATTENTION_ROWS \
  6  // of a tile: with 4 vectors of 16 lanes, or 2 of 8, as many accumulators as the registers hold
#define TC_ATTENTION_STEP 16  // lanes of the softmax

// One side of a product: element at + i * row + k * step, i counting accumulators, or rows[i] + k *
// step. An operand's buffer or a tile.
typedef struct tc_attention_side {
  int buf;
  tc_type type;
  tc_val at;
  int64_t row, step;
  const tc_val *rows;
} tc_attention_side;

// What tiles to come will read, row by row: queries of the next one, and where tiles see more and
// more keys those of the next panel, with values that are packed; values read in place are the next
// tile's. A core waits for few lines at a time, and panels need some of them; so a row of queries
// is asked for before each panel, one of keys and values at each step of the softmax, which waits
// for nothing. 4x12x512x64 f32 on Sapphire Rapids, one thread: 13.4 ms before, 13.0 with all rows
// at once before a tile's scores, 12.1 so.
typedef struct tc_attention_prefetch {
  bool queries, keys, values;
  tc_val row, key, value;  // the first of each
} tc_attention_prefetch;

// Scores by pairs, as Winograd multiplied (1968): q1 k1 + q2 k2 = (q1 + k2) (q2 + k1) - q1 q2 - k1
// k2, of which the last two are sums of a row and of a key alone. Two additions take the place of a
// multiplication, on units that do nothing else meanwhile; of TC_ATTENTION_WINOGRAD_DOT columns, as
// many as a vector has lanes, five pairs keep both kinds busy.
// Their error goes with the larger of the row's and the key's elements, not with their product: see
// forward.c.
#define TC_ATTENTION_WINOGRAD_DOT 16
typedef struct tc_attention_winograd_dot {
  // tiles of what is added: less the products of the pairs of each key of the block, and of each
  // row of the tile
  int keys, rows;
  // a variable: of keys, as they are multiplied, the sums of squares of paired columns, the
  // greatest of each lane, as bits
  tc_val top;
} tc_attention_winograd_dot;

// As bits: NaN is the greatest.
static inline tc_val magnitude(tc_attention_emitter *p, tc_val v) {
  tc_val bits = tc_build_raw(&p->s->e, TC_IR_BITCAST, TC_I32, tc_build_lanes(&p->s->e, v), v, TC_NONE, TC_NONE, 0);
  return tc_build_bin(&p->s->e, TC_IR_AND, bits, tc_build_const_i(&p->s->e, TC_I32, INT32_MAX));
}

static inline bool tc_attention_begins_pair(int64_t column) {
  return column % TC_ATTENTION_WINOGRAD_DOT % 3 == 0 &&
         column % TC_ATTENTION_WINOGRAD_DOT < TC_ATTENTION_WINOGRAD_DOT - 1;
}
static inline int64_t tc_attention_is_winograd_dot(int64_t columns) {
  return columns / TC_ATTENTION_WINOGRAD_DOT * TC_ATTENTION_WINOGRAD_DOT;
}

// The panels of `columns` columns, each of its width: tc_attention_next_panel enters one after the
// other, and gives its first column, as a value, and its lanes.
typedef struct tc_attention_panels {
  int64_t columns;
  int iteration, lanes;
  tc_val at;
} tc_attention_panels;

// Steps of the softmax over the tile's keys, to `count`: first those that every row sees whole,
// then the others, with `limit` of each row.
typedef struct tc_attention_steps {
  int iteration;
  tc_val at, keys;  // the first key, and the numbers of all, where they are compared
  tc_val limit[TC_ATTENTION_ROWS];
} tc_attention_steps;

static inline tc_val lane_numbers(tc_attention_emitter *p, tc_type type, int lanes) {
  return tc_emit_numbers(p->s, type, lanes);
}
static inline int64_t ceil_to(int64_t n, int64_t of) {
  return tc_ceil_div(n, of) * of;
}
// Columns of a packed row: whole panels, and what is left in one as narrow as holds it.
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
// A product's side in a tile.
static inline tc_attention_side tile_side(tc_attention_emitter *p, int tile, tc_val at, int64_t row, int64_t step) {
  return (tc_attention_side){tile, p->packed_type, at, row, step, NULL};
}
static inline bool sees_all(const tc_attention_emitter *p) {
  return !p->causal && !p->has_length && p->keys % TC_ATTENTION_STEP == 0;
}
static inline tc_val seen_by(tc_attention_emitter *p, const tc_attention_steps *x, int i) {
  return x->keys == TC_NONE ? TC_NONE : tc_build_bin(&p->s->e, TC_IR_LT, x->keys, x->limit[i]);
}
static inline tc_val only(tc_attention_emitter *p, tc_val seen, tc_val v, double other) {
  return seen == TC_NONE ? v : tc_build_select(&p->s->e, seen, v, number(p, other));
}

// ---- packing ----

// Which of `lanes` columns, from column `from` on, are below `columns`.
tc_val tc_attention_column_mask(tc_attention_emitter *p, int64_t from, int64_t columns, int lanes);
// `lanes` elements of row `row`, from column `column`, in the accumulators' type; those from
// `columns` on are zeros.
tc_val tc_attention_load_part(tc_attention_emitter *p, const tc_attention_operand *f, tc_val row, tc_val column,
                              int lanes, tc_val mask);
// `count` steps of rows, from row `first` on, into a tile from element `start` on, `pitch` apart;
// past `last` the last row again.
void tc_attention_pack_rows(tc_attention_emitter *p, const tc_attention_operand *f, tc_val first, tc_val count,
                            tc_val last, int64_t columns, int64_t pitch, int tile, tc_val start);
// The panels of keys `from` .. to - 1 of the block k0 .. k1 - 1, `from` being a panel's first: step
// c of a key's columns at panel * columns * lanes + c * lanes + key % lanes. Past k1 the last key
// again: nobody looks there. by: a factor, or TC_NONE. pairs: whose sums of keys and `top` are
// made, or NULL.
void tc_attention_transpose_keys(tc_attention_emitter *p, const tc_attention_operand *f, tc_val k0, tc_val k1,
                                 tc_val from, tc_val to, int64_t columns, int tile, tc_val by,
                                 const tc_attention_winograd_dot *pairs);

// ---- products ----

// Makes the accumulators variables that are zero.
void tc_attention_clear(tc_attention_emitter *p, int rows, int lanes, tc_val *acc);
// acc[i] += sum over k, from .. to - 1, of a(i, k) * b(k).
void tc_attention_multiply(tc_attention_emitter *p, int rows, int lanes, tc_attention_side a, tc_attention_side b,
                           tc_val from, tc_val to, tc_val *acc);
// Asks for a row of an operand, the last one of `n_rows` where it lies past that.
void tc_attention_prefetch_row(tc_attention_emitter *p, const tc_attention_operand *f, tc_val row, int64_t n_rows,
                               int64_t columns);
static inline void prefetch_query(tc_attention_emitter *p, const tc_attention_prefetch *x, tc_val i) {
  if (x->queries) tc_attention_prefetch_row(p, &p->q, add(p->s, x->row, i), p->f, p->e);
}
// Scores (or other products with keys) of a tile of rows with the panels of keys up to `count`,
// into a tile. Of the last panel a half, a quarter or both, where they are enough: every tile has a
// causal edge, a panel is a good part of the keys of a short one. next: what is asked for
// meanwhile, or NULL.
void tc_attention_with_panels(tc_attention_emitter *p, tc_attention_side rows, int panels, int64_t columns,
                              tc_val count, int tile, tc_val to, const tc_attention_prefetch *next);
// The same by pairs.
void tc_attention_with_winograd_dot(tc_attention_emitter *p, tc_attention_side rows, int panels, int64_t columns,
                                    tc_val count, int tile, const tc_attention_winograd_dot *pairs,
                                    const tc_attention_prefetch *next);
// Ends the panel before and enters the next one; false after the last.
bool tc_attention_next_panel(tc_attention_emitter *p, tc_attention_panels *x);

// ---- scores ----

// The last row of a tile or block that ends before `stop`.
tc_val tc_attention_last_row(tc_attention_emitter *p, tc_val stop);
// The tile's rows; those past the last are the last.
void tc_attention_rows_from(tc_attention_emitter *p, tc_val row, tc_val *rows);
// How many keys of the block rows row .. row + rows - 1 see, each of those past the last as the
// last.
tc_attention_steps tc_attention_steps_of(tc_attention_emitter *p, const tc_val *rows, tc_val k0, tc_val k1);
// Ends the loop over steps before and begins the next one; false after the last.
bool tc_attention_next_steps(tc_attention_emitter *p, tc_attention_steps *x, tc_val count);
// The scores at a key with the mask's part, which is not read for keys that are not seen; *seen is
// narrowed by a mask of bools.
tc_val tc_attention_masked(tc_attention_emitter *p, tc_val scores, tc_val row, tc_val key, tc_val *seen);

// ---- results ----

// `lanes` columns from the column on to a result, as many as there are.
void tc_attention_store_part(tc_attention_emitter *p, uint32_t node, tc_val at, const tc_attention_panels *x, tc_val v);

// ---- backward.c ----

// The kernel of gradients.
void tc_attention_backward(tc_attention_emitter *p);

#endif
