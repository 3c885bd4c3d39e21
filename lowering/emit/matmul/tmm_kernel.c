// Emits matmuls of bf16, and of bytes, by tile registers. Blocks go over all of k, or a chain of
// it. They have 32 rows and up to 32 columns, or up to 16 rows and 64 columns.
//
// In: a unit of a tc_matmul_emitter whose b is packed, or in panels of words in memory. Out: its
// rows of a packed, group by group, its products, and the epilogue.
// A step is a whole register of k: 16 words, each a pair of bf16 or four bytes. Rows of a are
// packed as registers, 16 rows of 16 words one behind the other. So a load reads 1024 bytes in
// order. Panels of b are as DOT and DOT4 have them. Each row is a word along k, and a register is
// 16 columns of 16 rows.
// Words behind k are zeros in both operands. Where panels lie in memory, the last step reads a copy
// with zeros. Where one block has all rows, registers have no more rows than there are. Products
// and loads cost as much less. Else rows behind the last one are whatever was there; what they give
// is not read.
// A block's sums go to a tile that stays in the first-level cache. The epilogue reads them row by
// row.
// Invariants: of bf16, each step is a chain of the even elements and one of the odd ones. They are
// joined and added to the sum. Long sums are several chains (summation.h). Sums of bytes are exact.
// No tiling changes a bit.
#include "lowering/emit/matmul/matmul_types.h"

#define E (&p->s->e)
#define SIDE TC_TMM_SIDE
#define REGISTER (SIDE * SIDE)  // words
#define SUMS 4  // registers of a block: one by four, or two by two

// Most registers of a block's columns. Few rows read b in the order of memory.
static int block_columns(const tc_matmul_emitter *p) {
  return TC_MIN(p->by.lanes, p->by.rows == SIDE ? SUMS * SIDE : SUMS / 2 * SIDE) / SIDE;
}

// Numbers of the registers: c 0 to 3, a 4, or 4 and 5, and b the others in turn.
enum { TMM_A = SUMS };
static unsigned tmm_of_c(int i, int j) {
  return (unsigned)(i * SUMS / 2 + j);
}
static unsigned tmm_of_b(const tc_matmul_emitter *p, int j) {
  const int first = TMM_A + p->by.rows / SIDE;
  return (unsigned)(first + j % (TC_KIR_TMMS - first));
}

// Rows of register i of a block.
static unsigned tmm_rows(const tc_matmul_emitter *p, int i) {
  return p->units || p->by.tiles > 1 ? SIDE : (unsigned)TC_MIN(p->of.m - i * SIDE, SIDE);
}

// ---- packing ----

// Returns the steps from k0 to k1, the last one perhaps partial.
static tc_val steps_between(tc_matmul_emitter *p, tc_val k0, tc_val k1) {
  return div_by(p->s, add_i64(p->s, sub(p->s, k1, k0), SIDE - 1), SIDE);
}

// Stores zeros behind the last word of the unit's packed panels, up to a whole step.
static void pad_b(tc_matmul_emitter *p, const tc_matmul_unit *u) {
  tc_emit_ctx *s = p->s;
  if (p->of.k % SIDE == 0) return;
  tc_val many = sub(s, u->k1, u->k0), zero = splat(s, const_i(s, TC_I32, 0), p->by.lanes);
  tc_val panel = loop_to(s, sub(s, u->p1, u->p0), 1);
  tc_val k = loop(s, many, times(s, steps_between(p, u->k0, u->k1), SIDE), 1);
  store(s, p->packed, add(s, times(s, panel, p->by.chunk * p->by.lanes), times(s, k, p->by.lanes)), zero);
  end(s);
  end(s);
}

// Returns where the packed words of row i of the group begin.
static tc_val packed_row(tc_matmul_emitter *p, tc_val i) {
  return add(p->s, times(p->s, div_by(p->s, i, SIDE), SIDE * p->by.chunk), times(p->s, rem_by(p->s, i, SIDE), SIDE));
}

// Loads `lanes` words of a row of a. mask: over elements, or TC_NONE.
static tc_val load_words(tc_matmul_emitter *p, tc_val at, int lanes, tc_val mask) {
  return bitcast(p->s, TC_I32, lanes, load(p->s, p->a.buf, p->a.type, lanes * p->step, at, mask));
}

