// Loads the operands of a matmul where they lie, and packs them into tiles of the worker.
//
// In: a unit of a tc_matmul_emitter. Out: instructions that load b, or fill the tiles of packed b
// and a.
// b is packed in panels of `lanes` columns. It is read row by row; where it is contiguous along k,
// blocks are read along k and transposed in registers.
// Rows of a that are strided in k are packed tile by tile: at each k, the elements of a tile's rows
// are contiguous. Rows of a narrower type are widened, each along k.
// b may have a cheap fused producer, which is applied where b is loaded or packed
// (mark_prologue.c). f16 and bf16 are widened where they are packed. Where words are multiplied,
// two or four neighbours along k become one instead (matmul.c).
#include "lowering/emit/matmul/matmul_types.h"

#define PACK_DISTANCE 8  // rows of b from a load to its prefetch, while packing
#define WIDENED 16  // elements of a at a time, where its rows are widened

#define E (&p->s->e)

// ---- b where it lies ----

void tc_matmul_enter_panel(tc_matmul_emitter *p, tc_val panel) {
  tc_emit_ctx *s = p->s;
  s->at[TC_RANGE_K] = times(s, panel, p->by.lanes);
  s->mask = TC_NONE;
  if (p->of.n % p->by.lanes) tc_emit_set_mask(s, s->at[TC_RANGE_K], i64(s, p->of.n));
}

// Loads the current columns of b at element k, in the type in memory.
static tc_val load_columns(tc_matmul_emitter *p, tc_val k) {
  tc_emit_ctx *s = p->s;
  tc_val at = add(s, add(s, p->b.at, times(s, k, p->b.row)), times(s, s->at[TC_RANGE_K], p->b.col));
  if (p->b.col == 1 || p->b.panel || s->lanes == 1) return load(s, p->b.buf, p->b.type, s->lanes, at, s->mask);
  at = add(s, times(s, tc_emit_lane_numbers(s), p->b.col), at);
  return gather(s, p->b.buf, p->b.type, s->lanes, splat(s, at, s->lanes), s->mask);
}

// Returns the words of p->step rows, which are columns of b or rows of a at one step of k.
static tc_val words_of(tc_matmul_emitter *p, const tc_val *row) {
  return steps_by_bytes(p) ? tc_build_byte_words(E, row) : tc_build_words(E, row[0], row[1]);
}

tc_val tc_matmul_load_b(tc_matmul_emitter *p, tc_val k) {
  tc_val row[4];
  if (steps_by_bytes(p)) {  // what is left of columns that are transposed
    for (int i = 0; i < 4; i++) row[i] = load_columns(p, add_i64(p->s, times(p->s, k, 4), i));
    return words_of(p, row);
  }
  return made_of(p, k, cast(p->s, load_columns(p, k), p->acc));
}

void tc_matmul_prefetch_b(tc_matmul_emitter *p, tc_val k, tc_val column, bool far) {
  tc_val at = add(p->s, add(p->s, p->b.at, times(p->s, k, p->b.row)), column);
  for (int i = 0; i < p->by.lanes; i += line_of(p->b.type)) tc_build_prefetch(E, p->b.buf, add_i64(p->s, at, i), far);
}

// ---- b along k, transposed ----

void tc_matmul_load_transposed(tc_matmul_emitter *p, tc_val k, tc_val from, tc_val *v, int size,
                               const tc_matmul_prefetch *prefetch_what) {
  bool several = transposed_rows(p, size) > size;
  from = add(p->s, from, times(p->s, k, p->step));
  for (int i = 0; i < size; i++) {
    tc_val at = add_i64(p->s, from, i * p->b.col);
    if (prefetch_what) prefetch_for(p, prefetch_what, i64(p->s, i));
    v[i] = load(p->s, p->b.buf, p->b.type, transposed_rows(p, size), at, TC_NONE);
    v[i] = several ? bitcast(p->s, TC_I32, size, v[i]) : cast(p->s, v[i], p->acc);
  }
  tc_build_transpose(E, v, size);
}

