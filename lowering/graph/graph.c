// Records to nodes: equal ones merged, ops decomposed. See graph.h.
#include "lowering/graph/graph.h"

#include <string.h>

#include "lazy/trace/trace_text.h"
#include "lowering/tiling/summation.h"
#include "lowering/graph/expand_conv.h"
#include "lowering/graph/split_k.h"
#include "lowering/autotune/library_conv.h"
#include "lowering/graph/sink_permute.h"
#include "lowering/graph/prepack_weights.h"
#include "lowering/graph/mark_prologue.h"
#include "lowering/graph/simplify.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/passes.h"

#define SMALL_PART 4        // of a tensor: at most one in so many of its elements

static bool (*const expand[TC_N_OP_ROWS])(tc_graph *g, uint32_t n) = {
#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, lower, ...) [TC_OP_##NAME] = TC_EXPAND_##lower,
#include <tc/ops.def>
#undef TC_OP
};

bool tc_expand_none(tc_graph *g, uint32_t n) {
  (void)g, (void)n;
  return true;
}

bool tc_graph_is_zeros(const tc_gnode *x) {
  return x->leaf == TC_LEAF_NONE && tc_device_kind_of(x->dev) == TC_DEVICE_ZEROS;
}

int tc_graph_part_of(tc_op op) {
  return op == TC_OP_WRITE_SLICE ? 1 : op == TC_OP_SCATTER || op == TC_OP_SCATTER_ADD || op == TC_OP_INDEX_ADD ? 2 : -1;
}

static bool decode(tc_graph *g) {
  const tc_plan *p = g->plan;
  for (uint32_t n = 0; n < p->n_node; n++) {
    const tc_rec *r = tc_plan_rec(p, n);
    tc_gnode *x = &g->node[n];
    int n_in = tc_rec_arity(r);
    *x = (tc_gnode){.op = tc_rec_op(r),
                    .type = (tc_type)r->dtype,
                    .dev = (tc_device)p->dev[n],
                    .shape = tc_dims_at(r->shape),
                    .n_in = n_in,
                    .attr = tc_rec_attr(r),
                    .arg = p->arg_at[n],
                    .n_arg = (int)tc_rec_args(r),
                    .leaf = p->leaf_of[n],
                    .out = p->out_of[n]};
    x->n_attr = r->n_extra - (tc_op_arity[x->op] > 2 ? (n_in + 1) / 2 : 0);
    if (!(x->in = tc_arena_alloc(g->arena, (size_t)(n_in + 1) * sizeof x->in[0]))) return false;
    memcpy(x->in, tc_rec_in(r), (size_t)n_in * sizeof x->in[0]);
    if (x->op == TC_OP_POOL) x->op = TC_OP_DETACH, x->n_in = 1, x->n_attr = 0;  // of the image there is nothing to read
    x->parameter = x->stays = x->leaf != TC_LEAF_NONE && (p->flag[n] & TC_NODE_WANT);
    if (x->op == TC_OP_ASSIGN) x->n_in = 1, x->old = x->in[1], g->node[x->old].parameter = false, g->node[x->old].stays = true;
    if (tc_graph_is_zeros(x)) x->op = TC_OP_FULL, x->n_in = x->n_attr = x->n_arg = 0;
  }
  g->n = p->n_node;
  return true;
}

// ---- merging equal nodes ----

static uint64_t node_hash(const tc_gnode *x) {
  uint64_t h = (uint64_t)x->op * 31 + (uint64_t)x->type + ((uint64_t)(uintptr_t)x->shape << 8) + (uint64_t)x->dev;
  for (int i = 0; i < x->n_in; i++) h = (h ^ x->in[i]) * UINT64_C(0x9E3779B97F4A7C15);
  for (int i = 0; i < x->n_attr; i++) h = (h ^ x->attr[i]) * UINT64_C(0x9E3779B97F4A7C15);
  return h ^ h >> 32;
}

static bool node_equal(const tc_gnode *a, const tc_gnode *b) {
  return a->op == b->op && a->type == b->type && a->shape == b->shape && a->dev == b->dev && a->n_in == b->n_in && a->n_attr == b->n_attr &&
         memcmp(a->in, b->in, (size_t)a->n_in * sizeof a->in[0]) == 0 && memcmp(a->attr, b->attr, (size_t)a->n_attr * sizeof a->attr[0]) == 0;
}

