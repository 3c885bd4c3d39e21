// Attention: out = softmax(q k^T scale + mask) v, a tile of query rows against a block of keys at a time, and its gradients likewise.
//
// Forward. [begin, end) counts units, a unit being a block of query rows of one head:
//   for each block of keys:
//     for each tile of `rows` rows: keys that no tile before saw are turned into panels of `lanes`, values packed as rows where they are not read well in
//       place; scores by register blocks into a tile that stays in the first-level cache, softmax over it, times values. For one row or two turning keys is
//       most of the work: each is multiplied where it lies, and sums of sixteen are added up across
//   with more than one block, each row keeps its greatest score, its sum and its mix so far, which are scaled as the greatest grows
// Backward. A unit is a key head, so that every sum has one owner: dk and dv of a block of keys add up in tiles while dq, of all rows, adds up over the blocks;
//   for each block of keys, each query head that reads it, each block of rows: weights again from LSE, then five products.
// Of causal attention only panels that reach a tile's last row are computed; within them what is not seen weighs zero.
// When there is one query row to a head and several heads to a key head, those heads are the rows.
// Where bf16 is multiplied in pairs (product.c), so it is here, forward: queries are read as words where they lie, keys and values packed as words, weights
// rounded to bf16; their sum is of what they were before.
// Order: scores add over e, of one row or two in STEP lanes combined by halves, mixes over keys block by block, sums of weights in STEP lanes combined by halves; gradients over keys or rows in order.
// Blocks of keys depend on shapes alone, the rest of the blocking changes no sum; the instruction set only whether multiply-adds are fused.
#include <math.h>

#include "lowering/attention.h"
#include "lowering/blocks.h"
#include "lowering/compiler.h"
#include "runtime/options.h"

#define ROWS 6  // of a tile: with 4 vectors of 16 lanes, or 2 of 8, as many accumulators as the registers hold
#define KEYS 512  // of a block, forward; half of it for heads longer than LONG_HEAD, and half again backward
#define STEP 16  // lanes of the softmax
#define WIDEST 64  // lanes of a panel
#define LONG_HEAD 128
#define BLOCK_ROWS 96  // of a block of rows, backward
#define STATE_BYTES 262144  // of a unit's mixes so far
#define WANTED_UNITS 32
// Rows, at most, that read keys in place, and keys asked for ahead, with the values of those that are multiplied. One row by 12 heads of 256 keys of 64, bf16
// and f32, on a Zen 4 at two threads: 18 and 18 us with turned keys, 8 and 8 so where all lies in the caches; 51 and 91 from memory, then 31 and 69, and 25 and 42
// where they are asked for.
#define READING_ROWS 2
#define KEYS_AHEAD 32
#define FEW_ROWS 12  // for which packing values does not pay, nor pairs
// Of a result that is written past the caches: its rows lie apart, one head's from the next, and each would first be read. 4x12x512x64 f32 on Sapphire Rapids,
// whose results have 6 MiB: 4 % of the time forward, 8 % of that with gradients.
#define STREAM_BYTES (UINT64_C(4) << 20)

// One side of a product: element at + i * row + k * step, i counting accumulators, or rows[i] + k * step. An operand's buffer or a tile.
typedef struct side {
  int buf;
  tc_type type;
  tc_val at;
  int64_t row, step;
  const tc_val *rows;
} side;

#define E (&p->s->e)

// ---- short names ----

static tc_val load(tc_att *p, int buf, tc_type type, int lanes, tc_val at, tc_val mask) {
  return tc_emit_raw(E, TC_N_LOAD, type, lanes, at, mask, TC_NONE, buf);
}
static void store(tc_att *p, int buf, tc_val at, tc_val v) {
  (void)tc_emit_raw(E, TC_N_STORE, tc_emit_type(E, v), tc_emit_lanes(E, v), at, v, TC_NONE, buf);
}
static tc_val lane_numbers(tc_att *p, tc_type type, int lanes) {
  return tc_emit_raw(E, TC_N_LANES, type, lanes, TC_NONE, TC_NONE, TC_NONE, 0);
}
static tc_val reduce(tc_att *p, tc_val v, tc_nest_op op) {
  return tc_emit_raw(E, TC_N_HREDUCE, p->acc, 1, v, TC_NONE, TC_NONE, op);
}
static tc_val multiply_add(tc_att *p, tc_val a, tc_val b, tc_val c) {
  if (p->step > 1) return tc_emit_dot(E, a, b, c);
  return p->fused ? tc_emit_fma(E, a, b, c) : add(p->s, c, mul(p, a, b));
}
static int64_t ceil_to(int64_t n, int64_t of) {
  return tc_ceil_div(n, of) * of;
}

static void choose_blocks(tc_att *p) {
  const tc_isa *isa = tc_compiler_isa();
  int size = (int)tc_type_bytes(p->acc);
  bool pairs = p->q.type == TC_BF16 && isa->dots && !p->backward && p->f > FEW_ROWS && p->e % 2 == 0 && !tc_options_get()->strict;
  p->step = pairs ? 2 : 1, p->packed_type = pairs ? TC_I32 : p->acc;
  p->fused = isa->fma;
  p->reads_keys = !p->backward && p->f <= READING_ROWS;
  p->vector = isa->vector_bytes / size;
  p->unroll = tc_blocks_unrolled();
  p->lanes = TC_MIN(isa->registers / 8 * p->vector, TC_MAX_OF(tc_ex_lanes_for(p->keys), STEP));
  p->block = TC_MAX_OF(p->e, p->ev) > LONG_HEAD ? KEYS / 2 : KEYS;
  if (p->backward) p->block /= 2;
  p->one_block = p->keys <= p->block;
  p->block = TC_MIN(p->block, ceil_to(p->keys, WIDEST));
  p->rows = (p->f + (p->f + ROWS - 1) / ROWS - 1) / ((p->f + ROWS - 1) / ROWS);
  p->pitch = p->block + WIDEST + STEP;
  int64_t state = ceil_to(p->ev, p->vector) * size, most_rows = p->one_block ? p->f : TC_MAX_OF(STATE_BYTES / state, p->rows);
  int64_t units = (WANTED_UNITS + p->a - 1) / p->a, rows = TC_MAX_OF((p->f + units - 1) / units, 8 * p->rows);
  p->row_block = ceil_to(TC_MIN(TC_MIN(most_rows, rows), p->f), p->rows);
}

// ---- packing ----

// Columns of a packed row: whole panels, and what is left in one as narrow as holds it.
static int last_lanes(const tc_att *p, int64_t columns) {
  int lanes = p->vector;
  while (lanes < columns % p->lanes) lanes *= 2;
  return TC_MIN(lanes, p->lanes);
}

static int64_t packed_columns(const tc_att *p, int64_t columns) {
  return columns / p->lanes * p->lanes + (columns % p->lanes ? last_lanes(p, columns) : 0);
}

// `lanes` elements of row `row`, from column `column`, in the accumulators' type; those from `columns` on are zeros.
static tc_val load_part(tc_att *p, const tc_att_factor *f, tc_val row, tc_val column, int lanes, tc_val mask) {
  tc_val at = add(p->s, add(p->s, f->at, times(p->s, row, f->stride)), column);
  return tc_emit_cast(E, load(p, f->buf, f->type, lanes, at, mask), p->acc);
}