static tc_val int_op(tc_matmul_emitter *p, tc_kir_op op, tc_val a, int64_t b) {
  return bin(p->s, op, a, const_i(p->s, TC_I32, b));
}

static tc_val float_of(tc_matmul_emitter *p, tc_val bits) {
  return bitcast(p->s, TC_F32, tc_build_lanes(E, bits), bits);
}

// Returns byte `at` of each word as a float. The byte is or'd into the mantissa of a power of two,
// whose last mantissa bits are zero, and the power is subtracted again, exactly. That is one
// operation less than a shift and a conversion. A signed byte has its sign bit flipped, so that it
// counts from -128.
static tc_val byte_of(tc_matmul_emitter *p, tc_val word, int at) {
  int shift = 8 * (at % 2);
  bool is_signed = p->b.type == TC_I8;
  int64_t start = shift ? 0x47000000 : 0x4B000000;  // 2^15, 2^23
  if (at >= 2) word = int_op(p, TC_IR_USHR, word, 16);
  tc_val bits =
      int_op(p, TC_IR_XOR, int_op(p, TC_IR_AND, word, 0xFF << shift), start | (is_signed ? 0x80 << shift : 0));
  return sub(p->s, float_of(p, bits), const_f(p->s, TC_F32, (shift ? 0x1p15 : 0x1p23) + (is_signed ? 128 : 0)));
}

tc_val tc_matmul_half_of(tc_matmul_emitter *p, tc_val word, int i) {
  return float_of(p, i ? int_op(p, TC_IR_AND, word, -0x10000) : int_op(p, TC_IR_SHL, word, 16));
}

tc_val tc_matmul_transposed_row(tc_matmul_emitter *p, tc_val v, int i) {
  if (steps_by_bytes(p)) return v;
  switch (tc_tiling_transposed_as_one(p->b.type, p->acc)) {
    case 2: return tc_matmul_half_of(p, v, i);
    case 4: return byte_of(p, v, i);
    default: return v;
  }
}

// ---- packing b ----

// Returns step k + i of the block v, which begins at step k.
static tc_val transposed_step(tc_matmul_emitter *p, const tc_val *v, tc_val k, int i) {
  int as_one = tc_tiling_transposed_as_one(p->b.type, p->acc);
  tc_val row[2];
  if (p->step > 1 && p->b.widened == TC_NONE) return v[i];
  for (int j = 0; j < p->step; j++) {
    int at = i * p->step + j;
    row[j] = made_of(p, add(p->s, times(p->s, k, p->step), i64(p->s, at)),
                     tc_matmul_transposed_row(p, v[at / as_one], at % as_one));
  }
  return p->step > 1 ? tc_build_words(E, row[0], row[1]) : row[0];
}

// Packs the unit's whole panels up to p1, transposed, up to row k1. All columns of a panel are read
// together, since a miss in one does not then delay the others.
static void pack_transposed(tc_matmul_emitter *p, const tc_matmul_unit *u, tc_val p1, tc_val k1, int size) {
  int lanes = p->by.lanes, steps = transposed_rows(p, size) / p->step;
  tc_val v[64], panel = loop(p->s, u->p0, p1, 1);
  tc_val to = times(p->s, sub(p->s, panel, u->p0), p->by.chunk * lanes),
         from = add(p->s, p->b.at, times(p->s, panel, lanes * p->b.col));
  tc_val k = loop(p->s, u->k0, k1, steps), row = add(p->s, to, times(p->s, sub(p->s, k, u->k0), lanes));
  tc_val column = loop_to(p->s, i64(p->s, lanes), size);
  tc_matmul_load_transposed(p, k, add(p->s, from, times(p->s, column, p->b.col)), v, size, NULL);
  p->s->lanes = size, p->s->at[TC_RANGE_K] = add(p->s, times(p->s, panel, lanes), column);
  for (int i = 0; i < steps; i++) {
    store(p->s, p->packed, add(p->s, add(p->s, row, column), i64(p->s, i * lanes)), transposed_step(p, v, k, i));
  }
  p->s->lanes = lanes;
  end(p->s);
  end(p->s);
  end(p->s);
}

