// Emits the loops around the micro-kernel, and the epilogue. Tiles of rows of a are multiplied by
// panels of b, with rows x lanes sums in registers over a chunk of k.
//
// In: a unit of a tc_matmul_emitter, with b packed or readable where it lies. Out: instructions for
// its tiles and panels.
// Each tile goes over the unit's panels. In a large matmul, or with a b in panels, each panel
// instead stays in the cache for several tiles.
// Meanwhile it prefetches what comes next. That is the next panel, the next tile's rows, operands
// of the epilogue, and what is packed for the next chunk or unit.
// Invariants: an element's sum is one chain over k from zero, or several (summation.h). Between
// chunks of k it is in a tile.
#include <limits.h>

#include "lowering/emit/matmul/matmul_types.h"

// Rows of a packed panel from a load to its prefetch, from the second-level cache.
// Measured: Xeon, matmuls of 512 to 4096 rows: 3 % of the time.
#define PACKED_AHEAD 4
// Rows of the largest matmul that prefetches what it packs next. With more rows, packing is too
// little of the work.
// Measured: Zen 3, 1 thread, against none: 16x768x3072 1.5 times as fast, 128x768x3072 1.07,
// 512x512x512 1.0. More: docs/measurements.md.
#define PREFETCH_ROWS 512
#define MOST_HEIGHTS 2  // different heights of tiles
// Sums of a tile for fewer rows, where their number is an argument: two multiply-adds begin in a
// cycle, and each takes four. Such a tile takes as long as one of a single row.
#define SUMS_IN_FLIGHT 8

// Rows from `first` up to `last`, in tiles of `rows`. is_partial: false: all tiles are whole.
typedef struct tiles {
  int rows;
  tc_val first, last;
  bool is_partial;
} tiles;

#define E (&p->s->e)

// ---- epilogue ----

// Applies the epilogue at the current panel and one row. Operands that find_read did not choose are
// prefetched here, where the tile above ends.
// Measured: a training step of GPT-2: 2 % less time.
void tc_matmul_finish_row(tc_matmul_emitter *p, tc_val row, tc_val sum) {
  tc_emit_ctx *s = p->s;
  s->at[TC_RANGE_F] = row;
  tc_type type = s->g->node[p->node].type;
  if (p->step > 1 && type == TC_BF16) sum = cast(s, tc_build_cast_bf16_daz(E, sum), p->acc);
  sum = tc_emit_rounded(s, sum, type);
  s->hints.stream = s->lanes == p->by.lanes && p->of.n % 64 == 0;  // then lines are whole and begin where rows do
  if (!p->n_read)
    s->hints.prefetch_distance = p->by.rows * p->of.n, s->hints.prefetch_far = true, s->hints.n_prefetch = INT_MAX;
  tc_emit_stores_of(s, p->node, sum);
  s->hints.stream = false, s->hints.prefetch_distance = 0, s->hints.prefetch_far = false;
}

void tc_matmul_finish_rows(tc_matmul_emitter *p, const tc_matmul_rows *r, tc_val sums) {
  tc_val rows = i64(p->s, r->n);
  if (r->last != TC_NONE) rows = least(p->s, rows, add_i64(p->s, r->last, 1));
  tc_val i = loop_to(p->s, rows, 1);
  int tile = !p->chains ? p->sums : tc_chain_groups(p->of.k) ? p->groups : p->totals;
  tc_matmul_finish_row(p, add(p->s, r->row, i), load_tile(p, tile, add(p->s, sums, times(p->s, i, p->by.lanes))));
  end(p->s);
}

// ---- loops over k, and chains ----

tc_val tc_matmul_at_range(tc_matmul_emitter *p, const tc_index *x, uint8_t range, tc_val value) {
  tc_emit_ctx *s = p->s;
  tc_val outer = s->at[range];
  bool bound = s->bound[range];
  s->at[range] = value, s->bound[range] = true;
  tc_val at = tc_emit_base(s, x);
  s->at[range] = outer, s->bound[range] = bound;
  return at;
}