// Packs one row of a that is contiguous along k, a step at a time. from: its element at k0.
static void pack_row(tc_matmul_emitter *p, tc_val from, tc_val to, const tc_matmul_unit *u) {
  tc_emit_ctx *s = p->s;
  tc_val many = sub(s, u->k1, u->k0), whole = sub(s, many, rem_by(s, many, SIDE));
  tc_val k = loop_to(s, whole, SIDE);
  tc_val v = load_words(p, add(s, from, times(s, k, p->step)), SIDE, TC_NONE);
  store(s, p->packed_a, add(s, to, times(s, k, SIDE)), v);
  end(s);
  if (p->of.k % SIDE == 0) return;
  begin_if(s, bin(s, TC_IR_LT, whole, many));
  tc_val left = times(s, sub(s, many, whole), p->step);
  tc_val mask = bin(s, TC_IR_LT, tc_emit_numbers(s, TC_I32, p->step * SIDE), cast(s, left, TC_I32));
  v = load_words(p, add(s, from, times(s, whole, p->step)), SIDE, mask);
  store(s, p->packed_a, add(s, to, times(s, whole, SIDE)), v);
  end_if(s);
}

// Packs one row of a whose k is in segments. Those of whole steps go a step at a time, others a
// word at a time.
static void pack_segments(tc_matmul_emitter *p, tc_val from, tc_val to, const tc_matmul_unit *u) {
  tc_emit_ctx *s = p->s;
  const int width = p->a.segment % SIDE == 0 ? SIDE : 1;
  tc_val many = sub(s, u->k1, u->k0), zero = const_i(s, TC_I32, 0);
  tc_val segment = loop(s, sub(s, u->k0, rem_by(s, u->k0, p->a.segment)), u->k1, p->a.segment);
  tc_val at = add(s, from, tc_matmul_at_range(p, &p->a.segments, TC_RANGE_K0, times(s, segment, p->step)));
  tc_val k = loop(s, most(s, segment, u->k0), least(s, add_i64(s, segment, p->a.segment), u->k1), width);
  tc_val v = load_words(p, add(s, at, times(s, sub(s, k, segment), p->step)), width, TC_NONE);
  tc_val in = sub(s, k, u->k0), step = div_by(s, in, SIDE);
  store(s, p->packed_a, add(s, to, add(s, times(s, step, REGISTER), rem_by(s, in, SIDE))), v);
  end(s);
  end(s);
  if (p->of.k % SIDE == 0) return;
  k = loop(s, many, times(s, steps_between(p, u->k0, u->k1), SIDE), 1);
  store(s, p->packed_a, add(s, to, add(s, times(s, div_by(s, k, SIDE), REGISTER), rem_by(s, k, SIDE))), zero);
  end(s);
}

static void pack_rows_of_a(tc_matmul_emitter *p, tc_val first, tc_val last, const tc_matmul_unit *u) {
  tc_emit_ctx *s = p->s;
  tc_matmul_rows r = tc_matmul_rows_of(1, i64(s, 0));
  r.row = loop(s, first, last, 1);
  tc_val from = tc_matmul_row_of_a(p, &r, 0), to = packed_row(p, sub(s, r.row, first));
  if (p->a.segment < p->of.k)
    pack_segments(p, from, to, u);
  else
    pack_row(p, add(s, from, times(s, u->k0, p->step)), to, u);
  end(s);
}

// Packs a register of a that is contiguous along its rows: words of 16 rows, transposed.
static void pack_transposed_step(tc_matmul_emitter *p, tc_val from, tc_val to, tc_val left_rows, tc_val left_words) {
  tc_emit_ctx *s = p->s;
  tc_val word[SIDE], part[4], rows = bin(s, TC_IR_LT, tc_emit_numbers(s, TC_I64, SIDE), left_rows);
  for (int j = 0; j < SIDE; j++) {
    tc_val mask = rows;
    if (left_words != TC_NONE) mask = bin(s, TC_IR_AND, rows, splat(s, bin(s, TC_IR_LT, i64(s, j), left_words), SIDE));
    for (int i = 0; i < p->step; i++)
      part[i] = load(s, p->a.buf, p->a.type, SIDE, add_i64(s, from, (p->step * j + i) * p->a.col), mask);
    word[j] = steps_by_bytes(p) ? tc_build_byte_words(E, part) : tc_build_words(E, part[0], part[1]);
  }
  tc_build_transpose(E, word, SIDE);
  for (int i = 0; i < SIDE; i++) store(s, p->packed_a, add_i64(s, to, i * SIDE), word[i]);
}

