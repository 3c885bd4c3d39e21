// Attention backward on a GPU. Weights are recomputed from each row's greatest score and the log of
// its sum.
//   p = exp(s - max - log sum)   ds = p (dout v^T - delta)
//   dq = ds k   dk = ds^T q   dv = p^T dout
//
// dq: a unit is a block of query rows of one head. Keys and values come in chunks, as forward. dk,
// dv: a unit is a block of keys of one key head. Rows of the query heads that read it come in
// chunks, head by head. Forward's rows are columns here, so sums stay with their threads. No two
// blocks add to one element.
// Order: chunks in order from the first. Shape and type decide their rows; long sums are chains
// (summation.h). A block's rows and threads change no bit.
#include "lowering/emit/gpu/flash_common.h"

// Chunks of two operands. The next one of each is loaded while the current one is used. It goes to
// a second stage if the device has memory and copies for it, else to registers.
typedef struct chunks {
  tc_flash_tile a, b;
  int stages;
} chunks;

static void fill_chunks(tc_flash *p, chunks *x, tc_val first, tc_val limit, tc_val stage) {
  tc_emit_ctx *s = p->at.s;
  tc_flash_fill(p, &x->a, first, limit, times(s, stage, x->a.stage));
  tc_flash_fill(p, &x->b, first, limit, times(s, stage, x->b.stage));
}

// Loads to registers: the first rows before the loop, the next chunk's while the current one is
// used.
static void hold(tc_flash *p, chunks *x, tc_val first, tc_val limit) {
  if (x->a.held) tc_flash_fill(p, &x->a, first, limit, i64(p->at.s, 0));
  if (x->b.held) tc_flash_fill(p, &x->b, first, limit, i64(p->at.s, 0));
}

static void land(tc_flash *p, chunks *x) {
  tc_flash_land(p, &x->a), tc_flash_land(p, &x->b);
}

// Two stages: one is filled while the other is used. first to limit - 1: rows of all chunks.
// *stage: the current one's.
static tc_val next_stage(tc_flash *p, chunks *x, tc_val first, tc_val limit, tc_val *stage) {
  tc_emit_ctx *s = p->at.s;
  tc_val zero = i64(s, 0), one = i64(s, 1);
  bool copies = x->a.copied || x->b.copied;
  begin_if(s, bin(s, TC_IR_LT, first, limit));
  fill_chunks(p, x, first, limit, zero);
  end_if(s);
  tc_flash_commit(p, copies);
  tc_val row = loop(s, first, limit, p->chunk), next = plus(s, row, p->chunk);
  tc_flash_wait(p, copies);
  *stage = tc_gemm_low(s, tc_gemm_high(s, sub(s, row, first), p->chunk), 2);
  begin_if(s, bin(s, TC_IR_LT, next, limit));
  fill_chunks(p, x, next, limit, sub(s, one, *stage));
  end_if(s);
  tc_flash_commit(p, copies);
  return row;
}

// Begins a loop over chunks of rows first to limit - 1, up to end_chunk. *stage: the current
// chunk's.
static tc_val next_chunk(tc_flash *p, chunks *x, tc_val first, tc_val limit, tc_val *stage) {
  tc_emit_ctx *s = p->at.s;
  bool copies = x->a.copied || x->b.copied;
  if (x->stages == 2) return next_stage(p, x, first, limit, stage);
  *stage = i64(s, 0);
  hold(p, x, first, limit), land(p, x);
  tc_val row = loop(s, first, limit, p->chunk);
  if (!x->a.held) tc_flash_fill(p, &x->a, row, limit, *stage);
  if (!x->b.held) tc_flash_fill(p, &x->b, row, limit, *stage);
  tc_flash_commit(p, copies);
  tc_flash_wait(p, copies);
  hold(p, x, plus(s, row, p->chunk), limit);
  return row;
}

static void end_chunk(tc_flash *p, chunks *x) {
  land(p, x);
  end(p->at.s);
}

// A query row's saved values, for each thread.
typedef struct kept {
  tc_val greatest, log, delta;
} kept;

