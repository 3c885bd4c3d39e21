// Emits fusions with folds (reductions): along rows (ROW) or over columns (COLUMN).
//
//   for each row (ROW), or each block of lanes of K (COLUMN):
//     for each depth d of folds:
//       values that are one a row and need d folds
//       a pass over F: the folds over values that need d folds, and the stores of such values
//
// A value that several passes need is recomputed in each, or stored in a tile for the later ones.
// Expensive values are stored as long as a row of them stays in a near cache. A cluster of blocks
// also holds the rows that it loads, in registers.
#include <limits.h>

#include "lowering/emit/accumulator.h"
#include "lowering/emit/emitters.h"
#include "lowering/emit/shorthand.h"
#include "lowering/target/cpu_target.h"
#include "lowering/target/host_cpu.h"
#include "runtime/options.h"
#include "runtime/topology.h"

// Of one row stored between passes: half of the first-level cache. Storing longer rows costs more
// than computing exp again with vectors of 64 bytes.
// Measured, time without -> with, softmax: rows of 128 KB 1 -> 1.4, of 4 KB 1 -> 0.8.
// Cross entropy: rows of 200 KB 1 -> 1.5.
#define STASH_BYTES 16384
#define STASH_THREAD_BYTES 128  // the same for a GPU thread, in registers
#define BF16_COST 7  // cost of rounding to bf16, beside that of the op
#define NEAR_BYTES 262144  // of one row that is still cached in its second pass
#define STRIP_BYTES 128  // of a row that is worked on at a time, see choose_strips
#define HALVES_STRIP_BYTES 256  // the same with values of 16 bits, which are packed from longer vectors
#define MAX_FOLDS 64  // folds of one pass at most
#define ROW_ITERATIONS 8  // iterations that a GPU thread makes over a long row
#define CLUSTER_THREADS 512  // threads of a block: 128 registers each, of which held rows take at most half
#define CLUSTER_ITERATIONS 8  // iterations of a cluster's thread over its row
#define GPU_COLUMN_LANES 128

// ---- which pass needs what ----

static bool is_full(const tc_emit_ctx *s, uint32_t n) {
  return s->gr->level[n] == TC_LEVEL_FULL;
}

static bool is_fold(const tc_emit_ctx *s, uint32_t n) {
  return tc_op_kind_of(s->g->node[n].op) == TC_KIND_FOLD;
}

static bool is_column(const tc_emit_ctx *s, uint32_t n) {
  return s->gr->level[n] == TC_LEVEL_COLUMN;
}

// Returns the fold depth of n: the number of folds in sequence below it. A fold is complete when
// its depth is reached; a FULL value of depth d needs the folds of depth d.
static uint8_t depth_under(tc_emit_ctx *s, uint32_t n) {
  n = tc_fusion_root(s->gr, n);
  tc_emit_note *note = tc_emit_note_of(s, n);
  if (tc_emit_in_fusion(s, n) || s->gr->stored[n] || note->has_depth) return note->fold_depth;
  const tc_gnode *x = &s->g->node[n];
  uint8_t d = 0;
  for (int k = 0; k < x->n_in; k++) d = TC_MAX_OF(d, depth_under(s, x->in[k]));
  note->has_depth = true;
  return note->fold_depth = d;
}

static void find_depths(tc_emit_ctx *s) {
  for (uint32_t i = 0, n; tc_emit_next_member(s, &i, &n);) {
    const tc_gnode *x = &s->g->node[n];
    uint8_t d = 0;
    for (int k = 0; k < x->n_in; k++) d = TC_MAX_OF(d, depth_under(s, x->in[k]));
    tc_emit_note_of(s, n)->fold_depth = (uint8_t)(d + (tc_op_kind_of(x->op) == TC_KIND_FOLD));
  }
}

static uint8_t deepest(const tc_emit_ctx *s) {
  uint8_t d = 0;
  for (uint32_t i = 0; i < s->gp->n_member; i++) d = TC_MAX_OF(d, tc_emit_note_of(s, s->gp->member[i])->fold_depth);
  return d;
}

