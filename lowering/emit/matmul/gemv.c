// Products of few rows, whose b is not packed: all rows by it, at the speed at which it is read.
//
// A b that lies along the columns streams by, with the sums of several panels in registers; or is
// read some whole rows at a time, with the sums in memory. Of one that lies along k, blocks are
// transposed in registers and multiplied at once. Few rows by a b in panels are micro_kernel.c's:
// one tile of rows, over it as one stream.
#include "lowering/target/host_cpu.h"
#include "lowering/emit/matmul/matmul_types.h"
#include "runtime/topology.h"

// Lines of each column of a b that is transposed as it is multiplied, from one to what is asked
// for:
// without it such a product runs at half the bandwidth. On a Xeon at one thread, from the
// third-level cache, 1x4096x4096 in ms where 1, 2 and 4 lines are asked for: bytes, two blocks of
// columns, 1.3, 1.5 and 1.7, and one 1.8, 1.9 and 1.7; bf16 1.6, 1.9 and 2.1, and 1.7, 1.8 and 1.8;
// f32 2.9, 3.3 and 3.5, and 2.6, 2.7 and 2.7: columns a power of two apart take turns in one set of
// the first-level cache. 1x768x50257 of bf16 from memory, two blocks, at two threads: 2 lines 1.05
// times as fast as 1.
#define TURN_AHEAD 2
// Rows of a streamed b that are read side by side, and bytes of it asked for ahead. On a Xeon at
// two threads, against sums kept in memory between chunks of 4 rows: GPT-2 small decoding in bf16
// 1.15, a row at a time 1.05, 1.11 with 9 KiB ahead; 1x4096x4096, where rows lie a power of two
// apart, f32 1.1, bytes, scaled, 1.28, bf16 1; f32 and bf16 0.86 with 6 KiB ahead.
#define STREAM_ROWS 4
#define STREAM_AHEAD 4096
// Bytes of a row between what is read and what is asked for of the next chunk: rows a power of two
// apart take turns in one set of the first-level cache, and what is asked for is in another one so.
#define ASIDE 1024

#define E (&p->s->e)

// The one tile of rows there is, for which nothing is asked for.
static tc_matmul_rows all_rows(tc_matmul_emitter *p) {
  tc_val zero = i64(p->s, 0);
  return (tc_matmul_rows){.n = p->by.rows,
                          .row = zero,
                          .packed = zero,
                          .sums = zero,
                          .k0 = zero,
                          .prefetch_distance = TC_NONE,
                          .next = TC_NONE,
                          .asked = TC_NONE};
}

// ---- b along the columns, streamed ----

// Whether two neighbours along the columns of b, of bf16, are widened as one word: the lower by a
// shift, the upper by a mask.
static bool in_words(const tc_matmul_emitter *p) {
  return p->b.type == TC_BF16 && p->acc == TC_F32 && (p->b.widened == TC_NONE || p->b.widened == p->b.node) &&
         p->by.lanes >= 4;
}

// How far from row k what is asked for lies: further down, or at the top of the next panels.
static tc_val stream_ahead(tc_matmul_emitter *p, tc_val k) {
  int64_t bytes = p->by.stream * p->by.lanes * (int64_t)tc_type_bytes(p->b.type);
  int64_t rows = TC_MIN(tc_ceil_div(tc_ceil_div(STREAM_AHEAD, bytes), STREAM_ROWS) * STREAM_ROWS, p->of.k);
  tc_val here = i64(p->s, rows * p->b.row), next = i64(p->s, (rows - p->of.k) * p->b.row + p->by.stream * p->by.lanes);
  return tc_build_select(E, tc_build_bin(E, TC_IR_LT, add(p->s, k, i64(p->s, rows)), i64(p->s, p->of.k)), here, next);
}