static tc_val load_saved(tc_flash *p, const tc_attention_operand *f, tc_val row, int64_t column, tc_val there,
                         bool scores) {
  tc_emit_ctx *s = p->at.s;
  tc_val at = plus(s, add(s, f->at, times(s, row, f->stride)), column);
  tc_val v = gather(s, f->buf, f->type, p->threads, splat(s, at, p->threads), there);
  return scores ? mul(s, v, number(&p->at, tc_attention_units(&p->at))) : v;
}

static kept kept_of(tc_flash *p, tc_val row, tc_val there, bool slopes) {
  tc_attention_emitter *a = &p->at;
  return (kept){load_saved(p, &a->sums, row, 0, there, true), load_saved(p, &a->sums, row, a->sums.col, there, true),
                slopes ? load_saved(p, &a->delta, row, 0, there, false) : TC_NONE};
}

// Turns a score into a weight, and dout v^T into a slope (ds); both are zero where nothing is seen.
static void slope(tc_flash *p, const kept *of, tc_val seen, tc_val *weight, tc_val *slope) {
  tc_attention_emitter *a = &p->at;
  tc_emit_ctx *s = a->s;
  tc_val zero = number(a, 0), w = tc_attention_power(a, sub(s, sub(s, *weight, of->greatest), of->log));
  *weight = seen == TC_NONE ? w : select_val(s, seen, w, zero);
  if (!slope) return;
  tc_val v = mul(s, *weight, sub(s, *slope, of->delta));
  *slope = seen == TC_NONE ? v : select_val(s, seen, v, zero);
}

static void take_head(tc_flash *p, tc_val head) {
  tc_attention_emitter *a = &p->at;
  a->s->at[TC_RANGE_A] = head;
  a->q.at = tc_emit_base(a->s, &a->q.base), a->dout.at = tc_emit_base(a->s, &a->dout.base),
  a->sums.at = tc_emit_base(a->s, &a->sums.base);
  a->delta.at = tc_emit_base(a->s, &a->delta.base);
  if (a->has_mask) a->mask.at = tc_emit_base(a->s, &a->mask.base);
}

static void take_key_head(tc_flash *p) {
  p->at.k.at = tc_emit_base(p->at.s, &p->at.k.base), p->at.v.at = tc_emit_base(p->at.s, &p->at.v.base);
}

// ---- dq ----

typedef struct queries {
  tc_flash *p;
  tc_flash_tile q, dout;
  chunks keys;
  tc_flash_sums dq;
  kept of[TC_FLASH_ROWS];
  tc_val row[TC_FLASH_ROWS], edge[TC_FLASH_ROWS];  // as forward
} queries;

static size_t queries_tiles(tc_flash *p, void *of) {
  queries *f = of;
  size_t own = tc_flash_weights_bytes(p) +
               tc_flash_tile_plan(p, &f->q, &p->at.q, p->at.e, p->tiling.rows, 1, true, false) +
               tc_flash_tile_plan(p, &f->dout, &p->at.dout, p->at.ev, p->tiling.rows, 1, true, false);
  for (f->keys.stages = p->way->copies ? 2 : 1;; f->keys.stages--) {
    size_t bytes = own + tc_flash_tile_plan(p, &f->keys.a, &p->at.k, p->at.e, p->chunk, f->keys.stages, true, true) +
                   tc_flash_tile_plan(p, &f->keys.b, &p->at.v, p->at.ev, p->chunk, f->keys.stages, true, false);
    if (bytes <= p->at.s->target->shared_bytes || f->keys.stages == 1) return bytes;
  }
}

