// Products on a GPU: c[A, M, N] = sum over K of a[A, M, K] * b[A, K, N], with what follows elementwise applied to the finished values.
//
// [begin, end) counts units, a unit being a tile of the result of one batch, made by one block: by matrix instructions (matmul_mma.c, matmul_mfma.c) where
// the device has them for the type, of sm_90a's two families by the other one (matmul_wgmma.c) where that is asked for, else by multiply-adds
// (matmul_simt.c). Few rows or columns have a schedule of their own (gemv.c). Neighbouring units share rows and columns, so that what they read is in
// the second-level cache.
//   for each chunk of k: both operands' tiles in the block's memory (matmul_stage.c), multiplied into accumulators in registers
//   what follows: accumulators become rows of the block's memory, some at a time, and each thread does it on neighbouring columns
// Order: see the ways to multiply. The size of a tile changes no bit.
#include "lowering/emit/gpu/matmul.h"

#include <stdio.h>

#include "runtime/options.h"

#define TOGETHER 8  // rows of tiles that neighbouring units work down, so that few columns are in use
#define MOST_RUN 8  // elements of a row that a thread finishes at once

tc_val tc_gemm_join(tc_ex *s, const tc_val *v, int n) {
  tc_val even[32], odd[32];
  if (n == 1) return v[0];
  for (int i = 0; i < n / 2; i++) even[i] = v[2 * i], odd[i] = v[2 * i + 1];
  tc_val a = tc_gemm_join(s, even, n / 2), b = tc_gemm_join(s, odd, n / 2);
  return tc_emit_raw(&s->e, TC_N_INTERLEAVE, tc_emit_type(&s->e, a), 2 * tc_emit_lanes(&s->e, a), a, b, TC_NONE, 0);
}

tc_val tc_gemm_multiply_add(tc_gemm *p, tc_val a, tc_val b, tc_val sum) {
  return p->fused ? tc_emit_fma(&p->s->e, a, b, sum) : add(p->s, sum, bin(p->s, TC_N_MUL, a, b));
}

// ---- chains ----

void tc_gemm_totals(tc_gemm *p, const tc_val *acc, tc_val *total, int n) {
  tc_emit *e = &p->s->e;
  for (int i = 0; i < n; i++)
    total[i] = p->chains ? tc_emit_var(e, tc_emit_splat(e, tc_emit_const_f(e, p->acc, 0), tc_emit_lanes(e, acc[i]))) : acc[i];
}

bool tc_gemm_begin_end_of_chain(tc_gemm *p, tc_val k0, int steps) {
  tc_ex *s = p->s;
  if (!p->chains) return false;
  tc_val next = add(s, k0, i64(s, steps)), ends = bin(s, TC_N_EQ, tc_gemm_low(s, next, TC_CHAIN), i64(s, 0));
  ends = bin(s, TC_N_OR, ends, bin(s, TC_N_GE, next, i64(s, p->of.k)));
  (void)tc_emit_raw(&s->e, TC_N_IF, TC_BOOL, 1, ends, TC_NONE, TC_NONE, 0);
  return true;
}

void tc_gemm_add_to_totals(tc_gemm *p, const tc_val *acc, const tc_val *total, int n) {
  tc_ex *s = p->s;
  for (int i = 0; i < n; i++) {
    tc_emit_set(&s->e, total[i], add(s, total[i], acc[i]));
    tc_emit_set(&s->e, acc[i], tc_emit_const_f(&s->e, p->acc, 0));
  }
}

void tc_gemm_end_chain(tc_gemm *p, tc_val k0, int steps, const tc_val *acc, const tc_val *total, int n) {
  if (!tc_gemm_begin_end_of_chain(p, k0, steps)) return;
  tc_gemm_add_to_totals(p, acc, total, n);
  tc_emit_end(&p->s->e, TC_N_ENDIF);
}

// ---- the cut ----

static int64_t tiles_of(const tc_gemm *p, const tc_gemm_cut *c) {
  return p->of.batch * tc_ceil_div(p->of.m, c->rows) * tc_ceil_div(p->of.n, c->columns);
}

// Bytes of the block's memory that are enough: of both operands two chunks, or four of copies, and rows of results.
static size_t shared_of(const tc_gemm *p, const tc_gemm_cut *c) {
  size_t lines = (size_t)(c->rows + c->columns), steps = (size_t)c->steps, each = tc_type_bytes(p->acc), row = (size_t)c->columns + 8;
  size_t sums = (size_t)c->down * 16 * row * each, halves = lines * steps * 2;
  switch (p->way) {
    case TC_GEMM_MMA: return 4 * halves + sums;
    case TC_GEMM_MFMA: return 2 * (halves + (size_t)(TC_MAX_OF(c->rows, c->steps) + TC_MAX_OF(c->columns, c->steps)) * TC_GEMM_MFMA_PAD * 2) + sums;
    case TC_GEMM_WGMMA: return 4 * halves + sums + 64;  // and gates
    case TC_GEMM_SIMT: break;
  }
  return ((lines + 16) * steps * 2 + (size_t)(c->rows / c->down) * 2 * row) * each;
}