// Returns the position of row i, or of the last row if that is before it.
static tc_val row_of_partial_tile(tc_matmul_emitter *p, const tc_matmul_rows *r, int i) {
  tc_emit_ctx *s = p->s;
  tc_val number = least(s, i64(s, i), r->last), row = add(s, r->row, number);
  if (p->by.widen_a) return add(s, r->packed, times(s, number, p->a_pitch));
  return add(s, p->a.at, p->a.scattered ? tc_matmul_at_range(p, &p->a.rows, TC_RANGE_F, row) : times(s, row, p->a.row));
}

tc_val tc_matmul_row_of_a(tc_matmul_emitter *p, const tc_matmul_rows *r, int i) {
  if (r->last != TC_NONE && i > 0) return row_of_partial_tile(p, r, i);
  tc_val constant = i64(p->s, i);
  if (p->by.widen_a) return add_i64(p->s, r->packed, i * p->a_pitch);
  if (p->by.pack_a) return add(p->s, r->packed, constant);
  if (p->a.scattered)
    return add(p->s, p->a.at, tc_matmul_at_range(p, &p->a.rows, TC_RANGE_F, add(p->s, r->row, constant)));
  return add(p->s, add(p->s, p->a.at, times(p->s, r->row, p->a.row)), i64(p->s, i * p->a.row));
}

tc_val tc_matmul_in_row_of_a(tc_matmul_emitter *p, const tc_matmul_rows *r, tc_val k) {
  if (p->by.pack_a || p->by.widen_a) return times(p->s, sub(p->s, k, r->k0), p->by.pack_a ? r->n : 1);
  return times(p->s, k, p->step * p->a.col);
}

tc_val tc_matmul_load_a(tc_matmul_emitter *p, tc_val at) {
  if (p->by.pack_a || p->by.widen_a) return load(p->s, p->packed_a, p->packed_type, 1, at, TC_NONE);
  if (steps_by_bytes(p)) return tc_build_load_byte_words(E, p->a.buf, p->a.type, at, 1);
  if (p->step > 1) return tc_build_load_words(E, p->a.buf, at, 1, TC_NONE);
  return cast(p->s, load(p->s, p->a.buf, p->a.type, 1, at, TC_NONE), p->acc);
}

static tc_val sums_of(tc_matmul_emitter *p, const tc_matmul_rows *r, int i) {
  return add_i64(p->s, r->sums, i * p->by.lanes);
}

// Returns the elements of the next panel that a tile of rows prefetches at each k, so that the
// unit's tiles prefetch all of it. Without prefetch the next panel's first tile would wait for
// memory.
static int64_t share_of(const tc_matmul_emitter *p) {
  return tc_ceil_div(p->by.lanes, p->by.unit_tiles);
}

// Prefetches the share of the unit's k-th step. Few tiles prefetch whole lines at each step, into
// the second-level cache: the first-level one cannot wait for so many at a time.
// Measured: Zen 5, 1 thread, into the second over the first: 16x4096x4096 1.2 times as fast,
// 13x4096x4096 1.35, 64x4096x4096 0.97.
static void prefetch_next_panel(tc_matmul_emitter *p, const tc_matmul_rows *r, tc_val k) {
  int line = line_of(p->b.type);
  int64_t share = share_of(p);
  tc_val at = add(p->s, r->prefetch_from, times(p->s, k, share));
  for (int64_t i = 0; i < share; i += line) tc_build_prefetch(E, p->b.buf, add_i64(p->s, at, i), share >= line);
}

// Prefetches the row of a panel PACKED_AHEAD rows after the one at `at`, from the second-level
// cache.
static void prefetch_in_panel(tc_matmul_emitter *p, int buf, tc_val at) {
  for (int i = 0; i < p->by.lanes; i += line_of(p->acc))
    tc_build_prefetch(E, buf, add_i64(p->s, at, PACKED_AHEAD * p->by.lanes + i), false);
}

// Returns the offset of row k of b, whose panels are in memory, at the current panel.
static tc_val row_in_panel(tc_matmul_emitter *p, tc_val k) {
  tc_val column = times(p->s, p->s->at[TC_RANGE_K], p->b.col);
  return add(p->s, add(p->s, p->b.at, times(p->s, k, p->b.row)), column);
}

// Loads word k of the current panel, whose words are in memory.
static tc_val load_words(tc_matmul_emitter *p, tc_val k) {
  tc_val at = row_in_panel(p, k);
  if (p->by.tiles > 1) prefetch_in_panel(p, p->b.buf, at);
  return load(p->s, p->b.buf, TC_I32, p->by.lanes, at, TC_NONE);
}

