// Attention's matmuls of f16 and bf16 by matrix instructions. A warp has 16 or 32 rows. Their
// scores stay in its registers; rounded, they are the left operand of the second matmul without a
// shuffle. With 32 rows each read of the chunk is used twice; shared memory is the bottleneck.
// Order: in f32, and the block does not matter. A score is one chain over groups of 16 elements of
// the head, a sum one over groups of 16 rows of the chunks.
#include "lowering/emit/gpu/flash_common.h"

#define GROUP 16  // steps of an instruction
#define WARP 32

static const tc_flash_tiling tilings[] = {{128, 4, 1.2}, {64, 4, 1.1}, {128, 2, 1.0}, {64, 2, 0.9}, {32, 2, 0.6}};

static tc_val fragment(tc_flash *p, const tc_flash_tile *x, tc_val at, int each, bool transposed) {
  tc_emit_ctx *s = p->at.s;
  return set_flags(
      s, tc_build_raw(&s->e, TC_IR_LDMATRIX, x->type, p->threads * each, at, TC_NONE, TC_NONE, x->tile - TC_MAX_BUFS),
      transposed);
}

static tc_val multiply(tc_flash *p, tc_val a, tc_val b, tc_val sum) {
  return tc_build_raw(&p->at.s->e, TC_IR_MMA, TC_F32, 4 * p->threads, a, b, sum, 0);
}

// Each thread addresses a row of 16 bytes, by parts of its number in the warp.
typedef struct places {
  tc_val eighth, second, third;
  tc_val warp_row;
} places;

static places places_of(tc_flash *p) {
  tc_emit_ctx *s = p->at.s;
  tc_val lane = tc_gemm_low(s, p->thread, WARP);
  return (places){tc_gemm_low(s, lane, 8), tc_gemm_low(s, tc_gemm_high(s, lane, 8), 2), tc_gemm_high(s, lane, 16),
                  times(s, tc_gemm_high(s, p->thread, WARP), 8 * p->tiling.held)};
}

static void product_in_warps(tc_flash *p, const tc_flash_tile *own, const tc_flash_tile *other, tc_val from,
                             tc_val *v) {
  tc_emit_ctx *s = p->at.s;
  places at = places_of(p);
  int tiles = p->tiling.held / 2, across = p->chunk / 8;
  tc_val row = add(s, add(s, at.warp_row, at.eighth), times(s, at.second, 8)), a[TC_FLASH_ROWS / 2];
  row = add(s, times(s, row, own->pitch), times(s, at.third, 8));
  tc_val column = add(s, add(s, times(s, at.eighth, other->pitch), times(s, at.second, 8)), from), sum[TC_FLASH_VALUES];
  for (int j = 0; j < tiles * across; j++) sum[j] = zeros(s, TC_F32, 4 * p->threads);
  for (int64_t k = 0; k < own->columns; k += GROUP) {
    for (int t = 0; t < tiles; t++) a[t] = fragment(p, own, plus(s, row, 16 * t * own->pitch + k), 8, false);
    for (int j = 0; j < across; j++) {
      tc_val b = fragment(p, other, plus(s, column, 8 * j * other->pitch + k), 4, false);
      for (int t = 0; t < tiles; t++) sum[t * across + j] = multiply(p, a[t], b, sum[t * across + j]);
    }
  }
  for (int i = 0; i < p->tiling.held; i++)
    for (int c = 0; c < p->each; c++)
      v[i * p->each + c] = extract(s, p->threads, sum[i / 2 * across + c / 2], i % 2 * 2 + c % 2);
}

static void add_weighted_in_warps(tc_flash *p, const tc_flash_sums *x, const tc_val *weights,
                                  const tc_flash_tile *other, tc_val from) {
  tc_emit_ctx *s = p->at.s;
  places at = places_of(p);
  int tiles = p->tiling.held / 2, across = x->n / tiles;
  tc_val row = add(s, times(s, add(s, at.eighth, times(s, at.second, 8)), other->pitch), from), a[TC_FLASH_ROWS / 2];
  for (int k = 0; k < p->chunk; k += GROUP) {
    for (int t = 0; t < tiles; t++) {
      const tc_val *w = weights + 2 * t * p->each + k / 4, *z = w + p->each;
      a[t] = cast(s, tc_gemm_join(s, (tc_val[]){w[0], w[1], z[0], z[1], w[2], w[3], z[2], z[3]}, 8), other->type);
    }
    for (int j = 0; j < across; j++) {
      tc_val b = fragment(p, other, plus(s, row, k * other->pitch + 8 * j), 4, true);
      for (int t = 0; t < tiles; t++) {
        tc_val sum = x->var[t * across + j];
        set(s, sum, multiply(p, a[t], b, sum));
      }
    }
  }
}

// Measured: registers that a thread may hold, NVRTC for sm_90.
const tc_flash_way tc_flash_mma = {.tiling = tilings,
                                   .n_tilings = sizeof tilings / sizeof *tilings,
                                   .copies = true,
                                   .matrix = true,
                                   .wide = 256,
                                   .most_held = 176,
                                   .across = 4,
                                   .apart = 1,
                                   .rows = 8,
                                   .run = 2,
                                   .sums_bytes = 8,
                                   .each = 4,
                                   .of_rows = 2,
                                   .matmul = product_in_warps,
                                   .add = add_weighted_in_warps};
