// Marks the operands of matmuls that are made where the matmul loads them.
//
//   %2 = cast f32[32,64] %1 (i8)         ->    %2 = cast f32[32,64] %1 prologue 0
//   %4 = mul f32[32,64] %2 %3                  %4 = mul f32[32,64] %2 %3 prologue 0
//   %5 = matmul f32[1,64] %0 %4                %5 = matmul f32[1,64] %0 %4
//
// Refused where the arithmetic costs too much, or leads to no narrow tensor, or to several.
// Threads: thread-compatible.
#include "lowering/graph/graph.h"

#include "lowering/kir/scalar_ops.h"
#include "runtime/passes.h"

#define MOST_COST 10.0  // of the arithmetic on an element; a division is 4
#define ROUND_COST 5.0  // of rounding to a 16-bit type
#define DEEPEST 12  // nodes
#define MANY_ROWS 512
#define PART 8  // a tensor so many times smaller than the operand is read as it is

typedef struct walk {
  const tc_graph *g;
  int64_t count;  // elements of the operand
  double cost;
  uint32_t node[DEEPEST];  // what the operand is made of, itself first
  uint8_t leads[DEEPEST];  // 1 + the operand that leads to the narrow tensor; 0: none does
  int n, n_narrow;
  bool ok;
} walk;

// Whether n has memory whatever lowering does.
static bool has_memory(const tc_gnode *x) {
  return x->leaf != TC_LEAF_NONE || x->out != TC_LEAF_NONE || x->stored;
}

static uint32_t below_views(const tc_graph *g, uint32_t n) {
  for (;; n = g->node[n].in[0]) {
    const tc_gnode *x = &g->node[n];
    tc_count(TC_PASS_GRAPH, 1);
    if (has_memory(x) || x->op == TC_OP_TO || !tc_graph_is_view(x->op)) return n;  // TO reads another device's result
  }
}

// Whether x widens a tensor in memory, exactly, to a type that matmuls accumulate in.
static bool is_widening(const tc_graph *g, const tc_gnode *x) {
  if (x->op != TC_OP_CAST) return false;
  const tc_gnode *y = &g->node[below_views(g, x->in[0])];
  bool byte = y->type == TC_I8 || y->type == TC_U8, half = tc_type_is_half(y->type);
  if (y->leaf == TC_LEAF_NONE || tc_type_bytes(y->type) >= tc_type_bytes(x->type) || y->type == TC_BOOL) return false;
  return x->type == TC_F32 ? byte || half : tc_type_is_half(x->type) && byte;
}

static double cost_of(const tc_gnode *x, bool exact) {
  return tc_build_cost(x->op, x->type) + (!exact && tc_type_is_half(x->type) ? ROUND_COST : 0);
}

// Walks what n is made of; returns whether it leads to the narrow tensor.
static bool leads_to_narrow(walk *w, uint32_t n) {
  n = below_views(w->g, n);
  const tc_gnode *x = &w->g->node[n];
  if (x->shape->count <= w->count / PART) return false;
  bool in_f32 = x->type == TC_F32 || tc_type_is_half(x->type);  // as the product adds up
  w->ok = w->ok && in_f32 && !has_memory(x) && tc_op_kind_of(x->op) == TC_KIND_ELEM && w->n < DEEPEST;
  if (!w->ok) return false;
  int at = w->n++;
  bool narrow = is_widening(w->g, x);
  w->node[at] = n, w->leads[at] = narrow, w->n_narrow += narrow, w->cost += cost_of(x, narrow);
  for (int k = 0; k < x->n_in && !narrow; k++)
    if (leads_to_narrow(w, x->in[k])) w->leads[at] = (uint8_t)(k + 1);
  return w->leads[at] != 0;
}

// Matrix instructions overlap with copies of an operand in memory. An operand that is made waits
// for registers, once for every tile of rows. From some tiles on it is cheaper to make it once.
static bool is_copied(const tc_graph *g, const tc_gnode *x) {
  return g->target.mma && tc_type_is_half(x->type) && x->shape->d.dim[x->shape->d.rank - 2] >= MANY_ROWS;
}

tc_status tc_pass_mark_prologue(tc_graph *g) {
  for (uint32_t n = 0; n < g->n; n++) {
    const tc_gnode *x = &g->node[n];
    if (x->op != TC_OP_MATMUL || x->leaf != TC_LEAF_NONE || !tc_device_generates(x->dev) || is_copied(g, x)) continue;
    walk w = {.g = g, .count = g->node[below_views(g, x->in[1])].shape->count, .ok = true};
    bool fits = leads_to_narrow(&w, x->in[1]) && w.ok && w.n_narrow == 1 && w.cost <= MOST_COST;
    for (int i = 0; i < w.n; i++) fits = fits && w.leads[i];
    for (int i = 0; i < w.n && fits; i++) g->node[w.node[i]].prologue = w.leads[i];
  }
  return TC_OK;
}

bool tc_in_matmul_prologue(const tc_graph *g, uint32_t n) {
  return g->node[below_views(g, n)].prologue;
}
