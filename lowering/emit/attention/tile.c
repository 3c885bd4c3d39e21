// Emits the parts of attention's CPU kernels, forward and backward alike: packing of keys and rows,
// matmuls of tiles, and steps over scores. See tile.h.
#include "lowering/emit/attention/tile.h"

// Of a result that is stored past the caches. Its rows are strided, by head, so a cached store
// would first read each line.
// Measured: Sapphire Rapids, 4x12x512x64 f32, results of 6 MiB: 4 % of the time forward, 8 % with
// gradients.
#define STREAM_BYTES (UINT64_C(4) << 20)

#define E (&p->s->e)

// ---- packing ----

static tc_val load_narrow(tc_attention_emitter *p, const tc_attention_operand *f, tc_val row, tc_val column, int lanes,
                          tc_val mask) {
  return load(p->s, f->buf, f->type, lanes, add(p->s, add(p->s, f->at, times(p->s, row, f->stride)), column), mask);
}

tc_val tc_attention_load_part(tc_attention_emitter *p, const tc_attention_operand *f, tc_val row, tc_val column,
                              int lanes, tc_val mask) {
  return cast(p->s, load_narrow(p, f, row, column, lanes, mask), p->acc);
}

tc_val tc_attention_column_mask(tc_attention_emitter *p, int64_t from, int64_t columns, int lanes) {
  return bin(p->s, TC_IR_LT, tc_emit_numbers(p->s, TC_I64, lanes), i64(p->s, columns - from));
}

// Loads a step of rows: one row, or two as words. there: mask of the bits that exist.
static tc_val load_step(tc_attention_emitter *p, const tc_attention_operand *f, tc_val first, tc_val second,
                        tc_val there, tc_val column, int lanes, tc_val mask) {
  if (p->step == 1) return tc_attention_load_part(p, f, first, column, lanes, mask);
  tc_val words =
      tc_build_words(E, load_narrow(p, f, first, column, lanes, mask), load_narrow(p, f, second, column, lanes, mask));
  return bin(p->s, TC_IR_AND, words, there);
}

void tc_attention_pack_rows(tc_attention_emitter *p, const tc_attention_operand *f, tc_val first, tc_val count,
                            tc_val last, int64_t columns, int64_t pitch, int tile, tc_val start) {
  tc_emit_ctx *s = p->s;
  tc_val i = loop_to(s, count, 1), row = add(s, first, times(s, i, p->step)), to = add(s, start, times(s, i, pitch));
  tc_val next = TC_NONE, there = TC_NONE;
  if (p->step > 1) {  // past the last row a half is zero: weight 0 times an infinite value would be NaN
    next = plus(s, row, 1);
    there = select_val(s, bin(s, TC_IR_GT, next, last), const_i(s, TC_I32, 0xFFFF), const_i(s, TC_I32, -1));
    next = least(s, next, last);
  }
  row = least(s, row, last);
  int lanes = p->vector;
  int64_t full = columns / lanes * lanes;
  if (full) {
    tc_val c = loop_to(s, i64(s, full), lanes), v = load_step(p, f, row, next, there, c, lanes, TC_NONE);
    store(s, tile, add(s, to, c), v);
    end(s);
  }
  if (full < columns) {
    tc_val v =
        load_step(p, f, row, next, there, i64(s, full), lanes, tc_attention_column_mask(p, full, columns, lanes));
    store(s, tile, plus(s, to, full), v);
    full += lanes;
  }
  if (full < pitch) {
    tc_val c = loop(s, i64(s, full), i64(s, pitch), lanes), zero = p->step == 1 ? number(p, 0) : const_i(s, TC_I32, 0);
    store(s, tile, add(s, to, c), splat(s, zero, lanes));
    end(s);
  }
  end(s);
}

// Loads `lanes` words of row `row`, from step `column` on. mask: of their elements.
static tc_val load_words(tc_attention_emitter *p, const tc_attention_operand *f, tc_val row, tc_val column, int lanes,
                         tc_val mask) {
  tc_val at = add(p->s, add(p->s, f->at, times(p->s, row, f->stride)), times(p->s, column, 2));
  return tc_build_load_words(E, f->buf, at, lanes, mask);
}

