// Loads and stores of the present iteration: by lane, side by side or apart, under masks, or in runs of a thread's own.
//
// Always: an element is masked where it does not exist, by the iteration's lanes (`mask`) or by padding around an operand (`cond`).
#include "lowering/emit/context.h"
#include "runtime/topology.h"

#define STREAM_BYTES (UINT64_C(16) << 20)  // of a result; smaller ones are written faster through the caches
#define LATE_BYTES (UINT64_C(4) << 20)  // of one that is read when they hold it no more
#define FAR_BYTES (INT64_C(1) << 20)  // of an operand; smaller ones are in a core's cache

static tc_val both_masks(tc_ex *s, int lanes) {
  tc_val m = s->mask == TC_NONE || lanes == 1 ? TC_NONE : s->mask;
  if (s->cond == TC_NONE) return m;
  tc_val c = tc_emit_splat(&s->e, s->cond, lanes);
  return m == TC_NONE ? c : tc_emit_bin(&s->e, TC_N_AND, m, c);
}

bool tc_ex_is_far(const tc_gnode *x) {
  return x->shape->count * (int64_t)tc_type_bytes(x->type) >= FAR_BYTES;
}

// Asks for the lines of node n that a later iteration will load from this place.
static void ask_ahead(tc_ex *s, uint32_t n, tc_val base, int buf) {
  const tc_gnode *x = &s->g->node[n];
  int64_t line = 64 / (int64_t)tc_type_bytes(x->type);
  if (!s->ahead || !tc_ex_is_far(x) || s->asks == 0 || tc_ex_note_of(s, n)->asked) return;
  s->asks--;
  tc_ex_note_of(s, n)->asked = s->vector == TC_RANGE_F;
  for (int64_t i = 0; i < s->lanes; i += line) {
    tc_val at = tc_emit_bin(&s->e, TC_N_ADD, base, tc_ex_i64(s, s->ahead + i));
    tc_emit_prefetch(&s->e, buf, at, s->far);
  }
}

// Where a thread's run of elements lies: one address a thread where they are side by side and aligned, else one an element.
static tc_val run_at(tc_ex *s, const tc_index *flat, tc_val mask, int *lanes) {
  int64_t stride;
  tc_val vec, at = tc_ex_index_value(s, *flat, &stride, &vec);
  if (vec != TC_NONE) at = tc_emit_bin(&s->e, TC_N_ADD, vec, at);
  int addresses = TC_MAX_OF(tc_emit_lanes(&s->e, at), mask == TC_NONE ? 1 : tc_emit_lanes(&s->e, mask)), threads = s->lanes / s->run;
  bool one = addresses <= threads && stride == 1 && tc_ex_run_of(flat, (uint8_t)s->vector, s->run) == s->run;
  if (stride && !one) at = tc_emit_bin(&s->e, TC_N_ADD, at, tc_ex_scaled(s, tc_ex_run_numbers(s), stride));
  *lanes = stride ? s->lanes : addresses;
  return tc_emit_splat(&s->e, at, one ? threads : *lanes);
}

// Element `flat` of stored node n, of every thread's run.
static tc_val load_runs(tc_ex *s, uint32_t n, const tc_index *flat) {
  tc_type type = s->g->node[n].type;
  tc_val mask = s->mask, v;
  int lanes;
  if (s->cond != TC_NONE) mask = mask == TC_NONE ? s->cond : tc_emit_bin(&s->e, TC_N_AND, mask, s->cond);
  tc_val at = run_at(s, flat, s->mask != TC_NONE && s->cond == TC_NONE ? TC_NONE : mask, &lanes);
  if (lanes > 1 && mask != TC_NONE) mask = tc_emit_splat(&s->e, mask, tc_emit_lanes(&s->e, at));
  if (lanes == 1 && s->cond != TC_NONE) at = tc_emit_select(&s->e, s->cond, at, tc_ex_i64(s, 0));
  if (lanes == 1)
    v = tc_emit_raw(&s->e, TC_N_LOAD, type, 1, at, TC_NONE, TC_NONE, tc_ex_buffer(s, n));
  else
    v = tc_emit_raw(&s->e, TC_N_GATHER, type, lanes, at, mask, TC_NONE, tc_ex_buffer(s, n));
  return tc_emit_cast(&s->e, v, tc_ex_compute_type(type));
}