static void pack_columns_of_a(tc_matmul_emitter *p, tc_val first, tc_val last, const tc_matmul_unit *u) {
  tc_emit_ctx *s = p->s;
  tc_val many = sub(s, u->k1, u->k0), whole = sub(s, many, rem_by(s, many, SIDE));
  tc_val row = loop(s, first, last, SIDE), to = packed_row(p, sub(s, row, first)), left_rows = sub(s, last, row);
  tc_val from = add(s, add(s, p->a.at, row), times(s, u->k0, p->step * p->a.col));
  tc_val k = loop_to(s, whole, SIDE);
  pack_transposed_step(p, add(s, from, times(s, k, p->step * p->a.col)), add(s, to, times(s, k, SIDE)), left_rows,
                       TC_NONE);
  end(s);
  if (p->of.k % SIDE != 0) {
    begin_if(s, bin(s, TC_IR_LT, whole, many));
    pack_transposed_step(p, add(s, from, times(s, whole, p->step * p->a.col)), add(s, to, times(s, whole, SIDE)),
                         left_rows, sub(s, many, whole));
    end_if(s);
  }
  end(s);
}

// ---- products ----

// Where the registers of b lie: a buffer, and in it the first word at the current panel. apart:
// from one word of k to the next.
typedef struct panel_of_b {
  int buf;
  tc_val at;
  int64_t apart;
} panel_of_b;

static panel_of_b find_panel(tc_matmul_emitter *p, const tc_matmul_unit *u, tc_val panel) {
  tc_emit_ctx *s = p->s;
  if (p->by.pack)
    return (panel_of_b){p->packed, times(s, sub(s, panel, u->p0), p->by.chunk * p->by.lanes), p->by.lanes};
  tc_val column = times(s, s->at[TC_RANGE_K], p->b.col);
  return (panel_of_b){p->b.buf, add(s, add(s, p->b.at, times(s, u->k0, p->b.row)), column), p->b.row};
}

// Returns the product of tile registers for the operands' types.
static tc_kir_op product_op(const tc_matmul_emitter *p) {
  switch (p->way) {
    case TC_MULTIPLY_I8_I8: return TC_IR_TMM_DOT_SS;
    case TC_MULTIPLY_I8_U8: return TC_IR_TMM_DOT_SU;
    case TC_MULTIPLY_U8_I8: return TC_IR_TMM_DOT_US;
    case TC_MULTIPLY_U8_U8: return TC_IR_TMM_DOT_UU;
    default: return TC_IR_TMM_DOT;
  }
}

// Whether the last step reads a copy of b with zeros behind k.
static bool copies_last(const tc_matmul_emitter *p) {
  return !p->by.pack && p->of.k % SIDE != 0;
}

// Copies the current panel's words of the last, partial step, if the chunk has one.
static void copy_last(tc_matmul_emitter *p, const tc_matmul_unit *u, const panel_of_b *b) {
  tc_emit_ctx *s = p->s;
  tc_val many = sub(s, u->k1, u->k0), left = rem_by(s, many, SIDE), whole = sub(s, many, left);
  begin_if(s, bin(s, TC_IR_GT, left, i64(s, 0)));
  for (int part = 0; part < 2; part++) {
    tc_val k = loop(s, part ? left : i64(s, 0), part ? i64(s, SIDE) : left, 1);
    tc_val from = add(s, b->at, times(s, add(s, whole, k), b->apart)), to = times(s, k, p->by.lanes);
    store(s, p->last_b, to, part ? zeros(s, TC_I32, p->by.lanes) : load(s, b->buf, TC_I32, p->by.lanes, from, TC_NONE));
    end(s);
  }
  end_if(s);
}