// Loads a row of a packed panel. It stays in the first-level cache where the panel serves tile
// after tile.
static tc_val load_packed(tc_matmul_emitter *p, tc_val at) {
  if (!p->by.by_panel) prefetch_in_panel(p, p->packed, at);
  return load(p->s, p->packed, p->packed_type, p->by.lanes, at, TC_NONE);
}

// Loads row k of b at the current panel. word: the word whose halves are two rows, the first at an
// even k.
static tc_val row_of_b(tc_matmul_emitter *p, const tc_matmul_unit *u, tc_val panel, tc_val k, bool even, tc_val *word) {
  if (p->by.pack) {
    tc_val packed = times(p->s, sub(p->s, panel, u->p0), p->by.chunk * p->by.lanes);
    return load_packed(p, add(p->s, packed, times(p->s, sub(p->s, k, u->k0), p->by.lanes)));
  }
  if (!p->b.words) {
    if (p->b.panel && p->b.type == p->acc && p->by.tiles > 1) prefetch_in_panel(p, p->b.buf, row_in_panel(p, k));
    return tc_matmul_load_b(p, k);
  }
  if (!p->halves || even) *word = load_words(p, k);
  return p->halves ? tc_matmul_half_of(p, *word, !even) : *word;
}

typedef struct lhs {
  tc_matmul_emitter *p;
  const tc_val *a;  // start of each row
  tc_val in_a;  // offset of k in a row
} lhs;

static tc_val load_lhs(void *of, int row) {
  const lhs *x = of;
  return tc_matmul_load_a(x->p, add(x->p->s, x->a[row], x->in_a));
}

// Adds row k of b to the accumulators. a: start of each row of a; in_a: offset of k in a row.
static void accumulate_row(tc_matmul_emitter *p, const tc_matmul_rows *r, const tc_matmul_unit *u, tc_val w, tc_val k,
                           const tc_val *a, tc_val in_a, tc_val *acc) {
  if (r->asked != TC_NONE) tc_matmul_prefetch_b(p, add_i64(p->s, k, p->by.chunk), r->asked, true);
  if (r->prefetch_from != TC_NONE) prefetch_next_panel(p, r, sub(p->s, k, u->k0));
  if (p->by.prefetch_strided)
    tc_build_prefetch(E, p->a.buf, add(p->s, add(p->s, a[0], in_a), i64(p->s, 2 * r->n - 1)), true);
  lhs rows = {p, a, in_a};
  tc_register_block_add(p->s, &(tc_register_block){p->way, r->n, 1, load_lhs, &rows}, &w, acc);
}

// n pieces of memory, each of `lines` cache lines, `apart` elements apart.
typedef struct pieces_of {
  int64_t n, lines, apart;
} pieces_of;

// Prefetches into the second-level cache the part of the pieces that falls to one iteration of the
// innermost loop, at step k. The pieces begin at `from`; lines are taken in order, piece after
// piece.
static void prefetch_spread(tc_matmul_emitter *p, const tc_strided_operand *f, const pieces_of *x, tc_val from,
                            const tc_matmul_unit *u, tc_val k) {
  int64_t n_lines = tc_ceil_div(x->n * x->lines, tc_ceil_div(p->by.chunk, p->by.unroll));
  tc_val iteration = bin(p->s, TC_IR_DIV, sub(p->s, k, u->k0), i64(p->s, p->by.unroll));
  for (int i = 0; i < n_lines; i++) {
    tc_val line = add(p->s, times(p->s, iteration, n_lines), i64(p->s, i));
    tc_val piece = div_by(p->s, line, x->lines), in_piece = rem_by(p->s, line, x->lines);
    tc_val at = add(p->s, times(p->s, piece, x->apart), times(p->s, in_piece, line_of(f->type)));
    tc_build_prefetch(E, f->buf, add(p->s, from, at), true);
  }
}

// Prefetches the next tile's rows of a.
static void prefetch_rows_of_a(tc_matmul_emitter *p, const tc_matmul_rows *r, const tc_matmul_unit *u, tc_val k) {
  pieces_of rows = {r->n, tc_ceil_div(p->by.chunk * p->step, line_of(p->a.type)), p->a.row};
  prefetch_spread(p, &p->a, &rows, add(p->s, tc_matmul_row_of_a(p, r, r->n), times(p->s, u->k0, p->step)), u, k);
}

