// Emits Winograd's convolution: m x m outputs of a 3 x 3 window from (m + 2) x (m + 2) inputs. It
// takes (m + 2)^2 multiplications instead of 9 m^2.
//
// [begin, end) counts units. A unit is a block of tiles (of m x m pixels, of all images) by a block
// of panels (of outputs):
//   the tiles' inputs, transformed by B: V[place][tile][channel]
//   for each panel, for each of the (m + 2)^2 places: a matmul M[place] = V[place] * U[place], of
//     register blocks as in micro_kernel.c
//   its outputs, transformed by A, pixel by pixel; then the epilogue
// U is a tensor [panel][place][channel][lane] that a kernel of its own makes: G w G' for each
// output (a lane) and channel. In a transposed weight outputs and channels are exchanged, and each
// window is read from its end.
// Measured: error relative to the largest output, 64 and 256 channels, uniform in [-1, 1].
// It is up to 1e-5 (m = 4) and 7e-7 (m = 2); direct sums 1e-6 to 2e-6.
#include <string.h>

#include "lowering/target/cpu_target.h"
#include "lowering/emit/conv/winograd_tile.h"
#include "runtime/team.h"

// most bytes of V and M; with the panel's weights they stay in a worker's second-level cache
#define BLOCK_BYTES 786432
#define MOST_TILES 64

typedef struct winograd {
  tc_emit_ctx *s;
  uint32_t node;
  tc_wtiles by;
  tc_wsource image;
  int64_t c, o;
  int64_t panel, n_panels;  // lanes of a panel; panels
  tc_wblock matmul;
  int64_t block, panels;  // tiles and panels of a unit
  int64_t padded;  // rows of V, whole register blocks
  int weight;  // buffer of the transformed weight
  int pixels;  // tile of a tile's outputs
} winograd;

#define E (&x->s->e)

// Elements of the next place's weights that a block of rows prefetches at each channel. All blocks
// together prefetch all of them in time.
static int64_t share_of(const winograd *x) {
  return tc_ceil_div(x->panel, x->padded / x->matmul.rows * (x->panel / x->matmul.lanes));
}

static void multiply_places(winograd *x, tc_val panel) {
  int64_t places = wplaces(&x->by);
  tc_val place = loop(x->s, i64(x->s, 0), i64(x->s, places), 1);
  tc_val u = times(x->s, add(x->s, times(x->s, panel, places), place), x->c * x->panel);
  tc_val next = add_i64(x->s, u, x->c * x->panel);
  tc_val part = x->matmul.lanes < x->panel ? loop(x->s, i64(x->s, 0), i64(x->s, x->panel), x->matmul.lanes) : TC_NONE;
  tc_val row = loop(x->s, i64(x->s, 0), i64(x->s, x->padded), x->matmul.rows);
  tc_val at = add(x->s, times(x->s, place, x->padded), row), to = times(x->s, at, x->panel);
  tc_val prefetch_from = add(x->s, next, times(x->s, div_by(x->s, row, x->matmul.rows), x->c * share_of(x)));
  if (part != TC_NONE) {
    u = add(x->s, u, part), to = add(x->s, to, part);
    prefetch_from =
        add(x->s, prefetch_from,
            times(x->s, div_by(x->s, part, x->matmul.lanes), x->padded / x->matmul.rows * x->c * share_of(x)));
  }
  tc_wmultiply(x->s, &x->matmul, times(x->s, at, x->image.pitch), u, to, i64(x->s, x->c), prefetch_from, share_of(x));
  end(x->s);
  if (part != TC_NONE) end(x->s);
  end(x->s);
}

