// Makes a matmul in the order in which its result is read.
//
// A permute moves the last axis of a matmul's result, such as a convolution's channels, in front of
// others. Instead of [n p, o] = [n p, k] by [k, o], this makes [n, o, p] = [n, o, k] by [n, k, p].
// Elementwise work between the two is done in the new order. The sums are the same, in the same
// order.
//
//   %2 = matmul f32[128,8] %0 %1
//   %3 = reshape f32[2,64,8] %2                   ->    %7 = matmul f32[2,8,64] %5 %6
//   %4 = permute f32[2,8,64] %3 axes 0,2,1              %4 = detach f32[2,8,64] %7
//
// In: convolutions are expanded. Refused where the left operand would have to be packed, or panels
// would stay empty. Threads: thread-compatible.
#include <string.h>

#include "lowering/graph/permute.h"
#include "lowering/graph/view.h"

#define DEEPEST 32  // most elementwise nodes between a matmul and its permute
// Least columns of a matmul in the new order, for fewer do not fill a panel. Most idle steps a
// column, where the last panel is not full.
// Measured: Xeon, 2 threads, convolutions: 10x10 with 143 idle steps 0.6 times the speed; with 16
// to 20 steps mostly 1.16 to 2.0 (docs/measurements.md).
#define LEAST_COLUMNS 64
#define MOST_IDLE 32

// A permute of a matmul's result that moves its last axis in front of others: [n.., p.., o] as
// [n.., o, p..].
typedef struct edge {
  tc_graph *g;
  const uint32_t *n_uses;
  int rank;
  uint64_t order, back;  // the permute, and its inverse
  int64_t batch, columns;  // of the matmul made in the new order: extents of n.. and p..
} edge;

static bool edge_of(tc_graph *g, const uint32_t *n_uses, uint32_t n, edge *e) {
  const tc_gnode *x = &g->node[n];
  const tc_dims *d = &g->node[x->in[0]].shape->d;
  int last = x->shape->d.rank - 1, to = 0;
  while (to < last && tc_permute_axis(x->attr[0], to) == to) to++;
  for (int i = to; i <= last; i++)
    if (tc_permute_axis(x->attr[0], i) != (i == to ? last : i - 1)) return false;
  *e = (edge){g, n_uses, last + 1, x->attr[0], tc_permute_inverse(x->attr[0], last + 1), 1, 1};
  for (int i = 0; i < last; i++) *(i < to ? &e->batch : &e->columns) *= d->dim[i];
  return true;
}

static bool fills_panels(const edge *e, int64_t k) {
  int64_t idle = (LEAST_COLUMNS - e->columns % LEAST_COLUMNS) % LEAST_COLUMNS;
  return e->columns >= LEAST_COLUMNS && idle * k <= MOST_IDLE * e->columns;
}

// Whether the left operand [batch * columns, k] lies so that the new matmul reads its columns side
// by side. Then nothing is packed or transposed.
static bool lies_by_columns(const edge *e, uint32_t n) {
  const tc_gnode *x = &e->g->node[n];
  tc_extents ext = {{e->batch, 1, e->columns, x->shape->d.dim[1]}};
  tc_index here[TC_MAX_RANK] = {tc_ix_const(0), tc_ix_range(TC_RANGE_K0)}, next[TC_MAX_RANK],
           columns = tc_ix_range(TC_RANGE_K), images, flat;
  int64_t stride;
  images = tc_ix_range(TC_RANGE_A);
  if (!tc_ix_add(&here[0], &images, e->columns) || !tc_ix_add(&here[0], &columns, 1)) return false;
  tc_ix_simplify(&here[0], &ext);
  for (; x->leaf == TC_LEAF_NONE && x->out == TC_LEAF_NONE; x = &e->g->node[n]) {
    bool view = x->op == TC_OP_RESHAPE || x->op == TC_OP_DETACH || x->op == TC_OP_PERMUTE || x->op == TC_OP_SLICE ||
                x->op == TC_OP_WINDOW;
    if (!view) break;
    if (!tc_view_operand(e->g, n, 0, here, &ext, next)) return false;
    memcpy(here, next, sizeof here);
    n = x->in[0];
  }
  if (!tc_ix_flatten(here, &x->shape->d, &ext, &flat) || !tc_ix_take_stride(&flat, TC_RANGE_K0, &stride)) return false;
  return tc_ix_take_stride(&flat, TC_RANGE_K, &stride) && stride == 1;
}

// Whether matmul n is a convolution that has a kernel for this order.
static bool is_direct(const edge *e, uint32_t n) {
  return e->rank == 4 && e->batch * e->columns == e->g->node[n].shape->d.dim[0] && tc_direct_fits(e->g, n, e->batch);
}

// Whether a view permutes operand n for free: it is small, or was permuted the inverse way.
static bool is_free(const edge *e, const tc_gnode *x, uint32_t n) {
  const tc_gnode *y = &e->g->node[n];
  return y->shape->count * 4 <= x->shape->count ||
         (y->op == TC_OP_PERMUTE && y->shape == x->shape && y->attr[0] == e->back);
}

