// Products: c[A, M, N] = sum over K of a[A, M, K] * b[A, K, N], with what follows elementwise applied to the finished values.
//
// [begin, end) counts units, a unit being some tiles of rows by some panels of columns of one batch (blocks.c chooses them):
//   for each chunk of K (one unless K is long):
//     pack: the unit's columns of b go to a tile of the worker, `lanes` columns a panel, where b is not read well in place
//     for each tile of rows, for each panel: rows x lanes accumulators in registers, over k
//     (rows of a that lie apart in k, or are of a narrower type, go to a tile too, some tiles of rows at a time; of large products all rows do, and each panel
//     serves some tiles before the next one)
//   what follows: straight from the registers where it is one store, else from memory, row by row
// With few rows, a b that lies along k is not packed: blocks of it are turned in registers and multiplied at once; one that lies along the columns streams
// by, with the sums of several panels in registers, or is read some rows of k at a time; in panels (panels.h), one tile of rows goes over it as one stream.
// b may be made of what lies in memory by cheap arithmetic, done where it is loaded or packed (prologue.h).
// f16 and bf16 are widened, once where they are packed, and multiplied as f32. Where the processor has a dot product of pairs of bf16 that is worth it
// (isa.def), a step of k is a pair instead: both factors are packed, or read where they lie, as words of two neighbours along k. A Xeon (Sapphire Rapids)
// starts one only every 2.3 cycles where it starts two multiply-adds a cycle, half as many products; a Zen 4 starts as many of the one as of the other,
// twice as many. It takes denormals for zeros, so TC_STRICT does without.
// Order: an element is one chain over k from zero, of pairs the second before the first, so its bits depend on no blocking, and on the instruction set only
// in whether it has a fused multiply-add and that dot product.
#include <limits.h>

#include "lowering/blocks.h"
#include "lowering/expand_short.h"
#include "lowering/factor.h"
#include "lowering/compiler.h"
#include "lowering/host.h"
#include "runtime/options.h"
#include "runtime/topology.h"

#define PACK_AHEAD 8  // rows of b that packing asks for ahead
#define PACKED_AHEAD 4  // rows of a packed panel asked for ahead, from the second-level cache: 3 % of a product of 512 to 4096 rows on a Xeon
// Of products of more rows packing is too little of the work. On a Zen 3 at one thread, times as fast as without: 16x768x3072 1.5, 48x768x3072 1.32, 64x1024x1024
// 1.16, 128x768x3072 1.07, 256x1024x1024 1.03, 512x512x512 1.0; on a Zen 4 at one thread and at two, 512x768x3072, 512x3072x768 and their turned ones 1.01 to
// 1.02 and 1.0, 1024x1024x1024 1.0.
#define ASKING_ROWS 512
#define WIDENED 16  // elements of a at a time, where its rows are widened
// Lines of each column of a b that is turned as it is multiplied, from one to what is asked for: without it such a product runs at half the bandwidth. On a
// Xeon at one thread, from the third-level cache, 1x4096x4096 in ms where 1, 2 and 4 lines are asked for: bytes, two blocks of columns, 1.3, 1.5 and 1.7,
// and one 1.8, 1.9 and 1.7; bf16 1.6, 1.9 and 2.1, and 1.7, 1.8 and 1.8; f32 2.9, 3.3 and 3.5, and 2.6, 2.7 and 2.7: columns a power of two apart take turns in
// one set of the first-level cache. 1x768x50257 of bf16 from memory, two blocks, at two threads: 2 lines 1.05 times as fast as 1.
#define TURN_AHEAD 2
// Rows of a streamed b that are read side by side, and bytes of it asked for ahead. On a Xeon at two threads, against sums kept in memory between chunks of 4
// rows: GPT-2 small decoding in bf16 1.15, a row at a time 1.05, 1.11 with 9 KiB ahead; 1x4096x4096, where rows lie a power of two apart, f32 1.1, bytes,
// scaled, 1.28, bf16 1; f32 and bf16 0.86 with 6 KiB ahead.
#define STREAM_ROWS 4
#define STREAM_AHEAD 4096

#define MOST_READ 4  // tensors that are asked for while a tile is multiplied

typedef struct product {
  tc_ex *s;
  uint32_t node;
  tc_type acc;  // type of the accumulators
  tc_extent3 of;  // k in steps
  int step;  // elements of k that a step is: 2 where pairs of bf16 are multiplied as words
  bool halves;  // b lies in words, whose halves are multiplied one after the other
  tc_type packed_type;  // of what is packed: the accumulators', or words
  tc_blocks by;
  bool fused;  // multiply-add in one rounding
  bool chunks;  // sums wait in memory between chunks of k
  bool direct;  // one store follows, in the accumulators' type
  int packed, packed_a, sums, turned;  // tiles
  int64_t a_pitch;  // elements of the packed or widened a for each row of its tiles
  tc_factor a, b;
  int n_read, read[MOST_READ];  // buffers with an element for each of the product, which what follows it reads from memory
} product;

// The present unit.
typedef struct unit {
  tc_val t0, t1, p0, p1;  // tiles of rows, panels
  tc_val row, end;  // rows; end: where their number is an argument, which has no tiles
  tc_val k0, k1;  // chunk
} unit;

// Rows from the first up to the last, in tiles of so many.
typedef struct tiles {
  int rows;
  tc_val first, last;
} tiles;
#define MOST_HEIGHTS 3  // of tiles

// ---- pieces of code ----

#define E (&p->s->e)

static int64_t size_of(const product *p) {
  return (int64_t)tc_type_bytes(p->acc);
}

// Lanes of one register.
static int vector_lanes(const product *p) {
  return TC_MIN(tc_compiler_vector_bytes() / (int)size_of(p), p->by.lanes);
}

static void enter_panel(product *p, tc_val panel) {
  tc_ex *s = p->s;
  s->at[TC_RANGE_K] = times(p->s, panel, p->by.lanes);
  s->mask = TC_NONE;
  if (p->of.n % p->by.lanes) tc_ex_set_mask(s, s->at[TC_RANGE_K], tc_ex_i64(s, p->of.n));
}

// b at row k and the present columns, of which v is what lies in memory, widened.
static tc_val made_of(product *p, tc_val k, tc_val v) {
  tc_ex *s = p->s;
  if (p->b.widened == TC_NONE || p->b.widened == p->b.node) return v;
  s->at[TC_RANGE_K0] = k, s->bound[TC_RANGE_K0] = true;
  v = tc_ex_made_from(s, p->b.node, p->b.position, p->b.widened, v);
  s->bound[TC_RANGE_K0] = false;
  return v;
}

// The present columns of b at element k, as in memory.
static tc_val load_columns(product *p, tc_val k) {
  tc_ex *s = p->s;
  tc_val at = add(p->s, add(p->s, p->b.at, times(p->s, k, p->b.row)), times(p->s, s->at[TC_RANGE_K], p->b.col));
  if (p->b.col == 1 || p->b.panel || s->lanes == 1) return tc_emit_raw(E, TC_N_LOAD, p->b.type, s->lanes, at, s->mask, TC_NONE, p->b.buf);
  at = add(p->s, times(p->s, tc_ex_lane_numbers(s), p->b.col), at);
  return tc_emit_raw(E, TC_N_GATHER, p->b.type, s->lanes, tc_emit_splat(E, at, s->lanes), s->mask, TC_NONE, p->b.buf);
}

// `lanes` columns of b at row k, from the present panel.
static tc_val load_b(product *p, tc_val k) {
  return made_of(p, k, tc_emit_cast(E, load_columns(p, k), p->acc));
}

static tc_val load_tile(product *p, int tile, tc_val at) {
  return tc_emit_raw(E, TC_N_LOAD, p->acc, p->by.lanes, at, TC_NONE, TC_NONE, tile);
}

static void store_tile(product *p, int tile, tc_val at, tc_val v) {
  (void)tc_emit_raw(E, TC_N_STORE, tc_emit_type(E, v), tc_emit_lanes(E, v), at, v, TC_NONE, tile);
}

static void prefetch(product *p, int buf, tc_val at) {
  tc_emit_prefetch(E, buf, at, false);
}

static int line_of(tc_type type) {
  return 64 / (int)tc_type_bytes(type);
}

// Asks for the present panel's part of row k of b, which lies along the columns; far: to the second-level cache.
static void ask_for_b(product *p, tc_val k, bool far) {
  tc_val at = add(p->s, add(p->s, p->b.at, times(p->s, k, p->b.row)), p->s->at[TC_RANGE_K]);
  for (int i = 0; i < p->by.lanes; i += line_of(p->b.type)) tc_emit_prefetch(E, p->b.buf, add(p->s, at, i64(p->s, i)), far);
}