// Packs rows k0 to k1 of panels p0 to p1, a row at a time, along the columns. partial: true: the
// last panel is partial, so loads are masked.
static void pack_rows(tc_matmul_emitter *p, const tc_matmul_unit *u, tc_val p0, tc_val p1, tc_val k0, tc_val k1,
                      bool partial) {
  tc_emit_ctx *s = p->s;
  int lanes = p->by.lanes;
  tc_val k = loop(s, k0, k1, 1), to = times(s, sub(s, k, u->k0), lanes);
  tc_val panel = loop(s, p0, p1, 1);
  tc_matmul_enter_panel(p, panel);
  if (!partial) s->mask = TC_NONE;
  if (p->b.col == 1 && !partial) tc_matmul_prefetch_b(p, add_i64(s, k, PACK_DISTANCE), s->at[TC_RANGE_K], false);
  tc_val v = tc_matmul_load_b(p, k);
  store(s, p->packed, add(s, to, times(s, sub(s, panel, u->p0), p->by.chunk * lanes)), v);
  end(s);
  end(s);
}

// Packs words, as pack_rows packs elements. Kernel IR has no vectors of more than 64 lanes, which
// hold two rows of 32 columns.
static void pack_words(tc_matmul_emitter *p, const tc_matmul_unit *u, tc_val p0, tc_val p1, tc_val k0, tc_val k1,
                       bool partial) {
  tc_emit_ctx *s = p->s;
  int lanes = p->by.lanes, width = TC_MIN(lanes, 32);
  tc_val k = loop(s, k0, k1, 1), to = times(s, sub(s, k, u->k0), lanes), first = times(s, k, p->step), row[4];
  tc_val panel = loop(s, p0, p1, 1);
  to = add(s, to, times(s, sub(s, panel, u->p0), p->by.chunk * lanes));
  tc_matmul_enter_panel(p, panel);
  if (p->b.col == 1 && !partial)
    for (int i = 0; i < p->step; i++)
      tc_matmul_prefetch_b(p, add_i64(s, first, PACK_DISTANCE + i), s->at[TC_RANGE_K], false);
  s->lanes = width;
  for (int from = 0; from < lanes; from += width) {
    s->at[TC_RANGE_K] = add(s, times(s, panel, lanes), i64(s, from)), s->mask = TC_NONE;
    if (partial) tc_emit_set_mask(s, s->at[TC_RANGE_K], i64(s, p->of.n));
    for (int i = 0; i < p->step; i++) {
      tc_val at = add_i64(s, first, i);
      row[i] = p->b.widened == TC_NONE ? load_columns(p, at) : tc_matmul_load_b(p, at);
    }
    store(s, p->packed, add_i64(s, to, from), words_of(p, row));
  }
  s->lanes = lanes;
  end(s);
  end(s);
}

void tc_matmul_pack(tc_matmul_emitter *p, const tc_matmul_unit *u) {
  void (*pack_columns)(tc_matmul_emitter *, const tc_matmul_unit *, tc_val, tc_val, tc_val, tc_val, bool) =
      p->step > 1 ? pack_words : pack_rows;
  int size = vector_lanes(p);
  tc_val whole = whole_panels(p, u), k = u->k0;
  if (p->b.row == 1 && size >= 4) {
    k = whole_rows(p, u->k0, u->k1, transposed_rows(p, size) / p->step);
    pack_transposed(p, u, whole, k, size);
  }
  pack_columns(p, u, u->p0, whole, k, u->k1, false);
  if (p->of.n % p->by.lanes) pack_columns(p, u, whole, u->p1, u->k0, u->k1, true);
}

// ---- packing a ----

