// Products: c[A, M, N] = sum over K of a[A, M, K] * b[A, K, N], with what follows elementwise applied to the finished values.
//
// [begin, end) counts units, a unit being a block of rows by a block of columns of one batch:
//   for each chunk of K (one unless K is long):
//     pack: the unit's columns of b go to a tile of the worker, `lanes` columns a panel, where b is not read well in place
//     for each tile of `rows` rows, for each panel: rows x lanes accumulators in registers, over k
//     (rows of a that lie far apart in k go to a tile too, some tiles of rows at a time)
//   what follows: straight from the registers where it is one store, else from a tile, row by row
// Order: an element is one chain over k from zero, so its bits depend on no blocking, and on the instruction set only in whether it has a fused
// multiply-add. The blocking depends on shapes and the instruction set alone.
#include <string.h>

#include "lowering/expand_state.h"
#include "lowering/kernel.h"

#define LONG_K 2048        // beyond it K goes in chunks
#define CHUNK 1024
#define PACKED_CHUNK 256   // where rows of a are packed: so many, that packing them serves many columns
#define PACK_BYTES 524288  // of packed columns in a worker's second-level cache
#define UNIT_NS 15000.0    // work one unit should have, where shapes allow

#define LEAST_SEGMENT 8    // steps along k at one stride, for an operand to be read where it lies

// An operand in memory: element base + row * row_stride + column * col_stride. The left one may lie in pieces, as windows and moved axes do:
// base + rows(row) + segments(k) + (k % segment) * col_stride.
typedef struct factor {
  int buf;
  tc_type type;
  tc_index base;  // over A and arguments
  int64_t row, col;
  bool scattered;          // rows have no one stride
  tc_index rows, segments; // over F; over K0 at the start of a segment
  int64_t segment;         // steps of k at stride col; K if there is one
  tc_val at;      // base of the present batch
} factor;

typedef struct product {
  tc_ex *s;
  uint32_t node;
  tc_type acc;         // type of the accumulators
  int64_t m, n, k;
  int lanes, rows;
  bool fused;          // multiply-add in one rounding
  bool pack, direct;   // direct: one store follows, in the accumulators' type
  int64_t panels, row_block, chunk;
  bool pack_a;
  int packed, packed_a, sums;  // tiles
  int64_t a_rows, a_pitch;     // rows of a packed at a time; elements from k to k there
  int64_t sum_pitch;   // elements from row to row of the sums
  factor a, b;
} product;

// ---- operands ----

static tc_index range(uint8_t r) {
  tc_index x = tc_ix_const(0);
  (void)tc_ix_add_term(&x, (tc_term){TC_TERM_RANGE, r, 0, 1, 0, 1});
  return x;
}

// Takes the terms of range r out of x as a stride; false if they are not one multiple of it.
static bool take_stride(tc_index *x, uint8_t r, int64_t *stride) {
  tc_index rest = tc_ix_const(x->base);
  *stride = 0;
  for (int i = 0; i < x->n; i++) {
    const tc_term *t = &x->term[i];
    if (t->kind != TC_TERM_RANGE || t->range != r) {
      if (!tc_ix_add_term(&rest, *t)) return false;
    } else if (t->div != 1 || t->mod != 0 || *stride != 0) {
      return false;
    } else {
      *stride = t->coef;
    }
  }
  *x = rest;
  return true;
}

// Takes range r's terms out of x into *taken.
static bool take_terms(tc_index *x, uint8_t r, tc_index *taken) {
  tc_index rest = tc_ix_const(x->base);
  *taken = tc_ix_const(0);
  for (int i = 0; i < x->n; i++) {
    const tc_term *t = &x->term[i];
    if (!tc_ix_add_term(t->kind == TC_TERM_RANGE && t->range == r ? taken : &rest, *t)) return false;
  }
  *x = rest;
  return true;
}