// Simplifies nodes; replaces a pure one equal to an earlier one by it. Nodes with arguments differ: their values are not known here.
static bool merge_equal(tc_graph *g) {
  uint32_t cap = 64;
  while (cap < 2 * g->n) cap *= 2;
  uint32_t *table = tc_arena_alloc(g->arena, cap * sizeof *table), *same = tc_arena_alloc(g->arena, (g->n + 1) * sizeof *same);
  if (!table || !same) return false;
  for (uint32_t n = 0; n < g->n; n++) {
    tc_gnode *x = &g->node[n];
    same[n] = n;
    tc_count(TC_PASS_GRAPH, 1 + (uint64_t)x->n_in);
    for (int i = 0; i < x->n_in; i++) x->in[i] = same[x->in[i]];
    if (x->op == TC_OP_ASSIGN) x->old = same[x->old];
    if (tc_device_generates(x->dev) && x->leaf == TC_LEAF_NONE) {
      uint32_t m = tc_simplify(g, n);
      if (m != n && x->out == TC_LEAF_NONE) {
        same[n] = m;
        continue;
      }
      if (m != n) x->op = TC_OP_DETACH, x->n_in = 1, x->n_attr = 0, x->in[0] = m;  // a result of its own all the same
    }
    if ((x->n_arg && !tc_planted("cse")) || x->leaf != TC_LEAF_NONE || tc_op_kind_of(x->op) == TC_KIND_EFFECT || x->op == TC_OP_TO) continue;
    uint32_t at = (uint32_t)node_hash(x) & (cap - 1);
    for (; table[at] && !node_equal(&g->node[table[at] - 1], x); at = (at + 1) & (cap - 1)) tc_count(TC_PASS_GRAPH, 1);
    if (!table[at])
      table[at] = n + 1;
    else if (x->out == TC_LEAF_NONE)
      same[n] = table[at] - 1;
  }
  return true;
}

// ---- decomposition ----

uint32_t tc_graph_add_with(tc_graph *g, const tc_gnode *like, tc_op op, const tc_dims *d, int n_in, const uint32_t *in, int n_attr,
                           const uint64_t *attr) {
  if (g->n == g->cap) {
    tc_gnode *more = tc_arena_alloc(g->arena, 2 * (size_t)g->cap * sizeof *more);
    if (!more) return UINT32_MAX;
    memcpy(more, g->node, g->n * sizeof *more);
    g->node = more, g->cap *= 2;
  }
  tc_gnode *x = &g->node[g->n];
  uint32_t shape = tc_dims_intern(d);
  *x = (tc_gnode){.op = op, .type = like->type, .dev = like->dev, .n_in = n_in, .n_attr = n_attr, .leaf = TC_LEAF_NONE, .out = TC_LEAF_NONE};
  uint64_t *words = tc_arena_alloc(g->arena, (size_t)TC_MAX_OF(n_attr, 1) * sizeof *words);
  x->in = tc_arena_alloc(g->arena, (size_t)(n_in + 1) * sizeof x->in[0]);
  if (shape == TC_SHAPE_NONE || !words || !x->in) return UINT32_MAX;
  memcpy(x->in, in, (size_t)n_in * sizeof in[0]);
  if (n_attr) memcpy(words, attr, (size_t)n_attr * sizeof *words);
  x->attr = words;
  x->shape = tc_dims_at(shape);
  return g->n++;
}

uint32_t tc_graph_add(tc_graph *g, const tc_gnode *like, tc_op op, const tc_dims *d, int n_in, const uint32_t *in, int n_attr, uint64_t attr) {
  return tc_graph_add_with(g, like, op, d, n_in, in, TC_MAX_OF(n_attr, 1), &attr);
}

static void become(tc_gnode *x, tc_op op, uint32_t a, uint32_t b, int n_in) {
  x->op = op, x->n_in = n_in, x->n_attr = 0, x->n_arg = 0;
  x->in[0] = a;
  if (n_in > 1) x->in[1] = b;
}

