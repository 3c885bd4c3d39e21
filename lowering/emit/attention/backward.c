// Emits the gradients of attention: a tile of query rows against a block of keys at a time, as
// forward.c does.
//
// In: a tc_attention_emitter with its tiling. Out: kernel IR; [begin, end) counts units. A unit is
// a key head, so that every sum has one owner. dk and dv of a block of keys are summed in tiles; dq
// of all rows is summed over the blocks.
//   for each block of keys, each query head that reads it, each block of rows:
//     recompute weights from the log-sum-exp, then five matmuls
// Invariants: sums go over a block of keys or rows in order, from zero, and then over blocks in
// order (forward.c). No chain is longer than a block.
// Many blocks are added in groups (summation.h); a group of rows belongs to one head.
// By tile registers (tmm.c), weights and slopes are rounded to bf16 as words of two rows. They are
// transposed for the sums over rows, which take 32 rows a step. Rows that do not exist, and keys
// that do not or are unseen, are zeros in them.
#include "lowering/emit/attention/tile.h"

#define BLOCK_ROWS 96  // of a block of rows
// The same by tile registers. Adding a block's sums to those in memory costs an eighth to a quarter
// of its products. Estimated, not timed.
#define TMM_BLOCK_ROWS 256
#define TMM_STEP 32  // rows, or keys, of a step of tile registers
#define TMM_ROWS TC_ATTENTION_MOST_ROWS

#define E (&p->s->e)

typedef struct backward {
  tc_attention_emitter *p;
  int key_panels, value_panels, keys, queries, douts, weights, slopes, dq, dk, dv;  // tiles
  int dq_total, dk_total, dv_total;  // tiles: sums of all groups; without groups, the same tiles as above
  // Tiles, by tile registers: rows of queries or douts, and slopes of such rows in bf16.
  int packed, dq_factors;
  int weight_words, slope_words;  // weights and slopes of TMM_STEP rows, as words of two rows
  int weights_across, slopes_across;  // those of a block of rows, transposed: a row is a key's
  int tail, mixed;  // as forward
  int64_t block_rows;
  bool row_groups;
  int64_t e, ev;  // columns as packed
  tc_val unit, head;  // head: index of the query head within the key head's group
  tc_val k0, k1, row0, n_rows;
} backward;

static bool wants_slopes(const tc_attention_emitter *p) {
  return p->dq != TC_NONE || p->dk != TC_NONE;
}

static int64_t group_rows(const backward *b) {
  return TC_CHAIN_BLOCKS * b->block_rows;
}

// Words of a key's row of transposed weights. Rows lie no multiple of 4096 bytes apart.
static int64_t across_pitch(const backward *b) {
  return b->block_rows / 2 + TMM_ROWS;
}

// Rows of a head's sums of dq: a tile may go past the last row.
static int64_t head_rows(const tc_attention_emitter *p) {
  return p->tmm ? p->l + TMM_STEP : ceil_to(p->l, p->rows) + p->rows;
}

// Stores two rows of weights or slopes, from key `key` on, as words: pair `pair` of the step.
// there: mask of the bits of rows that exist.
static void store_words(backward *b, int tile, tc_val pair, tc_val key, const tc_val v[2], tc_val there) {
  tc_attention_emitter *p = b->p;
  tc_val words = tc_build_words(E, tc_build_cast_bf16_daz(E, v[0]), tc_build_cast_bf16_daz(E, v[1]));
  store(p->s, tile, add(p->s, times(p->s, pair, p->pitch), key), bin(p->s, TC_IR_AND, words, there));
}

// Returns the mask of the bits of two rows, from `row` on, that exist.
static tc_val rows_there(tc_attention_emitter *p, tc_val row) {
  tc_emit_ctx *s = p->s;
  tc_val first = select_val(s, bin(s, TC_IR_LT, row, i64(s, p->f)), const_i(s, TC_I32, 0xFFFF), const_i(s, TC_I32, 0));
  return select_val(s, bin(s, TC_IR_LT, plus(s, row, 1), i64(s, p->f)), const_i(s, TC_I32, -1), first);
}