// Writes the outputs of one tile, with the epilogue.
static void write_tile(winograd *x, tc_val tile, tc_val from) {
  tc_emit_ctx *s = x->s;
  tc_val lane = loop_to(s, i64(s, x->panel), TC_WLANES), v[TC_WMOST][TC_WMOST];
  for (int i = 0; i < x->by.alpha; i++)
    for (int j = 0; j < x->by.alpha; j++)
      v[i][j] = load(s, x->matmul.sums, TC_F32, TC_WLANES,
                     add(s, add(s, from, lane), i64(s, (i * x->by.alpha + j) * x->padded * x->panel)), TC_NONE);
  tc_wtransform(s, x->by.m, tc_wside_sums, x->by.alpha, x->by.m, v);
  for (int i = 0; i < x->by.m; i++)
    for (int j = 0; j < x->by.m; j++) store(s, x->pixels, add(s, lane, i64(s, (i * x->by.m + j) * x->panel)), v[i][j]);
  end(s);
  tc_wplace at = tc_wplace_of(s, &x->by, tile);
  tc_val rows = least(s, i64(s, x->by.m), sub(s, i64(s, x->by.p), at.y)),
         columns = least(s, i64(s, x->by.m), sub(s, i64(s, x->by.q), at.x));
  tc_val i = loop_to(s, rows, 1);
  tc_val row = add(s, times(s, add(s, times(s, at.image, x->by.p), add(s, at.y, i)), x->by.q), at.x);
  tc_val j = loop_to(s, columns, 1);
  s->at[TC_RANGE_F] = add(s, row, j);
  tc_emit_stores_of(s, x->node,
                    load(s, x->pixels, TC_F32, s->lanes, times(s, add(s, times(s, i, x->by.m), j), x->panel), TC_NONE));
  end(s);
  end(s);
}

static void make_unit_of_tiles(winograd *x, tc_val block, tc_val first_panel) {
  tc_emit_ctx *s = x->s;
  tc_val first = times(s, block, x->block), last = least(s, add_i64(s, first, x->block), i64(s, x->by.n));
  tc_wtiles_read(s, &x->by, &x->image, first, last);
  tc_val panel = loop(s, first_panel, least(s, add_i64(s, first_panel, x->panels), i64(s, x->n_panels)), 1);
  multiply_places(x, panel);
  s->at[TC_RANGE_K] = times(s, panel, x->panel);
  s->mask = TC_NONE;
  if (x->o % x->panel) tc_emit_set_mask(s, s->at[TC_RANGE_K], i64(s, x->o));
  tc_val tile = loop(s, first, last, 1);
  write_tile(x, tile, times(s, sub(s, tile, first), x->panel));
  end(s);
  end(s);
}

// ---- sizes ----

// Rows of a register block, at least half of `most`: those with the least padding, the most of
// equals.
static int choose_rows(int64_t n, int most) {
  int best = most;
  for (int r = most - 1; r >= TC_MAX_OF(most / 2, 1); r--)
    if (tc_ceil_div(n, r) * r < tc_ceil_div(n, best) * best) best = r;
  return best;
}

static void choose_winograd_blocks(winograd *x) {
  const tc_isa *isa = tc_compiler_isa();
  int vector = isa->vector_bytes / 4, registers = isa->registers / 4 * 3;
  int64_t places = wplaces(&x->by), threads = tc_team_threads(), pitch = x->c + TC_WPITCH_MORE;
  x->matmul = (tc_wblock){
      .way = isa->fma ? TC_MULTIPLY_FUSED : TC_MULTIPLY_ROUNDED, .a_k = 1, .b_k = x->panel, .sums_row = x->panel};
  x->matmul.lanes = (int)TC_MIN(x->panel, (int64_t)(isa->registers / 8 * vector));
  int most = registers / TC_MAX_OF(x->matmul.lanes / vector, 1);
  x->block =
      TC_MAX_OF(TC_MIN(BLOCK_BYTES / (places * 4 * (pitch + x->panel)), MOST_TILES), x->c >= 256 ? MOST_TILES : 16);
  int64_t blocks = tc_ceil_div(x->by.n, x->block);
  if (blocks < threads && x->n_panels < threads) blocks = TC_MIN(threads, tc_ceil_div(x->by.n, 32));
  x->block = tc_ceil_div(x->by.n, blocks);
  x->matmul.rows = choose_rows(x->block, most);
  x->padded = tc_ceil_div(x->block, x->matmul.rows) * x->matmul.rows;
  x->panels = tc_ceil_div(x->n_panels, TC_MIN(tc_ceil_div(threads, tc_ceil_div(x->by.n, x->block)), x->n_panels));
  x->image.pitch = pitch, x->image.place = x->padded * pitch, x->matmul.a_row = pitch;
}

