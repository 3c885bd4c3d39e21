// Emits attention for a GPU: out = softmax(q k^T scale + mask) v. Scores of a block of rows against
// a chunk of keys are in registers.
//
// [begin, end) counts units. A unit is a block of query rows of one head:
//   the block's queries are copied to shared memory; for each chunk of keys:
//     scores are computed, and unseen keys masked
//     a row whose greatest score grows has its sum and output rescaled
//     weights are added to the sum and, times the chunk's values, to the output
// If one query row of a head meets several heads of a key head, those heads are the rows. Backward
// is in flash_backward.c. Matrix instructions serve f16 and bf16 where the device has them
// (flash_mma.c, flash_mfma.c); otherwise multiply-adds (flash_simt.c). If keys are split
// (split_kv.c), a unit is one part of them, and its results are not divided yet.
// Order: chunks from the first key on. Shape and type decide the number of keys; a device with too
// little memory takes fewer. Which thread adds what of a row's sum does not depend on the block. A
// block's rows and threads change no bit.
// Source: Dao, FlashAttention-2 (2023).
#include "lowering/emit/gpu/flash_common.h"

#include <math.h>

// ---- forward ----

typedef struct forward {
  tc_flash *p;
  tc_flash_tile q, k, v;
  tc_flash_sums mix;
  // the block's first row and first key; stop: the key after the last that any of its rows sees, or
  // its part's end
  tc_val r0, from, stop;
  tc_val part;  // which part of the keys
  tc_val row[TC_FLASH_ROWS];  // the thread's rows in the head, clamped to the last row
  tc_val whole;  // keys that every row of the block sees
  // I32: how many keys the row sees, counted from the thread's first column
  tc_val edge[TC_FLASH_ROWS];
  tc_val greatest[TC_FLASH_ROWS], sum[TC_FLASH_ROWS];
} forward;

static size_t forward_tiles(tc_flash *p, void *of) {
  forward *f = of;
  size_t bytes = tc_flash_weights_bytes(p) +
                 tc_flash_tile_plan(p, &f->q, &p->at.q, p->at.e, p->tiling.rows, 1, true, false) +
                 tc_flash_tile_plan(p, &f->k, &p->at.k, p->at.e, p->chunk, 1, true, false);
  if (p->at.out == TC_NONE) return bytes;
  return bytes + tc_flash_tile_plan(p, &f->v, &p->at.v, p->at.ev, p->chunk, 1, false, true);
}

static bool sees_all(const tc_flash *p) {
  return !p->at.causal && !p->at.has_length && p->at.keys % p->chunk == 0;
}

static tc_val edge_of(const forward *f, tc_val k0, int i) {
  return sub(f->p->at.s, f->edge[i], cast(f->p->at.s, k0, TC_I32));
}

// Applies the mask to scores; unseen keys get -infinity.
static void mask_scores(forward *f, tc_val k0, tc_val *v) {
  tc_flash *p = f->p;
  tc_emit_ctx *s = p->at.s;
  for (int i = 0; i < p->tiling.held; i++) {
    tc_val edge = sees_all(p) ? TC_NONE : edge_of(f, k0, i);
    for (int c = 0; c < p->each; c++) {
      tc_val *w = &v[i * p->each + c], key = plus(s, add(s, k0, p->column), tc_flash_column(p, c));
      tc_val seen = sees_all(p) ? TC_NONE : bin(s, TC_IR_LT, const_i(s, TC_I32, tc_flash_column(p, c)), edge);
      *w = tc_flash_score(p, *w, f->row[i], key, &seen);
      if (seen != TC_NONE) *w = select_val(s, seen, *w, number(&p->at, -INFINITY));
    }
  }
}

// The same without a mask. Most chunks are seen whole by all rows of the block, so the test is
// skipped for them.
static void limit_scores(forward *f, tc_val k0, tc_val *v) {
  tc_flash *p = f->p;
  tc_emit_ctx *s = p->at.s;
  for (int k = 0; k < p->tiling.held * p->each; k++) v[k] = tc_flash_score(p, v[k], TC_NONE, TC_NONE, NULL);
  if (sees_all(p)) return;
  for (int k = 0; k < p->tiling.held * p->each; k++) v[k] = var(s, v[k]);
  begin_if(s, bin(s, TC_IR_LT, f->whole, plus(s, k0, p->chunk)));
  for (int i = 0; i < p->tiling.held; i++) {
    tc_val edge = edge_of(f, k0, i);
    for (int c = 0; c < p->each; c++) {
      tc_val w = v[i * p->each + c];
      set(s, w,
          select_val(s, bin(s, TC_IR_LT, const_i(s, TC_I32, tc_flash_column(p, c)), edge), w,
                     number(&p->at, -INFINITY)));
    }
  }
  end_if(s);
}

