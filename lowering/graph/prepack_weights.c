// Stores right operands of matmuls of few rows in panels, the order in which they are read.
//
// Constant ones are kept: no run packs them again, and their bytes arrive in order. A panel is a
// view whose result is stored: only the order in memory changes, no value.
//
//   %2 = matmul f32[1,128] %0 %1    ->    %3 = reshape f32[256,8,16] %1
//                                         %4 = permute f32[8,256,16] %3 axes 1,0,2 stored
//                                         %5 = permute f32[256,8,16] %4
//                                         %6 = reshape f32[256,128] %5
//                                         %2 = matmul f32[1,128] %0 %6
//
// In: nodes are simplified; operands may have higher numbers than what reads them.
// Where parameters will soon change, each run packs what several matmuls read in one orientation:
// once, and not in each of them. A layer that is trained reads its weight in two orientations, once
// each.
// Refused where many rows share the packing.
// Threads: thread-compatible.
#include "lowering/tiling/gemm.h"
#include "lowering/graph/graph.h"

// Most rows of a matmul whose right operand is prepacked: with more rows, packing costs little.
// With few rows panels are read at a stream's speed.
// Measured: Zen 4, 2 threads, 170 MB of bf16 weights: columns in place 0.48 to 0.9 of a stream,
// panels 1.07 to 1.13.
#define MOST_ROWS 1024
// A matmul of at most FEW_ROWS rows reads its right operand once, wherever it lies.
// With at least JOINED_COLUMNS columns too, a result joined of two is small beside that operand, as
// for a vocabulary's logits.
#define FEW_ROWS 6
#define JOINED_COLUMNS 4096
#define WIDEST 64  // most columns of a panel
#define LEAST_COUNT 16384  // least elements of a prepacked operand: finding it takes 0.1 us a run
#define DEEPEST 32  // most nodes that an operand is made of
// Least matmuls that read what each run packs, and least rows of one that counts.
// Measured: Zen 5, 2 threads, steps of a recurrent network: 16 rows 1.24 times as fast, 128 rows
// 1.04; 8 rows 0.92. More: docs/measurements.md.
#define LEAST_READERS 2
#define LEAST_ROWS 16

enum { UNKNOWN, NO, YES };

// Whether something is, or may yet be, differentiated. Parameters then change soon, and panels
// would be made for one use.
static bool has_history(const tc_plan *plan) {
  for (uint32_t n = 0; n < plan->n_node; n++)
    if ((plan->flag[n] & (TC_NODE_TAPE | TC_NODE_FREED)) && !(plan->flag[n] & TC_NODE_REQUIRES_GRAD)) return true;
  return false;
}

// Whether n is made of parameters and constants alone.
static bool is_constant(const tc_graph *g, uint32_t n, uint8_t *known, int depth) {
  const tc_gnode *x = &g->node[n];
  tc_op_kind kind = tc_op_kind_of(x->op);
  if (x->leaf != TC_LEAF_NONE) return x->parameter;
  if (known[n] != UNKNOWN) return known[n] == YES;
  bool all = depth < DEEPEST && (kind == TC_KIND_ELEM || kind == TC_KIND_FOLD || kind == TC_KIND_GEN ||
                                 (kind == TC_KIND_MOVE && x->n_arg == 0));
  for (int k = 0; k < x->n_in && all; k++) all = is_constant(g, x->in[k], known, depth + 1);
  known[n] = all ? YES : NO;
  return all;
}

static tc_type type_of_sums(tc_type type) {
  return type == TC_BF16 ? TC_F32 : tc_type_is_byte(type) ? TC_I32 : type;
}

// Whether the matmul reads its right operand as words: of four bytes along k, or of two bf16. It
// multiplies the latter as pairs, or one after the other where rows are few.
static bool of_words(const tc_graph *g, const tc_gnode *x) {
  const tc_gnode *a = &g->node[x->in[0]], *b = &g->node[x->in[1]];
  tc_extent3 of = {1, x->shape->d.dim[0], x->shape->d.dim[1], b->shape->d.dim[0]};
  bool bytes = x->type == TC_I32 && tc_tiling_bytes(&of, a->type, b->type);
  // Tile registers read panels of whole registers alone.
  if (tc_tiling_tmm(&of, x->type, a->type, b->type)) return tc_tiling_panel(of.n, type_of_sums(b->type)) >= TC_TMM_SIDE;
  return bytes || tc_tiling_pairs(&of, a->type, b->type) || tc_tiling_halves(&of, b->type);
}