// Adds `rows` rows from k on to the sums, panel by panel, of each panel all rows: so memory is read
// at several places by turns, which it is faster at.
static void stream_rows(tc_matmul_emitter *p, const tc_matmul_rows *r, tc_val panel, tc_val k, int rows, tc_val *acc) {
  tc_emit_ctx *s = p->s;
  int lanes = p->by.lanes, line = line_of(p->b.type), parts = in_words(p) ? 2 : 1;
  tc_val a[STREAM_ROWS][32], prefetch_distance = stream_ahead(p, k), first = times(p->s, panel, lanes), w[2];
  for (int j = 0; j < rows; j++)
    for (int i = 0; i < r->n; i++)
      a[j][i] = tc_matmul_load_a(
          p, add(p->s, tc_matmul_row_of_a(p, r, i), tc_matmul_in_row_of_a(p, r, add(p->s, k, tc_emit_i64(s, j)))));
  for (int g = 0; g < p->by.stream; g++) {
    s->at[TC_RANGE_K] = add(p->s, first, tc_emit_i64(s, g * lanes));
    for (int j = 0; j < rows; j++) {
      tc_val row = add(p->s, k, tc_emit_i64(s, j)),
             at = add(p->s, add(p->s, p->b.at, times(p->s, row, p->b.row)), s->at[TC_RANGE_K]);
      for (int i = 0; i < lanes; i += line)
        prefetch(p, p->b.buf, add(p->s, add(p->s, at, prefetch_distance), tc_emit_i64(s, i)));
      if (parts == 2) {
        tc_val word = tc_build_raw(E, TC_IR_LOAD, TC_BF16, lanes, at, TC_NONE, TC_NONE, p->b.buf);
        word = tc_build_raw(E, TC_IR_BITCAST, TC_I32, lanes / 2, word, TC_NONE, TC_NONE, 0);
        for (int half = 0; half < 2; half++) w[half] = tc_matmul_transposed_row(p, word, half);
      } else {
        w[0] = tc_matmul_load_b(p, row);
      }
      tc_register_block_add(s, &(tc_register_block){p->way, r->n, parts, tc_lhs_loaded, a[j]}, w,
                            acc + g * r->n * parts);
    }
  }
}

// The panels from `panel` on whose sums are in registers together, over all of k.
static void multiply_stream(tc_matmul_emitter *p, const tc_matmul_rows *r, const tc_matmul_unit *u, tc_val panel) {
  tc_emit_ctx *s = p->s;
  int lanes = p->by.lanes, parts = in_words(p) ? 2 : 1, n_acc = (int)p->by.stream * r->n;
  tc_val acc[64], sum[64], zero = tc_build_splat(E, tc_build_const_f(E, p->acc, 0), lanes / parts), k0 = u->k0,
                           k1 = u->k1;
  if (p->chains) k0 = loop(s, k0, k1, p->chain), k1 = end_of_chain(p, k0, k1);
  for (int i = 0; i < n_acc * parts; i++) acc[i] = tc_build_var(E, zero);
  tc_val whole = whole_rows(p, k0, k1, STREAM_ROWS), k = loop(p->s, k0, whole, STREAM_ROWS);
  stream_rows(p, r, panel, k, STREAM_ROWS, acc);
  end(p->s);
  k = loop(p->s, whole, k1, 1);
  stream_rows(p, r, panel, k, 1, acc);
  end(p->s);
  for (int i = 0; i < n_acc; i++) {
    sum[i] =
        parts == 1 ? acc[i] : tc_build_raw(E, TC_IR_INTERLEAVE, p->acc, lanes, acc[2 * i], acc[2 * i + 1], TC_NONE, 0);
    if (p->chains && parts == 2) sum[i] = tc_build_var(E, sum[i]);
    if (!p->chains) store(p->s, p->sums, add(p->s, r->sums, tc_emit_i64(s, i * lanes)), sum[i]);
  }
  if (p->chains) tc_matmul_end_chain(p, k0, r->sums, lanes, sum, n_acc), end(s);
  tc_val g = loop(p->s, tc_emit_i64(s, 0), tc_emit_i64(s, p->by.stream), 1);
  s->at[TC_RANGE_K] = times(p->s, add(p->s, panel, g), lanes);
  tc_matmul_finish_rows(p, r->row, r->n, add(p->s, r->sums, times(p->s, g, (int64_t)r->n * lanes)));
  end(p->s);
}