static tc_val column_mask(tc_att *p, int64_t from, int64_t columns, int lanes) {
  return tc_emit_bin(E, TC_N_LT, lane_numbers(p, TC_I64, lanes), i64(p->s, columns - from));
}

// The same of a step of rows: one, or two as words.
static tc_val load_step(tc_att *p, const tc_att_factor *f, tc_val first, tc_val second, tc_val column, int lanes, tc_val mask) {
  tc_val v = load_part(p, f, first, column, lanes, mask);
  return p->step == 1 ? v : tc_emit_words(E, v, load_part(p, f, second, column, lanes, mask));
}

// `count` steps of rows, from row `first` on, into a tile from element `start` on, `pitch` apart; past `last` the last row again.
static void pack_rows(tc_att *p, const tc_att_factor *f, tc_val first, tc_val count, tc_val last, int64_t columns, int64_t pitch, int tile,
                      tc_val start) {
  tc_val i = loop(p->s, i64(p->s, 0), count, 1), row = add(p->s, first, times(p->s, i, p->step)), to = add(p->s, start, times(p->s, i, pitch));
  tc_val next = p->step > 1 ? least(p, plus(p, row, 1), last) : TC_NONE;
  row = least(p, row, last);
  int lanes = p->vector;
  int64_t full = columns / lanes * lanes;
  if (full) {
    tc_val c = loop(p->s, i64(p->s, 0), i64(p->s, full), lanes), v = load_step(p, f, row, next, c, lanes, TC_NONE);
    store(p, tile, add(p->s, to, c), v);
    end(p->s);
  }
  if (full < columns) {
    tc_val v = load_step(p, f, row, next, i64(p->s, full), lanes, column_mask(p, full, columns, lanes));
    store(p, tile, plus(p, to, full), v);
    full += lanes;
  }
  if (full < pitch) {
    tc_val c = loop(p->s, i64(p->s, full), i64(p->s, pitch), lanes), zero = p->step == 1 ? number(p, 0) : tc_emit_const_i(E, TC_I32, 0);
    store(p, tile, add(p->s, to, c), tc_emit_splat(E, zero, lanes));
    end(p->s);
  }
  end(p->s);
}

// `lanes` words of row `row`, from step `column` on; mask: of their elements.
static tc_val load_words(tc_att *p, const tc_att_factor *f, tc_val row, tc_val column, int lanes, tc_val mask) {
  tc_val at = add(p->s, add(p->s, f->at, times(p->s, row, f->stride)), times(p->s, column, 2));
  return tc_emit_load_words(E, f->buf, at, lanes, mask);
}

// A block of steps of columns of `size` keys: read along columns, turned in registers, stored along keys.
static void turn_block(tc_att *p, const tc_att_factor *f, tc_val key, tc_val last, tc_val column, int size, tc_val mask, int tile, tc_val to,
                       tc_val by) {
  tc_val v[64];
  for (int i = 0; i < size; i++) {
    tc_val row = least(p, plus(p, key, i), last);
    v[i] = p->step == 1 ? load_part(p, f, row, column, size, mask) : load_words(p, f, row, column, size, mask);
    if (by != TC_NONE) v[i] = mul(p, v[i], by);
  }
  tc_emit_turn(E, v, size);
  for (int i = 0; i < size; i++) store(p, tile, plus(p, to, (int64_t)i * p->lanes), v[i]);
}

// The panels of keys `from` .. to - 1 of the block k0 .. k1 - 1, `from` being a panel's first: step c of a key's columns at panel * columns * lanes +
// c * lanes + key % lanes. Past k1 the last key again: nobody looks there. by: a factor, or TC_NONE.
static void turn_keys(tc_att *p, const tc_att_factor *f, tc_val k0, tc_val k1, tc_val from, tc_val to, int64_t columns, int tile, tc_val by) {
  int size = TC_MIN(p->vector, p->lanes);
  int64_t full = columns / size * size, padded = ceil_to(columns, size);
  tc_val last = plus(p, k1, -1), key = loop(p->s, from, to, p->lanes), panel = times(p->s, sub(p->s, key, k0), padded);
  tc_val first = loop(p->s, i64(p->s, 0), i64(p->s, p->lanes), size);
  key = add(p->s, key, first), panel = add(p->s, panel, first);
  if (full) {
    tc_val c = loop(p->s, i64(p->s, 0), i64(p->s, full), size);
    turn_block(p, f, key, last, c, size, TC_NONE, tile, add(p->s, panel, times(p->s, c, p->lanes)), by);
    end(p->s);
  }
  if (full < columns)
    turn_block(p, f, key, last, i64(p->s, full), size, column_mask(p, full * p->step, columns * p->step, size * p->step), tile,
               plus(p, panel, full * p->lanes), by);
  end(p->s);
  end(p->s);
}

static int64_t panel_columns(const tc_att *p, int64_t columns) {
  return ceil_to(columns, TC_MIN(p->vector, p->lanes));
}

// ---- products ----

static tc_val load_side(tc_att *p, side x, int lanes, tc_val at) {
  if (p->step > 1 && x.type == TC_BF16) return tc_emit_load_words(E, x.buf, at, lanes, TC_NONE);
  tc_val v = load(p, x.buf, x.type, lanes, at, TC_NONE);
  return p->step > 1 ? v : tc_emit_cast(E, v, p->acc);
}

// acc[i] += a(i, k) * b(k), a's elements one at a time, b's in vectors.
static void multiply_one(tc_att *p, int rows, int lanes, side a, side b, tc_val k, tc_val *acc) {
  tc_val w = load_side(p, b, lanes, add(p->s, b.at, times(p->s, k, b.step)));
  tc_val step = times(p->s, k, a.step), at = a.rows ? TC_NONE : add(p->s, a.at, step);
  for (int i = 0; i < rows; i++) {
    tc_val v = load_side(p, a, 1, a.rows ? add(p->s, a.rows[i], step) : plus(p, at, i * a.row));
    tc_emit_set(E, acc[i], multiply_add(p, v, w, acc[i]));
  }
}

// acc[i] += sum over k, from .. to - 1, of a(i, k) * b(k).
static void multiply(tc_att *p, int rows, int lanes, side a, side b, tc_val from, tc_val to, tc_val *acc) {
  tc_val several = sub(p->s, to, tc_emit_bin(E, TC_N_REM, sub(p->s, to, from), i64(p->s, p->unroll))), k = loop(p->s, from, several, p->unroll);
  for (int i = 0; i < p->unroll; i++) multiply_one(p, rows, lanes, a, b, plus(p, k, i), acc);
  end(p->s);
  k = loop(p->s, several, to, 1);
  multiply_one(p, rows, lanes, a, b, k, acc);
  end(p->s);
}

static void clear(tc_att *p, int rows, int lanes, tc_val *acc) {
  for (int i = 0; i < rows; i++) acc[i] = tc_emit_var(E, tc_emit_splat(E, number(p, 0), lanes));
}