// Records that pass p computes node n and what it is computed from.
static void note_pass(tc_emit_ctx *s, uint32_t n, uint8_t p) {
  n = tc_fusion_root(s->gr, n);
  const tc_gnode *x = &s->g->node[n];
  bool ours = tc_emit_in_fusion(s, n);
  if (p > 63 || (tc_emit_note_of(s, n)->passes >> p & 1) ||
      (ours && (!is_full(s, n) || tc_op_kind_of(x->op) == TC_KIND_FOLD)))
    return;
  tc_emit_note_of(s, n)->passes |= UINT64_C(1) << p;
  if (!ours && s->gr->stored[n]) return;
  for (int k = 0; k < x->n_in; k++) note_pass(s, x->in[k], p);
}

// Returns the bytes of one row that may be stored. With narrower vectors, or vectors executed in
// halves, exp costs more, so a row may take half of the second-level cache.
// Measured, time, Zen 3: cross entropy over rows of 200 KB 1 -> 0.75, softmax over 32 and 128 KB
// 1 -> 0.82. Zen 4: cross entropy 1 -> 0.97, softmax over 128 KB 1 -> 0.86.
static int64_t stash_bytes(const tc_emit_ctx *s) {
  if (tc_target_is_gpu(s->target)) return (int64_t)s->x->kir.threads * STASH_THREAD_BYTES;
  bool expensive = tc_compiler_vector_bytes() < 64 || tc_host_halves_vectors();
  return expensive ? TC_MAX_OF((int64_t)tc_topology_get()->l2_bytes / 2, STASH_BYTES) : STASH_BYTES;
}

static bool is_in_several(const tc_emit_ctx *s, uint32_t n) {
  return (tc_emit_note_of(s, n)->passes & (tc_emit_note_of(s, n)->passes - 1)) != 0;
}

// Returns the elements of a tile that holds a row.
static int64_t row_elements(const tc_emit_ctx *s) {
  return tc_ceil_div(s->gp->f, s->lanes) * s->lanes;
}

// Chooses the operands whose rows a cluster holds: as large as the rows, and read by several
// passes. They share MAX_HELD with the expensive values that it stores.
static void choose_held(tc_emit_ctx *s) {
  int n_stashed = 0;
  int64_t row = row_elements(s);
  for (uint32_t i = 0; i < s->gp->n_member; i++) n_stashed += tc_emit_note_of(s, s->gp->member[i])->stash >= 0;
  for (uint32_t n = 0; n < s->g->n && s->held->n + n_stashed < MAX_HELD; n++) {
    if (s->notes->note[n].stamp != s->notes->stamp) continue;
    const tc_gnode *x = &s->g->node[n];
    tc_type type = tc_emit_compute_type(x->type);
    bool whole = tc_type_is_float(type) && x->shape->count == s->gp->a * s->gp->f,
         fits = row * (int64_t)tc_type_bytes(type) <= stash_bytes(s);
    if (!is_in_several(s, n) || !fits || !whole || tc_emit_in_fusion(s, n) || !s->gr->stored[n]) continue;
    s->held->row[s->held->n++] = (tc_held_row){.node = n, .tile = tc_emit_tile_of_lanes(s, type, row)};
  }
}

static void note_passes(tc_emit_ctx *s) {
  for (uint32_t i = 0, n; tc_emit_next_member(s, &i, &n);) {
    if (is_fold(s, n)) note_pass(s, s->g->node[n].in[0], (uint8_t)(tc_emit_note_of(s, n)->fold_depth - 1));
    if (!is_fold(s, n) && is_full(s, n) && tc_emit_must_store(s, n)) note_pass(s, n, tc_emit_note_of(s, n)->fold_depth);
  }
}