// Returns a tile's share of the panel that is packed next, for prefetch. It is rows of b, or
// columns where b is contiguous along k.
// Measured: Zen 4, 1 thread, 32x4096x4096, against one line of each row into the first-level cache:
// f32 1.13 times as fast, bf16 1.25. More: docs/measurements.md.
static pieces_of next_pieces(const tc_matmul_emitter *p) {
  int line = line_of(p->b.type);
  int64_t rows = p->step * p->by.chunk, columns = p->by.lanes, shares = p->by.unit_tiles;
  if (p->b.col == 1) return (pieces_of){tc_ceil_div(rows, shares), tc_ceil_div(columns, line), p->b.row};
  return (pieces_of){tc_ceil_div(columns, shares), tc_ceil_div(rows, line), p->b.col};
}

// Prefetches what the epilogue of the next tile of rows reads, into the second-level cache. Each
// iteration of the innermost loop prefetches a line of each tensor, evenly spread.
static void prefetch_epilogue(tc_matmul_emitter *p, const tc_matmul_rows *r, const tc_matmul_unit *u, tc_val k) {
  tc_emit_ctx *s = p->s;
  int64_t n_iteration = tc_ceil_div(p->of.k, p->by.unroll), line = line_of(p->acc),
          lines = tc_ceil_div(p->by.lanes, line);
  tc_val iteration = bin(s, TC_IR_DIV, sub(s, k, u->k0), i64(s, p->by.unroll));
  tc_val at = bin(s, TC_IR_DIV, times(s, iteration, r->n * lines), i64(s, n_iteration));
  tc_val row = add(s, add_i64(s, r->row, r->n), div_by(s, at, lines));
  row = add(s, times(s, s->at[TC_RANGE_A], p->of.m), row);
  at = add(s, add(s, times(s, row, p->of.n), s->at[TC_RANGE_K]), times(s, rem_by(s, at, lines), line));
  for (int i = 0; i < p->n_read; i++) tc_build_prefetch(E, p->read[i], at, true);
}

void tc_matmul_accumulate(tc_matmul_emitter *p, const tc_matmul_rows *r, const tc_matmul_unit *u, tc_val panel,
                          tc_val *acc) {
  tc_emit_ctx *s = p->s;
  tc_val a[32], segment = TC_NONE, in_a = TC_NONE, word = TC_NONE, k;
  bool pieces = p->a.segment < p->of.k,
       one_iteration = !pieces && p->by.chunk == p->by.unroll && p->of.k % p->by.chunk == 0;
  for (int i = 0; i < r->n; i++) a[i] = tc_matmul_row_of_a(p, r, i);
  if (pieces) {
    bool whole = !p->chains || p->chain % p->a.segment == 0;  // false: a chain ends within a segment
    tc_val first = whole ? u->k0 : sub(s, u->k0, rem_by(s, u->k0, p->a.segment));
    segment = loop(s, first, u->k1, p->a.segment);
    in_a = tc_matmul_at_range(p, &p->a.segments, TC_RANGE_K0, times(s, segment, p->step));
    tc_val from = whole ? segment : most(s, segment, u->k0), to = add_i64(s, segment, p->a.segment);
    k = loop(s, from, whole ? to : least(s, to, u->k1), p->by.unroll);
    in_a = add(s, in_a, times(s, sub(s, k, segment), p->step * p->a.col));
  } else {
    k = one_iteration ? u->k0 : loop(s, u->k0, u->k1, p->by.unroll);
  }
  if (r->next != TC_NONE) {
    pieces_of next = next_pieces(p);
    prefetch_spread(p, &p->b, &next, r->next, u, k);
  }
  if (p->by.prefetch_a) prefetch_rows_of_a(p, r, u, k);
  if (p->n_read) prefetch_epilogue(p, r, u, k);
  for (int i = 0; i < p->by.unroll; i++) {
    tc_val row = add_i64(s, k, i), w = row_of_b(p, u, panel, row, i % 2 == 0, &word);
    accumulate_row(p, r, u, w, row, a,
                   pieces ? add_i64(s, in_a, i * p->step * p->a.col) : tc_matmul_in_row_of_a(p, r, row), acc);
  }
  if (!one_iteration) end(s);
  if (pieces) end(s);
}