// softmax: exp(x - max) * (1 / sum), with one division a row; log_softmax: (x - max) - log(sum(exp(x - max))). The order of operations is the contract's.
// The greatest may pass over NaN, since the sum does not. Of f16 and bf16 all of it is f32, rounded once at the end.
bool tc_expand_softmax(tc_graph *g, uint32_t n) {
  tc_gnode like = g->node[n];
  int axis = (int)like.attr[0];
  tc_dims full = like.shape->d, one = full;
  if (full.rank == 0) return become(&g->node[n], like.op == TC_OP_SOFTMAX ? TC_OP_DIV : TC_OP_SUB, like.in[0], like.in[0], 2), true;
  one.dim[axis] = 1;
  uint64_t fold = (uint64_t)1 << axis | 1u << 8;
  bool narrow = tc_type_is_half(like.type);
  if (narrow) like.type = TC_F32;
  uint32_t x = narrow ? tc_graph_add(g, &like, TC_OP_CAST, &full, 1, like.in, 0, 0) : like.in[0];
  uint32_t m = x == UINT32_MAX ? x : tc_graph_add(g, &like, TC_OP_MAX, &one, 1, &x, 1, fold | TC_MAX_OVER_NAN);
  if (m == UINT32_MAX) return false;
  uint32_t shifted = tc_graph_add(g, &like, TC_OP_SUB, &full, 2, (uint32_t[]){x, m}, 0, 0);
  uint32_t e = shifted == UINT32_MAX ? shifted : tc_graph_add(g, &like, TC_OP_EXP, &full, 1, &shifted, 1, TC_EXP_OF_NEGATIVE);
  uint32_t sum = e == UINT32_MAX ? e : tc_graph_add(g, &like, TC_OP_SUM, &one, 1, &e, 1, fold);
  if (sum == UINT32_MAX) return false;
  bool log_of = like.op == TC_OP_LOG_SOFTMAX;
  uint32_t row = tc_graph_add(g, &like, log_of ? TC_OP_LOG : TC_OP_RECIPROCAL, &one, 1, &sum, 0, 0);
  uint32_t *in = tc_arena_alloc(g->arena, 2 * sizeof *in);
  if (row == UINT32_MAX || !in) return false;
  in[0] = log_of ? shifted : e, in[1] = row;
  tc_op last = log_of ? TC_OP_SUB : TC_OP_MUL;
  uint32_t y = narrow ? tc_graph_add(g, &like, last, &full, 2, in, 0, 0) : n;
  if (y == UINT32_MAX) return false;
  g->node[n].in = in;
  if (narrow)
    become(&g->node[n], TC_OP_CAST, y, 0, 1);
  else
    become(&g->node[n], last, in[0], in[1], 2);
  return true;
}

// The node is a part of `of`, from where its arguments, one an axis, say.
static bool become_slice(tc_graph *g, uint32_t n, uint32_t of) {
  if (of == UINT32_MAX) return false;
  tc_gnode *x = &g->node[n];
  int rank = x->shape->d.rank;
  uint64_t *step = tc_arena_alloc(g->arena, (size_t)TC_MAX_OF(rank, 1) * sizeof *step);
  uint32_t *in = tc_arena_alloc(g->arena, sizeof *in);
  if (!step || !in) return false;
  for (int i = 0; i < rank; i++) step[i] = 1;
  *in = of;
  x->op = TC_OP_SLICE, x->in = in, x->attr = step, x->n_attr = rank;
  return true;
}

// A part of the operand twice, which is never in memory.
bool tc_expand_roll(tc_graph *g, uint32_t n) {
  tc_gnode like = g->node[n];
  tc_dims twice = like.shape->d;
  twice.dim[like.attr[0]] *= 2;
  return become_slice(g, n, tc_graph_add(g, &like, TC_OP_CAT, &twice, 2, (uint32_t[]){like.in[0], like.in[0]}, 1, like.attr[0]));
}

// A GPU sorts, and one of its launches has no number that says which element it gives.
static bool expand_kth(tc_graph *g, uint32_t n) {
  tc_gnode like = g->node[n];
  return become_slice(g, n, tc_graph_add_with(g, &like, TC_OP_ARGSORT, &g->node[like.in[0]].shape->d, 1, like.in, 2, like.attr));
}

