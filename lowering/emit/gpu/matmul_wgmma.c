// A tile of a matmul of f16 or bf16 by sm_90a's wgmma. Four warps hold accumulators for 64 rows and
// all columns of the tile in registers. They read boxes in shared memory. One thread loads the
// boxes by TMA, some chunks of k ahead. While a chunk is multiplied, the previous one is waited for
// and its stage is loaded again. Both operands are in memory as aligned rows, transposed or not.
// Computed or unaligned ones are for matmul_mma.c.
// Order: an element is one chain over groups of 16 steps of k, in f32, or several (summation.h).
// The tile does not matter. Steps beyond the last are zeros.
#include "lowering/emit/gpu/matmul_common.h"

#define STEPS TC_KIR_TMA_BOX  // steps of k in a chunk: a box's
#define STAGES 4  // chunks in shared memory
#define GROUP 128  // threads that work on 64 rows
#define ROWS 64
#define BOX (TC_KIR_TMA_BOX * TC_KIR_TMA_BOX)  // elements
#define ALIGNED 8  // elements that addresses of rows are multiples of
#define MOST_EXTENT (INT64_C(1) << 31)
#define MOST_STRIDE (INT64_C(1) << 39)

// Not measured: speeds are estimated from the bytes read for each element.
static const tc_gpu_gemm_tiling tilings[] = {
    {128, 256, STEPS, 2, 1, 1.0}, {128, 128, STEPS, 2, 1, 0.8}, {64, 256, STEPS, 1, 1, 0.7},
    {64, 128, STEPS, 1, 1, 0.6},  {128, 64, STEPS, 2, 1, 0.6},  {64, 64, STEPS, 1, 1, 0.45},
};

const tc_gpu_gemm_tiling *tc_gemm_wgmma_tilings(int *n) {
  return *n = TC_GEMM_COUNT(tilings), tilings;
}

// ---- operands as tensor maps ----

static bool find_map(const tc_gemm *p, tc_gemm_side *x) {
  const tc_extents *e = &p->s->ext;
  tc_index flat = x->flat;
  int64_t line, k, batch;
  if (!x->plain || x->n_cond || p->s->g->node[x->source].type != tc_gemm_type_of(p, x)) return false;
  tc_ix_simplify(&flat, e);
  if (!tc_ix_take_stride(&flat, x->range, &line) || !tc_ix_take_stride(&flat, TC_RANGE_K0, &k) ||
      !tc_ix_take_stride(&flat, TC_RANGE_A, &batch))
    return false;
  x->transposed = k != 1;
  int64_t row = x->transposed ? k : line, across = x->transposed ? x->extent : p->of.k,
          down = x->transposed ? p->of.k : x->extent;
  if (p->of.batch == 1) batch = 0;
  x->map = (tc_tensor_map){.first = flat.base,
                           .extent = {across, down, batch ? p->of.batch : 1},
                           .stride = {row, batch ? batch : row * down}};
  bool fits =
      flat.n == 0 && (k == 1 || line == 1) && batch >= 0 && row >= across && flat.base >= 0 && flat.base % ALIGNED == 0;
  for (int i = 0; i < 3; i++) fits = fits && x->map.extent[i] < MOST_EXTENT;
  for (int i = 0; i < 2; i++) fits = fits && x->map.stride[i] % ALIGNED == 0 && x->map.stride[i] < MOST_STRIDE;
  return fits;
}

bool tc_gemm_wgmma_fits(tc_gemm *p) {
  bool large = p->of.m >= ROWS && p->of.n >= TC_KIR_TMA_BOX && p->of.k >= STEPS;
  return p->s->target->wgmma && large && find_map(p, &p->a) && find_map(p, &p->b);
}

static void plan_side(tc_gemm *p, tc_gemm_side *x, int size) {
  x->size = size, x->type = tc_gemm_type_of(p, x);
  x->stages = STAGES, x->stage = (int64_t)size * STEPS;
}

bool tc_gemm_wgmma_plan(tc_gemm *p) {
  if (!tc_gemm_choose(p, tilings, TC_GEMM_COUNT(tilings))) return false;
  plan_side(p, &p->a, p->by.rows);
  plan_side(p, &p->b, p->by.columns);
  p->sums_rows = p->by.down * 16;
  return true;
}

// Called for the left operand first: the tensor maps are the kernel's 0 and 1.
static void add_map(tc_gemm *p, tc_gemm_side *x) {
  tc_kir *kir = &p->s->x->kir;
  x->map.buffer = (uint32_t)tc_emit_buffer(p->s, x->source), x->map.tile = (uint32_t)(x->tile - TC_MAX_BUFS);
  kir->map[kir->n_map++] = x->map;
}

// ---- a chunk of k ----

typedef struct stages {
  // chunks that the block loaded for earlier units, modulo 2 * STAGES: enough for stages and their
  // phases
  tc_val first;
  tc_val group;  // offset of each thread's rows in a stage of the left operand
} stages;

