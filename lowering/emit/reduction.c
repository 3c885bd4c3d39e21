// Kernels that fold, ROW and COL, and FLAT ones whose K is split.
//
//   for each row (ROW), or each block of lanes of K (COL):
//     for each depth d of folds:
//       what is one value a row and needs d folds
//       a pass over F: the folds over values that need d folds, and the stores of such values
//
// A value that several passes need is made again in each, or waits for the later ones in a tile:
// dear ones as long as a row of them is near, and in a cluster of blocks, which holds its row in
// registers, what is loaded, too.
#include <limits.h>

#include "lowering/tiling/summation.h"
#include "lowering/emit/accumulator.h"
#include "lowering/emit/emitters.h"
#include "lowering/target/cpu_target.h"
#include "lowering/target/host_cpu.h"
#include "runtime/options.h"
#include "runtime/topology.h"

// Of one row kept between passes: half of the first cache. Further away keeping it costs more than
// exp again with whole vectors of 64 bytes: cross entropy over rows of 200 KB takes 1.5 times as
// long with it, softmax over rows of 128 KB 1.4 times, but over rows of 4 KB it takes 0.8 times as
// long.
#define STASH_BYTES 16384
#define STASH_THREAD_BYTES 128  // the same of a GPU's thread, in registers
#define BF16_COST 7  // of rounding
#define NEAR_BYTES 262144  // of one row that is still near in its second pass
#define MAX_FOLDS 64  // in one pass
#define ROW_TURNS 8
#define CLUSTER_THREADS 512  // of a block: 128 registers each, of which what is held takes up to a half
#define CLUSTER_TURNS 8
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

// Nodes of depth d: folds are done when their depth is reached; a FULL value of depth d needs the
// folds of depth d.
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
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    uint32_t n = s->gp->member[i];
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

// Notes that pass p computes node n and what it is made of.
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

// With narrower vectors, or half a vector at a time, exp costs more, and a row may take half of the
// second cache. On a Zen 3 cross entropy over rows of 200 KB takes 0.75 times as long with it,
// softmax over rows of 32 KB and of 128 KB 0.82 times; on a Zen 4 0.97 and, of 128 KB, 0.86.
static int64_t stash_bytes(const tc_emit_ctx *s) {
  if (tc_target_is_gpu(s->target)) return (int64_t)s->x->kir.threads * STASH_THREAD_BYTES;
  bool dear = tc_compiler_vector_bytes() < 64 || tc_host_halves_vectors();
  return dear ? TC_MAX_OF((int64_t)tc_topology_get()->l2_bytes / 2, STASH_BYTES) : STASH_BYTES;
}

static bool is_in_several(const tc_emit_ctx *s, uint32_t n) {
  return (tc_emit_note_of(s, n)->passes & (tc_emit_note_of(s, n)->passes - 1)) != 0;
}

// Elements of a tile for a row.
static int64_t row_room(const tc_emit_ctx *s) {
  return tc_ceil_div(s->gp->f, s->lanes) * s->lanes;
}

// What a cluster holds of its row: operands as large as the rows that several passes read, beside
// the dear values that it keeps.
static void choose_held(tc_emit_ctx *s) {
  int n_kept = 0;
  int64_t row = row_room(s);
  for (uint32_t i = 0; i < s->gp->n_member; i++) n_kept += tc_emit_note_of(s, s->gp->member[i])->stash >= 0;
  for (uint32_t n = 0; n < s->g->n && s->held->n + n_kept < MAX_HELD; n++) {
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
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    uint32_t n = s->gp->member[i];
    if (is_fold(s, n)) note_pass(s, s->g->node[n].in[0], (uint8_t)(tc_emit_note_of(s, n)->fold_depth - 1));
    if (!is_fold(s, n) && is_full(s, n) && tc_emit_must_store(s, n)) note_pass(s, n, tc_emit_note_of(s, n)->fold_depth);
  }
}