// Asks for a row of a panel PACKED_AHEAD rows behind the one at `at`: it comes from the second-level cache.
static void ask_ahead_in_panel(product *p, int buf, tc_val at) {
  for (int i = 0; i < p->by.lanes; i += line_of(p->acc)) prefetch(p, buf, add(p->s, at, i64(p->s, PACKED_AHEAD * p->by.lanes + i)));
}

// Word k of the present panel where that lies in memory as words.
static tc_val load_words(product *p, tc_val k) {
  tc_val at = add(p->s, add(p->s, p->b.at, times(p->s, k, p->b.row)), times(p->s, p->s->at[TC_RANGE_K], p->b.col));
  if (p->by.tiles > 1) ask_ahead_in_panel(p, p->b.buf, at);
  return tc_emit_raw(E, TC_N_LOAD, TC_I32, p->by.lanes, at, TC_NONE, TC_NONE, p->b.buf);
}

// A row of a packed panel, which stays in the first-level cache where it serves tile after tile.
static tc_val load_packed(product *p, tc_val at) {
  if (!p->by.by_panel) ask_ahead_in_panel(p, p->packed, at);
  return tc_emit_raw(E, TC_N_LOAD, p->packed_type, p->by.lanes, at, TC_NONE, TC_NONE, p->packed);
}

// ---- packing ----

// Rows of b in a block of `size` columns that is turned: bf16 in pairs of rows and bytes in fours, which is so much less work.
static int turned_rows(const product *p, int size) {
  return tc_blocks_turned_as_one(p->b.type, p->acc) * size;
}

// Steps of k in it.
static int turned_steps(const product *p, int size) {
  return turned_rows(p, size) / p->step;
}

// Of a block's elements while it is turned.
static tc_type turned_type(const product *p) {
  return tc_blocks_turned_as_one(p->b.type, p->acc) > 1 ? TC_I32 : p->acc;
}

// What is asked for while columns of b are turned: where that of a panel's first column lies, and how far apart those of the columns are.
typedef struct asked {
  tc_val at;
  int64_t apart;
} asked;

static void ask_for(product *p, const asked *x, tc_val column) {
  tc_emit_prefetch(E, p->b.buf, add(p->s, x->at, times(p->s, column, x->apart)), true);
}

// A block of columns of b that lies along k, from step k and element `from` of its first column: read along k and turned. Its rows are made by turned_row.
static void load_turned(product *p, tc_val k, tc_val from, tc_val *v, int size, const asked *ask) {
  bool several = turned_rows(p, size) > size;
  from = add(p->s, from, times(p->s, k, p->step));
  for (int i = 0; i < size; i++) {
    tc_val at = add(p->s, from, i64(p->s, i * p->b.col));
    if (ask) ask_for(p, ask, i64(p->s, i));
    v[i] = tc_emit_raw(E, TC_N_LOAD, p->b.type, turned_rows(p, size), at, TC_NONE, TC_NONE, p->b.buf);
    v[i] = several ? tc_emit_raw(E, TC_N_BITCAST, TC_I32, size, v[i], TC_NONE, TC_NONE, 0) : tc_emit_cast(E, v[i], p->acc);
  }
  tc_emit_turn(E, v, size);
}

static tc_val int_op(product *p, tc_nest_op op, tc_val a, int64_t b) {
  return tc_emit_bin(E, op, a, tc_emit_const_i(E, TC_I32, b));
}

static tc_val float_of(product *p, tc_val bits) {
  return tc_emit_raw(E, TC_N_BITCAST, TC_F32, tc_emit_lanes(E, bits), bits, TC_NONE, TC_NONE, 0);
}

// Byte `at` of each word as a float. Or'd into one that ends in so many zeros it counts from there on, which is taken away again, exactly: one operation
// less than shifting the byte to its place and converting it. A signed byte counts from -128 where its sign is turned round.
static tc_val byte_of(product *p, tc_val word, int at) {
  int shift = 8 * (at % 2);
  bool is_signed = p->b.type == TC_I8;
  int64_t start = shift ? 0x47000000 : 0x4B000000;  // 2^15, 2^23
  if (at >= 2) word = int_op(p, TC_N_USHR, word, 16);
  tc_val bits = int_op(p, TC_N_XOR, int_op(p, TC_N_AND, word, 0xFF << shift), start | (is_signed ? 0x80 << shift : 0));
  return tc_emit_bin(E, TC_N_SUB, float_of(p, bits), tc_emit_const_f(E, TC_F32, (shift ? 0x1p15 : 0x1p23) + (is_signed ? 128 : 0)));
}

// Half i of each word, a bf16, as a float, of which that is the upper half.
static tc_val half_of(product *p, tc_val word, int i) {
  return float_of(p, i ? int_op(p, TC_N_AND, word, -0x10000) : int_op(p, TC_N_SHL, word, 16));
}

// Row i of those that v, a vector of a turned block, holds.
static tc_val turned_row(product *p, tc_val v, int i) {
  switch (tc_blocks_turned_as_one(p->b.type, p->acc)) {
    case 2: return half_of(p, v, i);
    case 4: return byte_of(p, v, i);
    default: return v;
  }
}

// The last k up to which rows k0 to k1 are whole blocks of `size`.
static tc_val whole_rows(product *p, tc_val k0, tc_val k1, int size) {
  return sub(p->s, k1, tc_emit_bin(E, TC_N_REM, sub(p->s, k1, k0), i64(p->s, size)));
}

// Step k + i of the block v, which begins at step k.
static tc_val turned_step(product *p, const tc_val *v, tc_val k, int i) {
  int as_one = tc_blocks_turned_as_one(p->b.type, p->acc);
  tc_val row[2];
  if (p->step > 1 && p->b.widened == TC_NONE) return v[i];
  for (int j = 0; j < p->step; j++) {
    int at = i * p->step + j;
    row[j] = made_of(p, add(p->s, times(p->s, k, p->step), i64(p->s, at)), turned_row(p, v[at / as_one], at % as_one));
  }
  return p->step > 1 ? tc_emit_words(E, row[0], row[1]) : row[0];
}

// The unit's panels up to p1, which are whole, turned up to row k1. All columns of a panel at once: so many rows of memory are read side by side that
// waiting for one does not hold up the others.
static void pack_turned(product *p, const unit *u, tc_val p1, tc_val k1, int size) {
  int lanes = p->by.lanes, steps = turned_steps(p, size);
  tc_val v[64], panel = loop(p->s, u->p0, p1, 1);
  tc_val to = times(p->s, sub(p->s, panel, u->p0), p->by.chunk * lanes), from = add(p->s, p->b.at, times(p->s, panel, lanes * p->b.col));
  tc_val k = loop(p->s, u->k0, k1, steps), row = add(p->s, to, times(p->s, sub(p->s, k, u->k0), lanes));
  tc_val column = loop(p->s, i64(p->s, 0), i64(p->s, lanes), size);
  load_turned(p, k, add(p->s, from, times(p->s, column, p->b.col)), v, size, NULL);
  p->s->lanes = size, p->s->at[TC_RANGE_K] = add(p->s, times(p->s, panel, lanes), column);
  for (int i = 0; i < steps; i++) {
    store_tile(p, p->packed, add(p->s, add(p->s, row, column), i64(p->s, i * lanes)), turned_step(p, v, k, i));
  }
  p->s->lanes = lanes;
  end(p->s);
  end(p->s);
  end(p->s);
}

// Rows k0 to k1 of panels p0 to p1, a row at a time: along the columns, as they lie in memory.
static void pack_rows(product *p, const unit *u, tc_val p0, tc_val p1, tc_val k0, tc_val k1, bool cut) {
  tc_ex *s = p->s;
  int lanes = p->by.lanes;
  tc_val k = loop(p->s, k0, k1, 1), to = times(p->s, sub(p->s, k, u->k0), lanes);
  tc_val panel = loop(p->s, p0, p1, 1);
  enter_panel(p, panel);
  if (!cut) s->mask = TC_NONE;
  if (p->b.col == 1 && !cut) ask_for_b(p, add(p->s, k, tc_ex_i64(s, PACK_AHEAD)), false);
  tc_val v = load_b(p, k);
  store_tile(p, p->packed, add(p->s, to, times(p->s, sub(p->s, panel, u->p0), p->by.chunk * lanes)), v);
  end(p->s);
  end(p->s);
}