// Replaces scores by weights, and products of dout with values by gradients of the scores. Unseen
// keys get zeros, and so do a few past the last key of the tile. By tile registers both become
// words: pair `pair` of the step's rows.
static void slopes(backward *b, tc_val row, tc_val at, tc_val count, tc_val pair) {
  tc_attention_emitter *p = b->p;
  tc_val rows[TC_ATTENTION_ROWS], greatest[TC_ATTENTION_ROWS], log[TC_ATTENTION_ROWS], delta[TC_ATTENTION_ROWS],
      weight[TC_ATTENTION_ROWS], slope[TC_ATTENTION_ROWS],
      to = sees_all(p) || p->tmm ? count : plus(p->s, count, TC_ATTENTION_ROWS - 1),
      there = p->tmm ? rows_there(p, row) : TC_NONE;
  tc_attention_rows_from(p, row, rows);
  for (int i = 0; i < p->rows; i++) {
    tc_val of_row = add(p->s, p->sums.at, times(p->s, rows[i], p->sums.stride));
    greatest[i] =
        mul(p->s, load(p->s, p->sums.buf, p->sums.type, 1, of_row, TC_NONE), number(p, tc_attention_units(p)));
    log[i] = mul(p->s, load(p->s, p->sums.buf, p->sums.type, 1, plus(p->s, of_row, p->sums.col), TC_NONE),
                 number(p, tc_attention_units(p)));
    delta[i] = load(p->s, p->delta.buf, p->delta.type, 1, add(p->s, p->delta.at, times(p->s, rows[i], p->delta.stride)),
                    TC_NONE);
  }
  for (tc_attention_steps x = tc_attention_steps_of(p, rows, b->k0, b->k1); tc_attention_next_steps(p, &x, to);) {
    for (int i = 0; i < p->rows; i++) {
      tc_val here = plus(p->s, add(p->s, at, x.at), i * p->pitch), seen = seen_by(p, &x, i),
             v = load(p->s, b->weights, p->acc, TC_ATTENTION_STEP, here, TC_NONE);
      if (p->tmm) v = mul(p->s, v, tc_attention_key_scale(p));
      v = tc_attention_masked(p, v, rows[i], add(p->s, b->k0, x.at), &seen);
      weight[i] = v = only(p, seen, tc_attention_power(p, sub(p->s, sub(p->s, v, greatest[i]), log[i])), 0);
      if (!p->tmm) store(p->s, b->weights, here, v);
      if (!wants_slopes(p)) continue;
      tc_val g = sub(p->s, load(p->s, b->slopes, p->acc, TC_ATTENTION_STEP, here, TC_NONE), delta[i]);
      slope[i] = only(p, seen, mul(p->s, v, g), 0);
      if (!p->tmm) store(p->s, b->slopes, here, slope[i]);
      if (p->tmm && p->dq != TC_NONE) store(p->s, b->dq_factors, here, tc_build_cast_bf16_daz(E, slope[i]));
    }
    if (p->tmm && p->dv != TC_NONE) store_words(b, b->weight_words, pair, x.at, weight, there);
    if (p->tmm && p->dk != TC_NONE) store_words(b, b->slope_words, pair, x.at, slope, there);
  }
}

// Loads the sums that tc_attention_tmm_mix stored.
static void load_mixed(backward *b, int lanes, tc_val *acc) {
  for (int i = 0; i < TMM_ROWS; i++)
    acc[i] = load(b->p->s, b->mixed, b->p->acc, lanes, i64(b->p->s, i * TC_ATTENTION_WIDEST), TC_NONE);
}

