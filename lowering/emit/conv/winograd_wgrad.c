// Emits the wgrad of a 3 x 3 convolution by Winograd's algorithm. The 9 sums over all pixels
// come from (m + 2)^2 sums over tiles of m x m of them.
//
// The result is [parts, outputs, (channel, tap)], to be summed over parts. Parts share the tiles of
// all images, so few channels occupy many threads too. [begin, end) counts units. A unit is a part,
// a block of channels and a block of outputs:
//   for each block of the part's tiles:
//     V[place][tile][channel]: the image's squares of (m + 2)^2, transformed by B
//     U[place][tile][output]: the gradient's squares of m^2, transformed by A
//     for each of the (m + 2)^2 places M[place][channel][output] += V[place]' U[place], of register
//     blocks as in micro_kernel.c
//   G' M G, 16 outputs at a time, is transposed to rows of an output's (channel, tap); then the
//   epilogue
// Order: the sum over a part's tiles is one chain for each place, channel and output; blocks do not
// matter. Parts depend on shapes alone, and are no longer than a chain.
// Error: as winograd.c's, relative to the largest of the result; docs/convolution-and-attention.md.
#include "lowering/target/cpu_target.h"
#include "lowering/emit/conv/winograd_tile.h"
#include "runtime/team.h"
#include "runtime/topology.h"

#define MOST_TILES 64  // most tiles of a block
#define LEAST_CACHE (INT64_C(512) << 10)

typedef struct gradient {
  tc_emit_ctx *s;
  uint32_t node;
  tc_wtiles by;
  // the operands: the convolution's image, and the gradient of its result
  tc_wsource image, result;
  int64_t c, o, parts;
  // channels and outputs of a unit; tiles of a part and of a block
  int64_t channels, outputs, each, block;
  bool once;  // true: a part is one block
  tc_wblock matmul;  // computes M
  int64_t place;  // elements of M from place to place
  int taps, transposed;  // tiles
} gradient;

#define E (&x->s->e)

// ---- one unit ----

static void multiply_channels(gradient *x, tc_val n) {
  tc_emit_ctx *s = x->s;
  tc_val place = loop_to(s, i64(s, wplaces(&x->by)), 1), lane = loop_to(s, i64(s, x->outputs), x->matmul.lanes);
  tc_val row = loop_to(s, i64(s, x->channels), x->matmul.rows);
  tc_val v = add(s, times(s, place, x->image.place), row), u = add(s, times(s, place, x->result.place), lane);
  tc_wmultiply(s, &x->matmul, v, u, add(s, add(s, times(s, place, x->place), times(s, row, x->outputs)), lane), n,
               TC_NONE, 0);
  end(s);
  end(s);
  end(s);
}

static void clear_places(gradient *x) {
  tc_emit_ctx *s = x->s;
  tc_val at = loop_to(s, i64(s, wplaces(&x->by) * x->place), TC_WLANES);
  store(s, x->matmul.sums, at, zeros(s, TC_F32, TC_WLANES));
  end(s);
}

// Computes the taps of 16 channels from `channel` on and 16 outputs from `output` on, as rows of
// outputs.
static void transpose_taps(gradient *x, tc_val channel, tc_val output) {
  tc_emit_ctx *s = x->s;
  tc_val c = loop_to(s, i64(s, TC_WLANES), 1), v[TC_WMOST][TC_WMOST], row[TC_WLANES];
  tc_val from = add(s, times(s, add(s, channel, c), x->outputs), output), to = times(s, c, TC_WTAPS * TC_WLANES);
  for (int i = 0; i < x->by.alpha; i++)
    for (int j = 0; j < x->by.alpha; j++)
      v[i][j] =
          load(s, x->matmul.sums, TC_F32, TC_WLANES, add(s, from, i64(s, (i * x->by.alpha + j) * x->place)), TC_NONE);
  tc_wtransform(s, x->by.m, tc_wside_by_taps, x->by.alpha, 3, v);
  for (int i = 0; i < TC_WTAPS; i++) store(s, x->taps, add_i64(s, to, i * TC_WLANES), v[i / 3][i % 3]);
  end(s);
  tc_val first = loop_to(s, i64(s, TC_WTAPS * TC_WLANES), TC_WLANES);
  for (int i = 0; i < TC_WLANES; i++)
    row[i] = load(s, x->taps, TC_F32, TC_WLANES, add(s, times(s, first, TC_WLANES), i64(s, i * TC_WLANES)), TC_NONE);
  tc_build_transpose(E, row, TC_WLANES);
  tc_val at = add(s, times(s, channel, TC_WTAPS), first);
  for (int i = 0; i < TC_WLANES; i++) store(s, x->transposed, add_i64(s, at, i * x->channels * TC_WTAPS), row[i]);
  end(s);
}

