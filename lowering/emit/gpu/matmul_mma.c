// A tile of a matmul of f16 or bf16 by matrix instructions. Warps hold tiles of 16 x 8 accumulators
// in f32 and read fragments of 16 steps of k from shared memory. Operands in memory are copied
// asynchronously, some chunks of k ahead; others pass through registers, one chunk ahead.
// Order: an element is one chain over groups of 16 steps of k, in f32, or several (summation.h).
// The tile does not matter. Steps beyond the last are zeros.
#include "lowering/emit/gpu/matmul_common.h"

#define STEPS 32  // of k in a chunk
#define GROUP 16  // steps of an instruction
#define STAGES 4  // chunks of an operand that is copied asynchronously
#define WARP 32
#define MOST_DOWN 4  // tiles of a warp
#define MOST_ACROSS 8

// Speeds: a larger tile reads less of the second-level cache for each element.
static const tc_gpu_gemm_tiling copied[] = {
    {128, 256, STEPS, 2, 4, 1.1}, {256, 128, STEPS, 4, 2, 1.1}, {128, 128, STEPS, 2, 2, 1.0},
    {128, 64, STEPS, 2, 2, 0.85}, {64, 128, STEPS, 2, 2, 0.85}, {64, 64, STEPS, 2, 2, 0.65},
    {32, 128, STEPS, 1, 4, 0.55}, {128, 32, STEPS, 4, 1, 0.55}, {32, 64, STEPS, 1, 4, 0.4},
    {16, 128, STEPS, 1, 4, 0.3},  {16, 64, STEPS, 1, 4, 0.2},
};
// For an operand that is computed in registers: twice the threads, so that each computes half as
// much at a time.
static const tc_gpu_gemm_tiling made[] = {
    {128, 128, STEPS, 2, 4, 1.0}, {128, 64, STEPS, 4, 2, 0.85}, {64, 128, STEPS, 2, 4, 0.85},
    {64, 64, STEPS, 2, 4, 0.65},  {32, 128, STEPS, 1, 8, 0.55}, {128, 32, STEPS, 8, 1, 0.55},
    {32, 64, STEPS, 1, 8, 0.4},   {16, 64, STEPS, 1, 8, 0.2},
};

const tc_gpu_gemm_tiling *tc_gemm_mma_tilings(int *n) {
  return *n = TC_GEMM_COUNT(copied), copied;
}

bool tc_gemm_mma_plan(tc_gemm *p) {
  bool planned = !p->chains && tc_gemm_plan(p, copied, TC_GEMM_COUNT(copied));
  if (!planned && !p->chains) return false;
  if (!(planned && p->a.copied && p->b.copied) && !tc_gemm_plan(p, made, TC_GEMM_COUNT(made))) return false;
  if (p->a.copied) p->a.stages = STAGES;
  if (p->b.copied) p->b.stages = STAGES;
  p->sums_rows = p->by.down * 16;
  return true;
}

typedef struct warps {
  tc_val lane;  // of the thread in its warp
  tc_val row, column;  // the first row and column of the thread's warp
  int down, across;  // tiles of a warp
} warps;

// Address in the tile of each thread's 16-byte row of a fragment: 16 lines by 16 steps for a, 8 by
// 16 for b. `line` is the first line.
static tc_val fragment_at(tc_gemm *p, const warps *w, const tc_gemm_side *x, tc_val line, int k) {
  tc_emit_ctx *s = p->s;
  bool left = x == &p->a;
  tc_val eighth = tc_gemm_low(s, w->lane, 8), second = tc_gemm_low(s, tc_gemm_high(s, w->lane, 8), 2),
         third = tc_gemm_high(s, w->lane, 16);
  tc_val lines = left       ? (x->along ? add(s, eighth, times(s, second, 8)) : times(s, second, 8))
                 : x->along ? eighth
                            : TC_NONE;
  tc_val steps = left ? times(s, third, 8) : times(s, second, 8);
  if (!x->along) steps = add(s, steps, eighth);
  return tc_gemm_side_place(p, x, lines == TC_NONE ? line : add(s, line, lines), add_i64(s, steps, k));
}

// Loads the fragment at line `line` + `number` and step k, of the tile at element `from`. line: the
// warp's first. base: the address that fragments of these steps share if rows follow lines. They
// lie whole rows apart, since multiples of 8 lines are swizzled alike.
static tc_val load_fragment(tc_gemm *p, const warps *w, const tc_gemm_side *x, tc_val line, int number, int k,
                            tc_val from, tc_val *base) {
  tc_emit_ctx *s = p->s;
  tc_val at;
  if (x->along) {
    if (*base == TC_NONE) *base = add(s, fragment_at(p, w, x, line, k), from);
    at = number ? add_i64(s, *base, number * x->row) : *base;
  } else {
    at = add(s, fragment_at(p, w, x, number ? add_i64(s, line, number) : line, k), from);
  }
  return set_flags(s,
                   tc_build_raw(&s->e, TC_IR_LDMATRIX, x->type, p->threads * (x == &p->a ? 8 : 4), at, TC_NONE, TC_NONE,
                                x->tile - TC_MAX_BUFS),
                   !x->along);
}

