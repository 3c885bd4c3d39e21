// Emits a convolution of few channels, [n, h, w, c] by [o, c, kh, kw], with the result channels
// first. Pixels of a row are vector lanes; weights are broadcast.
//
// [begin, end) counts units. A unit is some rows of pixels of one image:
//   the rows of the image that its windows see are copied to a scratch tile, with zeros around
//   them, a channel at a time. With stride s along a row, every s-th pixel is adjacent there:
//   what a tap sees of a row of windows is a vector, wherever the tap is
//   for each block of outputs, for each row of pixels, `lanes` at a time: outputs x lanes sums
//   in registers, over the taps; then the epilogue
// A matmul of windows by weights (expand_conv.c) would need a padded image, and a transpose of its
// result to channels first.
// Order: as of that matmul, one chain over (kh, kw, c) from zero.
#include "lowering/emit/emitters.h"
#include "lowering/emit/register_block.h"
#include "lowering/emit/shorthand.h"
#include "lowering/emit/strided_operand.h"
#include "lowering/target/cpu_target.h"

#define STAGED_AT_ONCE 16  // pixels
// most bytes of a unit's rows of the image; the rows that one row of windows sees stay in the
// first-level cache
#define STAGED_BYTES 65536

typedef struct direct {
  tc_emit_ctx *s;
  uint32_t node;
  tc_type type;
  tc_multiply_way way;
  int64_t images, h, w, c, o, p, q;  // extents of image and result
  int64_t size[2], stride[2], dilation[2], low[2];  // along h and w
  int lanes, rows;  // register block: pixels, outputs
  int64_t block, n_blocks;  // rows of pixels of a unit; units of an image
  // elements of a staged row of one channel and phase of the stride; of all of them
  int64_t width, pitch;
  tc_operand4 image, weight;
  tc_val image_at, weight_at;
  int staged;  // the scratch tile
} direct;

#define E (&x->s->e)

// Loads every stride-th pixel of the row at `row`, from pixel `first` on. Pixels outside are zero.
// Operands of f16 and bf16, whose result a bias made f32, are widened.
static tc_val read_pixels(direct *x, tc_val row, tc_val first, bool inside) {
  int64_t step = x->stride[1] * x->image.stride[2];
  tc_val number = tc_emit_numbers(x->s, TC_I64, STAGED_AT_ONCE), mask = TC_NONE;
  if (!inside) {
    tc_val at = add(x->s, times(x->s, number, x->stride[1]), first);
    mask = is_within(x->s, at, x->w);
  }
  tc_val at = add(x->s, row, times(x->s, first, x->image.stride[2]));
  if (step == 1) return tc_build_cast(E, load(x->s, x->image.buf, x->image.type, STAGED_AT_ONCE, at, mask), x->type);
  // an image of one column has stride 0
  at = splat(x->s, add(x->s, times(x->s, number, step), at), STAGED_AT_ONCE);
  return tc_build_cast(E, gather(x->s, x->image.buf, x->image.type, STAGED_AT_ONCE, at, mask), x->type);
}

// Stages pixels `from` to `until` of a row.
static void stage_pixels(direct *x, tc_val row, tc_val to, int64_t phase, int64_t from, int64_t until, bool inside) {
  if (from == until) return;
  tc_val at = loop(x->s, i64(x->s, from), i64(x->s, until), STAGED_AT_ONCE);
  tc_val v = read_pixels(x, row, add(x->s, times(x->s, at, x->stride[1]), i64(x->s, phase - x->low[1])), inside);
  store(x->s, x->staged, add(x->s, to, at), v);
  end(x->s);
}

// Stages one channel's row, which begins at `row`: the pixels of one phase of the stride, to `to`.
static void stage_row(direct *x, tc_val row, tc_val to, int64_t phase) {
  const int64_t many = STAGED_AT_ONCE, before = TC_MAX_OF(x->low[1] - phase, 0), until = x->w - 1 + x->low[1] - phase;
  // the first staged pixel inside the image
  int64_t first = TC_MIN(tc_ceil_div(tc_ceil_div(before, x->stride[1]), many) * many, x->width);
  int64_t last = TC_MAX_OF(TC_MIN(until < 0 ? 0 : until / x->stride[1] + 1, x->width) / many * many, first);
  stage_pixels(x, row, to, phase, 0, first, false);
  stage_pixels(x, row, to, phase, first, last, true);
  stage_pixels(x, row, to, phase, last, x->width, false);
}

static void stage_zeros(direct *x, tc_val to) {
  tc_val at = loop(x->s, i64(x->s, 0), i64(x->s, x->pitch), STAGED_AT_ONCE),
         zero = zeros(x->s, x->type, STAGED_AT_ONCE);
  store(x->s, x->staged, add(x->s, to, at), zero);
  end(x->s);
}