// Adds a step to the sums of a block of `m` by `n` registers. a, b: their first words.
static void multiply_step(tc_matmul_emitter *p, int m, int n, tc_val a, const panel_of_b *b) {
  tc_emit_ctx *s = p->s;
  tc_val apart_a = i64(s, SIDE), apart_b = i64(s, b->apart);
  for (int i = 0; i < m; i++)
    tc_build_tmm_load(E, (unsigned)(TMM_A + i), tmm_rows(p, i), SIDE, p->packed_a, TC_I32,
                      add_i64(s, a, i * SIDE * p->by.chunk), apart_a);
  for (int j = 0; j < n; j++) {
    tc_build_tmm_load(E, tmm_of_b(p, j), SIDE, SIDE, b->buf, TC_I32, add_i64(s, b->at, j * SIDE), apart_b);
    for (int i = 0; i < m; i++)
      tc_build_tmm_dot(E, product_op(p), (unsigned[]){tmm_of_c(i, j), (unsigned)(TMM_A + i), tmm_of_b(p, j)},
                       (unsigned[]){tmm_rows(p, i), SIDE, SIDE});
  }
}

// Prefetches, at a step of a block of rows and columns, its part of the next panel, which lies in
// memory, to the second-level cache. The blocks of a group of rows prefetch all of it.
// Measured: simple code, Intel with AMX, 1024x1024x1024 and more: 2 to 8 % of the time.
static void prefetch_next_panel(tc_matmul_emitter *p, const panel_of_b *b, tc_val k, tc_val block) {
  tc_emit_ctx *s = p->s;
  const int64_t lines = (int64_t)p->by.lanes, line = line_of(TC_I32),
                blocks = TC_MIN(p->by.a_tiles, p->by.unit_tiles) * (p->by.lanes / (block_columns(p) * SIDE)),
                share = tc_ceil_div(lines, blocks);
  tc_val next = add_i64(s, b->at, p->by.lanes * p->b.col);
  tc_val at = add(s, add(s, next, times(s, k, SIDE * b->apart)), times(s, block, share * line));
  for (int i = 0; i < share; i++) tc_build_prefetch(E, b->buf, add_i64(s, at, i * line), true);
}

// Multiplies a block of `m` registers of rows by `n` of columns, and stores its sums from element
// `column` of the tile of sums on. a: its first packed register; b: the panel; block: its number in
// the group of rows, or TC_NONE: nothing is prefetched.
static void multiply_block(tc_matmul_emitter *p, int m, int n, tc_val a, panel_of_b b, const tc_matmul_unit *u,
                           tc_val column, tc_val block) {
  tc_emit_ctx *s = p->s;
  tc_val apart = i64(s, p->by.lanes), many = sub(s, u->k1, u->k0);
  tc_val steps = copies_last(p) ? div_by(s, many, SIDE) : steps_between(p, u->k0, u->k1);
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) tc_build_tmm_zero(E, tmm_of_c(i, j), tmm_rows(p, i), SIDE);
  tc_val k = loop_to(s, steps, 1);
  if (block != TC_NONE) prefetch_next_panel(p, &b, k, block);
  b.at = add(s, add(s, b.at, column), times(s, k, SIDE * b.apart));
  multiply_step(p, m, n, add(s, a, times(s, k, REGISTER)), &b);
  end(s);
  if (copies_last(p)) {
    const panel_of_b last = {p->last_b, column, p->by.lanes};
    begin_if(s, bin(s, TC_IR_GT, rem_by(s, many, SIDE), i64(s, 0)));
    multiply_step(p, m, n, add(s, a, times(s, steps, REGISTER)), &last);
    end_if(s);
  }
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++)
      tc_build_tmm_store(E, tmm_of_c(i, j), tmm_rows(p, i), SIDE, p->sums, p->acc,
                         add_i64(s, column, i * SIDE * p->by.lanes + j * SIDE), apart);
}

// Adds the sums of a chain to those of the chains before it, row by row. totals: of the block.
static void end_chain(tc_matmul_emitter *p, const tc_matmul_unit *u, tc_val count, tc_val totals) {
  tc_emit_ctx *s = p->s;
  tc_val i = loop_to(s, count, 1), at = times(s, i, p->by.lanes), sum = var(s, load_tile(p, p->sums, at));
  tc_matmul_end_chain(p, u->k0, add(s, totals, at), p->by.lanes, &sum, 1);
  end(s);
}