// Transposes a block of steps of `size` keys: read along columns, transposed in registers, stored
// along keys. v: receives the transposed steps.
static void transpose_block(tc_attention_emitter *p, const tc_attention_operand *f, tc_val key, tc_val last,
                            tc_val column, int size, tc_val mask, int tile, tc_val to, tc_val by, tc_val *v) {
  for (int i = 0; i < size; i++) {
    tc_val row = least(p->s, plus(p->s, key, i), last);
    v[i] = p->step == 1 ? tc_attention_load_part(p, f, row, column, size, mask)
                        : load_words(p, f, row, column, size, mask);
    if (by != TC_NONE) v[i] = mul(p->s, v[i], by);
  }
  tc_build_transpose(E, v, size);
  for (int i = 0; i < size; i++) store(p->s, tile, plus(p->s, to, (int64_t)i * p->lanes), v[i]);
}

void tc_attention_transpose_keys(tc_attention_emitter *p, const tc_attention_operand *f, tc_val k0, tc_val k1,
                                 tc_val from, tc_val to, int64_t columns, int tile, tc_val by,
                                 const tc_attention_winograd_dot *dot) {
  int size = TC_MIN(p->vector, p->lanes);
  int64_t full = columns / size * size, padded = ceil_to(columns, size);
  tc_val v[64], sum = TC_NONE, squares = TC_NONE;
  tc_val last = plus(p->s, k1, -1), key = loop(p->s, from, to, p->lanes),
         panel = times(p->s, sub(p->s, key, k0), padded);
  tc_val first = loop_to(p->s, i64(p->s, p->lanes), size);
  key = add(p->s, key, first), panel = add(p->s, panel, first);
  if (dot) sum = var(p->s, splat(p->s, number(p, 0), size)), squares = var(p->s, splat(p->s, number(p, 0), size));
  if (full) {
    tc_val c = loop_to(p->s, i64(p->s, full), size);
    transpose_block(p, f, key, last, c, size, TC_NONE, tile, add(p->s, panel, times(p->s, c, p->lanes)), by, v);
    for (int i = 0; i < size && dot; i++) {
      if (tc_attention_begins_pair(i)) set(p->s, sum, sub(p->s, sum, mul(p->s, v[i], v[i + 1])));
      set(p->s, squares, tc_multiply_add(p->s, p->way, v[i], v[i], squares));
    }
    end(p->s);
  }
  if (full < columns)
    transpose_block(p, f, key, last, i64(p->s, full), size,
                    tc_attention_column_mask(p, full * p->step, columns * p->step, size * p->step), tile,
                    plus(p->s, panel, full * p->lanes), by, v);
  if (dot) {
    store(p->s, dot->keys, sub(p->s, key, k0), sum);
    set(p->s, dot->top, most(p->s, dot->top, magnitude(p, squares)));
  }
  end(p->s);
  end(p->s);
}

// ---- matmuls ----

static tc_val load_side(tc_attention_emitter *p, tc_attention_matmul_operand x, int lanes, tc_val at) {
  if (p->step > 1 && x.type == TC_BF16) return tc_build_load_words(E, x.buf, at, lanes, TC_NONE);
  tc_val v = load(p->s, x.buf, x.type, lanes, at, TC_NONE);
  return p->step > 1 ? v : cast(p->s, v, p->acc);
}

typedef struct lhs {
  tc_attention_emitter *p;
  const tc_attention_matmul_operand *side;
  // at: position of the first row at the current k, if rows have one stride; step: offset of k in a
  // row
  tc_val at, step;
} lhs;

static tc_val load_lhs(void *of, int row) {
  const lhs *x = of;
  tc_attention_emitter *p = x->p;
  return load_side(p, *x->side, 1,
                   x->side->rows ? add(p->s, x->side->rows[row], x->step) : plus(p->s, x->at, row * x->side->row));
}