static side tile_side(tc_att *p, int tile, tc_val at, int64_t row, int64_t step) {
  return (side){tile, p->packed_type, at, row, step, NULL};
}

// Products of a tile of rows with `lanes` keys, from `key` on, of the panel that begins at key `first`, into a tile.
static void with_panel(tc_att *p, side rows, int lanes, int panels, int64_t columns, tc_val first, tc_val key, int tile, tc_val to) {
  tc_val acc[ROWS];
  clear(p, (int)p->rows, lanes, acc);
  tc_val at = add(p->s, times(p->s, first, panel_columns(p, columns)), sub(p->s, key, first));
  multiply(p, (int)p->rows, lanes, rows, tile_side(p, panels, at, 0, p->lanes), i64(p->s, 0), i64(p->s, columns), acc);
  for (int i = 0; i < p->rows; i++) {
    tc_val score = p->step > 1 ? mul(p, acc[i], tc_att_key_scale(p)) : acc[i];  // else keys are scaled as they are turned
    store(p, tile, plus(p, add(p->s, to, key), i * p->pitch), score);
  }
}

static void prefetch_row(tc_att *p, const tc_att_factor *f, tc_val row, int64_t n_rows, int64_t columns) {
  tc_val at = add(p->s, f->at, times(p->s, least(p, row, i64(p->s, n_rows - 1)), f->stride));
  for (int64_t c = 0; c < columns; c += 64 / (int64_t)tc_type_bytes(f->type)) tc_emit_prefetch(E, f->buf, plus(p, at, c), p->reads_keys);
}

// Keys `key` + first, + first + by, .. below `key` + STEP, past `last` the last one, times the query in STEP lanes, added up across: lane i is of the i-th.
static tc_val with_keys(tc_att *p, side rows, int row, tc_val key, tc_val last, int first, int by) {
  if (by < STEP) return tc_emit_halve(E, with_keys(p, rows, row, key, last, first, 2 * by), with_keys(p, rows, row, key, last, first + by, 2 * by));
  tc_val at = rows.rows ? rows.rows[row] : plus(p, rows.at, row * rows.row), k = least(p, plus(p, key, first), last);
  tc_val sum = tc_emit_splat(E, number(p, 0), STEP);
  for (int64_t c = 0; c < p->e; c += STEP) {
    tc_val mask = c + STEP <= p->e ? TC_NONE : column_mask(p, c, p->e, STEP);
    tc_val v = load_part(p, &p->k, k, i64(p->s, c), STEP, mask), q = load(p, rows.buf, rows.type, STEP, plus(p, at, c), mask);
    sum = c == 0 ? mul(p, v, q) : multiply_add(p, q, v, sum);
  }
  return sum;
}

// Scores of a tile of rows with keys k0 to k1 where they lie.
static void with_keys_in_place(tc_att *p, side rows, tc_val k0, tc_val k1, int tile) {
  tc_val key = loop(p->s, i64(p->s, 0), sub(p->s, k1, k0), STEP);
  for (int i = 0; i < STEP; i++) {
    tc_val row = add(p->s, k0, plus(p, key, i));
    prefetch_row(p, &p->k, plus(p, row, KEYS_AHEAD), p->keys, p->e);
    if (p->out != TC_NONE) prefetch_row(p, &p->v, row, p->keys, p->ev);
  }
  for (int i = 0; i < p->rows; i++) {
    tc_val sums = with_keys(p, rows, i, add(p->s, k0, key), plus(p, k1, -1), 0, 1);
    store(p, tile, plus(p, key, i * p->pitch), mul(p, sums, tc_att_key_scale(p)));
  }
  end(p->s);
}

// What tiles to come will read, row by row: queries of the next one, and where tiles see more and more keys those of the next panel, with values that are
// packed; values read in place are the next tile's. A core waits for few lines at a time, and panels need some of them; so a row of queries is asked for
// before each panel, one of keys and values at each step of the softmax, which waits for nothing. 4x12x512x64 f32 on Sapphire Rapids, one thread: 13.4 ms
// before, 13.0 with all rows at once before a tile's scores, 12.1 so.
typedef struct ahead {
  bool queries, keys, values;
  tc_val row, key, value;  // the first of each
} ahead;

static void prefetch_query(tc_att *p, const ahead *x, tc_val i) {
  if (x->queries) prefetch_row(p, &p->q, add(p->s, x->row, i), p->f, p->e);
}

static void prefetch_key(tc_att *p, const ahead *x, tc_val i) {
  if (x->keys) prefetch_row(p, &p->k, add(p->s, x->key, i), p->keys, p->e);
  if (x->keys && x->values) prefetch_row(p, &p->v, add(p->s, x->value, i), p->keys, p->ev);
}

// The rows that are left where a tile has fewer panels, or steps, of `size` keys than rows.
static void prefetch_rest(tc_att *p, const ahead *x, void (*prefetch)(tc_att *p, const ahead *x, tc_val i), tc_val count, int size) {
  tc_val i = loop(p->s, tc_emit_bin(E, TC_N_DIV, plus(p, count, size - 1), i64(p->s, size)), i64(p->s, p->rows), 1);
  prefetch(p, x, i);
  end(p->s);
}

// Scores (or other products with keys) of a tile of rows with the panels of keys up to `count`, into a tile. Of the last panel a half, a quarter or both,
// where they are enough: every tile has a causal edge, a panel is a good part of the keys of a short one.
static void with_panels(tc_att *p, side rows, int panels, int64_t columns, tc_val count, int tile, tc_val to, const ahead *next) {
  int least_part = TC_MAX_OF(p->lanes / 4, p->vector);
  bool parts = p->causal && least_part < p->lanes;
  tc_val part = TC_NONE, stop = count;
  if (parts) {
    tc_val steps = tc_emit_bin(E, TC_N_DIV, plus(p, most(p, count, i64(p->s, 0)), least_part - 1), i64(p->s, least_part));
    part = times(p->s, tc_emit_bin(E, TC_N_REM, steps, i64(p->s, p->lanes / least_part)), least_part),
    stop = sub(p->s, times(p->s, steps, least_part), part);
  }
  tc_val key = loop(p->s, i64(p->s, 0), stop, p->lanes);
  if (next) prefetch_query(p, next, tc_emit_bin(E, TC_N_DIV, key, i64(p->s, p->lanes)));
  with_panel(p, rows, p->lanes, panels, columns, key, key, tile, to);
  end(p->s);
  key = stop;
  for (int lanes = p->lanes / 2; parts && lanes >= least_part; lanes /= 2) {
    tc_val here = tc_emit_bin(E, TC_N_AND, part, i64(p->s, lanes));
    begin_if(p, tc_emit_bin(E, TC_N_NE, here, i64(p->s, 0)));
    with_panel(p, rows, lanes, panels, columns, stop, key, tile, to);
    end_if(p);
    key = add(p->s, key, here);
  }
}

// The panels of `columns` columns, each of its width: begin gives the first column, as a value, and its lanes; until end_panels.
typedef struct panels {
  int64_t columns;
  int turn, lanes;
  tc_val at;
} panels;

