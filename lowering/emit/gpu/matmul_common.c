// Shared parts of a GPU's matmul emitters: chains, the choice of a tiling, the epilogue. See
// matmul_common.h.
#include <stdio.h>

#include "lowering/emit/gpu/matmul_common.h"
#include "runtime/options.h"

#define MOST_RUN 8  // most elements of a row that a thread finishes at once

tc_val tc_gemm_join(tc_emit_ctx *s, const tc_val *v, int n) {
  tc_val even[32], odd[32];
  if (n == 1) return v[0];
  for (int i = 0; i < n / 2; i++) even[i] = v[2 * i], odd[i] = v[2 * i + 1];
  tc_val a = tc_gemm_join(s, even, n / 2), b = tc_gemm_join(s, odd, n / 2);
  return tc_build_raw(&s->e, TC_IR_INTERLEAVE, tc_build_type(&s->e, a), 2 * tc_build_lanes(&s->e, a), a, b, TC_NONE, 0);
}

// ---- chains ----

void tc_gemm_begin_sums(tc_gemm *p, tc_val zero, tc_val *acc, tc_val *total, int n) {
  tc_emit_ctx *s = p->s;
  for (int i = 0; i < n; i++) acc[i] = var(s, zero);
  for (int i = 0; i < n; i++) total[i] = p->chains ? var(s, zeros(s, p->acc, tc_build_lanes(&s->e, zero))) : acc[i];
}

bool tc_gemm_begin_end_of_chain(tc_gemm *p, tc_val k0, int steps) {
  tc_emit_ctx *s = p->s;
  if (!p->chains) return false;
  tc_val next = add_i64(s, k0, steps), ends = bin(s, TC_IR_EQ, tc_gemm_low(s, next, TC_CHAIN), i64(s, 0));
  ends = bin(s, TC_IR_OR, ends, bin(s, TC_IR_GE, next, i64(s, p->of.k)));
  begin_if(s, ends);
  return true;
}

void tc_gemm_add_to_totals(tc_gemm *p, const tc_val *acc, const tc_val *total, int n) {
  tc_emit_ctx *s = p->s;
  for (int i = 0; i < n; i++) {
    set(s, total[i], add(s, total[i], acc[i]));
    set(s, acc[i], const_f(s, p->acc, 0));
  }
}

void tc_gemm_end_chain(tc_gemm *p, tc_val k0, int steps, const tc_val *acc, const tc_val *total, int n) {
  if (!tc_gemm_begin_end_of_chain(p, k0, steps)) return;
  tc_gemm_add_to_totals(p, acc, total, n);
  end_if(p->s);
}

// ---- tiling ----

int64_t tc_gemm_n_tiles(const tc_gemm *p, const tc_gpu_gemm_tiling *c) {
  return p->of.batch * tc_ceil_div(p->of.m, c->rows) * tc_ceil_div(p->of.n, c->columns);
}

// Upper bound of shared memory: two chunks of both operands, four if they are copied, and rows of
// results.
static size_t shared_of(const tc_gemm *p, const tc_gpu_gemm_tiling *c) {
  size_t lines = (size_t)(c->rows + c->columns), steps = (size_t)c->steps, each = tc_type_bytes(p->acc),
         row = (size_t)c->columns + 8;
  size_t sums = (size_t)c->down * 16 * row * each, halves = lines * steps * 2;
  switch (p->way) {
    case TC_GEMM_MMA: return 4 * halves + sums;
    case TC_GEMM_MFMA:
      return 2 * (halves +
                  (size_t)(TC_MAX_OF(c->rows, c->steps) + TC_MAX_OF(c->columns, c->steps)) * TC_GEMM_MFMA_PAD * 2) +
             sums;
    case TC_GEMM_WGMMA: return 4 * halves + sums + 64;  // and barriers
    case TC_GEMM_SIMT: break;
  }
  return ((lines + 16) * steps * 2 + (size_t)(c->rows / c->down) * 2 * row) * each;
}

static bool is_given_gemm(const tc_gemm_tiling *given, const tc_gpu_gemm_tiling *c) {
  int64_t rows = given ? given->of[TC_TILING_ROWS] : -1, columns = given ? given->of[TC_TILING_LANES] : -1;
  return (rows < 0 || rows == c->rows) && (columns < 0 || columns == c->columns);
}

static int threads_of(const tc_gemm *p, const tc_gpu_gemm_tiling *c) {
  switch (p->way) {
    case TC_GEMM_MMA: return c->down * c->across * 32;
    case TC_GEMM_MFMA: return c->down * c->across * 64;
    case TC_GEMM_WGMMA: return c->down * 128;
    case TC_GEMM_SIMT: break;
  }
  return c->rows / c->down * (c->columns / c->across);
}