// The left operand's terms: rows by one stride or scattered, k by one stride or in segments of whole strides.
static bool take_pieces(product *p, tc_index *x, factor *f) {
  if (!take_terms(x, TC_RANGE_F, &f->rows) || !take_terms(x, TC_RANGE_K0, &f->segments)) return false;
  tc_index one = f->rows, in = tc_ix_const(0);
  f->scattered = !take_stride(&one, TC_RANGE_F, &f->row);
  f->segment = p->k;
  for (int i = 0; i < f->segments.n; i++)
    if (f->segments.term[i].div > 1) f->segment = TC_MIN(f->segment, f->segments.term[i].div);
  tc_index out = tc_ix_const(0);
  for (int i = 0; i < f->segments.n; i++) {
    const tc_term *t = &f->segments.term[i];
    bool inner = t->div < f->segment;
    if (inner && (t->div != 1 || (t->mod && t->mod != f->segment) || in.n)) return false;
    if (!inner && t->div % f->segment) return false;
    if (!tc_ix_add_term(inner ? &in : &out, *t)) return false;
  }
  if (f->segment < p->k && (f->segment < LEAST_SEGMENT || p->k % f->segment)) return false;
  if (in.n && in.term[0].mod == 0 && f->segment < p->k) return false;
  f->col = in.n ? in.term[0].coef : 0;
  f->segments = out;
  return true;
}

// Finds operand k in memory, through views; its rows follow range row and its columns range col.
static bool find_factor(product *p, int k, uint8_t row, uint8_t col, factor *f) {
  tc_ex *s = p->s;
  const tc_gnode *x = &s->g->node[p->node];
  const tc_dims *d = &x->shape->d;
  uint32_t n = x->in[k];
  tc_index idx[TC_MAX_RANK], at[TC_MAX_RANK];
  if (!tc_view_position(s->gp, &s->ext, TC_LEVEL_FULL, d, idx)) return tc_ex_unsaid(s, p->node, "a position cannot be said"), false;
  idx[d->rank - 2] = range(row), idx[d->rank - 1] = range(col);
  while (!s->gr->stored[tc_group_root(s->gr, n)]) {
    if (!tc_view_operand(s->g, n, 0, idx, &s->ext, at)) return s->x->unsaid = x->in[k], tc_ex_fail(s, TC_ERR_STATE, "a factor cannot be said"), false;
    n = s->g->node[n].in[0];
    memcpy(idx, at, sizeof idx);
  }
  const tc_gnode *root = &s->g->node[n];
  bool said = tc_ix_flatten(idx, &root->shape->d, &s->ext, &f->base);
  said = said && (k == 0 ? take_pieces(p, &f->base, f) : take_stride(&f->base, row, &f->row) && take_stride(&f->base, col, &f->col));
  if (!said) return s->x->unsaid = x->in[k], tc_ex_fail(s, TC_ERR_STATE, "a factor cannot be said"), false;
  f->buf = tc_ex_buffer(s, n);
  s->x->same &= ~(UINT64_C(1) << f->buf);
  f->type = root->type;
  return true;
}

// ---- blocking ----

static int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Lanes of a panel: as many as the registers allow unless that computes many columns nobody wants.
static int choose_lanes(int64_t n, int vector, int most) {
  int best = most;
  for (int lanes = most; lanes >= vector; lanes /= 2)
    if (ceil_div(n, lanes) * lanes * 11 < ceil_div(n, best) * best * 10) best = lanes;
  while (best > 1 && best / 2 >= n) best /= 2;
  return best;
}