static bool next_panel(tc_att *p, panels *x) {
  int64_t full = x->columns / p->lanes * p->lanes;
  if (x->turn == 1 && full) end(p->s);
  if (x->turn == 0 && full) {
    x->turn = 1, x->lanes = p->lanes;
    x->at = loop(p->s, i64(p->s, 0), i64(p->s, full), p->lanes);
    return true;
  }
  if (x->turn < 2 && full < x->columns) {
    x->turn = 2, x->lanes = last_lanes(p, x->columns);
    x->at = i64(p->s, full);
    return true;
  }
  return false;
}

// ---- softmax ----

// The last row of a tile or block that ends before `stop`.
static tc_val last_row(tc_att *p, tc_val stop) {
  return plus(p, least(p, stop, i64(p->s, p->f)), -1);
}

// Steps of the softmax over the tile's keys, to `count`: first those that every row sees whole, then the others, with `limit` of each row.
typedef struct steps {
  int turn;
  tc_val at, keys;  // the first key, and the numbers of all, where they are compared
  tc_val limit[ROWS];
} steps;

static bool sees_all(const tc_att *p) {
  return !p->causal && !p->has_length && p->keys % STEP == 0;
}

// How many keys of the block rows row .. row + rows - 1 see, each of those past the last as the last.
static steps steps_of(tc_att *p, const tc_val *rows, tc_val k0, tc_val k1) {
  steps x = {0};
  for (int i = 0; i < p->rows && !sees_all(p); i++) x.limit[i] = tc_emit_cast(E, sub(p->s, least(p, tc_att_limit(p, rows[i]), k1), k0), TC_I32);
  return x;
}

static bool next_steps(tc_att *p, steps *x, tc_val count) {
  if (x->turn) end(p->s);
  tc_val whole_steps = count;
  if (!sees_all(p))
    whole_steps = times(p->s, tc_emit_bin(E, TC_N_DIV, most(p, i64(p->s, 0), tc_emit_cast(E, x->limit[0], TC_I64)), i64(p->s, STEP)), STEP);
  if (x->turn == 0) {
    x->at = loop(p->s, i64(p->s, 0), whole_steps, STEP), x->keys = TC_NONE;
  } else if (x->turn == 1 && !sees_all(p)) {
    x->at = loop(p->s, whole_steps, count, STEP);
    x->keys = add(p->s, lane_numbers(p, TC_I32, STEP), tc_emit_cast(E, x->at, TC_I32));
  } else {
    return false;
  }
  return ++x->turn;
}

static tc_val seen_by(tc_att *p, const steps *x, int i) {
  return x->keys == TC_NONE ? TC_NONE : tc_emit_bin(E, TC_N_LT, x->keys, x->limit[i]);
}

// The scores at a key with the mask's part, which is not read for keys that are not seen; *seen is narrowed by a mask of bools.
static tc_val masked(tc_att *p, tc_val scores, tc_val row, tc_val key, tc_val *seen) {
  if (!p->has_mask) return scores;
  tc_val at = add(p->s, p->mask.at, times(p->s, row, p->mask.stride)), m;
  if (p->mask.col == 0) {
    m = load(p, p->mask.buf, p->mask.type, 1, at, TC_NONE);
    m = tc_emit_splat(E, p->mask.type == TC_BOOL ? m : tc_emit_cast(E, m, p->acc), STEP);
  } else {
    at = add(p->s, at, times(p->s, key, p->mask.col));
    if (p->mask.col == 1) {
      m = load(p, p->mask.buf, p->mask.type, STEP, at, *seen);
    } else {
      tc_val lanes = times(p->s, lane_numbers(p, TC_I64, STEP), p->mask.col);
      m = tc_emit_raw(E, TC_N_GATHER, p->mask.type, STEP, add(p->s, lanes, at), *seen, TC_NONE, p->mask.buf);
    }
  }
  if (p->mask.type != TC_BOOL) return add(p->s, scores, tc_emit_cast(E, m, p->acc));
  *seen = *seen == TC_NONE ? m : tc_emit_bin(E, TC_N_AND, *seen, m);
  return scores;
}

static tc_val only(tc_att *p, tc_val seen, tc_val v, double other) {
  return seen == TC_NONE ? v : tc_emit_select(E, seen, v, number(p, other));
}

// The tile's rows; those past the last are the last.
static void rows_from(tc_att *p, tc_val row, tc_val *rows) {
  for (int i = 0; i < p->rows; i++) rows[i] = least(p, plus(p, row, i), i64(p->s, p->f - 1));
}

// ---- forward ----

typedef struct forward {
  tc_att *p;
  int queries, panels, values, scores, weights, greatest, sums, shrink, mix;  // tiles; weights: the scores', or of bf16
  bool pack_values;
  int64_t value_pitch;
  tc_val k0, k1, r0;
  tc_val ready;  // keys of the block that are turned and packed, whole panels
} forward;

// So many keys in steps, the last of which may be cut.
static tc_val in_steps(tc_att *p, tc_val keys) {
  return p->step == 1 ? keys : tc_emit_bin(E, TC_N_DIV, plus(p, keys, p->step - 1), i64(p->s, p->step));
}

// Turns a tile of scores into weights; leaves each row's greatest score and sum, and by how much what came before shrinks. Rows go side by side: none
// waits for another's chain.
static void softmax(forward *f, tc_val row, tc_val count, const ahead *next) {
  tc_att *p = f->p;
  int n = (int)p->rows;
  tc_val rows[ROWS], top[ROWS], sum[ROWS], less[ROWS], before[ROWS], unseen = number(p, -INFINITY),
                                                                     state = p->one_block ? i64(p->s, 0) : sub(p->s, row, f->r0);
  rows_from(p, row, rows);
  for (int i = 0; i < n; i++) top[i] = tc_emit_var(E, tc_emit_splat(E, unseen, STEP));
  for (steps x = steps_of(p, rows, f->k0, f->k1); next_steps(p, &x, count);)
    for (int i = 0; i < n; i++) {
      tc_val at = plus(p, x.at, i * p->pitch), seen = seen_by(p, &x, i), v = load(p, f->scores, p->acc, STEP, at, TC_NONE);
      v = masked(p, v, rows[i], add(p->s, f->k0, x.at), &seen), v = only(p, seen, v, -INFINITY);
      if (seen != TC_NONE || p->has_mask) store(p, f->scores, at, v);
      tc_emit_set(E, top[i], tc_emit_select(E, tc_emit_bin(E, TC_N_GT, v, top[i]), v, top[i]));
    }
  for (int i = 0; i < n; i++) {
    tc_val greatest = reduce(p, top[i], TC_N_MAX);
    if (!p->one_block) before[i] = load(p, f->greatest, p->acc, 1, plus(p, state, i), TC_NONE), greatest = most(p, before[i], greatest);
    less[i] = tc_emit_select(E, tc_emit_bin(E, TC_N_EQ, greatest, unseen), number(p, 0), greatest);
    store(p, f->greatest, plus(p, state, i), greatest);
    sum[i] = tc_emit_var(E, tc_emit_splat(E, number(p, 0), STEP));
  }
  tc_val key = loop(p->s, i64(p->s, 0), count, STEP);
  prefetch_key(p, next, least(p, tc_emit_bin(E, TC_N_DIV, key, i64(p->s, STEP)), i64(p->s, p->rows - 1)));
  for (int i = 0; i < n; i++) {
    tc_val at = plus(p, key, i * p->pitch), v = tc_att_power(p, sub(p->s, load(p, f->scores, p->acc, STEP, at, TC_NONE), less[i]));
    store(p, f->weights, at, p->step > 1 ? tc_emit_cast(E, v, TC_BF16) : v);
    tc_emit_set(E, sum[i], add(p->s, sum[i], v));
  }
  end(p->s);
  for (int i = 0; i < n; i++) {
    tc_val total = reduce(p, sum[i], TC_N_ADD), at = plus(p, state, i);
    if (!p->one_block) {
      tc_val shrink = tc_att_power(p, sub(p->s, before[i], less[i]));
      total = add(p->s, mul(p, load(p, f->sums, p->acc, 1, at, TC_NONE), shrink), total);
      store(p, f->shrink, i64(p->s, i), shrink);
    }
    store(p, f->sums, at, total);
  }
}

