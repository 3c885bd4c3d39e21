// Emits matmuls of few rows (gemv-like) at the bandwidth of b, which is not packed.
//
// In: a unit of a tc_matmul_emitter. Out: instructions for all rows by the unit's panels of b.
//   b along columns, one chunk   streams through, with the sums of several panels in registers
//   b along columns, in chunks   is read by whole rows, with the sums in memory
//   b along k                    is transposed in registers by blocks, and multiplied at once
// Few rows by a b in panels are left to micro_kernel.c: one tile of rows, over b as one stream.
#include "lowering/target/host_cpu.h"
#include "lowering/emit/matmul/matmul_types.h"
#include "runtime/topology.h"

// Cache lines of each column of a transposed b, from a load to its prefetch. Without prefetch such
// a matmul runs at half the bandwidth. Columns a power of two apart compete for one set of the
// first-level cache, so more lines do not help.
// Measured: Xeon, 1x4096x4096 f32: 1 line 2.9 ms, 2 lines 3.3; 1x768x50257 bf16 from memory:
// 2 lines 1.05 times as fast as 1. More: docs/measurements.md.
#define TRANSPOSE_LINES 2
// Rows of a streamed b that are read together, and bytes from a load to its prefetch.
// Measured: Xeon, 2 threads, GPT-2 small decoding in bf16, against chunks of 4 rows: 1.15 times as
// fast, a row at a time 1.05. More: docs/measurements.md.
#define STREAM_ROWS 4
#define STREAM_AHEAD 4096
// Bytes along a row from a load to the prefetch for the next chunk. Rows a power of two apart
// compete for one set of the first-level cache; the distance moves the prefetch to another set.
#define ASIDE 1024

#define E (&p->s->e)

// ---- b along the columns, streamed ----

// Returns whether two bf16 neighbours along the columns of b are widened as one word: the lower by
// a shift, the upper by a mask.
static bool in_words(const tc_matmul_emitter *p) {
  return p->b.type == TC_BF16 && p->acc == TC_F32 && (p->b.widened == TC_NONE || p->b.widened == p->b.node) &&
         p->by.lanes >= 4;
}

// Returns the distance from row k to its prefetch: further down, or at the top of the next panels.
static tc_val stream_prefetch_distance(tc_matmul_emitter *p, tc_val k) {
  int64_t bytes = p->by.stream * p->by.lanes * (int64_t)tc_type_bytes(p->b.type);
  int64_t rows = TC_MIN(tc_ceil_div(tc_ceil_div(STREAM_AHEAD, bytes), STREAM_ROWS) * STREAM_ROWS, p->of.k);
  tc_val here = i64(p->s, rows * p->b.row), next = i64(p->s, (rows - p->of.k) * p->b.row + p->by.stream * p->by.lanes);
  return select_val(p->s, bin(p->s, TC_IR_LT, add_i64(p->s, k, rows), i64(p->s, p->of.k)), here, next);
}

// Adds `rows` rows from k on to the sums, panel by panel, all rows of each. Memory is then read at
// several positions alternately, which is faster.
static void stream_rows(tc_matmul_emitter *p, const tc_matmul_rows *r, tc_val panel, tc_val k, int rows, tc_val *acc) {
  tc_emit_ctx *s = p->s;
  int lanes = p->by.lanes, line = line_of(p->b.type), parts = in_words(p) ? 2 : 1;
  tc_val a[STREAM_ROWS][32], prefetch_distance = stream_prefetch_distance(p, k), first = times(s, panel, lanes), w[2];
  for (int j = 0; j < rows; j++)
    for (int i = 0; i < r->n; i++)
      a[j][i] = tc_matmul_load_a(p, add(s, tc_matmul_row_of_a(p, r, i), tc_matmul_in_row_of_a(p, r, add_i64(s, k, j))));
  for (int g = 0; g < p->by.stream; g++) {
    s->at[TC_RANGE_K] = add_i64(s, first, g * lanes);
    for (int j = 0; j < rows; j++) {
      tc_val row = add_i64(s, k, j), at = add(s, add(s, p->b.at, times(s, row, p->b.row)), s->at[TC_RANGE_K]);
      for (int i = 0; i < lanes; i += line)
        tc_build_prefetch(E, p->b.buf, add(s, add(s, at, prefetch_distance), i64(s, i)), false);
      if (parts == 2) {
        tc_val word = load(s, p->b.buf, TC_BF16, lanes, at, TC_NONE);
        word = bitcast(s, TC_I32, lanes / 2, word);
        for (int half = 0; half < 2; half++) w[half] = tc_matmul_transposed_row(p, word, half);
      } else {
        w[0] = tc_matmul_load_b(p, row);
      }
      tc_register_block_add(s, &(tc_register_block){p->way, r->n, parts, tc_lhs_loaded, a[j]}, w,
                            acc + g * r->n * parts);
    }
  }
}

