// Emits attention, out = softmax(q k^T scale + mask) v, and chooses the tiling of it and of its
// gradients. A tile of query rows is processed against a block of keys at a time.
//
// In: a fusion of ATTENTION and its log-sum-exp, or of its gradients (backward.c). Out: kernel IR;
// [begin, end) counts units. A unit is a block of query rows of one head:
//   for each block of keys, for each tile of `rows` rows:
//     transpose keys that no tile before saw into panels of `lanes`
//     pack values as rows, unless they are read well where they lie
//     scores, by register blocks, into a tile in the first-level cache; softmax; times values
// With one row or two, transposing keys would be most of the work. Each key is then multiplied
// where it lies, and sums of sixteen are added across lanes.
// With several blocks, each row keeps its greatest score, its sum and its weighted values so far
// (online softmax). With more than TC_CHAIN_BLOCKS blocks these are kept for a group of blocks,
// which is then added to the groups before (summation.h).
// Causal attention computes only panels that a tile's last row reaches; unseen keys in them weigh
// zero. If heads have one query row each and share a key head, those heads are the rows.
// Where matmul multiplies bf16 in pairs (emit/matmul/matmul.c), forward attention does too. Queries
// are read as words where they lie, and keys and values are packed as words. Weights are rounded to
// bf16; their sum is of the values before rounding. By tile registers likewise (tmm.c), gradients,
// too.
// Scores in f32 are Winograd inner products (tile.h) where the instruction set gains by them and
// elements are small. Speed and errors: docs/measurements.md.
//
// Invariants: the order of summation. Scores add over e. Winograd inner products take three columns
// at a time, the third before the pair. With one row or two, 16 lanes are combined by halves, as
// are sums of weights. Weighted values add over keys, block by block; gradients over keys or rows.
// Blocks of keys depend on shapes alone; the rest of the tiling changes no sum. The instruction set
// decides only whether multiply-adds are fused, and whether scores are Winograd inner products.
#include <math.h>

#include "lowering/emit/attention/tile.h"
#include "lowering/target/cpu_target.h"
#include "lowering/tiling/winograd.h"
#include "runtime/options.h"

#define KEYS 512  // of a block, forward; half for heads longer than LONG_HEAD, and half of that again backward
#define LONG_HEAD 128  // elements of a query
#define STATE_BYTES 262144  // of a unit's weighted values so far
#define WANTED_UNITS 32  // units at least, if there are rows enough
// READING_ROWS: rows at most that read keys in place. KEYS_AHEAD: keys from a load to its prefetch;
// values of the current keys are prefetched, too.
// Measured: Zen 4, 2 threads, 12 heads, 256 keys of 64, bf16: transposed 18 us, in place 8;
// from memory 51 -> 31, with prefetch 25. More: docs/measurements.md.
#define READING_ROWS 2
#define KEYS_AHEAD 32
#define FEW_ROWS 12  // for which neither packing values nor pairs pay off

// Bound on sums of squares for Winograd inner products. They are of the tile's rows and of the
// block's keys so far, each times its part of the scale. Such a product adds products of a row's
// own elements, and of a key's. So a score has the rounding error of one as large as those sums.
// Infinities and NaN exceed the bound. Computed, not measured: normal elements reach some 26 and 14
// in heads of 64, 45 and 13 in heads of 128.
#define WINOGRAD_BELOW 64.0
#define LEAST_WINOGRAD_ROWS 4  // of a tile: with fewer, additions are latency-bound
// Keys at least: with fewer, testing how large elements are does not pay off.
// Measured: 16 rows of 16 keys of 32: 17 us without, 18 us with.
#define LEAST_WINOGRAD_KEYS 32

#define E (&p->s->e)

static bool uses_winograd_dot(const tc_attention_emitter *p, const tc_isa *isa) {
  bool may = isa->pairs && tc_winograd_allowed() && !p->backward && p->acc == TC_F32 && p->step == 1;
  return may && p->vector == TC_ATTENTION_WINOGRAD_DOT && p->e >= TC_ATTENTION_WINOGRAD_DOT &&
         p->rows >= LEAST_WINOGRAD_ROWS && p->keys >= LEAST_WINOGRAD_KEYS;
}