// Emits acc[i] += a(i, k) * b(k); elements of a are loaded one at a time, b's in vectors.
static void multiply_one(tc_attention_emitter *p, int rows, int lanes, tc_attention_matmul_operand a,
                         tc_attention_matmul_operand b, tc_val k, tc_val *acc) {
  tc_val w = load_side(p, b, lanes, add(p->s, b.at, times(p->s, k, b.step)));
  tc_val step = times(p->s, k, a.step), at = a.rows ? TC_NONE : add(p->s, a.at, step);
  lhs of = {p, &a, at, step};
  tc_register_block_add(p->s, &(tc_register_block){p->way, rows, 1, load_lhs, &of}, &w, acc);
}

void tc_attention_multiply(tc_attention_emitter *p, int rows, int lanes, tc_attention_matmul_operand a,
                           tc_attention_matmul_operand b, tc_val from, tc_val to, tc_val *acc) {
  tc_val several = sub(p->s, to, bin(p->s, TC_IR_REM, sub(p->s, to, from), i64(p->s, p->unroll))),
         k = loop(p->s, from, several, p->unroll);
  for (int i = 0; i < p->unroll; i++) multiply_one(p, rows, lanes, a, b, plus(p->s, k, i), acc);
  end(p->s);
  k = loop(p->s, several, to, 1);
  multiply_one(p, rows, lanes, a, b, k, acc);
  end(p->s);
}

void tc_attention_clear(tc_attention_emitter *p, int rows, int lanes, tc_val *acc) {
  for (int i = 0; i < rows; i++) acc[i] = var(p->s, splat(p->s, number(p, 0), lanes));
}

// Emits acc[i] += three columns of a(i) times those of b, the first two as a pair. Each element of
// a is loaded where it is used, since x86 arithmetic broadcasts it from memory. A broadcast into a
// register would occupy a unit that adds.
static void multiply_three(tc_attention_emitter *p, int rows, int lanes, tc_attention_matmul_operand a,
                           tc_attention_matmul_operand b, tc_val k, tc_val *acc) {
  tc_val w[2], v[2];
  multiply_one(p, rows, lanes, a, b, plus(p->s, k, 2), acc);
  for (int j = 0; j < 2; j++) w[j] = load_side(p, b, lanes, add(p->s, b.at, times(p->s, plus(p->s, k, j), b.step)));
  for (int i = 0; i < rows; i++) {
    for (int j = 0; j < 2; j++)
      v[j] = load_side(p, a, 1, add(p->s, plus(p->s, a.at, i * a.row), times(p->s, plus(p->s, k, j), a.step)));
    tc_val first = add(p->s, v[0], w[1]), second = add(p->s, v[1], w[0]);
    set(p->s, acc[i], tc_multiply_add(p->s, p->way, first, second, acc[i]));
  }
}

void tc_attention_with_winograd_dot(tc_attention_emitter *p, tc_attention_matmul_operand rows, int panels,
                                    int64_t columns, tc_val count, int tile, const tc_attention_winograd_dot *dot,
                                    const tc_attention_prefetch *next) {
  tc_emit_ctx *s = p->s;
  tc_val acc[TC_ATTENTION_ROWS], key = loop_to(s, count, p->vector), in_panel = rem_by(s, key, p->lanes);
  prefetch_query(p, next, div_by(s, key, p->lanes));
  tc_val at = add(s, times(s, sub(s, key, in_panel), panel_columns(p, columns)), in_panel),
         less = load(s, dot->keys, p->acc, p->vector, key, TC_NONE);
  tc_attention_matmul_operand keys = tile_side(p, panels, at, 0, p->lanes);
  for (int i = 0; i < p->rows; i++) acc[i] = var(s, add(s, load(s, dot->rows, p->acc, 1, i64(s, i), TC_NONE), less));
  tc_val k = loop_to(s, i64(s, tc_attention_winograd_columns(columns)), TC_ATTENTION_WINOGRAD_DOT);
  for (int c = 0; tc_attention_begins_pair(c); c += 3)
    multiply_three(p, (int)p->rows, p->vector, rows, keys, plus(s, k, c), acc);
  multiply_one(p, (int)p->rows, p->vector, rows, keys, plus(s, k, TC_ATTENTION_WINOGRAD_DOT - 1), acc);
  end(s);
  tc_attention_multiply(p, (int)p->rows, p->vector, rows, keys, i64(s, tc_attention_winograd_columns(columns)),
                        i64(s, columns), acc);
  for (int i = 0; i < p->rows; i++) store(s, tile, plus(s, key, i * p->pitch), acc[i]);
  end(s);
}