// Writes the results of 16 outputs, with the epilogue. first_channel, first_output: the unit's.
static void write_taps(gradient *x, tc_val first_channel, tc_val first_output, tc_val output) {
  tc_emit_ctx *s = x->s;
  tc_val channel = loop_to(s, i64(s, x->channels), TC_WLANES);
  transpose_taps(x, channel, output);
  end(s);
  tc_val row = loop_to(s, i64(s, TC_WLANES), 1);
  s->at[TC_RANGE_F] = add(s, add(s, first_output, output), row);
  tc_val at = loop_to(s, i64(s, x->channels * TC_WTAPS), s->lanes);
  s->at[TC_RANGE_K] = add(s, times(s, first_channel, TC_WTAPS), at);
  tc_emit_stores_of(
      s, x->node, load(s, x->transposed, TC_F32, s->lanes, add(s, times(s, row, x->channels * TC_WTAPS), at), TC_NONE));
  end(s);
  end(s);
}

static void make_unit_of_channels(gradient *x, tc_val part, tc_val channel, tc_val output) {
  tc_emit_ctx *s = x->s;
  tc_val from = times(s, part, x->each), to = least(s, add_i64(s, from, x->each), i64(s, x->by.n));
  x->image.from = add(s, tc_emit_base(s, &x->image.in.base), channel),
  x->result.from = add(s, tc_emit_base(s, &x->result.in.base), output);
  if (!x->once) clear_places(x);
  tc_val first = x->once ? from : loop(s, from, to, x->block);
  tc_val last = x->once ? to : least(s, add_i64(s, first, x->block), to);
  tc_wtiles_read(s, &x->by, &x->image, first, last);
  tc_wtiles_read(s, &x->by, &x->result, first, last);
  multiply_channels(x, sub(s, last, first));
  if (!x->once) end(s);
  tc_val some = loop_to(s, i64(s, x->outputs), TC_WLANES);
  write_taps(x, channel, output, some);
  end(s);
}

// ---- sizes ----

static int64_t sums_bytes(const gradient *x) {
  return wplaces(&x->by) * 4 * x->channels * x->outputs;
}

// Larger units transform less in proportion. M, V and U stay in a worker's second-level cache, M in
// three quarters of it, and each thread has a unit.
static void choose_unit(gradient *x) {
  int64_t cache = TC_MAX_OF((int64_t)tc_topology_get()->l2_bytes, LEAST_CACHE) / 8 * 7;
  x->channels = tc_wside_of(x->c, TC_WINOGRAD_MOST_SIDE), x->outputs = tc_wside_of(x->o, TC_WINOGRAD_MOST_SIDE);
  for (;;) {
    int64_t units = x->parts * (x->c / x->channels) * (x->o / x->outputs);
    bool fits = units >= tc_team_threads() && sums_bytes(x) <= cache / 4 * 3;
    bool wide = x->outputs > x->channels;
    int64_t *side = wide ? &x->outputs : &x->channels;
    if (fits || *side == TC_WLANES) break;
    *side = tc_wside_of(wide ? x->o : x->c, *side - TC_WLANES);
  }
  int64_t room = (cache - sums_bytes(x)) / (wplaces(&x->by) * 4 * (x->channels + x->outputs));
  x->block = TC_MIN(TC_MIN(TC_MAX_OF(room, 8), MOST_TILES), x->each);
}