void tc_matmul_sum(tc_matmul_emitter *p, const tc_matmul_rows *r, const tc_matmul_unit *u, tc_val panel, tc_val so_far,
                   tc_val *acc) {
  tc_val zero = zeros(p->s, p->acc, p->by.lanes);
  for (int i = 0; i < r->n; i++) acc[i] = var(p->s, zero);
  if (so_far != TC_NONE) {
    begin_if(p->s, so_far);
    for (int i = 0; i < r->n; i++) set(p->s, acc[i], load_tile(p, p->sums, sums_of(p, r, i)));
    end_if(p->s);
  }
  tc_matmul_accumulate(p, r, u, panel, acc);
}

// Adds the tile's values to sum, unless is_first is true at run time, and stores the sums in the
// tile.
static void add_to_tile(tc_matmul_emitter *p, int tile, tc_val is_first, tc_val at, int apart, const tc_val *sum,
                        int n) {
  tc_emit_ctx *s = p->s;
  begin_if(s, tc_build_un(E, TC_IR_NOT, is_first));
  for (int i = 0; i < n; i++) {
    tc_val before = load(s, tile, p->acc, tc_build_lanes(E, sum[i]), add_i64(s, at, i * apart), TC_NONE);
    set(s, sum[i], add(s, before, sum[i]));
  }
  end_if(s);
  for (int i = 0; i < n; i++) store(s, tile, add_i64(s, at, i * apart), sum[i]);
}

void tc_matmul_end_chain(tc_matmul_emitter *p, tc_val chain, tc_val at, int apart, const tc_val *acc, int n) {
  tc_emit_ctx *s = p->s;
  tc_val zero = i64(s, 0), group = i64(s, TC_CHAIN_GROUP), next = add_i64(s, chain, p->chain);
  bool groups = tc_chain_groups(p->of.k);
  add_to_tile(p, p->totals, bin(s, TC_IR_EQ, groups ? bin(s, TC_IR_REM, chain, group) : chain, zero), at, apart, acc,
              n);
  if (!groups) return;
  begin_if(s, bin(s, TC_IR_OR, bin(s, TC_IR_EQ, bin(s, TC_IR_REM, next, group), zero),
                  bin(s, TC_IR_GE, next, i64(s, p->of.k))));
  add_to_tile(p, p->groups, bin(s, TC_IR_LT, chain, group), at, apart, acc, n);
  end_if(s);
}

// Sums the current panel over all of k, chain by chain; k is one chunk.
static void sum_chains(tc_matmul_emitter *p, const tc_matmul_rows *r, const tc_matmul_unit *u, tc_val panel,
                       tc_val *acc) {
  tc_emit_ctx *s = p->s;
  tc_matmul_rows rows = *r;
  tc_matmul_unit part = *u;
  part.k0 = loop(s, u->k0, u->k1, p->chain), part.k1 = end_of_chain(p, part.k0, u->k1);
  if (r->prefetch_from != TC_NONE)
    rows.prefetch_from = add(s, r->prefetch_from, times(s, sub(s, part.k0, u->k0), share_of(p)));
  tc_matmul_sum(p, &rows, &part, panel, TC_NONE, acc);
  tc_matmul_end_chain(p, part.k0, r->sums, p->by.lanes, acc, r->n);
  end(s);
}

// Sums one chunk, and ends the chain after its last chunk.
static void sum_chunk(tc_matmul_emitter *p, const tc_matmul_rows *r, const tc_matmul_unit *u, tc_val panel,
                      tc_val so_far, tc_val *acc) {
  tc_emit_ctx *s = p->s;
  bool waits = p->by.chunk < p->chain;  // for the chain's other chunks
  tc_val ends = bin(s, TC_IR_EQ, u->k1, u->chain_end);
  tc_matmul_sum(p, r, u, panel, waits ? so_far : TC_NONE, acc);
  if (waits) {
    begin_if(s, tc_build_un(E, TC_IR_NOT, ends));
    for (int i = 0; i < r->n; i++) store(s, p->sums, sums_of(p, r, i), acc[i]);
    end_if(s);
    begin_if(s, ends);
  }
  tc_matmul_end_chain(p, u->chain, r->sums, p->by.lanes, acc, r->n);
  if (waits) end_if(s);
}