// Returns the cost of recomputing n in a pass, from what is loaded or stored. On a CPU it includes
// rounding to bf16, and the values that n is computed from.
static double recompute_cost(const tc_emit_ctx *s, uint32_t n) {
  const tc_gnode *x = &s->g->node[n];
  double sum = tc_build_cost(x->op, tc_emit_compute_type(x->type));
  if (tc_target_is_gpu(s->target)) return sum;
  if (x->type == TC_BF16 && sum > 0) sum += BF16_COST;
  for (int k = 0; k < x->n_in; k++) {
    uint32_t in = tc_fusion_root(s->gr, x->in[k]);
    if (tc_emit_in_fusion(s, in) && is_full(s, in) && !is_fold(s, in) && tc_emit_note_of(s, in)->stash < 0)
      sum += tc_emit_note_of(s, in)->cost;
  }
  return sum;
}

// Chooses the values that are stored in tiles: expensive ones that several passes read, as long as
// a row fits a core's cache.
static void choose_stashes(tc_emit_ctx *s) {
  if (s->gp->kind != TC_FUSION_ROW) return;
  int64_t row = row_elements(s);
  for (uint32_t i = 0, n; tc_emit_next_member(s, &i, &n);) {
    tc_type type = tc_emit_compute_type(s->g->node[n].type);
    tc_emit_note *note = tc_emit_note_of(s, n);
    note->cost = recompute_cost(s, n);
    if (!is_in_several(s, n) || note->cost < EXPENSIVE_COST || row * (int64_t)tc_type_bytes(type) > stash_bytes(s))
      continue;
    note->stash = tc_emit_tile_of_lanes(s, type, row), note->stash_pass = (uint8_t)__builtin_ctzll(note->passes);
  }
}

// Plans which pass needs which value, and which values are stored for later passes.
static void plan_passes(tc_emit_ctx *s) {
  find_depths(s);
  note_passes(s);
  choose_stashes(s);
  if (s->x->kir.cluster) choose_held(s);
}

// ---- passes ----

// Returns whether pass d stores n, a FULL value.
static bool is_stored_in(const tc_emit_ctx *s, uint32_t n, uint8_t d) {
  return is_full(s, n) && tc_emit_note_of(s, n)->fold_depth == d && tc_emit_must_store(s, n);
}

// Emits one iteration of a pass over F: folds whose operands have depth d, and stores of FULL
// values of depth d.
static void pass_body(tc_emit_ctx *s, uint8_t d, tc_fold *folds, int n_folds) {
  // operands first, which avoids deep recursion
  for (uint32_t i = 0, n; s->gp->n_member > MAX_PATH / 2 && s->st == TC_OK && tc_emit_next_member(s, &i, &n);) {
    if (tc_emit_note_of(s, n)->passes >> d & 1) (void)tc_emit_member(s, n);
  }
  for (int i = 0; i < n_folds; i++) tc_fold_step(s, &folds[i]);
  // a store may be over what another value is computed from
  for (uint32_t i = 0, n; s->st == TC_OK && tc_emit_next_member(s, &i, &n);)
    if (is_stored_in(s, n, d)) (void)tc_emit_member(s, n);
  for (uint32_t i = 0, n; tc_emit_next_member(s, &i, &n);)
    if (is_stored_in(s, n, d)) tc_emit_store(s, n);
}

static bool pass_has_work(const tc_emit_ctx *s, uint8_t d) {
  for (uint32_t i = 0, n; tc_emit_next_member(s, &i, &n);) {
    if (is_fold(s, n) ? tc_emit_note_of(s, n)->fold_depth == d + 1 : is_stored_in(s, n, d)) return true;
  }
  return false;
}

static bool is_last_pass(const tc_emit_ctx *s, uint8_t d) {
  for (uint8_t p = (uint8_t)(d + 1); p <= deepest(s); p++)
    if (pass_has_work(s, p)) return false;
  return true;
}

// Returns the prefetch distance of a pass. The second pass works on a row that the first one
// brought into the cache, so it prefetches the next row. Later passes prefetch what the second did
// not, one tensor each.
// Measured with streaming stores, softmax over 4096x1024, share of the bandwidth of a + b:
// 45 -> 88 %, layer norm 58 -> 101 %. More: docs/measurements.md.
static int64_t row_prefetch_distance(const tc_emit_ctx *s, uint8_t d) {
  if (tc_target_is_gpu(s->target) || s->gp->kind != TC_FUSION_ROW || d < 1) return 0;
  return s->gp->f * (int64_t)sizeof(float) <= NEAR_BYTES ? TC_MAX_OF(s->gp->f, PREFETCH_DISTANCE) : PREFETCH_DISTANCE;
}

