// Emits the stores of the current iteration: a contiguous vector, a scatter, or the run of each GPU
// thread. Large results that are not read soon bypass the caches.
//
// Invariants: lanes that do not exist are not stored (`mask`).
#include "lowering/emit/shorthand.h"
#include "runtime/topology.h"

#define STREAM_BYTES (UINT64_C(16) << 20)  // of a result; smaller ones are stored faster through the caches
#define LATE_BYTES (UINT64_C(4) << 20)  // of a result that is evicted before it is read

bool tc_emit_must_store(const tc_emit_ctx *s, uint32_t n) {
  return s->gr->stored[n] && s->gr->alias[n] == n;
}

bool tc_emit_streams(const tc_emit_ctx *s, uint32_t n, uint64_t least) {
  const tc_gnode *x = &s->g->node[n];
  if (x->out == TC_LEAF_NONE || x->op == TC_OP_ASSIGN || (size_t)x->shape->count * tc_type_bytes(x->type) < least)
    return false;
  for (uint32_t i = 0; i < s->g->n_order; i++) {
    uint32_t m = s->g->order[i];
    for (int k = 0; k < s->g->node[m].n_in; k++)
      if (s->g->node[m].in[k] == n && !tc_emit_in_fusion(s, m)) return false;
  }
  return true;
}

static bool reads(const tc_emit_ctx *s, uint32_t m, uint32_t n) {
  for (int i = 0; i < s->g->node[m].n_in; i++)
    if (s->gr->alias[s->g->node[m].in[i]] == n) return true;
  return false;
}

// Returns whether n is large and evicted before another kernel reads it. The forward pass of a
// training step stores such activations for the backward pass. A store through the caches would
// first read its lines and evict others.
// Measured: Zen 4, GPT-2's first layer of a block with gelu (12.6 MB of such results) 1.2 times as
// fast, a training step 1.01 times.
static bool is_read_late(const tc_emit_ctx *s, uint32_t n) {
  size_t stored = 0, cache = TC_MAX_OF(tc_topology_get()->l2_bytes, tc_topology_get()->l3_bytes);
  const tc_gnode *node = s->g->node;
  if (node[n].op == TC_OP_ASSIGN || (size_t)node[n].shape->count * tc_type_bytes(node[n].type) < LATE_BYTES)
    return false;
  bool made = false;
  for (uint32_t i = 0; i < s->g->n_order; i++) {
    uint32_t m = s->g->order[i];
    made |= tc_emit_in_fusion(s, m);
    if (!made) continue;
    if (s->gr->alias[m] != n && !tc_emit_in_fusion(s, m) && reads(s, m, n)) return cache > 0 && stored > cache;
    if (tc_emit_must_store(s, m)) stored += (size_t)node[m].shape->count * tc_type_bytes(node[m].type);
  }
  return false;
}

static bool streams(const tc_emit_ctx *s, uint32_t n) {
  if (!s->hints.stream || (size_t)s->lanes * tc_type_bytes(s->g->node[n].type) % 64 != 0) return false;
  return tc_emit_streams(s, n, STREAM_BYTES) || is_read_late(s, n);
}

// Stores v to each thread's run of node n.
static void store_runs(tc_emit_ctx *s, uint32_t n, const tc_index *flat, tc_val v) {
  int lanes, buf = tc_emit_buffer(s, n);
  tc_type type = s->g->node[n].type;
  tc_val at = tc_emit_run_at(s, flat, TC_NONE, &lanes), mask = s->mask;
  int wanted = TC_MAX_OF(tc_build_lanes(&s->e, v), mask == TC_NONE ? 1 : tc_build_lanes(&s->e, mask));
  // one element, perhaps from one value: the mask leaves one thread
  if (lanes < wanted) lanes = wanted, at = splat(s, at, lanes);
  if (mask != TC_NONE) mask = splat(s, mask, tc_build_lanes(&s->e, at));
  s->x->writes |= UINT64_C(1) << buf;
  scatter(s, buf, at, cast(s, splat(s, v, lanes), type), mask);
}

void tc_emit_store(tc_emit_ctx *s, uint32_t n) {
  const tc_gnode *x = &s->g->node[n];
  tc_index flat = tc_view_flat(s->gp, (tc_level)s->gr->level[n]);
  int64_t stride;
  tc_val vec, v = tc_emit_member(s, n);
  if (s->st != TC_OK) return;
  tc_ix_simplify(&flat, &s->ext);
  if (s->threads.run) {
    store_runs(s, n, &flat, v);
    return;
  }
  int buf = tc_emit_buffer(s, n);
  tc_val base = tc_emit_index_value(s, flat, &stride, &vec);
  s->x->writes |= UINT64_C(1) << buf;
  if (stride != 0 || vec != TC_NONE) v = splat(s, v, s->lanes);
  v = cast(s, v, x->type);
  if (stride == 0 && vec == TC_NONE) {
    store(s, buf, base, v);
  } else if (stride == 1) {
    tc_val at = tc_build_raw(&s->e, TC_IR_STORE, x->type, s->lanes, base, v, s->mask, buf);
    if (s->mask == TC_NONE && !s->e.failed) s->x->kir.inst[at].flags = streams(s, n);
  } else {
    if (vec == TC_NONE) vec = times(s, tc_emit_lane_numbers(s), stride);
    vec = add(s, vec, base);
    scatter(s, buf, vec, v, s->mask);
  }
}

void tc_emit_stores(tc_emit_ctx *s) {
  // operands first, which avoids deep recursion
  for (uint32_t i = 0; i < s->gp->n_member && s->st == TC_OK; i++) (void)tc_emit_member(s, s->gp->member[i]);
  for (uint32_t i = 0; i < s->gp->n_member && s->st == TC_OK; i++)
    if (tc_emit_must_store(s, s->gp->member[i])) tc_emit_store(s, s->gp->member[i]);
}

void tc_emit_stores_of(tc_emit_ctx *s, uint32_t n, tc_val v) {
  tc_emit_enter(s);
  tc_emit_remember(s, n, v);
  tc_emit_stores(s);
  tc_emit_leave(s);
}
