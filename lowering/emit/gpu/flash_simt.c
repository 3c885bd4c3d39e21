// Attention's matmuls by multiply-adds: 16 threads a row, which read their operands from shared
// memory, 16 bytes at a time.
// Order: a score is one chain over the head from zero, a sum one chain over the chunks' rows. The
// block does not matter.
#include "lowering/emit/gpu/flash_common.h"

static const tc_flash_tiling tilings[] = {{64, 8, 1.0}, {64, 4, 0.9},  {32, 4, 0.8}, {32, 2, 0.6},
                                          {16, 2, 0.5}, {16, 1, 0.35}, {8, 1, 0.3},  {4, 1, 0.15}};

static void product_in_threads(tc_flash *p, const tc_flash_tile *own, const tc_flash_tile *other, tc_val from,
                               tc_val *v) {
  tc_emit_ctx *s = p->at.s;
  int wide = TC_GEMM_COPIED / (int)tc_type_bytes(own->type), held = p->tiling.held;
  tc_val zero = splat(s, number(&p->at, 0), p->threads), a[TC_FLASH_ROWS], b[TC_FLASH_VALUES];
  for (int i = 0; i < held * p->each; i++) v[i] = var(s, zero);
  tc_val row = times(s, p->row[0], own->pitch), column = add(s, times(s, p->column, other->pitch), from);
  tc_val k = loop_to(s, i64(s, tc_ceil_div(own->columns, wide) * wide), wide);
  row = add(s, row, k), column = add(s, column, k);
  for (int i = 0; i < held; i++)
    a[i] = tc_flash_read(p, own, plus(s, row, (int64_t)i * tc_flash_row_stride(p) * own->pitch), wide);
  for (int c = 0; c < p->each; c++)
    b[c] = tc_flash_read(p, other, plus(s, column, tc_flash_column(p, c) * other->pitch), wide);
  for (int j = 0; j < wide; j++)
    for (int i = 0; i < held; i++)
      for (int c = 0; c < p->each; c++) {
        tc_val sum = v[i * p->each + c];
        set(s, sum, tc_build_fma(&s->e, tc_flash_pick(p, a[i], j), tc_flash_pick(p, b[c], j), sum));
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
      tc_val at = plus(s, to, i * tc_flash_row_stride(p) * pitch + tc_flash_column(p, c));
      scatter(s, tile.tile, at, weights[i * p->each + c], TC_NONE);
    }
  tc_val k = loop_to(s, i64(s, p->chunk), wide);
  tc_val column = add(s, add(s, times(s, p->column, x->run), times(s, k, other->pitch)), from);
  row = add(s, row, k);
  for (int i = 0; i < held; i++) a[i] = tc_flash_read(p, &tile, plus(s, row, i * tc_flash_row_stride(p) * pitch), wide);
  for (int j = 0; j < wide; j++) {
    for (int c = 0; c < per_row; c += x->run)
      b[c / x->run] = tc_flash_read(p, other, plus(s, column, j * other->pitch + (int64_t)c * p->way->across), x->run);
    for (int i = 0; i < held; i++)
      for (int c = 0; c < per_row; c++) {
        tc_val sum = x->var[i * per_row + c];
        set(s, sum, tc_build_fma(&s->e, tc_flash_pick(p, a[i], j), tc_flash_pick(p, b[c / x->run], c % x->run), sum));
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