static void choose_key_blocks(tc_attention_emitter *p) {
  const tc_isa *isa = tc_compiler_isa();
  int size = (int)tc_type_bytes(p->acc);
  bool dots = isa->dots && p->f > FEW_ROWS && !p->backward, tmm = isa->tiles && p->f >= TC_ATTENTION_MOST_ROWS;
  bool even = p->e % 2 == 0 && (!p->backward || (p->ev % 2 == 0 && p->dout.type == TC_BF16));
  bool pairs = p->q.type == TC_BF16 && (dots || tmm) && even && !tc_options_get()->strict;
  p->tmm = pairs && tmm;
  p->step = pairs ? 2 : 1, p->packed_type = pairs ? TC_I32 : p->acc;
  p->way = pairs ? TC_MULTIPLY_PAIRS : isa->fma ? TC_MULTIPLY_FUSED : TC_MULTIPLY_ROUNDED;
  p->reads_keys = !p->backward && p->f <= READING_ROWS;
  p->vector = isa->vector_bytes / size;
  p->unroll = tc_tiling_unrolled();
  p->lanes = TC_MIN(isa->registers / 8 * p->vector, TC_MAX_OF(tc_emit_power_for(p->keys, LANES), TC_ATTENTION_STEP));
  // from e alone, so that log-sum-exp without values has the same blocks, and the same bits
  p->block = p->e > LONG_HEAD ? KEYS / 2 : KEYS;
  if (p->backward) p->block /= 2;
  p->one_block = p->keys <= p->block;
  p->block = TC_MIN(p->block, ceil_to(p->keys, TC_ATTENTION_WIDEST));
  p->key_group = p->keys > TC_CHAIN_BLOCKS * p->block ? TC_CHAIN_BLOCKS * p->block : 0;
  p->rows = (p->f + (p->f + TC_ATTENTION_ROWS - 1) / TC_ATTENTION_ROWS - 1) /
            ((p->f + TC_ATTENTION_ROWS - 1) / TC_ATTENTION_ROWS);
  if (p->tmm) p->rows = p->backward ? p->step : TC_ATTENTION_MOST_ROWS;
  p->pitch = p->block + TC_ATTENTION_WIDEST + TC_ATTENTION_STEP;
  p->winograd_dot = uses_winograd_dot(p, isa);
  p->row_scale = p->winograd_dot ? exp2(round(log2(tc_attention_units(p) / sqrt((double)p->e)) / 2)) : 1;
  int64_t state = ceil_to(p->ev, p->vector) * size,
          most_rows = p->one_block ? p->f : TC_MAX_OF(STATE_BYTES / state, p->rows);
  int64_t units = (WANTED_UNITS + p->a - 1) / p->a, rows = TC_MAX_OF((p->f + units - 1) / units, 8 * p->rows);
  p->row_block = ceil_to(TC_MIN(TC_MIN(most_rows, rows), p->f), p->rows);
}

// ---- keys in place, and prefetch ----

// Multiplies the query by keys `key` + first, + first + by, .. below `key` + TC_ATTENTION_STEP, in
// TC_ATTENTION_STEP lanes. Lanes are then added across, so that lane i is the product with the i-th
// of these keys. Keys past `last` are replaced by it.
static tc_val with_keys(tc_attention_emitter *p, tc_attention_matmul_operand rows, int row, tc_val key, tc_val last,
                        int first, int by) {
  if (by < TC_ATTENTION_STEP)
    return tc_build_halve(E, with_keys(p, rows, row, key, last, first, 2 * by),
                          with_keys(p, rows, row, key, last, first + by, 2 * by));
  tc_val at = rows.rows ? rows.rows[row] : plus(p->s, rows.at, row * rows.row),
         k = least(p->s, plus(p->s, key, first), last);
  tc_val sum = splat(p->s, number(p, 0), TC_ATTENTION_STEP);
  for (int64_t c = 0; c < p->e; c += TC_ATTENTION_STEP) {
    tc_val mask = c + TC_ATTENTION_STEP <= p->e ? TC_NONE : tc_attention_column_mask(p, c, p->e, TC_ATTENTION_STEP);
    tc_val v = tc_attention_load_part(p, &p->k, k, i64(p->s, c), TC_ATTENTION_STEP, mask),
           q = load(p->s, rows.buf, rows.type, TC_ATTENTION_STEP, plus(p->s, at, c), mask);
    sum = c == 0 ? mul(p->s, v, q) : tc_multiply_add(p->s, p->way, q, v, sum);
  }
  return sum;
}

// Computes the scores of a tile of rows with keys k0 to k1, which are read where they lie.
static void with_keys_in_place(tc_attention_emitter *p, tc_attention_matmul_operand rows, tc_val k0, tc_val k1,
                               int tile) {
  tc_val key = loop_to(p->s, sub(p->s, k1, k0), TC_ATTENTION_STEP);
  for (int i = 0; i < TC_ATTENTION_STEP; i++) {
    tc_val row = add(p->s, k0, plus(p->s, key, i));
    tc_attention_prefetch_row(p, &p->k, plus(p->s, row, KEYS_AHEAD), p->keys, p->e);
    if (p->out != TC_NONE) tc_attention_prefetch_row(p, &p->v, row, p->keys, p->ev);
  }
  for (int i = 0; i < p->rows; i++) {
    tc_val sums = with_keys(p, rows, i, add(p->s, k0, key), plus(p->s, k1, -1), 0, 1);
    store(p->s, tile, plus(p->s, key, i * p->pitch), mul(p->s, sums, tc_attention_key_scale(p)));
  }
  end(p->s);
}