// Stages the rows of the image that rows y0 to y1 of windows see.
static void stage_rows(direct *x, tc_val y0, tc_val y1) {
  tc_val top = add(x->s, times(x->s, y0, x->stride[0]), i64(x->s, -x->low[0]));
  tc_val many = add(x->s, times(x->s, sub(x->s, y1, y0), x->stride[0]),
                    i64(x->s, (x->size[0] - 1) * x->dilation[0] + 1 - x->stride[0]));
  tc_val r = loop(x->s, i64(x->s, 0), many, 1), h = add(x->s, top, r), to = times(x->s, r, x->pitch);
  tc_val exists = is_within(x->s, h, x->h);
  tc_val from = add(x->s, x->image_at, times(x->s, h, x->image.stride[1]));
  begin_if(x->s, exists);
  for (int64_t i = 0; i < x->c * x->stride[1]; i++)
    stage_row(x, add_i64(x->s, from, i / x->stride[1] * x->image.stride[3]), add_i64(x->s, to, i * x->width),
              i % x->stride[1]);
  end_if(x->s);
  begin_if(x->s, tc_build_un(E, TC_IR_NOT, exists));
  stage_zeros(x, to);
  end_if(x->s);
  end(x->s);
}

// Output first + i, or the last one if there are fewer.
static tc_val output_number(direct *x, tc_val first, int i) {
  tc_val o = add_i64(x->s, first, i);
  return x->o % x->rows ? least(x->s, o, i64(x->s, x->o - 1)) : o;
}

typedef struct lhs {
  direct *x;
  const tc_val *weight;  // address of each output's first weight
  tc_val in_row;  // offset of the current tap from there
} lhs;

static tc_val load_lhs(void *of, int row) {
  const lhs *w = of;
  direct *x = w->x;
  return tc_build_cast(E, load(x->s, x->weight.buf, x->weight.type, 1, add(x->s, w->weight[row], w->in_row), TC_NONE),
                       x->type);
}

// Computes rows x lanes sums for outputs from `first` on. at: the staged pixels that the first tap
// sees.
static void multiply_taps(direct *x, tc_val first, tc_val at, tc_val *acc) {
  tc_val weight[32], zero = zeros(x->s, x->type, x->lanes);
  for (int i = 0; i < x->rows; i++) {
    weight[i] = add(x->s, x->weight_at, times(x->s, output_number(x, first, i), x->weight.stride[0]));
    acc[i] = var(x->s, zero);
  }
  tc_val k = loop(x->s, i64(x->s, 0), i64(x->s, x->size[0]), 1),
         row = add(x->s, at, times(x->s, k, x->dilation[0] * x->pitch));
  tc_val down = times(x->s, k, x->weight.stride[2]);
  for (int64_t tap = 0; tap < x->size[1] * x->c; tap++) {
    int64_t kw = tap / x->c, c = tap % x->c, right = kw * x->dilation[1];
    int64_t to = (c * x->stride[1] + right % x->stride[1]) * x->width + right / x->stride[1];
    tc_val b = load(x->s, x->staged, x->type, x->lanes, add_i64(x->s, row, to), TC_NONE);
    tc_val in_row = add_i64(x->s, down, kw * x->weight.stride[3] + c * x->weight.stride[1]);
    lhs weights = {x, weight, in_row};
    tc_register_block_add(x->s, &(tc_register_block){x->way, x->rows, 1, load_lhs, &weights}, &b, acc);
  }
  end(x->s);
}

static void finish_outputs(direct *x, tc_val first, const tc_val *acc) {
  tc_emit_ctx *s = x->s;
  bool partial = x->o % x->rows != 0;
  for (int i = 0; i < x->rows; i++) {
    tc_val o = add_i64(s, first, i);
    if (partial) begin_if(s, bin(s, TC_IR_LT, o, i64(s, x->o)));
    s->at[TC_RANGE_F] = o;
    tc_emit_stores_of(s, x->node, acc[i]);
    if (partial) end_if(s);
  }
}

static void make_unit_of_rows(direct *x, tc_val y0, tc_val y1) {
  tc_emit_ctx *s = x->s;
  tc_val acc[32];
  stage_rows(x, y0, y1);
  tc_val first = loop_to(s, i64(s, x->o), x->rows), y = loop(s, y0, y1, 1), column = loop_to(s, i64(s, x->q), x->lanes);
  s->at[TC_RANGE_K] = add(s, times(s, y, x->q), column);
  s->mask = TC_NONE;
  if (x->q % x->lanes) tc_emit_set_mask(s, column, i64(s, x->q));
  multiply_taps(x, first, add(s, times(s, sub(s, y, y0), x->stride[0] * x->pitch), column), acc);
  finish_outputs(x, first, acc);
  end(s);
  end(s);
  end(s);
}

