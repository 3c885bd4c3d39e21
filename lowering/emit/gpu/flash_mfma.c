// Attention's matmuls of f16 and bf16 by AMD's matrix instructions. A wave of 64 threads has 16 or
// 32 rows. Scores are computed transposed, rows of the chunk by the wave's rows, so a thread has
// four adjacent ones of a row. Rounded, they are its part of the second matmul's operand without a
// shuffle. The second matmul is transposed too: columns by the wave's rows. Its other operand runs
// down the chunk's rows. A thread reads adjacent columns of four rows and transposes them in
// registers. So a matmul's columns lie as far apart as a thread reads at once.
// Order: in f32, and the block does not matter. A score is one chain over groups of 16 elements of
// the head, a sum one over groups of 16 rows of the chunks.
#include "lowering/emit/gpu/flash_common.h"

#define GROUP 16  // steps of an instruction, and rows and columns of its result
#define EACH 4  // steps, and accumulators, of a thread

// Not measured: speeds are estimated from the bytes read for each element and the number of waves.
static const tc_flash_tiling tilings[] = {{128, 2, 1.2}, {64, 1, 1.0}, {32, 1, 0.6}};

static tc_val multiply(tc_flash *p, tc_val a, tc_val b, tc_val sum) {
  return tc_build_raw(&p->at.s->e, TC_IR_MFMA, TC_F32, EACH * p->threads, a, b, sum, 0);
}

static void product_in_waves(tc_flash *p, const tc_flash_tile *own, const tc_flash_tile *other, tc_val from,
                             tc_val *v) {
  tc_emit_ctx *s = p->at.s;
  int held = p->tiling.held, tiles = p->chunk / GROUP;
  tc_val row = add(s, times(s, p->row[0], own->pitch), p->column), b[TC_FLASH_ROWS], sum[TC_FLASH_VALUES];
  tc_val line = add(s, add(s, times(s, tc_gemm_low(s, p->thread, GROUP), other->pitch), p->column), from);
  for (int j = 0; j < held * tiles; j++) sum[j] = zeros(s, TC_F32, EACH * p->threads);
  for (int64_t k = 0; k < own->columns; k += GROUP) {
    for (int i = 0; i < held; i++)
      b[i] = tc_flash_read(p, own, plus(s, row, (int64_t)GROUP * i * own->pitch + k), EACH);
    for (int j = 0; j < tiles; j++) {
      tc_val a = tc_flash_read(p, other, plus(s, line, (int64_t)GROUP * j * other->pitch + k), EACH);
      for (int i = 0; i < held; i++) sum[i * tiles + j] = multiply(p, a, b[i], sum[i * tiles + j]);
    }
  }
  for (int i = 0; i < held; i++)
    for (int c = 0; c < p->each; c++) v[i * p->each + c] = tc_flash_pick(p, sum[i * tiles + c / EACH], c % EACH);
}

static void add_weighted_in_waves(tc_flash *p, const tc_flash_sums *x, const tc_val *weights,
                                  const tc_flash_tile *other, tc_val from) {
  tc_emit_ctx *s = p->at.s;
  // adjacent columns that a thread reads at once, each for another matmul
  int held = p->tiling.held, per_row = x->n / held, wide = x->run / EACH;
  tc_val at = add(s, add(s, times(s, p->column, other->pitch), times(s, tc_gemm_low(s, p->thread, GROUP), wide)), from),
         b[TC_FLASH_ROWS], row[EACH], a[EACH];
  for (int k = 0; k < p->chunk; k += GROUP) {
    for (int i = 0; i < held; i++) b[i] = cast(s, tc_gemm_join(s, weights + i * p->each + k / EACH, EACH), other->type);
    for (int j = 0; j < per_row; j++) {
      for (int r = 0; r < EACH && j % wide == 0; r++)
        row[r] = tc_flash_read(p, other, plus(s, at, (k + r) * other->pitch + (int64_t)j * GROUP), wide);
      for (int r = 0; r < EACH; r++) a[r] = tc_flash_pick(p, row[r], j % wide);
      tc_val transposed = tc_gemm_join(s, a, EACH);
      for (int i = 0; i < held; i++)
        set(s, x->var[i * per_row + j], multiply(p, transposed, b[i], x->var[i * per_row + j]));
    }
  }
}

// Measured: registers that a thread may hold, clang 19 for gfx90a.
const tc_flash_way tc_flash_mfma = {.tiling = tilings,
                                    .n_tilings = sizeof tilings / sizeof *tilings,
                                    .matrix = true,
                                    .wide = 256,
                                    .most_held = 112,
                                    .across = 4,
                                    .apart = GROUP,
                                    .rows = GROUP,
                                    .run = EACH,
                                    .sums_bytes = 64,
                                    .each = EACH,
                                    .of_rows = 1,
                                    .matmul = product_in_waves,
                                    .add = add_weighted_in_waves};