void tc_matmul_multiply(tc_matmul_emitter *p, const tc_matmul_rows *r, const tc_matmul_unit *u, tc_val panel,
                        tc_val so_far) {
  tc_emit_ctx *s = p->s;
  tc_val acc[32];
  if (p->chains && p->chunks)
    sum_chunk(p, r, u, panel, so_far, acc);
  else if (p->chains)
    sum_chains(p, r, u, panel, acc);
  else
    tc_matmul_sum(p, r, u, panel, so_far, acc);
  if (p->direct) {
    for (int i = 0; i < r->n; i++) {
      bool may_lack = r->last != TC_NONE && i > 0;
      if (may_lack) begin_if(s, bin(s, TC_IR_GE, r->last, i64(s, i)));
      tc_matmul_finish_row(p, add_i64(s, r->row, i), acc[i]);
      if (may_lack) end_if(s);
    }
    return;
  }
  for (int i = 0; i < r->n && !p->chains; i++) store(s, p->sums, sums_of(p, r, i), acc[i]);
  if (p->chunks) begin_if(s, bin(s, TC_IR_EQ, u->k1, i64(s, p->of.k)));
  tc_matmul_finish_rows(p, r, r->sums);
  if (p->chunks) end_if(s);
}

// Multiplies one tile of rows at a panel: finds the offset of its sums, and whether there are
// earlier ones.
static void multiply_panel(tc_matmul_emitter *p, tc_matmul_rows r, const tc_matmul_unit *u, tc_val panel) {
  tc_val so_far = p->chunks ? bin(p->s, TC_IR_NE, u->k0, u->chain) : TC_NONE;
  if (p->chunks) {
    int64_t row = p->by.by_panel ? p->by.lanes : p->by.unit_panels * p->by.lanes;
    int64_t column = p->by.by_panel ? p->by.unit_tiles * p->by.rows * p->by.lanes : (int64_t)r.n * p->by.lanes;
    r.sums = add(p->s, times(p->s, sub(p->s, r.row, u->row), row), times(p->s, sub(p->s, panel, u->p0), column));
  }
  tc_matmul_multiply(p, &r, u, panel, so_far);
}

// Returns the element from which on the tile prefetches its part of what is packed next; TC_NONE:
// no prefetch. That is the next chunk at this panel, or the next unit's columns.
static tc_val next_of(tc_matmul_emitter *p, const tc_matmul_rows *r, const tc_matmul_unit *u) {
  bool rows = p->b.col == 1, columns = p->b.row == 1 && !p->b.panel;
  if (!p->by.pack || p->by.by_panel || !(rows || columns) || p->of.m > PREFETCH_ROWS || p->units) return TC_NONE;
  tc_val tile = bin(p->s, TC_IR_DIV, sub(p->s, r->row, u->row), i64(p->s, r->n)),
         first = times(p->s, tile, next_pieces(p).n);
  tc_val row = times(p->s, p->chunks ? u->k1 : u->k0, p->step);
  tc_val column = add_i64(p->s, p->s->at[TC_RANGE_K], p->chunks ? 0 : p->by.unit_panels * p->by.lanes);
  if (rows)
    row = add(p->s, row, first);
  else
    column = add(p->s, column, first);
  return add(p->s, p->b.at, add(p->s, times(p->s, row, p->b.row), times(p->s, column, p->b.col)));
}

// Returns tiles `from` to `to`, all of `rows` rows; the first row of a tile is tile * rows +
// before.
static tiles tiles_at(tc_matmul_emitter *p, int rows, int64_t before, tc_val from, tc_val to) {
  tc_val constant = i64(p->s, before);
  return (tiles){rows, add(p->s, times(p->s, from, rows), constant), add(p->s, times(p->s, to, rows), constant), false};
}