tc_val tc_ex_load(tc_ex *s, uint32_t n, tc_index flat) {
  const tc_gnode *x = &s->g->node[n];
  int64_t stride;
  tc_val vec;
  int buf = tc_ex_buffer(s, n);
  tc_index want = tc_view_flat(s->gp, TC_LEVEL_FULL);
  tc_ix_simplify(&want, &s->ext);
  if (!tc_ix_equal(&flat, &want) || s->given_node != TC_NONE) s->x->same &= ~(UINT64_C(1) << buf);
  if (s->run) return load_runs(s, n, &flat);
  tc_val base = tc_ex_index_value(s, flat, &stride, &vec);
  tc_val v, mask;
  if (vec == TC_NONE && stride == 0) {
    if (s->cond != TC_NONE) {  // one element that may not be there: read the first instead, the caller discards it
      if (tc_emit_lanes(&s->e, s->cond) == 1) {
        base = tc_emit_select(&s->e, s->cond, base, tc_ex_i64(s, 0));
      } else {
        vec = tc_emit_splat(&s->e, base, s->lanes);
        return tc_emit_cast(&s->e, tc_emit_raw(&s->e, TC_N_GATHER, x->type, s->lanes, vec, both_masks(s, s->lanes), TC_NONE, buf),
                            tc_ex_compute_type(x->type));
      }
    }
    v = tc_emit_raw(&s->e, TC_N_LOAD, x->type, 1, base, TC_NONE, TC_NONE, buf);
  } else if (vec == TC_NONE && stride == 1) {
    mask = both_masks(s, s->lanes);
    ask_ahead(s, n, base, buf);
    v = tc_emit_raw(&s->e, TC_N_LOAD, x->type, s->lanes, base, mask, TC_NONE, buf);
  } else {
    int tile = vec == TC_NONE ? tc_ex_turned_tile(s, n, &flat) : -1;
    if (tile >= 0) {
      tc_val at = tc_emit_bin(&s->e, TC_N_MUL, s->turned_row, tc_ex_i64(s, s->lanes));
      return tc_emit_cast(&s->e, tc_emit_raw(&s->e, TC_N_LOAD, x->type, s->lanes, at, TC_NONE, TC_NONE, tile), tc_ex_compute_type(x->type));
    }
    if (vec == TC_NONE) vec = tc_ex_scaled(s, tc_ex_lane_numbers(s), stride);
    int lanes = tc_emit_lanes(&s->e, vec);
    mask = both_masks(s, lanes);
    v = tc_emit_raw(&s->e, TC_N_GATHER, x->type, lanes, tc_emit_bin(&s->e, TC_N_ADD, vec, base), mask, TC_NONE, buf);
  }
  return tc_emit_cast(&s->e, v, tc_ex_compute_type(x->type));
}

// ---- stores ----

bool tc_ex_must_store(const tc_ex *s, uint32_t n) {
  return s->gr->stored[n] && s->gr->alias[n] == n;
}

bool tc_ex_streams(const tc_ex *s, uint32_t n, uint64_t least) {
  const tc_gnode *x = &s->g->node[n];
  if (x->out == TC_LEAF_NONE || x->op == TC_OP_ASSIGN || (size_t)x->shape->count * tc_type_bytes(x->type) < least) return false;
  for (uint32_t i = 0; i < s->g->n_order; i++) {
    uint32_t m = s->g->order[i];
    for (int k = 0; k < s->g->node[m].n_in; k++)
      if (s->g->node[m].in[k] == n && !tc_ex_in_group(s, m)) return false;
  }
  return true;
}

static bool reads(const tc_ex *s, uint32_t m, uint32_t n) {
  for (int i = 0; i < s->g->node[m].n_in; i++)
    if (s->gr->alias[s->g->node[m].in[i]] == n) return true;
  return false;
}