// Columns of the right operand that lie in panels; 0: none. Where no panel divides them and rows
// are few, those of whole panels of the widest kind.
static int64_t columns_of(const tc_graph *g, const tc_gnode *x) {
  const tc_gnode *b = &g->node[x->in[1]];
  tc_type sums = type_of_sums(b->type);
  int64_t n = b->shape->d.dim[1], whole = n - n % WIDEST;
  if (tc_tiling_panel(n, sums)) return n;
  return x->shape->d.dim[0] <= FEW_ROWS && n >= JOINED_COLUMNS && tc_tiling_panel(whole, sums) ? whole : 0;
}

// Whether n is a leaf, or only views of one.
static bool is_leaf_viewed(const tc_graph *g, uint32_t n) {
  const tc_gnode *x = &g->node[n];
  while (x->leaf == TC_LEAF_NONE && tc_graph_is_view(x->op) && x->n_in == 1) x = &g->node[x->in[0]];
  return x->leaf != TC_LEAF_NONE;
}

// Whether panels suit the matmul's right operand, whatever that is made of.
static bool fits_panels(const tc_graph *g, const tc_gnode *x) {
  if (x->op != TC_OP_MATMUL || tc_device_kind_of(x->dev) != TC_DEVICE_KERNELS || x->shape->d.rank != 2) return false;
  const tc_gnode *b = &g->node[x->in[1]];
  bool fits = x->shape->d.dim[0] <= MOST_ROWS && b->shape->count >= LEAST_COUNT;
  fits = fits && !tc_in_matmul_prologue(g, x->in[1]);  // panels would be wide
  fits = fits && (b->type == TC_F32 || b->type == TC_F64 || of_words(g, x));
  return fits && columns_of(g, x) > 0;
}

// Finds how many matmuls read each node, if it is a leaf whose panels each run may make. False
// without memory.
static bool count_readers(const tc_graph *g, uint32_t *readers) {
  uint32_t n_needed, *needed = tc_graph_order(g, g->arena, &n_needed);
  for (uint32_t i = 0; needed && i < n_needed && n_needed != UINT32_MAX; i++) {
    const tc_gnode *x = &g->node[needed[i]];
    if (fits_panels(g, x) && x->shape->d.dim[0] >= LEAST_ROWS) readers[x->in[1]] += is_leaf_viewed(g, x->in[1]);
  }
  return needed != NULL;
}

// An operand's axes split into panels, the same in the order of memory, and the permutes between.
typedef struct way {
  tc_dims split, packed;
  uint64_t there, back;
} way;

// [k, n] viewed as [k, panels, lanes], in memory [panels, k, lanes]. Words of bf16 are viewed as
// [k / 2, 2, panels, lanes], in memory [panels, k / 2, lanes, 2]. Those of bytes have 4 for 2.
static way panel_layout_of(const tc_gnode *b) {
  int64_t k = b->shape->d.dim[0], n = b->shape->d.dim[1], lanes = tc_tiling_panel(n, type_of_sums(b->type));
  int64_t in_word = tc_type_is_byte(b->type) ? 4 : 2;
  if (b->type != TC_BF16 && !tc_type_is_byte(b->type))
    return (way){TC_SHAPE(k, n / lanes, lanes), TC_SHAPE(n / lanes, k, lanes), 0x020001, 0x020001};
  return (way){TC_SHAPE(k / in_word, in_word, n / lanes, lanes), TC_SHAPE(n / lanes, k / in_word, lanes, in_word),
               0x01030002, 0x02000301};
}

