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
#include "lowering/emit/attention/tile.h"

#define BLOCK_ROWS 96  // of a block of rows
#define GROUP_ROWS (TC_CHAIN_BLOCKS * BLOCK_ROWS)

#define E (&p->s->e)

typedef struct backward {
  tc_attention_emitter *p;
  int key_panels, value_panels, keys, queries, douts, weights, slopes, dq, dk, dv;  // tiles
  int dq_total, dk_total, dv_total;  // tiles: sums of all groups; without groups, the same tiles as above
  bool row_groups;
  int64_t e, ev;  // columns as packed
  tc_val unit, head;  // head: index of the query head within the key head's group
  tc_val k0, k1, row0, n_rows;
} backward;

static bool wants_slopes(const tc_attention_emitter *p) {
  return p->dq != TC_NONE || p->dk != TC_NONE;
}

// Replaces scores by weights, and products of dout with values by gradients of the scores. Unseen
// keys get zeros, and so do a few past the last key of the tile.
static void slopes(backward *b, tc_val row, tc_val at, tc_val count) {
  tc_attention_emitter *p = b->p;
  tc_val rows[TC_ATTENTION_ROWS], greatest[TC_ATTENTION_ROWS], log[TC_ATTENTION_ROWS], delta[TC_ATTENTION_ROWS],
      to = sees_all(p) ? count : plus(p->s, count, TC_ATTENTION_ROWS - 1);
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
  for (tc_attention_steps x = tc_attention_steps_of(p, rows, b->k0, b->k1); tc_attention_next_steps(p, &x, to);)
    for (int i = 0; i < p->rows; i++) {
      tc_val here = plus(p->s, add(p->s, at, x.at), i * p->pitch), seen = seen_by(p, &x, i),
             v = load(p->s, b->weights, p->acc, TC_ATTENTION_STEP, here, TC_NONE);
      v = tc_attention_masked(p, v, rows[i], add(p->s, b->k0, x.at), &seen);
      v = only(p, seen, tc_attention_power(p, sub(p->s, sub(p->s, v, greatest[i]), log[i])), 0);
      store(p->s, b->weights, here, v);
      if (!wants_slopes(p)) continue;
      tc_val g = sub(p->s, load(p->s, b->slopes, p->acc, TC_ATTENTION_STEP, here, TC_NONE), delta[i]);
      store(p->s, b->slopes, here, only(p, seen, mul(p->s, v, g), 0));
    }
}