// Multiplies a tile of rows by `lanes` keys, from `key` on, into a tile. They are in the panel that
// begins at key `first`.
static void with_panel(tc_attention_emitter *p, tc_attention_matmul_operand rows, int lanes, int panels,
                       int64_t columns, tc_val first, tc_val key, int tile, tc_val to) {
  tc_val acc[TC_ATTENTION_ROWS];
  tc_attention_clear(p, (int)p->rows, lanes, acc);
  tc_val at = add(p->s, times(p->s, first, panel_columns(p, columns)), sub(p->s, key, first));
  tc_attention_multiply(p, (int)p->rows, lanes, rows, tile_side(p, panels, at, 0, p->lanes), i64(p->s, 0),
                        i64(p->s, columns), acc);
  for (int i = 0; i < p->rows; i++) {
    // otherwise keys are scaled as they are transposed
    tc_val score = p->step > 1 ? mul(p->s, acc[i], tc_attention_key_scale(p)) : acc[i];
    store(p->s, tile, plus(p->s, add(p->s, to, key), i * p->pitch), score);
  }
}

void tc_attention_prefetch_row(tc_attention_emitter *p, const tc_attention_operand *f, tc_val row, int64_t n_rows,
                               int64_t columns) {
  tc_val at = add(p->s, f->at, times(p->s, least(p->s, row, i64(p->s, n_rows - 1)), f->stride));
  for (int64_t c = 0; c < columns; c += 64 / (int64_t)tc_type_bytes(f->type))
    tc_build_prefetch(E, f->buf, plus(p->s, at, c), p->reads_keys);
}

void tc_attention_with_panels(tc_attention_emitter *p, tc_attention_matmul_operand rows, int panels, int64_t columns,
                              tc_val count, int tile, tc_val to, const tc_attention_prefetch *next) {
  int least_part = TC_MAX_OF(p->lanes / 4, p->vector);
  bool parts = p->causal && least_part < p->lanes;
  tc_val part = TC_NONE, stop = count;
  if (parts) {
    tc_val steps =
        bin(p->s, TC_IR_DIV, plus(p->s, most(p->s, count, i64(p->s, 0)), least_part - 1), i64(p->s, least_part));
    part = times(p->s, rem_by(p->s, steps, p->lanes / least_part), least_part),
    stop = sub(p->s, times(p->s, steps, least_part), part);
  }
  tc_val key = loop_to(p->s, stop, p->lanes);
  if (next) prefetch_query(p, next, div_by(p->s, key, p->lanes));
  with_panel(p, rows, p->lanes, panels, columns, key, key, tile, to);
  end(p->s);
  key = stop;
  for (int lanes = p->lanes / 2; parts && lanes >= least_part; lanes /= 2) {
    tc_val here = bin(p->s, TC_IR_AND, part, i64(p->s, lanes));
    begin_if(p->s, bin(p->s, TC_IR_NE, here, i64(p->s, 0)));
    with_panel(p, rows, lanes, panels, columns, stop, key, tile, to);
    end_if(p->s);
    key = add(p->s, key, here);
  }
}

bool tc_attention_next_panel(tc_attention_emitter *p, tc_attention_panels *x) {
  int64_t full = x->columns / p->lanes * p->lanes;
  if (x->iteration == 1 && full) end(p->s);
  if (x->iteration == 0 && full) {
    x->iteration = 1, x->lanes = p->lanes;
    x->at = loop_to(p->s, i64(p->s, full), p->lanes);
    return true;
  }
  if (x->iteration < 2 && full < x->columns) {
    x->iteration = 2, x->lanes = last_lanes(p, x->columns);
    x->at = i64(p->s, full);
    return true;
  }
  return false;
}

// ---- scores ----

