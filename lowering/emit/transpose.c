// Emits transposing kernels: elementwise fusions that read along other axes than they write.
// Instead of a gather, a square block is read by rows, transposed in registers and stored in a
// tile. Lanes are then loaded from the tile.
//
//   for each block of `rows` rows of K0 by `lanes` of K:
//     for each such load: rows of the block, read along K0
//       -> tc_build_transpose -> its tile, along K
//     for each row of the block: the fusion's values, and their stores
#include "lowering/emit/emitters.h"
#include "lowering/emit/shorthand.h"

// Transposes a block of a load: `rows` rows of K0 by the block's lanes, read along K0 and stored
// along K.
static void transpose_block(tc_emit_ctx *s, tc_transposed_load *t, tc_val columns, tc_val rows_left) {
  tc_type type = s->g->node[t->node].type;
  int rows = s->transposed->rows, buf = tc_emit_buffer(s, t->node);
  int64_t stride;
  tc_val vec, base = tc_emit_index_value(s, t->flat, &stride, &vec), v[64];
  tc_val row_mask = TC_NONE, numbers = tc_emit_numbers(s, TC_I64, rows);
  if (rows_left != TC_NONE) row_mask = bin(s, TC_IR_LT, numbers, rows_left);
  // A loop, not one square after another: shuffles take most of such a kernel's compile time.
  tc_val first = loop_to(s, i64(s, s->lanes), rows);
  tc_val from = add(s, base, times(s, first, stride));
  for (int i = 0; i < rows; i++) {
    tc_val at = add_i64(s, from, i * stride), mask = row_mask;
    if (columns != TC_NONE) {
      tc_val column = add_i64(s, first, i);
      tc_val there = splat(s, bin(s, TC_IR_LT, column, columns), rows);
      mask = mask == TC_NONE ? there : bin(s, TC_IR_AND, mask, there);
    }
    v[i] = load(s, buf, type, rows, at, mask);
  }
  tc_build_transpose(&s->e, v, rows);
  for (int i = 0; i < rows; i++) {
    tc_val to = add_i64(s, first, (int64_t)i * s->lanes);
    store(s, t->tile, to, v[i]);
  }
  end(s);
}

void tc_emitter_transpose(tc_emit_ctx *s) {
  int64_t inner = s->split, k0 = s->gp->k / s->split;
  tc_transposed_loads *t = s->transposed;
  t->rows = tc_emit_transposed_rows(s, t->load[0].node);
  s->lanes = TC_MAX_OF(tc_emit_power_for(inner, LANES), t->rows);
  s->vector = TC_RANGE_K;
  int64_t blocks = tc_ceil_div(inner, s->lanes), row_blocks = tc_ceil_div(k0, t->rows);
  for (int i = 0; i < t->n; i++)
    t->load[i].tile = tc_emit_tile(s, s->g->node[t->load[i].node].type, (int64_t)t->rows * s->lanes);
  tc_emit_preload(s);
  tc_val o = tc_emit_begin_units(s), zero = i64(s, 0);
  tc_val block = blocks == 1 ? zero : rem_by(s, o, blocks);
  tc_val first = times(s, blocks == 1 ? o : div_by(s, o, blocks), t->rows);
  s->at[TC_RANGE_A] = zero, s->at[TC_RANGE_K0] = first, s->at[TC_RANGE_K] = times(s, block, s->lanes);
  s->bound[TC_RANGE_A] = s->bound[TC_RANGE_K] = s->bound[TC_RANGE_K0] = true;
  tc_val rows = sub(s, i64(s, k0), first), columns = sub(s, i64(s, inner), s->at[TC_RANGE_K]);
  for (int i = 0; i < t->n; i++)
    transpose_block(s, &t->load[i], inner % s->lanes ? columns : TC_NONE, k0 % t->rows ? rows : TC_NONE);
  if (inner % s->lanes) tc_emit_set_mask(s, s->at[TC_RANGE_K], i64(s, inner));
  t->row = loop(s, zero, least(s, rows, i64(s, t->rows)), 1);
  s->at[TC_RANGE_K0] = add(s, first, t->row);
  tc_emit_stores(s);
  end(s);
  end(s);
  s->x->extent = row_blocks * blocks;
}