// What making n again costs in a pass, from what is loaded or kept: on a processor also what it is
// made of, and rounding to bf16.
static double cost_again(const tc_emit_ctx *s, uint32_t n) {
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

// Dear values that several passes over a row read are kept in tiles, as long as a row fits a core's
// cache.
static void choose_stashes(tc_emit_ctx *s) {
  if (s->gp->kind != TC_FUSION_ROW) return;
  int64_t row = row_room(s);
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    uint32_t n = s->gp->member[i];
    tc_type type = tc_emit_compute_type(s->g->node[n].type);
    tc_emit_note *note = tc_emit_note_of(s, n);
    note->cost = cost_again(s, n);
    if (!is_in_several(s, n) || note->cost < EXPENSIVE_COST || row * (int64_t)tc_type_bytes(type) > stash_bytes(s))
      continue;
    note->stash = tc_emit_tile_of_lanes(s, type, row), note->stash_pass = (uint8_t)__builtin_ctzll(note->passes);
  }
}

// Which pass needs which value, and which values wait for later ones.
static void plan_passes(tc_emit_ctx *s) {
  find_depths(s);
  note_passes(s);
  choose_stashes(s);
  if (s->x->kir.cluster) choose_held(s);
}

// ---- passes ----

// One pass over F at the present row: folds whose operands have depth d, stores of FULL values of
// depth d.
static void pass_body(tc_emit_ctx *s, uint8_t d, tc_fold *folds, int n_folds) {
  // operands first: no deep recursion
  for (uint32_t i = 0; i < s->gp->n_member && s->gp->n_member > MAX_PATH / 2 && s->st == TC_OK; i++) {
    uint32_t n = s->gp->member[i];
    if (tc_emit_note_of(s, n)->passes >> d & 1) (void)tc_emit_member(s, n);
  }
  for (int i = 0; i < n_folds; i++) tc_fold_step(s, &folds[i]);
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    uint32_t n = s->gp->member[i];
    if (is_full(s, n) && tc_emit_note_of(s, n)->fold_depth == d && tc_emit_must_store(s, n)) tc_emit_store(s, n);
  }
}

static bool pass_has_work(const tc_emit_ctx *s, uint8_t d) {
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    uint32_t n = s->gp->member[i];
    if (is_fold(s, n) ? tc_emit_note_of(s, n)->fold_depth == d + 1
                      : is_full(s, n) && tc_emit_note_of(s, n)->fold_depth == d && tc_emit_must_store(s, n))
      return true;
  }
  return false;
}

static bool is_last_pass(const tc_emit_ctx *s, uint8_t d) {
  for (uint8_t p = (uint8_t)(d + 1); p <= deepest(s); p++)
    if (pass_has_work(s, p)) return false;
  return true;
}

// While the second pass works on a row that the first one brought into the cache, memory would
// wait: it asks for the next row. With it and with stores past the caches softmax over 4096x1024
// reaches 88 % of the bandwidth of a + b instead of 45, layer norm 101 instead of 58. Later passes
// ask for what the second did not, a tensor each: where the second asks for both that layer norm's
// gradient reads, that takes 1.1 times as long.
static int64_t row_ahead(const tc_emit_ctx *s, uint8_t d) {
  if (tc_target_is_gpu(s->target) || s->gp->kind != TC_FUSION_ROW || d < 1) return 0;
  return s->gp->f * (int64_t)sizeof(float) <= NEAR_BYTES ? TC_MAX_OF(s->gp->f, PREFETCH_DISTANCE) : PREFETCH_DISTANCE;
}

// Bytes that passes over a row work on: of what they read the present row and the next one, what is
// the same for all rows, values that wait in tiles.
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

// Whether the next row comes to the second-level cache: in the first one it would take the place of
// what passes still read. On a Zen 4 with 32 KiB of it, layer norm's gradient over 4096x1024 1.4 to
// 1.5 times as fast, from 64 % of the triad's bandwidth to 90; softmax and layer norm alone, of
// which it holds both rows, 0.9.
static bool asks_far(const tc_emit_ctx *s) {
  return s->hints.prefetch_distance >= s->gp->f && row_bytes(s) >= (int64_t)tc_topology_get()->l1_bytes;
}