tc_val tc_attention_last_row(tc_attention_emitter *p, tc_val stop) {
  return plus(p->s, least(p->s, stop, i64(p->s, p->f)), -1);
}

tc_attention_steps tc_attention_steps_of(tc_attention_emitter *p, const tc_val *rows, tc_val k0, tc_val k1) {
  tc_attention_steps x = {0};
  for (int i = 0; i < p->rows && !sees_all(p); i++)
    x.limit[i] = cast(p->s, sub(p->s, least(p->s, tc_attention_limit(p, rows[i]), k1), k0), TC_I32);
  return x;
}

bool tc_attention_next_steps(tc_attention_emitter *p, tc_attention_steps *x, tc_val count) {
  if (x->iteration) end(p->s);
  tc_val whole_steps = count;
  if (!sees_all(p))
    whole_steps = times(
        p->s,
        bin(p->s, TC_IR_DIV, most(p->s, i64(p->s, 0), cast(p->s, x->limit[0], TC_I64)), i64(p->s, TC_ATTENTION_STEP)),
        TC_ATTENTION_STEP);
  if (x->iteration == 0) {
    x->at = loop_to(p->s, whole_steps, TC_ATTENTION_STEP), x->keys = TC_NONE;
  } else if (x->iteration == 1 && !sees_all(p)) {
    x->at = loop(p->s, whole_steps, count, TC_ATTENTION_STEP);
    x->keys = add(p->s, tc_emit_numbers(p->s, TC_I32, TC_ATTENTION_STEP), cast(p->s, x->at, TC_I32));
  } else {
    return false;
  }
  return ++x->iteration;
}

tc_val tc_attention_masked(tc_attention_emitter *p, tc_val scores, tc_val row, tc_val key, tc_val *seen) {
  if (!p->has_mask) return scores;
  tc_val at = add(p->s, p->mask.at, times(p->s, row, p->mask.stride)), m;
  if (p->mask.col == 0) {
    m = load(p->s, p->mask.buf, p->mask.type, 1, at, TC_NONE);
    m = splat(p->s, p->mask.type == TC_BOOL ? m : cast(p->s, m, p->acc), TC_ATTENTION_STEP);
  } else {
    at = add(p->s, at, times(p->s, key, p->mask.col));
    if (p->mask.col == 1) {
      m = load(p->s, p->mask.buf, p->mask.type, TC_ATTENTION_STEP, at, *seen);
    } else {
      tc_val lanes = times(p->s, tc_emit_numbers(p->s, TC_I64, TC_ATTENTION_STEP), p->mask.col);
      m = gather(p->s, p->mask.buf, p->mask.type, TC_ATTENTION_STEP, add(p->s, lanes, at), *seen);
    }
  }
  if (p->mask.type != TC_BOOL) return add(p->s, scores, cast(p->s, m, p->acc));
  *seen = tc_emit_both(p->s, *seen, m);
  return scores;
}

void tc_attention_rows_from(tc_attention_emitter *p, tc_val row, tc_val *rows) {
  for (int i = 0; i < p->rows; i++) rows[i] = least(p->s, plus(p->s, row, i), i64(p->s, p->f - 1));
}

// ---- results ----

void tc_attention_store_part(tc_attention_emitter *p, uint32_t node, tc_val at, const tc_attention_panels *x,
                             tc_val v) {
  tc_val mask = x->iteration == 2 && x->columns % p->lanes != x->lanes
                    ? tc_attention_column_mask(p, x->columns / p->lanes * p->lanes, x->columns, x->lanes)
                    : TC_NONE;
  tc_type type = p->s->g->node[node].type;
  tc_val stored = tc_build_raw(E, TC_IR_STORE, type, x->lanes, add(p->s, at, x->at), cast(p->s, v, type), mask,
                               tc_attention_result(p, node));
  int64_t bytes = (int64_t)tc_type_bytes(type);  // lines are whole, and begin where rows do
  if (x->lanes * bytes % 64 == 0 && x->columns * bytes % 64 == 0 && tc_emit_streams(p->s, node, STREAM_BYTES) &&
      !E->failed)
    E->kir->inst[stored].flags = 1;
}
