// Which factors are kept as products of few rows read them. See panels.h.
#include "lowering/panels.h"

#include <string.h>

#include "lowering/blocks.h"
#include "lowering/prologue.h"

// Rows of a product for which panels are kept: fewer read the factor as it lies at the speed of memory, more pack it at little cost.
#define FEWEST_ROWS 7
#define MOST_ROWS 1024
#define LEAST_COUNT 16384  // of elements: finding what is kept takes a tenth of a microsecond a run
#define DEEPEST 32  // of what a factor is made of

enum { UNKNOWN, NO, YES };

// Whether something is, or may yet be, differentiated: then parameters will change soon, and what is kept of them would be made again for one use.
static bool has_history(const tc_plan *plan) {
  for (uint32_t n = 0; n < plan->n_node; n++)
    if ((plan->flag[n] & (TC_NODE_TAPE | TC_NODE_FREED)) && !(plan->flag[n] & TC_NODE_WANT)) return true;
  return false;
}

// Whether n is made of parameters and constants alone.
static bool lasts(const tc_graph *g, uint32_t n, uint8_t *known, int depth) {
  const tc_gnode *x = &g->node[n];
  tc_op_kind kind = tc_op_kind_of(x->op);
  if (x->leaf != TC_LEAF_NONE) return x->parameter;
  if (known[n] != UNKNOWN) return known[n] == YES;
  bool all = depth < DEEPEST && (kind == TC_KIND_ELEM || kind == TC_KIND_FOLD || kind == TC_KIND_GEN || (kind == TC_KIND_MOVE && x->n_arg == 0));
  for (int k = 0; k < x->n_in && all; k++) all = lasts(g, x->in[k], known, depth + 1);
  known[n] = all ? YES : NO;
  return all;
}

static tc_type type_of_sums(tc_type type) {
  return type == TC_BF16 ? TC_F32 : type;
}

// Whether the product reads pairs along k as words.
static bool of_words(const tc_graph *g, const tc_gnode *x) {
  const tc_gnode *a = &g->node[x->in[0]], *b = &g->node[x->in[1]];
  tc_extent3 of = {1, x->shape->d.dim[0], x->shape->d.dim[1], b->shape->d.dim[0]};
  return tc_blocks_pairs(&of, a->type, b->type);
}

static bool wants_panels(const tc_graph *g, const tc_gnode *x, uint8_t *known) {
  if (x->op != TC_OP_MATMUL || tc_device_kind_of(x->dev) != TC_DEVICE_KERNELS || x->shape->d.rank != 2) return false;
  const tc_gnode *b = &g->node[x->in[1]];
  bool fits = x->shape->d.dim[0] >= FEWEST_ROWS && x->shape->d.dim[0] <= MOST_ROWS && b->shape->count >= LEAST_COUNT;
  fits = fits && !tc_prologue_makes(g, x->in[1]);  // kept wide, a narrow tensor would be as large as it was made narrow not to be
  fits = fits && (b->type == TC_F32 || b->type == TC_F64 || of_words(g, x));
  return fits && tc_blocks_panel(b->shape->d.dim[1], type_of_sums(b->type)) && lasts(g, x->in[1], known, 0);
}

// A factor in other axes, and these in the order of memory: the two orders of axes.
typedef struct way {
  tc_dims split, packed;
  uint64_t there, back;
} way;

// [k, n] as [k, panels, lanes], in memory as [panels, k, lanes]; of words as [k / 2, 2, panels, lanes], in memory as [panels, k / 2, lanes, 2].
static way way_of(const tc_gnode *b) {
  int64_t k = b->shape->d.dim[0], n = b->shape->d.dim[1], lanes = tc_blocks_panel(n, type_of_sums(b->type));
  if (b->type != TC_BF16) return (way){TC_SHAPE(k, n / lanes, lanes), TC_SHAPE(n / lanes, k, lanes), 0x020001, 0x020001};
  return (way){TC_SHAPE(k / 2, 2, n / lanes, lanes), TC_SHAPE(n / lanes, k / 2, lanes, 2), 0x01030002, 0x02000301};
}

static uint32_t panels_of(tc_graph *g, uint32_t b) {
  tc_gnode like = g->node[b];
  way by = way_of(&like);
  b = tc_graph_add(g, &like, TC_OP_RESHAPE, &by.split, 1, &b, 0, 0);
  if (b != UINT32_MAX) b = tc_graph_add(g, &like, TC_OP_PERMUTE, &by.packed, 1, &b, 1, by.there);
  if (b == UINT32_MAX) return b;
  g->node[b].stored = true;
  b = tc_graph_add(g, &like, TC_OP_PERMUTE, &by.split, 1, &b, 1, by.back);
  return b == UINT32_MAX ? b : tc_graph_add(g, &like, TC_OP_RESHAPE, &like.shape->d, 1, &b, 0, 0);
}

bool tc_panels(tc_graph *g) {
  uint32_t n_nodes = g->n;
  if (!tc_plan_prepares(g->plan) || has_history(g->plan)) return true;
  uint8_t *known = tc_arena_alloc(g->arena, n_nodes + 1);
  uint32_t *made = tc_arena_alloc(g->arena, (n_nodes + 1) * sizeof *made);  // per factor: its panels, or 0
  if (!known || !made) return false;
  memset(known, UNKNOWN, n_nodes);
  memset(made, 0, n_nodes * sizeof *made);
  for (uint32_t n = 0; n < n_nodes; n++) {
    if (!wants_panels(g, &g->node[n], known)) continue;
    uint32_t b = g->node[n].in[1];
    if (!made[b]) made[b] = panels_of(g, b);
    if (made[b] == UINT32_MAX) return false;
    g->node[n].in[1] = made[b];
  }
  return true;
}
