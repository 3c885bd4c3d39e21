// Convolutions and their gradients as ops that have kernels.
//
// Forward: a matmul of what the windows see, [n p q, r s c], by the weight. No window need exist in
// memory. Groups are a batch of matmuls. Where each channel has weights of its own, windows times
// weights are summed. 3 x 3 windows may be made by Winograd's algorithm.
// By the weight: the transposed windows by the gradient, or Winograd's algorithm.
// By the image: where windows step by one, a convolution of the gradient with the flipped weight.
// Where they step by more, one such convolution for each place within a step. Else a matmul makes
// windows, which are added up where they came from.
// By a library: the graph's choose_conv is asked first.
//
//   %2 = conv f32[1,5,5,3] %0 %1   ->   %3 = pad %0, %4 = window, %5 = window, %7 = reshape [25,18]
//                                        %10 = matmul f32[25,3] %7 %9 (the weight as [18,3])
//
// Invariants: which of these follows from shapes alone, and so the order of sums.
// Threads: thread-compatible.
#include "lowering/graph/graph.h"

#include <string.h>

#include "lowering/tiling/winograd.h"

#define AXES 3

typedef struct conv {
  tc_graph *g;
  tc_gnode like;  // device, and the operands' type
  tc_type sums;  // the result's type: the operands', or f32 where a bias follows f16 or bf16
  int n;  // spatial axes
  int64_t stride[AXES], dilation[AXES], low[AXES], high[AXES], groups;
  tc_dims x, w, y;  // shapes
  bool *ok;  // shared by the convolutions that this one is made of; NULL: nothing is added
} conv;

// ---- adding nodes; after a failure ok is false, and node 0 is returned ----

static uint32_t add_node(conv *c, tc_op op, tc_dims d, int n_in, const uint32_t *in, int n_attr, const uint64_t *attr) {
  uint32_t n = *c->ok ? tc_graph_add_with(c->g, &c->like, op, &d, n_in, in, n_attr, attr) : TC_GNODE_NONE;
  if (n == TC_GNODE_NONE) return *c->ok = false, 0;
  return n;
}

static const tc_dims *dims(const conv *c, uint32_t n) {
  return &c->g->node[n].shape->d;
}

static uint32_t reshape(conv *c, uint32_t a, tc_dims d) {
  return *c->ok && tc_dims_equal(&d, dims(c, a)) ? a : add_node(c, TC_OP_RESHAPE, d, 1, &a, 0, NULL);
}

static uint32_t permute(conv *c, uint32_t a, tc_dims axes) {
  tc_dims d = {.rank = axes.rank};
  uint64_t order = 0;
  for (int i = 0; i < axes.rank; i++)
    d.dim[i] = dims(c, a)->dim[axes.dim[i]], order |= (uint64_t)axes.dim[i] << (8 * i);
  return add_node(c, TC_OP_PERMUTE, d, 1, &a, 1, &order);
}

// Axis `from` becomes axis `to`; the others keep their order.
static uint32_t move_axis(conv *c, uint32_t a, int from, int to) {
  tc_dims axes = {.rank = dims(c, a)->rank};
  for (int i = 0; i < axes.rank; i++) {
    int shifted = i + (i >= from && i < to) - (i > to && i <= from);
    axes.dim[i] = i == to ? from : shifted;
  }
  return permute(c, a, axes);
}

static uint32_t matmul(conv *c, uint32_t a, uint32_t b) {
  tc_dims d = *dims(c, a);
  d.dim[d.rank - 1] = dims(c, b)->dim[d.rank - 1];
  return add_node(c, TC_OP_MATMUL, d, 2, (uint32_t[]){a, b}, 0, NULL);
}

// Casts work in f32 at least, or back to the type.
static uint32_t cast(conv *c, uint32_t a, tc_type type) {
  c->like.type = type;
  return *c->ok && c->g->node[a].type == type ? a : add_node(c, TC_OP_CAST, *dims(c, a), 1, &a, 0, NULL);
}