static tc_val inverse_of_sum(forward *f, tc_val at) {
  tc_att *p = f->p;
  tc_val sum = load(p, f->sums, p->acc, 1, at, TC_NONE), none = tc_emit_bin(E, TC_N_EQ, sum, number(p, 0));
  return tc_emit_bin(E, TC_N_DIV, number(p, 1), tc_emit_select(E, none, number(p, 1), sum));
}

// `lanes` columns from the column on to a result, as many as there are.
static void store_part(tc_att *p, uint32_t node, tc_val at, const panels *x, tc_val v) {
  tc_val mask = x->turn == 2 && x->columns % p->lanes != x->lanes ? column_mask(p, x->columns / p->lanes * p->lanes, x->columns, x->lanes) : TC_NONE;
  tc_type type = p->s->g->node[node].type;
  tc_val stored = tc_emit_raw(E, TC_N_STORE, type, x->lanes, add(p->s, at, x->at), tc_emit_cast(E, v, type), mask, tc_att_result(p, node));
  int64_t bytes = (int64_t)tc_type_bytes(type);  // lines are whole, and begin where rows do
  if (x->lanes * bytes % 64 == 0 && x->columns * bytes % 64 == 0 && tc_ex_streams(p->s, node, STREAM_BYTES) && !E->failed)
    E->nest->inst[stored].flags = 1;
}

static void begin_row(tc_att *p, tc_val row) {
  if (p->f % p->rows) begin_if(p, tc_emit_bin(E, TC_N_LT, row, i64(p->s, p->f)));
}

static void end_row(tc_att *p) {
  if (p->f % p->rows) end_if(p);
}

// Weights times values: into the result where there is one block of keys, else added to the rows' mixes so far.
static void mix_values(forward *f, tc_val row, tc_val count) {
  tc_att *p = f->p;
  int rows = (int)p->rows;
  for (panels x = {.columns = p->ev}; next_panel(p, &x);) {
    tc_val acc[ROWS], at = f->pack_values ? x.at : add(p->s, add(p->s, p->v.at, times(p->s, f->k0, p->v.stride)), x.at);
    side weights = {f->weights, p->step > 1 ? TC_BF16 : p->acc, i64(p->s, 0), p->pitch, p->step, NULL};
    side values = {f->pack_values ? f->values : p->v.buf, f->pack_values ? p->packed_type : p->v.type, at, 0, f->value_pitch, NULL};
    clear(p, rows, x.lanes, acc);
    multiply(p, rows, x.lanes, weights, values, i64(p->s, 0), in_steps(p, count), acc);
    for (int i = 0; i < rows; i++) {
      tc_val r = plus(p, row, i), at_i = i64(p->s, i);
      if (p->one_block) {
        begin_row(p, r);
        store_part(p, p->out, tc_att_result_row(p, p->out, p->s->at[TC_RANGE_A], r, p->hq, p->l, p->ev), &x, mul(p, acc[i], inverse_of_sum(f, at_i)));
        end_row(p);
        continue;
      }
      tc_val mix_at = add(p->s, times(p->s, sub(p->s, r, f->r0), packed_columns(p, p->ev)), x.at),
             shrink = load(p, f->shrink, p->acc, 1, at_i, TC_NONE);
      tc_val before = load(p, f->mix, p->acc, x.lanes, mix_at, TC_NONE);
      store(p, f->mix, mix_at, add(p->s, mul(p, before, shrink), acc[i]));
    }
  }
}

// A row's greatest score and the logarithm of its sum of exponentials; zeros where it sees nothing, so that exp(-inf - 0) is what it weighs.
static void store_lse(forward *f, tc_val row, tc_val at) {
  tc_att *p = f->p;
  tc_val sum = load(p, f->sums, p->acc, 1, at, TC_NONE), none = tc_emit_bin(E, TC_N_EQ, sum, number(p, 0));
  tc_val log = tc_emit_scalar_op(E, TC_OP_LOG, p->acc, tc_emit_select(E, none, number(p, 1), sum), 0, 0);
  tc_val greatest = mul(p, load(p, f->greatest, p->acc, 1, at, TC_NONE), number(p, 1 / tc_att_units(p)));
  int buf = tc_att_result(p, p->lse);
  tc_val to = times(p->s, add(p->s, times(p->s, p->s->at[TC_RANGE_A], p->f), row), 2);
  store(p, buf, to, tc_emit_select(E, none, number(p, 0), greatest));
  store(p, buf, plus(p, to, 1), log);
}

// Turns and packs what of the block's first `count` keys is not yet: panel by panel as they come to be seen.
static void prepare_keys(forward *f, tc_val count) {
  tc_att *p = f->p;
  tc_val to_key = times(p->s, tc_emit_bin(E, TC_N_DIV, plus(p, count, p->lanes - 1), i64(p->s, p->lanes)), p->lanes);
  if (!p->reads_keys)
    turn_keys(p, &p->k, f->k0, f->k1, add(p->s, f->k0, f->ready), add(p->s, f->k0, count), p->e / p->step, f->panels,
              p->step > 1 ? TC_NONE : tc_att_key_scale(p));
  if (f->pack_values) {
    tc_val to = times(p->s, in_steps(p, f->ready), f->value_pitch);
    pack_rows(p, &p->v, add(p->s, f->k0, f->ready), in_steps(p, sub(p->s, to_key, f->ready)), plus(p, f->k1, -1), p->ev, f->value_pitch, f->values,
              to);
  }
  tc_emit_set(E, f->ready, most(p, f->ready, to_key));
}

// Queries are read where they lie.
static bool reads_queries(const tc_att *p) {
  return p->q.type == p->acc || p->step > 1;
}