static void choose_blocks(product *p) {
  int size = (int)tc_type_bytes(p->acc), bytes = tc_kernel_vector_bytes(), registers = bytes == 64 ? 24 : 12;
  int vector = TC_MIN(bytes / size, LANES), most = TC_MIN(bytes == 64 ? 4 * vector : 2 * vector, LANES);
  p->fused = bytes >= 32 && tc_type_is_float(p->acc);
  p->lanes = choose_lanes(p->n, vector, most);
  p->rows = registers / TC_MAX_OF(p->lanes / vector, 1);
  p->rows = (int)ceil_div(p->m, ceil_div(p->m, p->rows));
  int64_t n_panels = ceil_div(p->n, p->lanes), row_tiles = ceil_div(p->m, p->rows);
  int64_t pitch = p->b.row * (int64_t)tc_type_bytes(p->b.type);
  bool far = pitch >= 4096 || pitch * p->k > 2 * PACK_BYTES;  // each k in a page of its own, or all of them beyond the second-level cache
  p->pack = (p->b.col != 1 && p->n > 1) || (p->b.type != p->acc && row_tiles > 1) || (far && row_tiles > 4);
  p->pack_a = !p->a.scattered && p->a.segment == p->k && p->a.row == 1 && p->a.col * (int64_t)tc_type_bytes(p->a.type) >= 4096 && p->k >= 256 &&
              row_tiles > 1;
  p->a_rows = 8 * p->rows, p->a_pitch = ceil_div(p->a_rows, 16) * 16;
  p->chunk = p->pack_a ? PACKED_CHUNK : p->k > LONG_K ? CHUNK : p->k;
  int64_t whole = p->a.segment < p->k ? p->a.segment : 1;  // a chunk ends where a segment does
  if (p->chunk < p->k) p->chunk = TC_MAX_OF(p->chunk / whole, 1) * whole;
  p->panels = p->pack ? TC_MAX_OF(TC_MIN(PACK_BYTES / (p->chunk * p->lanes * size), n_panels), 1) : n_panels;
  p->row_block = row_tiles * p->rows;
  if (p->chunk < p->k) p->row_block = TC_MIN(p->row_block, 32 * p->rows), p->panels = TC_MIN(p->panels, p->pack_a ? 8 : 4);
  double want = TC_MIN(2.0 * (double)(p->s->gp->a * p->m * p->n) * (double)p->k / 200 / UNIT_NS, p->pack ? 16 : 64);
  while ((double)(p->s->gp->a * ceil_div(n_panels, p->panels) * ceil_div(p->m, p->row_block)) < want) {
    if (p->panels > 1 && (p->pack || p->row_block <= 8 * p->rows))
      p->panels = (p->panels + 1) / 2;
    else if (p->row_block > (p->pack ? 32 : 4) * p->rows)
      p->row_block = ceil_div(ceil_div(p->row_block, 2), p->rows) * p->rows;
    else
      break;
  }
}

// ---- pieces of code ----

#define E (&p->s->e)

static tc_val add(product *p, tc_val a, tc_val b) {
  return tc_emit_bin(E, TC_N_ADD, a, b);
}

static tc_val sub(product *p, tc_val a, tc_val b) {
  return tc_emit_bin(E, TC_N_SUB, a, b);
}

static tc_val times(product *p, tc_val a, int64_t b) {
  return b == 0 ? tc_ex_i64(p->s, 0) : tc_ex_scaled(p->s, a, b);
}

static tc_val loop(product *p, tc_val from, tc_val to, int64_t step) {
  p->s->depth++;
  return tc_emit_loop(E, from, to, step);
}

static void end(product *p) {
  tc_ex_leave(p->s);
  tc_emit_end(E, TC_N_ENDLOOP);
}

static void enter_panel(product *p, tc_val panel) {
  tc_ex *s = p->s;
  s->at[TC_RANGE_K] = times(p, panel, p->lanes);
  s->mask = TC_NONE;
  if (p->n % p->lanes) tc_ex_set_mask(s, s->at[TC_RANGE_K], tc_ex_i64(s, p->n));
}

// `lanes` columns of b at row k, from the present panel.
static tc_val load_b(product *p, tc_val k) {
  tc_ex *s = p->s;
  tc_val at = add(p, add(p, p->b.at, times(p, k, p->b.row)), times(p, s->at[TC_RANGE_K], p->b.col)), v;
  if (p->b.col == 1 || p->lanes == 1) {
    v = tc_emit_raw(E, TC_N_LOAD, p->b.type, p->lanes, at, s->mask, TC_NONE, p->b.buf);
  } else {
    at = add(p, times(p, tc_ex_lane_numbers(s), p->b.col), at);
    v = tc_emit_raw(E, TC_N_GATHER, p->b.type, p->lanes, tc_emit_splat(E, at, p->lanes), s->mask, TC_NONE, p->b.buf);
  }
  return tc_emit_cast(E, v, p->acc);
}