// A divisor of n between lo and hi nearest to want, or 0.
static int64_t divisor_near(int64_t n, int64_t want, int64_t lo, int64_t hi) {
  for (int64_t k = 0; want - k >= lo || want + k <= hi; k++) {
    if (want - k >= lo && n % (want - k) == 0) return want - k;
    if (want + k <= hi && n % (want + k) == 0) return want + k;
  }
  return 0;
}

static bool is_foldable_in_parts(tc_op op) {
  return op == TC_OP_SUM || op == TC_OP_PROD || op == TC_OP_MAX || op == TC_OP_MIN || op == TC_OP_ANY || op == TC_OP_ALL;
}

// The last run of folded axes of mask, as [first, last]; false if none.
static bool last_run(const tc_dims *d, uint32_t mask, int *first, int *last) {
  int i = d->rank - 1;
  while (i >= 0 && !(mask >> i & 1)) i--;
  if (i < 0) return false;
  *last = i;
  while (i > 0 && ((mask >> (i - 1) & 1) || d->dim[i - 1] == 1)) i--;
  *first = i;
  return true;
}

// Elements [start, start + n) of the run of x, [outer, run, inner].
static uint32_t piece_of_run(tc_graph *g, uint32_t x, int64_t start, int64_t n) {
  tc_gnode like = g->node[x];
  tc_dims d = like.shape->d;
  uint64_t attr[6] = {1, 1, 1, 0, (uint64_t)start, 0};
  d.dim[1] = n;
  return tc_graph_add_with(g, &like, TC_OP_SLICE, &d, 1, &x, 6, attr);
}

// The fold of the type and kind of `like` over an axis, which is kept.
static uint32_t fold_axis(tc_graph *g, const tc_gnode *like, uint32_t x, int axis) {
  tc_dims d = g->node[x].shape->d;
  uint64_t over_nan = like->attr[0] & TC_MAX_OVER_NAN;
  d.dim[axis] = 1;
  return tc_graph_add(g, like, like->op, &d, 1, &x, 1, UINT64_C(1) << axis | 1u << 8 | over_nan);
}

static uint32_t reshape_as(tc_graph *g, uint32_t x, const tc_dims *d) {
  tc_gnode like = g->node[x];
  return tc_graph_add(g, &like, TC_OP_RESHAPE, d, 1, &x, 0, 0);
}

// Folds the run of x [outer, run, inner]: a long one in parts of one length, whose results are folded likewise, and, of a sum that has no such length, a rest.
// UINT32_MAX without memory.
static uint32_t fold_run(tc_graph *g, const tc_gnode *like, uint32_t x) {
  const tc_dims d = g->node[x].shape->d;
  int64_t outer = d.dim[0], run = d.dim[1], inner = d.dim[2];
  int64_t want = inner == 1 ? TC_FOLD_ROW : TC_FOLD_COLUMN, limit = inner == 1 ? 4 * TC_FOLD_ROW : 2 * TC_FOLD_COLUMN;
  bool held = inner == 1 && tc_target_clusters(&g->target, outer, run),
       splits = is_foldable_in_parts(like->op) && run > limit && !held && !tc_planted("chain");
  int64_t part = splits ? divisor_near(run, want, want / 4, inner == 1 ? want * 4 : want) : 0;
  if (part) {
    tc_dims parts = {4, {outer, run / part, part, inner}}, kept = {3, {outer, run / part, inner}};
    x = reshape_as(g, x, &parts);
    if (x != UINT32_MAX) x = fold_axis(g, like, x, 2);
    if (x != UINT32_MAX) x = reshape_as(g, x, &kept);
    return x == UINT32_MAX ? x : fold_run(g, like, x);
  }
  if (!splits || like->op != TC_OP_SUM || !tc_type_is_float(like->type)) return fold_axis(g, like, x, 1);
  int64_t whole = run / want * want;
  uint32_t in[2] = {piece_of_run(g, x, 0, whole), piece_of_run(g, x, whole, run - whole)};
  for (int i = 0; i < 2; i++)
    if (in[i] == UINT32_MAX || (in[i] = fold_run(g, like, in[i])) == UINT32_MAX) return UINT32_MAX;
  tc_dims one = {3, {outer, 1, inner}};
  return tc_graph_add(g, like, TC_OP_ADD, &one, 2, in, 0, 0);
}