// The matmul that n is made of, through elementwise work and reshapes that nothing else reads.
// TC_GNODE_NONE: there is none, or it is better left as it is.
static uint32_t matmul_of(const edge *e, uint32_t n, int depth) {
  const tc_gnode *x = &e->g->node[n];
  uint32_t found = TC_GNODE_NONE;
  if (e->n_uses[n] != 1 || depth == DEEPEST) return TC_GNODE_NONE;
  if (tc_permute_commutes(x)) {
    for (int k = 0; k < x->n_in; k++) {
      if (is_free(e, x, x->in[k])) continue;
      if (found != TC_GNODE_NONE || e->g->node[x->in[k]].shape != x->shape) return TC_GNODE_NONE;
      found = matmul_of(e, x->in[k], depth + 1);
      if (found == TC_GNODE_NONE) return found;
    }
    return found;
  }
  int64_t o = x->shape->d.dim[e->rank - 1];
  if (x->op != TC_OP_RESHAPE) return TC_GNODE_NONE;
  while (e->g->node[n].op == TC_OP_RESHAPE && e->n_uses[n] == 1) n = e->g->node[n].in[0];
  x = &e->g->node[n];
  bool fits = x->op == TC_OP_MATMUL && tc_device_generates(x->dev) && e->n_uses[n] == 1 && x->shape->d.rank == 2 &&
              x->shape->d.dim[1] == o;
  fits = fits &&
         (is_direct(e, n) || (fills_panels(e, e->g->node[x->in[0]].shape->d.dim[1]) && lies_by_columns(e, x->in[0])));
  return fits ? n : TC_GNODE_NONE;
}

// The matmul as [batch, o, columns]: the same sums in the same order.
static uint32_t add_commuted(const edge *e, uint32_t matmul) {
  tc_graph *g = e->g;
  if (is_direct(e, matmul)) return tc_direct_add(g, matmul);
  const tc_gnode like = g->node[matmul], a = g->node[like.in[0]], b = g->node[like.in[1]];
  int64_t k = a.shape->d.dim[1], o = b.shape->d.dim[1];
  tc_dims transposed = TC_SHAPE(o, k), weights = TC_SHAPE(e->batch, o, k), images = TC_SHAPE(e->batch, e->columns, k);
  tc_dims in_rows = TC_SHAPE(e->batch, k, e->columns), made = TC_SHAPE(e->batch, o, e->columns);
  uint32_t in[2];
  in[0] = tc_graph_add(g, &b, TC_OP_PERMUTE, &transposed, 1, &like.in[1], 1, 0x0001);
  in[0] = tc_graph_add(g, &b, TC_OP_EXPAND, &weights, 1, &in[0], 0, 0);
  in[1] = tc_graph_add(g, &a, TC_OP_RESHAPE, &images, 1, &like.in[0], 0, 0);
  in[1] = tc_graph_add(g, &a, TC_OP_PERMUTE, &in_rows, 1, &in[1], 1, 0x010200);
  return tc_graph_add(g, &like, TC_OP_MATMUL, &made, 2, in, 0, 0);
}

// Node n in the new order, made of operands in that order.
static uint32_t add_permuted(const edge *e, uint32_t n, uint32_t matmul) {
  const tc_gnode x = e->g->node[n];
  tc_dims d = x.shape->d;
  uint32_t in[3];
  bool ok = true;
  for (int i = 0; i < e->rank; i++) d.dim[i] = x.shape->d.dim[tc_permute_axis(e->order, i)];
  if (x.op == TC_OP_RESHAPE) {
    in[0] = add_commuted(e, matmul);
    return tc_graph_add(e->g, &x, TC_OP_RESHAPE, &d, 1, in, 0, 0);
  }
  for (int k = 0; k < x.n_in && ok; k++) {
    in[k] = is_free(e, &x, x.in[k]) ? tc_permute_undo(e->g, x.in[k], e->back, e->rank, &ok)
                                    : add_permuted(e, x.in[k], matmul);
    ok = ok && in[k] != TC_GNODE_NONE;
  }
  return ok ? tc_graph_add(e->g, &x, x.op, &d, x.n_in, in, 0, 0) : TC_GNODE_NONE;
}

// Counts the readers of each node that lead to an output. An output counts as a reader.
static bool count_uses(const tc_graph *g, uint32_t *n_uses) {
  uint32_t *stack = tc_arena_alloc(g->arena, (g->n + 1) * sizeof *stack), depth = 0;
  if (!stack) return false;
  for (uint32_t n = 0; n < g->n; n++)
    if (g->node[n].out != TC_LEAF_NONE) n_uses[n] = 1, stack[depth++] = n;
  while (depth) {
    const tc_gnode *x = &g->node[stack[--depth]];
    for (int k = 0; k < x->n_in; k++)
      if (n_uses[x->in[k]]++ == 0) stack[depth++] = x->in[k];
  }
  return true;
}

tc_status tc_pass_commute_matmul(tc_graph *g) {
  uint32_t n_nodes = g->n, *n_uses = tc_arena_alloc(g->arena, (g->n + 1) * sizeof *n_uses);
  if (!n_uses || !count_uses(g, n_uses)) return tc_graph_no_memory(g);
  for (uint32_t n = 0; n < n_nodes; n++) {
    edge e;
    if (n_uses[n] == 0 || g->node[n].op != TC_OP_PERMUTE || !tc_device_generates(g->node[n].dev)) continue;
    uint32_t matmul = edge_of(g, n_uses, n, &e) ? matmul_of(&e, g->node[n].in[0], 0) : TC_GNODE_NONE;
    if (matmul == TC_GNODE_NONE) continue;
    uint32_t moved = add_permuted(&e, g->node[n].in[0], matmul);
    if (moved == TC_GNODE_NONE) return tc_graph_no_memory(g);
    tc_gnode_become(&g->node[n], TC_OP_DETACH, moved, 0, 1);
  }
  return TC_OK;
}