static tc_val load_tile(product *p, int tile, tc_val at) {
  return tc_emit_raw(E, TC_N_LOAD, p->acc, p->lanes, at, TC_NONE, TC_NONE, tile);
}

static void store_tile(product *p, int tile, tc_val at, tc_val v) {
  (void)tc_emit_raw(E, TC_N_STORE, p->acc, p->lanes, at, v, TC_NONE, tile);
}

// A block of `size` columns of b, contiguous along k, from row k and column: read along k, turned in registers, stored along the columns.
static void pack_block(product *p, tc_val k, tc_val column, tc_val to, int size) {
  tc_val v[64], from = add(p, add(p, p->b.at, k), times(p, column, p->b.col));
  for (int i = 0; i < size; i++)
    v[i] = tc_emit_raw(E, TC_N_LOAD, p->acc, size, add(p, from, tc_ex_i64(p->s, i * p->b.col)), TC_NONE, TC_NONE, p->b.buf);
  tc_emit_turn(E, v, size);
  for (int i = 0; i < size; i++) (void)tc_emit_raw(E, TC_N_STORE, p->acc, size, add(p, to, tc_ex_i64(p->s, i * p->lanes)), v[i], TC_NONE, p->packed);
}

// The panels of whole blocks, and of those the rows of whole blocks. Returns the first row left for them.
static tc_val pack_turned(product *p, tc_val p0, tc_val panels, tc_val k0, tc_val k1, int size) {
  tc_ex *s = p->s;
  tc_val rest = tc_emit_bin(E, TC_N_REM, sub(p, k1, k0), tc_ex_i64(s, size)), end_k = sub(p, k1, rest);
  tc_val panel = loop(p, p0, panels, 1);
  tc_val column = times(p, panel, p->lanes), to = times(p, sub(p, panel, p0), p->chunk * p->lanes);
  tc_val k = loop(p, k0, end_k, size);
  tc_val row = add(p, to, times(p, sub(p, k, k0), p->lanes));
  for (int c = 0; c < p->lanes; c += size) pack_block(p, k, add(p, column, tc_ex_i64(s, c)), add(p, row, tc_ex_i64(s, c)), size);
  end(p);
  end(p);
  return end_k;
}

// Rows k0 to k1 of panels p0 to p1, a row at a time; first: the first of the unit's panels.
static void pack_rows(product *p, tc_val first, tc_val p0, tc_val p1, tc_val base, tc_val k0, tc_val k1) {
  tc_val panel = loop(p, p0, p1, 1);
  enter_panel(p, panel);
  tc_val to = times(p, sub(p, panel, first), p->chunk * p->lanes);
  tc_val k = loop(p, k0, k1, 1);
  tc_val v = load_b(p, k);
  store_tile(p, p->packed, add(p, to, times(p, sub(p, k, base), p->lanes)), v);
  end(p);
  end(p);
}

static void pack(product *p, tc_val p0, tc_val p1, tc_val k0, tc_val k1) {
  int size = TC_MIN(tc_kernel_vector_bytes() / (int)tc_type_bytes(p->acc), p->lanes);
  if (p->b.row != 1 || p->b.type != p->acc || size < 4) {
    pack_rows(p, p0, p0, p1, k0, k0, k1);
    return;
  }
  tc_val whole = tc_emit_bin(E, TC_N_MAX, p0, tc_emit_bin(E, TC_N_MIN, p1, tc_ex_i64(p->s, p->n / p->lanes)));
  tc_val rest = pack_turned(p, p0, whole, k0, k1, size);
  pack_rows(p, p0, p0, whole, k0, rest, k1);
  pack_rows(p, p0, whole, p1, k0, k0, k1);
}