static uint32_t sum(conv *c, uint32_t a, int axis) {
  tc_dims d = *dims(c, a);
  uint64_t attr = UINT64_C(1) << axis | 1u << 8;
  d.dim[axis] = 1;
  return add_node(c, TC_OP_SUM, d, 1, &a, 1, &attr);
}

// Zeros around the spatial axes of [n, h.., c].
static uint32_t padded(conv *c, uint32_t a, const int64_t *low, const int64_t *high) {
  uint64_t attr[2 * TC_MAX_RANK] = {0};
  tc_dims d = *dims(c, a);
  bool any = false;
  for (int i = 0; i < c->n; i++) {
    attr[1 + i] = (uint64_t)low[i], attr[d.rank + 1 + i] = (uint64_t)high[i];
    d.dim[1 + i] += low[i] + high[i], any |= low[i] || high[i];
  }
  return any ? add_node(c, TC_OP_PAD, d, 1, &a, 2 * d.rank, attr) : a;
}

// Every step-th element from start along axis, n of them.
static uint32_t slice(conv *c, uint32_t a, int axis, int64_t start, int64_t step, int64_t n) {
  uint64_t attr[2 * TC_MAX_RANK] = {0};
  tc_dims d = *dims(c, a);
  for (int i = 0; i < d.rank; i++) attr[i] = 1;
  attr[axis] = (uint64_t)step, attr[d.rank + axis] = (uint64_t)start;
  if (start == 0 && step == 1 && n == d.dim[axis]) return a;
  d.dim[axis] = n;
  return add_node(c, TC_OP_SLICE, d, 1, &a, 2 * d.rank, attr);
}

// The windows of x, channels before their elements: [n, p.., c, r..].
static uint32_t views(conv *c, uint32_t x) {
  uint32_t a = padded(c, x, c->low, c->high);
  for (int i = 0; i < c->n && *c->ok; i++) {
    tc_dims d = *dims(c, a);
    uint64_t attr[4] = {(uint64_t)i + 1, (uint64_t)c->w.dim[2 + i], (uint64_t)c->stride[i], (uint64_t)c->dilation[i]};
    d.dim[1 + i] = c->y.dim[1 + i], d.dim[d.rank++] = c->w.dim[2 + i];
    // output_padding leaves elements past the last window.
    if (c->w.dim[2 + i] == 1 && c->stride[i] == 1)
      a = reshape(c, slice(c, a, 1 + i, 0, 1, c->y.dim[1 + i]), d);
    else
      a = add_node(c, TC_OP_WINDOW, d, 1, &a, 4, attr);
  }
  return a;
}

// The windows of x with channels last: [n, p.., r.., c].
static uint32_t windows(conv *c, uint32_t x) {
  return move_axis(c, views(c, x), c->n + 1, 2 * c->n + 1);
}

static int64_t taps_of(const conv *c) {
  int64_t taps = 1;
  for (int i = 0; i < c->n; i++) taps *= c->w.dim[2 + i];
  return taps;
}

// Pixels of the result, of all images.
static int64_t rows_of(const conv *c) {
  int64_t rows = 1;
  for (int i = 0; i <= c->n; i++) rows *= c->y.dim[i];
  return rows;
}

static tc_dims with_groups(const conv *c, int64_t rows, int64_t columns) {
  return c->groups == 1 ? TC_SHAPE(rows, columns) : TC_SHAPE(c->groups, rows, columns);
}

// [rows, taps * c], or [groups, rows, taps * c / groups].
static uint32_t columns(conv *c, uint32_t x) {
  int64_t rows = rows_of(c), taps = taps_of(c), in = c->w.dim[1];
  uint32_t a = windows(c, x);
  if (c->groups > 1) a = permute(c, reshape(c, a, TC_SHAPE(rows, taps, c->groups, in)), TC_AXES(2, 0, 1, 3));
  return reshape(c, a, with_groups(c, rows, taps * in));
}

// y as [rows, o], or [groups, rows, o / groups].
static uint32_t as_rows(conv *c, uint32_t y) {
  int64_t rows = rows_of(c), out = c->w.dim[0] / c->groups;
  if (c->groups == 1) return reshape(c, y, TC_SHAPE(rows, out));
  return permute(c, reshape(c, y, TC_SHAPE(rows, c->groups, out)), TC_AXES(1, 0, 2));
}

