// Merges common subexpressions: a pure node equal to an earlier one is replaced by it.
//
// The rules of simplify.c are applied to each node in the same walk, as LLVM's EarlyCSE does. What
// a rule rewrites may equal an earlier node, and what is merged may let a rule apply.
//
//   %1 = exp f32[4] %0                 %1 = exp f32[4] %0
//   %2 = exp f32[4] %0           ->    %3 = add f32[4] %1 %1
//   %3 = add f32[4] %1 %2
//
// In: operands come before what reads them. Threads: thread-compatible.
#include <string.h>

#include "lowering/graph/graph.h"
#include "runtime/options.h"
#include "runtime/passes.h"

static uint64_t node_hash(const tc_gnode *x) {
  uint64_t h = (uint64_t)x->op * 31 + (uint64_t)x->type + ((uint64_t)(uintptr_t)x->shape << 8) + (uint64_t)x->dev;
  for (int i = 0; i < x->n_in; i++) h = (h ^ x->in[i]) * UINT64_C(0x9E3779B97F4A7C15);
  for (int i = 0; i < x->n_attr; i++) h = (h ^ x->attr[i]) * UINT64_C(0x9E3779B97F4A7C15);
  return h ^ h >> 32;
}

static bool node_equal(const tc_gnode *a, const tc_gnode *b) {
  return a->op == b->op && a->type == b->type && a->shape == b->shape && a->dev == b->dev && a->n_in == b->n_in &&
         a->n_attr == b->n_attr && memcmp(a->in, b->in, (size_t)a->n_in * sizeof a->in[0]) == 0 &&
         memcmp(a->attr, b->attr, (size_t)a->n_attr * sizeof a->attr[0]) == 0;
}

// Nodes with arguments differ: their values are not known here.
static bool is_pure(const tc_gnode *x) {
  return (!x->n_arg || tc_planted("cse")) && x->leaf == TC_LEAF_NONE && tc_op_kind_of(x->op) != TC_KIND_EFFECT &&
         x->op != TC_OP_TO;
}

tc_status tc_pass_cse(tc_graph *g) {
  uint32_t cap = 64;
  while (cap < 2 * g->n) cap *= 2;
  uint32_t *table = tc_arena_alloc(g->arena, cap * sizeof *table),
           *same = tc_arena_alloc(g->arena, (g->n + 1) * sizeof *same);
  if (!table || !same) return tc_graph_no_memory(g);
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
      // An output stays a node of its own.
      if (m != n) tc_gnode_become(x, TC_OP_DETACH, m, 0, 1);
    }
    if (!is_pure(x)) continue;
    uint32_t at = (uint32_t)node_hash(x) & (cap - 1);
    for (; table[at] && !node_equal(&g->node[table[at] - 1], x); at = (at + 1) & (cap - 1)) tc_count(TC_PASS_GRAPH, 1);
    if (!table[at])
      table[at] = n + 1;
    else if (x->out == TC_LEAF_NONE)
      same[n] = table[at] - 1;
  }
  return TC_OK;
}
