// Stages operands of attention in shared memory, and stores sums.
//
// Threads move 16 bytes each at a time. Operands that need no cast are copied asynchronously where
// their layout allows it. Others move adjacent elements through registers. On a device without
// copies, these are held there meanwhile if they need no cast and few registers. Rows beyond the
// last and columns beyond a head's are zeros, so matmuls and sums need no masks.
#include "lowering/emit/gpu/flash_common.h"

#define MOST_EACH 4  // accumulators that are one value

static int64_t up(int64_t n, int64_t of) {
  return tc_ceil_div(n, of) * of;
}

// Adjacent columns of a row that a thread sums: many, unless more than a quarter of the added
// columns would be padding.
static int sums_run(const tc_flash *p, int64_t columns) {
  const tc_flash_way *w = p->way;
  int run = w->sums_bytes / (int)tc_type_bytes(p->at.acc);
  int64_t least = tc_ceil_div(columns, w->across);
  while (run > w->each / w->of_rows && 4 * tc_ceil_div(columns, w->across * run) * run > 5 * least) run /= 2;
  return run;
}

size_t tc_flash_tile_plan(tc_flash *p, tc_flash_tile *x, const tc_attention_operand *of, int64_t columns, int rows,
                          int stages, bool by_rows, bool by_columns) {
  tc_type type = p->way->matrix ? of->type : p->at.acc;
  int wide = TC_GEMM_COPIED / (int)tc_type_bytes(type), sums = p->way->across * sums_run(p, columns);
  *x = (tc_flash_tile){.of = of, .columns = columns, .rows = rows, .stages = stages, .type = type};
  x->width = TC_MAX_OF(by_rows ? up(columns, p->way->matrix ? 16 : wide) : 0, by_columns ? up(columns, sums) : 0);
  x->width = up(x->width, wide);
  x->pitch = (x->width / wide | 1) * wide;
  x->run = TC_MIN(of->run, wide);
  int64_t pieces = tc_ceil_div(rows * (x->width / x->run), p->threads);
  x->copied = p->way->copies && of->type == type && x->run == wide;
  x->held = !p->way->copies && of->type == type && pieces <= TC_FLASH_PIECES;
  // also for threads that have nothing to copy
  x->stage = tc_ceil_div(pieces * p->threads, x->width / x->run) * x->pitch;
  return ((size_t)(stages * x->stage) * tc_type_bytes(type) + 63) / 64 * 64;
}

void tc_flash_tile_make(tc_flash *p, tc_flash_tile *x) {
  x->tile = tc_emit_tile(p->at.s, x->type, x->stages * x->stage);
}

// Position of piece `number` of a tile; each thread moves `run` adjacent elements.
typedef struct piece {
  tc_val row, column;
} piece;

static piece piece_of(tc_flash *p, const tc_flash_tile *x, int64_t before) {
  tc_emit_ctx *s = p->at.s;
  int64_t runs = x->width / x->run;
  if ((runs & (runs - 1)) == 0 && runs <= p->threads)
    return (piece){plus(s, tc_gemm_high(s, p->thread, runs), before / runs),
                   times(s, tc_gemm_low(s, p->thread, runs), x->run)};
  tc_val number = plus(s, p->thread, before);
  return (piece){div_by(s, number, runs), times(s, rem_by(s, number, runs), x->run)};
}

static tc_val source_of(tc_flash *p, const tc_flash_tile *x, tc_val first, const piece *at) {
  tc_emit_ctx *s = p->at.s;
  return add(s, add(s, x->of->at, times(s, first, x->of->stride)),
             add(s, times(s, at->row, x->of->stride), at->column));
}

static tc_val is_there(tc_flash *p, const tc_flash_tile *x, tc_val n_rows, const piece *at) {
  tc_emit_ctx *s = p->at.s;
  tc_val here = bin(s, TC_IR_LT, at->row, n_rows);
  return x->width > x->columns ? bin(s, TC_IR_AND, here, bin(s, TC_IR_LT, at->column, i64(s, x->columns))) : here;
}