static void prefetch_key(tc_attention_emitter *p, const tc_attention_prefetch *x, tc_val i) {
  if (x->keys) tc_attention_prefetch_row(p, &p->k, add(p->s, x->key, i), p->keys, p->e);
  if (x->keys && x->values) tc_attention_prefetch_row(p, &p->v, add(p->s, x->value, i), p->keys, p->ev);
}

// Prefetches the remaining rows, if a tile has fewer panels or steps of `size` keys than rows.
static void prefetch_rest(tc_attention_emitter *p, const tc_attention_prefetch *x,
                          void (*prefetch)(tc_attention_emitter *p, const tc_attention_prefetch *x, tc_val i),
                          tc_val count, int size) {
  tc_val i = loop(p->s, bin(p->s, TC_IR_DIV, plus(p->s, count, size - 1), i64(p->s, size)), i64(p->s, p->rows), 1);
  prefetch(p, x, i);
  end(p->s);
}

// ---- forward ----

// Tiles with the state of each row: greatest score, sum of weights, weighted values.
typedef struct row_state {
  int greatest, sums, mix;
} row_state;

typedef struct forward {
  tc_attention_emitter *p;
  row_state state, total;  // total: with groups of blocks, of the groups that are done
  int queries, panels, values, scores, weights, shrink;  // tiles; weights: the scores' tile, or one of bf16
  int tail, mixed;  // tiles, by tile registers: the last values, and weighted values
  tc_attention_winograd_dot dot;
  tc_val begins_pair;  // mask: whether each of TC_ATTENTION_WINOGRAD_DOT columns begins a pair
  bool pack_values;
  int64_t value_pitch;
  tc_val k0, k1, r0;
  tc_val ready;  // keys of the block that are transposed and packed, in whole panels
} forward;

// Returns the steps of `keys` keys; the last may be partial.
static tc_val in_steps(tc_attention_emitter *p, tc_val keys) {
  return p->step == 1 ? keys : bin(p->s, TC_IR_DIV, plus(p->s, keys, p->step - 1), i64(p->s, p->step));
}

// Replaces a tile of scores by weights. Stores each row's greatest score and sum, and the factor by
// which earlier results shrink. Rows are interleaved: their chains overlap.
static void softmax_of_tile(forward *f, tc_val row, tc_val count, const tc_attention_prefetch *next) {
  tc_attention_emitter *p = f->p;
  int n = (int)p->rows;
  enum { MOST = TC_ATTENTION_MOST_ROWS };
  tc_val rows[MOST], top[MOST], sum[MOST], less[MOST], wide[MOST], before[MOST],
      unseen = number(p, -INFINITY), state = p->one_block ? i64(p->s, 0) : sub(p->s, row, f->r0);
  tc_attention_rows_from(p, row, rows);
  for (int i = 0; i < n; i++) top[i] = var(p->s, splat(p->s, unseen, TC_ATTENTION_STEP));
  for (tc_attention_steps x = tc_attention_steps_of(p, rows, f->k0, f->k1); tc_attention_next_steps(p, &x, count);)
    for (int i = 0; i < n; i++) {
      tc_val at = plus(p->s, x.at, i * p->pitch), seen = seen_by(p, &x, i),
             v = load(p->s, f->scores, p->acc, TC_ATTENTION_STEP, at, TC_NONE);
      if (p->tmm) v = mul(p->s, v, tc_attention_key_scale(p));
      v = tc_attention_masked(p, v, rows[i], add(p->s, f->k0, x.at), &seen), v = only(p, seen, v, -INFINITY);
      if (seen != TC_NONE || p->has_mask || p->tmm) store(p->s, f->scores, at, v);
      set(p->s, top[i], select_val(p->s, bin(p->s, TC_IR_GT, v, top[i]), v, top[i]));
    }
  for (int i = 0; i < n; i++) {
    tc_val greatest = reduce(p->s, top[i], TC_IR_MAX);
    if (!p->one_block)
      before[i] = load(p->s, f->state.greatest, p->acc, 1, plus(p->s, state, i), TC_NONE),
      greatest = most(p->s, before[i], greatest);
    less[i] = select_val(p->s, bin(p->s, TC_IR_EQ, greatest, unseen), number(p, 0), greatest);
    store(p->s, f->state.greatest, plus(p->s, state, i), greatest);
    wide[i] = splat(p->s, less[i], TC_ATTENTION_STEP);
    sum[i] = var(p->s, splat(p->s, number(p, 0), TC_ATTENTION_STEP));
  }
  tc_val key = loop_to(p->s, count, TC_ATTENTION_STEP);
  prefetch_key(p, next, least(p->s, div_by(p->s, key, TC_ATTENTION_STEP), i64(p->s, p->rows - 1)));
  for (int i = 0; i < n; i++) {
    tc_val at = plus(p->s, key, i * p->pitch),
           v = tc_attention_power(p, sub(p->s, load(p->s, f->scores, p->acc, TC_ATTENTION_STEP, at, TC_NONE), wide[i]));
    store(p->s, f->weights, at, p->step > 1 ? tc_build_cast_bf16_daz(E, v) : v);
    set(p->s, sum[i], add(p->s, sum[i], v));
  }
  end(p->s);
  if (p->tmm) tc_attention_tmm_clear(p, f->weights, count);
  for (int i = 0; i < n; i++) {
    tc_val total = reduce(p->s, sum[i], TC_IR_ADD), at = plus(p->s, state, i);
    if (!p->one_block) {
      tc_val shrink = tc_attention_power(p, sub(p->s, before[i], less[i]));
      total = add(p->s, mul(p->s, load(p->s, f->state.sums, p->acc, 1, at, TC_NONE), shrink), total);
      store(p->s, f->shrink, i64(p->s, i), shrink);
    }
    store(p->s, f->state.sums, at, total);
  }
}