// Turns scores into weights. shrink: the factors that rescale the output so far.
static void softmax_of_chunk(forward *f, tc_val k0, tc_val *v, tc_val *shrink) {
  tc_flash *p = f->p;
  tc_attention_emitter *a = &p->at;
  tc_emit_ctx *s = a->s;
  tc_val unseen = number(a, -INFINITY);
  if (a->has_mask)
    mask_scores(f, k0, v);
  else
    limit_scores(f, k0, v);
  for (int i = 0; i < p->tiling.held; i++) {
    tc_val *w = v + i * p->each, top = w[0];
    for (int c = 1; c < p->each; c++) top = select_val(s, bin(s, TC_IR_GT, w[c], top), w[c], top);
    top = most(s, f->greatest[i], tc_flash_fold(p, TC_IR_MAX, top));
    tc_val less = select_val(s, bin(s, TC_IR_EQ, top, unseen), number(a, 0), top);
    shrink[i] = tc_attention_power(a, sub(s, f->greatest[i], less));
    for (int c = 0; c < p->each; c++) w[c] = tc_attention_power(a, sub(s, w[c], less));
    // the chunk's sum is added to the total at the end; one long chain would lose digits
    tc_val sum = w[0];
    for (int c = 1; c < p->each; c++) sum = add(s, sum, w[c]);
    set(s, f->greatest[i], top);
    set(s, f->sum[i], add(s, mul(s, f->sum[i], shrink[i]), sum));
  }
}

// Keys are loaded while the previous chunk's values are multiplied; values are loaded while scores
// are computed.
static void forward_chunks(forward *f) {
  tc_flash *p = f->p;
  tc_emit_ctx *s = p->at.s;
  tc_val v[TC_FLASH_VALUES], shrink[TC_FLASH_ROWS], zero = i64(s, 0);
  bool mixes = p->at.out != TC_NONE, copies = f->q.copied || f->k.copied || (mixes && f->v.copied);
  tc_flash_fill(p, &f->q, f->r0, i64(s, p->at.f), zero);
  tc_flash_fill(p, &f->k, f->from, f->stop, zero);
  tc_flash_commit(p, copies);
  tc_flash_land(p, &f->q), tc_flash_land(p, &f->k);
  tc_val k0 = loop(s, f->from, f->stop, p->chunk), next = plus(s, k0, p->chunk);
  tc_flash_wait(p, copies);
  if (mixes) tc_flash_fill(p, &f->v, k0, f->stop, zero);
  tc_flash_commit(p, copies && mixes);
  p->way->matmul(p, &f->q, &f->k, zero, v);
  softmax_of_chunk(f, k0, v, shrink);
  tc_flash_wait(p, copies && mixes);
  if (mixes) tc_flash_land(p, &f->v);
  tc_flash_fill_some(p, &f->k, next, f->stop, zero);
  tc_flash_commit(p, copies);
  if (mixes) {
    tc_flash_scale(p, &f->mix, shrink);
    p->way->add(p, &f->mix, v, &f->v, zero);
    tc_flash_end_chain(p, &f->mix, f->from, k0);
  }
  tc_flash_land(p, &f->k);
  end(s);
  tc_flash_wait(p, copies);
}

// Offset of the current part of the keys in a result with `columns` columns. at: the offset without
// parts.
static tc_val part_offset(const forward *f, tc_val at, int64_t columns) {
  tc_attention_emitter *a = &f->p->at;
  return a->parts ? add(a->s, at, times(a->s, f->part, a->a * a->f * columns)) : at;
}

// Stores each row's greatest score and the logarithm of its sum of exponentials. Both are 0 if the
// row sees nothing, so that its weights are exp(-inf - 0).
// With parts: the greatest score and the sum itself.
static void store_chunk_lse(forward *f, tc_val head, const tc_val *sum, const tc_val *none, const tc_val *there) {
  tc_flash *p = f->p;
  tc_attention_emitter *a = &p->at;
  tc_emit_ctx *s = a->s;
  int buf = tc_attention_result(a, a->lse);
  tc_val first = bin(s, TC_IR_EQ, p->column, i64(s, 0));
  for (int i = 0; i < p->tiling.held; i++) {
    tc_val log = tc_build_scalar_op(&s->e, TC_OP_LOG, a->acc, select_val(s, none[i], number(a, 1), sum[i]), 0, 0);
    tc_val greatest = mul(s, f->greatest[i], number(a, 1 / tc_attention_units(a)));
    tc_val pair[2] = {select_val(s, none[i], number(a, 0), greatest), log};
    if (a->parts) pair[0] = greatest, pair[1] = sum[i];
    tc_val to = part_offset(f, times(s, add(s, times(s, head, a->f), f->row[i]), 2), 2);
    scatter(s, buf, to, tc_gemm_join(s, pair, 2), bin(s, TC_IR_AND, first, there[i]));
  }
}