// Computes dq of a tile of rows. With one block of keys it is stored in the result, else added to
// the sums so far.
static void sum_queries(backward *b, tc_val row, tc_val at, tc_val count) {
  tc_attention_emitter *p = b->p;
  int rows = p->tmm ? TMM_ROWS : (int)p->rows;
  for (tc_attention_panels x = {.columns = p->e}; tc_attention_next_panel(p, &x);) {
    tc_val acc[TC_ATTENTION_MOST_ROWS], so_far = TC_NONE;
    tc_attention_matmul_operand keys = tile_side(p, b->keys, x.at, 0, b->e);
    if (!p->tmm) tc_attention_clear(p, rows, x.lanes, acc);
    if (!p->one_block) so_far = add(p->s, times(p->s, add(p->s, times(p->s, b->head, head_rows(p)), row), b->e), x.at);
    if (p->tmm) {
      tc_attention_matmul_operand factors = {b->dq_factors, TC_BF16, at, p->pitch, 2, NULL};
      tc_attention_tmm_mix(p, &factors, &keys, x.lanes, i64(p->s, 0), count, b->tail, b->mixed);
      load_mixed(b, x.lanes, acc);
    } else {
      tc_attention_multiply(p, rows, x.lanes, tile_side(p, b->slopes, at, p->pitch, 1), keys, i64(p->s, 0), count, acc);
    }
    for (int i = 0; i < rows; i++) {
      tc_val r = plus(p->s, row, i);
      if (!p->one_block) {
        tc_val at_row = plus(p->s, so_far, i * b->e), before = load(p->s, b->dq, p->acc, x.lanes, at_row, TC_NONE);
        store(p->s, b->dq, at_row, add(p->s, before, acc[i]));
        continue;
      }
      begin_if(p->s, bin(p->s, TC_IR_LT, r, i64(p->s, p->f)));
      tc_attention_store_part(p, p->dq, tc_attention_result_row(p, p->dq, p->s->at[TC_RANGE_A], r, p->hq, p->l, p->e),
                              &x, mul(p->s, acc[i], p->scale));
      end_if(p->s);
    }
  }
}

// Adds the block of rows to the sums of TC_ATTENTION_ROWS keys, or TMM_ROWS: weights times dout, or
// gradients of scores times queries.
static void sum_keys(backward *b, tc_val key, int factors, int rows, int sums, int64_t columns, int64_t pitch) {
  tc_attention_emitter *p = b->p;
  tc_val first = i64(p->s, 0);
  if (p->causal) first = most(p->s, first, sub(p->s, sub(p->s, add(p->s, b->k0, key), p->first_seen), b->row0));
  for (tc_attention_panels x = {.columns = columns}; tc_attention_next_panel(p, &x);) {
    tc_val acc[TC_ATTENTION_MOST_ROWS], at = add(p->s, times(p->s, key, pitch), x.at);
    tc_attention_matmul_operand of_rows = tile_side(p, rows, x.at, 0, pitch);
    if (p->tmm) {
      const int64_t across = across_pitch(b);
      tc_attention_matmul_operand of_keys = tile_side(p, factors, times(p->s, key, across), across, 1);
      tc_attention_tmm_mix(p, &of_keys, &of_rows, x.lanes, div_by(p->s, first, TMM_STEP), b->n_rows, b->tail, b->mixed);
      load_mixed(b, x.lanes, acc);
    } else {
      tc_attention_clear(p, TC_ATTENTION_ROWS, x.lanes, acc);
      tc_attention_multiply(p, TC_ATTENTION_ROWS, x.lanes, tile_side(p, factors, key, 1, p->pitch), of_rows, first,
                            b->n_rows, acc);
    }
    for (int i = 0; i < (p->tmm ? TMM_ROWS : TC_ATTENTION_ROWS); i++) {
      tc_val at_row = plus(p->s, at, i * pitch), before = load(p->s, sums, p->acc, x.lanes, at_row, TC_NONE);
      store(p->s, sums, at_row, add(p->s, before, acc[i]));
    }
  }
}

static void sum_all_keys(backward *b, tc_val n_keys, int n, int weights, int slopes) {
  tc_attention_emitter *p = b->p;
  if (p->dk == TC_NONE && p->dv == TC_NONE) return;
  tc_val key = loop_to(p->s, n_keys, n);
  if (p->dv != TC_NONE) sum_keys(b, key, weights, b->douts, b->dv, p->ev, b->ev);
  if (p->dk != TC_NONE) sum_keys(b, key, slopes, b->queries, b->dk, p->e, b->e);
  end(p->s);
}