// The same of pairs. Nests have no vectors of more than 64 lanes, of which the two rows of 32 columns are one.
static void pack_pairs(product *p, const unit *u, tc_val p0, tc_val p1, tc_val k0, tc_val k1, bool cut) {
  tc_ex *s = p->s;
  int lanes = p->by.lanes, width = TC_MIN(lanes, 32);
  tc_val k = loop(p->s, k0, k1, 1), to = times(p->s, sub(p->s, k, u->k0), lanes), first = times(p->s, k, 2), second = add(p->s, first, i64(p->s, 1));
  tc_val panel = loop(p->s, p0, p1, 1);
  to = add(p->s, to, times(p->s, sub(p->s, panel, u->p0), p->by.chunk * lanes));
  enter_panel(p, panel);
  if (p->b.col == 1 && !cut)
    for (int i = 0; i < 2; i++) ask_for_b(p, add(p->s, first, i64(p->s, PACK_AHEAD + i)), false);
  s->lanes = width;
  for (int from = 0; from < lanes; from += width) {
    s->at[TC_RANGE_K] = add(p->s, times(p->s, panel, lanes), i64(p->s, from)), s->mask = TC_NONE;
    if (cut) tc_ex_set_mask(s, s->at[TC_RANGE_K], i64(p->s, p->of.n));
    bool plain = p->b.widened == TC_NONE;
    tc_val v = plain ? load_columns(p, first) : load_b(p, first), w = plain ? load_columns(p, second) : load_b(p, second);
    store_tile(p, p->packed, add(p->s, to, i64(p->s, from)), tc_emit_words(E, v, w));
  }
  s->lanes = lanes;
  end(p->s);
  end(p->s);
}

static void pack_as_read(product *p, const unit *u, tc_val p0, tc_val p1, tc_val k0, tc_val k1, bool cut) {
  if (p->step > 1)
    pack_pairs(p, u, p0, p1, k0, k1, cut);
  else
    pack_rows(p, u, p0, p1, k0, k1, cut);
}

static void pack(product *p, const unit *u) {
  int size = vector_lanes(p);
  tc_val whole = tc_emit_bin(E, TC_N_MAX, u->p0, tc_emit_bin(E, TC_N_MIN, u->p1, i64(p->s, p->of.n / p->by.lanes))), k = u->k0;
  if (p->b.row == 1 && size >= 4) {
    k = whole_rows(p, u->k0, u->k1, turned_steps(p, size));
    pack_turned(p, u, whole, k, size);
  }
  pack_as_read(p, u, u->p0, whole, k, u->k1, false);
  if (p->of.n % p->by.lanes) pack_as_read(p, u, whole, u->p1, u->k0, u->k1, true);
}

static int power_of_two(int n) {
  int k = 1;
  while (k < n) k *= 2;
  return k;
}

// The tile of a whose first row is `row` after those at `from`, `rows` rows at one k, goes to `to`. What is written beyond them is written over by the next
// k, or is padding.
static void pack_a_tile(product *p, int rows, tc_val from, tc_val to, tc_val row, tc_val mask) {
  tc_val v[2];
  for (int i = 0; i < p->step; i++)
    v[i] =
        tc_emit_raw(E, TC_N_LOAD, p->a.type, power_of_two(rows), add(p->s, add(p->s, from, row), i64(p->s, i * p->a.col)), mask, TC_NONE, p->a.buf);
  store_tile(p, p->packed_a, add(p->s, to, times(p->s, row, p->a_pitch)), p->step > 1 ? tc_emit_words(E, v[0], v[1]) : tc_emit_cast(E, v[0], p->acc));
}

// Rows `row` to `last` of a in tiles of `rows`: at each k those of a tile side by side. Where all that are packed at a time are there, without a loop.
static void pack_a(product *p, int rows, tc_val row, tc_val last, const unit *u) {
  tc_ex *s = p->s;
  int lanes = power_of_two(rows), all = (int)p->by.a_tiles * rows;
  tc_val numbers = tc_emit_raw(E, TC_N_LANES, TC_I64, lanes, TC_NONE, TC_NONE, TC_NONE, 0), many = sub(p->s, last, row);
  tc_val inside = tc_emit_bin(E, TC_N_LE, add(p->s, row, tc_ex_i64(s, all - rows + lanes)), tc_ex_i64(s, p->of.m));
  inside = tc_emit_bin(E, TC_N_AND, inside, tc_emit_bin(E, TC_N_EQ, many, tc_ex_i64(s, all)));
  for (int part = 0; part < 2; part++) {
    (void)tc_emit_raw(E, TC_N_IF, TC_BOOL, 1, part ? tc_emit_un(E, TC_N_NOT, inside) : inside, TC_NONE, TC_NONE, 0);
    tc_val k = loop(p->s, u->k0, u->k1, 1);
    tc_val from = add(p->s, add(p->s, p->a.at, row), times(p->s, k, p->step * p->a.col)), to = times(p->s, sub(p->s, k, u->k0), rows);
    if (part == 0) {
      for (int j = 0; j < p->step; j++)
        for (int i = 0; i < all + line_of(p->a.type); i += line_of(p->a.type))
          prefetch(p, p->a.buf, add(p->s, from, tc_ex_i64(s, (PACK_AHEAD + j) * p->a.col + i)));
      for (int i = 0; i < all; i += rows) pack_a_tile(p, rows, from, to, tc_ex_i64(s, i), TC_NONE);
    } else {
      tc_val i = loop(p->s, tc_ex_i64(s, 0), many, rows);
      pack_a_tile(p, rows, from, to, i, tc_emit_bin(E, TC_N_LT, numbers, sub(p->s, tc_ex_i64(s, p->of.m), add(p->s, row, i))));
      end(p->s);
    }
    end(p->s);
    tc_emit_end(E, TC_N_ENDIF);
  }
}

// Rows `row` to `last` of a, each along k as in memory, in the accumulators' type or as words.
static void widen_a(product *p, tc_val row, tc_val last, const unit *u) {
  tc_ex *s = p->s;
  tc_val many = sub(p->s, u->k1, u->k0), whole = sub(p->s, many, tc_emit_bin(E, TC_N_REM, many, tc_ex_i64(s, WIDENED)));
  tc_val i = loop(p->s, row, last, 1), to = times(p->s, sub(p->s, i, row), p->a_pitch);
  tc_val from = add(p->s, add(p->s, p->a.at, times(p->s, i, p->a.row)), times(p->s, u->k0, p->step));
  for (int lanes = WIDENED; lanes >= 1; lanes /= WIDENED) {
    tc_val k = loop(p->s, lanes == 1 ? whole : tc_ex_i64(s, 0), lanes == 1 ? many : whole, lanes);
    tc_val at = add(p->s, from, times(p->s, k, p->step)), v;
    if (p->step > 1)
      v = tc_emit_load_words(E, p->a.buf, at, lanes, TC_NONE);
    else
      v = tc_emit_cast(E, tc_emit_raw(E, TC_N_LOAD, p->a.type, lanes, at, TC_NONE, TC_NONE, p->a.buf), p->acc);
    store_tile(p, p->packed_a, add(p->s, to, k), v);
    end(p->s);
  }
  end(p->s);
}

// ---- what follows ----

// What follows the product, at the present panel and one row. What it reads, unless that is asked for as the tile is multiplied (find_read), is asked for where the
// tile above ends: in a step of GPT-2's training 2 % of the time.
static void finish_row(product *p, tc_val row, tc_val sum) {
  tc_ex *s = p->s;
  tc_ex_enter(s);
  s->at[TC_RANGE_F] = row;
  tc_ex_remember(s, p->node, tc_ex_rounded(s, sum, s->g->node[p->node].type));
  s->stream = s->lanes == p->by.lanes && p->of.n % 64 == 0;  // then lines are whole and begin where rows do
  if (!p->n_read) s->ahead = p->by.rows * p->of.n, s->far = true, s->asks = INT_MAX;
  tc_ex_stores(s);
  s->stream = false, s->ahead = 0, s->far = false;
  tc_ex_leave(s);
}

static void finish_rows(product *p, tc_val row, int rows, tc_val sums) {
  tc_val i = loop(p->s, i64(p->s, 0), i64(p->s, rows), 1);
  finish_row(p, add(p->s, row, i), load_tile(p, p->sums, add(p->s, sums, times(p->s, i, p->by.lanes))));
  end(p->s);
}

// ---- multiplying ----