// Multiplies the panels from `panel` on whose sums are in registers together, over all of k.
static void multiply_stream(tc_matmul_emitter *p, const tc_matmul_rows *r, const tc_matmul_unit *u, tc_val panel) {
  tc_emit_ctx *s = p->s;
  int lanes = p->by.lanes, parts = in_words(p) ? 2 : 1, n_acc = (int)p->by.stream * r->n;
  tc_val acc[64], sum[64], zero = zeros(s, p->acc, lanes / parts), k0 = u->k0, k1 = u->k1;
  if (p->chains) k0 = loop(s, k0, k1, p->chain), k1 = end_of_chain(p, k0, k1);
  for (int i = 0; i < n_acc * parts; i++) acc[i] = var(s, zero);
  tc_val whole = whole_rows(p, k0, k1, STREAM_ROWS), k = loop(s, k0, whole, STREAM_ROWS);
  stream_rows(p, r, panel, k, STREAM_ROWS, acc);
  end(s);
  k = loop(s, whole, k1, 1);
  stream_rows(p, r, panel, k, 1, acc);
  end(s);
  for (int i = 0; i < n_acc; i++) {
    sum[i] =
        parts == 1 ? acc[i] : tc_build_raw(E, TC_IR_INTERLEAVE, p->acc, lanes, acc[2 * i], acc[2 * i + 1], TC_NONE, 0);
    if (p->chains && parts == 2) sum[i] = var(s, sum[i]);
    if (!p->chains) store(s, p->sums, add_i64(s, r->sums, i * lanes), sum[i]);
  }
  if (p->chains) tc_matmul_end_chain(p, k0, r->sums, lanes, sum, n_acc), end(s);
  tc_val g = loop_to(s, i64(s, p->by.stream), 1);
  s->at[TC_RANGE_K] = times(s, add(s, panel, g), lanes);
  tc_matmul_finish_rows(p, r, add(s, r->sums, times(s, g, (int64_t)r->n * lanes)));
  end(s);
}

static void streamed_panels(tc_matmul_emitter *p, const tc_matmul_unit *u) {
  tc_emit_ctx *s = p->s;
  tc_val zero = i64(s, 0), full = whole_panels(p, u);
  tc_val last = sub(s, full, bin(s, TC_IR_REM, sub(s, full, u->p0), i64(s, p->by.stream)));
  tc_matmul_rows r = tc_matmul_rows_of(p->by.rows, i64(p->s, 0));
  if (p->by.widen_a) tc_matmul_pack_a(p, p->by.rows, zero, i64(s, p->of.m), u);
  tc_val panel = loop(s, u->p0, last, p->by.stream);
  s->mask = TC_NONE;
  multiply_stream(p, &r, u, panel);
  end(s);
  panel = loop(s, last, u->p1, 1);
  tc_matmul_enter_panel(p, panel);
  tc_matmul_multiply(p, &r, u, panel, TC_NONE);
  end(s);
}

// ---- b along the columns, in chunks of whole rows ----

