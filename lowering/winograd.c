// Winograd's convolution: m x m outputs of a 3 x 3 window from (m + 2) x (m + 2) inputs with (m + 2)^2 multiplications instead of 9 m^2.
//
// [begin, end) counts units, a unit being a block of tiles (of m x m pixels, of all images) by a block of panels (of outputs):
//   the tiles' inputs, transformed by B: V[place][tile][channel]
//   for each panel: for each of the (m + 2)^2 places a product M[place] = V[place] * U[place], of register blocks as in product_multiply.c
//                   its outputs, transformed by A, pixel by pixel; what follows is applied as it follows a product
// U is a tensor [panel][place][channel][lane], which a kernel of its own makes: G w G' for each output, a lane, and channel. A weight turned round
// has the roles of outputs and channels changed, and each window is read from its end.
// Error: against the largest output up to 1e-5 (m = 4) and 7e-7 (m = 2), where direct sums have 1e-6 to 2e-6: 64 and 256 channels of numbers evenly between
// -1 and 1.
// Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015: points 0, 1, -1, (2, -2,) infinity.
#include "lowering/winograd.h"

#include "lowering/expand_short.h"
#include "lowering/factor.h"
#include "lowering/compiler.h"
#include "runtime/options.h"
#include "runtime/team.h"

#define LANES_IN 16  // channels transformed at once
#define PITCH_MORE 16  // rows of V are no power of two apart, or all tiles would share the same lines of the cache
#define BLOCK_BYTES 786432  // of V and M; with the panel's weights they stay in a worker's second-level cache
#define MOST_TILES 64

typedef struct winograd {
  tc_ex *s;
  uint32_t node;
  int m, alpha;
  int64_t images, h, w, c, o, p, q;  // extents of image and result
  int64_t low_h, low_w;  // padding before
  int64_t across, tiles;  // tiles in a row of an image, and in all
  int64_t panel, n_panels;  // lanes of a panel
  int lanes, rows;  // of a register block
  bool fused;
  int64_t block, panels;  // tiles and panels of a unit
  int64_t pitch, padded;  // elements of a row of V; rows of V
  tc_operand4 in;  // the image, n, h, w, c; or the weight that is transformed
  tc_val at;  // its first element
  int weight;  // buffer of the transformed one
  int v, sums, pixels;  // tiles
} winograd;

#define E (&x->s->e)

// ---- shorthand ----

static tc_val scaled(winograd *x, double b, tc_val a) {
  return bin(x->s, TC_N_MUL, a, tc_emit_const_f(E, TC_F32, b));
}
static tc_val load(winograd *x, int buf, int lanes, tc_val at, tc_val mask) {
  return tc_emit_raw(E, TC_N_LOAD, TC_F32, lanes, at, mask, TC_NONE, buf);
}
static void store(winograd *x, int buf, int lanes, tc_val at, tc_val v) {
  (void)tc_emit_raw(E, TC_N_STORE, TC_F32, lanes, at, v, TC_NONE, buf);
}

// ---- transforms of alpha values d, in place ----

static void transform_in(winograd *x, tc_val *d) {
  if (x->m == 2) {
    tc_val t1 = add(x->s, d[1], d[2]), t2 = sub(x->s, d[2], d[1]);
    d[0] = sub(x->s, d[0], d[2]), d[3] = sub(x->s, d[1], d[3]), d[1] = t1, d[2] = t2;
    return;
  }
  tc_val even = sub(x->s, d[4], scaled(x, 4, d[2])), odd = sub(x->s, d[3], scaled(x, 4, d[1]));
  tc_val outer = sub(x->s, d[4], d[2]), inner = sub(x->s, d[3], d[1]), twice = scaled(x, 2, inner);
  d[0] = add(x->s, scaled(x, 4, sub(x->s, d[0], d[2])), outer);
  d[5] = sub(x->s, sub(x->s, d[5], d[3]), scaled(x, 4, inner));
  d[1] = add(x->s, even, odd), d[2] = sub(x->s, even, odd), d[3] = add(x->s, outer, twice), d[4] = sub(x->s, outer, twice);
}