// Whether each channel has weights of its own, in floats.
static bool is_depthwise(const conv *c) {
  return c->groups > 1 && c->w.dim[1] == 1 && tc_type_is_float(c->like.type);
}

// ---- forward ----

static uint32_t by_channel(conv *c, uint32_t x, uint32_t w) {
  tc_type wide = c->like.type == TC_F64 ? TC_F64 : TC_F32;
  int64_t rows = rows_of(c), taps = taps_of(c), each = c->w.dim[0] / c->groups;
  uint32_t a = reshape(c, windows(c, x), TC_SHAPE(rows, taps, c->groups, 1));
  uint32_t b = permute(c, reshape(c, w, TC_SHAPE(c->groups, each, taps)), TC_AXES(2, 0, 1));
  a = cast(c, a, wide), b = cast(c, b, wide);
  a = sum(c, add_node(c, TC_OP_MUL, TC_SHAPE(rows, taps, c->groups, each), 2, (uint32_t[]){a, b}, 0, NULL), 1);
  return reshape(c, cast(c, a, c->sums), c->y);
}

static uint32_t by_matmul(conv *c, uint32_t x, uint32_t w) {
  int64_t in = c->w.dim[1], out = c->w.dim[0] / c->groups, taps = taps_of(c);
  uint32_t b = permute(c, reshape(c, w, TC_SHAPE(c->groups, out, in, taps)), TC_AXES(0, 3, 2, 1));
  uint32_t seen = columns(c, x), weight = reshape(c, b, with_groups(c, taps * in, out));
  c->like.type = c->sums;
  uint32_t y = matmul(c, seen, weight);
  if (c->groups > 1) y = permute(c, y, TC_AXES(1, 0, 2));
  return reshape(c, y, c->y);
}

static bool may_be_winograd(const conv *c) {
  bool fits = c->n == 2 && c->groups == 1 && (c->like.type == TC_F32 || tc_type_is_half(c->like.type)) &&
              tc_winograd_allowed() && !tc_target_is_gpu(&c->g->target);
  for (int i = 0; i < c->n && fits; i++) fits = c->w.dim[2 + i] == 3 && c->stride[i] == 1 && c->dilation[i] == 1;
  return fits;
}

// Outputs along a side of a tile of Winograd's algorithm; 0: not by that.
static int winograd_size(const conv *c) {
  return may_be_winograd(c) ? tc_winograd_size(&c->x, c->y.dim[1], c->y.dim[2], c->y.dim[3]) : 0;
}

// w [groups * in, out, r..] as [groups * out, in, r..], flipped.
static uint32_t flipped_weight(conv *c, uint32_t w) {
  int64_t g = c->groups, out = c->w.dim[0] / g, in = c->w.dim[1];
  tc_dims d = c->w;
  uint64_t mask = 0;
  for (int i = 0; i < c->n; i++) mask |= UINT64_C(1) << (2 + i);
  w = permute(c, reshape(c, w, TC_SHAPE(g, in, out, taps_of(c))), TC_AXES(0, 2, 1, 3));
  return add_node(c, TC_OP_FLIP, d, 1, (uint32_t[]){reshape(c, w, d)}, 1, &mask);
}

static uint32_t by_winograd(conv *c, uint32_t x, uint32_t w, bool transposed, int m) {
  int64_t panel = tc_winograd_panel(c->y.dim[3]), panels = (c->y.dim[3] + panel - 1) / panel,
          places = (m + 2) * (m + 2);
  uint64_t how[2] = {(uint64_t)m, transposed}, attr[5] = {(uint64_t)m, (uint64_t)c->low[0], (uint64_t)c->low[1],
                                                          (uint64_t)c->y.dim[1], (uint64_t)c->y.dim[2]};
  c->like.type = TC_F32;  // f16 and bf16 are widened as they are loaded
  uint32_t u = add_node(c, TC_OP_WINOGRAD_WEIGHT, TC_SHAPE(panels, places, c->x.dim[3], panel), 1, &w, 2, how);
  uint32_t y = add_node(c, TC_OP_WINOGRAD, TC_SHAPE(rows_of(c), c->y.dim[3]), 2, (uint32_t[]){x, u}, 5, attr);
  return reshape(c, cast(c, y, c->sums), c->y);
}