// Whether sums along the row are several chains.
static bool in_chains(const tc_emit_ctx *s) {
  return s->gp->kind == TC_FUSION_ROW && s->gp->f > (int64_t)TC_FOLD_WHOLE * s->lanes && !tc_planted("chain");
}

static void end_chains(tc_emit_ctx *s, const tc_fold *folds, int n_folds) {
  for (int i = 0; i < n_folds; i++) tc_fold_end_chain(s, &folds[i]);
}

// Runs body over F with lanes along it (ROW) or one element at a time (COL).
static void over_f(tc_emit_ctx *s, uint8_t d, tc_fold *folds, int n_folds) {
  int64_t f = s->gp->f, whole = s->gp->kind == TC_FUSION_ROW ? f / s->lanes * s->lanes : f;
  int64_t step = s->gp->kind == TC_FUSION_ROW ? s->lanes : 1;
  bool chains = false;
  for (int i = 0; i < n_folds; i++) chains |= folds[i].total != TC_NONE;
  s->bound[TC_RANGE_F] = true;
  if (whole > 0) {
    tc_val from = tc_emit_i64(s, 0), to = tc_emit_i64(s, whole);
    if (chains) {
      from = tc_emit_loop(s, from, to, TC_FOLD_CHAIN * step);
      to = tc_build_bin(&s->e, TC_IR_MIN, tc_build_bin(&s->e, TC_IR_ADD, from, tc_emit_i64(s, TC_FOLD_CHAIN * step)),
                        to);
    }
    s->at[TC_RANGE_F] = tc_emit_loop(s, from, to, step);
    s->hints.stream = s->gp->kind == TC_FUSION_ROW && whole == f, s->hints.prefetch_distance = row_ahead(s, d),
    s->hints.n_prefetch = is_last_pass(s, d) ? INT_MAX : 1;
    s->hints.prefetch_far = asks_far(s);
    pass_body(s, d, folds, n_folds);
    s->hints.stream = false, s->hints.prefetch_distance = 0, s->hints.prefetch_far = false;
    tc_emit_end_loop(s);
    end_chains(s, folds, n_folds);
    if (chains) tc_emit_end_loop(s);
  }
  if (whole < f) {
    // A loop of one round, so that what it computes stays inside.
    s->at[TC_RANGE_F] = tc_emit_loop(s, tc_emit_i64(s, whole), tc_emit_i64(s, f), step);
    tc_emit_set_mask(s, s->at[TC_RANGE_F], tc_emit_i64(s, f));
    pass_body(s, d, folds, n_folds);
    s->mask = TC_NONE;
    tc_emit_end_loop(s);
    end_chains(s, folds, n_folds);
  }
  s->bound[TC_RANGE_F] = false;
}

// What is one value a row and has depth d is there before the pass that may read it.
static void reduced_values(tc_emit_ctx *s, uint8_t d) {
  int lanes = s->lanes, vector = s->vector;
  if (s->gp->kind == TC_FUSION_ROW) s->lanes = 1, s->vector = -1;
  for (uint32_t i = 0; i < s->gp->n_member && s->st == TC_OK; i++) {
    uint32_t n = s->gp->member[i];
    if (!is_full(s, n) && tc_emit_note_of(s, n)->fold_depth == d && !is_fold(s, n)) (void)tc_emit_member(s, n);
  }
  for (uint32_t i = 0; i < s->gp->n_member && s->st == TC_OK; i++) {
    uint32_t n = s->gp->member[i];
    if (!is_full(s, n) && !is_column(s, n) && tc_emit_note_of(s, n)->fold_depth == d && tc_emit_must_store(s, n))
      tc_emit_store(s, n);
  }
  s->lanes = lanes, s->vector = vector;
}

// The folds that pass d does; returns how many.
static int begin_folds(tc_emit_ctx *s, uint8_t d, tc_fold *folds) {
  int n_folds = 0;
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    uint32_t n = s->gp->member[i];
    if (!is_fold(s, n) || tc_emit_note_of(s, n)->fold_depth != d + 1) continue;
    if (n_folds == MAX_FOLDS) return (void)tc_emit_fail(s, TC_ERR_STATE, "too many folds in one pass"), 0;
    tc_fold_begin(s, &folds[n_folds++], n, in_chains(s));
  }
  return n_folds;
}