// Returns a row's weighted values over the sum of its weights; zeros if the row sees nothing.
static tc_val by_sum(forward *f, tc_val mix, tc_val at) {
  tc_attention_emitter *p = f->p;
  tc_val sum = load(p->s, f->state.sums, p->acc, 1, at, TC_NONE), none = bin(p->s, TC_IR_EQ, sum, number(p, 0));
  tc_val inverse = bin(p->s, TC_IR_DIV, number(p, 1), select_val(p->s, none, number(p, 1), sum));
  return select_val(p->s, none, number(p, 0), mul(p->s, mix, inverse));
}

// Returns whether tiles overlap: tiles do not divide the rows of a causal block, so the second
// begins before the first ends. A row in both is computed twice, with the same result. The extra
// rows are then those that see the fewest keys; past the last row they would see all.
static bool overlaps(const tc_attention_emitter *p) {
  return p->causal && p->one_block && p->f % p->rows;
}

// Returns whether a tile may go past the last row.
static bool goes_past(const tc_attention_emitter *p) {
  return p->f % p->rows && !(overlaps(p) && p->row_block >= p->f);
}

// Multiplies weights by values. With one block of keys the result is stored, else added to the
// rows' weighted values so far.
static void mix_values(forward *f, tc_val row, tc_val count) {
  tc_attention_emitter *p = f->p;
  int rows = (int)p->rows;
  for (tc_attention_panels x = {.columns = p->ev}; tc_attention_next_panel(p, &x);) {
    tc_val acc[TC_ATTENTION_MOST_ROWS],
        at = f->pack_values ? x.at : add(p->s, add(p->s, p->v.at, times(p->s, f->k0, p->v.stride)), x.at);
    tc_attention_matmul_operand weights = {f->weights, p->step > 1 ? TC_BF16 : p->acc, i64(p->s, 0), p->pitch, p->step};
    tc_attention_matmul_operand values = tile_side(p, f->values, at, 0, f->value_pitch);
    if (!f->pack_values) values.buf = p->v.buf, values.type = p->v.type;
    if (p->tmm) {
      tc_attention_tmm_mix(p, &weights, &values, x.lanes, i64(p->s, 0), count, f->tail, f->mixed);
      for (int i = 0; i < rows; i++)
        acc[i] = load(p->s, f->mixed, p->acc, x.lanes, i64(p->s, i * TC_ATTENTION_WIDEST), TC_NONE);
    } else {
      tc_attention_clear(p, rows, x.lanes, acc);
      tc_attention_multiply(p, rows, x.lanes, weights, values, i64(p->s, 0), in_steps(p, count), acc);
    }
    for (int i = 0; i < rows; i++) {
      tc_val r = plus(p->s, row, i), at_i = i64(p->s, i);
      if (p->one_block) {
        if (goes_past(p)) begin_if(p->s, bin(p->s, TC_IR_LT, r, i64(p->s, p->f)));
        tc_attention_store_part(p, p->out,
                                tc_attention_result_row(p, p->out, p->s->at[TC_RANGE_A], r, p->hq, p->l, p->ev), &x,
                                by_sum(f, acc[i], at_i));
        if (goes_past(p)) end_if(p->s);
        continue;
      }
      tc_val mix_at = add(p->s, times(p->s, sub(p->s, r, f->r0), packed_columns(p, p->ev)), x.at),
             shrink = load(p->s, f->shrink, p->acc, 1, at_i, TC_NONE);
      tc_val before = load(p->s, f->state.mix, p->acc, x.lanes, mix_at, TC_NONE);
      store(p->s, f->state.mix, mix_at, add(p->s, mul(p->s, before, shrink), acc[i]));
    }
  }
}