// Of which the first m are the result.
static void transform_out(winograd *x, tc_val *d) {
  tc_val sum = add(x->s, d[1], d[2]), difference = sub(x->s, d[1], d[2]);
  if (x->m == 2) {
    d[0] = add(x->s, d[0], sum), d[1] = sub(x->s, difference, d[3]);
    return;
  }
  tc_val sum2 = add(x->s, d[3], d[4]), difference2 = sub(x->s, d[3], d[4]);
  d[0] = add(x->s, add(x->s, d[0], sum), sum2);
  d[1] = add(x->s, difference, scaled(x, 2, difference2));
  d[2] = add(x->s, sum, scaled(x, 4, sum2));
  d[3] = add(x->s, add(x->s, difference, scaled(x, 8, difference2)), d[5]);
}

// v[alpha][alpha], columns first; of the result rows and columns below `kept`.
static void transform_both(winograd *x, tc_val v[6][6], void (*transform)(winograd *, tc_val *), int kept) {
  tc_val column[6];
  for (int j = 0; j < x->alpha; j++) {
    for (int i = 0; i < x->alpha; i++) column[i] = v[i][j];
    transform(x, column);
    for (int i = 0; i < kept; i++) v[i][j] = column[i];
  }
  for (int i = 0; i < kept; i++) transform(x, v[i]);
}

// ---- one unit ----

typedef struct tile_place {
  tc_val image, y, x;  // of the first of its outputs
} tile_place;

static tile_place place_of(winograd *x, tc_val tile) {
  int64_t down = tc_ceil_div(x->p, x->m);
  tc_val row = bin(x->s, TC_N_DIV, tile, i64(x->s, x->across)), column = bin(x->s, TC_N_REM, tile, i64(x->s, x->across));
  tc_val image = bin(x->s, TC_N_DIV, row, i64(x->s, down)), y = bin(x->s, TC_N_REM, row, i64(x->s, down));
  return (tile_place){image, times(x->s, y, x->m), times(x->s, column, x->m)};
}

// The channels of one tile: masked: where a place may lie outside the image.
static void read_tile(winograd *x, tc_val from, const tc_val *row_in, const tc_val *column_in, tc_val to) {
  tc_val c = loop(x->s, i64(x->s, 0), i64(x->s, x->c), LANES_IN), v[6][6];
  from = add(x->s, from, c);
  for (int i = 0; i < x->alpha; i++) {
    for (int j = 0; j < x->alpha; j++) {
      tc_val mask = row_in ? tc_emit_splat(E, bin(x->s, TC_N_AND, row_in[i], column_in[j]), LANES_IN) : TC_NONE;
      v[i][j] = load(x, x->in.buf, LANES_IN, add(x->s, from, i64(x->s, i * x->in.stride[1] + j * x->in.stride[2])), mask);
    }
  }
  transform_both(x, v, transform_in, x->alpha);
  for (int i = 0; i < x->alpha; i++)
    for (int j = 0; j < x->alpha; j++)
      store(x, x->v, LANES_IN, add(x->s, add(x->s, to, c), i64(x->s, (i * x->alpha + j) * x->padded * x->pitch)), v[i][j]);
  end(x->s);
}

static tc_val within(winograd *x, tc_val at, int64_t extent) {
  return bin(x->s, TC_N_AND, bin(x->s, TC_N_GE, at, i64(x->s, 0)), bin(x->s, TC_N_LT, at, i64(x->s, extent)));
}

static void read_tiles(winograd *x, tc_val first, tc_val last) {
  tc_val tile = loop(x->s, first, last, 1), row_in[6], column_in[6];
  tile_place at = place_of(x, tile);
  tc_val top = sub(x->s, at.y, i64(x->s, x->low_h)), left = sub(x->s, at.x, i64(x->s, x->low_w));
  tc_val from = add(x->s, x->at, times(x->s, at.image, x->in.stride[0]));
  from = add(x->s, from, add(x->s, times(x->s, top, x->in.stride[1]), times(x->s, left, x->in.stride[2])));
  tc_val to = times(x->s, sub(x->s, tile, first), x->pitch), whole = TC_NONE;
  for (int i = 0; i < x->alpha; i++) {
    row_in[i] = within(x, add(x->s, top, i64(x->s, i)), x->h), column_in[i] = within(x, add(x->s, left, i64(x->s, i)), x->w);
    tc_val both = bin(x->s, TC_N_AND, row_in[i], column_in[i]);
    whole = whole == TC_NONE ? both : bin(x->s, TC_N_AND, whole, both);
  }
  (void)tc_emit_raw(E, TC_N_IF, TC_BOOL, 1, whole, TC_NONE, TC_NONE, 0);
  read_tile(x, from, NULL, NULL, to);
  tc_emit_end(E, TC_N_ENDIF);
  (void)tc_emit_raw(E, TC_N_IF, TC_BOOL, 1, tc_emit_un(E, TC_N_NOT, whole), TC_NONE, TC_NONE, 0);
  read_tile(x, from, row_in, column_in, to);
  tc_emit_end(E, TC_N_ENDIF);
  end(x->s);
}