// The index's value where the range has this one.
static tc_val at_range(product *p, const tc_index *x, uint8_t range, tc_val value) {
  tc_ex *s = p->s;
  tc_val vec, outer = s->at[range];
  int64_t stride;
  bool bound = s->bound[range];
  s->at[range] = value, s->bound[range] = true;
  tc_val at = tc_ex_index_value(s, *x, &stride, &vec);
  s->at[range] = outer, s->bound[range] = bound;
  return at;
}

// The rows being multiplied: where they are, and where their sums wait.
typedef struct rows_at {
  int n;
  tc_val row, packed, sums;  // the first; its tile among the packed ones; its sums
  tc_val k0;  // at which the packed ones begin
  tc_val ahead;  // where b is asked for as they are multiplied, or TC_NONE
  tc_val next;  // likewise of the next chunk, a row of b a turn of the innermost loop
} rows_at;

// Where row i of them begins, in memory or among the packed.
static tc_val row_of_a(product *p, const rows_at *r, int i) {
  tc_val constant = i64(p->s, i);
  if (p->by.widen_a) return add(p->s, r->packed, i64(p->s, i * p->a_pitch));
  if (p->by.pack_a) return add(p->s, r->packed, constant);
  if (p->a.scattered) return add(p->s, p->a.at, at_range(p, &p->a.rows, TC_RANGE_F, add(p->s, r->row, constant)));
  return add(p->s, add(p->s, p->a.at, times(p->s, r->row, p->a.row)), i64(p->s, i * p->a.row));
}

// How far from there k is.
static tc_val in_row_of_a(product *p, const rows_at *r, tc_val k) {
  if (p->by.pack_a || p->by.widen_a) return times(p->s, sub(p->s, k, r->k0), p->by.pack_a ? r->n : 1);
  return times(p->s, k, p->step * p->a.col);
}

static tc_val load_a(product *p, tc_val at) {
  if (p->by.pack_a || p->by.widen_a) return tc_emit_raw(E, TC_N_LOAD, p->packed_type, 1, at, TC_NONE, TC_NONE, p->packed_a);
  if (p->step > 1) return tc_emit_load_words(E, p->a.buf, at, 1, TC_NONE);
  return tc_emit_cast(E, tc_emit_raw(E, TC_N_LOAD, p->a.type, 1, at, TC_NONE, TC_NONE, p->a.buf), p->acc);
}

static tc_val multiply_add(product *p, tc_val a, tc_val b, tc_val sum) {
  if (p->step > 1) return tc_emit_dot(E, a, b, sum);
  return p->fused ? tc_emit_fma(E, a, b, sum) : add(p->s, sum, tc_emit_bin(E, TC_N_MUL, a, b));
}

static tc_val sums_of(product *p, const rows_at *r, int i) {
  return add(p->s, r->sums, i64(p->s, i * p->by.lanes));
}

// Elements of the next panel that a tile of rows asks for at each k: the unit's tiles ask for all of it. Read when it is needed, a panel would hold up
// the first tile; so it comes while this one is multiplied.
static int64_t share_of(const product *p) {
  return tc_ceil_div(p->by.lanes, p->by.unit_tiles);
}

// Row k of b at the present panel, as it is multiplied. word: of which two rows are halves, the first at an even k.
static tc_val row_of_b(product *p, const unit *u, tc_val panel, tc_val k, bool even, tc_val *word) {
  if (p->by.pack) {
    tc_val packed = times(p->s, sub(p->s, panel, u->p0), p->by.chunk * p->by.lanes);
    return load_packed(p, add(p->s, packed, times(p->s, sub(p->s, k, u->k0), p->by.lanes)));
  }
  if (!p->b.words) return load_b(p, k);
  if (!p->halves || even) *word = load_words(p, k);
  return p->halves ? half_of(p, *word, !even) : *word;
}

// Adds row k of b to the accumulators. a: where each row of a begins; in_a: how far from there k is.
static void accumulate_row(product *p, const rows_at *r, const unit *u, tc_val w, tc_val k, const tc_val *a, tc_val in_a, tc_val *acc) {
  if (p->by.once && p->chunks && p->b.col == 1) ask_for_b(p, add(p->s, k, i64(p->s, p->by.chunk)), true);
  if (r->ahead != TC_NONE) prefetch(p, p->b.buf, add(p->s, r->ahead, times(p->s, sub(p->s, k, u->k0), share_of(p))));
  if (p->by.ask_apart) tc_emit_prefetch(E, p->a.buf, add(p->s, add(p->s, a[0], in_a), i64(p->s, 2 * r->n - 1)), true);
  for (int i = 0; i < r->n; i++) tc_emit_set(E, acc[i], multiply_add(p, load_a(p, add(p->s, a[i], in_a)), w, acc[i]));
}

// Pieces of memory, of so many lines, so many elements apart.
typedef struct pieces_of {
  int64_t n, lines, apart;
} pieces_of;

// Asks for the part of the pieces from `from` on that falls to a turn of the innermost loop, at step k: line by line, piece after piece, to the second-level
// cache.
static void ask_by_turns(product *p, const tc_factor *f, const pieces_of *x, tc_val from, const unit *u, tc_val k) {
  int64_t a_turn = tc_ceil_div(x->n * x->lines, tc_ceil_div(p->by.chunk, p->by.unroll));
  tc_val turn = tc_emit_bin(E, TC_N_DIV, sub(p->s, k, u->k0), i64(p->s, p->by.unroll));
  for (int i = 0; i < a_turn; i++) {
    tc_val line = add(p->s, times(p->s, turn, a_turn), i64(p->s, i));
    tc_val piece = tc_emit_bin(E, TC_N_DIV, line, i64(p->s, x->lines)), in_piece = tc_emit_bin(E, TC_N_REM, line, i64(p->s, x->lines));
    tc_val at = add(p->s, times(p->s, piece, x->apart), times(p->s, in_piece, line_of(f->type)));
    tc_emit_prefetch(E, f->buf, add(p->s, from, at), true);
  }
}

// Asks for the next tile's rows of a.
static void ask_for_rows(product *p, const rows_at *r, const unit *u, tc_val k) {
  pieces_of rows = {r->n, tc_ceil_div(p->by.chunk * p->step, line_of(p->a.type)), p->a.row};
  ask_by_turns(p, &p->a, &rows, add(p->s, row_of_a(p, r, r->n), times(p->s, u->k0, p->step)), u, k);
}

// What of the panel that is packed next falls to a tile of rows: rows of b, or columns of one that lies along k. On a Zen 4 at one thread, times as fast as one
// line of each row to the first-level cache: 13x4096x4096 1.2, 16x4096x11008 1.3, 32x4096x4096 1.13, bf16 1.25; as fast as without of b along k: 32x4096x4096
// 1.39, bf16 1.25, 48x768x3072 1.13, 128x768x3072 1.08.
static pieces_of next_pieces(const product *p) {
  int line = line_of(p->b.type);
  int64_t rows = p->step * p->by.chunk, columns = p->by.lanes, shares = p->by.unit_tiles;
  if (p->b.col == 1) return (pieces_of){tc_ceil_div(rows, shares), tc_ceil_div(columns, line), p->b.row};
  return (pieces_of){tc_ceil_div(columns, shares), tc_ceil_div(rows, line), p->b.col};
}

// Asks for what follows the next tile of rows will read, a line of each tensor at a time and evenly over the turns of the innermost loop, to the second-level cache.
static void ask_for_read(product *p, const rows_at *r, const unit *u, tc_val k) {
  tc_ex *s = p->s;
  int64_t turns = tc_ceil_div(p->of.k, p->by.unroll), line = 64 / size_of(p), lines = tc_ceil_div(p->by.lanes, line);
  tc_val turn = tc_emit_bin(E, TC_N_DIV, sub(s, k, u->k0), i64(s, p->by.unroll));
  tc_val at = tc_emit_bin(E, TC_N_DIV, times(s, turn, r->n * lines), i64(s, turns));
  tc_val row = add(s, add(s, r->row, i64(s, r->n)), tc_emit_bin(E, TC_N_DIV, at, i64(s, lines)));
  row = add(s, times(s, s->at[TC_RANGE_A], p->of.m), row);
  at = add(s, add(s, times(s, row, p->of.n), s->at[TC_RANGE_K]), times(s, tc_emit_bin(E, TC_N_REM, at, i64(s, lines)), line));
  for (int i = 0; i < p->n_read; i++) tc_emit_prefetch(E, p->read[i], at, true);
}