// Blocks run in waves of as many as there are processors. A tile's time is its number of elements
// over `speed`: small tiles read more for each element.
static const tc_gpu_gemm_tiling *choose_gemm_tiling(const tc_gemm *p, const tc_gpu_gemm_tiling *tiling, int n,
                                                    const tc_gemm_tiling *given) {
  const tc_gpu_gemm_tiling *best = NULL;
  double least = 0;
  for (int i = 0; i < n; i++) {
    double waves = (double)tc_ceil_div(tc_gemm_n_tiles(p, &tiling[i]), TC_MAX_OF(p->s->target->processors, 1));
    double time = waves * tiling[i].rows * tiling[i].columns / tiling[i].speed;
    if (!is_given_gemm(given, &tiling[i]) ||
        (p->chains && tiling[i].rows * tiling[i].columns / threads_of(p, &tiling[i]) > TC_GEMM_MOST_IN_CHAINS) ||
        shared_of(p, &tiling[i]) > p->s->target->shared_bytes || (best && time >= least))
      continue;
    best = &tiling[i], least = time;
  }
  return best;
}

bool tc_gemm_tiling_option(tc_gemm_tiling *out) {
  const char *text = tc_options_get()->gpu_tile;
  int rows, columns;
  if (!text || sscanf(text, "%dx%d", &rows, &columns) != 2) return false;
  out->of[TC_TILING_ROWS] = rows, out->of[TC_TILING_LANES] = columns;
  return true;
}

bool tc_gemm_choose(tc_gemm *p, const tc_gpu_gemm_tiling *tiling, int n) {
  tc_gemm_tiling given;
  const tc_gpu_gemm_tiling *best =
      !p->asked && tc_gemm_tiling_option(&given) ? choose_gemm_tiling(p, tiling, n, &given) : NULL;
  if (!best) best = choose_gemm_tiling(p, tiling, n, p->asked);
  if (best) p->by = *best, p->threads = threads_of(p, best);
  return best;
}

// ---- epilogue ----

void tc_gemm_put_fragment(tc_gemm *p, tc_val row, tc_val column, tc_val sum, int first, int64_t right, tc_val mask) {
  tc_emit_ctx *s = p->s;
  tc_val v[4];
  for (int e = 0; e < 4; e++) v[e] = extract(s, p->threads, sum, first + e);
  for (int half = 0; half < 2; half++) {
    tc_val at = add(s, times(s, add_i64(s, row, 8 * half), tc_gemm_sums_row(p)), add_i64(s, column, right));
    scatter(s, p->sums, at, tc_gemm_join(s, v + 2 * half, 2), mask);
  }
}

// Columns that a thread finishes at once: 16 bytes of the narrowest result.
static int finish_run(const tc_gemm *p) {
  const tc_emit_ctx *s = p->s;
  int run = 1;
  for (uint32_t i = 0, n; tc_emit_next_member(s, &i, &n);) {
    if (tc_emit_must_store(s, n)) run = TC_MAX_OF(run, TC_GEMM_COPIED / (int)tc_type_bytes(s->g->node[n].type));
  }
  run = TC_MIN(run, MOST_RUN);
  while (run > 1 && (p->of.n % run || p->threads * run > p->sums_rows * p->by.columns)) run /= 2;
  return run;
}

void tc_gemm_finish(tc_gemm *p, tc_gemm_rows rows) {
  tc_emit_ctx *s = p->s;
  int run = finish_run(p), columns = p->by.columns, at_once = TC_MAX_OF(p->threads * run / columns, 1);
  tc_val column = times(s, tc_gemm_low(s, p->thread, columns / run), run),
         first = tc_gemm_high(s, p->thread, columns / run);
  tc_val r = add(s, loop_to(s, i64(s, p->sums_rows), at_once), first);
  tc_val sum = gather(s, p->sums, p->acc, p->threads * run, add(s, times(s, r, tc_gemm_sums_row(p)), column), TC_NONE);
  tc_val row = add(s, times(s, tc_gemm_high(s, r, rows.group), rows.stride),
                   add(s, tc_gemm_low(s, r, rows.group), i64(s, rows.first)));
  s->threads.run = run, s->lanes = p->threads * run, s->vector = TC_RANGE_K;
  s->threads.off[TC_RANGE_F] = row, s->threads.within[TC_RANGE_F] = p->by.rows;
  s->threads.off[TC_RANGE_K] = column, s->threads.within[TC_RANGE_K] = columns;
  s->mask = TC_NONE;
  if (p->of.m % p->by.rows) s->mask = bin(s, TC_IR_LT, row, sub(s, i64(s, p->of.m), p->row));
  if (p->of.n % columns)
    s->mask = tc_emit_both(s, s->mask, bin(s, TC_IR_LT, column, sub(s, i64(s, p->of.n), p->column)));
  tc_emit_stores_of(s, p->node, tc_emit_rounded(s, sum, s->g->node[p->node].type));
  s->threads.run = 0, s->lanes = 1, s->vector = -1, s->mask = TC_NONE,
  s->threads.off[TC_RANGE_F] = s->threads.off[TC_RANGE_K] = TC_NONE;
  end(s);
}