// Returns the bytes that passes over a row work on. They are the current and next row of what the
// passes read, operands common to all rows, and stored values.
static int64_t row_bytes(const tc_emit_ctx *s) {
  int64_t bytes = 0;
  for (uint32_t i = 0, n_touched = s->notes->n_touched; i < n_touched; i++) {
    uint32_t n = s->notes->touched[i];
    const tc_gnode *x = &s->g->node[n];
    int64_t row = s->gp->f * (int64_t)tc_type_bytes(x->type);
    if (tc_emit_in_fusion(s, n))
      bytes += tc_emit_note_of(s, n)->stash >= 0 || (is_fold(s, n) && s->gr->level[n] == TC_LEVEL_COLUMN) ? row : 0;
    else if (tc_emit_note_of(s, n)->passes && s->gr->stored[n])
      bytes += x->shape->count == s->gp->f ? row : 2 * row;
  }
  return bytes;
}

// Returns whether the next row is prefetched into the second-level cache. In a small first-level
// cache it would evict what passes still read.
// Measured: Zen 4, 32 KiB, layer norm's gradient 64 -> 90 % of the triad's bandwidth. Where that
// cache holds both rows (softmax, layer norm): 1 -> 0.9 times as fast. More: docs/measurements.md.
static bool prefetches_into_l2(const tc_emit_ctx *s) {
  return s->hints.prefetch_distance >= s->gp->f && row_bytes(s) >= (int64_t)tc_topology_get()->l1_bytes;
}

// Returns whether sums along the row are several chains (tiling/summation.h).
static bool in_chains(const tc_emit_ctx *s) {
  int64_t lanes = s->lanes * s->strips;
  return s->gp->kind == TC_FUSION_ROW && s->gp->f > TC_FOLD_WHOLE * lanes && !tc_planted("chain");
}

// Emits one iteration of a pass over F, strip by strip. Each strip has its part of the folds. to:
// where the row ends; 0: the iteration is whole.
static void strips_body(tc_emit_ctx *s, uint8_t d, tc_fold *folds, int n_folds, int64_t to) {
  tc_val at = s->at[TC_RANGE_F];
  int n = n_folds / s->strips;
  for (int i = 0; i < s->strips; i++) {
    if (s->strips > 1) tc_emit_enter(s);
    if (i) s->at[TC_RANGE_F] = add_i64(s, at, i * s->lanes);
    if (to) tc_emit_set_mask(s, s->at[TC_RANGE_F], i64(s, to));
    pass_body(s, d, folds + i * n, n);
    if (to) s->mask = TC_NONE;
    if (s->strips > 1) tc_emit_leave(s);
  }
}