// Computes dq of a tile of rows. With one block of keys it is stored in the result, else added to
// the sums so far.
static void sum_queries(backward *b, tc_val row, tc_val at, tc_val count) {
  tc_attention_emitter *p = b->p;
  int rows = (int)p->rows;
  for (tc_attention_panels x = {.columns = p->e}; tc_attention_next_panel(p, &x);) {
    tc_val acc[TC_ATTENTION_ROWS], so_far = TC_NONE;
    tc_attention_clear(p, rows, x.lanes, acc);
    if (!p->one_block)
      so_far =
          add(p->s, times(p->s, add(p->s, times(p->s, b->head, ceil_to(p->l, p->rows) + p->rows), row), b->e), x.at);
    tc_attention_multiply(p, rows, x.lanes, tile_side(p, b->slopes, at, p->pitch, 1),
                          tile_side(p, b->keys, x.at, 0, b->e), i64(p->s, 0), count, acc);
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

// Adds the block of rows to the sums of TC_ATTENTION_ROWS keys: weights times dout, or gradients of
// scores times queries.
static void sum_keys(backward *b, tc_val key, int factors, int rows, int sums, int64_t columns, int64_t pitch) {
  tc_attention_emitter *p = b->p;
  tc_val first = i64(p->s, 0);
  if (p->causal) first = most(p->s, first, sub(p->s, sub(p->s, add(p->s, b->k0, key), p->first_seen), b->row0));
  for (tc_attention_panels x = {.columns = columns}; tc_attention_next_panel(p, &x);) {
    tc_val acc[TC_ATTENTION_ROWS], at = add(p->s, times(p->s, key, pitch), x.at);
    tc_attention_clear(p, TC_ATTENTION_ROWS, x.lanes, acc);
    tc_attention_multiply(p, TC_ATTENTION_ROWS, x.lanes, tile_side(p, factors, key, 1, p->pitch),
                          tile_side(p, rows, x.at, 0, pitch), first, b->n_rows, acc);
    for (int i = 0; i < TC_ATTENTION_ROWS; i++) {
      tc_val at_row = plus(p->s, at, i * pitch), before = load(p->s, sums, p->acc, x.lanes, at_row, TC_NONE);
      store(p->s, sums, at_row, add(p->s, before, acc[i]));
    }
  }
}

static void backward_rows(backward *b) {
  tc_attention_emitter *p = b->p;
  tc_val last = i64(p->s, p->f - 1),
         padded = times(p->s, bin(p->s, TC_IR_DIV, plus(p->s, b->n_rows, p->rows - 1), i64(p->s, p->rows)), p->rows);
  tc_attention_pack_rows(p, &p->q, b->row0, padded, last, p->e, b->e, b->queries, i64(p->s, 0));
  tc_attention_pack_rows(p, &p->dout, b->row0, padded, last, p->ev, b->ev, b->douts, i64(p->s, 0));
  tc_val i = loop_to(p->s, b->n_rows, p->rows), row = add(p->s, b->row0, i), at = times(p->s, i, p->pitch);
  tc_val stop = p->causal
                    ? least(p->s, b->k1, tc_attention_limit(p, tc_attention_last_row(p, plus(p->s, row, p->rows))))
                    : b->k1,
         count = sub(p->s, stop, b->k0);
  tc_attention_with_panels(p, tile_side(p, b->queries, times(p->s, i, b->e), b->e, 1), b->key_panels, p->e, count,
                           b->weights, at, NULL);
  if (wants_slopes(p))
    tc_attention_with_panels(p, tile_side(p, b->douts, times(p->s, i, b->ev), b->ev, 1), b->value_panels, p->ev, count,
                             b->slopes, at, NULL);
  slopes(b, row, at, count);
  if (p->dq != TC_NONE) sum_queries(b, row, at, count);
  end(p->s);
  if (p->dk == TC_NONE && p->dv == TC_NONE) return;
  tc_val key = loop_to(p->s, sub(p->s, b->k1, b->k0), TC_ATTENTION_ROWS);
  if (p->dv != TC_NONE) sum_keys(b, key, b->weights, b->douts, b->dv, p->ev, b->ev);
  if (p->dk != TC_NONE) sum_keys(b, key, b->slopes, b->queries, b->dk, p->e, b->e);
  end(p->s);
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
  tc_attention_transpose_keys(p, &p->k, b->k0, b->k1, b->k0, b->k1, p->e, b->key_panels, tc_attention_key_scale(p),
                              NULL);
  if (wants_slopes(p))
    tc_attention_transpose_keys(p, &p->v, b->k0, b->k1, b->k0, b->k1, p->ev, b->value_panels, TC_NONE, NULL);
  if (p->dq != TC_NONE)
    tc_attention_pack_rows(p, &p->k, b->k0, n_here, plus(p->s, b->k1, -1), p->e, b->e, b->keys, i64(p->s, 0));
  b->head = loop(p->s, zero, i64(p->s, p->group), 1);
  enter_head(b);
  tc_val first = p->causal ? most(p->s, zero, sub(p->s, b->k0, p->first_seen)) : zero;
  if (p->one_block) first = zero;  // rows that see nothing need zeros
  tc_val last = i64(p->s, p->l);
  if (b->row_groups) {
    first = loop(p->s, first, last, GROUP_ROWS), last = least(p->s, last, plus(p->s, first, GROUP_ROWS));
    if (p->dk != TC_NONE) fill_zero(p, b->dk, dk_size);
    if (p->dv != TC_NONE) fill_zero(p, b->dv, dv_size);
  }
  b->row0 = loop(p->s, first, last, BLOCK_ROWS);
  b->n_rows = least(p->s, i64(p->s, BLOCK_ROWS), sub(p->s, b->row_groups ? last : i64(p->s, p->l), b->row0));
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
  int64_t head_rows = ceil_to(p->l, p->rows) + p->rows;
  if (p->one_block) {
    b->k0 = i64(p->s, 0), b->k1 = p->n_keys;
    backward_block(b, i64(p->s, p->keys));
    return;
  }
  int64_t dq_size = p->group * head_rows * b->e;
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
  store_sums(b, p->dq, b->dq_total, add(p->s, times(p->s, head, head_rows), row),
             add(p->s, times(p->s, b->unit, p->group), head), row, p->hq, p->l, p->e, b->e, p->scale);
  end(p->s);
  end(p->s);
}

void tc_attention_backward(tc_attention_emitter *p) {
  tc_emit_ctx *s = p->s;
  backward b = {.p = p, .e = packed_columns(p, p->e), .ev = packed_columns(p, p->ev)};
  int64_t keys = ceil_to(p->block, p->lanes), rows = BLOCK_ROWS + p->rows;
  b.key_panels = tc_emit_tile(s, p->acc, keys * panel_columns(p, p->e));
  if (wants_slopes(p)) b.value_panels = tc_emit_tile(s, p->acc, keys * panel_columns(p, p->ev));
  if (p->dq != TC_NONE) b.keys = tc_emit_tile(s, p->acc, p->block * b.e);
  b.queries = tc_emit_tile(s, p->acc, rows * b.e), b.douts = tc_emit_tile(s, p->acc, rows * b.ev);
  b.weights = tc_emit_tile(s, p->acc, rows * p->pitch);
  if (wants_slopes(p)) b.slopes = tc_emit_tile(s, p->acc, rows * p->pitch);
  int64_t dq_size = p->group * (ceil_to(p->l, p->rows) + p->rows) * b.e;
  if (p->dq != TC_NONE && !p->one_block) b.dq_total = b.dq = tc_emit_tile(s, p->acc, dq_size);
  if (p->dk != TC_NONE) b.dk_total = b.dk = tc_emit_tile(s, p->acc, (p->block + TC_ATTENTION_ROWS) * b.e);
  if (p->dv != TC_NONE) b.dv_total = b.dv = tc_emit_tile(s, p->acc, (p->block + TC_ATTENTION_ROWS) * b.ev);
  if (p->dq != TC_NONE && p->key_group) b.dq_total = tc_emit_tile(s, p->acc, dq_size);
  b.row_groups = p->l > TC_CHAIN_WHOLE && p->group * p->l > GROUP_ROWS;
  if (p->dk != TC_NONE && b.row_groups) b.dk_total = tc_emit_tile(s, p->acc, (p->block + TC_ATTENTION_ROWS) * b.e);
  if (p->dv != TC_NONE && b.row_groups) b.dv_total = tc_emit_tile(s, p->acc, (p->block + TC_ATTENTION_ROWS) * b.ev);
  b.unit = tc_emit_begin_units(s);
  s->at[TC_RANGE_A] = times(s, b.unit, p->group), s->bound[TC_RANGE_A] = true;
  p->k.at = tc_emit_base(s, &p->k.base), p->v.at = tc_emit_base(s, &p->v.base);
  backward_unit(&b);
  end(s);
  s->x->extent = p->n * p->hkv;
}