static bool is_given(const tc_cut *given, const tc_gemm_cut *c) {
  int64_t rows = given ? given->of[TC_CUT_ROWS] : -1, columns = given ? given->of[TC_CUT_LANES] : -1;
  return (rows < 0 || rows == c->rows) && (columns < 0 || columns == c->columns);
}

static int threads_of(const tc_gemm *p, const tc_gemm_cut *c) {
  switch (p->way) {
    case TC_GEMM_MMA: return c->down * c->across * 32;
    case TC_GEMM_MFMA: return c->down * c->across * 64;
    case TC_GEMM_WGMMA: return c->down * 128;
    case TC_GEMM_SIMT: break;
  }
  return c->rows / c->down * (c->columns / c->across);
}

// Blocks run in waves of as many as there are processors; a tile takes as long as it has elements, and more where they are few for what is read.
static const tc_gemm_cut *choose(const tc_gemm *p, const tc_gemm_cut *cut, int n, const tc_cut *given) {
  const tc_gemm_cut *best = NULL;
  double least = 0;
  for (int i = 0; i < n; i++) {
    double waves = (double)tc_ceil_div(tiles_of(p, &cut[i]), TC_MAX_OF(p->s->target->processors, 1));
    double time = waves * cut[i].rows * cut[i].columns / cut[i].speed;
    if (!is_given(given, &cut[i]) || !tc_gemm_has_room(p, cut[i].rows * cut[i].columns / threads_of(p, &cut[i])) ||
        shared_of(p, &cut[i]) > p->s->target->shared_bytes || (best && time >= least))
      continue;
    best = &cut[i], least = time;
  }
  return best;
}

bool tc_gemm_asked(tc_cut *out) {
  const char *text = tc_options_get()->gpu_tile;
  int rows, columns;
  if (!text || sscanf(text, "%dx%d", &rows, &columns) != 2) return false;
  out->of[TC_CUT_ROWS] = rows, out->of[TC_CUT_LANES] = columns;
  return true;
}

const tc_gemm_cut *tc_gemm_choose(const tc_gemm *p, const tc_gemm_cut *cut, int n) {
  tc_cut given;
  const tc_gemm_cut *best = !p->s->cut && tc_gemm_asked(&given) ? choose(p, cut, n, &given) : NULL;
  return best ? best : choose(p, cut, n, p->s->cut);
}

// ---- what follows ----

// Columns that a thread finishes at once: 16 bytes of the narrowest result.
static int finish_run(const tc_gemm *p) {
  const tc_ex *s = p->s;
  int run = 1;
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    uint32_t n = s->gp->member[i];
    if (tc_ex_must_store(s, n)) run = TC_MAX_OF(run, TC_GEMM_COPIED / (int)tc_type_bytes(s->g->node[n].type));
  }
  run = TC_MIN(run, MOST_RUN);
  while (run > 1 && (p->of.n % run || p->threads * run > p->sums_rows * p->by.columns)) run /= 2;
  return run;
}

void tc_gemm_finish(tc_gemm *p, tc_gemm_rows rows) {
  tc_ex *s = p->s;
  int run = finish_run(p), columns = p->by.columns, at_once = TC_MAX_OF(p->threads * run / columns, 1);
  tc_val column = times(s, tc_gemm_low(s, p->thread, columns / run), run), first = tc_gemm_high(s, p->thread, columns / run);
  tc_val r = add(s, loop(s, i64(s, 0), i64(s, p->sums_rows), at_once), first);
  tc_val sum = tc_emit_raw(&s->e, TC_N_GATHER, p->acc, p->threads * run, add(s, times(s, r, tc_gemm_sums_row(p)), column), TC_NONE, TC_NONE, p->sums);
  tc_val row = add(s, times(s, tc_gemm_high(s, r, rows.group), rows.stride), add(s, tc_gemm_low(s, r, rows.group), i64(s, rows.first)));
  s->run = run, s->lanes = p->threads * run, s->vector = TC_RANGE_K;
  s->off[TC_RANGE_F] = row, s->within[TC_RANGE_F] = p->by.rows;
  s->off[TC_RANGE_K] = column, s->within[TC_RANGE_K] = columns;
  s->mask = TC_NONE;
  if (p->of.m % p->by.rows) s->mask = bin(s, TC_N_LT, row, sub(s, i64(s, p->of.m), p->row));
  if (p->of.n % columns) s->mask = tc_gemm_both(s, s->mask, bin(s, TC_N_LT, column, sub(s, i64(s, p->of.n), p->column)));
  tc_ex_enter(s);
  tc_ex_remember(s, p->node, tc_ex_rounded(s, sum, s->g->node[p->node].type));
  tc_ex_stores(s);
  tc_ex_leave(s);
  s->run = 0, s->lanes = 1, s->vector = -1, s->mask = TC_NONE, s->off[TC_RANGE_F] = s->off[TC_RANGE_K] = TC_NONE;
  end(s);
}

// ---- units ----