// Emits one pass over F, with lanes along it (ROW) or one element at a time (COLUMN).
static void over_f(tc_emit_ctx *s, uint8_t d, tc_fold *folds, int n_folds) {
  int64_t step = s->gp->kind == TC_FUSION_ROW ? s->lanes * s->strips : 1;
  int64_t f = s->gp->f, whole = f / step * step;
  bool chains = false;
  for (int i = 0; i < n_folds; i++) chains |= folds[i].total != TC_NONE;
  s->bound[TC_RANGE_F] = true;
  bool any = s->g->any_size && s->gp->kind == TC_FUSION_ROW;  // for many sizes both parts are there, and may be empty
  if (whole > 0 || any) {
    tc_val from = i64(s, 0), to = i64(s, whole);
    if (chains) {
      from = loop(s, from, to, TC_FOLD_CHAIN * step);
      to = least(s, add_i64(s, from, TC_FOLD_CHAIN * step), to);
    }
    s->at[TC_RANGE_F] = loop(s, from, to, step);
    s->hints.stream = s->gp->kind == TC_FUSION_ROW && whole == f && !any,
    s->hints.prefetch_distance = row_prefetch_distance(s, d), s->hints.n_prefetch = is_last_pass(s, d) ? INT_MAX : 1;
    s->hints.prefetch_far = prefetches_into_l2(s);
    strips_body(s, d, folds, n_folds, 0);
    s->hints.stream = false, s->hints.prefetch_distance = 0, s->hints.prefetch_far = false;
    end(s);
    for (int i = 0; i < n_folds; i++) tc_fold_end_chain(s, &folds[i]);
    if (chains) end(s);
  }
  if (whole < f || any) {
    // A loop of one iteration, so that values computed in it stay inside.
    s->at[TC_RANGE_F] = loop(s, i64(s, whole), i64(s, f), step);
    strips_body(s, d, folds, n_folds, f);
    end(s);
    for (int i = 0; i < n_folds; i++) tc_fold_end_chain(s, &folds[i]);
  }
  s->bound[TC_RANGE_F] = false;
}

// Computes the values that are one a row and have depth d, before the pass that may read them.
static void reduced_values(tc_emit_ctx *s, uint8_t d) {
  int lanes = s->lanes, vector = s->vector;
  if (s->gp->kind == TC_FUSION_ROW) s->lanes = 1, s->vector = -1;
  for (uint32_t i = 0, n; s->st == TC_OK && tc_emit_next_member(s, &i, &n);) {
    if (!is_full(s, n) && tc_emit_note_of(s, n)->fold_depth == d && !is_fold(s, n)) (void)tc_emit_member(s, n);
  }
  for (uint32_t i = 0, n; s->st == TC_OK && tc_emit_next_member(s, &i, &n);) {
    if (!is_full(s, n) && !is_column(s, n) && tc_emit_note_of(s, n)->fold_depth == d && tc_emit_must_store(s, n))
      tc_emit_store(s, n);
  }
  s->lanes = lanes, s->vector = vector;
}

// Creates the folds of pass d, for each strip; returns their number.
static int begin_folds(tc_emit_ctx *s, uint8_t d, tc_fold *folds) {
  int n_folds = 0;
  for (int strip = 0; strip < s->strips; strip++)
    for (uint32_t i = 0, n; tc_emit_next_member(s, &i, &n);) {
      if (!is_fold(s, n) || tc_emit_note_of(s, n)->fold_depth != d + 1) continue;
      if (n_folds == MAX_FOLDS) return (void)tc_emit_fail(s, TC_ERR_STATE, "too many folds in one pass"), 0;
      tc_fold_begin(s, &folds[n_folds++], n, in_chains(s));
    }
  return n_folds;
}

// Completes the folds. Those of strips are combined by halves first, as lanes are.
static void end_folds(tc_emit_ctx *s, tc_fold *folds, int n_folds) {
  int n = n_folds / s->strips;
  for (int half = s->strips / 2; half; half /= 2)
    for (int i = 0; i < half * n; i++) tc_fold_join(s, &folds[i], &folds[i + half * n]);
  for (int i = 0; i < n; i++) tc_fold_end(s, &folds[i]);
}

// Emits the passes of one row (ROW) or one block of columns (COLUMN), and completes the folds.
static void emit_row(tc_emit_ctx *s) {
  for (uint8_t d = 0; d <= deepest(s) && s->st == TC_OK; d++) {
    tc_fold folds[MAX_FOLDS];
    reduced_values(s, d);
    if (!pass_has_work(s, d)) continue;
    int n_folds = begin_folds(s, d, folds);
    if (s->st != TC_OK) return;
    over_f(s, d, folds, n_folds);
    for (uint32_t i = 0, n; tc_emit_next_member(s, &i, &n);) {
      if (tc_emit_note_of(s, n)->stash >= 0 && tc_emit_note_of(s, n)->stash_pass == d)
        tc_emit_note_of(s, n)->stashed = true;
    }
    for (int i = 0; s->held && i < s->held->n; i++) s->held->row[i].there |= s->held->row[i].filled;
    end_folds(s, folds, n_folds);
  }
}