// Multiplies the rows from `row` up to `last`, at most `m` registers of them, by a panel, and
// finishes them. in: the number of the row in its group.
static void multiply_rows(tc_matmul_emitter *p, const tc_matmul_unit *u, int m, tc_val panel, tc_val row, tc_val last,
                          tc_val in) {
  tc_emit_ctx *s = p->s;
  const int n = block_columns(p);
  const int64_t blocks = p->by.lanes / (n * SIDE);
  panel_of_b b = find_panel(p, u, panel);
  tc_val a = packed_row(p, in), count = least(s, i64(s, m * SIDE), sub(s, last, row)), block = TC_NONE;
  if (!p->by.pack && p->by.tiles > 1) block = times(s, div_by(s, in, p->by.rows), blocks);
  if (blocks == 1) {
    multiply_block(p, m, n, a, b, u, i64(s, 0), block);
  } else {  // blocks of columns that exist
    tc_val columns = least(s, i64(s, p->by.lanes), sub(s, i64(s, p->of.n), s->at[TC_RANGE_K]));
    tc_val column = loop_to(s, columns, n * SIDE);
    if (block != TC_NONE) block = add(s, block, div_by(s, column, n * SIDE));
    multiply_block(p, m, n, a, b, u, column, block);
    end(s);
  }
  int sums = p->sums;
  tc_val at = i64(s, 0);
  if (p->chains) {
    at = add(s, times(s, sub(s, row, u->row), p->by.unit_panels * p->by.lanes),
             times(s, sub(s, panel, u->p0), (int64_t)p->by.rows * p->by.lanes));
    end_chain(p, u, count, at);
    sums = tc_chain_groups(p->of.k) ? p->groups : p->totals;
    begin_if(s, bin(s, TC_IR_EQ, u->k1, i64(s, p->of.k)));
  }
  tc_val i = loop_to(s, count, 1);
  tc_matmul_finish_row(p, add(s, row, i), load_tile(p, sums, add(s, at, times(s, i, p->by.lanes))));
  end(s);
  if (p->chains) end_if(s);
}

// Multiplies the rows first to last by a panel: whole blocks, then the rest. With a known number of
// rows that has one height.
static void multiply_group(tc_matmul_emitter *p, const tc_matmul_unit *u, tc_val panel, tc_val first, tc_val last) {
  tc_emit_ctx *s = p->s;
  const int64_t rows = p->by.rows, known_rest = p->units ? 0 : p->of.m % rows;
  tc_val whole = sub(s, last, rem_by(s, sub(s, last, first), rows)), left = sub(s, last, whole);
  if (p->units || p->of.m >= rows) {
    tc_val row = loop(s, first, whole, rows);
    multiply_rows(p, u, (int)rows / SIDE, panel, row, last, sub(s, row, first));
    end(s);
  }
  for (int m = 1; m <= rows / SIDE; m++) {
    if (!p->units && tc_ceil_div(known_rest, SIDE) != m) continue;
    tc_val above = bin(s, TC_IR_GT, left, i64(s, (m - 1) * SIDE));
    begin_if(s, bin(s, TC_IR_AND, above, bin(s, TC_IR_LE, left, i64(s, m * SIDE))));
    multiply_rows(p, u, m, panel, whole, last, sub(s, whole, first));
    end_if(s);
  }
}

void tc_matmul_multiply_tmm(tc_matmul_emitter *p, const tc_matmul_unit *u) {
  tc_emit_ctx *s = p->s;
  const int64_t group = p->by.a_tiles * p->by.rows;
  if (p->by.pack) pad_b(p, u);
  tc_val end_row = u->end != TC_NONE ? u->end : least(s, times(s, u->t1, p->by.rows), i64(s, p->of.m));
  tc_val first = loop(s, u->row, end_row, group), last = least(s, end_row, add_i64(s, first, group));
  if (p->a.col == 1)
    pack_rows_of_a(p, first, last, u);
  else
    pack_columns_of_a(p, first, last, u);
  tc_val panel = loop(s, u->p0, u->p1, 1);
  tc_matmul_enter_panel(p, panel);
  if (copies_last(p)) {
    const panel_of_b b = find_panel(p, u, panel);
    copy_last(p, u, &b);
  }
  multiply_group(p, u, panel, first, last);
  end(s);
  s->mask = TC_NONE;
  end(s);
}