static void finish_forward(forward *f, tc_val head) {
  tc_flash *p = f->p;
  tc_attention_emitter *a = &p->at;
  tc_emit_ctx *s = a->s;
  tc_val sum[TC_FLASH_ROWS], none[TC_FLASH_ROWS], inverse[TC_FLASH_ROWS], there[TC_FLASH_ROWS], at[TC_FLASH_ROWS];
  tc_val n_rows = sub(s, i64(s, a->f), f->r0);
  for (int i = 0; i < p->tiling.held; i++) {
    sum[i] = tc_flash_fold(p, TC_IR_ADD, f->sum[i]);
    none[i] = bin(s, TC_IR_EQ, sum[i], number(a, 0));
    inverse[i] =
        a->parts ? number(a, 1) : bin(s, TC_IR_DIV, number(a, 1), select_val(s, none[i], number(a, 1), sum[i]));
    there[i] = bin(s, TC_IR_LT, p->row[i], n_rows);
    if (a->out != TC_NONE)
      at[i] = part_offset(f, tc_attention_result_row(a, a->out, head, f->row[i], a->hq, a->l, a->ev), a->ev);
  }
  if (a->out != TC_NONE) tc_flash_store(p, &f->mix, a->out, at, there, inverse);
  if (a->lse != TC_NONE) store_chunk_lse(f, head, sum, none, there);
}

static void forward_block(forward *f, tc_val unit) {
  tc_flash *p = f->p;
  tc_attention_emitter *a = &p->at;
  tc_emit_ctx *s = a->s;
  tc_val head, last = i64(s, a->f - 1);
  f->part = a->parts ? rem_by(s, unit, a->parts) : i64(s, 0);
  if (a->parts) unit = div_by(s, unit, a->parts);
  f->r0 = tc_flash_unit(p, unit, a->f, a->causal, &head);
  s->at[TC_RANGE_A] = head;
  a->q.at = tc_emit_base(s, &a->q.base), a->k.at = tc_emit_base(s, &a->k.base);
  if (a->out != TC_NONE) a->v.at = tc_emit_base(s, &a->v.base);
  if (a->has_mask) a->mask.at = tc_emit_base(s, &a->mask.base);
  f->whole = tc_attention_limit(a, f->r0);
  f->stop = tc_attention_limit(a, least(s, plus(s, f->r0, p->tiling.rows - 1), last));
  f->from = times(s, f->part, a->part_keys);
  if (a->parts) f->stop = least(s, f->stop, plus(s, f->from, a->part_keys));
  for (int i = 0; i < p->tiling.held; i++) {
    f->row[i] = least(s, add(s, f->r0, p->row[i]), last);
    f->edge[i] = cast(s, sub(s, tc_attention_limit(a, f->row[i]), p->column), TC_I32);
    f->greatest[i] = var(s, splat(s, number(a, -INFINITY), p->threads));
    f->sum[i] = var(s, splat(s, number(a, 0), p->threads));
  }
  if (a->out != TC_NONE) tc_flash_begin(p, &f->mix, a->ev);
  forward_chunks(f);
  finish_forward(f, head);
}

static void flash_forward(tc_flash *p) {
  forward f = {.p = p};
  tc_emit_ctx *s = p->at.s;
  int64_t heads = p->at.a * TC_MAX_OF(p->at.parts, 1);
  p->others = p->terms = p->at.part_keys;
  if (!tc_flash_choose(p, &(tc_flash_work){forward_tiles, &f, heads, p->at.f, 1, p->at.out != TC_NONE ? p->at.ev : 0}))
    return;
  tc_flash_tile_make(p, &f.q), tc_flash_tile_make(p, &f.k);
  if (p->at.out != TC_NONE) tc_flash_tile_make(p, &f.v);
  forward_block(&f, tc_flash_begin_kernel(p, heads * tc_ceil_div(p->at.f, p->tiling.rows)));
  end(s);
}

// Chosen by the operands' type and the device alone.
static const tc_flash_way *flash_way_of(const tc_flash *p) {
  bool halves = (p->at.q.type == TC_F16 || p->at.q.type == TC_BF16) && p->at.acc == TC_F32;
  if (!halves) return &tc_flash_simt;
  return p->at.s->target->mma ? &tc_flash_mma : p->at.s->target->mfma ? &tc_flash_mfma : &tc_flash_simt;
}

void tc_emitter_gpu_attention(tc_emit_ctx *s) {
  tc_flash whole = {.at = {.s = s}, .asked = s->tiling}, *p = &whole;
  s->lanes = 1, s->vector = -1;
  if (!tc_attention_take(&p->at)) return;
  p->way = flash_way_of(p);
  if (p->at.backward)
    tc_flash_backward(p);
  else
    flash_forward(p);
  double pairs =
      (double)(p->at.n * p->at.hq * p->at.l) * (double)p->at.keys * (p->at.causal && !p->at.has_length ? 0.5 : 1);
  s->x->work = pairs * (double)(p->at.e + p->at.ev) * (p->at.backward ? 5 : 2) / 1e4 + 1000;
}