// Adds k0 to k1 to the accumulators.
static void accumulate(product *p, const rows_at *r, const unit *u, tc_val panel, tc_val *acc) {
  tc_ex *s = p->s;
  tc_val a[32], segment = TC_NONE, in_a = TC_NONE, word = TC_NONE, k;
  bool pieces = p->a.segment < p->of.k;
  for (int i = 0; i < r->n; i++) a[i] = row_of_a(p, r, i);
  if (pieces) {
    segment = loop(p->s, u->k0, u->k1, p->a.segment);
    in_a = at_range(p, &p->a.segments, TC_RANGE_K0, times(s, segment, p->step));
    k = loop(p->s, segment, add(p->s, segment, tc_ex_i64(s, p->a.segment)), p->by.unroll);
    in_a = add(p->s, in_a, times(p->s, sub(p->s, k, segment), p->step * p->a.col));
  } else {
    k = loop(p->s, u->k0, u->k1, p->by.unroll);
  }
  if (r->next != TC_NONE) {
    pieces_of next = next_pieces(p);
    ask_by_turns(p, &p->b, &next, r->next, u, k);
  }
  if (p->by.ask_a) ask_for_rows(p, r, u, k);
  if (p->n_read) ask_for_read(p, r, u, k);
  for (int i = 0; i < p->by.unroll; i++) {
    tc_val row = add(p->s, k, tc_ex_i64(s, i)), w = row_of_b(p, u, panel, row, i % 2 == 0, &word);
    accumulate_row(p, r, u, w, row, a, pieces ? add(p->s, in_a, tc_ex_i64(s, i * p->step * p->a.col)) : in_row_of_a(p, r, row), acc);
  }
  end(p->s);
  if (pieces) end(p->s);
}

// rows x lanes elements, at the present panel. so_far: whether their sums so far are in memory; TC_NONE: no.
static void multiply(product *p, const rows_at *r, const unit *u, tc_val panel, tc_val so_far) {
  tc_ex *s = p->s;
  tc_val acc[32], zero = tc_emit_splat(E, tc_emit_const_f(E, p->acc, 0), p->by.lanes);
  for (int i = 0; i < r->n; i++) acc[i] = tc_emit_var(E, zero);
  if (so_far != TC_NONE) {
    (void)tc_emit_raw(E, TC_N_IF, TC_BOOL, 1, so_far, TC_NONE, TC_NONE, 0);
    for (int i = 0; i < r->n; i++) tc_emit_set(E, acc[i], load_tile(p, p->sums, sums_of(p, r, i)));
    tc_emit_end(E, TC_N_ENDIF);
  }
  accumulate(p, r, u, panel, acc);
  if (p->direct) {
    for (int i = 0; i < r->n; i++) finish_row(p, add(p->s, r->row, tc_ex_i64(s, i)), acc[i]);
    return;
  }
  for (int i = 0; i < r->n; i++) store_tile(p, p->sums, sums_of(p, r, i), acc[i]);
  if (p->chunks) (void)tc_emit_raw(E, TC_N_IF, TC_BOOL, 1, tc_emit_bin(E, TC_N_EQ, u->k1, tc_ex_i64(s, p->of.k)), TC_NONE, TC_NONE, 0);
  finish_rows(p, r->row, r->n, r->sums);
  if (p->chunks) tc_emit_end(E, TC_N_ENDIF);
}

// What the tiles of a unit share at a panel: the sums' place in a tile of rows, and whether there are any yet.
static void multiply_panel(product *p, rows_at r, const unit *u, tc_val panel) {
  tc_ex *s = p->s;
  tc_val so_far = p->chunks ? tc_emit_bin(E, TC_N_NE, u->k0, tc_ex_i64(s, 0)) : TC_NONE;
  if (p->chunks) {
    int64_t row = p->by.by_panel ? p->by.lanes : p->by.unit_panels * p->by.lanes;
    int64_t column = p->by.by_panel ? p->by.unit_tiles * p->by.rows * p->by.lanes : (int64_t)r.n * p->by.lanes;
    r.sums = add(p->s, times(p->s, sub(p->s, r.row, u->row), row), times(p->s, sub(p->s, panel, u->p0), column));
  }
  multiply(p, &r, u, panel, so_far);
}

// What is packed next, of the next chunk or of the next unit's columns, is asked for while this is multiplied, each tile of rows its pieces. Where those
// begin for the tile and the present panel; TC_NONE: nothing is asked for.
static tc_val next_of(product *p, const rows_at *r, const unit *u) {
  bool rows = p->b.col == 1, columns = p->b.row == 1 && !p->b.panel;
  if (!p->by.pack || p->by.by_panel || !(rows || columns) || p->of.m > ASKING_ROWS || p->s->units) return TC_NONE;
  tc_val tile = tc_emit_bin(E, TC_N_DIV, sub(p->s, r->row, u->row), i64(p->s, r->n)), first = times(p->s, tile, next_pieces(p).n);
  tc_val row = times(p->s, p->chunks ? u->k1 : u->k0, p->step);
  tc_val column = add(p->s, p->s->at[TC_RANGE_K], i64(p->s, p->chunks ? 0 : p->by.unit_panels * p->by.lanes));
  if (rows)
    row = add(p->s, row, first);
  else
    column = add(p->s, column, first);
  return add(p->s, p->b.at, add(p->s, times(p->s, row, p->b.row), times(p->s, column, p->b.col)));
}

// Tiles `from` to `to`, all of `rows` rows, the first of which is at tile * rows + before.
static tiles tiles_at(product *p, int rows, int64_t before, tc_val from, tc_val to) {
  tc_val constant = i64(p->s, before);
  return (tiles){rows, add(p->s, times(p->s, from, rows), constant), add(p->s, times(p->s, to, rows), constant)};
}

// The unit's rows. Where their number is an argument: as many whole tiles as there are, then of half as many rows, then rows. Returns how many.
static int tiles_of(product *p, const unit *u, tiles *of) {
  int n = 0;
  if (!p->s->units) {
    tc_val tall = i64(p->s, p->by.tall);
    of[n++] = tiles_at(p, p->by.rows, 0, u->t0, tc_emit_bin(E, TC_N_MIN, u->t1, tall));
    if (p->by.tall < p->by.tiles) of[n++] = tiles_at(p, p->by.rows - 1, p->by.tall, tc_emit_bin(E, TC_N_MAX, u->t0, tall), u->t1);
    return n;
  }
  const int heights[MOST_HEIGHTS] = {p->by.rows, p->by.rows / 2, 1};
  tc_val from = u->row;
  for (int i = 0; i < MOST_HEIGHTS; i++) {
    int rows = heights[i];
    if (rows < 1 || (n > 0 && rows == of[n - 1].rows)) continue;
    tc_val to = rows == 1 ? u->end : sub(p->s, u->end, tc_emit_bin(E, TC_N_REM, sub(p->s, u->end, from), i64(p->s, rows)));
    of[n++] = (tiles){rows, from, to};
    from = to;
  }
  return n;
}

// Tiles: each over the unit's panels, or each panel over those that are there.
static void multiply_tiles(product *p, const tiles *t, const unit *u) {
  tc_ex *s = p->s;
  int rows = t->rows;
  tc_val first = t->first, last = t->last;
  bool packs = p->by.pack_a || p->by.widen_a;
  if (packs) {
    first = loop(p->s, first, last, p->by.a_tiles * rows);
    last = tc_emit_bin(E, TC_N_MIN, last, add(p->s, first, tc_ex_i64(s, p->by.a_tiles * rows)));
  }
  if (p->by.pack_a) pack_a(p, rows, first, last, u);
  if (p->by.widen_a) widen_a(p, first, last, u);
  rows_at r = {.n = rows, .sums = tc_ex_i64(s, 0), .k0 = u->k0, .ahead = TC_NONE, .next = TC_NONE};
  if (!p->by.by_panel) r.row = loop(p->s, first, last, rows);
  tc_val panel = loop(p->s, u->p0, u->p1, 1);
  enter_panel(p, panel);
  if (p->by.by_panel) r.row = loop(p->s, first, last, rows);
  if (packs) r.packed = times(p->s, sub(p->s, r.row, first), p->a_pitch);
  r.next = next_of(p, &r, u);
  multiply_panel(p, r, u, panel);
  end(p->s);
  end(p->s);
  if (packs) end(p->s);
}