static void queries_chunk(queries *f, tc_val k0, tc_val stage) {
  tc_flash *p = f->p;
  tc_attention_emitter *a = &p->at;
  tc_emit_ctx *s = a->s;
  tc_val v[TC_FLASH_VALUES], g[TC_FLASH_VALUES];
  bool all = !a->causal && !a->has_length && a->keys % p->chunk == 0;
  p->way->matmul(p, &f->q, &f->keys.a, times(s, stage, f->keys.a.stage), v);
  p->way->matmul(p, &f->dout, &f->keys.b, times(s, stage, f->keys.b.stage), g);
  for (int i = 0; i < p->tiling.held; i++) {
    tc_val edge = all ? TC_NONE : sub(s, f->edge[i], cast(s, k0, TC_I32));
    for (int c = 0; c < p->each; c++) {
      tc_val seen = all ? TC_NONE : bin(s, TC_IR_LT, const_i(s, TC_I32, tc_flash_column(p, c)), edge),
             *w = &v[i * p->each + c];
      tc_val key = a->has_mask ? plus(s, add(s, k0, p->column), tc_flash_column(p, c)) : TC_NONE;
      *w = tc_flash_score(p, *w, f->row[i], key, &seen);
      slope(p, &f->of[i], seen, w, &g[i * p->each + c]);
    }
  }
  p->way->add(p, &f->dq, g, &f->keys.a, times(s, stage, f->keys.a.stage));
}

static void queries_unit(queries *f, tc_val unit) {
  tc_flash *p = f->p;
  tc_attention_emitter *a = &p->at;
  tc_emit_ctx *s = a->s;
  tc_val head, stage, last = i64(s, a->f - 1), r0 = tc_flash_unit(p, unit, a->f, a->causal, &head), by[TC_FLASH_ROWS];
  tc_val there[TC_FLASH_ROWS], at[TC_FLASH_ROWS], n_rows = sub(s, i64(s, a->f), r0);
  take_head(p, head);
  take_key_head(p);
  for (int i = 0; i < p->tiling.held; i++) {
    f->row[i] = least(s, add(s, r0, p->row[i]), last);
    f->edge[i] = cast(s, sub(s, tc_attention_limit(a, f->row[i]), p->column), TC_I32);
    there[i] = bin(s, TC_IR_LT, p->row[i], n_rows);
    f->of[i] = kept_of(p, f->row[i], TC_NONE, true);
    at[i] = tc_attention_result_row(a, a->dq, head, f->row[i], a->hq, a->l, a->e), by[i] = a->scale;
  }
  tc_flash_begin(p, &f->dq, a->e);
  tc_flash_fill(p, &f->q, r0, i64(s, a->f), i64(s, 0));
  tc_flash_fill(p, &f->dout, r0, i64(s, a->f), i64(s, 0));
  tc_flash_commit(p, f->q.copied || f->dout.copied);
  tc_flash_wait(p, f->q.copied || f->dout.copied);
  tc_flash_land(p, &f->q), tc_flash_land(p, &f->dout);
  tc_val stop = tc_attention_limit(a, least(s, plus(s, r0, p->tiling.rows - 1), last)),
         k0 = next_chunk(p, &f->keys, i64(s, 0), stop, &stage);
  queries_chunk(f, k0, stage);
  tc_flash_end_chain(p, &f->dq, i64(s, 0), k0);
  end_chunk(p, &f->keys);
  tc_flash_store(p, &f->dq, a->dq, at, there, by);
}

static void queries_kernel(tc_flash *p) {
  queries f = {.p = p};
  p->others = p->terms = p->at.keys;
  if (!tc_flash_choose(p, &(tc_flash_work){queries_tiles, &f, p->at.a, p->at.f, 2, p->at.e})) return;
  tc_flash_tile_make(p, &f.q), tc_flash_tile_make(p, &f.dout);
  tc_flash_tile_make(p, &f.keys.a), tc_flash_tile_make(p, &f.keys.b);
  queries_unit(&f, tc_flash_begin_kernel(p, p->at.a * tc_ceil_div(p->at.f, p->tiling.rows)));
  end(p->at.s);
}

// ---- dk, dv ----

typedef struct keys {
  tc_flash *p;
  tc_flash_tile k, v;
  chunks rows;
  tc_flash_sums dk, dv;
  tc_val first;  // the first row of any head that sees one of the block's keys; chunks begin there
  tc_val key[TC_FLASH_ROWS], there[TC_FLASH_ROWS];
  // I32: the first row that sees the key, counted from the thread's first column
  tc_val edge[TC_FLASH_ROWS];
} keys;