static bool find_product(tc_gemm *p) {
  tc_ex *s = p->s;
  p->node = TC_NONE;
  for (uint32_t i = 0; i < s->gp->n_member; i++)
    if (tc_op_kind_of(s->g->node[s->gp->member[i]].op) == TC_KIND_CONTRACT) p->node = s->gp->member[i];
  const tc_gnode *x = &s->g->node[p->node], *a = &s->g->node[x->in[0]];
  p->of = (tc_extent3){s->gp->a, s->gp->f, s->gp->k, a->shape->d.dim[a->shape->d.rank - 1]};
  p->acc = tc_ex_compute_type(x->type);
  p->fused = tc_type_is_float(p->acc);
  p->chain = tc_chain_of(p->of.k);
  p->chains = p->chain < p->of.k;
  s->ext.of[TC_RANGE_K0] = p->of.k;
  return tc_gemm_side_find(p, 0, &p->a) && tc_gemm_side_find(p, 1, &p->b);
}

// Which tile of the result a unit is: units go down some rows of tiles, then to the next column.
static void enter_unit(tc_gemm *p, tc_val unit) {
  tc_ex *s = p->s;
  int64_t down = tc_ceil_div(p->of.m, p->by.rows), across = tc_ceil_div(p->of.n, p->by.columns), together = TC_MIN(TOGETHER, down);
  tc_val tile = bin(s, TC_N_REM, unit, i64(s, down * across));
  s->at[TC_RANGE_A] = bin(s, TC_N_DIV, unit, i64(s, down * across));
  tc_val first = times(s, bin(s, TC_N_DIV, tile, i64(s, together * across)), together), in = bin(s, TC_N_REM, tile, i64(s, together * across));
  tc_val height = bin(s, TC_N_MIN, sub(s, i64(s, down), first), i64(s, together));
  p->unit = unit;
  p->row = s->at[TC_RANGE_F] = times(s, add(s, first, bin(s, TC_N_REM, in, height)), p->by.rows);
  p->column = s->at[TC_RANGE_K] = times(s, bin(s, TC_N_DIV, in, height), p->by.columns);
}

static void make_tiles(tc_gemm *p) {
  tc_gemm_side *side[2] = {&p->a, &p->b};
  for (int i = 0; i < 2; i++) {
    tc_gemm_side *x = side[i];
    x->tile = tc_ex_tile(p->s, x->type, x->stages * x->stage);
  }
  p->sums = tc_ex_tile(p->s, p->acc, p->sums_rows * tc_gemm_sums_row(p));
}

typedef struct multiplier {
  bool (*plan)(tc_gemm *p);
  void (*run)(tc_gemm *p);
} multiplier;

static const multiplier ways[] = {
    [TC_GEMM_SIMT] = {tc_gemm_simt_plan, tc_gemm_simt},
    [TC_GEMM_MMA] = {tc_gemm_mma_plan, tc_gemm_mma},
    [TC_GEMM_MFMA] = {tc_gemm_mfma_plan, tc_gemm_mfma},
    [TC_GEMM_WGMMA] = {tc_gemm_wgmma_plan, tc_gemm_wgmma},
};

// By the operands' type and the device alone, but where four warps may work together: by shape, and how the operands lie.
static tc_gemm_way way_of(tc_gemm *p) {
  tc_type type = tc_gemm_type_of(p, &p->a);
  if ((type != TC_F16 && type != TC_BF16) || tc_gemm_type_of(p, &p->b) != type || p->acc != TC_F32 || p->of.k == 0) return TC_GEMM_SIMT;
  if (tc_gemm_wgmma_fits(p)) return TC_GEMM_WGMMA;
  return p->s->target->mma ? TC_GEMM_MMA : p->s->target->mfma ? TC_GEMM_MFMA : TC_GEMM_SIMT;
}

static void tiled(tc_gemm *p) {
  tc_ex *s = p->s;
  p->way = way_of(p);
  if (!ways[p->way].plan(p)) {
    tc_ex_fail(s, TC_ERR_STATE, "no tile of a product fits the device");
    return;
  }
  make_tiles(p);
  s->x->nest.threads = (uint16_t)p->threads, s->x->nest.groups = 1;
  p->thread = tc_gemm_all_threads(s, p->threads);
  enter_unit(p, tc_gemm_units(s));
  ways[p->way].run(p);
  end(s);
  s->x->extent = tiles_of(p, &p->by);
}

void tc_ex_gpu_product(tc_ex *s) {
  tc_gemm whole = {.s = s}, *p = &whole;
  if (!find_product(p)) return;
  s->lanes = 1, s->vector = -1;
  s->bound[TC_RANGE_A] = s->bound[TC_RANGE_F] = s->bound[TC_RANGE_K] = true;
  tc_ex_preload(s);
  if (tc_gemm_narrow_fits(p))
    tc_gemm_narrow(p);
  else
    tiled(p);
  s->x->work = 2.0 * (double)(s->gp->a * p->of.m * p->of.n) * (double)p->of.k / 1e4 + 1000;
}
