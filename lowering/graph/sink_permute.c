// Sinks permutes of a matmul's result below the elementwise work that reads them.
//
// The work is then done where the matmul's elements lie, in the matmul's kernel. A permute back, as
// between two convolutions, cancels. Only the order in memory changes, no value.
//
//   %2 = reshape f32[2,4,4,8] %1 (a matmul)             %5 = relu f32[2,4,4,8] %2
//   %3 = permute f32[2,8,4,4] %2 axes 0,3,1,2     ->    %4 = permute f32[2,8,4,4] %5 axes 0,3,1,2
//   %4 = relu f32[2,8,4,4] %3
//
// In: operands come before what reads them; nodes are simplified. Refused where another operand is
// large and would have to be permuted. Threads: thread-compatible.
#include "lowering/graph/permute.h"
#include "runtime/passes.h"

// Whether n's elements lie as a matmul makes them: its result, reshaped, or elementwise work on it.
static bool lies_by_matmul(const tc_graph *g, const bool *moved, uint32_t n) {
  for (; g->node[n].op == TC_OP_RESHAPE; n = g->node[n].in[0]) tc_count(TC_PASS_GRAPH, 1);
  return moved[n] || (tc_op_kind_of(g->node[n].op) == TC_KIND_CONTRACT && g->node[n].out == TC_LEAF_NONE);
}

// The operand of x that is a permute to sink, or -1.
static int permuted_operand(const tc_graph *g, const bool *moved, const tc_gnode *x) {
  int rank = x->shape->d.rank;
  for (int k = 0; k < x->n_in; k++) {
    const tc_gnode *y = &g->node[x->in[k]];
    if (y->op == TC_OP_PERMUTE && y->shape == x->shape && y->attr[0] != tc_permute_transpose(rank) &&
        lies_by_matmul(g, moved, y->in[0]))
      return k;
  }
  return -1;
}

// n = f(permute(a), b) becomes permute(f(a, inverse permute(b))).
static bool sink_operand(tc_graph *g, uint32_t n, int k) {
  tc_gnode x = g->node[n];
  const tc_gnode *y = &g->node[x.in[k]];
  int rank = x.shape->d.rank;
  uint64_t order = y->attr[0];
  tc_dims d = g->node[y->in[0]].shape->d;
  uint32_t in[3];
  bool ok = true;
  for (int i = 0; i < x.n_in; i++) in[i] = tc_permute_undo(g, x.in[i], order, rank, &ok);
  uint32_t inner = ok ? tc_graph_add(g, &x, x.op, &d, x.n_in, in, 0, 0) : TC_GNODE_NONE;
  uint64_t *attr = tc_arena_alloc(g->arena, sizeof *attr);
  if (inner == TC_GNODE_NONE || !attr) return false;
  *attr = order;
  tc_gnode_become(&g->node[n], TC_OP_PERMUTE, inner, 0, 1);
  g->node[n].attr = attr, g->node[n].n_attr = 1;
  return true;
}

tc_status tc_pass_sink_permute(tc_graph *g) {
  uint32_t n_nodes = g->n;
  bool *moved = tc_arena_alloc(g->arena, (size_t)g->n * 8 + 64);
  if (!moved) return tc_graph_no_memory(g);
  for (uint32_t n = 0; n < n_nodes; n++) {
    tc_gnode *x = &g->node[n];
    if (!tc_device_generates(x->dev) || x->leaf != TC_LEAF_NONE) continue;
    uint32_t equal = x->op == TC_OP_PERMUTE ? tc_simplify(g, n) : n;
    if (equal != n) tc_gnode_become(x, TC_OP_DETACH, equal, 0, 1);  // two permutes that cancel
    if (!tc_permute_commutes(x)) continue;
    int k = permuted_operand(g, moved, x);
    bool fits = k >= 0;
    for (int i = 0; i < x->n_in && fits; i++) {
      const tc_gnode *y = &g->node[x->in[i]];
      bool same = y->op == TC_OP_PERMUTE && y->attr[0] == g->node[x->in[k]].attr[0] && y->shape == x->shape;
      fits = same || y->shape->count * 4 <= x->shape->count;
    }
    if (!fits) continue;
    if (!sink_operand(g, n, k)) return tc_graph_no_memory(g);
    moved[g->node[n].in[0]] = true;
  }
  return TC_OK;
}