static void multiply_in_warps(tc_gemm *p, const warps *w, tc_val stage_a, tc_val stage_b, const tc_val *acc) {
  tc_emit_ctx *s = p->s;
  tc_val a[MOST_DOWN], from_a = times(s, stage_a, p->a.stage), from_b = times(s, stage_b, p->b.stage);
  for (int k = 0; k < STEPS; k += GROUP) {
    tc_val base_a = TC_NONE, base_b = TC_NONE;
    for (int i = 0; i < w->down; i++) a[i] = load_fragment(p, w, &p->a, w->row, 16 * i, k, from_a, &base_a);
    for (int j = 0; j < w->across; j++) {
      tc_val b = load_fragment(p, w, &p->b, w->column, 8 * j, k, from_b, &base_b);
      for (int i = 0; i < w->down; i++) {
        tc_val sum = acc[i * w->across + j];
        set(s, sum, tc_build_raw(&s->e, TC_IR_MMA, TC_F32, 4 * p->threads, a[i], b, sum, 0));
      }
    }
  }
}

// Starts the group of copies of the chunk at step k0; the group is empty beyond the last step.
static void begin_copy(tc_gemm *p, tc_val k0, tc_val stage) {
  tc_emit_ctx *s = p->s;
  begin_if(s, bin(s, TC_IR_LT, k0, i64(s, p->of.k)));
  if (p->a.copied) tc_gemm_side_copy(p, &p->a, k0, stage);
  if (p->b.copied) tc_gemm_side_copy(p, &p->b, k0, stage);
  end_if(s);
  (void)nullary(s, TC_IR_COMMIT);
}

static void accumulate_in_warps(tc_gemm *p, const warps *w, const tc_val *acc, const tc_val *total) {
  tc_emit_ctx *s = p->s;
  bool copies = p->a.copied || p->b.copied;
  tc_val zero = i64(s, 0);
  tc_gemm_chunk c;
  if (copies) {
    tc_val stage = loop(s, zero, i64(s, STAGES - 1), 1), first = times(s, stage, STEPS);
    begin_copy(p, first, stage);
    end(s);
  }
  tc_gemm_load(p, zero, p->of.k < STEPS, &c);
  tc_gemm_put(p, zero, &c);
  tc_val k0 = loop(s, zero, i64(s, p->of.k), STEPS), chunk = tc_gemm_high(s, k0, STEPS);
  if (copies) {
    (void)tc_build_raw(&s->e, TC_IR_WAIT, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, STAGES - 2);
    begin_copy(p, add(s, k0, i64(s, (STAGES - 1) * STEPS)), tc_gemm_low(s, add_i64(s, chunk, STAGES - 1), STAGES));
  }
  tc_gemm_load(p, add_i64(s, k0, STEPS), true, &c);
  multiply_in_warps(p, w, tc_gemm_low(s, chunk, p->a.stages), tc_gemm_low(s, chunk, p->b.stages), acc);
  tc_gemm_end_chain(p, k0, STEPS, acc, total, w->down * w->across);
  tc_gemm_put(p, tc_gemm_low(s, add_i64(s, chunk, 1), 2), &c);
  end(s);
}

// Writes the accumulators of tile i of every warp to rows of the tile `sums`.
static void put_warp_rows(tc_gemm *p, const warps *w, int i, const tc_val *acc) {
  tc_emit_ctx *s = p->s;
  int warp_rows = p->by.rows / p->by.down;
  tc_val row = add(s, tc_gemm_high(s, w->lane, 4), times(s, tc_gemm_high(s, w->row, warp_rows), 16));
  tc_val column = add(s, w->column, times(s, tc_gemm_low(s, w->lane, 4), 2));
  for (int j = 0; j < w->across; j++) tc_gemm_put_fragment(p, row, column, acc[i * w->across + j], 0, 8 * j, TC_NONE);
}

void tc_gemm_mma(tc_gemm *p) {
  tc_emit_ctx *s = p->s;
  int warp_rows = p->by.rows / p->by.down, warp_columns = p->by.columns / p->by.across;
  warps w = {.lane = tc_gemm_low(s, p->thread, WARP), .down = warp_rows / 16, .across = warp_columns / 8};
  tc_val warp = tc_gemm_high(s, p->thread, WARP), acc[MOST_DOWN * MOST_ACROSS], total[MOST_DOWN * MOST_ACROSS];
  w.row = times(s, tc_gemm_high(s, warp, p->by.across), warp_rows);
  w.column = times(s, tc_gemm_low(s, warp, p->by.across), warp_columns);
  tc_val zero = zeros(s, TC_F32, 4 * p->threads);
  tc_gemm_begin_sums(p, zero, acc, total, w.down * w.across);
  accumulate_in_warps(p, &w, acc, total);
  tc_gemm_operands_read(p);
  for (int i = 0; i < w.down && s->st == TC_OK; i++) {
    put_warp_rows(p, &w, i, total);
    tc_gemm_finish(p, (tc_gemm_rows){16 * i, 16, warp_rows});
  }
}