// The same tiles at one panel, of a b that lies in panels.
static void multiply_rows(product *p, const tiles *t, const unit *u, tc_val panel) {
  tc_ex *s = p->s;
  rows_at r = {.n = t->rows, .row = loop(p->s, t->first, t->last, t->rows), .sums = tc_ex_i64(s, 0), .ahead = TC_NONE, .next = TC_NONE};
  if (p->by.tiles == 1) {  // one stream over the unit's panels, which the processor follows
    multiply_panel(p, r, u, panel);
    end(p->s);
    return;
  }
  tc_val tile = tc_emit_bin(E, TC_N_DIV, sub(p->s, r.row, u->row), tc_ex_i64(s, t->rows));
  tc_val next = add(p->s, p->b.at, times(p->s, add(p->s, panel, tc_ex_i64(s, 1)), p->by.lanes * p->b.col));
  r.ahead = add(p->s, add(p->s, next, times(p->s, u->k0, p->b.row)), times(p->s, tile, p->by.chunk * share_of(p)));
  multiply_panel(p, r, u, panel);
  end(p->s);
}

// Panel by panel, each of which stays in the cache for all the unit's rows.
static void multiply_panels(product *p, const unit *u) {
  tiles of[MOST_HEIGHTS];
  tc_val panel = loop(p->s, u->p0, u->p1, 1);
  enter_panel(p, panel);
  int n = tiles_of(p, u, of);
  for (int i = 0; i < n; i++) multiply_rows(p, &of[i], u, panel);
  end(p->s);
}

// ---- few rows, and b along the columns, streamed ----

// Whether two neighbours along the columns of b, of bf16, are widened as one word: the lower by a shift, the upper by a mask.
static bool in_words(const product *p) {
  return p->b.type == TC_BF16 && p->acc == TC_F32 && (p->b.widened == TC_NONE || p->b.widened == p->b.node) && p->by.lanes >= 4;
}

// How far from row k what is asked for lies: further down, or at the top of the next panels.
static tc_val stream_ahead(product *p, tc_val k) {
  int64_t bytes = p->by.stream * p->by.lanes * (int64_t)tc_type_bytes(p->b.type);
  int64_t rows = TC_MIN(tc_ceil_div(tc_ceil_div(STREAM_AHEAD, bytes), STREAM_ROWS) * STREAM_ROWS, p->of.k);
  tc_val here = i64(p->s, rows * p->b.row), next = i64(p->s, (rows - p->of.k) * p->b.row + p->by.stream * p->by.lanes);
  return tc_emit_select(E, tc_emit_bin(E, TC_N_LT, add(p->s, k, i64(p->s, rows)), i64(p->s, p->of.k)), here, next);
}

// Adds `rows` rows from k on to the sums, panel by panel, of each panel all rows: so memory is read at several places by turns, which it is faster at.
static void stream_rows(product *p, const rows_at *r, tc_val panel, tc_val k, int rows, tc_val *acc) {
  tc_ex *s = p->s;
  int lanes = p->by.lanes, line = line_of(p->b.type), parts = in_words(p) ? 2 : 1;
  tc_val a[STREAM_ROWS][32], ahead = stream_ahead(p, k), first = times(p->s, panel, lanes), w[2];
  for (int j = 0; j < rows; j++)
    for (int i = 0; i < r->n; i++) a[j][i] = load_a(p, add(p->s, row_of_a(p, r, i), in_row_of_a(p, r, add(p->s, k, tc_ex_i64(s, j)))));
  for (int g = 0; g < p->by.stream; g++) {
    s->at[TC_RANGE_K] = add(p->s, first, tc_ex_i64(s, g * lanes));
    for (int j = 0; j < rows; j++) {
      tc_val row = add(p->s, k, tc_ex_i64(s, j)), at = add(p->s, add(p->s, p->b.at, times(p->s, row, p->b.row)), s->at[TC_RANGE_K]);
      for (int i = 0; i < lanes; i += line) prefetch(p, p->b.buf, add(p->s, add(p->s, at, ahead), tc_ex_i64(s, i)));
      if (parts == 2) {
        tc_val word = tc_emit_raw(E, TC_N_LOAD, TC_BF16, lanes, at, TC_NONE, TC_NONE, p->b.buf);
        word = tc_emit_raw(E, TC_N_BITCAST, TC_I32, lanes / 2, word, TC_NONE, TC_NONE, 0);
        for (int half = 0; half < 2; half++) w[half] = turned_row(p, word, half);
      } else {
        w[0] = load_b(p, row);
      }
      for (int i = 0; i < r->n * parts; i++) {
        tc_val sum = acc[g * r->n * parts + i];
        tc_emit_set(E, sum, multiply_add(p, a[j][i / parts], w[i % parts], sum));
      }
    }
  }
}

// The panels from `panel` on whose sums are in registers together, over all of k.
static void multiply_stream(product *p, const rows_at *r, const unit *u, tc_val panel) {
  tc_ex *s = p->s;
  int lanes = p->by.lanes, parts = in_words(p) ? 2 : 1, n_acc = (int)p->by.stream * r->n;
  tc_val acc[64], zero = tc_emit_splat(E, tc_emit_const_f(E, p->acc, 0), lanes / parts);
  for (int i = 0; i < n_acc * parts; i++) acc[i] = tc_emit_var(E, zero);
  tc_val whole = whole_rows(p, u->k0, u->k1, STREAM_ROWS), k = loop(p->s, u->k0, whole, STREAM_ROWS);
  stream_rows(p, r, panel, k, STREAM_ROWS, acc);
  end(p->s);
  k = loop(p->s, whole, u->k1, 1);
  stream_rows(p, r, panel, k, 1, acc);
  end(p->s);
  for (int i = 0; i < n_acc; i++) {
    tc_val sum = parts == 1 ? acc[i] : tc_emit_raw(E, TC_N_INTERLEAVE, p->acc, lanes, acc[2 * i], acc[2 * i + 1], TC_NONE, 0);
    store_tile(p, p->sums, add(p->s, r->sums, tc_ex_i64(s, i * lanes)), sum);
  }
  tc_val g = loop(p->s, tc_ex_i64(s, 0), tc_ex_i64(s, p->by.stream), 1);
  s->at[TC_RANGE_K] = times(p->s, add(p->s, panel, g), lanes);
  finish_rows(p, r->row, r->n, add(p->s, r->sums, times(p->s, g, (int64_t)r->n * lanes)));
  end(p->s);
}

static void streamed_panels(product *p, const unit *u) {
  tc_ex *s = p->s;
  tc_val zero = tc_ex_i64(s, 0), full = tc_emit_bin(E, TC_N_MAX, u->p0, tc_emit_bin(E, TC_N_MIN, u->p1, tc_ex_i64(s, p->of.n / p->by.lanes)));
  tc_val last = sub(p->s, full, tc_emit_bin(E, TC_N_REM, sub(p->s, full, u->p0), tc_ex_i64(s, p->by.stream)));
  rows_at r = {.n = p->by.rows, .row = zero, .packed = zero, .sums = zero, .k0 = zero, .ahead = TC_NONE, .next = TC_NONE};
  if (p->by.widen_a) widen_a(p, zero, tc_ex_i64(s, p->of.m), u);
  tc_val panel = loop(p->s, u->p0, last, p->by.stream);
  s->mask = TC_NONE;
  multiply_stream(p, &r, u, panel);
  end(p->s);
  panel = loop(p->s, last, u->p1, 1);
  enter_panel(p, panel);
  multiply(p, &r, u, panel, TC_NONE);
  end(p->s);
}

// ---- few rows, and b along k ----

// Whether columns that lie one after the other are asked for in that order, all of the next panel while this one is multiplied: memory is read as one
// stream then, not one a column. On a Zen 4 at two threads, times as fast as each column's lines a few ahead, 1x768x50257 of f32 1.35, of bf16 1.4,
// 1x4096x4096 1.3 and 1.35, 4x4096x4096 1.2 and 1.15, 8x768x50257 1.45 and 1.2, bytes 1.0; 1x11008x4096, whose panels are 700 KiB, 0.95 and 0.8.
static bool asks_in_order(const product *p) {
  int64_t panel = p->by.lanes * p->b.col * (int64_t)tc_type_bytes(p->b.type);
  return tc_host_reads_rows() && p->b.col == p->of.k * p->step && panel <= (int64_t)tc_topology_get()->l2_bytes / 4;
}