// Transposes the words of a step of rows, number `step` of the block, for the keys up to `count`.
static void transpose_words(backward *b, int words, int across, tc_val step, tc_val count) {
  tc_attention_emitter *p = b->p;
  tc_val v[TMM_ROWS], key = loop_to(p->s, count, TMM_ROWS);
  for (int i = 0; i < TMM_ROWS; i++) v[i] = load(p->s, words, TC_I32, TMM_ROWS, plus(p->s, key, i * p->pitch), TC_NONE);
  tc_build_transpose(E, v, TMM_ROWS);
  tc_val to = add(p->s, times(p->s, key, across_pitch(b)), times(p->s, step, TMM_ROWS));
  for (int i = 0; i < TMM_ROWS; i++) store(p->s, across, plus(p->s, to, i * across_pitch(b)), v[i]);
  end(p->s);
}

// Returns how many of the block's keys are seen by the last of n rows from `row` on.
static tc_val keys_seen(backward *b, tc_val row, int64_t n) {
  tc_attention_emitter *p = b->p;
  tc_val to = b->k1;
  if (p->causal) to = least(p->s, to, tc_attention_limit(p, tc_attention_last_row(p, plus(p->s, row, n))));
  return sub(p->s, to, b->k0);
}

// Computes the weights and slopes of a tile of rows, from `half` on in a step, and its dq.
static void tile_by_tmm(backward *b, tc_val row, tc_val half, tc_val count) {
  tc_attention_emitter *p = b->p;
  tc_val zero = i64(p->s, 0);
  tc_attention_tmm_pack(p, &p->q, p->e, row, b->packed);
  tc_attention_tmm_scores(p, b->packed, b->key_panels, p->e, count, b->weights, NULL);
  if (wants_slopes(p)) {
    tc_attention_tmm_pack(p, &p->dout, p->ev, row, b->packed);
    tc_attention_tmm_scores(p, b->packed, b->value_panels, p->ev, count, b->slopes, NULL);
  }
  tc_val i = loop_to(p->s, i64(p->s, TMM_ROWS), 2);
  slopes(b, add(p->s, row, i), times(p->s, i, p->pitch), count, div_by(p->s, add(p->s, half, i), 2));
  end(p->s);
  if (p->dq == TC_NONE) return;
  tc_attention_tmm_clear(p, b->dq_factors, count);
  sum_queries(b, row, zero, count);
}

// Does the work of backward_rows by tile registers. Both tiles of a step take the keys that its
// last row sees.
static void backward_rows_by_tmm(backward *b) {
  tc_attention_emitter *p = b->p;
  tc_emit_ctx *s = p->s;
  tc_val zero = i64(s, 0), last = plus(s, add(s, b->row0, b->n_rows), -1), pairs = div_by(s, plus(s, b->n_rows, 1), 2);
  if (p->dk != TC_NONE) tc_attention_pack_rows(p, &p->q, b->row0, pairs, last, p->e, b->e, b->queries, zero);
  if (p->dv != TC_NONE) tc_attention_pack_rows(p, &p->dout, b->row0, pairs, last, p->ev, b->ev, b->douts, zero);
  tc_val i = loop_to(s, b->n_rows, TMM_STEP), row = add(s, b->row0, i),
         count = most(s, zero, keys_seen(b, row, TMM_STEP));
  tc_val half = loop_to(s, i64(s, TMM_STEP), TMM_ROWS);
  tile_by_tmm(b, add(s, row, half), half, count);
  end(s);
  tc_val step = div_by(s, i, TMM_STEP);
  if (p->dv != TC_NONE) transpose_words(b, b->weight_words, b->weights_across, step, count);
  if (p->dk != TC_NONE) transpose_words(b, b->slope_words, b->slopes_across, step, count);
  end(s);
  sum_all_keys(b, keys_seen(b, last, 1), TMM_ROWS, b->weights_across, b->slopes_across);
}

