// Transforms of a tile's sides, and the loading of tiles. See winograd_tile.h.
#include "lowering/emit/conv/winograd_tile.h"

// ---- sides ----

static tc_val scaled_by(tc_emit_ctx *s, double b, tc_val a) {
  return mul(s, a, const_f(s, TC_F32, b));
}

void tc_wside_inputs(tc_emit_ctx *s, int m, tc_val *d) {
  if (m == 2) {
    tc_val t1 = add(s, d[1], d[2]), t2 = sub(s, d[2], d[1]);
    d[0] = sub(s, d[0], d[2]), d[3] = sub(s, d[1], d[3]), d[1] = t1, d[2] = t2;
    return;
  }
  tc_val even = sub(s, d[4], scaled_by(s, 4, d[2])), odd = sub(s, d[3], scaled_by(s, 4, d[1]));
  tc_val outer = sub(s, d[4], d[2]), inner = sub(s, d[3], d[1]), twice = scaled_by(s, 2, inner);
  d[0] = add(s, scaled_by(s, 4, sub(s, d[0], d[2])), outer);
  d[5] = sub(s, sub(s, d[5], d[3]), scaled_by(s, 4, inner));
  d[1] = add(s, even, odd), d[2] = sub(s, even, odd), d[3] = add(s, outer, twice), d[4] = sub(s, outer, twice);
}

void tc_wside_sums(tc_emit_ctx *s, int m, tc_val *d) {
  tc_val sum = add(s, d[1], d[2]), difference = sub(s, d[1], d[2]);
  if (m == 2) {
    d[0] = add(s, d[0], sum), d[1] = sub(s, difference, d[3]);
    return;
  }
  tc_val sum2 = add(s, d[3], d[4]), difference2 = sub(s, d[3], d[4]);
  d[0] = add(s, add(s, d[0], sum), sum2);
  d[1] = add(s, difference, scaled_by(s, 2, difference2));
  d[2] = add(s, sum, scaled_by(s, 4, sum2));
  d[3] = add(s, add(s, difference, scaled_by(s, 8, difference2)), d[5]);
}

void tc_wside_outputs(tc_emit_ctx *s, int m, tc_val *d) {
  if (m == 2) {
    tc_val y1 = d[1];
    d[1] = add(s, d[0], y1), d[2] = sub(s, d[0], y1), d[3] = sub(s, const_f(s, TC_F32, 0), y1);
    return;
  }
  tc_val y[4] = {d[0], d[1], d[2], d[3]};
  tc_val even = add(s, y[0], y[2]), odd = add(s, y[1], y[3]);
  tc_val wide = add(s, y[0], scaled_by(s, 4, y[2])), twice = add(s, scaled_by(s, 2, y[1]), scaled_by(s, 8, y[3]));
  d[1] = add(s, even, odd), d[2] = sub(s, even, odd), d[3] = add(s, wide, twice), d[4] = sub(s, wide, twice),
  d[5] = y[3];
}

void tc_wside_taps(tc_emit_ctx *s, int m, tc_val *d) {
  tc_val w[3] = {d[0], d[1], d[2]}, ends = add(s, w[0], w[2]);
  d[m + 1] = w[2];
  if (m == 2) {
    d[1] = scaled_by(s, 0.5, add(s, ends, w[1])), d[2] = scaled_by(s, 0.5, sub(s, ends, w[1]));
    return;
  }
  tc_val sixth = scaled_by(s, 1.0 / 6, w[1]), twelfth = scaled_by(s, 1.0 / 12, w[1]),
         sum = scaled_by(s, -1.0 / 6, ends);
  tc_val wide = add(s, scaled_by(s, 1.0 / 24, w[0]), scaled_by(s, 1.0 / 6, w[2]));
  d[0] = scaled_by(s, 0.25, w[0]);
  d[1] = sub(s, sum, sixth), d[2] = add(s, sum, sixth), d[3] = add(s, wide, twelfth), d[4] = sub(s, wide, twelfth);
}

