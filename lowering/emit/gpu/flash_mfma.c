// Attention's products of f16 and bf16 by AMD's matrix instructions: a wave of 64 threads has 16
// rows or twice as many. Scores are made transposed, of rows of the chunk by the wave's own, so
// that a thread has four neighbouring ones of a row; these are, rounded, its part of a factor of
// the second product as they lie. That is made transposed, too, of columns by the wave's rows. Its
// other factor runs down the chunk's rows, where a thread reads neighbouring columns of four rows
// and turns them in registers: so the columns of one product lie as far apart as a thread reads
// side by side.
// Order: a score is one chain over groups of 16 elements of the head, a sum one over groups of 16
// rows of the chunks, in f32, whatever the block.
#include "lowering/emit/gpu/flash_common.h"

#define GROUP 16  // steps of an instruction, and rows and columns of its result
#define EACH 4  // steps, and accumulators, of a thread

// Speeds are guessed, by what is read for each element and by how many waves work: none was
// measured.
static const tc_flash_tiling tilings[] = {{128, 2, 1.2}, {64, 1, 1.0}, {32, 1, 0.6}};

static tc_val multiply(tc_flash *p, tc_val a, tc_val b, tc_val sum) {
  return tc_build_raw(&p->at.s->e, TC_IR_MFMA, TC_F32, EACH * p->threads, a, b, sum, 0);
}

// n neighbours of each thread's.
static tc_val read(tc_flash *p, const tc_flash_tile *x, tc_val at, int n) {
  return tc_build_raw(&p->at.s->e, TC_IR_GATHER, x->type, p->threads * n, at, TC_NONE, TC_NONE, x->tile);
}

static tc_val pick(tc_flash *p, tc_val v, int k) {
  tc_kir_builder *e = &p->at.s->e;
  return tc_build_lanes(e, v) == p->threads
             ? v
             : tc_build_raw(e, TC_IR_EXTRACT, tc_build_type(e, v), p->threads, v, TC_NONE, TC_NONE, k);
}

static void product_in_waves(tc_flash *p, const tc_flash_tile *own, const tc_flash_tile *other, tc_val from,
                             tc_val *v) {
  tc_emit_ctx *s = p->at.s;
  int held = p->tiling.held, tiles = p->chunk / GROUP;
  tc_val row = add(s, times(s, p->row[0], own->pitch), p->column), b[TC_FLASH_ROWS], sum[TC_FLASH_VALUES];
  tc_val line = add(s, add(s, times(s, tc_gemm_low(s, p->thread, GROUP), other->pitch), p->column), from);
  for (int j = 0; j < held * tiles; j++)
    sum[j] = tc_build_splat(&s->e, tc_build_const_f(&s->e, TC_F32, 0), EACH * p->threads);
  for (int64_t k = 0; k < own->columns; k += GROUP) {
    for (int i = 0; i < held; i++) b[i] = read(p, own, plus(&p->at, row, (int64_t)GROUP * i * own->pitch + k), EACH);
    for (int j = 0; j < tiles; j++) {
      tc_val a = read(p, other, plus(&p->at, line, (int64_t)GROUP * j * other->pitch + k), EACH);
      for (int i = 0; i < held; i++) sum[i * tiles + j] = multiply(p, a, b[i], sum[i * tiles + j]);
    }
  }
  for (int i = 0; i < held; i++)
    for (int c = 0; c < p->each; c++) v[i * p->each + c] = pick(p, sum[i * tiles + c / EACH], c % EACH);
}

static void add_weighted_in_waves(tc_flash *p, const tc_flash_sums *x, const tc_val *weights,
                                  const tc_flash_tile *other, tc_val from) {
  tc_emit_ctx *s = p->at.s;
  // columns that a thread reads side by side, of as many products
  int held = p->tiling.held, per_row = x->n / held, wide = x->run / EACH;
  tc_val at = add(s, add(s, times(s, p->column, other->pitch), times(s, tc_gemm_low(s, p->thread, GROUP), wide)), from),
         b[TC_FLASH_ROWS], row[EACH], a[EACH];
  for (int k = 0; k < p->chunk; k += GROUP) {
    for (int i = 0; i < held; i++)
      b[i] = tc_build_cast(&s->e, tc_gemm_join(s, weights + i * p->each + k / EACH, EACH), other->type);
    for (int j = 0; j < per_row; j++) {
      for (int r = 0; r < EACH && j % wide == 0; r++)
        row[r] = read(p, other, plus(&p->at, at, (k + r) * other->pitch + (int64_t)j * GROUP), wide);
      for (int r = 0; r < EACH; r++) a[r] = pick(p, row[r], j % wide);
      tc_val transposed = tc_gemm_join(s, a, EACH);
      for (int i = 0; i < held; i++)
        tc_build_set(&s->e, x->var[i * per_row + j], multiply(p, transposed, b[i], x->var[i * per_row + j]));
    }
  }
}

// What a thread may hold is by clang 19 for gfx90a.
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