// Elements of the next place's weights that a block of rows asks for at each channel: all blocks together ask for all of them, so that they are there
// in time.
static int64_t share_of(const winograd *x) {
  return tc_ceil_div(x->panel, x->padded / x->rows * (x->panel / x->lanes));
}

// rows x lanes sums of one place, from row `row` of V. ahead: where weights are asked for meanwhile.
static void multiply_block(winograd *x, tc_val v, tc_val u, tc_val to, tc_val ahead) {
  tc_val acc[32], zero = tc_emit_splat(E, tc_emit_const_f(E, TC_F32, 0), x->lanes);
  for (int i = 0; i < x->rows; i++) acc[i] = tc_emit_var(E, zero);
  tc_val k = loop(x->s, i64(x->s, 0), i64(x->s, x->c), 1);
  tc_emit_prefetch(E, x->weight, add(x->s, ahead, times(x->s, k, share_of(x))), false);
  tc_val b = load(x, x->weight, x->lanes, add(x->s, u, times(x->s, k, x->panel)), TC_NONE);
  for (int i = 0; i < x->rows; i++) {
    tc_val a = load(x, x->v, 1, add(x->s, add(x->s, v, k), i64(x->s, i * x->pitch)), TC_NONE);
    tc_emit_set(E, acc[i], x->fused ? tc_emit_fma(E, a, b, acc[i]) : add(x->s, acc[i], bin(x->s, TC_N_MUL, a, b)));
  }
  end(x->s);
  for (int i = 0; i < x->rows; i++) store(x, x->sums, x->lanes, add(x->s, to, i64(x->s, i * x->panel)), acc[i]);
}

static void multiply(winograd *x, tc_val panel) {
  int64_t places = (int64_t)x->alpha * x->alpha;
  tc_val place = loop(x->s, i64(x->s, 0), i64(x->s, places), 1);
  tc_val u = times(x->s, add(x->s, times(x->s, panel, places), place), x->c * x->panel);
  tc_val next = add(x->s, u, i64(x->s, x->c * x->panel));
  tc_val part = x->lanes < x->panel ? loop(x->s, i64(x->s, 0), i64(x->s, x->panel), x->lanes) : TC_NONE;
  tc_val row = loop(x->s, i64(x->s, 0), i64(x->s, x->padded), x->rows);
  tc_val at = add(x->s, times(x->s, place, x->padded), row), to = times(x->s, at, x->panel);
  tc_val ahead = add(x->s, next, times(x->s, bin(x->s, TC_N_DIV, row, i64(x->s, x->rows)), x->c * share_of(x)));
  if (part != TC_NONE) {
    u = add(x->s, u, part), to = add(x->s, to, part);
    ahead = add(x->s, ahead, times(x->s, bin(x->s, TC_N_DIV, part, i64(x->s, x->lanes)), x->padded / x->rows * x->c * share_of(x)));
  }
  multiply_block(x, times(x->s, at, x->pitch), u, to, ahead);
  end(x->s);
  if (part != TC_NONE) end(x->s);
  end(x->s);
}