// Returns the column from which on the next chunk is prefetched: ASIDE bytes further along. Past
// the unit's last column it wraps around to the first, since other threads read those columns.
static tc_val prefetch_column(tc_matmul_emitter *p, const tc_matmul_unit *u) {
  tc_emit_ctx *s = p->s;
  int64_t aside = ASIDE / (int64_t)tc_type_bytes(p->b.type), width = p->by.unit_panels * p->by.lanes;
  tc_val here = s->at[TC_RANGE_K], at = add_i64(s, here, aside);
  if (!tc_host_reads_rows() || width <= aside) return here;
  if (p->by.unit_panels == p->by.n_panels) return at;
  tc_val last = times(s, u->p1, p->by.lanes), all = times(s, sub(s, u->p1, u->p0), p->by.lanes);
  return select_val(s, bin(s, TC_IR_LT, at, last), at, sub(s, at, all));
}

static tc_val chunk_sums(tc_matmul_emitter *p, const tc_matmul_unit *u, tc_val panel) {
  return times(p->s, sub(p->s, panel, u->p0), (int64_t)p->by.rows * p->by.lanes);
}

// Multiplies all rows by the current panel, at one chunk.
static void multiply_chunk(tc_matmul_emitter *p, const tc_matmul_rows *r, const tc_matmul_unit *u, tc_val panel) {
  tc_emit_ctx *s = p->s;
  tc_val acc[32];
  for (int i = 0; i < r->n; i++) acc[i] = var(s, load_tile(p, p->sums, add_i64(s, r->sums, i * p->by.lanes)));
  tc_matmul_accumulate(p, r, u, panel, acc);
  for (int i = 0; i < r->n; i++) store(s, p->sums, add_i64(s, r->sums, i * p->by.lanes), acc[i]);
}

// Stores zeros as the sums of all the unit's panels.
static void clear_sums(tc_matmul_emitter *p, const tc_matmul_unit *u) {
  tc_emit_ctx *s = p->s;
  tc_val zero = zeros(s, p->acc, p->by.lanes), panel = loop(s, u->p0, u->p1, 1);
  for (int i = 0; i < p->by.rows; i++)
    store(s, p->sums, add(s, chunk_sums(p, u, panel), i64(s, i * p->by.lanes)), zero);
  end(s);
}

// Ends a chain: the sums of all the unit's panels are its results.
static void end_chains(tc_matmul_emitter *p, const tc_matmul_unit *u, tc_val chain) {
  tc_emit_ctx *s = p->s;
  tc_val acc[32], panel = loop(s, u->p0, u->p1, 1), at = chunk_sums(p, u, panel);
  for (int i = 0; i < p->by.rows; i++) acc[i] = var(s, load_tile(p, p->sums, add_i64(s, at, i * p->by.lanes)));
  tc_matmul_end_chain(p, chain, at, p->by.lanes, acc, p->by.rows);
  end(s);
}

// Multiplies chunk by chunk, with the sums in memory. Separate passes store the initial zeros and
// apply the epilogue, so that no chunk tests whether it is the first or the last.
static void chunked_panels(tc_matmul_emitter *p, const tc_matmul_unit *u) {
  tc_emit_ctx *s = p->s;
  tc_val zero = i64(s, 0), k0 = u->k0, k1 = u->k1, panel;
  tc_matmul_rows r = tc_matmul_rows_of(p->by.rows, i64(p->s, 0));
  tc_matmul_unit chunk = *u;
  if (p->chains) k0 = loop(s, k0, k1, p->chain), k1 = end_of_chain(p, k0, k1);
  clear_sums(p, u);
  r.k0 = chunk.k0 = loop(s, k0, k1, p->by.chunk);
  chunk.k1 = add_i64(s, chunk.k0, p->by.chunk);
  if (p->of.k % p->by.chunk || p->chain % p->by.chunk) chunk.k1 = least(s, chunk.k1, k1);
  if (p->by.widen_a) tc_matmul_pack_a(p, p->by.rows, zero, i64(s, p->of.m), &chunk);
  panel = loop(s, u->p0, u->p1, 1);
  tc_matmul_enter_panel(p, panel);
  r.sums = chunk_sums(p, u, panel);
  if (p->b.col == 1) r.asked = prefetch_column(p, u);
  multiply_chunk(p, &r, &chunk, panel);
  end(s);
  end(s);
  if (p->chains) end_chains(p, u, k0), end(s);
  panel = loop(s, u->p0, u->p1, 1);
  tc_matmul_enter_panel(p, panel);
  tc_matmul_finish_rows(p, &r, chunk_sums(p, u, panel));
  end(s);
}