static void pack_a(product *p, tc_val row, tc_val k0, tc_val k1) {
  tc_ex *s = p->s;
  tc_val k = loop(p, k0, k1, 1), to = times(p, sub(p, k, k0), p->a_pitch);
  tc_val from = add(p, add(p, p->a.at, row), times(p, k, p->a.col)), lanes = tc_emit_raw(E, TC_N_LANES, TC_I64, 16, TC_NONE, TC_NONE, TC_NONE, 0);
  for (int64_t i = 0; i < p->a_pitch; i += 16) {
    tc_val at = tc_ex_i64(s, i), mask = tc_emit_bin(E, TC_N_LT, add(p, lanes, add(p, row, at)), tc_ex_i64(s, p->m));
    tc_val v = tc_emit_cast(E, tc_emit_raw(E, TC_N_LOAD, p->a.type, 16, add(p, from, at), mask, TC_NONE, p->a.buf), p->acc);
    (void)tc_emit_raw(E, TC_N_STORE, p->acc, 16, add(p, to, at), v, TC_NONE, p->packed_a);
  }
  end(p);
}

// What follows the product, at the present panel and one row.
static void finish_row(product *p, tc_val row, tc_val sum) {
  tc_ex *s = p->s;
  s->depth++;
  s->at[TC_RANGE_F] = row;
  tc_ex_remember(s, p->node, tc_ex_rounded(s, sum, s->g->node[p->node].type));
  tc_ex_stores(s);
  tc_ex_leave(s);
}

static void finish_rows(product *p, tc_val from, tc_val to, tc_val sums) {
  tc_val row = loop(p, from, to, 1);
  finish_row(p, row, load_tile(p, p->sums, add(p, sums, times(p, sub(p, row, from), p->sum_pitch))));
  end(p);
}

// The index's value where the range has this one.
static tc_val at_range(product *p, const tc_index *x, uint8_t range, tc_val value) {
  tc_ex *s = p->s;
  tc_val vec, outer = s->at[range];
  int64_t stride;
  bool bound = s->bound[range];
  s->at[range] = value, s->bound[range] = true;
  tc_val at = tc_ex_index_value(s, *x, &stride, &vec);
  s->at[range] = outer, s->bound[range] = bound;
  return at;
}

// Where row `row` + i of a begins, in memory or among the packed.
static tc_val row_of_a(product *p, tc_val row, tc_val first, int i) {
  tc_val constant = tc_ex_i64(p->s, i);
  if (p->pack_a) return add(p, sub(p, row, first), constant);
  if (p->a.scattered) return add(p, p->a.at, at_range(p, &p->a.rows, TC_RANGE_F, add(p, row, constant)));
  return add(p, add(p, p->a.at, times(p, row, p->a.row)), tc_ex_i64(p->s, i * p->a.row));
}