static tc_val op(tc_gemm *p, tc_kir_op op_, tc_val s0, tc_val s1, tc_val s2, int64_t imm, uint32_t flags) {
  return set_flags(p->s, tc_build_raw(&p->s->e, op_, TC_I64, 1, s0, s1, s2, imm), flags);
}

static void fetch_side(tc_gemm *p, const tc_gemm_side *x, int map, tc_val k0, tc_val chunk) {
  tc_emit_ctx *s = p->s;
  tc_val matrix = x->map.extent[2] > 1 ? s->at[TC_RANGE_A] : i64(s, 0);
  for (int i = 0; i < x->size / TC_KIR_TMA_BOX; i++) {
    tc_val line = add_i64(s, s->at[x->range], (int64_t)i * TC_KIR_TMA_BOX);
    tc_val v = op(p, TC_IR_TMA_LOAD, x->transposed ? line : k0, x->transposed ? k0 : line, matrix, map, (uint32_t)i);
    if (!s->e.failed) s->x->kir.inst[v].src[3] = chunk;
  }
}

// Loads the chunk at step k0, if there is one.
static void fetch_chunk(tc_gemm *p, const stages *at, tc_val k0) {
  tc_emit_ctx *s = p->s;
  begin_if(s, bin(s, TC_IR_LT, k0, i64(s, p->of.k)));
  tc_val chunk = add(s, at->first, tc_gemm_high(s, k0, STEPS));
  fetch_side(p, &p->a, 0, k0, chunk);
  fetch_side(p, &p->b, 1, k0, chunk);
  end_if(s);
}

static void accumulate_in_groups(tc_gemm *p, tc_val sums, tc_val total) {
  tc_emit_ctx *s = p->s;
  stages at;
  tc_val begin = nullary(s, TC_IR_BEGIN), zero = i64(s, 0);
  at.first = tc_gemm_low(s, times(s, sub(s, p->unit, begin), tc_ceil_div(p->of.k, STEPS)), 2 * STAGES);
  at.group = times(s, tc_gemm_high(s, p->thread, GROUP), BOX);
  tc_val stage = loop(s, zero, i64(s, STAGES - 1), 1);
  fetch_chunk(p, &at, times(s, stage, STEPS));
  end(s);
  tc_val k0 = loop(s, zero, i64(s, p->of.k), STEPS), chunk = add(s, at.first, tc_gemm_high(s, k0, STEPS)),
         here = tc_gemm_low(s, chunk, STAGES);
  (void)op(p, TC_IR_TMA_WAIT, chunk, TC_NONE, TC_NONE, 0, 0);
  tc_val a = add(s, at.group, times(s, here, p->a.stage)), b = splat(s, times(s, here, p->b.stage), p->threads);
  (void)op(p, TC_IR_WGMMA, a, b, sums, 1 << 8, (p->a.transposed ? 1u : 0u) | (p->b.transposed ? 2u : 0u));
  (void)op(p, TC_IR_WGMMA_WAIT, sums, TC_NONE, TC_NONE, 1, 0);
  if (tc_gemm_begin_end_of_chain(p, k0, STEPS)) {
    (void)op(p, TC_IR_WGMMA_WAIT, sums, TC_NONE, TC_NONE, 0, 0);
    tc_gemm_add_to_totals(p, &sums, &total, 1);
    end_if(s);
  }
  fetch_chunk(p, &at, add(s, k0, i64(s, (STAGES - 1) * STEPS)));
  end(s);
  (void)op(p, TC_IR_WGMMA_WAIT, sums, TC_NONE, TC_NONE, 0, 0);
}

// ---- results ----

// Writes the rows of one warp of every four to rows of the tile `sums`.
static void put_group_rows(tc_gemm *p, int warp, tc_val sums) {
  tc_emit_ctx *s = p->s;
  tc_val lane = tc_gemm_low(s, p->thread, 32),
         mine = bin(s, TC_IR_EQ, tc_gemm_low(s, tc_gemm_high(s, p->thread, 32), 4), i64(s, warp));
  tc_val row = add(s, tc_gemm_high(s, lane, 4), times(s, tc_gemm_high(s, p->thread, GROUP), 16)),
         column = times(s, tc_gemm_low(s, lane, 4), 2);
  for (int j = 0; j < p->by.columns / 8; j++) tc_gemm_put_fragment(p, row, column, sums, 4 * j, 8 * j, mine);
}

void tc_gemm_wgmma(tc_gemm *p) {
  tc_emit_ctx *s = p->s;
  add_map(p, &p->a);
  add_map(p, &p->b);
  s->x->kir.stages = STAGES;
  tc_val zero = zeros(s, TC_F32, p->threads * p->by.columns / 2);
  tc_val sums, total;
  tc_gemm_begin_sums(p, zero, &sums, &total, 1);
  accumulate_in_groups(p, sums, total);
  tc_gemm_operands_read(p);
  for (int warp = 0; warp < 4 && s->st == TC_OK; warp++) {
    put_group_rows(p, warp, total);
    tc_gemm_finish(p, (tc_gemm_rows){16 * warp, 16, ROWS});
  }
}