// The passes of one row (ROW) or one block of columns (COL), then what is left of the folds.
static void emit_row(tc_emit_ctx *s) {
  for (uint8_t d = 0; d <= deepest(s) && s->st == TC_OK; d++) {
    tc_fold folds[MAX_FOLDS];
    reduced_values(s, d);
    if (!pass_has_work(s, d)) continue;
    int n_folds = begin_folds(s, d, folds);
    if (s->st != TC_OK) return;
    over_f(s, d, folds, n_folds);
    for (uint32_t i = 0; i < s->gp->n_member; i++) {
      uint32_t n = s->gp->member[i];
      if (tc_emit_note_of(s, n)->stash >= 0 && tc_emit_note_of(s, n)->stash_pass == d)
        tc_emit_note_of(s, n)->stashed = true;
    }
    for (int i = 0; s->held && i < s->held->n; i++) s->held->row[i].there |= s->held->row[i].filled;
    for (int i = 0; i < n_folds; i++) tc_fold_end(s, &folds[i]);
  }
}

// ---- kernels ----

// Lanes along a row that is folded. On a GPU a row of more than a few vectors of 64 takes eight
// turns of longer ones, so that long rows have many threads and what a thread holds of a row fits
// its registers. By the extent alone: it is an order of summation.
static int lanes_of_row(const tc_emit_ctx *s, int64_t n) {
  int lanes = tc_emit_lanes_for(n), most = s->target->threads_most * TC_LANES_OF_THREAD;
  while (lanes < most && lanes * (int64_t)ROW_TURNS < n) lanes *= 2;
  return lanes;
}

// Blocks that a row is spread over, so that each thread holds its share in registers; 0: one.
static int cluster_of_row(const tc_emit_ctx *s) {
  int least = 2;
  if (s->gp->kind != TC_FUSION_ROW || !tc_target_clusters(s->target, s->gp->a, s->gp->f)) return 0;
  while (least < s->target->cluster &&
         least * (int64_t)(CLUSTER_THREADS * TC_LANES_OF_THREAD * CLUSTER_TURNS) < s->gp->f)
    least *= 2;
  return least;
}

// ---- columns, row by row ----

#define COLUMNS_BYTES 16384  // of what columns are so far: half of the first cache
#define LEAST_COLUMNS 1024
#define ROWS_AT_ONCE 4
// Where a processor reads whole rows best (host_cpu.h), each asking for the one so many further on,
// a register at a time: on a Zen 4 sums of 4096x4096 reach 1.01 of one over all at one thread and
// 1.04 at two, by two registers 0.96 and 0.92, by four 0.9, 4 rows by four without asking 0.7 to
// 0.8.
#define ROWS_SIDE_BY_SIDE 8

// How many columns a COL kernel folds at once, going over F row by row, what they are so far in
// tiles; 0: by blocks of lanes, in registers. Memory is read in order then: sums of 4096x4096 over
// rows reach 1.0 of the speed of one over all on a Zen 3, 0.84 by one row at a time, and 0.67 by
// blocks of lanes. Each column's order is the same.
static int64_t columns_at_once(const tc_emit_ctx *s) {
  int64_t columns = s->gp->k, bytes = 0;
  if (s->gp->kind != TC_FUSION_COLUMN || tc_target_is_gpu(s->target) || s->split || columns % LANES ||
      columns < LEAST_COLUMNS)
    return 0;
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    uint32_t n = s->gp->member[i];
    const tc_gnode *x = &s->g->node[n];
    // Before the folds no value of a column, which would be made again in each row.
    if (is_fold(s, n) ? tc_emit_note_of(s, n)->fold_depth != 1 || x->op == TC_OP_ARGMAX || x->op == TC_OP_ARGMIN
                      : is_full(s, n) == (tc_emit_note_of(s, n)->fold_depth > 0))
      return 0;
    // bools fold as I32
    if (is_fold(s, n)) bytes += TC_MAX_OF((int64_t)tc_type_bytes(tc_emit_compute_type(s->g->node[x->in[0]].type)), 4);
  }
  bool far = s->gp->f * columns * (int64_t)sizeof(float) > (int64_t)tc_topology_get()->l2_bytes;
  return far && columns * bytes <= COLUMNS_BYTES && s->gp->a >= tc_topology_get()->n_cores ? columns : 0;
}

