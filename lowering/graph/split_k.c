// Splits matmuls with too few tiles to fill a GPU, but many steps of k.
//
// Parts of k lie side by side. Their matmuls are one batch in the accumulators' type, and are
// summed in the order of the parts. Gradients by weights are such, and few rows by a large weight.
//
//   %2 = matmul f32[64,64] %0 %1    ->    %7 = matmul f32[2,64,64] of [2,64,1024] by [2,1024,64]
//                                         %8 = sum f32[1,64,64] %7 axes 0 keepdim
//                                         %2 = reshape f32[64,64] %8
//
// Invariants: where k is cut follows from the shape alone, so that every device adds in the same
// order.
// Threads: thread-compatible.
#include "lowering/graph/split_k.h"

#define TILE 64  // lines of a tile of the result
#define FEW_TILE 8  // lines of the other operand that a block takes then
#define ENOUGH 256  // tiles that fill a large device
#define FEW_ENOUGH 64  // such blocks that keep its memory busy
#define LEAST_STEPS 512  // of a part
#define ALIGNED 8  // steps that a part's length is a multiple of, for wide accesses
#define MOST_PARTS 64

int64_t tc_gpu_parts_of(int64_t batch, int64_t m, int64_t n, int64_t k) {
  int64_t few = TC_MIN(m, n), many = TC_MAX_OF(m, n), parts = 1, enough = few <= TC_GPU_FEW ? FEW_ENOUGH : ENOUGH;
  int64_t tiles =
      batch * (few <= TC_GPU_FEW ? tc_ceil_div(many, FEW_TILE) : tc_ceil_div(m, TILE) * tc_ceil_div(n, TILE));
  while (tiles > 0 && tiles * parts < enough && parts < MOST_PARTS && k % (2 * parts * ALIGNED) == 0 &&
         k / (2 * parts) >= LEAST_STEPS)
    parts *= 2;
  return parts;
}

// One axis of k steps is made of axes `from`, of which the innermost is `last`. Whether parts of so
// many steps leave each whole or cut it evenly.
static bool cuts_evenly(const tc_dims *from, int last, int64_t k, int64_t steps) {
  int64_t inner = 1;
  for (int i = last; i >= 0 && inner < k; i--) {
    inner *= from->dim[i];
    if (inner < k && inner % steps && steps % inner) return false;
  }
  return inner == k;
}

// Whether parts of so many steps of an axis are still affine through the views that made the node.
static bool stays_affine(const tc_graph *g, uint32_t n, int axis, int64_t k, int64_t steps) {
  for (;; n = g->node[n].in[0]) {
    const tc_gnode *x = &g->node[n];
    if (x->leaf != TC_LEAF_NONE || x->out != TC_LEAF_NONE || x->stored ||
        (x->op != TC_OP_PERMUTE && x->op != TC_OP_RESHAPE))
      return true;
    if (x->op == TC_OP_PERMUTE) {
      axis = (int)(x->attr[0] >> (8 * axis) & 255);
      continue;
    }
    const tc_dims *to = &x->shape->d, *from = &g->node[x->in[0]].shape->d;
    int64_t below = 1, inner = 1;
    for (int i = axis + 1; i < to->rank; i++) below *= to->dim[i];
    int last = from->rank - 1;
    for (; last >= 0 && inner < below; last--) inner *= from->dim[last];
    while (last > 0 && from->dim[last] == 1) last--;
    if (inner != below || last < 0) return false;
    if (from->dim[last] != k) return cuts_evenly(from, last, k, steps);
    axis = last;
  }
}

// Axis `axis` of a, of k steps, as [parts, .., steps, ..]; TC_GNODE_NONE without memory.
static uint32_t split_axis(tc_graph *g, uint32_t a, int axis, int64_t parts) {
  tc_gnode like = g->node[a];
  tc_dims d = like.shape->d, split = {.rank = d.rank + 1}, moved = {.rank = d.rank + 1};
  uint64_t order = (uint64_t)axis;
  for (int i = 0; i < d.rank; i++) split.dim[i + (i >= axis)] = d.dim[i];
  split.dim[axis] = parts, split.dim[axis + 1] = d.dim[axis] / parts;
  moved.dim[0] = parts;
  for (int i = 0, at = 1; i < split.rank; i++) {
    if (i == axis) continue;
    moved.dim[at] = split.dim[i];
    order |= (uint64_t)i << (8 * at++);
  }
  a = tc_graph_add(g, &like, TC_OP_RESHAPE, &split, 1, &a, 0, 0);
  return tc_graph_add(g, &like, TC_OP_PERMUTE, &moved, 1, &a, 1, order);
}

static bool split_matmul(tc_graph *g, uint32_t n, int64_t parts) {
  tc_gnode like = g->node[n];
  tc_dims d = like.shape->d, all = {.rank = d.rank + 1}, one;
  uint32_t in[2] = {split_axis(g, like.in[0], d.rank - 1, parts), split_axis(g, like.in[1], d.rank - 2, parts)};
  all.dim[0] = parts;
  for (int i = 0; i < d.rank; i++) all.dim[i + 1] = d.dim[i];
  one = all, one.dim[0] = 1;
  tc_type type = like.type, wide = type == TC_F64 ? TC_F64 : TC_F32;
  like.type = wide;
  uint32_t y = tc_graph_add(g, &like, TC_OP_MATMUL, &all, 2, in, 0, 0);
  y = tc_graph_add(g, &like, TC_OP_SUM, &one, 1, &y, 1, UINT64_C(1) | 1u << 8);
  if (type != wide) y = tc_graph_add(g, &like, TC_OP_RESHAPE, &d, 1, &y, 0, 0);
  return y != TC_GNODE_NONE && (tc_gnode_become(&g->node[n], type == wide ? TC_OP_RESHAPE : TC_OP_CAST, y, 0, 1), true);
}

tc_status tc_pass_split_k(tc_graph *g) {
  for (uint32_t n = 0, end = g->n; n < end; n++) {
    const tc_gnode *x = &g->node[n];
    const tc_dims *d = &x->shape->d;
    if (x->op != TC_OP_MATMUL || !tc_type_is_float(x->type) || d->rank == TC_MAX_RANK || x->shape->count == 0) continue;
    int64_t k = g->node[x->in[0]].shape->d.dim[d->rank - 1], rows = d->dim[d->rank - 2], columns = d->dim[d->rank - 1];
    int64_t parts = tc_gpu_parts_of(x->shape->count / (rows * columns), rows, columns, k);
    while (parts > 1 && !(stays_affine(g, x->in[0], d->rank - 1, k, k / parts) &&
                          stays_affine(g, x->in[1], d->rank - 2, k, k / parts)))
      parts /= 2;
    if (parts > 1 && !split_matmul(g, n, parts)) return tc_graph_no_memory(g);
  }
  return TC_OK;
}