// Stores a row's greatest score and the logarithm of its sum of exponentials. A row that sees
// nothing gets zeros, so that its weights are exp(-inf - 0).
static void store_lse(forward *f, tc_val row, tc_val at) {
  tc_attention_emitter *p = f->p;
  tc_val sum = load(p->s, f->state.sums, p->acc, 1, at, TC_NONE), none = bin(p->s, TC_IR_EQ, sum, number(p, 0));
  tc_val log = tc_build_scalar_op(E, TC_OP_LOG, p->acc, select_val(p->s, none, number(p, 1), sum), 0, 0);
  tc_val greatest =
      mul(p->s, load(p->s, f->state.greatest, p->acc, 1, at, TC_NONE), number(p, 1 / tc_attention_units(p)));
  int buf = tc_attention_result(p, p->lse);
  tc_val to = times(p->s, add(p->s, times(p->s, p->s->at[TC_RANGE_A], p->f), row), 2);
  store(p->s, buf, to, select_val(p->s, none, number(p, 0), greatest));
  store(p->s, buf, plus(p->s, to, 1), log);
}

// ---- scores as Winograd inner products ----

// Returns the factor of the keys: the scale, without the part that queries are multiplied by.
static tc_val key_factor(tc_attention_emitter *p) {
  return p->winograd_dot ? mul(p->s, tc_attention_key_scale(p), number(p, 1 / p->row_scale))
                         : tc_attention_key_scale(p);
}

// Returns tc_attention_begins_pair of TC_ATTENTION_WINOGRAD_DOT columns, as a mask.
static tc_val pair_beginnings(tc_attention_emitter *p) {
  tc_val column = tc_emit_numbers(p->s, TC_I32, TC_ATTENTION_WINOGRAD_DOT),
         in_three = bin(p->s, TC_IR_REM, column, const_i(p->s, TC_I32, 3));
  tc_val first = bin(p->s, TC_IR_EQ, in_three, const_i(p->s, TC_I32, 0));
  return bin(p->s, TC_IR_AND, first, bin(p->s, TC_IR_LT, column, const_i(p->s, TC_I32, TC_ATTENTION_WINOGRAD_DOT - 1)));
}

// Packs a tile's queries, times their part of the scale. Returns the greatest sum of squares of a
// row's paired columns.
static tc_val pack_queries(forward *f, tc_val row) {
  tc_attention_emitter *p = f->p;
  tc_val top = var(p->s, const_i(p->s, TC_I32, 0)), squares = TC_NONE, i = loop_to(p->s, i64(p->s, p->rows), 1),
         from = least(p->s, add(p->s, row, i), i64(p->s, p->f - 1));
  for (int64_t c = 0; c < p->e; c += TC_ATTENTION_WINOGRAD_DOT) {
    bool paired = c + TC_ATTENTION_WINOGRAD_DOT <= p->e;
    tc_val mask = paired ? TC_NONE : tc_attention_column_mask(p, c, p->e, TC_ATTENTION_WINOGRAD_DOT);
    tc_val v = mul(p->s, tc_attention_load_part(p, &p->q, from, i64(p->s, c), TC_ATTENTION_WINOGRAD_DOT, mask),
                   number(p, p->row_scale));
    store(p->s, f->queries, plus(p->s, times(p->s, i, ceil_to(p->e, TC_ATTENTION_WINOGRAD_DOT)), c), v);
    if (paired) squares = c ? tc_multiply_add(p->s, p->way, v, v, squares) : mul(p->s, v, v);
  }
  set(p->s, top, most(p->s, top, magnitude(p, reduce(p->s, squares, TC_IR_ADD))));
  end(p->s);
  return bitcast(p->s, TC_F32, 1, top);
}

// Stores the correction of each row: minus the sum of the products of its pairs. It reads the
// packed tile, since in memory the column after a row's last may be in a line that is otherwise
// unused.
static void sum_dots_of_queries(forward *f) {
  tc_attention_emitter *p = f->p;
  tc_val i = loop_to(p->s, i64(p->s, p->rows), 1), at = times(p->s, i, ceil_to(p->e, TC_ATTENTION_WINOGRAD_DOT)),
         sum = TC_NONE;
  for (int64_t c = 0; c < tc_attention_winograd_columns(p->e); c += TC_ATTENTION_WINOGRAD_DOT) {
    tc_val v = load(p->s, f->queries, p->acc, TC_ATTENTION_WINOGRAD_DOT, plus(p->s, at, c), TC_NONE),
           next = load(p->s, f->queries, p->acc, TC_ATTENTION_WINOGRAD_DOT, plus(p->s, at, c + 1), TC_NONE);
    sum = c ? tc_multiply_add(p->s, p->way, v, next, sum) : mul(p->s, v, next);
  }
  store(p->s, f->dot.rows, i, sub(p->s, number(p, 0), reduce(p->s, only(p, f->begins_pair, sum, 0), TC_IR_ADD)));
  end(p->s);
}