static void streamed_panels(tc_matmul_emitter *p, const tc_matmul_unit *u) {
  tc_emit_ctx *s = p->s;
  tc_val zero = tc_emit_i64(s, 0),
         full = tc_build_bin(E, TC_IR_MAX, u->p0,
                             tc_build_bin(E, TC_IR_MIN, u->p1, tc_emit_i64(s, p->of.n / p->by.lanes)));
  tc_val last = sub(p->s, full, tc_build_bin(E, TC_IR_REM, sub(p->s, full, u->p0), tc_emit_i64(s, p->by.stream)));
  tc_matmul_rows r = all_rows(p);
  if (p->by.widen_a) tc_matmul_pack_a(p, p->by.rows, zero, tc_emit_i64(s, p->of.m), u);
  tc_val panel = loop(p->s, u->p0, last, p->by.stream);
  s->mask = TC_NONE;
  multiply_stream(p, &r, u, panel);
  end(p->s);
  panel = loop(p->s, last, u->p1, 1);
  tc_matmul_enter_panel(p, panel);
  tc_matmul_multiply(p, &r, u, panel, TC_NONE);
  end(p->s);
}

// ---- b along the columns, in chunks of whole rows ----

// The column from which on the next chunk is asked for: ASIDE bytes further along, or so far from
// the unit's first, whose last columns others read.
static tc_val asked_column(tc_matmul_emitter *p, const tc_matmul_unit *u) {
  tc_emit_ctx *s = p->s;
  int64_t aside = ASIDE / (int64_t)tc_type_bytes(p->b.type), width = p->by.unit_panels * p->by.lanes;
  tc_val here = s->at[TC_RANGE_K], at = add(s, here, i64(s, aside));
  if (!tc_host_reads_rows() || width <= aside) return here;
  if (p->by.unit_panels == p->by.n_panels) return at;
  tc_val last = times(s, u->p1, p->by.lanes), all = times(s, sub(s, u->p1, u->p0), p->by.lanes);
  return tc_build_select(E, bin(s, TC_IR_LT, at, last), at, sub(s, at, all));
}

static tc_val chunk_sums(tc_matmul_emitter *p, const tc_matmul_unit *u, tc_val panel) {
  return times(p->s, sub(p->s, panel, u->p0), (int64_t)p->by.rows * p->by.lanes);
}

// All rows by the present panel, at one chunk.
static void multiply_chunk(tc_matmul_emitter *p, const tc_matmul_rows *r, const tc_matmul_unit *u, tc_val panel) {
  tc_emit_ctx *s = p->s;
  tc_val acc[32];
  for (int i = 0; i < r->n; i++)
    acc[i] = tc_build_var(E, load_tile(p, p->sums, add(s, r->sums, i64(s, i * p->by.lanes))));
  tc_matmul_accumulate(p, r, u, panel, acc);
  for (int i = 0; i < r->n; i++) store(p->s, p->sums, add(s, r->sums, i64(s, i * p->by.lanes)), acc[i]);
}

// Zeros for the sums of all the unit's panels.
static void clear_sums(tc_matmul_emitter *p, const tc_matmul_unit *u) {
  tc_emit_ctx *s = p->s;
  tc_val zeros = tc_build_splat(E, tc_build_const_f(E, p->acc, 0), p->by.lanes), panel = loop(s, u->p0, u->p1, 1);
  for (int i = 0; i < p->by.rows; i++)
    store(p->s, p->sums, add(s, chunk_sums(p, u, panel), i64(s, i * p->by.lanes)), zeros);
  end(s);
}

// The sums of all the unit's panels are a chain's results.
static void end_chains(tc_matmul_emitter *p, const tc_matmul_unit *u, tc_val chain) {
  tc_emit_ctx *s = p->s;
  tc_val acc[32], panel = loop(s, u->p0, u->p1, 1), at = chunk_sums(p, u, panel);
  for (int i = 0; i < p->by.rows; i++)
    acc[i] = tc_build_var(E, load_tile(p, p->sums, add(s, at, i64(s, i * p->by.lanes))));
  tc_matmul_end_chain(p, chain, at, p->by.lanes, acc, p->by.rows);
  end(s);
}