static size_t keys_tiles(tc_flash *p, void *of) {
  keys *f = of;
  bool slopes = p->at.dk != TC_NONE, weights = p->at.dv != TC_NONE;
  size_t own =
      tc_flash_weights_bytes(p) + tc_flash_tile_plan(p, &f->k, &p->at.k, p->at.e, p->tiling.rows, 1, true, false);
  size_t values = tc_flash_tile_plan(p, &f->v, &p->at.v, p->at.ev, p->tiling.rows, 1, true, false);
  if (slopes) own += values;
  for (f->rows.stages = p->way->copies ? 2 : 1;; f->rows.stages--) {
    size_t bytes = own + tc_flash_tile_plan(p, &f->rows.a, &p->at.q, p->at.e, p->chunk, f->rows.stages, true, slopes) +
                   tc_flash_tile_plan(p, &f->rows.b, &p->at.dout, p->at.ev, p->chunk, f->rows.stages, slopes, weights);
    if (bytes <= p->at.s->target->shared_bytes || f->rows.stages == 1) return bytes;
  }
}

// The chunk's columns are query rows from r0 on: their saved values, whether they exist, and their
// numbers for the mask.
typedef struct query_rows {
  kept of[TC_FLASH_VALUES];
  tc_val there[TC_FLASH_VALUES], row[TC_FLASH_VALUES];
} query_rows;

static void find_rows(keys *f, tc_val r0, query_rows *x) {
  tc_flash *p = f->p;
  tc_attention_emitter *a = &p->at;
  tc_emit_ctx *s = a->s;
  bool all = a->l % p->chunk == 0;
  tc_val n_rows = all ? TC_NONE : cast(s, sub(s, sub(s, i64(s, a->l), r0), p->column), TC_I32);
  for (int c = 0; c < p->each; c++) {
    x->row[c] = plus(s, add(s, r0, p->column), tc_flash_column(p, c));
    x->there[c] = all ? TC_NONE : bin(s, TC_IR_LT, const_i(s, TC_I32, tc_flash_column(p, c)), n_rows);
    x->of[c] = kept_of(p, x->row[c], x->there[c], a->dk != TC_NONE);
  }
}

static void keys_chunk(keys *f, tc_val r0, tc_val stage) {
  tc_flash *p = f->p;
  tc_attention_emitter *a = &p->at;
  tc_emit_ctx *s = a->s;
  tc_val v[TC_FLASH_VALUES], g[TC_FLASH_VALUES], from_q = times(s, stage, f->rows.a.stage),
                                                 from_dout = times(s, stage, f->rows.b.stage);
  query_rows x;
  find_rows(f, r0, &x);
  p->way->matmul(p, &f->k, &f->rows.a, from_q, v);
  if (a->dk != TC_NONE) p->way->matmul(p, &f->v, &f->rows.b, from_dout, g);
  for (int i = 0; i < p->tiling.held; i++) {
    tc_val edge = a->causal ? sub(s, f->edge[i], cast(s, r0, TC_I32)) : TC_NONE;
    for (int c = 0; c < p->each; c++) {
      tc_val seen = x.there[c], *w = &v[i * p->each + c];
      if (a->causal) seen = tc_emit_both(s, seen, bin(s, TC_IR_GE, const_i(s, TC_I32, tc_flash_column(p, c)), edge));
      if (a->has_length || a->keys % p->tiling.rows) seen = tc_emit_both(s, seen, f->there[i]);
      *w = tc_flash_score(p, *w, x.row[c], f->key[i], &seen);
      slope(p, &x.of[c], seen, w, a->dk != TC_NONE ? &g[i * p->each + c] : NULL);
    }
  }
  if (a->dv != TC_NONE) p->way->add(p, &f->dv, v, &f->rows.b, from_dout);
  if (a->dk != TC_NONE) p->way->add(p, &f->dk, g, &f->rows.a, from_q);
}