static void backward_rows(backward *b) {
  tc_attention_emitter *p = b->p;
  tc_val last = i64(p->s, p->f - 1),
         padded = times(p->s, bin(p->s, TC_IR_DIV, plus(p->s, b->n_rows, p->rows - 1), i64(p->s, p->rows)), p->rows);
  tc_attention_pack_rows(p, &p->q, b->row0, padded, last, p->e, b->e, b->queries, i64(p->s, 0));
  tc_attention_pack_rows(p, &p->dout, b->row0, padded, last, p->ev, b->ev, b->douts, i64(p->s, 0));
  tc_val i = loop_to(p->s, b->n_rows, p->rows), row = add(p->s, b->row0, i), at = times(p->s, i, p->pitch);
  tc_val count = keys_seen(b, row, p->rows);
  tc_attention_with_panels(p, tile_side(p, b->queries, times(p->s, i, b->e), b->e, 1), b->key_panels, p->e, count,
                           b->weights, at, NULL);
  if (wants_slopes(p))
    tc_attention_with_panels(p, tile_side(p, b->douts, times(p->s, i, b->ev), b->ev, 1), b->value_panels, p->ev, count,
                             b->slopes, at, NULL);
  slopes(b, row, at, count, TC_NONE);
  if (p->dq != TC_NONE) sum_queries(b, row, at, count);
  end(p->s);
  sum_all_keys(b, sub(p->s, b->k1, b->k0), TC_ATTENTION_ROWS, b->weights, b->slopes);
}

static void fill_zero(tc_attention_emitter *p, int tile, int64_t n) {
  tc_val i = loop_to(p->s, i64(p->s, n), p->vector);
  store(p->s, tile, i, splat(p->s, number(p, 0), p->vector));
  end(p->s);
}

static void add_tile(tc_attention_emitter *p, int to, int from, int64_t n) {
  tc_val i = loop_to(p->s, i64(p->s, n), p->vector), before = load(p->s, to, p->acc, p->vector, i, TC_NONE);
  store(p->s, to, i, add(p->s, before, load(p->s, from, p->acc, p->vector, i, TC_NONE)));
  end(p->s);
}

// Stores the sums of a block of keys, or of all rows, in their result.
static void store_sums(backward *b, uint32_t node, int tile, tc_val tile_row, tc_val head, tc_val row, int64_t heads,
                       int64_t rows, int64_t columns, int64_t pitch, tc_val by) {
  tc_attention_emitter *p = b->p;
  for (tc_attention_panels x = {.columns = columns}; tc_attention_next_panel(p, &x);) {
    tc_val v = load(p->s, tile, p->acc, x.lanes, add(p->s, times(p->s, tile_row, pitch), x.at), TC_NONE);
    tc_attention_store_part(p, node, tc_attention_result_row(p, node, head, row, heads, rows, columns), &x,
                            by == TC_NONE ? v : mul(p->s, v, by));
  }
}

static void enter_head(backward *b) {
  tc_attention_emitter *p = b->p;
  p->s->at[TC_RANGE_A] = add(p->s, times(p->s, b->unit, p->group), b->head);
  p->q.at = tc_emit_base(p->s, &p->q.base), p->dout.at = tc_emit_base(p->s, &p->dout.base),
  p->sums.at = tc_emit_base(p->s, &p->sums.base), p->delta.at = tc_emit_base(p->s, &p->delta.base);
  if (p->has_mask) p->mask.at = tc_emit_base(p->s, &p->mask.base);
}