// ---- kernels ----

// Returns the lanes along a folded row. On a GPU a row of more than a few vectors of 64 lanes has
// longer vectors, with eight iterations. Long rows then have many threads, and a thread's part of a
// row fits its registers. The lanes follow from the extent alone, since they are an order of
// summation.
static int lanes_of_row(const tc_emit_ctx *s, int64_t n) {
  int lanes = tc_emit_power_for(n, LANES), most = s->target->threads_most * TC_LANES_OF_THREAD;
  while (lanes < most && lanes * (int64_t)ROW_ITERATIONS < n) lanes *= 2;
  return lanes;
}

// Returns the blocks that a row is spread over, so that each thread holds its share in registers;
// 0: one.
static int cluster_of_row(const tc_emit_ctx *s) {
  int least = 2;
  if (s->gp->kind != TC_FUSION_ROW || !tc_target_clusters(s->target, s->gp->a, s->gp->f)) return 0;
  while (least < s->target->cluster &&
         least * (int64_t)(CLUSTER_THREADS * TC_LANES_OF_THREAD * CLUSTER_ITERATIONS) < s->gp->f)
    least *= 2;
  return least;
}

// ---- columns, row by row ----

#define COLUMNS_BYTES 16384  // of the accumulators of columns: half of the first-level cache
#define LEAST_COLUMNS 1024
#define ROWS_AT_ONCE 4
// Rows folded together where a processor reads whole rows best (host_cpu.h). The kernel works on
// one register at a time; each row prefetches the one that many rows further on.
// Measured: Zen 4, sums of 4096x4096 against a sum over all: 1.01 at 1 thread, 1.04 at 2; by two
// registers 0.96 and 0.92. More: docs/measurements.md.
#define ROWS_SIDE_BY_SIDE 8

// Returns how many columns a COLUMN kernel folds at once, row by row with accumulators in tiles; 0:
// by blocks of lanes, in registers. Memory is then read in order. Each column's order of summation
// is the same.
// Measured: Zen 3, sums of 4096x4096 over rows against one over all: 1.0, by one row at a time
// 0.84, by blocks of lanes 0.67.
static int64_t columns_at_once(const tc_emit_ctx *s) {
  int64_t columns = s->gp->k, bytes = 0;
  if (s->gp->kind != TC_FUSION_COLUMN || tc_target_is_gpu(s->target) || s->split || columns % LANES ||
      columns < LEAST_COLUMNS)
    return 0;
  for (uint32_t i = 0, n; tc_emit_next_member(s, &i, &n);) {
    const tc_gnode *x = &s->g->node[n];
    // A value of a column before the folds would be recomputed in each row.
    if (is_fold(s, n) ? tc_emit_note_of(s, n)->fold_depth != 1 || x->op == TC_OP_ARGMAX || x->op == TC_OP_ARGMIN
                      : is_full(s, n) == (tc_emit_note_of(s, n)->fold_depth > 0))
      return 0;
    // bools fold as I32
    if (is_fold(s, n)) bytes += TC_MAX_OF((int64_t)tc_type_bytes(tc_emit_compute_type(s->g->node[x->in[0]].type)), 4);
  }
  bool far = s->gp->f * columns * (int64_t)sizeof(float) > (int64_t)tc_topology_get()->l2_bytes;
  return far && columns * bytes <= COLUMNS_BYTES && s->gp->a >= tc_topology_get()->n_cores ? columns : 0;
}

// Begins a loop over the columns by blocks of lanes.
static tc_val begin_columns(tc_emit_ctx *s, int64_t columns) {
  s->at[TC_RANGE_K] = loop_to(s, i64(s, columns), s->lanes);
  return s->at[TC_RANGE_K];
}