// rows x lanes elements, at the present panel: k0 to k1. first: the first row packed. from: where their sums so far are in the tile of sums, if K goes in chunks.
static void multiply(product *p, int rows, tc_val row, tc_val first, tc_val panel, tc_val p0, tc_val k0, tc_val k1, tc_val from) {
  tc_val acc[32], zero = tc_emit_splat(E, tc_emit_const_f(E, p->acc, 0), p->lanes);
  bool chunks = p->chunk < p->k;
  for (int i = 0; i < rows; i++) acc[i] = tc_emit_var(E, chunks ? load_tile(p, p->sums, add(p, from, tc_ex_i64(p->s, i * p->sum_pitch))) : zero);
  tc_val a[32], b = times(p, sub(p, panel, p0), p->chunk * p->lanes), segment = TC_NONE, in_a = TC_NONE, k;
  bool pieces = p->a.segment < p->k;
  for (int i = 0; i < rows; i++) a[i] = row_of_a(p, row, first, i);
  if (pieces) {
    segment = loop(p, k0, k1, p->a.segment);
    in_a = at_range(p, &p->a.segments, TC_RANGE_K0, segment);
    k = loop(p, segment, add(p, segment, tc_ex_i64(p->s, p->a.segment)), 1);
    in_a = add(p, in_a, times(p, sub(p, k, segment), p->a.col));
  } else {
    k = loop(p, k0, k1, 1);
    in_a = p->pack_a ? times(p, sub(p, k, k0), p->a_pitch) : times(p, k, p->a.col);
  }
  tc_val w = p->pack ? load_tile(p, p->packed, add(p, b, times(p, sub(p, k, k0), p->lanes))) : load_b(p, k);
  tc_type type = p->pack_a ? p->acc : p->a.type;
  for (int i = 0; i < rows; i++) {
    tc_val v = tc_emit_raw(E, TC_N_LOAD, type, 1, add(p, a[i], in_a), TC_NONE, TC_NONE, p->pack_a ? p->packed_a : p->a.buf);
    v = tc_emit_cast(E, v, p->acc);
    tc_emit_set(E, acc[i], p->fused ? tc_emit_fma(E, v, w, acc[i]) : add(p, acc[i], tc_emit_bin(E, TC_N_MUL, v, w)));
  }
  end(p);
  if (pieces) end(p);
  for (int i = 0; i < rows; i++) {
    if (p->direct)
      finish_row(p, add(p, row, tc_ex_i64(p->s, i)), acc[i]);
    else
      store_tile(p, p->sums, add(p, from, tc_ex_i64(p->s, i * p->sum_pitch)), acc[i]);
  }
  if (!p->direct && !chunks) finish_rows(p, row, add(p, row, tc_ex_i64(p->s, rows)), from);
}

// Tiles of `rows` rows, each over the unit's panels.
static void multiply_rows(product *p, int rows, tc_val from, tc_val to, tc_val r0, tc_val p0, tc_val p1, tc_val k0, tc_val k1) {
  bool chunks = p->chunk < p->k;
  tc_val first = from;
  if (p->pack_a) {
    first = loop(p, from, to, p->a_rows);
    to = tc_emit_bin(E, TC_N_MIN, to, add(p, first, tc_ex_i64(p->s, p->a_rows)));
    pack_a(p, first, k0, k1);
  }
  tc_val row = loop(p, first, to, rows);
  tc_val panel = loop(p, p0, p1, 1);
  enter_panel(p, panel);
  tc_val sums = tc_ex_i64(p->s, 0);
  if (chunks) sums = add(p, times(p, sub(p, row, r0), p->sum_pitch), times(p, sub(p, panel, p0), p->lanes));
  multiply(p, rows, row, first, panel, p0, k0, k1, sums);
  end(p);
  end(p);
  if (p->pack_a) end(p);
}

static void unit(product *p, tc_val r0, tc_val r1, tc_val p0, tc_val p1) {
  tc_ex *s = p->s;
  bool chunks = p->chunk < p->k;
  int64_t whole = p->m / p->rows * p->rows;
  tc_val k0 = tc_ex_i64(s, 0), k1 = tc_ex_i64(s, p->k);
  if (chunks) {
    tc_val at = loop(p, tc_ex_i64(s, 0), tc_ex_i64(s, p->row_block * p->sum_pitch), p->lanes);
    store_tile(p, p->sums, at, tc_emit_splat(E, tc_emit_const_f(E, p->acc, 0), p->lanes));
    end(p);
    k0 = loop(p, k0, k1, p->chunk);
    k1 = tc_emit_bin(E, TC_N_MIN, add(p, k0, tc_ex_i64(s, p->chunk)), k1);
  }
  if (p->pack) pack(p, p0, p1, k0, k1);
  if (whole) multiply_rows(p, p->rows, r0, tc_emit_bin(E, TC_N_MIN, r1, tc_ex_i64(s, whole)), r0, p0, p1, k0, k1);
  if (whole < p->m) multiply_rows(p, (int)(p->m - whole), tc_emit_bin(E, TC_N_MAX, r0, tc_ex_i64(s, whole)), r1, r0, p0, p1, k0, k1);
  if (!chunks) return;
  end(p);
  tc_val panel = loop(p, p0, p1, 1);
  enter_panel(p, panel);
  finish_rows(p, r0, r1, times(p, sub(p, panel, p0), p->lanes));
  end(p);
}