// Rewrites a fold as folds over one run of axes each ([outer, run, inner] with the run in the middle), and long runs as several folds.
// The node itself becomes the reshape of the last. Which parts depends on the shape alone, so eager and fused agree. Between folds sums and products of halves are f32.
static bool split_fold(tc_graph *g, uint32_t n) {
  tc_gnode like = g->node[n];
  uint32_t mask = (uint32_t)(like.attr[0] & 255), x = like.in[0], before = g->n;
  tc_dims d = g->node[x].shape->d;
  tc_type type = like.type;
  if (mask == 0) return become(&g->node[n], TC_OP_RESHAPE, x, 0, 1), true;
  if ((like.op == TC_OP_SUM || like.op == TC_OP_PROD) && tc_type_is_half(type)) like.type = TC_F32;
  int first, last, runs = 0;
  while (last_run(&d, mask, &first, &last)) {
    int64_t outer = 1, run = 1, inner = 1;
    for (int i = 0; i < d.rank; i++) *(i < first ? &outer : i <= last ? &run : &inner) *= d.dim[i];
    // All the folded axes must lie in this run for an arg fold: record_fold.c folds one axis or all.
    tc_dims shape = {3, {outer, run, inner}};
    x = reshape_as(g, x, &shape);
    before = g->n;
    if (x == UINT32_MAX || (x = fold_run(g, &like, x)) == UINT32_MAX) return false;
    runs++;
    for (int i = first; i <= last; i++) d.dim[i] = 1, mask &= ~(1u << i);
  }
  if (like.type == type) return become(&g->node[n], TC_OP_RESHAPE, x, 0, 1), true;
  if (runs == 1 && g->n == before + 1) return g->node[x].type = type, become(&g->node[n], TC_OP_RESHAPE, x, 0, 1), true;
  d = g->node[n].shape->d;
  x = reshape_as(g, x, &d);
  return x != UINT32_MAX && (become(&g->node[n], TC_OP_CAST, x, 0, 1), true);
}

// A product that is only read transposed is the product of the transposed operands, in the other order: the same sums in the same order. What follows it
// can then be done where it is made.
static bool turn_product(tc_graph *g, uint32_t n, const uint32_t *n_uses) {
  tc_gnode *x = &g->node[n];
  uint32_t m = x->in[0];
  if (g->node[m].op != TC_OP_MATMUL || g->node[m].out != TC_LEAF_NONE || n_uses[m] != 1) return true;
  int rank = x->shape->d.rank;
  uint64_t swap = 0;
  for (int i = 0; i < rank; i++) swap |= (uint64_t)(i < rank - 2 ? i : 2 * rank - 3 - i) << (8 * i);
  if (x->attr[0] != swap) return true;
  uint32_t turned[2];
  for (int k = 0; k < 2; k++) {
    uint32_t from = g->node[m].in[1 - k];
    tc_dims d = g->node[from].shape->d;
    int64_t rows = d.dim[rank - 2];
    d.dim[rank - 2] = d.dim[rank - 1], d.dim[rank - 1] = rows;
    tc_gnode like = g->node[from];
    turned[k] = tc_graph_add(g, &like, TC_OP_PERMUTE, &d, 1, &from, 1, swap);
    if (turned[k] == UINT32_MAX) return false;
  }
  uint32_t *in = tc_arena_alloc(g->arena, 2 * sizeof *in);
  if (!in) return false;
  x = &g->node[n];
  x->in = in;
  return become(x, TC_OP_MATMUL, turned[0], turned[1], 2), true;
}

static bool turn_products(tc_graph *g) {
  uint32_t n_nodes = g->n, *n_uses = tc_arena_alloc(g->arena, (g->n + 1) * sizeof *n_uses);
  if (!n_uses) return false;
  memset(n_uses, 0, g->n * sizeof *n_uses);
  for (uint32_t n = 0; n < n_nodes; n++)
    for (int k = 0; k < g->node[n].n_in; k++) n_uses[g->node[n].in[k]]++;
  for (uint32_t n = 0; n < n_nodes; n++)
    if (g->node[n].op == TC_OP_PERMUTE && tc_device_kind_of(g->node[n].dev) != TC_DEVICE_ROWS && !turn_product(g, n, n_uses)) return false;
  return true;
}