// Begins to move all pieces: by copies, or by loads one after the other, so that threads wait for
// memory once.
static void begin_pieces(tc_flash *p, tc_flash_tile *x, tc_val first, tc_val n_rows, tc_val from) {
  tc_emit_ctx *s = p->at.s;
  int64_t pieces = x->rows * (x->width / x->run);
  x->n_pieces = 0;
  for (int64_t before = 0; before < pieces; before += p->threads) {
    piece at = piece_of(p, x, before);
    tc_val to = add(s, from, add(s, times(s, at.row, x->pitch), at.column));
    tc_val there = is_there(p, x, n_rows, &at), source = source_of(p, x, first, &at);
    if (x->copied) {
      tc_val done = tc_build_raw(&s->e, TC_IR_COPY, x->type, p->threads, source, to, there, x->of->buf);
      (void)set_flags(s, done, (uint32_t)(x->tile - TC_MAX_BUFS));
    } else {
      x->to[x->n_pieces] = to;
      x->piece[x->n_pieces++] = gather(s, x->of->buf, x->type, p->threads * x->run, source, there);
    }
  }
}

void tc_flash_land(tc_flash *p, tc_flash_tile *x) {
  tc_emit_ctx *s = p->at.s;
  for (int i = 0; i < x->n_pieces; i++) scatter(s, x->tile, x->to[i], x->piece[i], TC_NONE);
  x->n_pieces = 0;
}

static void bring(tc_flash *p, tc_flash_tile *x, tc_val first, tc_val n_rows, tc_val from) {
  tc_emit_ctx *s = p->at.s;
  int64_t runs = x->width / x->run, pieces = x->rows * runs;
  tc_val before = loop_to(s, i64(s, pieces), p->threads), number = add(s, p->thread, before);
  piece at = {div_by(s, number, runs), times(s, rem_by(s, number, runs), x->run)};
  tc_val v =
      gather(s, x->of->buf, x->of->type, p->threads * x->run, source_of(p, x, first, &at), is_there(p, x, n_rows, &at));
  tc_val to = add(s, from, add(s, times(s, at.row, x->pitch), at.column));
  tc_val some = pieces % p->threads ? bin(s, TC_IR_LT, number, i64(s, pieces)) : TC_NONE;
  scatter(s, x->tile, to, cast(s, v, x->type), some);
  end(s);
}

void tc_flash_fill(tc_flash *p, tc_flash_tile *x, tc_val first, tc_val limit, tc_val from) {
  (x->copied || x->held ? begin_pieces : bring)(p, x, first, sub(p->at.s, limit, first), from);
}

void tc_flash_fill_some(tc_flash *p, tc_flash_tile *x, tc_val first, tc_val limit, tc_val from) {
  if (x->held) {  // what is not there is not read
    tc_flash_fill(p, x, first, limit, from);
    return;
  }
  begin_if(p->at.s, bin(p->at.s, TC_IR_LT, first, limit));
  tc_flash_fill(p, x, first, limit, from);
  end_if(p->at.s);
}

void tc_flash_commit(tc_flash *p, bool copies) {
  if (copies) (void)nullary(p->at.s, TC_IR_COMMIT);
}

void tc_flash_wait(tc_flash *p, bool copies) {
  if (copies) (void)nullary(p->at.s, TC_IR_WAIT);
}

// ---- sums ----

// Accumulators of a value that belong to one row.
static int of_row(const tc_flash_way *w) {
  return w->each / w->of_rows;
}

void tc_flash_begin(tc_flash *p, tc_flash_sums *x, int64_t columns) {
  tc_emit_ctx *s = p->at.s;
  const tc_flash_way *w = p->way;
  *x = (tc_flash_sums){.columns = columns, .run = sums_run(p, columns)};
  x->n = p->tiling.held / w->of_rows * (int)tc_ceil_div(columns, w->across * x->run) * x->run / of_row(w);
  tc_val zero = splat(s, number(&p->at, 0), w->each * p->threads);
  for (int i = 0; i < x->n; i++) x->var[i] = var(s, zero);
  for (int i = 0; i < x->n && p->chains; i++) x->total[i] = var(s, zero);
}

