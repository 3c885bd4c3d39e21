// A tile of a matmul of f16 or bf16 by AMD's matrix instructions. Waves of 64 threads hold tiles of
// 16 x 16 accumulators in f32. They read fragments of 16 steps of k from shared memory, four steps
// a thread. There are no asynchronous copies here: the next chunk of k is loaded to registers
// meanwhile. The result is computed transposed, columns by rows, so that a thread has four
// neighbouring columns of a row.
// Order: an element is one chain over groups of 16 steps of k, in f32, or several (summation.h).
// The tile does not matter. Steps beyond the last are zeros.
#include "lowering/emit/gpu/matmul_common.h"

#define STEPS 32  // of k in a chunk
#define GROUP 16  // steps of an instruction, and rows and columns of its result
#define WAVE 64
#define EACH 4  // steps, and accumulators, of a thread
#define MOST 4  // tiles of a wave down, and across

// Not measured: speeds are estimated from the bytes read for each element.
static const tc_gpu_gemm_tiling tilings[] = {
    {128, 128, STEPS, 2, 2, 1.0}, {128, 64, STEPS, 2, 2, 0.85}, {64, 128, STEPS, 2, 2, 0.85},
    {64, 64, STEPS, 2, 2, 0.65},  {32, 128, STEPS, 1, 4, 0.55}, {128, 32, STEPS, 4, 1, 0.55},
    {32, 64, STEPS, 1, 4, 0.4},   {16, 128, STEPS, 1, 4, 0.3},  {16, 64, STEPS, 1, 4, 0.2},
};

const tc_gpu_gemm_tiling *tc_gemm_mfma_tilings(int *n) {
  return *n = TC_GEMM_COUNT(tilings), tilings;
}

bool tc_gemm_mfma_plan(tc_gemm *p) {
  if (!tc_gemm_plan(p, tilings, TC_GEMM_COUNT(tilings))) return false;
  p->sums_rows = p->by.down * GROUP;
  return true;
}

typedef struct waves {
  tc_val line, four;  // of the thread in a fragment: its line, and the first of its four steps
  tc_val row, column;  // the first row and column of the thread's wave
  int down, across;  // tiles of a wave
} waves;

// Address of each thread's part of the operand's first fragment, in the tile at element `from`.
// Four addresses if its steps lie in different rows.
static tc_val fragments_at(tc_gemm *p, const waves *w, const tc_gemm_side *x, tc_val from) {
  tc_emit_ctx *s = p->s;
  tc_val line = add(s, x == &p->a ? w->row : w->column, w->line),
         at = add(s, tc_gemm_side_place(p, x, line, w->four), from), each[EACH];
  if (x->by_line) return at;
  for (int i = 0; i < EACH; i++) each[i] = i ? add_i64(s, at, i * x->row) : at;
  return tc_gemm_join(s, each, EACH);
}

// Reads fragment `number` at step k of the tile.
static tc_val gather_fragment(tc_gemm *p, const tc_gemm_side *x, tc_val first, int number, int k) {
  int64_t on = x->by_line ? GROUP * number * x->row + k : k * x->row + GROUP * number;
  tc_val at = on ? add_i64(p->s, first, on) : first;
  return gather(p->s, x->tile, x->type, p->threads * EACH, at, TC_NONE);
}

static void multiply_in_waves(tc_gemm *p, const waves *w, tc_val stage, const tc_val *acc) {
  tc_emit_ctx *s = p->s;
  tc_val first_a = fragments_at(p, w, &p->a, times(s, stage, p->a.stage)),
         first_b = fragments_at(p, w, &p->b, times(s, stage, p->b.stage)), a[MOST];
  for (int k = 0; k < STEPS; k += GROUP) {
    for (int i = 0; i < w->down; i++) a[i] = gather_fragment(p, &p->a, first_a, i, k);
    for (int j = 0; j < w->across; j++) {
      tc_val b = gather_fragment(p, &p->b, first_b, j, k);
      for (int i = 0; i < w->down; i++) {
        tc_val sum = acc[i * w->across + j];
        set(s, sum, tc_build_raw(&s->e, TC_IR_MFMA, TC_F32, EACH * p->threads, b, a[i], sum, 0));
      }
    }
  }
}

// Writes the accumulators of tile i of every wave to rows of the tile `sums`.
static void put_wave_rows(tc_gemm *p, const waves *w, int i, const tc_val *acc) {
  tc_emit_ctx *s = p->s;
  tc_val row = add(s, w->line, times(s, tc_gemm_high(s, w->row, p->by.rows / p->by.down), GROUP));
  tc_val first = add(s, times(s, row, tc_gemm_sums_row(p)), add(s, w->column, w->four));
  for (int j = 0; j < w->across; j++) {
    tc_val at = j ? add_i64(s, first, GROUP * j) : first;
    scatter(s, p->sums, at, acc[i * w->across + j], TC_NONE);
  }
}

void tc_gemm_mfma(tc_gemm *p) {
  tc_emit_ctx *s = p->s;
  int wave_rows = p->by.rows / p->by.down, wave_columns = p->by.columns / p->by.across;
  tc_val lane = tc_gemm_low(s, p->thread, WAVE), wave = tc_gemm_high(s, p->thread, WAVE), acc[MOST * MOST],
         total[MOST * MOST];
  waves w = {.line = tc_gemm_low(s, lane, GROUP), .down = wave_rows / GROUP, .across = wave_columns / GROUP};
  w.four = times(s, tc_gemm_high(s, lane, GROUP), EACH);
  w.row = times(s, tc_gemm_high(s, wave, p->by.across), wave_rows);
  w.column = times(s, tc_gemm_low(s, wave, p->by.across), wave_columns);
  tc_val zero = zeros(s, TC_F32, EACH * p->threads);
  tc_gemm_begin_sums(p, zero, acc, total, w.down * w.across);
  tc_gemm_chunk chunk;
  tc_gemm_chunks_begin(p, &chunk);
  multiply_in_waves(p, &w, chunk.stage, acc);
  tc_gemm_end_chain(p, chunk.k0, STEPS, acc, total, w.down * w.across);
  tc_gemm_chunks_end(p, &chunk);
  tc_gemm_operands_read(p);
  for (int i = 0; i < w.down && s->st == TC_OK; i++) {
    put_wave_rows(p, &w, i, total);
    tc_gemm_finish(p, (tc_gemm_rows){GROUP * i, GROUP, wave_rows});
  }
}