static bool find_product(product *p) {
  tc_ex *s = p->s;
  int n_stored = 0;
  p->node = TC_NONE;
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    uint32_t n = s->gp->member[i];
    if (tc_op_kind_of(s->g->node[n].op) == TC_KIND_CONTRACT) p->node = n;
    n_stored += tc_ex_must_store(s, n);
  }
  const tc_gnode *x = &s->g->node[p->node], *a = &s->g->node[x->in[0]];
  p->m = s->gp->f, p->n = s->gp->k, p->k = a->shape->d.dim[a->shape->d.rank - 1];
  p->acc = tc_ex_compute_type(x->type);
  p->direct = n_stored == 1 && tc_ex_must_store(s, p->node);
  s->ext.of[TC_RANGE_K0] = p->k;
  return find_factor(p, 0, TC_RANGE_F, TC_RANGE_K0, &p->a) && find_factor(p, 1, TC_RANGE_K0, TC_RANGE_K, &p->b);
}

static tc_val base_of(product *p, const factor *f) {
  int64_t stride;
  tc_val vec;
  return tc_ex_index_value(p->s, f->base, &stride, &vec);
}

void tc_ex_product(tc_ex *s) {
  product whole = {.s = s}, *p = &whole;
  if (!find_product(p)) return;
  choose_blocks(p);
  bool chunks = p->chunk < p->k;
  p->direct &= !chunks;
  if (p->pack) p->packed = tc_ex_tile(s, p->acc, p->panels * p->chunk * p->lanes);
  if (p->pack_a) p->packed_a = tc_ex_tile(s, p->acc, p->chunk * p->a_pitch);
  p->sum_pitch = chunks ? p->panels * p->lanes : p->lanes;
  if (!p->direct) p->sums = tc_ex_tile(s, p->acc, (chunks ? p->row_block : p->rows) * p->sum_pitch);
  s->lanes = p->lanes, s->vector = TC_RANGE_K;
  tc_ex_preload(s);
  int64_t n_panels = ceil_div(p->n, p->lanes), columns = ceil_div(n_panels, p->panels), blocks = ceil_div(p->m, p->row_block);
  tc_val begin = tc_emit_raw(E, TC_N_BEGIN, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  tc_val finish = tc_emit_raw(E, TC_N_FINISH, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  tc_val o = loop(p, begin, finish, 1), zero = tc_ex_i64(s, 0);
  tc_val upper = blocks == 1 ? o : tc_emit_bin(E, TC_N_DIV, o, tc_ex_i64(s, blocks));
  tc_val block = blocks == 1 ? zero : tc_emit_bin(E, TC_N_REM, o, tc_ex_i64(s, blocks));
  tc_val column = columns == 1 ? zero : tc_emit_bin(E, TC_N_REM, upper, tc_ex_i64(s, columns));
  s->at[TC_RANGE_A] = columns == 1 ? upper : tc_emit_bin(E, TC_N_DIV, upper, tc_ex_i64(s, columns));
  s->bound[TC_RANGE_A] = s->bound[TC_RANGE_F] = s->bound[TC_RANGE_K] = true;
  p->a.at = base_of(p, &p->a), p->b.at = base_of(p, &p->b);
  tc_val r0 = times(p, block, p->row_block), p0 = times(p, column, p->panels);
  tc_val r1 = tc_emit_bin(E, TC_N_MIN, add(p, r0, tc_ex_i64(s, p->row_block)), tc_ex_i64(s, p->m));
  tc_val p1 = tc_emit_bin(E, TC_N_MIN, add(p, p0, tc_ex_i64(s, p->panels)), tc_ex_i64(s, n_panels));
  unit(p, r0, r1, p0, p1);
  s->mask = TC_NONE;
  end(p);
  s->x->extent = s->gp->a * columns * blocks;
  s->x->work = 2.0 * (double)(s->gp->a * p->m * p->n) * (double)p->k / (tc_kernel_vector_bytes() == 64 ? 200 : 90) + 50;
}