static void backward_block(backward *b, tc_val key_end) {
  tc_attention_emitter *p = b->p;
  tc_val zero = i64(p->s, 0), n_here = most(p->s, zero, sub(p->s, b->k1, b->k0));
  int64_t dk_size = (p->block + TC_ATTENTION_ROWS) * b->e, dv_size = (p->block + TC_ATTENTION_ROWS) * b->ev;
  if (p->dk != TC_NONE) fill_zero(p, b->dk_total, dk_size);
  if (p->dv != TC_NONE) fill_zero(p, b->dv_total, dv_size);
  tc_attention_transpose_keys(p, &p->k, b->k0, b->k1, b->k0, b->k1, p->e / p->step, b->key_panels,
                              p->tmm ? TC_NONE : tc_attention_key_scale(p), NULL);
  if (wants_slopes(p))
    tc_attention_transpose_keys(p, &p->v, b->k0, b->k1, b->k0, b->k1, p->ev / p->step, b->value_panels, TC_NONE, NULL);
  if (p->tmm) n_here = div_by(p->s, plus(p->s, n_here, 1), p->step);
  if (p->dq != TC_NONE)
    tc_attention_pack_rows(p, &p->k, b->k0, n_here, plus(p->s, b->k1, -1), p->e, b->e, b->keys, i64(p->s, 0));
  b->head = loop(p->s, zero, i64(p->s, p->group), 1);
  enter_head(b);
  tc_val first = p->causal ? most(p->s, zero, sub(p->s, b->k0, p->first_seen)) : zero;
  if (p->one_block) first = zero;  // rows that see nothing need zeros
  tc_val last = i64(p->s, p->l);
  if (b->row_groups) {
    first = loop(p->s, first, last, group_rows(b)), last = least(p->s, last, plus(p->s, first, group_rows(b)));
    if (p->dk != TC_NONE) fill_zero(p, b->dk, dk_size);
    if (p->dv != TC_NONE) fill_zero(p, b->dv, dv_size);
  }
  b->row0 = loop(p->s, first, last, b->block_rows);
  b->n_rows = least(p->s, i64(p->s, b->block_rows), sub(p->s, b->row_groups ? last : i64(p->s, p->l), b->row0));
  if (p->tmm)
    backward_rows_by_tmm(b);
  else
    backward_rows(b);
  end(p->s);
  if (b->row_groups) {
    if (p->dk != TC_NONE) add_tile(p, b->dk_total, b->dk, dk_size);
    if (p->dv != TC_NONE) add_tile(p, b->dv_total, b->dv, dv_size);
    end(p->s);
  }
  end(p->s);
  tc_val key = loop(p->s, b->k0, key_end, 1), at = sub(p->s, key, b->k0);
  if (p->dk != TC_NONE) store_sums(b, p->dk, b->dk_total, at, b->unit, key, p->hkv, p->keys, p->e, b->e, p->scale);
  if (p->dv != TC_NONE) store_sums(b, p->dv, b->dv_total, at, b->unit, key, p->hkv, p->keys, p->ev, b->ev, TC_NONE);
  end(p->s);
}

static void backward_unit(backward *b) {
  tc_attention_emitter *p = b->p;
  if (p->one_block) {
    b->k0 = i64(p->s, 0), b->k1 = p->n_keys;
    backward_block(b, i64(p->s, p->keys));
    return;
  }
  int64_t dq_size = p->group * head_rows(p) * b->e;
  if (p->dq != TC_NONE) fill_zero(p, b->dq_total, dq_size);
  tc_val last = i64(p->s, p->keys), first = i64(p->s, 0);
  bool key_groups = p->key_group && p->dq != TC_NONE;
  if (key_groups) {
    first = loop(p->s, first, last, p->key_group), last = least(p->s, last, plus(p->s, first, p->key_group));
    fill_zero(p, b->dq, dq_size);
  }
  b->k0 = loop(p->s, first, last, p->block);
  tc_val stop = plus(p->s, b->k0, p->block);
  b->k1 = least(p->s, p->n_keys, stop);
  backward_block(b, least(p->s, stop, i64(p->s, p->keys)));
  end(p->s);
  if (key_groups) {
    add_tile(p, b->dq_total, b->dq, dq_size);
    end(p->s);
  }
  if (p->dq == TC_NONE) return;
  tc_val head = loop_to(p->s, i64(p->s, p->group), 1), row = loop_to(p->s, i64(p->s, p->l), 1);
  store_sums(b, p->dq, b->dq_total, add(p->s, times(p->s, head, head_rows(p)), row),
             add(p->s, times(p->s, b->unit, p->group), head), row, p->hq, p->l, p->e, b->e, p->scale);
  end(p->s);
  end(p->s);
}