// Attention whose result is stored with its heads before its rows is made so, rather than made the other way and moved.
static bool turn_attention(tc_graph *g, uint32_t n) {
  tc_gnode *x = &g->node[n], *y = &g->node[x->in[0]];
  const uint64_t order = 0x03010200;  // of a permutation of four axes that swaps heads and rows, and undoes it
  if (tc_op_kind_of(y->op) != TC_KIND_ATTENTION || y->op == TC_OP_ATTENTION_LSE || y->out != TC_LEAF_NONE || y->n_attr > 3 || x->attr[0] != order)
    return true;
  uint64_t *attr = tc_arena_alloc(g->arena, 5 * sizeof *attr);
  if (!attr) return false;
  uint32_t *in = x->in;
  memcpy(attr, y->attr, 3 * sizeof *attr);
  attr[3] = 1, attr[4] = order;
  x->op = y->op, x->in = y->in, x->n_in = y->n_in, x->attr = attr, x->n_attr = 4;
  y->op = TC_OP_PERMUTE, y->in = in, y->n_in = 1, y->attr = attr + 4, y->n_attr = 1;
  in[0] = n;
  return true;
}

static bool turn_attentions(tc_graph *g) {
  bool *stored = tc_arena_alloc(g->arena, g->n + 1);
  if (!stored) return false;
  memset(stored, 0, g->n);
  for (uint32_t n = g->n; n-- > 0;) {
    const tc_gnode *x = &g->node[n];
    stored[n] |= x->out != TC_LEAF_NONE;
    if (stored[n] && (x->op == TC_OP_RESHAPE || x->op == TC_OP_DETACH)) stored[x->in[0]] = true;
  }
  for (uint32_t n = 0; n < g->n; n++)
    if (stored[n] && g->node[n].op == TC_OP_PERMUTE && tc_device_generates(g->node[n].dev) && !turn_attention(g, n)) return false;
  return true;
}

// An output that is a product's, attention's or a library's result in the same order is stored where that is made: straight from registers; and after attention, whose
// kernel does nothing that follows it, it would be a copy.
static void store_as_made(tc_graph *g) {
  for (uint32_t n = 0; n < g->n; n++) {
    tc_gnode *x = &g->node[n];
    if (x->out == TC_LEAF_NONE || !tc_device_generates(x->dev)) continue;
    uint32_t m = n;
    for (; g->node[m].op == TC_OP_RESHAPE || g->node[m].op == TC_OP_DETACH; m = g->node[m].in[0]) tc_count(TC_PASS_GRAPH, 1);
    tc_gnode *y = &g->node[m];
    bool makes = tc_op_kind_of(y->op) == TC_KIND_ATTENTION || y->op == TC_OP_MATMUL || y->op == TC_OP_CONV_CALL;
    if (m == n || !makes || y->out != TC_LEAF_NONE || y->dev != x->dev) continue;
    y->out = x->out, x->out = TC_LEAF_NONE;
  }
}

// Orders needed nodes, operands first (decomposition appends out of order).
static bool order_nodes(tc_graph *g) {
  size_t n_edges = g->n;
  for (uint32_t n = 0; n < g->n; n++) n_edges += (size_t)g->node[n].n_in;
  uint32_t *stack = tc_arena_alloc(g->arena, (n_edges + 1) * sizeof *stack);
  uint8_t *state = tc_arena_alloc(g->arena, g->n + 1);
  g->order = tc_arena_alloc(g->arena, (g->n + 1) * sizeof *g->order);
  if (!stack || !state || !g->order) return false;
  g->n_order = 0;
  for (uint32_t root = 0; root < g->n; root++) {
    if (g->node[root].out == TC_LEAF_NONE || state[root] == 2) continue;
    uint32_t depth = 0;
    stack[depth++] = root;
    while (depth) {
      uint32_t n = stack[depth - 1];
      tc_gnode *x = &g->node[n];
      tc_count(TC_PASS_GRAPH, 1 + (uint64_t)x->n_in);
      if (state[n] == 2) {
        depth--;
        continue;
      }
      bool ready = true;
      for (int i = x->n_in; i-- > 0;)
        if (state[x->in[i]] != 2) stack[depth++] = x->in[i], ready = false;
      if (!ready) continue;
      state[n] = 2;
      depth--;
      x->needed = true;
      g->order[g->n_order++] = n;
      for (int i = 0; i < x->n_in; i++) g->node[x->in[i]].n_readers++;
    }
  }
  return true;
}