void tc_wside_by_taps(tc_emit_ctx *s, int m, tc_val *d) {
  tc_val sum = add(s, d[1], d[2]), difference = sub(s, d[1], d[2]);
  if (m == 2) {
    tc_val half = scaled_by(s, 0.5, sum);
    d[0] = add(s, d[0], half), d[1] = scaled_by(s, 0.5, difference), d[2] = add(s, half, d[3]);
    return;
  }
  tc_val sum2 = add(s, d[3], d[4]), difference2 = sub(s, d[3], d[4]), sixth = scaled_by(s, 1.0 / 6, sum);
  d[0] = add(s, sub(s, scaled_by(s, 0.25, d[0]), sixth), scaled_by(s, 1.0 / 24, sum2));
  d[1] = sub(s, scaled_by(s, 1.0 / 12, difference2), scaled_by(s, 1.0 / 6, difference));
  d[2] = add(s, sub(s, scaled_by(s, 1.0 / 6, sum2), sixth), d[5]);
}

void tc_wtransform(tc_emit_ctx *s, int m, tc_wside *side, int from, int to, tc_val v[TC_WMOST][TC_WMOST]) {
  tc_val column[TC_WMOST];
  for (int j = 0; j < from; j++) {
    for (int i = 0; i < from; i++) column[i] = v[i][j];
    side(s, m, column);
    for (int i = 0; i < to; i++) v[i][j] = column[i];
  }
  for (int i = 0; i < to; i++) side(s, m, v[i]);
}

// ---- matmuls ----

typedef struct lhs {
  tc_emit_ctx *s;
  const tc_wblock *by;
  tc_val at;  // the first row at the current k
} lhs;

static tc_val load_lhs(void *of, int row) {
  const lhs *x = of;
  return load(x->s, x->by->a, TC_F32, 1, add_i64(x->s, x->at, row * x->by->a_row), TC_NONE);
}

void tc_wmultiply(tc_emit_ctx *s, const tc_wblock *by, tc_val a, tc_val b, tc_val to, tc_val n, tc_val prefetch_from,
                  int64_t further) {
  tc_val acc[32], zero = zeros(s, TC_F32, by->lanes);
  for (int i = 0; i < by->rows; i++)
    acc[i] = var(s, by->adds ? load(s, by->sums, TC_F32, by->lanes, add_i64(s, to, i * by->sums_row), TC_NONE) : zero);
  tc_val k = loop_to(s, n, 1), row = add(s, a, times(s, k, by->a_k));
  if (prefetch_from != TC_NONE) tc_build_prefetch(&s->e, by->b, add(s, prefetch_from, times(s, k, further)), false);
  tc_val columns = load(s, by->b, TC_F32, by->lanes, add(s, b, times(s, k, by->b_k)), TC_NONE);
  lhs rows = {s, by, row};
  tc_register_block_add(s, &(tc_register_block){by->way, by->rows, 1, load_lhs, &rows}, &columns, acc);
  end(s);
  for (int i = 0; i < by->rows; i++) store(s, by->sums, add_i64(s, to, i * by->sums_row), acc[i]);
}

// ---- tiles ----

tc_wplace tc_wplace_of(tc_emit_ctx *s, const tc_wtiles *by, tc_val tile) {
  int64_t down = tc_ceil_div(by->p, by->m);
  tc_val row = div_by(s, tile, by->across), column = rem_by(s, tile, by->across);
  tc_val image = div_by(s, row, down), y = rem_by(s, row, down);
  return (tc_wplace){image, times(s, y, by->m), times(s, column, by->m)};
}