void tc_emitter_winograd(tc_emit_ctx *s) {
  uint32_t node = s->contraction;
  winograd whole = {.s = s, .node = node}, *x = &whole;
  const tc_gnode *n = &s->g->node[node];
  const tc_dims *image = &s->g->node[n->in[0]].shape->d;
  x->by = tc_wtiles_of((int)n->attr[0], image->dim[0], (int64_t)n->attr[3], (int64_t)n->attr[4]);
  x->image =
      (tc_wsource){.low = {(int64_t)n->attr[1], (int64_t)n->attr[2]}, .size = x->by.alpha, .side = tc_wside_inputs};
  x->c = image->dim[3], x->o = s->gp->k;
  x->panel = tc_winograd_panel(x->o), x->n_panels = tc_ceil_div(x->o, x->panel);
  if (!tc_wsource_find(s, node, 0, &x->image)) return;
  x->weight = tc_emit_buffer(s, n->in[1]);
  s->x->same &= ~(UINT64_C(1) << x->weight);
  choose_winograd_blocks(x);
  int64_t places = wplaces(&x->by);
  x->image.tile = tc_emit_tile(s, TC_F32, places * x->image.place);
  x->matmul.a = x->image.tile, x->matmul.b = x->weight,
  x->matmul.sums = tc_emit_tile(s, TC_F32, places * x->padded * x->panel);
  x->pixels = tc_emit_tile(s, TC_F32, (int64_t)x->by.m * x->by.m * x->panel);
  s->lanes = (int)x->panel, s->vector = TC_RANGE_K;
  tc_emit_preload(s);
  int64_t blocks = tc_ceil_div(x->by.n, x->block), columns = tc_ceil_div(x->n_panels, x->panels);
  tc_val o = tc_emit_begin_units(s);
  tc_val block = columns == 1 ? o : div_by(s, o, columns);
  tc_val column = columns == 1 ? i64(s, 0) : rem_by(s, o, columns);
  s->at[TC_RANGE_A] = i64(s, 0);
  s->bound[TC_RANGE_A] = s->bound[TC_RANGE_F] = s->bound[TC_RANGE_K] = true;
  x->image.from = tc_emit_base(s, &x->image.in.base);
  make_unit_of_tiles(x, block, times(s, column, x->panels));
  s->mask = TC_NONE;
  end(s);
  s->x->extent = blocks * columns;
  double flops = (double)(places * x->by.n) * ((double)(x->c * x->o) * 2 + 16 * (double)(x->c + x->o));
  s->x->work = tc_register_block_work(flops);
}

// ---- the weight ----

// Loads the taps of 16 outputs: w[tap] is a vector of outputs. at: the first output's taps;
// `apart`: distance between outputs. there: the lanes that exist.
static void gather_taps(tc_emit_ctx *s, const tc_operand4 *weight, tc_val at, int64_t apart, tc_val there, tc_val *w) {
  tc_val lanes = times(s, tc_emit_lane_numbers(s), apart);
  at = add(s, splat(s, at, TC_WLANES), lanes);
  for (int i = 0; i < TC_WTAPS; i++) {
    tc_val from = add(s, at, splat(s, i64(s, i / 3 * weight->stride[2] + i % 3 * weight->stride[3]), TC_WLANES));
    w[i] = tc_build_cast(&s->e, gather(s, weight->buf, weight->type, TC_WLANES, from, there), TC_F32);
  }
}