// Packs `rows` rows of a at one k: those from `row` on after the ones at `from`, into the tile at
// `to`. Elements stored beyond them are overwritten by the next k, or are padding.
static void pack_a_tile(tc_matmul_emitter *p, int rows, tc_val from, tc_val to, tc_val row, tc_val mask) {
  tc_val v[4];
  for (int i = 0; i < p->step; i++)
    v[i] = load(p->s, p->a.buf, p->a.type, tc_emit_power_for(rows, LANES),
                add(p->s, add(p->s, from, row), i64(p->s, i * p->a.col)), mask);
  store(p->s, p->packed_a, add(p->s, to, times(p->s, row, p->a_pitch)),
        p->step > 1 ? words_of(p, v) : cast(p->s, v[0], p->acc));
}

// Packs rows `row` to `last` of a in tiles of `rows`: at each k, the rows of a tile are contiguous.
// If all tiles that are packed at a time exist, there is no loop over them.
static void pack_columns_of_a(tc_matmul_emitter *p, int rows, tc_val row, tc_val last, const tc_matmul_unit *u) {
  tc_emit_ctx *s = p->s;
  int lanes = tc_emit_power_for(rows, LANES), all = (int)p->by.a_tiles * rows;
  tc_val numbers = tc_emit_numbers(s, TC_I64, lanes), many = sub(s, last, row);
  tc_val inside = bin(s, TC_IR_LE, add_i64(s, row, all - rows + lanes), i64(s, p->of.m));
  inside = bin(s, TC_IR_AND, inside, bin(s, TC_IR_EQ, many, i64(s, all)));
  for (int part = 0; part < 2; part++) {
    begin_if(s, part ? tc_build_un(E, TC_IR_NOT, inside) : inside);
    tc_val k = loop(s, u->k0, u->k1, 1);
    tc_val from = add(s, add(s, p->a.at, row), times(s, k, p->step * p->a.col)), to = times(s, sub(s, k, u->k0), rows);
    if (part == 0) {
      for (int j = 0; j < p->step; j++)
        for (int i = 0; i < all + line_of(p->a.type); i += line_of(p->a.type))
          tc_build_prefetch(E, p->a.buf, add(s, from, i64(s, (PACK_DISTANCE + j) * p->a.col + i)), false);
      for (int i = 0; i < all; i += rows) pack_a_tile(p, rows, from, to, i64(s, i), TC_NONE);
    } else {
      tc_val i = loop_to(s, many, rows);
      pack_a_tile(p, rows, from, to, i, bin(s, TC_IR_LT, numbers, sub(s, i64(s, p->of.m), add(s, row, i))));
      end(s);
    }
    end(s);
    end_if(s);
  }
}

// Copies rows `row` to `last` of a, each along k, in the accumulators' type or as words.
static void widen_a(tc_matmul_emitter *p, tc_val row, tc_val last, const tc_matmul_unit *u) {
  tc_emit_ctx *s = p->s;
  tc_val many = sub(s, u->k1, u->k0), whole = sub(s, many, rem_by(s, many, WIDENED));
  tc_val i = loop(s, row, last, 1), to = times(s, sub(s, i, row), p->a_pitch);
  tc_val from = add(s, add(s, p->a.at, times(s, i, p->a.row)), times(s, u->k0, p->step));
  for (int lanes = WIDENED; lanes >= 1; lanes /= WIDENED) {
    tc_val k = loop(s, lanes == 1 ? whole : i64(s, 0), lanes == 1 ? many : whole, lanes);
    tc_val at = add(s, from, times(s, k, p->step)), v;
    if (steps_by_bytes(p))
      v = tc_build_load_byte_words(E, p->a.buf, p->a.type, at, lanes);
    else if (p->step > 1)
      v = tc_build_load_words(E, p->a.buf, at, lanes, TC_NONE);
    else
      v = cast(s, load(s, p->a.buf, p->a.type, lanes, at, TC_NONE), p->acc);
    store(s, p->packed_a, add(s, to, k), v);
    end(s);
  }
  end(s);
}

void tc_matmul_pack_a(tc_matmul_emitter *p, int rows, tc_val row, tc_val last, const tc_matmul_unit *u) {
  if (p->by.pack_a) pack_columns_of_a(p, rows, row, last, u);
  if (p->by.widen_a) widen_a(p, row, last, u);
}
