// Attention's matmuls by multiply-adds: 16 threads a row, which read their operands from shared
// memory, 16 bytes at a time.
// Order: a score is one chain over the head from zero, a sum one chain over the chunks' rows. The
// block does not matter.
#include "lowering/emit/gpu/flash_common.h"

static const tc_flash_tiling tilings[] = {{64, 8, 1.0}, {64, 4, 0.9},  {32, 4, 0.8}, {32, 2, 0.6},
                                          {16, 2, 0.5}, {16, 1, 0.35}, {8, 1, 0.3},  {4, 1, 0.15}};

static tc_val read(tc_flash *p, const tc_flash_tile *x, tc_val at, int run) {
  return tc_build_raw(&p->at.s->e, TC_IR_GATHER, x->type, p->threads * run, at, TC_NONE, TC_NONE, x->tile);
}

static tc_val pick(tc_flash *p, tc_val v, int k) {
  if (tc_build_lanes(&p->at.s->e, v) == p->threads) return v;
  return tc_build_raw(&p->at.s->e, TC_IR_EXTRACT, p->at.acc, p->threads, v, TC_NONE, TC_NONE, k);
}

static void product_in_threads(tc_flash *p, const tc_flash_tile *own, const tc_flash_tile *other, tc_val from,
                               tc_val *v) {
  tc_emit_ctx *s = p->at.s;
  int wide = TC_GEMM_COPIED / (int)tc_type_bytes(own->type), held = p->tiling.held;
  tc_val zero = tc_flash_splat(p, number(&p->at, 0)), a[TC_FLASH_ROWS], b[TC_FLASH_VALUES];
  for (int i = 0; i < held * p->each; i++) v[i] = tc_build_var(&s->e, zero);
  tc_val row = times(s, p->row[0], own->pitch), column = add(s, times(s, p->column, other->pitch), from);
  tc_val k = loop(s, i64(s, 0), i64(s, tc_ceil_div(own->columns, wide) * wide), wide);
  row = add(s, row, k), column = add(s, column, k);
  for (int i = 0; i < held; i++)
    a[i] = read(p, own, plus(&p->at, row, (int64_t)i * tc_flash_row_stride(p) * own->pitch), wide);
  for (int c = 0; c < p->each; c++)
    b[c] = read(p, other, plus(&p->at, column, tc_flash_column(p, c) * other->pitch), wide);
  for (int j = 0; j < wide; j++)
    for (int i = 0; i < held; i++)
      for (int c = 0; c < p->each; c++) {
        tc_val sum = v[i * p->each + c];
        tc_build_set(&s->e, sum, tc_build_fma(&s->e, pick(p, a[i], j), pick(p, b[c], j), sum));
      }
  end(s);
}

// Weights become rows of a tile, which all threads of a row read.
static void add_weighted_in_threads(tc_flash *p, const tc_flash_sums *x, const tc_val *weights,
                                    const tc_flash_tile *other, tc_val from) {
  tc_emit_ctx *s = p->at.s;
  int wide = TC_GEMM_COPIED / (int)tc_type_bytes(other->type), held = p->tiling.held, per_row = x->n / held;
  int64_t pitch = (p->chunk / wide | 1) * wide;
  const tc_flash_tile tile = {.type = other->type, .tile = p->weights};
  tc_val row = times(s, p->row[0], pitch), to = add(s, row, p->column), a[TC_FLASH_ROWS], b[TC_FLASH_SUMS];
  for (int i = 0; i < held; i++)
    for (int c = 0; c < p->each; c++) {
      tc_val at = plus(&p->at, to, i * tc_flash_row_stride(p) * pitch + tc_flash_column(p, c));
      (void)tc_build_raw(&s->e, TC_IR_SCATTER, tile.type, p->threads, at, weights[i * p->each + c], TC_NONE, tile.tile);
    }
  tc_val k = loop(s, i64(s, 0), i64(s, p->chunk), wide);
  tc_val column = add(s, add(s, times(s, p->column, x->run), times(s, k, other->pitch)), from);
  row = add(s, row, k);
  for (int i = 0; i < held; i++) a[i] = read(p, &tile, plus(&p->at, row, i * tc_flash_row_stride(p) * pitch), wide);
  for (int j = 0; j < wide; j++) {
    for (int c = 0; c < per_row; c += x->run)
      b[c / x->run] = read(p, other, plus(&p->at, column, j * other->pitch + (int64_t)c * p->way->across), x->run);
    for (int i = 0; i < held; i++)
      for (int c = 0; c < per_row; c++) {
        tc_val sum = x->var[i * per_row + c];
        tc_build_set(&s->e, sum, tc_build_fma(&s->e, pick(p, a[i], j), pick(p, b[c / x->run], c % x->run), sum));
      }
  }
  end(s);
}

// Measured: registers that a thread may hold, NVRTC for sm_90.
const tc_flash_way tc_flash_simt = {.tiling = tilings,
                                    .n_tilings = sizeof tilings / sizeof *tilings,
                                    .copies = true,
                                    .wide = 512,
                                    .most_held = 112,
                                    .across = 16,
                                    .apart = 1,
                                    .run = 1,
                                    .sums_bytes = TC_GEMM_COPIED,
                                    .each = 1,
                                    .of_rows = 1,
                                    .matmul = product_in_threads,
                                    .add = add_weighted_in_threads};