static void choose_wgrad_blocks(gradient *x) {
  const tc_isa *isa = tc_compiler_isa();
  int vector = isa->vector_bytes / 4, registers = isa->registers / 4 * 3;
  choose_unit(x);
  x->once = x->block >= x->each;
  int lanes = isa->registers / 8 * vector;
  while (x->outputs % lanes) lanes /= 2;
  int rows = registers / TC_MAX_OF(lanes / vector, 1);
  while (x->channels % rows) rows--;
  x->matmul = (tc_wblock){.rows = rows,
                          .lanes = lanes,
                          .way = isa->fma ? TC_MULTIPLY_FUSED : TC_MULTIPLY_ROUNDED,
                          .adds = !x->once,
                          .a_row = 1,
                          .sums_row = x->outputs};
  x->matmul.a_k = x->channels, x->matmul.b_k = x->outputs;
  x->image.pitch = x->channels, x->result.pitch = x->outputs;
  x->image.place = x->block * x->channels + TC_WPITCH_MORE, x->result.place = x->block * x->outputs + TC_WPITCH_MORE;
  x->place = x->channels * x->outputs + TC_WPITCH_MORE;
}

void tc_emitter_winograd_wgrad(tc_emit_ctx *s) {
  uint32_t node = s->contraction;
  gradient whole = {.s = s, .node = node}, *x = &whole;
  const tc_gnode *n = &s->g->node[node];
  const tc_dims *image = &s->g->node[n->in[0]].shape->d, *result = &s->g->node[n->in[1]].shape->d;
  x->by = tc_wtiles_of((int)n->attr[0], image->dim[0], result->dim[1], result->dim[2]);
  x->image =
      (tc_wsource){.low = {(int64_t)n->attr[1], (int64_t)n->attr[2]}, .size = x->by.alpha, .side = tc_wside_inputs};
  x->result = (tc_wsource){.size = x->by.m, .side = tc_wside_outputs};
  if (!tc_wsource_find(s, node, 0, &x->image) || !tc_wsource_find(s, node, 1, &x->result)) return;
  x->c = x->image.channels, x->o = x->result.channels;
  x->parts = n->shape->d.dim[0], x->each = tc_ceil_div(x->by.n, x->parts);
  choose_wgrad_blocks(x);
  x->image.channels = x->channels, x->result.channels = x->outputs;
  x->image.tile = tc_emit_tile(s, TC_F32, wplaces(&x->by) * x->image.place);
  x->result.tile = tc_emit_tile(s, TC_F32, wplaces(&x->by) * x->result.place);
  x->matmul.a = x->image.tile, x->matmul.b = x->result.tile,
  x->matmul.sums = tc_emit_tile(s, TC_F32, wplaces(&x->by) * x->place);
  x->taps = tc_emit_tile(s, TC_F32, TC_WTAPS * TC_WLANES * TC_WLANES);
  x->transposed = tc_emit_tile(s, TC_F32, TC_WLANES * x->channels * TC_WTAPS);
  s->lanes = (int)(x->channels & -x->channels), s->vector = TC_RANGE_K;
  tc_emit_preload(s);
  int64_t columns = x->o / x->outputs, of_part = x->c / x->channels * columns;
  tc_val at = tc_emit_begin_units(s), place = rem_by(s, at, of_part);
  s->at[TC_RANGE_A] = div_by(s, at, of_part);
  s->bound[TC_RANGE_A] = s->bound[TC_RANGE_F] = s->bound[TC_RANGE_K] = true;
  tc_val channel = times(s, div_by(s, place, columns), x->channels);
  make_unit_of_channels(x, s->at[TC_RANGE_A], channel, times(s, rem_by(s, place, columns), x->outputs));
  end(s);
  s->x->extent = x->parts * of_part;
  s->x->work =
      tc_register_block_work(tc_winograd_wgrad_flops(&x->by, x->parts, x->channels, x->outputs) * (double)of_part);
}