// Creates the tiles of rows and of what is between them and keys.
static void make_row_tiles(backward *b) {
  tc_attention_emitter *p = b->p;
  tc_emit_ctx *s = p->s;
  int64_t rows = p->tmm ? TMM_ROWS : b->block_rows + p->rows, packed = p->tmm ? b->block_rows / 2 : rows;
  b->queries = tc_emit_tile(s, p->packed_type, packed * b->e);
  b->douts = tc_emit_tile(s, p->packed_type, packed * b->ev);
  b->weights = tc_emit_tile(s, p->acc, rows * p->pitch);
  if (wants_slopes(p)) b->slopes = tc_emit_tile(s, p->acc, rows * p->pitch);
  if (!p->tmm) return;
  const int64_t words = TMM_STEP / 2 * p->pitch, across = ceil_to(p->block, TMM_ROWS) * across_pitch(b);
  b->packed = tc_emit_tile(s, TC_I32, TMM_ROWS * tc_attention_tmm_pitch(TC_MAX_OF(p->e, p->ev)));
  b->tail = tc_emit_tile(s, TC_I32, TMM_ROWS * TC_ATTENTION_WIDEST);
  b->mixed = tc_emit_tile(s, p->acc, TMM_ROWS * TC_ATTENTION_WIDEST);
  if (p->dq != TC_NONE) b->dq_factors = tc_emit_tile(s, TC_BF16, TMM_ROWS * p->pitch);
  if (p->dv != TC_NONE)
    b->weight_words = tc_emit_tile(s, TC_I32, words), b->weights_across = tc_emit_tile(s, TC_I32, across);
  if (p->dk != TC_NONE)
    b->slope_words = tc_emit_tile(s, TC_I32, words), b->slopes_across = tc_emit_tile(s, TC_I32, across);
}

void tc_attention_backward(tc_attention_emitter *p) {
  tc_emit_ctx *s = p->s;
  backward b = {.p = p, .e = packed_columns(p, p->e), .ev = packed_columns(p, p->ev)};
  b.block_rows = p->tmm ? TMM_BLOCK_ROWS : BLOCK_ROWS;
  int64_t keys = ceil_to(p->block, p->lanes);
  b.key_panels = tc_emit_tile(s, p->packed_type, keys * panel_columns(p, p->e / p->step));
  if (wants_slopes(p)) b.value_panels = tc_emit_tile(s, p->packed_type, keys * panel_columns(p, p->ev / p->step));
  if (p->dq != TC_NONE) b.keys = tc_emit_tile(s, p->packed_type, p->block / p->step * b.e);
  make_row_tiles(&b);
  int64_t dq_size = p->group * head_rows(p) * b.e;
  if (p->dq != TC_NONE && !p->one_block) b.dq_total = b.dq = tc_emit_tile(s, p->acc, dq_size);
  if (p->dk != TC_NONE) b.dk_total = b.dk = tc_emit_tile(s, p->acc, (p->block + TC_ATTENTION_ROWS) * b.e);
  if (p->dv != TC_NONE) b.dv_total = b.dv = tc_emit_tile(s, p->acc, (p->block + TC_ATTENTION_ROWS) * b.ev);
  if (p->dq != TC_NONE && p->key_group) b.dq_total = tc_emit_tile(s, p->acc, dq_size);
  b.row_groups = p->l > TC_CHAIN_WHOLE && p->group * p->l > group_rows(&b);
  if (p->dk != TC_NONE && b.row_groups) b.dk_total = tc_emit_tile(s, p->acc, (p->block + TC_ATTENTION_ROWS) * b.e);
  if (p->dv != TC_NONE && b.row_groups) b.dv_total = tc_emit_tile(s, p->acc, (p->block + TC_ATTENTION_ROWS) * b.ev);
  b.unit = tc_emit_begin_units(s);
  s->at[TC_RANGE_A] = times(s, b.unit, p->group), s->bound[TC_RANGE_A] = true;
  p->k.at = tc_emit_base(s, &p->k.base), p->v.at = tc_emit_base(s, &p->v.base);
  backward_unit(&b);
  end(s);
  s->x->extent = p->n * p->hkv;
}