// The sums wait in memory, zeros at first. A pass of their own for these and one for what follows
// leave nothing to be asked of each chunk at each panel.
static void chunked_panels(tc_matmul_emitter *p, const tc_matmul_unit *u) {
  tc_emit_ctx *s = p->s;
  tc_val zero = i64(s, 0), k0 = u->k0, k1 = u->k1, panel;
  tc_matmul_rows r = all_rows(p);
  tc_matmul_unit chunk = *u;
  if (p->chains) k0 = loop(s, k0, k1, p->chain), k1 = end_of_chain(p, k0, k1);
  clear_sums(p, u);
  r.k0 = chunk.k0 = loop(s, k0, k1, p->by.chunk);
  chunk.k1 = add(s, chunk.k0, i64(s, p->by.chunk));
  if (p->of.k % p->by.chunk || p->chain % p->by.chunk) chunk.k1 = tc_build_bin(E, TC_IR_MIN, chunk.k1, k1);
  if (p->by.widen_a) tc_matmul_pack_a(p, p->by.rows, zero, i64(s, p->of.m), &chunk);
  panel = loop(s, u->p0, u->p1, 1);
  tc_matmul_enter_panel(p, panel);
  r.sums = chunk_sums(p, u, panel);
  if (p->b.col == 1) r.asked = asked_column(p, u);
  multiply_chunk(p, &r, &chunk, panel);
  end(s);
  end(s);
  if (p->chains) end_chains(p, u, k0), end(s);
  panel = loop(s, u->p0, u->p1, 1);
  tc_matmul_enter_panel(p, panel);
  tc_matmul_finish_rows(p, zero, p->by.rows, chunk_sums(p, u, panel));
  end(s);
}

// ---- b along k ----

// Whether columns that lie one after the other are asked for in that order, all of the next panel
// while this one is multiplied: memory is read as one stream then, not one a column. On a Zen 4 at
// two threads, times as fast as each column's lines a few ahead, 1x768x50257 of f32 1.35, of bf16
// 1.4, 1x4096x4096 1.3 and 1.35, 4x4096x4096 1.2 and 1.15, 8x768x50257 1.45 and 1.2, bytes 1.0;
// 1x11008x4096, whose panels are 700 KiB, 0.95 and 0.8.
static bool asks_in_order(const tc_matmul_emitter *p) {
  int64_t panel = p->by.lanes * p->b.col * (int64_t)tc_type_bytes(p->b.type);
  return tc_host_reads_rows() && p->b.col == p->of.k * p->step && panel <= (int64_t)tc_topology_get()->l2_bytes / 4;
}

// What is asked for at row k, which is transposed, of a panel that begins at column `first`. One
// column's: further along k, or at the beginning of the next panel.
static tc_matmul_prefetch prefetch_ahead(tc_matmul_emitter *p, tc_val k, tc_val first, int rows) {
  tc_val column = add(p->s, p->b.at, times(p->s, first, p->b.col));
  if (asks_in_order(p))
    return (tc_matmul_prefetch){
        add(p->s, column, add(p->s, times(p->s, k, p->by.lanes), i64(p->s, p->by.lanes * p->b.col))), rows};
  bool one_set = p->by.lanes > vector_lanes(p) && p->b.col * (int64_t)tc_type_bytes(p->b.type) % 4096 == 0;
  int64_t prefetch_distance = (one_set ? 1 : TURN_AHEAD) * line_of(p->b.type), steps = p->of.k;
  tc_val here = i64(p->s, prefetch_distance), next = i64(p->s, prefetch_distance - steps + p->by.lanes * p->b.col);
  tc_val far = tc_build_select(E, tc_build_bin(E, TC_IR_LT, add(p->s, k, here), i64(p->s, steps)), here, next);
  return (tc_matmul_prefetch){add(p->s, add(p->s, column, k), far), p->b.col};
}

typedef struct lhs {
  tc_matmul_emitter *p;
  const tc_matmul_rows *r;
  tc_val in_a;  // how far from a row's beginning k is
} lhs;

static tc_val load_lhs(void *of, int row) {
  const lhs *x = of;
  return tc_matmul_load_a(x->p, add(x->p->s, tc_matmul_row_of_a(x->p, x->r, row), x->in_a));
}

