// Emits the loads of the current iteration: a contiguous vector, a gather, or the run of each GPU
// thread. A strided load along K0 comes from the tile where its block was transposed.
//
// Invariants: an element that does not exist is masked, by the iteration's lanes (`mask`) or by
// padding around an operand (`cond`).
#include "lowering/emit/shorthand.h"
#include "lowering/target/cpu_target.h"

#define FAR_BYTES (INT64_C(1) << 20)  // of an operand; smaller ones stay in a core's cache

static tc_val both_masks(tc_emit_ctx *s, int lanes) {
  tc_val m = s->mask == TC_NONE || lanes == 1 ? TC_NONE : s->mask;
  if (s->cond == TC_NONE) return m;
  return tc_emit_both(s, m, splat(s, s->cond, lanes));
}

bool tc_emit_is_strided(const tc_gnode *x) {
  return x->shape->count * (int64_t)tc_type_bytes(x->type) >= FAR_BYTES;
}

// Prefetches the lines of node n that a later iteration loads with this instruction.
static void prefetch_ahead(tc_emit_ctx *s, uint32_t n, tc_val base, int buf) {
  const tc_gnode *x = &s->g->node[n];
  int64_t line = 64 / (int64_t)tc_type_bytes(x->type);
  if (!s->hints.prefetch_distance || !tc_emit_is_strided(x) || s->hints.n_prefetch == 0 || tc_emit_note_of(s, n)->asked)
    return;
  s->hints.n_prefetch--;
  tc_emit_note_of(s, n)->asked = s->vector == TC_RANGE_F;
  for (int64_t i = 0; i < s->lanes; i += line) {
    tc_val at = add_i64(s, base, s->hints.prefetch_distance + i);
    tc_build_prefetch(&s->e, buf, at, s->hints.prefetch_far);
  }
}

// Loads element `flat` of stored node n in each thread's run.
static tc_val load_runs(tc_emit_ctx *s, uint32_t n, const tc_index *flat) {
  tc_type type = s->g->node[n].type;
  tc_val mask = s->mask, v;
  int lanes;
  mask = tc_emit_both(s, mask, s->cond);
  tc_val at = tc_emit_run_at(s, flat, s->mask != TC_NONE && s->cond == TC_NONE ? TC_NONE : mask, &lanes);
  if (lanes > 1 && mask != TC_NONE) mask = splat(s, mask, tc_build_lanes(&s->e, at));
  if (lanes == 1 && s->cond != TC_NONE) at = select_val(s, s->cond, at, i64(s, 0));
  if (lanes == 1)
    v = load(s, tc_emit_buffer(s, n), type, 1, at, TC_NONE);
  else
    v = gather(s, tc_emit_buffer(s, n), type, lanes, at, mask);
  return cast(s, v, tc_emit_compute_type(type));
}

// ---- strided loads, transposed ----

int tc_emit_transposed_rows(const tc_emit_ctx *s, uint32_t n) {
  return tc_compiler_vector_bytes() / (int)tc_type_bytes(s->g->node[n].type);
}

// Returns whether consecutive K0 of a block of `rows` rows are contiguous in memory. One term then
// counts the rows; the others change only between blocks.
static bool counts_rows(const tc_emit_ctx *s, tc_index flat, int rows) {
  bool counts = false;
  if (!tc_emit_split_terms(s, &flat)) return false;
  for (int i = 0; i < flat.n; i++) {
    const tc_term *t = &flat.term[i];
    if (t->kind == TC_TERM_VALUE) return false;
    if (t->kind != TC_TERM_RANGE || t->range != TC_RANGE_K0 || t->div % rows == 0) continue;
    if (counts || t->div != 1 || t->coef != 1 || t->mod % rows) return false;
    counts = true;
  }
  return counts;
}

// Returns the tile of the load's transposed block, or -1. A kernel that does not transpose records
// the load.
static int transposed_tile(tc_emit_ctx *s, uint32_t n, const tc_index *flat) {
  tc_transposed_loads *t = s->transposed;
  if (!t) return -1;
  for (int i = 0; i < t->n; i++)
    if (t->load[i].node == n && tc_ix_equal(&t->load[i].flat, flat)) return t->rows ? t->load[i].tile : -1;
  int rows = tc_emit_transposed_rows(s, n);
  bool fits = tc_type_bytes(s->g->node[n].type) >= 4 && rows >= 4 && s->lanes >= rows &&
              s->gp->k / TC_MAX_OF(s->split, 1) >= rows;
  if (t->rows || s->cond != TC_NONE || !fits || t->n == MAX_TRANSPOSED) return -1;
  if (t->n && tc_emit_transposed_rows(s, t->load[0].node) != rows) return -1;
  if (counts_rows(s, *flat, rows)) t->load[t->n++] = (tc_transposed_load){n, *flat, -1};
  return -1;
}

// ---- one load ----

tc_val tc_emit_load(tc_emit_ctx *s, uint32_t n, tc_index flat) {
  tc_type type = s->g->node[n].type;
  int64_t stride;
  tc_val vec, v;
  int buf = tc_emit_buffer(s, n);
  tc_index want = tc_view_flat(s->gp, TC_LEVEL_FULL);
  tc_ix_simplify(&want, &s->ext);
  if (!tc_ix_equal(&flat, &want) || s->given.node != TC_NONE) s->x->same &= ~(UINT64_C(1) << buf);
  if (s->threads.run) return load_runs(s, n, &flat);
  tc_val base = tc_emit_index_value(s, flat, &stride, &vec);
  bool one = vec == TC_NONE && stride == 0, some = s->cond != TC_NONE;
  int tile = vec == TC_NONE && stride != 0 && stride != 1 ? transposed_tile(s, n, &flat) : -1;
  if (one && some && tc_build_lanes(&s->e, s->cond) > 1) {
    vec = splat(s, base, s->lanes);
    v = gather(s, buf, type, s->lanes, vec, both_masks(s, s->lanes));
  } else if (one) {  // one that may not exist: load the first instead; the caller discards it
    v = load(s, buf, type, 1, some ? select_val(s, s->cond, base, i64(s, 0)) : base, TC_NONE);
  } else if (vec == TC_NONE && stride == 1) {
    tc_val mask = both_masks(s, s->lanes);
    prefetch_ahead(s, n, base, buf);
    v = load(s, buf, type, s->lanes, base, mask);
  } else if (tile >= 0) {
    v = load(s, tile, type, s->lanes, mul(s, s->transposed->row, i64(s, s->lanes)), TC_NONE);
  } else {
    if (vec == TC_NONE) vec = times(s, tc_emit_lane_numbers(s), stride);
    int lanes = tc_build_lanes(&s->e, vec);
    v = gather(s, buf, type, lanes, add(s, vec, base), both_masks(s, lanes));
  }
  return cast(s, v, tc_emit_compute_type(type));
}