// What is asked for at row k, which is turned, of a panel that begins at column `first`. One column's: further along k, or at the beginning of the next panel.
static asked ask_ahead(product *p, tc_val k, tc_val first, int rows) {
  tc_val column = add(p->s, p->b.at, times(p->s, first, p->b.col));
  if (asks_in_order(p)) return (asked){add(p->s, column, add(p->s, times(p->s, k, p->by.lanes), i64(p->s, p->by.lanes * p->b.col))), rows};
  bool one_set = p->by.lanes > vector_lanes(p) && p->b.col * (int64_t)tc_type_bytes(p->b.type) % 4096 == 0;
  int64_t ahead = (one_set ? 1 : TURN_AHEAD) * line_of(p->b.type), steps = p->of.k;
  tc_val here = i64(p->s, ahead), next = i64(p->s, ahead - steps + p->by.lanes * p->b.col);
  tc_val far = tc_emit_select(E, tc_emit_bin(E, TC_N_LT, add(p->s, k, here), i64(p->s, steps)), here, next);
  return (asked){add(p->s, add(p->s, column, k), far), p->b.col};
}

// All rows by the columns of the present panel, up to row k1: their sums go to memory. The first block's columns are asked for where it is turned, those of
// the second where both are multiplied: evenly spread, memory is not kept waiting.
static void multiply_turned(product *p, const rows_at *r, const unit *u, tc_val k1) {
  tc_ex *s = p->s;
  int size = vector_lanes(p), blocks = p->by.lanes / size, rows = turned_rows(p, size);
  int as_one = rows / size, n_acc = r->n * blocks;
  tc_val acc[32], v[64], zero = tc_emit_splat(E, tc_emit_const_f(E, p->acc, 0), size), first = s->at[TC_RANGE_K];
  for (int i = 0; i < n_acc; i++) acc[i] = tc_emit_var(E, zero);
  tc_val k = loop(p->s, u->k0, k1, rows);
  asked ask = ask_ahead(p, k, first, rows);
  for (int c = 0; c < blocks; c++) {
    tc_val column = add(p->s, first, tc_ex_i64(s, c * size));
    load_turned(p, k, add(p->s, p->b.at, times(p->s, column, p->b.col)), v, size, c == 0 ? &ask : NULL);
    for (int i = 0; i < size; i++) store_tile(p, p->turned, tc_ex_i64(s, (i * blocks + c) * size), v[i]);
  }
  tc_val i = loop(p->s, tc_ex_i64(s, 0), tc_ex_i64(s, size), 1), k_of_i = add(p->s, k, times(p->s, i, as_one));
  s->lanes = size;
  for (int c = 1; c < blocks; c++) ask_for(p, &ask, add(p->s, i, tc_ex_i64(s, c * size)));
  for (int c = 0; c < blocks; c++)
    v[c] =
        tc_emit_raw(E, TC_N_LOAD, turned_type(p), size, add(p->s, times(p->s, i, p->by.lanes), tc_ex_i64(s, c * size)), TC_NONE, TC_NONE, p->turned);
  for (int j = 0; j < as_one; j++) {
    tc_val row = add(p->s, k_of_i, tc_ex_i64(s, j)), in_a = in_row_of_a(p, r, row), w[4];
    for (int c = 0; c < blocks; c++) {
      s->at[TC_RANGE_K] = add(p->s, first, tc_ex_i64(s, c * size));
      w[c] = made_of(p, row, turned_row(p, v[c], j));
    }
    for (int m = 0; m < n_acc; m++)
      tc_emit_set(E, acc[m], multiply_add(p, load_a(p, add(p->s, row_of_a(p, r, m / blocks), in_a)), w[m % blocks], acc[m]));
  }
  s->lanes = p->by.lanes, s->at[TC_RANGE_K] = first;
  end(p->s);
  end(p->s);
  for (int m = 0; m < n_acc; m++) store_tile(p, p->sums, add(p->s, r->sums, tc_ex_i64(s, m * size)), acc[m]);
}

static void turned_panels(product *p, const unit *u) {
  tc_ex *s = p->s;
  tc_val zero = tc_ex_i64(s, 0), whole = tc_emit_bin(E, TC_N_MAX, u->p0, tc_emit_bin(E, TC_N_MIN, u->p1, tc_ex_i64(s, p->of.n / p->by.lanes)));
  rows_at r = {.n = p->by.rows, .row = zero, .packed = zero, .sums = zero, .k0 = zero, .ahead = TC_NONE, .next = TC_NONE};
  unit rest = *u;
  if (p->by.widen_a) widen_a(p, zero, tc_ex_i64(s, p->of.m), u);
  tc_val panel = loop(p->s, u->p0, whole, 1);
  enter_panel(p, panel);
  s->mask = TC_NONE;
  rest.k0 = whole_rows(p, u->k0, u->k1, turned_rows(p, vector_lanes(p)));
  multiply_turned(p, &r, u, rest.k0);
  multiply(p, &r, &rest, panel, tc_emit_bin(E, TC_N_EQ, zero, zero));
  end(p->s);
  if (p->of.n % p->by.lanes == 0) return;
  panel = loop(p->s, whole, u->p1, 1);
  enter_panel(p, panel);
  multiply(p, &r, u, panel, TC_NONE);
  end(p->s);
}

// ---- units ----

static void unit_of(product *p, unit *u) {
  tc_ex *s = p->s;
  tiles of[MOST_HEIGHTS];
  u->k0 = tc_ex_i64(s, 0), u->k1 = tc_ex_i64(s, p->of.k);
  if (p->by.turn) {
    turned_panels(p, u);
    return;
  }
  if (p->by.stream) {
    streamed_panels(p, u);
    return;
  }
  if (p->chunks) {
    tc_val all = u->k1;
    u->k0 = loop(p->s, u->k0, all, p->by.chunk);
    u->k1 = tc_emit_bin(E, TC_N_MIN, add(p->s, u->k0, tc_ex_i64(s, p->by.chunk)), all);
  }
  if (p->by.pack) pack(p, u);
  if (p->b.panel && !p->by.pack_a) {
    multiply_panels(p, u);
  } else {
    int n = tiles_of(p, u, of);
    for (int i = 0; i < n; i++) multiply_tiles(p, &of[i], u);
  }
  if (p->chunks) end(p->s);
}

static bool find_product(product *p) {
  tc_ex *s = p->s;
  int n_stored = 0;
  p->node = TC_NONE;
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    uint32_t n = s->gp->member[i];
    if (tc_op_kind_of(s->g->node[n].op) == TC_KIND_CONTRACT) p->node = n;
    n_stored += tc_ex_must_store(s, n);
  }
  const tc_gnode *x = &s->g->node[p->node], *a = &s->g->node[x->in[0]];
  p->of = (tc_extent3){s->gp->a, s->gp->f, s->gp->k, a->shape->d.dim[a->shape->d.rank - 1]};
  p->acc = tc_ex_compute_type(x->type);
  p->direct = n_stored == 1 && tc_ex_must_store(s, p->node);
  s->ext.of[TC_RANGE_K0] = p->of.k;
  return tc_factor_find(s, p->node, 0, TC_RANGE_F, TC_RANGE_K0, &p->a) && tc_factor_find(s, p->node, 1, TC_RANGE_K0, TC_RANGE_K, &p->b);
}

// Makes a step of k a pair of bf16 where the processor has an instruction for it, and the product is large enough: by shape alone, whatever the factors are made
// of. False if one must be stored first, which the expansion then says.
static bool choose_step(product *p) {
  const uint32_t *in = p->s->g->node[p->node].in;
  bool pairs = tc_blocks_pairs(&p->of, p->s->g->node[in[0]].type, p->s->g->node[in[1]].type);
  bool turned = !p->a.scattered && p->a.row == 1 && p->a.segment == p->of.k, left = turned || (p->a.col == 1 && p->a.segment % 2 == 0);
  p->step = pairs ? 2 : 1;
  p->packed_type = pairs ? TC_I32 : p->acc;
  p->of.k /= p->step, p->a.segment /= p->step;
  p->halves = p->b.words && !pairs;
  if (p->halves) p->b.row /= 2;
  bool left_fits = pairs ? left : !p->halves || p->a.segment % 2 == 0, right_fits = !p->b.panel || p->b.words || !pairs;
  if (left_fits && right_fits) return true;
  p->s->x->unsaid = in[left_fits];
  tc_ex_fail(p->s, TC_ERR_STATE, "pairs do not lie side by side");
  return false;
}

static tc_operand operand_of(const product *p, const tc_factor *f) {
  tc_type type = p->step > 1 ? TC_I32 : f->words ? TC_BF16 : f->type;
  return (tc_operand){type, f->row, f->col, f->scattered, f->segment, f->panel};
}

// Of a distance in elements, in words; none that is more than 1 becomes 1, which says that they lie side by side.
static int64_t in_steps(const product *p, int64_t distance) {
  int64_t steps = tc_ceil_div(distance, p->step);
  return distance > 1 ? TC_MAX_OF(steps, 2) : steps;
}