// transposed: w belongs to the convolution whose gradient this is, and is flipped.
static uint32_t forward(conv *c, uint32_t x, uint32_t w, bool transposed) {
  int m = winograd_size(c);
  if (m) return by_winograd(c, x, w, transposed, m);
  if (transposed) w = flipped_weight(c, w);
  return is_depthwise(c) ? by_channel(c, x, w) : by_matmul(c, x, w);
}

// ---- by the image ----

// The convolution of y that makes the image. False where windows step by more than one, or do not
// reach as far as the padding.
static bool mirrored(const conv *c, conv *out) {
  *out = *c;
  for (int i = 0; i < c->n; i++) {
    int64_t reach = c->dilation[i] * (c->w.dim[2 + i] - 1);
    out->low[i] = reach - c->low[i];
    out->high[i] = c->x.dim[1 + i] - c->y.dim[1 + i] + c->low[i];
    if (c->stride[i] != 1 || out->low[i] < 0 || out->high[i] < 0) return false;
  }
  out->x = c->y, out->y = c->x;
  out->w.dim[0] = c->groups * c->w.dim[1], out->w.dim[1] = c->w.dim[0] / c->groups;
  return true;
}

// Positions h = phase + stride * i of an axis are read by every stride-th tap. Tap r of window p
// reads h if h + low = p * stride + r.
typedef struct phase {
  int64_t first, taps;  // of the taps
  int64_t low;  // padding before y
} phase;

static phase phase_of(const conv *c, int axis, int64_t at) {
  int64_t s = c->stride[axis], size = c->w.dim[2 + axis], first = (at + c->low[axis]) % s;
  phase p = {first, first < size ? (size - first + s - 1) / s : 0, 0};
  // Place at is read by tap `first` of window (at + low - first) / s, and by tap j of the window j
  // before.
  p.low = p.taps - 1 - (at + c->low[axis] - first) / s;
  return p;
}

// Whether every place within a step is read by some tap, by windows that begin in y or before it.
static bool has_phases(const conv *c) {
  int64_t n = 1;
  for (int i = 0; i < c->n; i++) {
    n *= c->stride[i];
    if (c->dilation[i] != 1 || c->stride[i] > c->w.dim[2 + i]) return false;
    for (int64_t at = 0; at < c->stride[i]; at++)
      if (phase_of(c, i, at).low < 0) return false;
  }
  return n > 1 && n <= 16;
}

// One phase: x at places phase + stride * i, n[..] of them; enough is the longest of all phases.
static uint32_t one_phase(conv *c, uint32_t y, uint32_t w, const int64_t *at) {
  conv part = *c;
  for (int i = 0; i < c->n; i++) {
    phase p = phase_of(c, i, at[i]);
    int64_t n = (c->x.dim[1 + i] + c->stride[i] - 1) / c->stride[i];
    w = slice(c, w, 2 + i, p.first, c->stride[i], p.taps);
    part.w.dim[2 + i] = p.taps, part.stride[i] = 1, part.x.dim[1 + i] = n, part.low[i] = p.taps - 1 - p.low;
    int64_t most = n + part.low[i];  // windows that n places need
    if (c->y.dim[1 + i] > most) y = slice(c, y, 1 + i, 0, 1, most), part.y.dim[1 + i] = most;
  }
  conv m;
  if (!mirrored(&part, &m)) return *c->ok = false, 0;
  return forward(&m, y, w, true);
}