// ---- b along k ----

// Returns whether consecutive columns are prefetched in order, all of the next panel while this one
// is multiplied. Memory is then read as one stream, instead of one for each column.
// Measured: Zen 4, 2 threads, against a few lines ahead in each column: 1x4096x4096 f32 1.3 times
// as fast; panels of 700 KiB 0.95. More: docs/measurements.md.
static bool prefetches_in_order(const tc_matmul_emitter *p) {
  int64_t panel = p->by.lanes * p->b.col * (int64_t)tc_type_bytes(p->b.type);
  return tc_host_reads_rows() && p->b.col == p->of.k * p->step && panel <= (int64_t)tc_topology_get()->l2_bytes / 4;
}

// Returns the prefetch at row k, which is transposed, of a panel that begins at column `first`. In
// one column it is further along k, or at the start of the next panel.
static tc_matmul_prefetch prefetch_ahead(tc_matmul_emitter *p, tc_val k, tc_val first, int rows) {
  tc_val column = add(p->s, p->b.at, times(p->s, first, p->b.col));
  if (prefetches_in_order(p))
    return (tc_matmul_prefetch){
        add(p->s, column, add(p->s, times(p->s, k, p->by.lanes * p->step), i64(p->s, p->by.lanes * p->b.col))), rows};
  bool one_set = p->by.lanes > vector_lanes(p) && p->b.col * (int64_t)tc_type_bytes(p->b.type) % 4096 == 0;
  int64_t prefetch_distance = (one_set ? 1 : TRANSPOSE_LINES) * line_of(p->b.type), steps = p->of.k * p->step;
  k = times(p->s, k, p->step);
  tc_val here = i64(p->s, prefetch_distance), next = i64(p->s, prefetch_distance - steps + p->by.lanes * p->b.col);
  tc_val far = select_val(p->s, bin(p->s, TC_IR_LT, add(p->s, k, here), i64(p->s, steps)), here, next);
  return (tc_matmul_prefetch){add(p->s, add(p->s, column, k), far), p->b.col};
}

typedef struct lhs {
  tc_matmul_emitter *p;
  const tc_matmul_rows *r;
  tc_val in_a;  // offset of k from the start of a row
} lhs;

static tc_val load_lhs(void *of, int row) {
  const lhs *x = of;
  return tc_matmul_load_a(x->p, add(x->p->s, tc_matmul_row_of_a(x->p, x->r, row), x->in_a));
}