bool tc_wsource_find(tc_emit_ctx *s, uint32_t node, int k, tc_wsource *out) {
  const tc_dims *d = &s->g->node[s->g->node[node].in[k]].shape->d;
  if (!tc_operand4_find(s, node, k, &out->in)) return false;
  if (out->in.stride[3] != 1) return tc_emit_store_first(s, s->g->node[node].in[k], "channels lie apart");
  out->h = d->dim[1], out->w = d->dim[2], out->channels = d->dim[3];
  return true;
}

// Reads and transforms the channels of one tile. row_in, column_in: which of its pixels exist;
// NULL: all.
static void read_tile(tc_emit_ctx *s, const tc_wtiles *by, const tc_wsource *x, tc_val from, const tc_val *row_in,
                      const tc_val *column_in, tc_val to) {
  tc_val c = loop_to(s, i64(s, x->channels), TC_WLANES), v[TC_WMOST][TC_WMOST];
  from = add(s, from, c), to = add(s, to, c);
  for (int i = 0; i < x->size; i++) {
    for (int j = 0; j < x->size; j++) {
      tc_val mask = row_in ? splat(s, bin(s, TC_IR_AND, row_in[i], column_in[j]), TC_WLANES) : TC_NONE;
      tc_val at = add_i64(s, from, i * x->in.stride[1] + j * x->in.stride[2]);
      v[i][j] = tc_build_cast(&s->e, load(s, x->in.buf, x->in.type, TC_WLANES, at, mask), TC_F32);
    }
  }
  tc_wtransform(s, by->m, x->side, x->size, by->alpha, v);
  for (int i = 0; i < by->alpha; i++)
    for (int j = 0; j < by->alpha; j++) store(s, x->tile, add(s, to, i64(s, (i * by->alpha + j) * x->place)), v[i][j]);
  end(s);
}

// Clears *some unless a square of one of the n tiles along an axis lies within its extent, and *all
// unless all do.
static void find_inside(const tc_wtiles *by, int size, int64_t low, int64_t extent, int64_t n, bool *some, bool *all) {
  int64_t first = tc_ceil_div(low, by->m), last = extent - size + low < 0 ? -1 : (extent - size + low) / by->m;
  *some &= first <= TC_MIN(last, n - 1), *all &= first == 0 && last >= n - 1;
}

void tc_wtiles_read(tc_emit_ctx *s, const tc_wtiles *by, const tc_wsource *x, tc_val first, tc_val last) {
  bool some = true, all = true;
  find_inside(by, x->size, x->low[0], x->h, tc_ceil_div(by->p, by->m), &some, &all);
  find_inside(by, x->size, x->low[1], x->w, by->across, &some, &all);
  tc_val tile = loop(s, first, last, 1), row_in[TC_WMOST], column_in[TC_WMOST];
  tc_wplace at = tc_wplace_of(s, by, tile);
  tc_val top = sub(s, at.y, i64(s, x->low[0])), left = sub(s, at.x, i64(s, x->low[1]));
  tc_val from = add(s, x->from, times(s, at.image, x->in.stride[0]));
  from = add(s, from, add(s, times(s, top, x->in.stride[1]), times(s, left, x->in.stride[2])));
  tc_val to = times(s, sub(s, tile, first), x->pitch), whole = TC_NONE;
  for (int i = 0; i < x->size && !all; i++) {
    row_in[i] = is_within(s, add_i64(s, top, i), x->h), column_in[i] = is_within(s, add_i64(s, left, i), x->w);
    tc_val both = bin(s, TC_IR_AND, row_in[i], column_in[i]);
    whole = whole == TC_NONE ? both : bin(s, TC_IR_AND, whole, both);
  }
  if (some) {
    if (!all) begin_if(s, whole);
    read_tile(s, by, x, from, NULL, NULL, to);
    if (!all) end_if(s);
  }
  if (!all) {
    if (some) begin_if(s, tc_build_un(&s->e, TC_IR_NOT, whole));
    read_tile(s, by, x, from, row_in, column_in, to);
    if (some) end_if(s);
  }
  end(s);
}