// As gather_taps, if an output's taps are adjacent and fit a register: loads rows of taps and
// transposes them.
static void transpose_taps(tc_emit_ctx *s, const tc_operand4 *weight, tc_val at, int64_t apart, tc_val *w) {
  tc_val first = bin(s, TC_IR_LT, tc_emit_numbers(s, TC_I64, TC_WLANES), i64(s, TC_WTAPS)), row[TC_WLANES];
  for (int i = 0; i < TC_WLANES; i++)
    row[i] =
        tc_build_cast(&s->e, load(s, weight->buf, weight->type, TC_WLANES, add_i64(s, at, i * apart), first), TC_F32);
  tc_build_transpose(&s->e, row, TC_WLANES);
  memcpy(w, row, TC_WTAPS * sizeof *w);
}

// [begin, end) counts pairs of a panel and a channel.
void tc_emitter_winograd_weight(tc_emit_ctx *s) {
  uint32_t node = s->contraction;
  const tc_gnode *n = &s->g->node[node];
  bool transposed = n->attr[1];
  int m = (int)n->attr[0], alpha = m + 2;
  int64_t channels = n->shape->d.dim[2], panel = n->shape->d.dim[3],
          outputs = s->g->node[n->in[0]].shape->d.dim[transposed];
  tc_operand4 weight;
  if (!tc_operand4_find(s, node, 0, &weight)) return;
  s->lanes = TC_WLANES, s->vector = TC_RANGE_K;
  tc_val o = tc_emit_begin_units(s), c = rem_by(s, o, channels), p = div_by(s, o, channels);
  s->at[TC_RANGE_A] = i64(s, 0), s->at[TC_RANGE_F] = c;
  s->bound[TC_RANGE_A] = s->bound[TC_RANGE_F] = s->bound[TC_RANGE_K] = true;
  tc_val at = add(s, tc_emit_base(s, &weight.base), times(s, c, weight.stride[!transposed]));
  tc_val lane = loop_to(s, i64(s, panel), TC_WLANES), output = add(s, times(s, p, panel), lane);
  tc_val there = TC_NONE, w[TC_WTAPS], column[3][TC_WMOST], row[TC_WMOST];
  bool whole = outputs % TC_WLANES == 0 && outputs % panel == 0,
       beside = weight.stride[2] == 3 && weight.stride[3] == 1;
  if (!whole) there = bin(s, TC_IR_LT, tc_emit_lane_numbers(s), splat(s, sub(s, i64(s, outputs), output), TC_WLANES));
  at = add(s, at, times(s, output, weight.stride[transposed]));
  if (whole && beside && tc_compiler_vector_bytes() >= TC_WLANES * 4)
    transpose_taps(s, &weight, at, weight.stride[transposed], w);
  else
    gather_taps(s, &weight, at, weight.stride[transposed], there, w);
  for (int i = 0; i < TC_WTAPS; i++) column[i % 3][i / 3] = w[transposed ? TC_WTAPS - 1 - i : i];
  for (int j = 0; j < 3; j++) tc_wside_taps(s, m, column[j]);
  s->at[TC_RANGE_K] = lane;
  tc_val first = times(s, p, (int64_t)alpha * alpha);
  for (int i = 0; i < alpha; i++) {
    for (int j = 0; j < 3; j++) row[j] = column[j][i];
    tc_wside_taps(s, m, row);
    for (int j = 0; j < alpha; j++) {
      s->at[TC_RANGE_A] = add_i64(s, first, i * alpha + j);
      tc_emit_stores_of(s, node, row[j]);
    }
  }
  end(s);
  end(s);
  s->x->extent = n->shape->d.dim[0] * channels;
  s->x->work = (double)n->shape->count * (tc_compiler_vector_bytes() == 64 ? 0.5 : 1);
}