static void print_after(const tc_graph *g, FILE *out) {
  for (uint32_t i = 0; i < g->n_order; i++) {
    const tc_gnode *x = &g->node[g->order[i]];
    tc_text_node line = {.op = x->op, .type = x->type, .dev = x->dev, .dims = x->shape->d, .n_in = x->n_in, .n_attr = x->n_attr, .n_arg = x->n_arg};
    line.in = x->in, line.attr = x->attr, line.flag = g->order[i] < g->plan->n_node ? g->plan->flag[g->order[i]] : 0;
    tc_text_write_node(out, g->order[i], &line);
  }
}

static void log_graph(const tc_graph *g) {
  tc_log_message m;
  if (tc_log_begin(&m)) {
    fprintf(m.to, "%016llx: recorded\n", (unsigned long long)g->plan->hash.lo);
    tc_text_write_plan(m.to, g->plan);
    fprintf(m.to, "simplified\n");
    print_after(g, m.to);
  }
  tc_log_end(&m, TC_LOG_PLAN);
}

bool tc_expand_conv(tc_graph *g, uint32_t n) {
  const tc_gnode *x = &g->node[n];
  if (g->node[x->in[0]].shape->count == 0 || g->node[x->in[1]].shape->count == 0) return true;
  return tc_conv_expand(g, n, tc_vendor_conv_choose(g, n));
}

// A tensor that is assigned itself with a small part written or added to, such as a cache or a table: that is what stores the result.
static void find_parts(tc_graph *g) {
  for (uint32_t n = 0; n < g->n; n++) {
    tc_gnode *x = &g->node[n], *w = &g->node[x->op == TC_OP_ASSIGN ? x->in[0] : n];
    int part = tc_graph_part_of(w->op);
    if (w == x || part < 0 || x->out == TC_LEAF_NONE || w->out != TC_LEAF_NONE || w->in[0] != x->old) continue;
    if (g->node[w->in[0]].leaf == TC_LEAF_NONE || g->node[w->in[part]].shape->count > w->shape->count / SMALL_PART) continue;
    w->part = true, w->out = x->out, x->out = TC_LEAF_NONE;
  }
}

void tc_graph_fini(tc_graph *g) {
  while (g->n_call) tc_gpu_call_release(g->call[--g->n_call]);
}

tc_status tc_graph_build(tc_graph *g, const tc_plan *plan, tc_arena *arena) {
  *g = (tc_graph){.arena = arena, .plan = plan, .cap = plan->n_node * 8 + 64};
  TC_TRY(tc_target_of(plan->n_node ? (tc_device)plan->dev[0] : TC_DEVICE_CPU, &g->target));
  g->node = tc_arena_alloc(arena, g->cap * sizeof g->node[0]);
  bool ok = g->node && decode(g) && merge_equal(g) && tc_layout(g);
  if (ok) find_parts(g);
  for (uint32_t n = 0; ok && n < g->n; n++) {
    tc_gnode *x = &g->node[n];
    if (!tc_device_generates(x->dev)) continue;
    if (x->op == TC_OP_ARGKTH && tc_target_is_gpu(&g->target))
      ok = expand_kth(g, n);
    else if (x->shape->count > 0)
      ok = expand[x->op](g, n);
  }
  for (uint32_t n = 0, end = g->n; ok && n < end; n++)
    if (tc_device_generates(g->node[n].dev) && tc_op_kind_of(g->node[n].op) == TC_KIND_FOLD) ok = split_fold(g, n);
  ok = ok && (tc_target_is_gpu(&g->target) || tc_layout_edges(g)) && turn_products(g) && turn_attentions(g);
  if (ok) store_as_made(g);
  if (ok && tc_target_is_gpu(&g->target)) ok = tc_gpu_split_products(g) && tc_gpu_split_attention(g);
  if (ok) tc_prologues(g);
  ok = ok && tc_panels(g) && order_nodes(g);
  if (ok && tc_log_on(TC_LOG_PLAN)) log_graph(g);
  return ok ? TC_OK : TC_FAIL(TC_ERR_MEMORY, "no room to lower a graph of %u nodes", plan->n_node);
}