// Computes the scores of a tile, as Winograd inner products if its elements are small enough.
static void make_scores(forward *f, tc_attention_matmul_operand queries, tc_val top, tc_val count,
                        const tc_attention_prefetch *next) {
  tc_attention_emitter *p = f->p;
  if (p->winograd_dot) {
    tc_val small = bin(p->s, TC_IR_LT, most(p->s, top, bitcast(p->s, TC_F32, 1, reduce(p->s, f->dot.top, TC_IR_MAX))),
                       number(p, WINOGRAD_BELOW));
    begin_if(p->s, small);
    sum_dots_of_queries(f);
    tc_attention_with_winograd_dot(p, queries, f->panels, p->e, count, f->scores, &f->dot, next);
    end_if(p->s);
    begin_if(p->s, bin(p->s, TC_IR_EQ, select_val(p->s, small, i64(p->s, 1), i64(p->s, 0)), i64(p->s, 0)));
  }
  tc_attention_with_panels(p, queries, f->panels, p->e / p->step, count, f->scores, i64(p->s, 0), next);
  if (p->winograd_dot) end_if(p->s);
}

// Transposes and packs those of the block's first `count` keys that are not yet: panel by panel, as
// they become visible.
static void prepare_keys(forward *f, tc_val count) {
  tc_attention_emitter *p = f->p;
  tc_val to_key = times(p->s, bin(p->s, TC_IR_DIV, plus(p->s, count, p->lanes - 1), i64(p->s, p->lanes)), p->lanes);
  if (!p->reads_keys)
    tc_attention_transpose_keys(p, &p->k, f->k0, f->k1, add(p->s, f->k0, f->ready), add(p->s, f->k0, count),
                                p->e / p->step, f->panels, p->step > 1 ? TC_NONE : key_factor(p),
                                p->winograd_dot ? &f->dot : NULL);
  if (f->pack_values) {
    tc_val to = times(p->s, in_steps(p, f->ready), f->value_pitch);
    tc_attention_pack_rows(p, &p->v, add(p->s, f->k0, f->ready), in_steps(p, sub(p->s, to_key, f->ready)),
                           plus(p->s, f->k1, -1), p->ev, f->value_pitch, f->values, to);
  }
  set(p->s, f->ready, most(p->s, f->ready, to_key));
}

// Returns whether queries are read where they lie.
static bool reads_queries(const tc_attention_emitter *p) {
  return !p->winograd_dot && !p->tmm && (p->q.type == p->acc || p->step > 1);
}

static void forward_tile(forward *f, tc_val row) {
  tc_attention_emitter *p = f->p;
  tc_emit_ctx *s = p->s;
  tc_val stop = p->causal ? least(s, f->k1, tc_attention_limit(p, tc_attention_last_row(p, plus(s, row, p->rows))))
                          : f->k1,
         count = sub(s, stop, f->k0);
  if (!p->one_block && p->causal) begin_if(s, bin(s, TC_IR_GT, count, i64(s, 0)));
  prepare_keys(f, count);
  tc_val rows[TC_ATTENTION_MOST_ROWS];
  tc_attention_matmul_operand queries = {p->q.buf, p->q.type, TC_NONE, 0, p->step, rows};
  tc_val top = TC_NONE;
  if (p->tmm) {
    tc_attention_tmm_pack(p, &p->q, p->e, row, f->queries);
  } else if (p->winograd_dot) {
    top = pack_queries(f, row);
    queries = tile_side(p, f->queries, i64(s, 0), ceil_to(p->e, TC_ATTENTION_WINOGRAD_DOT), 1);
  } else if (reads_queries(p)) {
    tc_attention_rows_from(p, row, rows);
    for (int i = 0; i < p->rows; i++) rows[i] = add(s, p->q.at, times(s, rows[i], p->q.stride));
  } else {
    int64_t width = ceil_to(p->e, p->vector);
    tc_attention_pack_rows(p, &p->q, row, i64(s, p->rows), i64(s, p->f - 1), p->e, width, f->queries, i64(s, 0));
    queries = tile_side(p, f->queries, i64(s, 0), width, 1);
  }
  tc_attention_prefetch next = {.queries = p->f > 2 * p->rows,
                                .keys = p->causal && p->one_block && !p->has_length && p->keys >= 2 * p->lanes,
                                .values = p->out != TC_NONE};
  next.row = plus(s, row, p->rows), next.key = plus(s, count, p->lanes), next.value = f->pack_values ? next.key : count;
  if (p->reads_keys)
    with_keys_in_place(p, queries, f->k0, stop, f->scores);
  else if (p->tmm)
    tc_attention_tmm_scores(p, f->queries, f->panels, p->e, count, f->scores, &next);
  else
    make_scores(f, queries, top, count, &next);
  if (next.queries) prefetch_rest(p, &next, prefetch_query, count, p->lanes);
  softmax_of_tile(f, row, count, &next);
  if (next.keys) prefetch_rest(p, &next, prefetch_key, count, TC_ATTENTION_STEP);
  if (p->out != TC_NONE) mix_values(f, row, count);
  if (p->lse != TC_NONE && p->one_block) {
    tc_val i = loop_to(s, least(s, i64(s, p->rows), sub(s, i64(s, p->f), row)), 1);
    store_lse(f, add(s, row, i), i);
    end(s);
  }
  if (!p->one_block && p->causal) end_if(s);
}