// All rows by the columns of the present panel, up to row k1: their sums go to memory. The first
// block's columns are asked for where it is transposed, those of the second where both are
// multiplied:
// evenly spread, memory is not kept waiting.
static void multiply_transposed(tc_matmul_emitter *p, const tc_matmul_rows *r, const tc_matmul_unit *u, tc_val k1) {
  tc_emit_ctx *s = p->s;
  int size = vector_lanes(p), blocks = p->by.lanes / size, rows = transposed_rows(p, size);
  int as_one = rows / size, n_acc = r->n * blocks;
  tc_val acc[32], v[64], zero = tc_build_splat(E, tc_build_const_f(E, p->acc, 0), size), first = s->at[TC_RANGE_K];
  for (int i = 0; i < n_acc; i++) acc[i] = tc_build_var(E, zero);
  tc_val k = loop(p->s, u->k0, k1, rows);  // of the present chain
  tc_matmul_prefetch prefetch_what = prefetch_ahead(p, k, first, rows);
  for (int c = 0; c < blocks; c++) {
    tc_val column = add(p->s, first, tc_emit_i64(s, c * size));
    tc_matmul_load_transposed(p, k, add(p->s, p->b.at, times(p->s, column, p->b.col)), v, size,
                              c == 0 ? &prefetch_what : NULL);
    for (int i = 0; i < size; i++) store(p->s, p->transposed, tc_emit_i64(s, (i * blocks + c) * size), v[i]);
  }
  tc_val i = loop(p->s, tc_emit_i64(s, 0), tc_emit_i64(s, size), 1), k_of_i = add(p->s, k, times(p->s, i, as_one));
  s->lanes = size;
  for (int c = 1; c < blocks; c++) prefetch_for(p, &prefetch_what, add(p->s, i, tc_emit_i64(s, c * size)));
  for (int c = 0; c < blocks; c++)
    v[c] =
        tc_build_raw(E, TC_IR_LOAD, transposed_type(p), size,
                     add(p->s, times(p->s, i, p->by.lanes), tc_emit_i64(s, c * size)), TC_NONE, TC_NONE, p->transposed);
  for (int j = 0; j < as_one; j++) {
    tc_val row = add(p->s, k_of_i, tc_emit_i64(s, j)), in_a = tc_matmul_in_row_of_a(p, r, row), w[4];
    for (int c = 0; c < blocks; c++) {
      s->at[TC_RANGE_K] = add(p->s, first, tc_emit_i64(s, c * size));
      w[c] = made_of(p, row, tc_matmul_transposed_row(p, v[c], j));
    }
    lhs of = {p, r, in_a};
    tc_register_block_add(s, &(tc_register_block){p->way, r->n, blocks, load_lhs, &of}, w, acc);
  }
  s->lanes = p->by.lanes, s->at[TC_RANGE_K] = first;
  end(p->s);
  end(p->s);
  for (int m = 0; m < n_acc; m++) store(p->s, p->sums, add(p->s, r->sums, tc_emit_i64(s, m * size)), acc[m]);
}

static void transposed_panels(tc_matmul_emitter *p, const tc_matmul_unit *u) {
  tc_emit_ctx *s = p->s;
  tc_val zero = tc_emit_i64(s, 0),
         whole = tc_build_bin(E, TC_IR_MAX, u->p0,
                              tc_build_bin(E, TC_IR_MIN, u->p1, tc_emit_i64(s, p->of.n / p->by.lanes)));
  tc_matmul_rows r = all_rows(p);
  tc_matmul_unit rest = *u;
  if (p->by.widen_a) tc_matmul_pack_a(p, p->by.rows, zero, tc_emit_i64(s, p->of.m), u);
  tc_val panel = loop(p->s, u->p0, whole, 1);
  tc_matmul_enter_panel(p, panel);
  s->mask = TC_NONE;
  tc_val so_far = tc_build_bin(E, TC_IR_EQ, zero, zero), acc[32];
  tc_matmul_unit part = *u;
  if (p->chains) part.k0 = loop(s, u->k0, u->k1, p->chain), rest.k1 = end_of_chain(p, part.k0, u->k1);
  rest.k0 = whole_rows(p, part.k0, rest.k1, transposed_rows(p, vector_lanes(p)));
  multiply_transposed(p, &r, &part, rest.k0);
  if (p->chains) {
    tc_matmul_sum(p, &r, &rest, panel, so_far, acc);
    tc_matmul_end_chain(p, part.k0, r.sums, p->by.lanes, acc, r.n);
    end(s);
    tc_matmul_finish_rows(p, r.row, r.n, r.sums);
  } else {
    tc_matmul_multiply(p, &r, &rest, panel, so_far);
  }
  end(p->s);
  if (p->of.n % p->by.lanes == 0) return;
  panel = loop(p->s, whole, u->p1, 1);
  tc_matmul_enter_panel(p, panel);
  tc_matmul_multiply(p, &r, u, panel, TC_NONE);
  end(p->s);
}

void tc_matmul_multiply_few(tc_matmul_emitter *p, const tc_matmul_unit *u) {
  if (p->by.transpose)
    transposed_panels(p, u);
  else if (p->chunks)
    chunked_panels(p, u);
  else
    streamed_panels(p, u);
}