static uint32_t panels_of(tc_graph *g, uint32_t b) {
  tc_gnode like = g->node[b];
  way by = panel_layout_of(&like);
  b = tc_graph_add(g, &like, TC_OP_RESHAPE, &by.split, 1, &b, 0, 0);
  b = tc_graph_add(g, &like, TC_OP_PERMUTE, &by.packed, 1, &b, 1, by.there);
  if (b == TC_GNODE_NONE) return b;
  g->node[b].stored = true;
  b = tc_graph_add(g, &like, TC_OP_PERMUTE, &by.split, 1, &b, 1, by.back);
  return tc_graph_add(g, &like, TC_OP_RESHAPE, &like.shape->d, 1, &b, 0, 0);
}

static uint32_t some_columns(tc_graph *g, uint32_t b, int64_t from, int64_t to) {
  tc_gnode like = g->node[b];
  tc_dims d = TC_SHAPE(like.shape->d.dim[0], to - from);
  return to - from == like.shape->d.dim[1]
             ? b
             : tc_graph_add_with(g, &like, TC_OP_SLICE, &d, 1, &b, 4, (uint64_t[]){1, 1, 0, (uint64_t)from});
}

static uint32_t matmul_of(tc_graph *g, uint32_t n, uint32_t b) {
  tc_gnode like = g->node[n];
  tc_dims d = TC_SHAPE(like.shape->d.dim[0], g->node[b].shape->d.dim[1]);
  return tc_graph_add(g, &like, TC_OP_MATMUL, &d, 2, (uint32_t[]){like.in[0], b}, 0, 0);
}

// Matmul n becomes that of the panels, joined with that of the other columns. False without memory.
static bool join_columns(tc_graph *g, uint32_t n, uint32_t panels) {
  uint32_t b = g->node[n].in[1], rest = some_columns(g, b, g->node[panels].shape->d.dim[1], g->node[b].shape->d.dim[1]),
           in[2], joined;
  if (rest == TC_GNODE_NONE || (in[0] = matmul_of(g, n, panels)) == TC_GNODE_NONE ||
      (in[1] = matmul_of(g, n, rest)) == TC_GNODE_NONE)
    return false;
  tc_gnode like = g->node[n];
  if ((joined = tc_graph_add(g, &like, TC_OP_CAT, &like.shape->d, 2, in, 1, 1)) == TC_GNODE_NONE) return false;
  tc_gnode_become(&g->node[n], TC_OP_CAT, in[0], in[1], 2);
  g->node[n].attr = g->node[joined].attr, g->node[n].n_attr = 1;
  return true;
}

tc_status tc_pass_prepack_weights(tc_graph *g) {
  uint32_t n_nodes = g->n;
  bool each_run = has_history(g->plan);
  if (!tc_plan_prepares(g->plan) || (each_run && tc_plan_budget(g->plan))) return TC_OK;
  uint8_t *known = tc_arena_alloc(g->arena, n_nodes + 1);
  uint32_t *made = tc_arena_alloc(g->arena, (n_nodes + 1) * sizeof *made);  // per operand: its panels, or 0
  uint32_t *readers = tc_arena_alloc(g->arena, (n_nodes + 1) * sizeof *readers);
  if (!known || !made || !readers || (each_run && !count_readers(g, readers))) return tc_graph_no_memory(g);
  for (uint32_t n = 0; n < n_nodes; n++) {
    if (!fits_panels(g, &g->node[n])) continue;
    uint32_t b = g->node[n].in[1];
    if (each_run ? readers[b] < LEAST_READERS : !is_constant(g, b, known, 0)) continue;
    int64_t columns = columns_of(g, &g->node[n]);
    g->packs_few |= !each_run && g->node[n].shape->d.dim[0] <= FEW_ROWS;
    if (!made[b]) {
      uint32_t those = some_columns(g, b, 0, columns);
      if (those == TC_GNODE_NONE || (made[b] = panels_of(g, those)) == TC_GNODE_NONE) return tc_graph_no_memory(g);
      if (each_run) g->panel_bytes += (size_t)g->node[b].shape->count * tc_type_bytes(g->node[b].type);
    }
    if (columns == g->node[b].shape->d.dim[1])
      g->node[n].in[1] = made[b];
    else if (!join_columns(g, n, made[b]))
      return tc_graph_no_memory(g);
  }
  return TC_OK;
}