// Cycles of a tap for all outputs and a row of pixels. Two multiply-adds or loads start in a cycle,
// an unaligned vector counts twice, and a multiply-add takes four cycles.
static double cost(const direct *x, int lanes, int rows, int vector) {
  int vectors = lanes / vector;
  double each = TC_MAX_OF(TC_MAX_OF(vectors * rows, 2 * vectors + rows) * 0.5, 4.0);
  return each * (double)(tc_ceil_div(x->o, rows) * tc_ceil_div(x->q, lanes));
}

static void choose_direct_blocks(direct *x) {
  const tc_isa *isa = tc_compiler_isa();
  int64_t size = (int64_t)tc_type_bytes(x->type);
  int vector = TC_MAX_OF(isa->vector_bytes / (int)size, 1), registers = isa->registers / 4 * 3;
  x->way = isa->fma ? TC_MULTIPLY_FUSED : TC_MULTIPLY_ROUNDED;
  x->lanes = vector, x->rows = 1;
  for (int lanes = vector; lanes <= LANES && lanes / vector <= registers; lanes *= 2)
    for (int rows = 1; rows * (lanes / vector) <= registers; rows++)
      if (cost(x, lanes, rows, vector) < cost(x, x->lanes, x->rows, vector)) x->lanes = lanes, x->rows = rows;
  int64_t reach = (x->size[1] - 1) * x->dilation[1] / x->stride[1],
          all = tc_ceil_div(x->q, x->lanes) * x->lanes + reach;
  x->width = tc_ceil_div(all, STAGED_AT_ONCE) * STAGED_AT_ONCE;
  x->pitch = x->c * x->stride[1] * x->width;
  int64_t rows = STAGED_BYTES / (size * x->pitch) - (x->size[0] - 1) * x->dilation[0] - 1;
  x->block = TC_MIN(TC_MAX_OF(rows, 0) / x->stride[0] + 1, x->p);
  x->n_blocks = tc_ceil_div(x->p, x->block);
  x->block = tc_ceil_div(x->p, x->n_blocks);
}

void tc_emitter_conv_direct(tc_emit_ctx *s) {
  uint32_t node = s->contraction;
  const tc_gnode *n = &s->g->node[node];
  const tc_dims *image = &s->g->node[n->in[0]].shape->d, *weight = &s->g->node[n->in[1]].shape->d;
  direct whole = {.s = s, .node = node, .type = n->type}, *x = &whole;
  x->images = image->dim[0], x->h = image->dim[1], x->w = image->dim[2], x->c = image->dim[3], x->o = weight->dim[0];
  for (int i = 0; i < 2; i++) {
    x->size[i] = weight->dim[2 + i], x->low[i] = (int64_t)n->attr[2 + i];
    x->stride[i] = (int64_t)(n->attr[i] & UINT32_MAX), x->dilation[i] = (int64_t)(n->attr[i] >> 32);
  }
  x->p = (int64_t)n->attr[4], x->q = (int64_t)n->attr[5];
  if (!tc_operand4_find(s, node, 0, &x->image) || !tc_operand4_find(s, node, 1, &x->weight)) return;
  choose_direct_blocks(x);
  x->staged =
      tc_emit_tile(s, x->type, ((x->block - 1) * x->stride[0] + (x->size[0] - 1) * x->dilation[0] + 1) * x->pitch);
  s->lanes = x->lanes, s->vector = TC_RANGE_K;
  tc_emit_preload(s);
  tc_val o = tc_emit_begin_units(s), y0 = times(x->s, rem_by(x->s, o, x->n_blocks), x->block);
  s->at[TC_RANGE_A] = div_by(x->s, o, x->n_blocks);
  s->bound[TC_RANGE_A] = s->bound[TC_RANGE_F] = s->bound[TC_RANGE_K] = true;
  x->image_at = add(x->s, tc_emit_base(s, &x->image.base), times(x->s, s->at[TC_RANGE_A], x->image.stride[0]));
  x->weight_at = tc_emit_base(s, &x->weight.base);
  make_unit_of_rows(x, y0, least(x->s, add_i64(x->s, y0, x->block), i64(x->s, x->p)));
  s->mask = TC_NONE;
  end(x->s);
  s->x->extent = x->images * x->n_blocks;
  s->x->work = tc_register_block_work(2.0 * (double)n->shape->count * (double)(x->size[0] * x->size[1] * x->c));
}
