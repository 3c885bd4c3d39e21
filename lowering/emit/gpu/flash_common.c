// Shared parts of a GPU's attention, forward and backward: tiling, threads and units, scores. See
// flash_common.h.
#include "lowering/emit/gpu/flash_common.h"

#define CHUNK 64  // rows of the other side; half of it where rows are long
#define LEAST_CHUNK 16
#define SPARE_IN_CHAINS \
  24  // registers of a thread, forward: by NVRTC 13.0 for sm_120 heads of 128 in f16 took 80 bytes of stack without

// ---- tiling ----

static void take_tiling(tc_flash *p, const tc_flash_tiling *tiling) {
  p->tiling = *tiling;
  p->each = p->chunk / p->way->across;
  p->threads = tiling->rows / tiling->held * p->way->across;
}

// Whether what a thread holds fits its registers.
static bool is_held(const tc_flash *p, int matmuls, int64_t columns) {
  int64_t held = p->tiling.held * (matmuls * p->each + (p->chains ? 2 : 1) * columns / p->way->across);
  int most = p->way->most_held - (p->chains && !p->at.backward ? SPARE_IN_CHAINS : 0);
  return held * (int64_t)tc_type_bytes(p->at.acc) <= 4 * most;
}

// Whether the tiling is the requested one; true without a request.
static bool is_given_flash(const tc_gemm_tiling *given, const tc_flash_tiling *tiling) {
  return !given || (given->of[TC_TILING_ROWS] == tiling->rows &&
                    (given->of[TC_TILING_LANES] < 0 || given->of[TC_TILING_LANES] == tiling->held));
}

// Blocks run in waves of as many as there are processors. A block's time is its number of rows over
// `speed`: small blocks read more for each row.
static bool choose_flash_tiling(tc_flash *p, const tc_flash_work *w, const tc_gemm_tiling *given) {
  const tc_flash_tiling *all = p->way->tiling, *best = NULL;
  double least_time = 0;
  for (int i = 0; i < p->way->n_tilings; i++) {
    take_tiling(p, &all[i]);
    double waves =
        (double)tc_ceil_div(w->heads * tc_ceil_div(w->rows, p->tiling.rows), TC_MAX_OF(p->at.s->target->processors, 1));
    double time = waves * p->tiling.rows / p->tiling.speed;
    bool fits = p->threads <= p->at.s->target->threads_most && is_held(p, w->matmuls, w->columns) &&
                w->tiles(p, w->of) <= p->at.s->target->shared_bytes;
    if (!fits || !is_given_flash(given, &all[i]) || (best && time >= least_time)) continue;
    best = &all[i], least_time = time;
  }
  if (best) take_tiling(p, best), (void)w->tiles(p, w->of);
  return best;
}

static bool choose_chunk(tc_flash *p, const tc_flash_work *w) {
  int64_t longest = TC_MAX_OF(p->at.e, p->at.ev),
          each = (int64_t)tc_type_bytes(p->way->matrix ? p->at.q.type : p->at.acc);
  int64_t wide = p->way->wide / each / (p->at.backward ? 2 : 1);
  tc_gemm_tiling asked;
  p->chunk = longest > wide ? CHUNK / 2 : CHUNK;
  while (p->chunk > LEAST_CHUNK && p->chunk / 2 >= p->others) p->chunk /= 2;
  for (; p->chunk >= LEAST_CHUNK; p->chunk /= 2) {
    if (!choose_flash_tiling(p, w, NULL)) continue;
    if (p->asked) return choose_flash_tiling(p, w, p->asked);
    return !tc_gemm_tiling_option(&asked) || choose_flash_tiling(p, w, &asked) || choose_flash_tiling(p, w, NULL);
  }
  return false;
}

bool tc_flash_choose(tc_flash *p, const tc_flash_work *w) {
  p->chains = w->columns > 0 && p->terms > TC_CHAIN_WHOLE;
  if (p->chains) {
    const tc_gemm_tiling *asked = p->asked;
    p->asked = NULL;
    p->chains = choose_chunk(p, w);
    p->asked = asked;
  }
  if (choose_chunk(p, w)) return true;
  const char *what =
      p->at.backward ? "no tile of attention's gradients fits the device" : "no tile of attention fits the device";
  return tc_emit_fail(p->at.s, TC_ERR_STATE, what), false;
}

// ---- units ----

tc_val tc_flash_begin_kernel(tc_flash *p, int64_t units) {
  tc_emit_ctx *s = p->at.s;
  const tc_flash_way *w = p->way;
  bool weighs = p->at.backward || p->at.out != TC_NONE;
  if (weighs && !w->matrix) p->weights = tc_emit_tile(s, p->at.acc, (int64_t)p->tiling.rows * (p->chunk + 4));
  s->x->kir.threads = (uint16_t)p->threads, s->x->kir.groups = 1;
  p->thread = tc_emit_numbers(s, TC_I64, p->threads);
  p->part = tc_gemm_low(s, tc_gemm_high(s, p->thread, w->apart), w->across);
  p->column = times(s, p->part, w->run);
  tc_val row = w->apart == 1 ? tc_gemm_high(s, p->thread, w->across) : p->thread;
  if (w->rows)
    row = add(s, times(s, tc_gemm_high(s, p->thread, w->rows * w->across), w->rows * p->tiling.held),
              tc_gemm_low(s, row, w->rows));
  for (int i = 0; i < p->tiling.held; i++) p->row[i] = plus(s, row, (int64_t)i * tc_flash_row_stride(p));
  p->key_scale = tc_attention_key_scale(&p->at);
  s->x->extent = units;
  s->bound[TC_RANGE_A] = true;
  return tc_emit_begin_units(s);
}

size_t tc_flash_weights_bytes(const tc_flash *p) {
  return p->way->matrix ? 0 : (size_t)p->tiling.rows * (size_t)(p->chunk + 4) * tc_type_bytes(p->at.acc);
}

tc_val tc_flash_unit(tc_flash *p, tc_val unit, int64_t rows, bool last_first, tc_val *head) {
  tc_emit_ctx *s = p->at.s;
  int64_t blocks = tc_ceil_div(rows, p->tiling.rows);
  tc_val block = rem_by(s, unit, blocks);
  *head = div_by(s, unit, blocks);
  return times(s, last_first ? sub(s, i64(s, blocks - 1), block) : block, p->tiling.rows);
}

tc_val tc_flash_score(tc_flash *p, tc_val v, tc_val row, tc_val key, tc_val *seen) {
  tc_attention_emitter *a = &p->at;
  tc_emit_ctx *s = a->s;
  v = mul(s, v, p->key_scale);
  if (!a->has_mask) return v;
  tc_val at = add(s, add(s, a->mask.at, times(s, row, a->mask.stride)), times(s, key, a->mask.col));
  tc_val m = gather(s, a->mask.buf, a->mask.type, p->threads, splat(s, at, p->threads), *seen);
  if (a->mask.type != TC_BOOL) return add(s, v, cast(s, m, a->acc));
  *seen = tc_emit_both(s, *seen, m);
  return v;
}