// The outputs of one tile, and what follows them.
static void write_tile(winograd *x, tc_val tile, tc_val from) {
  tc_ex *s = x->s;
  tc_val lane = loop(x->s, i64(x->s, 0), i64(x->s, x->panel), LANES_IN), v[6][6];
  for (int i = 0; i < x->alpha; i++)
    for (int j = 0; j < x->alpha; j++)
      v[i][j] = load(x, x->sums, LANES_IN, add(x->s, add(x->s, from, lane), i64(x->s, (i * x->alpha + j) * x->padded * x->panel)), TC_NONE);
  transform_both(x, v, transform_out, x->m);
  for (int i = 0; i < x->m; i++)
    for (int j = 0; j < x->m; j++) store(x, x->pixels, LANES_IN, add(x->s, lane, i64(x->s, (i * x->m + j) * x->panel)), v[i][j]);
  end(x->s);
  tile_place at = place_of(x, tile);
  tc_val rows = bin(x->s, TC_N_MIN, i64(x->s, x->m), sub(x->s, i64(x->s, x->p), at.y)),
         columns = bin(x->s, TC_N_MIN, i64(x->s, x->m), sub(x->s, i64(x->s, x->q), at.x));
  tc_val i = loop(x->s, i64(x->s, 0), rows, 1);
  tc_val row = add(x->s, times(x->s, add(x->s, times(x->s, at.image, x->p), add(x->s, at.y, i)), x->q), at.x);
  tc_val j = loop(x->s, i64(x->s, 0), columns, 1);
  s->at[TC_RANGE_F] = add(x->s, row, j);
  tc_ex_remember(s, x->node, load(x, x->pixels, s->lanes, times(x->s, add(x->s, times(x->s, i, x->m), j), x->panel), TC_NONE));
  tc_ex_stores(s);
  end(x->s);
  end(x->s);
}

static void unit(winograd *x, tc_val block, tc_val first_panel) {
  tc_ex *s = x->s;
  tc_val first = times(x->s, block, x->block), last = bin(x->s, TC_N_MIN, add(x->s, first, i64(x->s, x->block)), i64(x->s, x->tiles));
  read_tiles(x, first, last);
  tc_val panel = loop(x->s, first_panel, bin(x->s, TC_N_MIN, add(x->s, first_panel, i64(x->s, x->panels)), i64(x->s, x->n_panels)), 1);
  multiply(x, panel);
  s->at[TC_RANGE_K] = times(x->s, panel, x->panel);
  s->mask = TC_NONE;
  if (x->o % x->panel) tc_ex_set_mask(s, s->at[TC_RANGE_K], i64(x->s, x->o));
  tc_val tile = loop(x->s, first, last, 1);
  write_tile(x, tile, times(x->s, sub(x->s, tile, first), x->panel));
  end(x->s);
  end(x->s);
}

// ---- what and how much ----

// Channels of the image lie side by side.
static bool find_image(winograd *x) {
  tc_ex *s = x->s;
  if (!tc_operand4_find(s, x->node, 0, &x->in)) return false;
  if (x->in.stride[3] != 1) {
    s->x->unsaid = s->g->node[x->node].in[0];
    return tc_ex_fail(s, TC_ERR_STATE, "channels lie apart"), false;
  }
  x->weight = tc_ex_buffer(s, s->g->node[x->node].in[1]);
  s->x->same &= ~(UINT64_C(1) << x->weight);
  return true;
}

// Rows of a register block: the most that fill whole blocks, or nearly.
static int choose_rows(int64_t n, int most) {
  int best = most;
  for (int r = most - 1; r >= TC_MAX_OF(most / 2, 1); r--)
    if (tc_ceil_div(n, r) * r < tc_ceil_div(n, best) * best) best = r;
  return best;
}

static void choose_blocks(winograd *x) {
  const tc_isa *isa = tc_compiler_isa();
  int vector = isa->vector_bytes / 4, registers = isa->registers / 4 * 3;
  int64_t places = (int64_t)x->alpha * x->alpha, threads = tc_team_threads();
  x->fused = isa->fma;
  x->lanes = (int)TC_MIN(x->panel, (int64_t)(isa->registers / 8 * vector));
  int most = registers / TC_MAX_OF(x->lanes / vector, 1);
  x->pitch = x->c + PITCH_MORE;
  x->block = TC_MAX_OF(TC_MIN(BLOCK_BYTES / (places * 4 * (x->pitch + x->panel)), MOST_TILES), x->c >= 256 ? MOST_TILES : 16);
  int64_t blocks = tc_ceil_div(x->tiles, x->block);
  if (blocks < threads && x->n_panels < threads) blocks = TC_MIN(threads, tc_ceil_div(x->tiles, 32));
  x->block = tc_ceil_div(x->tiles, blocks);
  x->rows = choose_rows(x->block, most);
  x->padded = tc_ceil_div(x->block, x->rows) * x->rows;
  x->panels = tc_ceil_div(x->n_panels, TC_MIN(tc_ceil_div(threads, tc_ceil_div(x->tiles, x->block)), x->n_panels));
}