// Finds the tiles of the unit's rows; returns how many kinds there are. Where the number of rows is
// an argument: whole tiles, then tiles of fewer rows, of which the last one may lack some.
static int tiles_of(tc_matmul_emitter *p, const tc_matmul_unit *u, tiles *of) {
  tc_emit_ctx *s = p->s;
  int n = 0, rows = p->by.rows;
  if (!p->units) {
    tc_val tall = i64(s, p->by.tall);
    of[n++] = tiles_at(p, rows, 0, u->t0, least(s, u->t1, tall));
    if (p->by.tall < p->by.tiles) of[n++] = tiles_at(p, rows - 1, p->by.tall, most(s, u->t0, tall), u->t1);
    return n;
  }
  int fewer = (int)tc_ceil_div(SUMS_IN_FLIGHT, TC_MAX_OF(p->by.lanes / vector_lanes(p), 1));
  tc_val from = u->row;
  if (fewer < rows) {
    tc_val to = sub(s, u->end, bin(s, TC_IR_REM, sub(s, u->end, from), i64(s, rows)));
    of[n++] = (tiles){rows, from, to, false};
    from = to, rows = fewer;
  }
  of[n++] = (tiles){rows, from, u->end, rows > 1};
  return n;
}

// Moves r to the tile at `row`.
static void enter_tile(tc_matmul_emitter *p, const tiles *t, tc_val row, tc_matmul_rows *r) {
  r->row = row;
  if (t->is_partial) r->last = sub(p->s, t->last, add_i64(p->s, row, 1));
}

// Multiplies tiles: each tile over the unit's panels, or each panel over the tiles that are packed.
static void multiply_tiles(tc_matmul_emitter *p, const tiles *t, const tc_matmul_unit *u) {
  tc_emit_ctx *s = p->s;
  int rows = t->rows;
  tc_val first = t->first, last = t->last;
  bool packs = p->by.pack_a || p->by.widen_a;
  if (packs) {
    first = loop(s, first, last, p->by.a_tiles * rows);
    last = least(s, last, add_i64(s, first, p->by.a_tiles * rows));
  }
  tc_matmul_pack_a(p, rows, first, last, u);
  tc_matmul_rows r = tc_matmul_rows_of(rows, i64(s, 0));
  r.k0 = u->k0;
  if (!p->by.by_panel) enter_tile(p, t, loop(s, first, last, rows), &r);
  tc_val panel = loop(s, u->p0, u->p1, 1);
  tc_matmul_enter_panel(p, panel);
  if (p->by.by_panel) enter_tile(p, t, loop(s, first, last, rows), &r);
  if (packs) r.packed = times(s, sub(s, r.row, first), p->a_pitch);
  r.next = next_of(p, &r, u);
  multiply_panel(p, r, u, panel);
  end(s);
  end(s);
  if (packs) end(s);
}

// Multiplies tiles at one panel of a b in panels.
static void multiply_rows(tc_matmul_emitter *p, const tiles *t, const tc_matmul_unit *u, tc_val panel) {
  tc_emit_ctx *s = p->s;
  tc_val row = loop(s, t->first, t->last, t->rows);
  tc_matmul_rows r = tc_matmul_rows_of(t->rows, i64(s, 0));
  enter_tile(p, t, row, &r);
  if (p->by.tiles > 1) {  // one tile is one stream over the unit's panels, which the hardware prefetcher follows
    tc_val tile = bin(s, TC_IR_DIV, sub(s, r.row, u->row), i64(s, t->rows));
    tc_val next = add(s, p->b.at, times(s, add_i64(s, panel, 1), p->by.lanes * p->b.col));
    r.prefetch_from = add(s, add(s, next, times(s, u->k0, p->b.row)), times(s, tile, p->by.chunk * share_of(p)));
  }
  multiply_panel(p, r, u, panel);
  end(s);
}

// Multiplies panel by panel; each panel stays in the cache for all the unit's rows.
static void multiply_panels(tc_matmul_emitter *p, const tc_matmul_unit *u) {
  tiles of[MOST_HEIGHTS];
  tc_val panel = loop(p->s, u->p0, u->p1, 1);
  tc_matmul_enter_panel(p, panel);
  int n = tiles_of(p, u, of);
  for (int i = 0; i < n; i++) multiply_rows(p, &of[i], u, panel);
  end(p->s);
}

void tc_matmul_multiply_unit(tc_matmul_emitter *p, const tc_matmul_unit *u) {
  tiles of[MOST_HEIGHTS];
  if (p->b.panel && !p->by.pack_a) {
    multiply_panels(p, u);
    return;
  }
  int n = tiles_of(p, u, of);
  for (int i = 0; i < n; i++) multiply_tiles(p, &of[i], u);
}