static void forward_tile(forward *f, tc_val row) {
  tc_att *p = f->p;
  tc_val stop = p->causal ? least(p, f->k1, tc_att_limit(p, last_row(p, plus(p, row, p->rows)))) : f->k1, count = sub(p->s, stop, f->k0);
  if (!p->one_block && p->causal) begin_if(p, tc_emit_bin(E, TC_N_GT, count, i64(p->s, 0)));
  prepare_keys(f, count);
  tc_val rows[ROWS];
  side queries = {p->q.buf, p->q.type, TC_NONE, 0, p->step, rows};
  if (reads_queries(p)) {
    rows_from(p, row, rows);
    for (int i = 0; i < p->rows; i++) rows[i] = add(p->s, p->q.at, times(p->s, rows[i], p->q.stride));
  } else {
    int64_t width = ceil_to(p->e, p->vector);
    pack_rows(p, &p->q, row, i64(p->s, p->rows), i64(p->s, p->f - 1), p->e, width, f->queries, i64(p->s, 0));
    queries = tile_side(p, f->queries, i64(p->s, 0), width, 1);
  }
  ahead next = {
      .queries = p->f > 2 * p->rows, .keys = p->causal && p->one_block && !p->has_length && p->keys >= 2 * p->lanes, .values = p->out != TC_NONE};
  next.row = plus(p, row, p->rows), next.key = plus(p, count, p->lanes), next.value = f->pack_values ? next.key : count;
  if (p->reads_keys)
    with_keys_in_place(p, queries, f->k0, stop, f->scores);
  else
    with_panels(p, queries, f->panels, p->e / p->step, count, f->scores, i64(p->s, 0), &next);
  if (next.queries) prefetch_rest(p, &next, prefetch_query, count, p->lanes);
  softmax(f, row, count, &next);
  if (next.keys) prefetch_rest(p, &next, prefetch_key, count, STEP);
  if (p->out != TC_NONE) mix_values(f, row, count);
  if (p->lse != TC_NONE && p->one_block) {
    tc_val i = loop(p->s, i64(p->s, 0), least(p, i64(p->s, p->rows), sub(p->s, i64(p->s, p->f), row)), 1);
    store_lse(f, add(p->s, row, i), i);
    end(p->s);
  }
  if (!p->one_block && p->causal) end_if(p);
}

static void begin_state(forward *f) {
  tc_att *p = f->p;
  tc_val i = loop(p->s, i64(p->s, 0), i64(p->s, p->row_block), 1);
  store(p, f->greatest, i, number(p, -INFINITY));
  store(p, f->sums, i, number(p, 0));
  end(p->s);
  if (p->out == TC_NONE) return;
  i = loop(p->s, i64(p->s, 0), i64(p->s, p->row_block * packed_columns(p, p->ev)), p->vector);
  store(p, f->mix, i, tc_emit_splat(E, number(p, 0), p->vector));
  end(p->s);
}

static void finish_state(forward *f, tc_val r1) {
  tc_att *p = f->p;
  tc_val row = loop(p->s, f->r0, r1, 1), at = sub(p->s, row, f->r0);
  if (p->lse != TC_NONE) store_lse(f, row, at);
  if (p->out != TC_NONE) {
    tc_val inverse = inverse_of_sum(f, at), to = tc_att_result_row(p, p->out, p->s->at[TC_RANGE_A], row, p->hq, p->l, p->ev);
    for (panels x = {.columns = p->ev}; next_panel(p, &x);) {
      tc_val v = load(p, f->mix, p->acc, x.lanes, add(p->s, times(p->s, at, packed_columns(p, p->ev)), x.at), TC_NONE);
      store_part(p, p->out, to, &x, mul(p, v, inverse));
    }
  }
  end(p->s);
}

static void forward_unit(forward *f, tc_val r1) {
  tc_att *p = f->p;
  tc_val stop = tc_att_limit(p, last_row(p, r1));
  f->k0 = i64(p->s, 0), f->k1 = stop;
  if (!p->one_block) {
    begin_state(f);
    f->k0 = loop(p->s, i64(p->s, 0), stop, p->block);
    f->k1 = least(p, stop, plus(p, f->k0, p->block));
  }
  f->ready = tc_emit_var(E, i64(p->s, 0));
  tc_val row = loop(p->s, f->r0, r1, p->rows);
  forward_tile(f, row);
  end(p->s);
  if (p->one_block) return;
  end(p->s);
  finish_state(f, r1);
}

// Values are read in place where a few rows read them, or where lines of many rows fit the few sets of a cache that their distance lets them share:
// 12 heads side by side are 3072 bytes, in place 1 % faster than packed.
static bool packs_values(const tc_att *p) {
  bool whole_vectors = packed_columns(p, p->ev) == p->ev;
  if (!whole_vectors || p->step > 1) return true;
  if (p->f <= FEW_ROWS) return false;
  int64_t bytes = p->v.stride * (int64_t)tc_type_bytes(p->acc);
  return p->v.type != p->acc || (bytes & -bytes) > 1024;
}