static void store_keys(keys *f, const tc_flash_sums *x, uint32_t node, tc_val head, tc_val k0, tc_val by) {
  tc_flash *p = f->p;
  tc_attention_emitter *a = &p->at;
  tc_emit_ctx *s = a->s;
  tc_val at[TC_FLASH_ROWS], there[TC_FLASH_ROWS], all[TC_FLASH_ROWS], n_rows = sub(s, i64(s, a->keys), k0);
  for (int i = 0; i < p->tiling.held; i++) {
    at[i] = tc_attention_result_row(a, node, head, add(s, k0, p->row[i]), a->hkv, a->keys, x->columns);
    there[i] = bin(s, TC_IR_LT, p->row[i], n_rows), all[i] = by;
  }
  tc_flash_store(p, x, node, at, there, all);
}

static void keys_unit(keys *f, tc_val unit) {
  tc_flash *p = f->p;
  tc_attention_emitter *a = &p->at;
  tc_emit_ctx *s = a->s;
  tc_val key_head, stage, zero = i64(s, 0), k0 = tc_flash_unit(p, unit, a->keys, false, &key_head);
  bool copies = f->k.copied || (a->dk != TC_NONE && f->v.copied);
  s->at[TC_RANGE_A] = times(s, key_head, a->group);
  take_key_head(p);
  for (int i = 0; i < p->tiling.held; i++) {
    tc_val key = add(s, k0, p->row[i]);
    f->key[i] = least(s, key, i64(s, a->keys - 1));
    f->there[i] = bin(s, TC_IR_LT, key, a->n_keys);
    f->edge[i] = cast(s, sub(s, sub(s, key, a->first_seen), p->column), TC_I32);
  }
  f->first = zero;
  if (a->causal) f->first = times(s, tc_gemm_high(s, most(s, zero, sub(s, k0, a->first_seen)), p->chunk), p->chunk);
  if (a->dk != TC_NONE) tc_flash_begin(p, &f->dk, a->e);
  if (a->dv != TC_NONE) tc_flash_begin(p, &f->dv, a->ev);
  tc_flash_fill(p, &f->k, k0, a->n_keys, zero);
  if (a->dk != TC_NONE) tc_flash_fill(p, &f->v, k0, a->n_keys, zero);
  tc_flash_commit(p, copies);
  tc_flash_wait(p, copies);
  tc_flash_land(p, &f->k);
  if (a->dk != TC_NONE) tc_flash_land(p, &f->v);
  tc_val of_group = loop(s, zero, i64(s, a->group), 1);
  take_head(p, add(s, times(s, key_head, a->group), of_group));
  tc_val r0 = next_chunk(p, &f->rows, f->first, i64(s, a->l), &stage);
  keys_chunk(f, r0, stage);
  if (a->dk != TC_NONE) tc_flash_end_chain(p, &f->dk, f->first, r0);
  if (a->dv != TC_NONE) tc_flash_end_chain(p, &f->dv, f->first, r0);
  end_chunk(p, &f->rows);
  end(s);
  if (a->dk != TC_NONE) store_keys(f, &f->dk, a->dk, key_head, k0, a->scale);
  if (a->dv != TC_NONE) store_keys(f, &f->dv, a->dv, key_head, k0, number(a, 1));
}

static void keys_kernel(tc_flash *p) {
  keys f = {.p = p};
  tc_attention_emitter *a = &p->at;
  int64_t columns = (a->dk != TC_NONE ? a->e : 0) + (a->dv != TC_NONE ? a->ev : 0), heads = a->n * a->hkv;
  p->others = a->l, p->terms = a->l * a->group;
  if (!tc_flash_choose(p, &(tc_flash_work){keys_tiles, &f, heads, a->keys, 1 + (a->dk != TC_NONE), columns})) return;
  tc_flash_tile_make(p, &f.k);
  if (a->dk != TC_NONE) tc_flash_tile_make(p, &f.v);
  tc_flash_tile_make(p, &f.rows.a), tc_flash_tile_make(p, &f.rows.b);
  keys_unit(&f, tc_flash_begin_kernel(p, heads * tc_ceil_div(a->keys, p->tiling.rows)));
  end(a->s);
}

void tc_flash_backward(tc_flash *p) {
  (p->at.dq != TC_NONE ? queries_kernel : keys_kernel)(p);
}
