// Emits matmul for a GPU: c[A, M, N] = sum over K of a[A, M, K] * b[A, K, N], with an elementwise
// epilogue.
//
// [begin, end) counts units. A unit is a tile of one batch's result, computed by one block. Where
// the device has matrix instructions for the type, they are used: matmul_mma.c, matmul_mfma.c, or
// matmul_wgmma.c if requested on sm_90a. Otherwise multiply-adds (matmul_simt.c). Few rows or
// columns: gemv.c. Neighbouring units share rows and columns, so their reads hit the second-level
// cache.
//   for each chunk of k: both operands' tiles in shared memory (matmul_stage.c), multiplied into
//     accumulators in registers
//   epilogue: some accumulators at a time become rows in shared memory, and each thread finishes
//     neighbouring columns
// Order: see the files above. The size of a tile changes no bit.
#include "lowering/emit/gpu/matmul_common.h"

#define TOGETHER 8  // rows of tiles that neighbouring units go down, so that few columns are in use

static bool find_gemm(tc_gemm *p) {
  tc_emit_ctx *s = p->s;
  const tc_gnode *x = &s->g->node[p->node], *a = &s->g->node[x->in[0]];
  p->of = (tc_extent3){s->gp->a, s->gp->f, s->gp->k, a->shape->d.dim[a->shape->d.rank - 1]};
  p->acc = tc_emit_compute_type(x->type);
  p->multiply = tc_type_is_float(p->acc) ? TC_MULTIPLY_FUSED : TC_MULTIPLY_ROUNDED;
  p->chain = tc_chain_of(p->of.k);
  p->chains = p->chain < p->of.k;
  s->ext.of[TC_RANGE_K0] = p->of.k;
  return tc_gemm_side_find(p, 0, &p->a) && tc_gemm_side_find(p, 1, &p->b);
}

// Sets the tile of the result that a unit computes: units go down some rows of tiles, then to the
// next column.
static void enter_unit(tc_gemm *p, tc_val unit) {
  tc_emit_ctx *s = p->s;
  int64_t down = tc_ceil_div(p->of.m, p->by.rows), across = tc_ceil_div(p->of.n, p->by.columns),
          together = TC_MIN(TOGETHER, down);
  tc_val tile = rem_by(s, unit, down * across);
  s->at[TC_RANGE_A] = div_by(s, unit, down * across);
  tc_val first = times(s, div_by(s, tile, together * across), together), in = rem_by(s, tile, together * across);
  tc_val height = least(s, sub(s, i64(s, down), first), i64(s, together));
  p->unit = unit;
  p->row = s->at[TC_RANGE_F] = times(s, add(s, first, bin(s, TC_IR_REM, in, height)), p->by.rows);
  p->column = s->at[TC_RANGE_K] = times(s, bin(s, TC_IR_DIV, in, height), p->by.columns);
}

static void make_gemm_tiles(tc_gemm *p) {
  p->a.tile = tc_emit_tile(p->s, p->a.type, p->a.stages * p->a.stage);
  p->b.tile = tc_emit_tile(p->s, p->b.type, p->b.stages * p->b.stage);
  p->sums = tc_emit_tile(p->s, p->acc, p->sums_rows * tc_gemm_sums_row(p));
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

// Chosen by the operands' type and the device alone. For wgmma, also by shape and by the operands'
// layout.
static tc_gemm_way gemm_way_of(tc_gemm *p) {
  tc_type type = tc_gemm_type_of(p, &p->a);
  if ((type != TC_F16 && type != TC_BF16) || tc_gemm_type_of(p, &p->b) != type || p->acc != TC_F32 || p->of.k == 0)
    return TC_GEMM_SIMT;
  if (tc_gemm_wgmma_fits(p)) return TC_GEMM_WGMMA;
  return p->s->target->mma ? TC_GEMM_MMA : p->s->target->mfma ? TC_GEMM_MFMA : TC_GEMM_SIMT;
}

static void emit_tiles(tc_gemm *p) {
  tc_emit_ctx *s = p->s;
  p->way = gemm_way_of(p);
  if (!ways[p->way].plan(p)) {
    tc_emit_fail(s, TC_ERR_STATE, "no tile of a matmul fits the device");
    return;
  }
  make_gemm_tiles(p);
  s->x->kir.threads = (uint16_t)p->threads, s->x->kir.groups = 1;
  p->thread = tc_emit_numbers(s, TC_I64, p->threads);
  enter_unit(p, tc_emit_begin_units(s));
  ways[p->way].run(p);
  end(s);
  s->x->extent = tc_gemm_n_tiles(p, &p->by);
}

void tc_emitter_gpu_matmul(tc_emit_ctx *s) {
  tc_gemm whole = {.s = s, .node = s->contraction, .asked = s->tiling}, *p = &whole;
  if (!find_gemm(p)) return;
  s->lanes = 1, s->vector = -1;
  s->bound[TC_RANGE_A] = s->bound[TC_RANGE_F] = s->bound[TC_RANGE_K] = true;
  tc_emit_preload(s);
  if (tc_gemv_fits(p))
    tc_gemv(p);
  else
    emit_tiles(p);
  s->x->work = 2.0 * (double)(s->gp->a * p->of.m * p->of.n) * (double)p->of.k / 1e4 + 1000;
}