static void add_to_totals(tc_flash *p, const tc_flash_sums *x) {
  tc_emit_ctx *s = p->at.s;
  for (int i = 0; i < x->n; i++) {
    set(s, x->total[i], add(s, x->total[i], x->var[i]));
    set(s, x->var[i], number(&p->at, 0));
  }
}

void tc_flash_end_chain(tc_flash *p, const tc_flash_sums *x, tc_val first, tc_val row) {
  tc_emit_ctx *s = p->at.s;
  if (!p->chains) return;
  tc_val done = plus(s, sub(s, row, first), p->chunk);
  begin_if(s, bin(s, TC_IR_EQ, tc_gemm_low(s, done, TC_CHAIN), i64(s, 0)));
  add_to_totals(p, x);
  end_if(s);
}

void tc_flash_scale(tc_flash *p, const tc_flash_sums *x, const tc_val *by) {
  tc_emit_ctx *s = p->at.s;
  const tc_flash_way *w = p->way;
  int groups = p->tiling.held / w->of_rows, n = x->n / groups;
  tc_val each[MOST_EACH];
  for (int g = 0; g < groups; g++) {
    for (int k = 0; k < w->each; k++) each[k] = by[g * w->of_rows + k / of_row(w)];
    tc_val v = tc_gemm_join(s, each, w->each);
    for (int i = 0; i < n; i++) set(s, x->var[g * n + i], mul(s, x->var[g * n + i], v));
    for (int i = 0; i < n && p->chains; i++) set(s, x->total[g * n + i], mul(s, x->total[g * n + i], v));
  }
}

// Element k of the run of row i that begins at column group `group` of the thread. Neighbours are
// in different values if a value has fewer elements of a row than a run.
static tc_val element(tc_flash *p, const tc_flash_sums *x, int i, int group, int k) {
  const tc_flash_way *w = p->way;
  int values = x->run / of_row(w), n = x->n / (p->tiling.held / w->of_rows);
  tc_val value = (p->chains ? x->total : x->var)[i / w->of_rows * n + group * values + k % values];
  if (w->each == 1) return value;
  return extract(p->at.s, p->threads, value, i % w->of_rows * of_row(w) + k / values);
}

void tc_flash_store(tc_flash *p, const tc_flash_sums *x, uint32_t node, const tc_val *at, const tc_val *there,
                    const tc_val *by) {
  tc_emit_ctx *s = p->at.s;
  tc_type type = s->g->node[node].type;
  int buf = tc_attention_result(&p->at, node), across = p->way->across,
      groups = (int)tc_ceil_div(x->columns, across * x->run);
  int run = x->columns % x->run ? 1 : TC_MIN(x->run, TC_GEMM_COPIED / (int)tc_type_bytes(type));
  tc_val first = times(s, p->part, x->run), v[TC_GEMM_COPIED];
  if (p->chains) add_to_totals(p, x);
  for (int group = 0; group < groups; group++)
    for (int i = 0; i < p->tiling.held; i++)
      for (int k = 0; k < x->run; k += run) {
        tc_val column = plus(s, first, (int64_t)group * across * x->run + k), here = there[i];
        for (int j = 0; j < run; j++) v[j] = mul(s, element(p, x, i, group, k + j), by[i]);
        if ((group + 1) * (int64_t)across * x->run > x->columns)
          here = bin(s, TC_IR_AND, here, bin(s, TC_IR_LT, column, i64(s, x->columns)));
        tc_val value = cast(s, tc_gemm_join(s, v, run), type);
        scatter(s, buf, add(s, at[i], column), value, here);
      }
}