// A loop over the columns by blocks of lanes.
static tc_val begin_columns(tc_emit_ctx *s, int64_t columns) {
  s->at[TC_RANGE_K] = tc_emit_loop(s, tc_emit_i64(s, 0), tc_emit_i64(s, columns), s->lanes);
  return s->at[TC_RANGE_K];
}

static tc_val load_sum(tc_emit_ctx *s, const tc_fold *f, int tile, tc_val at) {
  return tc_build_raw(&s->e, TC_IR_LOAD, f->type, s->lanes, at, TC_NONE, TC_NONE, tile);
}

static void store_sum(tc_emit_ctx *s, const tc_fold *f, int tile, tc_val at, tc_val v) {
  (void)tc_build_raw(&s->e, TC_IR_STORE, f->type, s->lanes, at, v, TC_NONE, tile);
}

static void rows_of_columns(tc_emit_ctx *s, int64_t columns) {
  tc_fold folds[MAX_FOLDS];
  bool wide = tc_host_reads_rows() && s->gp->f % ROWS_SIDE_BY_SIDE == 0;
  int tile[MAX_FOLDS], rows = wide ? ROWS_SIDE_BY_SIDE : s->gp->f % ROWS_AT_ONCE == 0 ? ROWS_AT_ONCE : 1;
  if (wide) s->lanes = TC_MIN(s->lanes, tc_compiler_vector_bytes() / (int)sizeof(float));
  tc_val at = begin_columns(s, columns);
  int n_folds = begin_folds(s, 0, folds);
  for (int i = 0; i < n_folds; i++)
    store_sum(s, &folds[i], tile[i] = tc_emit_tile_of_lanes(s, folds[i].type, columns), at, folds[i].acc);
  tc_emit_end_loop(s);
  s->bound[TC_RANGE_F] = true;
  tc_val first = tc_emit_loop(s, tc_emit_i64(s, 0), tc_emit_i64(s, s->gp->f), rows);
  at = begin_columns(s, columns);
  for (int i = 0; i < n_folds; i++) folds[i].acc = tc_build_var(&s->e, load_sum(s, &folds[i], tile[i], at));
  if (wide) s->hints.prefetch_distance = rows * columns, s->hints.prefetch_far = true, s->hints.n_prefetch = INT_MAX;
  for (int r = 0; r < rows; r++) {
    tc_emit_enter(s);
    s->at[TC_RANGE_F] = tc_build_bin(&s->e, TC_IR_ADD, first, tc_emit_i64(s, r));
    pass_body(s, 0, folds, n_folds);
    tc_emit_leave(s);
  }
  s->hints.prefetch_distance = 0, s->hints.prefetch_far = false;
  for (int i = 0; i < n_folds; i++) store_sum(s, &folds[i], tile[i], at, folds[i].acc);
  tc_emit_end_loop(s);
  tc_emit_end_loop(s);
  s->bound[TC_RANGE_F] = false;
  at = begin_columns(s, columns);
  for (int i = 0; i < n_folds; i++) {
    folds[i].acc = load_sum(s, &folds[i], tile[i], at);
    tc_fold_end(s, &folds[i]);
  }
  reduced_values(s, 1);
  tc_emit_end_loop(s);
}