// What cuts depend on. Of pairs in words: half as far apart, but along k, where two elements are a step.
static tc_product_facts facts_of(const product *p) {
  tc_product_facts f = {p->of, p->acc, operand_of(p, &p->a), operand_of(p, &p->b)};
  f.left.row = in_steps(p, f.left.row);
  if (!p->b.words) f.right.col = in_steps(p, f.right.col);
  return f;
}

static tc_val base_of(product *p, const tc_factor *f) {
  int64_t stride;
  tc_val vec;
  return tc_ex_index_value(p->s, f->base, &stride, &vec);
}

static void make_tiles(product *p) {
  const tc_blocks *by = &p->by;
  int64_t tile = (int64_t)by->rows * by->lanes;
  if (by->pack) p->packed = tc_ex_tile(p->s, p->packed_type, by->unit_panels * by->chunk * by->lanes);
  p->a_pitch = by->chunk + 16;
  if (by->turn) p->turned = tc_ex_tile(p->s, turned_type(p), vector_lanes(p) * by->lanes);
  if (by->pack_a || by->widen_a) p->packed_a = tc_ex_tile(p->s, p->packed_type, by->a_tiles * by->rows * p->a_pitch + 64);
  if (!p->direct || by->turn || by->stream)
    p->sums = tc_ex_tile(p->s, p->acc, p->chunks ? by->unit_tiles * by->unit_panels * tile : TC_MAX_OF(by->stream, 1) * tile);
}

// [begin, end) unit by unit: enters the batch, and says which of its units it is. columns, blocks: TC_NONE if there is one.
static void begin_units(product *p, tc_val columns, tc_val blocks, tc_val *column, tc_val *block) {
  tc_ex *s = p->s;
  tc_val begin = tc_emit_raw(E, TC_N_BEGIN, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  tc_val finish = tc_emit_raw(E, TC_N_FINISH, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  tc_val o = loop(s, begin, finish, 1), zero = i64(s, 0), upper = blocks == TC_NONE ? o : bin(s, TC_N_DIV, o, blocks);
  *block = blocks == TC_NONE ? zero : bin(s, TC_N_REM, o, blocks);
  *column = columns == TC_NONE ? zero : bin(s, TC_N_REM, upper, columns);
  s->at[TC_RANGE_A] = columns == TC_NONE ? upper : bin(s, TC_N_DIV, upper, columns);
  s->bound[TC_RANGE_A] = s->bound[TC_RANGE_F] = s->bound[TC_RANGE_K] = true;
  p->a.at = base_of(p, &p->a), p->b.at = base_of(p, &p->b);
}

static tc_val until(product *p, tc_val from, tc_val many, tc_val most) {
  return bin(p->s, TC_N_MIN, add(p->s, from, many), most);
}

static tc_val if_several(product *p, int64_t many) {
  return many == 1 ? TC_NONE : i64(p->s, many);
}

static void units_of_tiles(product *p) {
  tc_ex *s = p->s;
  const tc_blocks *by = &p->by;
  tc_val block, column;
  begin_units(p, if_several(p, s->x->units.columns), if_several(p, s->x->units.blocks), &column, &block);
  unit u = {.t0 = times(s, block, by->unit_tiles), .p0 = times(s, column, by->unit_panels), .end = TC_NONE};
  u.t1 = until(p, u.t0, i64(s, by->unit_tiles), i64(s, by->tiles)), u.p1 = until(p, u.p0, i64(s, by->unit_panels), i64(s, by->n_panels));
  u.row = add(s, times(s, u.t0, by->rows - 1), bin(s, TC_N_MIN, u.t0, i64(s, by->tall)));
  unit_of(p, &u);
  s->mask = TC_NONE;
  end(s);
}

// What follows the product reads more than caches hold of its own size, as an optimizer behind the gradient of a weight does: that is asked for a line at a time
// while the tile before is multiplied. All at once, at that tile's end, the next one's first rows wait behind it: GPT-2's gradients of weights on a Zen 4 1.04 times as
// fast so.
static void find_read(product *p) {
  tc_ex *s = p->s;
  const tc_gnode *x = &s->g->node[p->node];
  p->n_read = 0;
  if (p->chunks || s->units || p->by.turn || p->by.stream || p->a.segment < p->of.k) return;
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    const tc_gnode *y = &s->g->node[s->gp->member[i]];
    for (int k = 0; k < y->n_in && y != x; k++) {
      uint32_t n = tc_group_root(s->gr, y->in[k]);
      const tc_gnode *z = &s->g->node[n];
      if (tc_ex_in_group(s, n) || !s->gr->stored[n] || z->shape->count != x->shape->count || z->type != p->acc || !tc_ex_is_far(z)) continue;
      int buf = tc_ex_buffer(s, n), have = 0;
      while (have < p->n_read && p->read[have] != buf) have++;
      if (have == p->n_read && have < MOST_READ) p->read[p->n_read++] = buf;
    }
  }
}

// The first row of a tile, where the first `tall` ones have one more than `shorter`.
static tc_val row_of_tile(product *p, tc_val tile, tc_val shorter, tc_val tall) {
  return add(p->s, bin(p->s, TC_N_MUL, tile, shorter), bin(p->s, TC_N_MIN, tile, tall));
}

// Those units of any number of rows, to the row and the column: while a plan runs the one kernel may take the place of the other from one unit to the next.
// Each goes in pieces that what it keeps in memory has room for.
static void units_of_rows(product *p) {
  tc_ex *s = p->s;
  const tc_blocks *by = &p->by;
  const tc_units *u0 = s->units;
  if (u0->columns > 1 && u0->width % by->lanes) {
    tc_ex_fail(s, TC_ERR_STATE, "a unit begins within a panel");
    return;
  }
  tc_val block, column, columns = tc_ex_more(s, u0->columns), blocks = tc_ex_more(s, u0->blocks),
                        panels = tc_ex_more(s, tc_ceil_div(u0->width, by->lanes));
  tc_val unit_tiles = tc_ex_more(s, u0->unit_tiles), all = tc_ex_more(s, u0->tiles), shorter = tc_ex_more(s, u0->rows - 1),
         tall = tc_ex_more(s, u0->tall);
  begin_units(p, columns, blocks, &column, &block);
  tc_val tile = bin(s, TC_N_MUL, block, unit_tiles);
  tc_val row = row_of_tile(p, tile, shorter, tall), last = row_of_tile(p, until(p, tile, unit_tiles, all), shorter, tall);
  tc_val panel = bin(s, TC_N_MUL, column, panels), last_panel = until(p, panel, panels, i64(s, by->n_panels));
  unit u = {.t0 = TC_NONE, .t1 = TC_NONE, .row = row, .end = last};
  if (p->chunks) u.row = loop(s, row, last, by->unit_tiles * by->rows), u.end = until(p, u.row, i64(s, by->unit_tiles * by->rows), last);
  u.p0 = loop(s, panel, last_panel, by->unit_panels), u.p1 = until(p, u.p0, i64(s, by->unit_panels), last_panel);
  unit_of(p, &u);
  s->mask = TC_NONE;
  end(s);
  if (p->chunks) end(s);
  end(s);
}

void tc_ex_product(tc_ex *s) {
  product whole = {.s = s}, *p = &whole;
  if (!find_product(p)) return;
  s->x->is_product = true;
  if (!choose_step(p)) return;
  s->x->product = facts_of(p), s->x->product_node = p->node;
  if (s->units ? !tc_blocks_of_any_rows(&p->by, &s->x->product) : !tc_blocks_choose(&p->by, &s->x->product, s->cut)) {
    tc_ex_fail(s, TC_ERR_STATE, "a product cannot be cut so");
    return;
  }
  p->fused = tc_compiler_isa()->fma && tc_type_is_float(p->acc);
  p->chunks = p->by.chunk < p->of.k;
  p->direct &= !p->chunks;
  make_tiles(p);
  find_read(p);
  s->lanes = p->by.lanes, s->vector = TC_RANGE_K;
  tc_ex_preload(s);
  s->x->units = s->units ? *s->units : tc_blocks_units(&p->by);
  if (s->units)
    units_of_rows(p);
  else
    units_of_tiles(p);
  s->x->extent = s->gp->a * s->x->units.columns * s->x->units.blocks;
  s->x->work = 2.0 * (double)(s->gp->a * p->of.m * p->of.n) * (double)p->of.k / (tc_compiler_vector_bytes() == 64 ? 200 : 90) + 50;
}