static uint32_t by_phases(conv *c, uint32_t y, uint32_t w) {
  uint32_t piece[16];
  tc_type type = c->like.type;
  int64_t at[AXES] = {0}, n_phases = 1;
  for (int i = 0; i < c->n; i++) n_phases *= c->stride[i];
  tc_dims d = {.rank = 1, .dim = {1}}, joined;
  for (int64_t k = 0; k < n_phases && *c->ok; k++) {
    int64_t rest = k;
    for (int i = c->n - 1; i >= 0; i--) at[i] = rest % c->stride[i], rest /= c->stride[i];
    piece[k] = one_phase(c, y, w, at);
    d = *dims(c, piece[k]);
    joined = d;
    for (int i = d.rank++; i > 0; i--) d.dim[i] = d.dim[i - 1];
    d.dim[0] = 1;
    c->like.type = c->sums;
    piece[k] = reshape(c, piece[k], d);
    c->like.type = type;
  }
  if (!*c->ok) return 0;
  c->like.type = c->sums;
  // [phases.., n, i.., c] -> [n, i, phase, i, phase.., c]
  uint64_t axis = 0;
  d.dim[0] = n_phases;
  uint32_t a = add_node(c, TC_OP_CAT, d, (int)n_phases, piece, 1, &axis);
  tc_dims split = {.rank = c->n + joined.rank}, axes = {.rank = c->n + joined.rank};
  for (int i = 0; i < c->n; i++) split.dim[i] = c->stride[i];
  for (int i = 0; i < joined.rank; i++) split.dim[c->n + i] = joined.dim[i];
  axes.dim[0] = c->n;
  for (int i = 0; i < c->n; i++) axes.dim[1 + 2 * i] = c->n + 1 + i, axes.dim[2 + 2 * i] = i;
  axes.dim[axes.rank - 1] = axes.rank - 1;
  for (int i = 0; i < c->n; i++) joined.dim[1 + i] *= c->stride[i];
  a = reshape(c, permute(c, reshape(c, a, split), axes), joined);
  for (int i = 0; i < c->n && *c->ok; i++) a = slice(c, a, 1 + i, 0, 1, c->x.dim[1 + i]);
  return a;
}

// A matmul makes windows, which are added up in a padded image. Then the padding is cut off.
// Windows of narrow types are f32, and the image is rounded once.
static uint32_t by_windows(conv *c, uint32_t y, uint32_t w) {
  int64_t g = c->groups, out = c->w.dim[0] / g, in = c->w.dim[1], taps = taps_of(c), rows = rows_of(c);
  tc_dims d = c->y;
  uint32_t b = reshape(c, permute(c, reshape(c, w, TC_SHAPE(g, out, in, taps)), TC_AXES(0, 1, 3, 2)),
                       with_groups(c, out, taps * in));
  uint32_t a = as_rows(c, y);
  if (tc_type_is_half(c->like.type)) c->like.type = TC_F32;
  a = reshape(c, matmul(c, a, b), TC_SHAPE(g, rows, taps, in));
  a = permute(c, a, TC_AXES(1, 0, 3, 2));  // [rows, g, in, taps]
  d.dim[c->n + 1] = g * in;
  for (int i = 0; i < c->n; i++) d.dim[d.rank++] = c->w.dim[2 + i];
  a = reshape(c, a, d);
  for (int i = c->n - 1; i >= 0 && *c->ok; i--) {
    int64_t reach = (c->y.dim[1 + i] - 1) * c->stride[i] + c->dilation[i] * (c->w.dim[2 + i] - 1) + 1;
    int64_t length = TC_MAX_OF(reach, c->x.dim[1 + i] + c->low[i]);
    uint64_t attr[4] = {(uint64_t)i + 1, (uint64_t)c->w.dim[2 + i], (uint64_t)c->stride[i], (uint64_t)c->dilation[i]};
    // An axis that windows do not fill to its end has zeros there.
    d.rank--;
    d.dim[1 + i] = length;
    a = add_node(c, TC_OP_UNWINDOW, d, 1, &a, 4, attr);
  }
  for (int i = 0; i < c->n && *c->ok; i++) a = slice(c, a, 1 + i, c->low[i], 1, c->x.dim[1 + i]);
  return cast(c, a, c->sums);
}

static uint32_t by_image(conv *c, uint32_t y, uint32_t w) {
  conv m;
  if (mirrored(c, &m)) return forward(&m, y, w, true);
  return has_phases(c) ? by_phases(c, y, w) : by_windows(c, y, w);
}

