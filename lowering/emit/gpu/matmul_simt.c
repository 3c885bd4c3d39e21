// A tile of a matmul by multiply-adds. Each thread holds `down` x `across` accumulators and reads
// its operands from shared memory, several lines at a time. While a chunk of k is multiplied, the
// next one is loaded to registers.
// Order: an element is one chain over k from zero, or several where k is long (summation.h), as on
// a CPU. The tile does not matter.
#include "lowering/emit/gpu/matmul_common.h"

#define STEPS_PER_ITERATION 4  // steps of k in an iteration of the innermost loop
#define TOGETHER 2  // rows of each thread that become rows of the result at a time
#define MOST 8  // most lines of a thread

// Registers hold a thread's operands, so 8-byte elements allow half as many.
static const tc_gpu_gemm_tiling tilings[] = {
    {128, 128, 16, 8, 8, 1.0}, {128, 64, 16, 8, 4, 0.9}, {64, 128, 16, 4, 8, 0.9},
    {64, 64, 16, 4, 4, 0.75},  {32, 64, 16, 4, 4, 0.6},  {64, 32, 16, 4, 4, 0.6},
    {32, 32, 16, 4, 2, 0.4},   {16, 64, 16, 2, 4, 0.35}, {64, 16, 16, 4, 2, 0.35},
};

// Lines that a thread reads at once. Its lines lie in groups of that size; a group's threads lie
// side by side.
static int lines_at_once(const tc_gemm *p, int lines) {
  return TC_MIN(TC_MIN(4, lines), TC_GEMM_COPIED / (int)tc_type_bytes(p->acc));
}

const tc_gpu_gemm_tiling *tc_gemm_simt_tilings(const tc_gemm *p, int *n) {
  int from = tc_type_bytes(p->acc) == 8 ? 3 : 0;
  return *n = (int)(sizeof tilings / sizeof *tilings) - from, tilings + from;
}

bool tc_gemm_simt_plan(tc_gemm *p) {
  int n;
  const tc_gpu_gemm_tiling *all = tc_gemm_simt_tilings(p, &n);
  if (!tc_gemm_plan(p, all, n)) return false;
  p->sums_rows = p->by.rows / p->by.down * TC_MIN(TOGETHER, lines_at_once(p, p->by.down));
  return true;
}

typedef struct grid {
  tc_val x, y;  // the thread's first column and first row in every group
  int of_a, of_b;  // lines of each operand that are read at once
} grid;

// Reads the thread's `lines` lines of the operand at step k.
static void read_lines(tc_gemm *p, const tc_gemm_side *x, tc_val at, int lines, int each, tc_val *v) {
  tc_emit_ctx *s = p->s;
  for (int i = 0; i < lines; i += each) {
    tc_val from = add(s, at, i64(s, (int64_t)i * (x->size / lines)));
    tc_val group = gather(s, x->tile, p->acc, p->threads * each, from, TC_NONE);
    for (int j = 0; j < each; j++) v[i + j] = each == 1 ? group : extract(s, p->threads, group, j);
  }
}

// Multiplies step k of the tiles at elements from_a and from_b.
static void multiply_step(tc_gemm *p, const grid *g, tc_val from_a, tc_val from_b, tc_val k, const tc_val *acc) {
  tc_emit_ctx *s = p->s;
  tc_val a[MOST], b[MOST];
  read_lines(p, &p->a, add(s, g->y, add(s, from_a, times(s, k, p->a.row))), p->by.down, g->of_a, a);
  read_lines(p, &p->b, add(s, g->x, add(s, from_b, times(s, k, p->b.row))), p->by.across, g->of_b, b);
  tc_register_block_add(s, &(tc_register_block){p->multiply, p->by.down, p->by.across, tc_lhs_loaded, a}, b, acc);
}

static void multiply_in_threads(tc_gemm *p, const grid *g, tc_val k0, tc_val stage, const tc_val *acc) {
  tc_emit_ctx *s = p->s;
  tc_val from_a = times(s, stage, p->a.stage), from_b = times(s, stage, p->b.stage);
  tc_val rest = i64(s, p->by.steps), whole = rest;
  if (p->of.k % p->by.steps) {
    rest = least(s, rest, sub(s, i64(s, p->of.k), k0));
    whole = sub(s, rest, rem_by(s, rest, STEPS_PER_ITERATION));
  }
  tc_val k = loop_to(s, whole, STEPS_PER_ITERATION);
  for (int i = 0; i < STEPS_PER_ITERATION; i++) multiply_step(p, g, from_a, from_b, add_i64(s, k, i), acc);
  end(s);
  if (p->of.k % STEPS_PER_ITERATION == 0) return;
  k = loop(s, whole, rest, 1);
  multiply_step(p, g, from_a, from_b, k, acc);
  end(s);
}

// Writes the accumulators of rows first to first + n of every thread to rows of the tile `sums`.
static void put_thread_rows(tc_gemm *p, const grid *g, int first, int n, const tc_val *acc) {
  tc_emit_ctx *s = p->s;
  int across = p->by.across;
  tc_val row = times(s, tc_gemm_high(s, p->thread, p->by.columns / across), n);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < across; j += g->of_b) {
      tc_val at = add(s, times(s, add_i64(s, row, i), tc_gemm_sums_row(p)),
                      add(s, g->x, i64(s, (int64_t)j * (p->by.columns / across))));
      tc_val v = tc_gemm_join(s, acc + (first + i) * across + j, g->of_b);
      scatter(s, p->sums, at, v, TC_NONE);
    }
}

void tc_gemm_simt(tc_gemm *p) {
  tc_emit_ctx *s = p->s;
  int n_acc = p->by.down * p->by.across;
  tc_val acc[MOST * MOST], total[MOST * MOST], zero = zeros(s, p->acc, p->threads);
  grid g = {.of_a = lines_at_once(p, p->by.down), .of_b = lines_at_once(p, p->by.across)};
  int threads_across = p->by.columns / p->by.across, n = TC_MIN(TOGETHER, g.of_a);
  g.x = times(s, tc_gemm_low(s, p->thread, threads_across), g.of_b);
  g.y = times(s, tc_gemm_high(s, p->thread, threads_across), g.of_a);
  tc_gemm_begin_sums(p, zero, acc, total, n_acc);
  if (p->of.k > 0) {
    tc_gemm_chunk chunk;
    tc_gemm_chunks_begin(p, &chunk);
    multiply_in_threads(p, &g, chunk.k0, chunk.stage, acc);
    tc_gemm_end_chain(p, chunk.k0, p->by.steps, acc, total, n_acc);
    tc_gemm_chunks_end(p, &chunk);
  }
  tc_gemm_operands_read(p);
  for (int i = 0; i < p->by.down && s->st == TC_OK; i += n) {
    put_thread_rows(p, &g, i, n, total);
    tc_gemm_finish(p, (tc_gemm_rows){i / g.of_a * (p->by.rows / p->by.down * g.of_a) + i % g.of_a, n, g.of_a});
  }
}