static void forward_kernel(tc_att *p) {
  tc_ex *s = p->s;
  forward f = {.p = p, .pack_values = p->out != TC_NONE && packs_values(p)};
  int64_t states = p->one_block ? p->rows : p->row_block, columns = packed_columns(p, p->ev);
  f.value_pitch = f.pack_values ? columns : p->v.stride;
  if (!p->reads_keys) f.panels = tc_ex_tile(s, p->packed_type, ceil_to(p->block, p->lanes) * panel_columns(p, p->e / p->step));
  if (f.pack_values) f.values = tc_ex_tile(s, p->packed_type, p->block / p->step * columns);
  if (!reads_queries(p)) f.queries = tc_ex_tile(s, p->acc, p->rows * ceil_to(p->e, p->vector));
  f.weights = f.scores = tc_ex_tile(s, p->acc, p->rows * p->pitch);
  if (p->step > 1) f.weights = tc_ex_tile(s, TC_BF16, p->rows * p->pitch);
  f.greatest = tc_ex_tile(s, p->acc, states), f.sums = tc_ex_tile(s, p->acc, states);
  if (!p->one_block) f.shrink = tc_ex_tile(s, p->acc, p->rows);
  if (!p->one_block && p->out != TC_NONE) f.mix = tc_ex_tile(s, p->acc, states * columns);
  int64_t blocks = (p->f + p->row_block - 1) / p->row_block;
  tc_val begin = tc_emit_raw(E, TC_N_BEGIN, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  tc_val finish = tc_emit_raw(E, TC_N_FINISH, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  tc_val unit = loop(p->s, begin, finish, 1), block = tc_emit_bin(E, TC_N_REM, unit, i64(p->s, blocks));
  s->at[TC_RANGE_A] = tc_emit_bin(E, TC_N_DIV, unit, i64(p->s, blocks)), s->bound[TC_RANGE_A] = true;
  p->q.at = tc_att_base(p, &p->q), p->k.at = tc_att_base(p, &p->k);
  if (p->out != TC_NONE) p->v.at = tc_att_base(p, &p->v);
  if (p->has_mask) p->mask.at = tc_att_base(p, &p->mask);
  f.r0 = times(p->s, block, p->row_block);
  forward_unit(&f, least(p, i64(p->s, p->f), plus(p, f.r0, p->row_block)));
  end(p->s);
  s->x->extent = p->a * blocks;
}

// ---- backward ----

typedef struct backward {
  tc_att *p;
  int key_panels, value_panels, keys, queries, douts, weights, slopes, dq, dk, dv;  // tiles
  int64_t e, ev;  // columns as packed
  tc_val unit, head;  // head: of the query, within the key head's
  tc_val k0, k1, row0, n_rows;
} backward;

static bool wants_slopes(const tc_att *p) {
  return p->dq != TC_NONE || p->dk != TC_NONE;
}

// Scores to weights, and products of dout with values to slopes of the scores; zeros where nothing is seen, and a little past the last key of the tile.
static void slopes(backward *b, tc_val row, tc_val at, tc_val count) {
  tc_att *p = b->p;
  tc_val rows[ROWS], greatest[ROWS], log[ROWS], delta[ROWS], to = sees_all(p) ? count : plus(p, count, ROWS - 1);
  rows_from(p, row, rows);
  for (int i = 0; i < p->rows; i++) {
    tc_val of_row = add(p->s, p->sums.at, times(p->s, rows[i], p->sums.stride));
    greatest[i] = mul(p, load(p, p->sums.buf, p->sums.type, 1, of_row, TC_NONE), number(p, tc_att_units(p)));
    log[i] = mul(p, load(p, p->sums.buf, p->sums.type, 1, plus(p, of_row, p->sums.col), TC_NONE), number(p, tc_att_units(p)));
    delta[i] = load(p, p->delta.buf, p->delta.type, 1, add(p->s, p->delta.at, times(p->s, rows[i], p->delta.stride)), TC_NONE);
  }
  for (steps x = steps_of(p, rows, b->k0, b->k1); next_steps(p, &x, to);)
    for (int i = 0; i < p->rows; i++) {
      tc_val here = plus(p, add(p->s, at, x.at), i * p->pitch), seen = seen_by(p, &x, i), v = load(p, b->weights, p->acc, STEP, here, TC_NONE);
      v = masked(p, v, rows[i], add(p->s, b->k0, x.at), &seen);
      v = only(p, seen, tc_att_power(p, sub(p->s, sub(p->s, v, greatest[i]), log[i])), 0);
      store(p, b->weights, here, v);
      if (!wants_slopes(p)) continue;
      tc_val g = sub(p->s, load(p, b->slopes, p->acc, STEP, here, TC_NONE), delta[i]);
      store(p, b->slopes, here, only(p, seen, mul(p, v, g), 0));
    }
}

// dq of a tile of rows: into the result where there is one block of keys, else added to the sums so far.
static void sum_queries(backward *b, tc_val row, tc_val at, tc_val count) {
  tc_att *p = b->p;
  int rows = (int)p->rows;
  for (panels x = {.columns = p->e}; next_panel(p, &x);) {
    tc_val acc[ROWS], so_far = TC_NONE;
    if (p->one_block) {
      clear(p, rows, x.lanes, acc);
    } else {
      so_far = add(p->s, times(p->s, add(p->s, times(p->s, b->head, ceil_to(p->l, p->rows) + p->rows), row), b->e), x.at);
      for (int i = 0; i < rows; i++) acc[i] = tc_emit_var(E, load(p, b->dq, p->acc, x.lanes, plus(p, so_far, i * b->e), TC_NONE));
    }
    multiply(p, rows, x.lanes, tile_side(p, b->slopes, at, p->pitch, 1), tile_side(p, b->keys, x.at, 0, b->e), i64(p->s, 0), count, acc);
    for (int i = 0; i < rows; i++) {
      tc_val r = plus(p, row, i);
      if (!p->one_block) {
        store(p, b->dq, plus(p, so_far, i * b->e), acc[i]);
        continue;
      }
      begin_if(p, tc_emit_bin(E, TC_N_LT, r, i64(p->s, p->f)));
      store_part(p, p->dq, tc_att_result_row(p, p->dq, p->s->at[TC_RANGE_A], r, p->hq, p->l, p->e), &x, mul(p, acc[i], p->scale));
      end_if(p);
    }
  }
}

// Adds the block of rows to the sums of `ROWS` keys: weights by dout, or slopes by queries.
static void sum_keys(backward *b, tc_val key, int factors, int rows, int sums, int64_t columns, int64_t pitch) {
  tc_att *p = b->p;
  tc_val first = i64(p->s, 0);
  if (p->causal) first = most(p, first, sub(p->s, sub(p->s, add(p->s, b->k0, key), p->first_seen), b->row0));
  for (panels x = {.columns = columns}; next_panel(p, &x);) {
    tc_val acc[ROWS], at = add(p->s, times(p->s, key, pitch), x.at);
    for (int i = 0; i < ROWS; i++) acc[i] = tc_emit_var(E, load(p, sums, p->acc, x.lanes, plus(p, at, i * pitch), TC_NONE));
    multiply(p, ROWS, x.lanes, tile_side(p, factors, key, 1, p->pitch), tile_side(p, rows, x.at, 0, pitch), first, b->n_rows, acc);
    for (int i = 0; i < ROWS; i++) store(p, sums, plus(p, at, i * pitch), acc[i]);
  }
}

static void backward_rows(backward *b) {
  tc_att *p = b->p;
  tc_val last = i64(p->s, p->f - 1), padded = times(p->s, tc_emit_bin(E, TC_N_DIV, plus(p, b->n_rows, p->rows - 1), i64(p->s, p->rows)), p->rows);
  pack_rows(p, &p->q, b->row0, padded, last, p->e, b->e, b->queries, i64(p->s, 0));
  pack_rows(p, &p->dout, b->row0, padded, last, p->ev, b->ev, b->douts, i64(p->s, 0));
  tc_val i = loop(p->s, i64(p->s, 0), b->n_rows, p->rows), row = add(p->s, b->row0, i), at = times(p->s, i, p->pitch);
  tc_val stop = p->causal ? least(p, b->k1, tc_att_limit(p, last_row(p, plus(p, row, p->rows)))) : b->k1, count = sub(p->s, stop, b->k0);
  with_panels(p, tile_side(p, b->queries, times(p->s, i, b->e), b->e, 1), b->key_panels, p->e, count, b->weights, at, NULL);
  if (wants_slopes(p)) with_panels(p, tile_side(p, b->douts, times(p->s, i, b->ev), b->ev, 1), b->value_panels, p->ev, count, b->slopes, at, NULL);
  slopes(b, row, at, count);
  if (p->dq != TC_NONE) sum_queries(b, row, at, count);
  end(p->s);
  if (p->dk == TC_NONE && p->dv == TC_NONE) return;
  tc_val key = loop(p->s, i64(p->s, 0), sub(p->s, b->k1, b->k0), ROWS);
  if (p->dv != TC_NONE) sum_keys(b, key, b->weights, b->douts, b->dv, p->ev, b->ev);
  if (p->dk != TC_NONE) sum_keys(b, key, b->slopes, b->queries, b->dk, p->e, b->e);
  end(p->s);
}

static void fill_zero(tc_att *p, int tile, int64_t n) {
  tc_val i = loop(p->s, i64(p->s, 0), i64(p->s, n), p->vector);
  store(p, tile, i, tc_emit_splat(E, number(p, 0), p->vector));
  end(p->s);
}

// Sums of a block of keys, or of all rows, to their result.
static void store_sums(backward *b, uint32_t node, int tile, tc_val tile_row, tc_val head, tc_val row, int64_t heads, int64_t rows, int64_t columns,
                       int64_t pitch, tc_val by) {
  tc_att *p = b->p;
  for (panels x = {.columns = columns}; next_panel(p, &x);) {
    tc_val v = load(p, tile, p->acc, x.lanes, add(p->s, times(p->s, tile_row, pitch), x.at), TC_NONE);
    store_part(p, node, tc_att_result_row(p, node, head, row, heads, rows, columns), &x, by == TC_NONE ? v : mul(p, v, by));
  }
}

static void enter_head(backward *b) {
  tc_att *p = b->p;
  p->s->at[TC_RANGE_A] = add(p->s, times(p->s, b->unit, p->group), b->head);
  p->q.at = tc_att_base(p, &p->q), p->dout.at = tc_att_base(p, &p->dout), p->sums.at = tc_att_base(p, &p->sums),
  p->delta.at = tc_att_base(p, &p->delta);
  if (p->has_mask) p->mask.at = tc_att_base(p, &p->mask);
}

static void backward_block(backward *b, tc_val key_end) {
  tc_att *p = b->p;
  tc_val zero = i64(p->s, 0), n_here = most(p, zero, sub(p->s, b->k1, b->k0));
  if (p->dk != TC_NONE) fill_zero(p, b->dk, (p->block + ROWS) * b->e);
  if (p->dv != TC_NONE) fill_zero(p, b->dv, (p->block + ROWS) * b->ev);
  turn_keys(p, &p->k, b->k0, b->k1, b->k0, b->k1, p->e, b->key_panels, tc_att_key_scale(p));
  if (wants_slopes(p)) turn_keys(p, &p->v, b->k0, b->k1, b->k0, b->k1, p->ev, b->value_panels, TC_NONE);
  if (p->dq != TC_NONE) pack_rows(p, &p->k, b->k0, n_here, plus(p, b->k1, -1), p->e, b->e, b->keys, i64(p->s, 0));
  b->head = loop(p->s, zero, i64(p->s, p->group), 1);
  enter_head(b);
  tc_val first = p->causal ? most(p, zero, sub(p->s, b->k0, p->first_seen)) : zero;
  if (p->one_block) first = zero;  // rows that see nothing get their zeros
  b->row0 = loop(p->s, first, i64(p->s, p->l), BLOCK_ROWS);
  b->n_rows = least(p, i64(p->s, BLOCK_ROWS), sub(p->s, i64(p->s, p->l), b->row0));
  backward_rows(b);
  end(p->s);
  end(p->s);
  tc_val key = loop(p->s, b->k0, key_end, 1), at = sub(p->s, key, b->k0);
  if (p->dk != TC_NONE) store_sums(b, p->dk, b->dk, at, b->unit, key, p->hkv, p->keys, p->e, b->e, p->scale);
  if (p->dv != TC_NONE) store_sums(b, p->dv, b->dv, at, b->unit, key, p->hkv, p->keys, p->ev, b->ev, TC_NONE);
  end(p->s);
}

static void backward_unit(backward *b) {
  tc_att *p = b->p;
  int64_t head_rows = ceil_to(p->l, p->rows) + p->rows;
  if (p->one_block) {
    b->k0 = i64(p->s, 0), b->k1 = p->n_keys;
    backward_block(b, i64(p->s, p->keys));
    return;
  }
  if (p->dq != TC_NONE) fill_zero(p, b->dq, p->group * head_rows * b->e);
  b->k0 = loop(p->s, i64(p->s, 0), i64(p->s, p->keys), p->block);
  tc_val stop = plus(p, b->k0, p->block);
  b->k1 = least(p, p->n_keys, stop);
  backward_block(b, least(p, stop, i64(p->s, p->keys)));
  end(p->s);
  if (p->dq == TC_NONE) return;
  tc_val head = loop(p->s, i64(p->s, 0), i64(p->s, p->group), 1), row = loop(p->s, i64(p->s, 0), i64(p->s, p->l), 1);
  store_sums(b, p->dq, b->dq, add(p->s, times(p->s, head, head_rows), row), add(p->s, times(p->s, b->unit, p->group), head), row, p->hq, p->l, p->e,
             b->e, p->scale);
  end(p->s);
  end(p->s);
}

static void backward_kernel(tc_att *p) {
  tc_ex *s = p->s;
  backward b = {.p = p, .e = packed_columns(p, p->e), .ev = packed_columns(p, p->ev)};
  int64_t keys = ceil_to(p->block, p->lanes), rows = BLOCK_ROWS + p->rows;
  b.key_panels = tc_ex_tile(s, p->acc, keys * panel_columns(p, p->e));
  if (wants_slopes(p)) b.value_panels = tc_ex_tile(s, p->acc, keys * panel_columns(p, p->ev));
  if (p->dq != TC_NONE) b.keys = tc_ex_tile(s, p->acc, p->block * b.e);
  b.queries = tc_ex_tile(s, p->acc, rows * b.e), b.douts = tc_ex_tile(s, p->acc, rows * b.ev);
  b.weights = tc_ex_tile(s, p->acc, rows * p->pitch);
  if (wants_slopes(p)) b.slopes = tc_ex_tile(s, p->acc, rows * p->pitch);
  if (p->dq != TC_NONE && !p->one_block) b.dq = tc_ex_tile(s, p->acc, p->group * (ceil_to(p->l, p->rows) + p->rows) * b.e);
  if (p->dk != TC_NONE) b.dk = tc_ex_tile(s, p->acc, (p->block + ROWS) * b.e);
  if (p->dv != TC_NONE) b.dv = tc_ex_tile(s, p->acc, (p->block + ROWS) * b.ev);
  tc_val begin = tc_emit_raw(E, TC_N_BEGIN, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  tc_val finish = tc_emit_raw(E, TC_N_FINISH, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  b.unit = loop(p->s, begin, finish, 1);
  s->at[TC_RANGE_A] = times(p->s, b.unit, p->group), s->bound[TC_RANGE_A] = true;
  p->k.at = tc_att_base(p, &p->k), p->v.at = tc_att_base(p, &p->v);
  backward_unit(&b);
  end(p->s);
  s->x->extent = p->n * p->hkv;
}

void tc_ex_attention(tc_ex *s) {
  tc_att at = {.s = s}, *p = &at;
  if (!tc_att_take(p)) return;
  choose_blocks(p);
  s->lanes = p->lanes, s->vector = -1;
  if (p->backward)
    backward_kernel(p);
  else
    forward_kernel(p);
  double products = p->backward ? 2.0 * (double)(3 * p->e + 2 * p->ev) : 2.0 * (double)(p->e + p->ev);
  double pairs = (double)(p->n * p->hq * p->l) * (double)p->keys * (p->causal && !p->has_length ? 0.5 : 1);
  s->x->work = pairs * (products / (p->step * (tc_compiler_vector_bytes() == 64 ? 150 : 70)) + 0.2) + 50;
}