static void rows_of_columns(tc_emit_ctx *s, int64_t columns) {
  tc_fold folds[MAX_FOLDS];
  bool wide = tc_host_reads_rows() && s->gp->f % ROWS_SIDE_BY_SIDE == 0;
  int tile[MAX_FOLDS], rows = wide ? ROWS_SIDE_BY_SIDE : s->gp->f % ROWS_AT_ONCE == 0 ? ROWS_AT_ONCE : 1;
  if (wide) s->lanes = TC_MIN(s->lanes, tc_compiler_vector_bytes() / (int)sizeof(float));
  tc_val at = begin_columns(s, columns);
  int n_folds = begin_folds(s, 0, folds);
  for (int i = 0; i < n_folds; i++)
    store(s, tile[i] = tc_emit_tile_of_lanes(s, folds[i].type, columns), at, folds[i].acc);
  end(s);
  s->bound[TC_RANGE_F] = true;
  tc_val first = loop_to(s, i64(s, s->gp->f), rows);
  at = begin_columns(s, columns);
  for (int i = 0; i < n_folds; i++) folds[i].acc = var(s, load(s, tile[i], folds[i].type, s->lanes, at, TC_NONE));
  if (wide) s->hints.prefetch_distance = rows * columns, s->hints.prefetch_far = true, s->hints.n_prefetch = INT_MAX;
  for (int r = 0; r < rows; r++) {
    tc_emit_enter(s);
    s->at[TC_RANGE_F] = add_i64(s, first, r);
    pass_body(s, 0, folds, n_folds);
    tc_emit_leave(s);
  }
  s->hints.prefetch_distance = 0, s->hints.prefetch_far = false;
  for (int i = 0; i < n_folds; i++) store(s, tile[i], at, folds[i].acc);
  end(s);
  end(s);
  s->bound[TC_RANGE_F] = false;
  at = begin_columns(s, columns);
  for (int i = 0; i < n_folds; i++) {
    folds[i].acc = load(s, tile[i], folds[i].type, s->lanes, at, TC_NONE);
    tc_fold_end(s, &folds[i]);
  }
  reduced_values(s, 1);
  end(s);
}

// Returns whether a result may be written over an operand that is read at the same positions. All
// of a row is read in one pass, and an element before any result of its position is stored.
static bool may_write_over(const tc_emit_ctx *s) {
  int n_passes = 0;
  for (uint8_t d = 0; d <= deepest(s); d++) n_passes += pass_has_work(s, d);
  return s->gp->kind == TC_FUSION_ROW && s->gp->f > 1 && n_passes == 1 && !tc_target_is_gpu(s->target);
}

// Divides the lanes of a row that is read in one pass and also stored. A whole block of several
// tensors at a time defeats the processor's prefetches and store forwarding.
// Measured: Zen 5, 1 thread, three updates of 8 MB each and a dot, in f64. Blocks of 512 bytes take
// 1.0 ms, of 256 and less 0.6 ms.
// Adam's update of 16 MB and a sum of squares, 2 threads, time against two kernels. In f32 256
// bytes 1.07, 128 bytes 0.98; in bf16 256 bytes 0.92, 128 bytes 1.04.
// Interpreted, the more and shorter steps would take twice as long.
static void choose_strips(tc_emit_ctx *s) {
  size_t widest = 1, most = STRIP_BYTES;
  int n_folds = 0;
  bool stores = false, is_plain = true;
  for (uint32_t i = 0, n; tc_emit_next_member(s, &i, &n);) {
    tc_op op = s->g->node[n].op;
    is_plain = is_plain && op != TC_OP_ARGMAX && op != TC_OP_ARGMIN;
    stores = stores || is_stored_in(s, n, 0);
    n_folds += is_fold(s, n);
    widest = TC_MAX_OF(widest, tc_type_bytes(tc_emit_compute_type(s->g->node[n].type)));
    if (tc_type_is_half(s->g->node[n].type)) most = HALVES_STRIP_BYTES;
  }
  if (!may_write_over(s) || !stores || !is_plain || tc_compiler_interprets()) return;
  for (; (size_t)s->lanes * widest > most && 2 * s->strips * n_folds <= MAX_FOLDS; s->strips *= 2) s->lanes /= 2;
}