// Multiplies all rows by the columns of the current panel, up to row k1; the sums go to memory. The
// first block's columns are prefetched while it is transposed, the others' while the blocks are
// multiplied. Prefetches spread evenly keep memory busy.
static void multiply_transposed(tc_matmul_emitter *p, const tc_matmul_rows *r, const tc_matmul_unit *u, tc_val k1) {
  tc_emit_ctx *s = p->s;
  int size = vector_lanes(p), blocks = p->by.lanes / size, rows = transposed_rows(p, size);
  int as_one = rows / p->step / size, n_acc = r->n * blocks;
  tc_val acc[32], v[64], zero = zeros(s, p->acc, size), first = s->at[TC_RANGE_K];
  for (int i = 0; i < n_acc; i++) acc[i] = var(s, zero);
  tc_val k = loop(s, u->k0, k1, rows / p->step);  // within the current chain
  tc_matmul_prefetch prefetch_what = prefetch_ahead(p, k, first, rows);
  for (int c = 0; c < blocks; c++) {
    tc_val column = add_i64(s, first, c * size);
    tc_matmul_load_transposed(p, k, add(s, p->b.at, times(s, column, p->b.col)), v, size,
                              c == 0 ? &prefetch_what : NULL);
    for (int i = 0; i < size; i++) store(s, p->transposed, i64(s, (i * blocks + c) * size), v[i]);
  }
  tc_val i = loop_to(s, i64(s, size), 1), k_of_i = add(s, k, times(s, i, as_one));
  s->lanes = size;
  for (int c = 1; c < blocks; c++) prefetch_for(p, &prefetch_what, add_i64(s, i, c * size));
  for (int c = 0; c < blocks; c++)
    v[c] =
        load(s, p->transposed, transposed_type(p), size, add(s, times(s, i, p->by.lanes), i64(s, c * size)), TC_NONE);
  for (int j = 0; j < as_one; j++) {
    tc_val row = add_i64(s, k_of_i, j), in_a = tc_matmul_in_row_of_a(p, r, row), w[4];
    for (int c = 0; c < blocks; c++) {
      s->at[TC_RANGE_K] = add_i64(s, first, c * size);
      w[c] = made_of(p, row, tc_matmul_transposed_row(p, v[c], j));
    }
    lhs of = {p, r, in_a};
    tc_register_block_add(s, &(tc_register_block){p->way, r->n, blocks, load_lhs, &of}, w, acc);
  }
  s->lanes = p->by.lanes, s->at[TC_RANGE_K] = first;
  end(s);
  end(s);
  for (int m = 0; m < n_acc; m++) store(s, p->sums, add_i64(s, r->sums, m * size), acc[m]);
}

static void transposed_panels(tc_matmul_emitter *p, const tc_matmul_unit *u) {
  tc_emit_ctx *s = p->s;
  tc_val zero = i64(s, 0), whole = whole_panels(p, u);
  tc_matmul_rows r = tc_matmul_rows_of(p->by.rows, i64(p->s, 0));
  tc_matmul_unit rest = *u;
  if (p->by.widen_a) tc_matmul_pack_a(p, p->by.rows, zero, i64(s, p->of.m), u);
  tc_val panel = loop(s, u->p0, whole, 1);
  tc_matmul_enter_panel(p, panel);
  s->mask = TC_NONE;
  tc_val so_far = bin(s, TC_IR_EQ, zero, zero), acc[32];
  tc_matmul_unit part = *u;
  if (p->chains) part.k0 = loop(s, u->k0, u->k1, p->chain), rest.k1 = end_of_chain(p, part.k0, u->k1);
  rest.k0 = whole_rows(p, part.k0, rest.k1, transposed_rows(p, vector_lanes(p)) / p->step);
  multiply_transposed(p, &r, &part, rest.k0);
  if (p->chains) {
    tc_matmul_sum(p, &r, &rest, panel, so_far, acc);
    tc_matmul_end_chain(p, part.k0, r.sums, p->by.lanes, acc, r.n);
    end(s);
    tc_matmul_finish_rows(p, &r, r.sums);
  } else {
    tc_matmul_multiply(p, &r, &rest, panel, so_far);
  }
  end(s);
  if (p->of.n % p->by.lanes == 0) return;
  panel = loop(s, whole, u->p1, 1);
  tc_matmul_enter_panel(p, panel);
  tc_matmul_multiply(p, &r, u, panel, TC_NONE);
  end(s);
}

void tc_matmul_multiply_few(tc_matmul_emitter *p, const tc_matmul_unit *u) {
  if (p->by.transpose)
    transposed_panels(p, u);
  else if (p->chunks)
    chunked_panels(p, u);
  else
    streamed_panels(p, u);
}