// Whether n is large, and other kernels read it only after so much was stored that no cache holds it any more, as what the forward half of a step of
// training keeps for the other. Written through the caches, its lines would be read first and put others out: GPT-2's first layer of a block with its gelu,
// 12.6 MB of such results, took 1.2 times as long on a Zen 4, a step of training 1.01 times.
static bool is_read_late(const tc_ex *s, uint32_t n) {
  size_t stored = 0, cache = TC_MAX_OF(tc_topology_get()->l2_bytes, tc_topology_get()->l3_bytes);
  const tc_gnode *node = s->g->node;
  if (node[n].op == TC_OP_ASSIGN || (size_t)node[n].shape->count * tc_type_bytes(node[n].type) < LATE_BYTES) return false;
  bool made = false;
  for (uint32_t i = 0; i < s->g->n_order; i++) {
    uint32_t m = s->g->order[i];
    made |= tc_ex_in_group(s, m);
    if (!made) continue;
    if (s->gr->alias[m] != n && !tc_ex_in_group(s, m) && reads(s, m, n)) return cache > 0 && stored > cache;
    if (tc_ex_must_store(s, m)) stored += (size_t)node[m].shape->count * tc_type_bytes(node[m].type);
  }
  return false;
}

static bool streams(const tc_ex *s, uint32_t n) {
  if (!s->stream || (size_t)s->lanes * tc_type_bytes(s->g->node[n].type) % 64 != 0) return false;
  return tc_ex_streams(s, n, STREAM_BYTES) || is_read_late(s, n);
}

// v to every thread's run of node n.
static void store_runs(tc_ex *s, uint32_t n, const tc_index *flat, tc_val v) {
  int lanes, buf = tc_ex_buffer(s, n);
  tc_type type = s->g->node[n].type;
  tc_val at = run_at(s, flat, TC_NONE, &lanes), mask = s->mask;
  int wanted = TC_MAX_OF(tc_emit_lanes(&s->e, v), mask == TC_NONE ? 1 : tc_emit_lanes(&s->e, mask));
  if (lanes < wanted) lanes = wanted, at = tc_emit_splat(&s->e, at, lanes);  // one place, perhaps of one value: the mask leaves one thread
  if (mask != TC_NONE) mask = tc_emit_splat(&s->e, mask, tc_emit_lanes(&s->e, at));
  s->x->writes |= UINT64_C(1) << buf;
  (void)tc_emit_raw(&s->e, TC_N_SCATTER, type, lanes, at, tc_emit_cast(&s->e, tc_emit_splat(&s->e, v, lanes), type), mask, buf);
}

void tc_ex_store(tc_ex *s, uint32_t n) {
  const tc_gnode *x = &s->g->node[n];
  tc_index flat = tc_view_flat(s->gp, (tc_level)s->gr->level[n]);
  int64_t stride;
  tc_val vec, v = tc_ex_member(s, n);
  if (s->st != TC_OK) return;
  tc_ix_simplify(&flat, &s->ext);
  if (s->run) {
    store_runs(s, n, &flat, v);
    return;
  }
  int buf = tc_ex_buffer(s, n);
  tc_val base = tc_ex_index_value(s, flat, &stride, &vec);
  s->x->writes |= UINT64_C(1) << buf;
  if (stride != 0 || vec != TC_NONE) v = tc_emit_splat(&s->e, v, s->lanes);
  v = tc_emit_cast(&s->e, v, x->type);
  if (stride == 0 && vec == TC_NONE) {
    (void)tc_emit_raw(&s->e, TC_N_STORE, x->type, 1, base, v, TC_NONE, buf);
  } else if (stride == 1) {
    tc_val at = tc_emit_raw(&s->e, TC_N_STORE, x->type, s->lanes, base, v, s->mask, buf);
    if (s->mask == TC_NONE && !s->e.failed) s->x->nest.inst[at].flags = streams(s, n);
  } else {
    if (vec == TC_NONE) vec = tc_ex_scaled(s, tc_ex_lane_numbers(s), stride);
    vec = tc_emit_bin(&s->e, TC_N_ADD, vec, base);
    (void)tc_emit_raw(&s->e, TC_N_SCATTER, x->type, s->lanes, vec, v, s->mask, buf);
  }
}

void tc_ex_stores(tc_ex *s) {
  for (uint32_t i = 0; i < s->gp->n_member && s->st == TC_OK; i++) (void)tc_ex_member(s, s->gp->member[i]);  // operands first: no deep recursion
  for (uint32_t i = 0; i < s->gp->n_member && s->st == TC_OK; i++)
    if (tc_ex_must_store(s, s->gp->member[i])) tc_ex_store(s, s->gp->member[i]);
}
