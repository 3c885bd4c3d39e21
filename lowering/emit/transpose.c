// Turning kernels: a FLAT group that reads along other axes than it writes. Element by element that is a gather; here a square block is read by rows,
// turned in registers and kept in a tile, from which the lanes are then loaded.
//
//   for each block of `turning` rows of K0 by `lanes` of K:
//     for each such load: rows of the block, read along K0 -> tc_emit_turn -> its tile, along K
//     for each row of the block: the group's values, and their stores
#include "lowering/emit/context.h"
#include "lowering/jit/compiler.h"

// Turns a block of a load: `rows` rows of K0 by the block's lanes, read along K0 and stored along K.
static void turn_block(tc_ex *s, tc_turned *t, tc_val columns, tc_val rows_left) {
  tc_type type = s->g->node[t->node].type;
  int rows = s->turning, buf = tc_ex_buffer(s, t->node);
  int64_t stride;
  tc_val vec, base = tc_ex_index_value(s, t->flat, &stride, &vec), v[64];
  tc_val row_mask = TC_NONE, numbers = tc_emit_raw(&s->e, TC_N_LANES, TC_I64, rows, TC_NONE, TC_NONE, TC_NONE, 0);
  if (rows_left != TC_NONE) row_mask = tc_emit_bin(&s->e, TC_N_LT, numbers, rows_left);
  // A loop, not one square after another: of the time that compiling such a kernel takes, most goes to the shuffles.
  tc_val first = tc_ex_loop(s, tc_ex_i64(s, 0), tc_ex_i64(s, s->lanes), rows);
  tc_val from = tc_emit_bin(&s->e, TC_N_ADD, base, tc_ex_scaled(s, first, stride));
  for (int i = 0; i < rows; i++) {
    tc_val at = tc_emit_bin(&s->e, TC_N_ADD, from, tc_ex_i64(s, i * stride)), mask = row_mask;
    if (columns != TC_NONE) {
      tc_val column = tc_emit_bin(&s->e, TC_N_ADD, first, tc_ex_i64(s, i));
      tc_val there = tc_emit_splat(&s->e, tc_emit_bin(&s->e, TC_N_LT, column, columns), rows);
      mask = mask == TC_NONE ? there : tc_emit_bin(&s->e, TC_N_AND, mask, there);
    }
    v[i] = tc_emit_raw(&s->e, TC_N_LOAD, type, rows, at, mask, TC_NONE, buf);
  }
  tc_emit_turn(&s->e, v, rows);
  for (int i = 0; i < rows; i++) {
    tc_val to = tc_emit_bin(&s->e, TC_N_ADD, first, tc_ex_i64(s, (int64_t)i * s->lanes));
    (void)tc_emit_raw(&s->e, TC_N_STORE, type, rows, to, v[i], TC_NONE, t->tile);
  }
  tc_ex_end_loop(s);
}

void tc_ex_turning_kernel(tc_ex *s) {
  int64_t inner = s->split, k0 = s->gp->k / s->split;
  s->turning = tc_ex_turned_rows(s, s->turned[0].node);
  s->lanes = TC_MAX_OF(tc_ex_lanes_for(inner), s->turning);
  s->vector = TC_RANGE_K;
  int64_t blocks = (inner + s->lanes - 1) / s->lanes, row_blocks = (k0 + s->turning - 1) / s->turning;
  for (int i = 0; i < s->n_turned; i++) s->turned[i].tile = tc_ex_tile(s, s->g->node[s->turned[i].node].type, (int64_t)s->turning * s->lanes);
  tc_ex_preload(s);
  tc_val begin = tc_emit_raw(&s->e, TC_N_BEGIN, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  tc_val end = tc_emit_raw(&s->e, TC_N_FINISH, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  tc_val o = tc_ex_loop(s, begin, end, 1), zero = tc_ex_i64(s, 0);
  tc_val block = blocks == 1 ? zero : tc_emit_bin(&s->e, TC_N_REM, o, tc_ex_i64(s, blocks));
  tc_val first = tc_ex_scaled(s, blocks == 1 ? o : tc_emit_bin(&s->e, TC_N_DIV, o, tc_ex_i64(s, blocks)), s->turning);
  s->at[TC_RANGE_A] = zero, s->at[TC_RANGE_K0] = first, s->at[TC_RANGE_K] = tc_ex_scaled(s, block, s->lanes);
  s->bound[TC_RANGE_A] = s->bound[TC_RANGE_K] = s->bound[TC_RANGE_K0] = true;
  tc_val rows = tc_emit_bin(&s->e, TC_N_SUB, tc_ex_i64(s, k0), first), columns = tc_emit_bin(&s->e, TC_N_SUB, tc_ex_i64(s, inner), s->at[TC_RANGE_K]);
  for (int i = 0; i < s->n_turned; i++) turn_block(s, &s->turned[i], inner % s->lanes ? columns : TC_NONE, k0 % s->turning ? rows : TC_NONE);
  if (inner % s->lanes) tc_ex_set_mask(s, s->at[TC_RANGE_K], tc_ex_i64(s, inner));
  s->turned_row = tc_ex_loop(s, zero, tc_emit_bin(&s->e, TC_N_MIN, rows, tc_ex_i64(s, s->turning)), 1);
  s->at[TC_RANGE_K0] = tc_emit_bin(&s->e, TC_N_ADD, first, s->turned_row);
  tc_ex_stores(s);
  tc_ex_end_loop(s);
  tc_ex_end_loop(s);
  s->x->extent = row_blocks * blocks;
}
