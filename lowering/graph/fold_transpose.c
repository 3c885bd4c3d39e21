// Folds transposes into the matmul or attention whose result they alone read.
//
//   %2 = matmul f32[3,5] %0 %1                     %4 = permute f32[5,4] %1 axes 1,0
//   %3 = permute f32[5,3] %2 axes 1,0        ->    %5 = permute f32[4,3] %0 axes 1,0
//                                                  %3 = matmul f32[5,3] %4 %5
//
// Source: XLA's transpose folding. Threads: thread-compatible.
#include <string.h>

#include "lowering/graph/permute.h"

// A matmul that is only read transposed becomes the matmul of the transposed operands, swapped: the
// same sums in the same order. Its epilogue can then take what follows.
static bool fold_into_matmul(tc_graph *g, uint32_t n, const uint32_t *n_uses) {
  const tc_gnode *x = &g->node[n];
  uint32_t m = x->in[0];
  if (g->node[m].dev != x->dev || g->node[m].op != TC_OP_MATMUL || g->node[m].out != TC_LEAF_NONE || n_uses[m] != 1)
    return true;
  int rank = x->shape->d.rank;
  uint64_t swap = tc_permute_transpose(rank);
  if (x->attr[0] != swap) return true;
  uint32_t transposed[2];
  for (int k = 0; k < 2; k++) {
    uint32_t from = g->node[m].in[1 - k];
    tc_dims d = g->node[from].shape->d;
    int64_t rows = d.dim[rank - 2];
    d.dim[rank - 2] = d.dim[rank - 1], d.dim[rank - 1] = rows;
    tc_gnode like = g->node[from];
    transposed[k] = tc_graph_add(g, &like, TC_OP_PERMUTE, &d, 1, &from, 1, swap);
    if (transposed[k] == TC_GNODE_NONE) return false;
  }
  return tc_gnode_become(&g->node[n], TC_OP_MATMUL, transposed[0], transposed[1], 2), true;
}

static bool fold_into_matmuls(tc_graph *g) {
  uint32_t n_nodes = g->n, *n_uses = tc_arena_alloc(g->arena, (g->n + 1) * sizeof *n_uses);
  if (!n_uses) return false;
  for (uint32_t n = 0; n < n_nodes; n++)
    for (int k = 0; k < g->node[n].n_in; k++) n_uses[g->node[n].in[k]]++;
  for (uint32_t n = 0; n < n_nodes; n++)
    if (g->node[n].op == TC_OP_PERMUTE && tc_device_kind_of(g->node[n].dev) != TC_DEVICE_ROWS &&
        !fold_into_matmul(g, n, n_uses))
      return false;
  return true;
}

// Attention whose result is stored with heads before rows is made in that order.
static bool fold_into_attention(tc_graph *g, uint32_t n) {
  tc_gnode *x = &g->node[n], *y = &g->node[x->in[0]];
  const uint64_t order = 0x03010200;  // swaps heads and rows, and back
  if (y->dev != x->dev || tc_op_kind_of(y->op) != TC_KIND_ATTENTION || y->op == TC_OP_ATTENTION_LSE ||
      y->out != TC_LEAF_NONE || y->n_attr > 3 || x->attr[0] != order)
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

static bool fold_into_attentions(tc_graph *g) {
  bool *stored = tc_arena_alloc(g->arena, g->n + 1);
  if (!stored) return false;
  for (uint32_t n = g->n; n-- > 0;) {
    const tc_gnode *x = &g->node[n];
    stored[n] |= x->out != TC_LEAF_NONE;
    if (stored[n] && (x->op == TC_OP_RESHAPE || x->op == TC_OP_DETACH)) stored[x->in[0]] = true;
  }
  for (uint32_t n = 0; n < g->n; n++)
    if (stored[n] && g->node[n].op == TC_OP_PERMUTE && tc_device_generates(g->node[n].dev) &&
        !fold_into_attention(g, n))
      return false;
  return true;
}

tc_status tc_pass_fold_transpose(tc_graph *g) {
  return fold_into_matmuls(g) && fold_into_attentions(g) ? TC_OK : tc_graph_no_memory(g);
}