void tc_ex_winograd(tc_ex *s, uint32_t node) {
  winograd whole = {.s = s, .node = node}, *x = &whole;
  const tc_gnode *n = &s->g->node[node];
  const tc_dims *image = &s->g->node[n->in[0]].shape->d;
  x->m = (int)n->attr[0], x->alpha = x->m + 2;
  x->low_h = (int64_t)n->attr[1], x->low_w = (int64_t)n->attr[2], x->p = (int64_t)n->attr[3], x->q = (int64_t)n->attr[4];
  x->images = image->dim[0], x->h = image->dim[1], x->w = image->dim[2], x->c = image->dim[3], x->o = s->gp->k;
  x->across = tc_ceil_div(x->q, x->m), x->tiles = x->images * tc_ceil_div(x->p, x->m) * x->across;
  x->panel = tc_winograd_panel(x->o), x->n_panels = tc_ceil_div(x->o, x->panel);
  if (!find_image(x)) return;
  choose_blocks(x);
  int64_t places = (int64_t)x->alpha * x->alpha;
  x->v = tc_ex_tile(s, TC_F32, places * x->padded * x->pitch);
  x->sums = tc_ex_tile(s, TC_F32, places * x->padded * x->panel);
  x->pixels = tc_ex_tile(s, TC_F32, (int64_t)x->m * x->m * x->panel);
  s->lanes = (int)x->panel, s->vector = TC_RANGE_K;
  tc_ex_preload(s);
  int64_t blocks = tc_ceil_div(x->tiles, x->block), columns = tc_ceil_div(x->n_panels, x->panels);
  tc_val begin = tc_emit_raw(E, TC_N_BEGIN, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  tc_val finish = tc_emit_raw(E, TC_N_FINISH, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  tc_val o = loop(x->s, begin, finish, 1);
  tc_val block = columns == 1 ? o : bin(x->s, TC_N_DIV, o, i64(x->s, columns));
  tc_val column = columns == 1 ? i64(x->s, 0) : bin(x->s, TC_N_REM, o, i64(x->s, columns));
  s->at[TC_RANGE_A] = i64(x->s, 0);
  s->bound[TC_RANGE_A] = s->bound[TC_RANGE_F] = s->bound[TC_RANGE_K] = true;
  x->at = tc_operand4_at(s, &x->in);
  unit(x, block, times(x->s, column, x->panels));
  s->mask = TC_NONE;
  end(x->s);
  s->x->extent = blocks * columns;
  double flops = (double)(places * x->tiles) * ((double)(x->c * x->o) * 2 + 16 * (double)(x->c + x->o));
  s->x->work = flops / (tc_compiler_vector_bytes() == 64 ? 200 : 90) + 50;
}

// ---- the weight ----

// Three taps to alpha values: G's rows are the points.
static void transform_weight(winograd *x, const tc_val *w, tc_val *d) {
  tc_val ends = add(x->s, w[0], w[2]);
  d[0] = x->m == 2 ? w[0] : scaled(x, 0.25, w[0]), d[x->alpha - 1] = w[2];
  if (x->m == 2) {
    d[1] = scaled(x, 0.5, add(x->s, ends, w[1])), d[2] = scaled(x, 0.5, sub(x->s, ends, w[1]));
    return;
  }
  tc_val sixth = scaled(x, 1.0 / 6, w[1]), twelfth = scaled(x, 1.0 / 12, w[1]), sum = scaled(x, -1.0 / 6, ends);
  tc_val wide = add(x->s, scaled(x, 1.0 / 24, w[0]), scaled(x, 1.0 / 6, w[2]));
  d[1] = sub(x->s, sum, sixth), d[2] = add(x->s, sum, sixth), d[3] = add(x->s, wide, twelfth), d[4] = sub(x->s, wide, twelfth);
}

// [begin, end) counts pairs of a panel and a channel.
void tc_ex_winograd_weight(tc_ex *s, uint32_t node) {
  winograd whole = {.s = s, .node = node}, *x = &whole;
  const tc_gnode *n = &s->g->node[node];
  bool turned = n->attr[1];
  int64_t channels = n->shape->d.dim[2], panel = n->shape->d.dim[3], outputs = s->g->node[n->in[0]].shape->d.dim[turned];
  const int64_t *stride = x->in.stride;
  x->m = (int)n->attr[0], x->alpha = x->m + 2;
  if (!tc_operand4_find(s, node, 0, &x->in)) return;
  s->lanes = LANES_IN, s->vector = TC_RANGE_K;
  tc_val begin = tc_emit_raw(E, TC_N_BEGIN, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  tc_val finish = tc_emit_raw(E, TC_N_FINISH, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  tc_val o = loop(x->s, begin, finish, 1), c = bin(x->s, TC_N_REM, o, i64(x->s, channels)), p = bin(x->s, TC_N_DIV, o, i64(x->s, channels));
  s->at[TC_RANGE_A] = i64(x->s, 0), s->at[TC_RANGE_F] = c;
  s->bound[TC_RANGE_A] = s->bound[TC_RANGE_F] = s->bound[TC_RANGE_K] = true;
  tc_val at = add(x->s, tc_operand4_at(s, &x->in), times(x->s, c, stride[!turned]));
  tc_val lane = loop(x->s, i64(x->s, 0), i64(x->s, panel), LANES_IN), output = add(x->s, times(x->s, p, panel), lane);
  tc_val lanes = tc_ex_lane_numbers(s), there = TC_NONE, w[3][3], half[6][3], column[6], row[6];
  if (outputs % LANES_IN || outputs % panel) there = bin(x->s, TC_N_LT, lanes, tc_emit_splat(E, sub(x->s, i64(x->s, outputs), output), LANES_IN));
  at = add(x->s, tc_emit_splat(E, add(x->s, at, times(x->s, output, stride[turned])), LANES_IN), times(x->s, lanes, stride[turned]));
  for (int i = 0; i < 9; i++) {
    int tap = turned ? 8 - i : i;
    tc_val from = add(x->s, at, tc_emit_splat(E, i64(x->s, tap / 3 * stride[2] + tap % 3 * stride[3]), LANES_IN));
    w[i % 3][i / 3] = tc_emit_raw(E, TC_N_GATHER, TC_F32, LANES_IN, from, there, TC_NONE, x->in.buf);  // by columns
  }
  for (int j = 0; j < 3; j++) {
    transform_weight(x, w[j], column);
    for (int i = 0; i < x->alpha; i++) half[i][j] = column[i];
  }
  s->at[TC_RANGE_K] = lane;
  tc_val first = times(x->s, p, (int64_t)x->alpha * x->alpha);
  for (int i = 0; i < x->alpha; i++) {
    transform_weight(x, half[i], row);
    for (int j = 0; j < x->alpha; j++) {
      tc_ex_enter(s);
      s->at[TC_RANGE_A] = add(x->s, first, i64(x->s, i * x->alpha + j));
      tc_ex_remember(s, node, row[j]);
      tc_ex_stores(s);
      tc_ex_leave(s);
    }
  }
  end(x->s);
  end(x->s);
  s->x->extent = n->shape->d.dim[0] * channels;
  s->x->work = (double)n->shape->count * (tc_compiler_vector_bytes() == 64 ? 0.5 : 1);
}

int64_t tc_winograd_panel(int64_t outputs) {
  int64_t best = 64;
  for (int64_t panel = 64; panel >= 16; panel /= 2)
    if (tc_ceil_div(outputs, panel) * panel * 11 < tc_ceil_div(outputs, best) * best * 10) best = panel;
  return best;
}

static double cost(int m, const tc_dims *image, int64_t p, int64_t q, int64_t o) {
  double places = m == 0 ? 9 : (m + 2) * (m + 2), c = (double)image->dim[3];
  double tiles = m == 0 ? (double)(image->dim[0] * p * q) : (double)(image->dim[0] * tc_ceil_div(p, m) * tc_ceil_div(q, m));
  double transforms = m == 0 ? 0 : 16 * places * tiles * (c + (double)o);
  return 2 * places * tiles * c * (double)o + transforms + 96 * places * c * (double)o;  // a transformed weight is written and read
}

bool tc_winograd_allowed(void) {
  return tc_options_get()->winograd && !tc_options_get()->strict;
}

int tc_winograd_size(const tc_dims *image, int64_t p, int64_t q, int64_t o) {
  if (image->dim[3] % LANES_IN || o % LANES_IN) return 0;
  double least = 0.9 * cost(0, image, p, q, o);
  int best = 0;
  for (int m = 2; m <= 4; m += 2)
    if (cost(m, image, p, q, o) < least) least = cost(m, image, p, q, o), best = m;
  return best;
}