// ---- by the weight ----

static uint32_t by_tiles(conv *c, uint32_t x, uint32_t y, int m) {
  int64_t parts = tc_winograd_wgrad_parts(m, &c->x, &c->y);
  tc_type type = c->like.type;
  c->like.type = TC_F32;
  uint64_t attr[3] = {(uint64_t)m, (uint64_t)c->low[0], (uint64_t)c->low[1]};
  uint32_t w = add_node(c, TC_OP_WINOGRAD_WGRAD, TC_SHAPE(parts, c->w.dim[0], c->w.dim[1] * taps_of(c)), 2,
                        (uint32_t[]){x, y}, 3, attr);
  return reshape(c, cast(c, parts > 1 ? sum(c, w, 0) : w, type), c->w);
}

static uint32_t by_weight(conv *c, uint32_t x, uint32_t y) {
  int64_t g = c->groups, out = c->w.dim[0] / g, in = c->w.dim[1], taps = taps_of(c), rows = rows_of(c);
  if (is_depthwise(c)) {
    tc_type type = c->like.type, wide = type == TC_F64 ? type : TC_F32;
    uint32_t a = cast(c, reshape(c, windows(c, x), TC_SHAPE(rows, taps, g, 1)), wide);
    uint32_t b = cast(c, reshape(c, y, TC_SHAPE(rows, 1, g, out)), wide);
    a = sum(c, add_node(c, TC_OP_MUL, TC_SHAPE(rows, taps, g, out), 2, (uint32_t[]){a, b}, 0, NULL), 0);
    a = permute(c, reshape(c, a, TC_SHAPE(taps, g, out)), TC_AXES(1, 2, 0));
    return reshape(c, cast(c, a, type), c->w);
  }
  int m = may_be_winograd(c) ? tc_winograd_wgrad_size(&c->x, &c->y) : 0;
  if (m) return by_tiles(c, x, y, m);
  uint32_t a = reshape(c, views(c, x), TC_SHAPE(rows, g, in * taps));
  a = reshape(c, permute(c, a, TC_AXES(1, 2, 0)), g == 1 ? TC_SHAPE(in * taps, rows) : TC_SHAPE(g, in * taps, rows));
  a = reshape(c, matmul(c, a, as_rows(c, y)), TC_SHAPE(g, in * taps, out));
  return reshape(c, permute(c, a, TC_AXES(0, 2, 1)), c->w);
}

// ---- by a library ----

static bool keep_call(conv *c, tc_gpu_call *call, uint64_t *which) {
  tc_graph *g = c->g;
  if (!g->call) g->call = tc_arena_alloc(g->arena, (g->plan->n_node + 1) * sizeof g->call[0]);
  if (!g->call) return tc_gpu_call_release(call), *c->ok = false;
  g->call[ *which = g->n_call++] = call;
  return true;
}

// A library's weight has channels last: [o, r.., c].
static uint32_t by_library(conv *c, tc_op op, uint32_t a, uint32_t b, tc_gpu_call *call) {
  uint64_t which;
  if (!keep_call(c, call, &which)) return 0;
  tc_dims d = op == TC_OP_CONV ? c->y : op == TC_OP_CONV_INPUT ? c->x : c->w;
  if (op == TC_OP_CONV_WEIGHT) {
    for (int i = 0; i < c->n; i++) d.dim[1 + i] = c->w.dim[2 + i];
    d.dim[c->n + 1] = c->w.dim[1];
  } else {
    b = move_axis(c, b, 1, c->n + 1);
  }
  uint32_t y = add_node(c, TC_OP_CONV_CALL, d, 2, (uint32_t[]){a, b}, 1, &which);
  return op == TC_OP_CONV_WEIGHT ? move_axis(c, y, c->n + 1, 1) : y;
}

// ---- the rows ----