void tc_emitter_reduction(tc_emit_ctx *s) {
  bool along_f = s->gp->kind == TC_FUSION_ROW;
  int64_t inner = along_f ? 1 : s->split ? s->split : s->gp->k, k0 = s->split ? s->gp->k / s->split : 1;
  s->lanes = along_f                       ? lanes_of_row(s, s->gp->f)
             : tc_target_is_gpu(s->target) ? tc_emit_power_for(inner, GPU_COLUMN_LANES)
                                           : tc_emit_power_for(inner, LANES);
  int cluster = cluster_of_row(s);
  if (cluster) s->lanes = cluster * CLUSTER_THREADS * TC_LANES_OF_THREAD;
  tc_emit_set_threads(s, s->lanes);
  s->x->kir.cluster = (uint16_t)cluster;
  s->vector = along_f ? TC_RANGE_F : TC_RANGE_K;
  tc_held_rows held = {.n = 0};
  s->held = &held;
  plan_passes(s);
  choose_strips(s);
  int64_t at_once = columns_at_once(s), blocks = along_f || at_once ? 1 : tc_ceil_div(inner, s->lanes);
  tc_emit_preload(s);
  tc_emit_begin_rows(s, along_f ? 0 : inner, blocks, k0);
  if (at_once)
    rows_of_columns(s, at_once);
  else
    emit_row(s);
  end(s);
  s->held = NULL;
  if (!may_write_over(s)) s->x->same = 0;
  s->x->extent = s->gp->a * k0 * blocks;
}

// Over F, for each COLUMN node: initializes its tile before the rows of a part, or stores its
// result after them.
static void over_columns(tc_emit_ctx *s, bool after) {
  s->bound[TC_RANGE_F] = true;
  s->at[TC_RANGE_F] = loop_to(s, i64(s, s->gp->f), s->lanes);
  for (uint32_t i = 0, n; s->st == TC_OK && tc_emit_next_member(s, &i, &n);) {
    const tc_gnode *x = &s->g->node[n];
    if (!is_column(s, n)) continue;
    tc_type type = tc_emit_compute_type(s->g->node[x->in[0]].type);
    if (!after) {
      tc_val none = splat(s, tc_fold_identity(s, x->op, type), s->lanes);
      store(s, tc_emit_note_of(s, n)->stash, s->at[TC_RANGE_F], none);
      continue;
    }
    tc_val sum = load(s, tc_emit_note_of(s, n)->stash, type, s->lanes, s->at[TC_RANGE_F], TC_NONE);
    tc_emit_remember(s, n, tc_emit_rounded(s, cast(s, sum, tc_emit_compute_type(x->type)), x->type));
    tc_emit_store(s, n);
  }
  end(s);
  s->bound[TC_RANGE_F] = false;
}

void tc_emitter_reduction_parts(tc_emit_ctx *s) {
  int64_t part = s->gp->part;
  s->lanes = tc_emit_power_for(s->gp->f, LANES), s->vector = TC_RANGE_F;
  plan_passes(s);
  for (uint32_t i = 0, n; tc_emit_next_member(s, &i, &n);) {
    if (is_column(s, n))
      tc_emit_note_of(s, n)->stash =
          tc_emit_tile_of_lanes(s, tc_emit_compute_type(s->g->node[s->g->node[n].in[0]].type), s->gp->f);
  }
  tc_emit_preload(s);
  tc_val o = tc_emit_begin_units(s), first = mul(s, o, i64(s, part));
  s->at[TC_RANGE_K] = s->at[TC_RANGE_K0] = i64(s, 0);
  s->bound[TC_RANGE_A] = s->bound[TC_RANGE_K] = s->bound[TC_RANGE_K0] = true;
  over_columns(s, false);
  s->at[TC_RANGE_A] = loop(s, first, add_i64(s, first, part), 1);
  emit_row(s);
  end(s);
  s->at[TC_RANGE_A] = first;
  over_columns(s, true);
  end(s);
  s->x->same = 0;
  s->x->extent = s->gp->a / part;
}
