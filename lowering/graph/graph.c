// Adding nodes to a graph, and what an op is. See graph.h.
#include "lowering/graph/graph.h"

#include <string.h>

#include "runtime/passes.h"

bool tc_graph_is_zeros(const tc_gnode *x) {
  return x->leaf == TC_LEAF_NONE && tc_device_kind_of(x->dev) == TC_DEVICE_ZEROS;
}

bool tc_graph_is_view(tc_op op) {
  return tc_op_is_alias(op) || op == TC_OP_PERMUTE || op == TC_OP_EXPAND || op == TC_OP_SLICE || op == TC_OP_FLIP ||
         op == TC_OP_WINDOW;
}

int tc_graph_slice_update_of(tc_op op) {
  return op == TC_OP_WRITE_SLICE ? 1 : op == TC_OP_SCATTER || op == TC_OP_SCATTER_ADD || op == TC_OP_INDEX_ADD ? 2 : -1;
}

uint32_t tc_graph_add_with(tc_graph *g, const tc_gnode *like, tc_op op, const tc_dims *d, int n_in, const uint32_t *in,
                           int n_attr, const uint64_t *attr) {
  for (int i = 0; i < n_in; i++)
    if (in[i] == TC_GNODE_NONE) return TC_GNODE_NONE;
  if (!TC_ARENA_GROW(g->arena, g->node, g->cap, g->n)) return TC_GNODE_NONE;
  tc_gnode *x = &g->node[g->n];
  uint32_t shape = tc_dims_intern(d);
  *x = (tc_gnode){.op = op,
                  .type = like->type,
                  .dev = like->dev,
                  .n_in = n_in,
                  .n_attr = n_attr,
                  .leaf = TC_LEAF_NONE,
                  .out = TC_LEAF_NONE};
  uint64_t *words = tc_arena_alloc(g->arena, (size_t)TC_MAX_OF(n_attr, 1) * sizeof *words);
  x->in = tc_arena_alloc(g->arena, (size_t)(n_in + 1) * sizeof x->in[0]);
  if (shape == TC_SHAPE_NONE || !words || !x->in) return TC_GNODE_NONE;
  memcpy(x->in, in, (size_t)n_in * sizeof in[0]);
  if (n_attr) memcpy(words, attr, (size_t)n_attr * sizeof *words);
  x->attr = words;
  x->shape = tc_dims_at(shape);
  return g->n++;
}

uint32_t tc_graph_add(tc_graph *g, const tc_gnode *like, tc_op op, const tc_dims *d, int n_in, const uint32_t *in,
                      int n_attr, uint64_t attr) {
  return tc_graph_add_with(g, like, op, d, n_in, in, TC_MAX_OF(n_attr, 1), &attr);
}

void tc_gnode_become(tc_gnode *x, tc_op op, uint32_t a, uint32_t b, int n_in) {
  x->op = op, x->n_in = n_in, x->n_attr = 0, x->n_arg = 0;
  x->in[0] = a;
  if (n_in > 1) x->in[1] = b;
}

tc_status tc_graph_no_memory(const tc_graph *g) {
  return TC_FAIL(TC_ERR_MEMORY, "no room to lower a graph of %u nodes", g->plan->n_node);
}

// Depth first from each output. A node is looked at when it is met and once more when its operands
// are done.
uint32_t *tc_graph_order(const tc_graph *g, tc_arena *arena, uint32_t *n_order) {
  enum { NEW, MET, DONE };
  size_t n_edges = g->n;
  for (uint32_t n = 0; n < g->n; n++) n_edges += (size_t)g->node[n].n_in;
  uint32_t *stack = tc_arena_alloc(arena, (n_edges + 1) * sizeof *stack);
  uint8_t *state = tc_arena_alloc(arena, g->n + 1);
  uint32_t *order = tc_arena_alloc(arena, (g->n + 1) * sizeof *order);
  *n_order = 0;
  if (!stack || !state || !order) return NULL;
  for (uint32_t root = 0; root < g->n; root++) {
    if (g->node[root].out == TC_LEAF_NONE || state[root] == DONE) continue;
    uint32_t depth = 0;
    stack[depth++] = root;
    while (depth) {
      uint32_t n = stack[depth - 1];
      const tc_gnode *x = &g->node[n];
      bool ready = true;
      tc_count(TC_PASS_GRAPH, 1 + (uint64_t)x->n_in);
      for (int i = x->n_in; i-- > 0 && state[n] != DONE;) {
        if (state[x->in[i]] == MET) return *n_order = UINT32_MAX, NULL;
        if (state[x->in[i]] == NEW) stack[depth++] = x->in[i], ready = false;
      }
      if (state[n] != DONE && ready) order[(*n_order)++] = n;
      if (ready) depth--;
      state[n] = ready ? DONE : MET;
    }
  }
  return order;
}

void tc_graph_fini(tc_graph *g) {
  while (g->n_call) tc_gpu_call_release(g->call[--g->n_call]);
}