static conv conv_of(tc_graph *g, uint32_t n, bool *ok) {
  const tc_gnode *node = &g->node[n];
  conv c = {.g = g, .like = *node, .sums = node->type, .n = node->shape->d.rank - 2, .ok = ok};
  c.like.type = g->node[node->in[0]].type;
  const tc_dims *da = &g->node[node->in[0]].shape->d, *db = &g->node[node->in[1]].shape->d, *d = &node->shape->d;
  tc_op op = node->op;
  c.x = op == TC_OP_CONV_INPUT ? *d : *da, c.w = op == TC_OP_CONV_WEIGHT ? *d : *db,
  c.y = op == TC_OP_CONV         ? *d
        : op == TC_OP_CONV_INPUT ? *da
                                 : *db;
  for (int i = 0; i < c.n; i++) {
    c.stride[i] = (int64_t)(node->attr[i] & UINT32_MAX), c.dilation[i] = (int64_t)(node->attr[i] >> 32);
    c.low[i] = (int64_t)(node->attr[c.n + i] & UINT32_MAX), c.high[i] = (int64_t)(node->attr[c.n + i] >> 32);
  }
  c.groups = (int64_t)node->attr[2 * c.n];
  return c;
}

bool tc_conv_facts(const tc_graph *g, uint32_t n, tc_gpu_conv_facts *out) {
  const tc_gnode *node = &g->node[n];
  conv c = conv_of((tc_graph *)(uintptr_t)g, n, NULL);  // read alone
  bool same_types = node->type == TC_F32 || node->type == TC_F16 || node->type == TC_BF16;
  for (int k = 0; k < 2; k++) same_types &= g->node[node->in[k]].type == node->type;
  *out = (tc_gpu_conv_facts){.type = node->type,
                             .axes = c.n,
                             .batch = c.x.dim[0],
                             .in = c.x.dim[c.n + 1],
                             .out = c.w.dim[0],
                             .groups = c.groups};
  out->direction = node->op == TC_OP_CONV         ? TC_GPU_FORWARD
                   : node->op == TC_OP_CONV_INPUT ? TC_GPU_BY_IMAGE
                                                  : TC_GPU_BY_WEIGHT;
  for (int i = 0; i < c.n; i++) {
    out->image[i] = c.x.dim[1 + i], out->taps[i] = c.w.dim[2 + i], out->result[i] = c.y.dim[1 + i];
    out->stride[i] = c.stride[i], out->dilation[i] = c.dilation[i], out->low[i] = c.low[i], out->high[i] = c.high[i];
    // A gradient may be of fewer windows than there are.
    same_types &=
        out->result[i] ==
        (out->image[i] + out->low[i] + out->high[i] - out->dilation[i] * (out->taps[i] - 1) - 1) / out->stride[i] + 1;
  }
  return same_types;
}

// call: the library's call that makes it, consumed even on failure; NULL: it is generated. False
// without memory.
static bool expand_convolution(tc_graph *g, uint32_t n, tc_gpu_call *call) {
  bool ok = true;
  conv c = conv_of(g, n, &ok);
  uint32_t a = g->node[n].in[0], b = g->node[n].in[1];
  tc_op op = g->node[n].op;
  uint32_t y = call                     ? by_library(&c, op, a, b, call)
               : op == TC_OP_CONV       ? forward(&c, a, b, false)
               : op == TC_OP_CONV_INPUT ? by_image(&c, a, b)
                                        : by_weight(&c, a, b);
  if (!ok) return false;
  return tc_gnode_become(&g->node[n], TC_OP_RESHAPE, y, 0, 1), true;
}

static bool is_convolution(const tc_graph *g, const tc_gnode *x) {
  if (tc_op_expansion_of(x->op) != TC_EXPAND_conv) return false;
  return x->shape->count > 0 && g->node[x->in[0]].shape->count > 0 && g->node[x->in[1]].shape->count > 0;
}

tc_status tc_pass_expand_conv(tc_graph *g) {
  for (uint32_t n = 0, end = g->n; n < end; n++) {
    if (!tc_device_generates(g->node[n].dev) || !is_convolution(g, &g->node[n])) continue;
    if (!expand_convolution(g, n, g->choose_conv ? g->choose_conv(g, n) : NULL)) return tc_graph_no_memory(g);
  }
  return TC_OK;
}