static void begin_state(tc_attention_emitter *p, const row_state *x) {
  tc_val i = loop_to(p->s, i64(p->s, p->row_block), 1);
  store(p->s, x->greatest, i, number(p, -INFINITY));
  store(p->s, x->sums, i, number(p, 0));
  end(p->s);
  if (p->out == TC_NONE) return;
  i = loop_to(p->s, i64(p->s, p->row_block * packed_columns(p, p->ev)), p->vector);
  store(p->s, x->mix, i, splat(p->s, number(p, 0), p->vector));
  end(p->s);
}

static void add_scaled(tc_attention_emitter *p, int to, int from, int lanes, tc_val at, const tc_val by[2]) {
  tc_val before = mul(p->s, load(p->s, to, p->acc, lanes, at, TC_NONE), by[0]);
  store(p->s, to, at, add(p->s, before, mul(p->s, load(p->s, from, p->acc, lanes, at, TC_NONE), by[1])));
}

// Adds a group's sums and weighted values to those of the groups before, all relative to the
// greatest score so far.
static void add_group(forward *f, tc_val r1) {
  tc_attention_emitter *p = f->p;
  tc_val row = loop_to(p->s, sub(p->s, r1, f->r0), 1), unseen = number(p, -INFINITY);
  tc_val before = load(p->s, f->total.greatest, p->acc, 1, row, TC_NONE),
         here = load(p->s, f->state.greatest, p->acc, 1, row, TC_NONE);
  tc_val top = most(p->s, before, here), less = select_val(p->s, bin(p->s, TC_IR_EQ, top, unseen), number(p, 0), top);
  tc_val by[2] = {tc_attention_power(p, sub(p->s, before, less)), tc_attention_power(p, sub(p->s, here, less))};
  store(p->s, f->total.greatest, row, top);
  add_scaled(p, f->total.sums, f->state.sums, 1, row, by);
  if (p->out != TC_NONE) {
    int64_t columns = packed_columns(p, p->ev);
    tc_val column = loop_to(p->s, i64(p->s, columns), p->vector);
    add_scaled(p, f->total.mix, f->state.mix, p->vector, add(p->s, times(p->s, row, columns), column), by);
    end(p->s);
  }
  end(p->s);
}

static void finish_state(forward *f, tc_val r1) {
  tc_attention_emitter *p = f->p;
  tc_val row = loop(p->s, f->r0, r1, 1), at = sub(p->s, row, f->r0);
  if (p->lse != TC_NONE) store_lse(f, row, at);
  if (p->out != TC_NONE) {
    tc_val to = tc_attention_result_row(p, p->out, p->s->at[TC_RANGE_A], row, p->hq, p->l, p->ev);
    for (tc_attention_panels x = {.columns = p->ev}; tc_attention_next_panel(p, &x);) {
      tc_val v = load(p->s, f->state.mix, p->acc, x.lanes, add(p->s, times(p->s, at, packed_columns(p, p->ev)), x.at),
                      TC_NONE);
      tc_attention_store_part(p, p->out, to, &x, by_sum(f, v, at));
    }
  }
  end(p->s);
}

static void forward_unit(forward *f, tc_val r1) {
  tc_attention_emitter *p = f->p;
  tc_val stop = tc_attention_limit(p, tc_attention_last_row(p, r1));
  f->k0 = i64(p->s, 0), f->k1 = stop;
  if (p->key_group) {
    begin_state(p, &f->total);
    f->k0 = loop(p->s, f->k0, stop, p->key_group);
    stop = least(p->s, stop, plus(p->s, f->k0, p->key_group));
  }
  if (!p->one_block) {
    begin_state(p, &f->state);
    f->k0 = loop(p->s, p->key_group ? f->k0 : i64(p->s, 0), stop, p->block);
    f->k1 = least(p->s, stop, plus(p->s, f->k0, p->block));
  }
  f->ready = var(p->s, i64(p->s, 0));
  if (p->winograd_dot) f->dot.top = var(p->s, zeros(p->s, TC_I32, TC_ATTENTION_WINOGRAD_DOT));
  tc_val first = f->r0;
  if (overlaps(p)) {
    tc_val tiles = bin(p->s, TC_IR_DIV, plus(p->s, sub(p->s, r1, f->r0), p->rows - 1), i64(p->s, p->rows));
    first = sub(p->s, r1, times(p->s, tiles, p->rows));
  }
  tc_val row = loop(p->s, first, r1, p->rows);
  forward_tile(f, most(p->s, row, f->r0));
  end(p->s);
  if (p->one_block) return;
  end(p->s);
  if (p->key_group) {
    add_group(f, r1);
    end(p->s);
    f->state = f->total;
  }
  finish_state(f, r1);
}