void tc_emitter_reduction(tc_emit_ctx *s, const tc_build_request *r) {
  (void)r;
  bool along_f = s->gp->kind == TC_FUSION_ROW;
  int64_t inner = along_f ? 1 : s->split ? s->split : s->gp->k, k0 = s->split ? s->gp->k / s->split : 1;
  s->lanes = along_f                       ? lanes_of_row(s, s->gp->f)
             : tc_target_is_gpu(s->target) ? tc_emit_power_for(inner, GPU_COLUMN_LANES)
                                           : tc_emit_lanes_for(inner);
  int cluster = cluster_of_row(s);
  if (cluster) s->lanes = cluster * CLUSTER_THREADS * TC_LANES_OF_THREAD;
  tc_emit_set_threads(s, s->lanes);
  s->x->kir.cluster = (uint16_t)cluster;
  s->vector = along_f ? TC_RANGE_F : TC_RANGE_K;
  tc_held_rows held = {.n = 0};
  s->held = &held;
  plan_passes(s);
  int64_t at_once = columns_at_once(s), blocks = along_f || at_once ? 1 : tc_ceil_div(inner, s->lanes);
  tc_emit_preload(s);
  tc_emit_begin_rows(s, along_f ? 0 : inner, blocks, k0);
  if (at_once)
    rows_of_columns(s, at_once);
  else
    emit_row(s);
  tc_emit_end_loop(s);
  s->held = NULL;
  s->x->extent = s->gp->a * k0 * blocks;
}

// Over F, for every COLUMN member: its tile before the rows of a part, or its result after them, at
// their first row.
static void over_columns(tc_emit_ctx *s, bool end) {
  s->bound[TC_RANGE_F] = true;
  s->at[TC_RANGE_F] = tc_emit_loop(s, tc_emit_i64(s, 0), tc_emit_i64(s, s->gp->f), s->lanes);
  for (uint32_t i = 0; i < s->gp->n_member && s->st == TC_OK; i++) {
    uint32_t n = s->gp->member[i];
    const tc_gnode *x = &s->g->node[n];
    if (!is_column(s, n)) continue;
    tc_type type = tc_emit_compute_type(s->g->node[x->in[0]].type);
    if (!end) {
      tc_val none = tc_build_splat(&s->e, tc_fold_identity(s, x->op, type), s->lanes);
      (void)tc_build_raw(&s->e, TC_IR_STORE, type, s->lanes, s->at[TC_RANGE_F], none, TC_NONE,
                         tc_emit_note_of(s, n)->stash);
      continue;
    }
    tc_val sum = tc_build_raw(&s->e, TC_IR_LOAD, type, s->lanes, s->at[TC_RANGE_F], TC_NONE, TC_NONE,
                              tc_emit_note_of(s, n)->stash);
    tc_emit_remember(s, n, tc_emit_rounded(s, tc_build_cast(&s->e, sum, tc_emit_compute_type(x->type)), x->type));
    tc_emit_store(s, n);
  }
  tc_emit_end_loop(s);
  s->bound[TC_RANGE_F] = false;
}

void tc_emitter_reduction_parts(tc_emit_ctx *s, const tc_build_request *r) {
  (void)r;
  int64_t part = s->gp->part;
  s->lanes = tc_emit_lanes_for(s->gp->f), s->vector = TC_RANGE_F;
  plan_passes(s);
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    uint32_t n = s->gp->member[i];
    if (is_column(s, n))
      tc_emit_note_of(s, n)->stash =
          tc_emit_tile_of_lanes(s, tc_emit_compute_type(s->g->node[s->g->node[n].in[0]].type), s->gp->f);
  }
  tc_emit_preload(s);
  tc_val o = tc_emit_begin_units(s), first = tc_build_bin(&s->e, TC_IR_MUL, o, tc_emit_i64(s, part));
  s->at[TC_RANGE_K] = s->at[TC_RANGE_K0] = tc_emit_i64(s, 0);
  s->bound[TC_RANGE_A] = s->bound[TC_RANGE_K] = s->bound[TC_RANGE_K0] = true;
  over_columns(s, false);
  s->at[TC_RANGE_A] = tc_emit_loop(s, first, tc_build_bin(&s->e, TC_IR_ADD, first, tc_emit_i64(s, part)), 1);
  emit_row(s);
  tc_emit_end_loop(s);
  s->at[TC_RANGE_A] = first;
  over_columns(s, true);
  tc_emit_end_loop(s);
  s->x->extent = s->gp->a / part;
}