// Returns whether values are packed. Few rows read them in place. So do many rows whose lines fit
// the few cache sets that the stride of values maps to.
// Measured: 12 heads side by side, a stride of 3072 bytes: in place 1 % faster than packed.
static bool packs_values(const tc_attention_emitter *p) {
  bool whole_vectors = packed_columns(p, p->ev) == p->ev;
  if (!whole_vectors || p->step > 1) return true;
  if (p->f <= FEW_ROWS) return false;
  int64_t bytes = p->v.stride * (int64_t)tc_type_bytes(p->acc);
  return p->v.type != p->acc || (bytes & -bytes) > 1024;
}

static void forward_kernel(tc_attention_emitter *p) {
  tc_emit_ctx *s = p->s;
  forward f = {.p = p, .pack_values = p->out != TC_NONE && packs_values(p)};
  int64_t states = p->one_block ? p->rows : p->row_block, columns = packed_columns(p, p->ev);
  f.value_pitch = f.pack_values ? columns : p->v.stride;
  if (!p->reads_keys)
    f.panels = tc_emit_tile(s, p->packed_type, ceil_to(p->block, p->lanes) * panel_columns(p, p->e / p->step));
  if (f.pack_values) f.values = tc_emit_tile(s, p->packed_type, p->block / p->step * columns);
  if (p->tmm) {
    f.queries = tc_emit_tile(s, TC_I32, p->rows * tc_attention_tmm_pitch(p->e));
    f.tail = tc_emit_tile(s, TC_I32, p->rows * TC_ATTENTION_WIDEST);
    f.mixed = tc_emit_tile(s, p->acc, p->rows * TC_ATTENTION_WIDEST);
  } else if (!reads_queries(p))
    f.queries = tc_emit_tile(
        s, p->acc,
        p->rows * ceil_to(p->e, p->winograd_dot ? TC_ATTENTION_WINOGRAD_DOT : p->vector) + TC_ATTENTION_WINOGRAD_DOT);
  if (p->winograd_dot)
    f.dot = (tc_attention_winograd_dot){tc_emit_tile(s, p->acc, ceil_to(p->block, p->lanes)),
                                        tc_emit_tile(s, p->acc, TC_ATTENTION_ROWS), TC_NONE};
  f.weights = f.scores = tc_emit_tile(s, p->acc, p->rows * p->pitch);
  if (p->step > 1) f.weights = tc_emit_tile(s, TC_BF16, p->rows * p->pitch);
  f.state.greatest = tc_emit_tile(s, p->acc, states), f.state.sums = tc_emit_tile(s, p->acc, states);
  if (!p->one_block) f.shrink = tc_emit_tile(s, p->acc, p->rows);
  if (!p->one_block && p->out != TC_NONE) f.state.mix = tc_emit_tile(s, p->acc, states * columns);
  if (p->key_group)
    f.total = (row_state){tc_emit_tile(s, p->acc, states), tc_emit_tile(s, p->acc, states),
                          tc_emit_tile(s, p->acc, states * columns)};
  int64_t blocks = (p->f + p->row_block - 1) / p->row_block;
  tc_val begin = nullary(s, TC_IR_BEGIN);
  tc_val finish = nullary(s, TC_IR_FINISH);
  if (p->winograd_dot) f.begins_pair = pair_beginnings(p);
  tc_val unit = loop(s, begin, finish, 1), block = rem_by(s, unit, blocks);
  s->at[TC_RANGE_A] = div_by(s, unit, blocks), s->bound[TC_RANGE_A] = true;
  p->q.at = tc_emit_base(s, &p->q.base), p->k.at = tc_emit_base(s, &p->k.base);
  if (p->out != TC_NONE) p->v.at = tc_emit_base(s, &p->v.base);
  if (p->has_mask) p->mask.at = tc_emit_base(s, &p->mask.base);
  f.r0 = times(s, block, p->row_block);
  forward_unit(&f, least(s, i64(s, p->f), plus(s, f.r0, p->row_block)));
  end(s);
  s->x->extent = p->a * blocks;
}

void tc_emitter_attention(tc_emit_ctx *s) {
  tc_attention_emitter at = {.s = s}, *p = &at;
  if (!tc_attention_take(p)) return;
  choose_key_blocks(p);
  s->lanes = p->lanes, s->vector = -1;
  if (p->backward)
    tc_attention_backward(p);
  else
    forward_kernel(p);
  double matmuls = p->backward ? 2.0 * (double)(3 * p->e + 2 * p->ev) : 2.0 * (double)(p->e + p->ev);
  double pairs = (double)(p->n * p->hq * p->l) * (double)p->keys * (p->causal && !p->has_length ? 0.5 : 1);
  s->x->work = pairs * (matmuls / (p->step * (tc_compiler_vector_bytes() == 64 ? 150 : 70)) + 0.2) + 50;
}
