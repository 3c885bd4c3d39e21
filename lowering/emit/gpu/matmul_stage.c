// Finds the operands of a GPU's matmul, and stages them in shared memory tile by tile.
//
// A tile is `size` lines by `steps` steps of k. Each thread moves runs of elements that are
// adjacent in memory, along k or across lines. Runs are wide accesses. An operand that is in memory
// with aligned rows is copied asynchronously while earlier tiles are multiplied. Every other
// expression (casts, scaled weights, windows, permutations) is computed in registers and stored.
// Invariants: a run is aligned to its length, and all or none of it exists. What does not exist is
// zero.
#include "lowering/emit/gpu/matmul_common.h"

#include <string.h>

#define DEEPEST 24  // most nodes on the way to memory
#define WIDEST 8  // most elements of a run

// Goes one step from element idx of node *n towards memory, to the operand with the most elements.
// False: there is none.
static bool descend(const tc_gemm *p, uint32_t *n, tc_index *idx) {
  const tc_emit_ctx *s = p->s;
  const tc_gnode *x = &s->g->node[*n];
  tc_index next[TC_MAX_RANK];
  int k = 0;
  tc_op_kind kind = tc_op_kind_of(x->op);
  if (x->op == TC_OP_PAD) {
    for (int i = 0; i < x->shape->d.rank; i++) idx[i].base -= (int64_t)x->attr[i];
    return *n = x->in[0], true;
  }
  if (x->op == TC_OP_CAT || x->op == TC_OP_WRITE_SLICE ||
      (kind != TC_KIND_ELEM && kind != TC_KIND_MOVE && kind != TC_KIND_EFFECT))
    return false;
  for (int i = 1; i < x->n_in && kind == TC_KIND_ELEM; i++)
    if (s->g->node[x->in[i]].shape->count > s->g->node[x->in[k]].shape->count) k = i;
  if (!tc_view_operand(s->g, *n, k, idx, &s->ext, next)) return false;
  memcpy(idx, next, sizeof next);
  return *n = x->in[k], true;
}

static bool stored(const tc_emit_ctx *s, uint32_t n) {
  return s->gr->stored[tc_fusion_root(s->gr, n)];
}

static void find_lean(const tc_gemm *p, tc_gemm_side *x) {
  uint32_t n = x->node;
  tc_index idx[TC_MAX_RANK];
  memcpy(idx, x->position, sizeof idx);
  x->leans = true;
  for (int i = 0; i < DEEPEST && !stored(p->s, n) && x->leans; i++) x->leans = descend(p, &n, idx);
  const tc_gnode *y = &p->s->g->node[n];
  x->leans = x->leans && stored(p->s, n) && tc_ix_flatten(idx, &y->shape->d, &p->s->ext, &x->lean);
  x->bytes = (int)tc_type_bytes(y->type);
}

// Records the bounds of idx within which elements of the padded node exist.
static bool note_conds(const tc_gemm *p, tc_gemm_side *x, const tc_gnode *pad, const tc_index *idx) {
  const tc_dims *from = &p->s->g->node[pad->in[0]].shape->d;
  for (int i = 0; i < from->rank; i++) {
    bool low = pad->attr[i] > 0, high = pad->attr[from->rank + i] > 0;
    if (!low && !high) continue;
    if (x->n_cond == TC_GEMM_CONDS) return false;
    x->cond[x->n_cond].at = idx[i], x->cond[x->n_cond].extent = from->dim[i];
    x->cond[x->n_cond].at.base -= (int64_t)pad->attr[i];
    x->cond[x->n_cond].low = low, x->cond[x->n_cond++].high = high;
  }
  return true;
}

// Whether the operand is in memory, seen through views and zero padding that lowering added.
static bool find_plain(const tc_gemm *p, tc_gemm_side *x) {
  uint32_t n = x->node;
  tc_index idx[TC_MAX_RANK];
  memcpy(idx, x->position, sizeof idx);
  for (int i = 0; i < DEEPEST && !stored(p->s, n); i++) {
    const tc_gnode *y = &p->s->g->node[n];
    bool pads = y->op == TC_OP_PAD && y->n_arg == 0;
    if (!pads && (y->op == TC_OP_PAD || tc_op_kind_of(y->op) == TC_KIND_ELEM)) return false;
    if (pads && !note_conds(p, x, y, idx)) return false;
    if (!descend(p, &n, idx)) return false;
  }
  x->source = n;
  return stored(p->s, n) && tc_ix_flatten(idx, &p->s->g->node[n].shape->d, &p->s->ext, &x->flat);
}

bool tc_gemm_side_find(tc_gemm *p, int k, tc_gemm_side *x) {
  tc_emit_ctx *s = p->s;
  const tc_dims *d = &s->g->node[p->node].shape->d;
  *x = (tc_gemm_side){
      .node = s->g->node[p->node].in[k], .range = k ? TC_RANGE_K : TC_RANGE_F, .extent = k ? p->of.n : p->of.m};
  if (!tc_view_position(s->gp, &s->ext, TC_LEVEL_FULL, d, x->position))
    return tc_emit_not_affine(s, p->node, "a position is not affine"), false;
  x->position[d->rank - 2] = tc_ix_range(k ? TC_RANGE_K0 : TC_RANGE_F);
  x->position[d->rank - 1] = tc_ix_range(k ? TC_RANGE_K : TC_RANGE_K0);
  find_lean(p, x);
  x->plain = find_plain(p, x);
  return true;
}

// ---- planning ----

static int run_along(const tc_gemm_side *x, uint8_t range, int64_t extent, int most) {
  int run = x->leans ? tc_emit_run_of(&x->lean, range, most) : 1;
  while (extent % run) run /= 2;
  return run;
}

int64_t tc_gemm_stride_of(const tc_index *x, uint8_t range) {
  int64_t stride = INT64_MAX;
  for (int i = 0; i < x->n; i++) {
    const tc_term *t = &x->term[i];
    if (t->kind == TC_TERM_RANGE && t->range == range && t->div == 1 && t->coef > 0) stride = TC_MIN(stride, t->coef);
  }
  return stride;
}

// Whether the bounds of existence are the same for all elements of a run.
static bool conds_hold(const tc_gemm_side *x, uint8_t range) {
  for (int c = 0; c < x->n_cond; c++)
    for (int i = 0; i < x->cond[c].at.n; i++) {
      const tc_term *t = &x->cond[c].at.term[i];
      if (t->kind == TC_TERM_RANGE && t->range == range && t->div % x->run) return false;
    }
  return true;
}

static int groups_of(const tc_gemm *p, const tc_gemm_side *x) {
  return x->size * p->by.steps / x->run;
}

static int pieces_of(const tc_gemm *p, const tc_gemm_side *x) {
  return (int)tc_ceil_div(groups_of(p, x), p->threads);
}

// Padding after a tile's row, in elements, so that neighbouring rows begin in different banks.
static int pad_of(const tc_gemm *p, const tc_gemm_side *x) {
  switch (p->way) {
    case TC_GEMM_MMA: return 0;
    case TC_GEMM_MFMA: return TC_GEMM_MFMA_PAD;
    case TC_GEMM_WGMMA:
    case TC_GEMM_SIMT: break;
  }
  return TC_MAX_OF(TC_GEMM_COPIED / (int)tc_type_bytes(p->acc), x->along ? 1 : x->run);
}

// Plans how the operand is staged, its tile included: `size` lines of the tiling's steps.
static void plan_side(tc_gemm *p, tc_gemm_side *x, int size) {
  tc_type type = p->way == TC_GEMM_SIMT ? p->acc : tc_gemm_type_of(p, x);
  const tc_gnode *y = &p->s->g->node[x->plain ? x->source : x->node];
  x->size = size, x->type = type, x->stages = 2, x->swizzled = p->way == TC_GEMM_MMA;
  int each = TC_MAX_OF(size * p->by.steps / p->threads, 1), widest = x->leans ? TC_GEMM_COPIED / x->bytes : 1;
  int whole = TC_MIN(widest, WIDEST), most = TC_MIN(whole, each);
  int by_k = run_along(x, TC_RANGE_K0, p->of.k, whole), by_line = run_along(x, x->range, x->extent, whole);
  x->along = by_k > by_line || (by_k == by_line && x->leans &&
                                tc_gemm_stride_of(&x->lean, TC_RANGE_K0) < tc_gemm_stride_of(&x->lean, x->range));
  x->run = x->along ? by_k : by_line;
  uint8_t range = x->along ? TC_RANGE_K0 : x->range;
  x->copied = p->way == TC_GEMM_MMA && x->plain && y->type == type &&
              x->run * (int)tc_type_bytes(type) == TC_GEMM_COPIED && conds_hold(x, range);
  if (!x->copied) x->run = TC_MIN(x->run, most);
  // Elements that are stored one by one are stored in the order in which fragments are read whole.
  x->by_line = (p->way == TC_GEMM_MMA && x->along) || (p->way == TC_GEMM_MFMA && (x->along || x->run == 1));
  x->row = (x->by_line ? p->by.steps : size) + pad_of(p, x);
  x->stage = x->row * (x->by_line ? size : p->by.steps);
  if (x->copied) x->stage = TC_MAX_OF(x->stage, (int64_t)pieces_of(p, x) * p->threads * x->run);
}

bool tc_gemm_plan(tc_gemm *p, const tc_gpu_gemm_tiling *tiling, int n) {
  if (!tc_gemm_choose(p, tiling, n)) return false;
  plan_side(p, &p->a, p->by.rows);
  plan_side(p, &p->b, p->by.columns);
  return true;
}

// Where chunk c of a row of a swizzled tile lies.
static tc_val swizzled(tc_gemm *p, const tc_gemm_side *x, tc_val row, tc_val c) {
  // rows that lie in the same 128 bytes
  int chunks = (int)x->row / 8, together = TC_MAX_OF(8 / chunks, 1);
  return bin(p->s, TC_IR_XOR, c, tc_gemm_low(p->s, tc_gemm_high(p->s, row, together), TC_MIN(chunks, 8)));
}

tc_val tc_gemm_side_place(tc_gemm *p, const tc_gemm_side *x, tc_val line, tc_val k) {
  tc_emit_ctx *s = p->s;
  tc_val row = x->by_line ? line : k, in = x->by_line ? k : line;
  if (!x->swizzled) return add(s, times(s, row, x->row), in);
  tc_val chunk = swizzled(p, x, row, tc_gemm_high(s, in, 8));
  return add(s, add(s, times(s, row, x->row), times(s, chunk, 8)), tc_gemm_low(s, in, 8));
}

// ---- pieces: a run a thread ----

typedef struct piece {
  tc_val line, k;  // the first element of the thread's run
  tc_val here;  // threads that have a run; TC_NONE: all
} piece;

static piece piece_of(tc_gemm *p, const tc_gemm_side *x, int i) {
  tc_emit_ctx *s = p->s;
  tc_val number = i ? add_i64(s, p->thread, (int64_t)i * p->threads) : p->thread;
  int64_t runs = (x->along ? p->by.steps : x->size) / x->run;
  tc_val in = times(s, tc_gemm_low(s, number, runs), x->run), over = tc_gemm_high(s, number, runs);
  bool some = groups_of(p, x) % p->threads;
  return (piece){x->along ? over : in, x->along ? in : over,
                 some ? bin(s, TC_IR_LT, number, i64(s, groups_of(p, x))) : TC_NONE};
}

// Puts every thread at its run of piece i.
static void enter(tc_gemm *p, const tc_gemm_side *x, int i, tc_val k0, bool may_end) {
  tc_emit_ctx *s = p->s;
  piece at = piece_of(p, x, i);
  s->threads.run = x->run, s->lanes = p->threads * x->run, s->vector = x->along ? TC_RANGE_K0 : x->range;
  s->threads.off[x->range] = at.line, s->threads.within[x->range] = x->size;
  s->at[TC_RANGE_K0] = k0, s->threads.off[TC_RANGE_K0] = at.k, s->threads.within[TC_RANGE_K0] = p->by.steps,
  s->bound[TC_RANGE_K0] = true;
  s->mask = at.here;
  if (x->extent % x->size)
    s->mask = tc_emit_both(s, s->mask, bin(s, TC_IR_LT, at.line, sub(s, i64(s, x->extent), s->at[x->range])));
  if (may_end) s->mask = tc_emit_both(s, s->mask, bin(s, TC_IR_LT, at.k, sub(s, i64(s, p->of.k), k0)));
}

static void leave(tc_gemm *p, const tc_gemm_side *x) {
  tc_emit_ctx *s = p->s;
  s->threads.run = 0, s->lanes = 1, s->vector = -1, s->mask = TC_NONE;
  s->threads.off[x->range] = s->threads.off[TC_RANGE_K0] = TC_NONE, s->bound[TC_RANGE_K0] = false;
}

// Loads or computes the tile's elements from step k0 on, one value a piece.
static void load_side(tc_gemm *p, const tc_gemm_side *x, tc_val k0, bool may_end, tc_val *v) {
  tc_emit_ctx *s = p->s;
  for (int i = 0; i < pieces_of(p, x) && !x->copied && s->st == TC_OK; i++) {
    enter(p, x, i, k0, may_end);
    v[i] = tc_emit_value(s, x->node, x->position);
    if (s->st != TC_OK) break;
    v[i] = splat(s, cast(s, v[i], p->acc), s->lanes);
    if (s->mask != TC_NONE && !x->plain) v[i] = select_val(s, s->mask, v[i], const_f(s, p->acc, 0));
    v[i] = cast(s, v[i], x->type);
    leave(p, x);
  }
}

static void put_side(tc_gemm *p, const tc_gemm_side *x, tc_val stage, const tc_val *v) {
  tc_emit_ctx *s = p->s;
  if (x->copied) return;
  tc_val from = times(s, stage, x->stage);
  bool side_by_side = x->run > 1 && x->along == x->by_line;
  for (int i = 0; i < pieces_of(p, x) && s->st == TC_OK; i++) {
    piece at = piece_of(p, x, i);
    if (x->run == 1 || side_by_side) {
      tc_val to = add(s, tc_gemm_side_place(p, x, at.line, at.k), from);
      scatter(s, x->tile, to, v[i], at.here);
      continue;
    }
    for (int j = 0; j < x->run; j++) {
      tc_val to = add(s, tc_gemm_side_place(p, x, at.line, add_i64(s, at.k, j)), from);
      tc_val one = extract(s, p->threads, v[i], j);
      scatter(s, x->tile, to, one, at.here);
    }
  }
}

void tc_gemm_side_copy(tc_gemm *p, tc_gemm_side *x, tc_val k0, tc_val stage) {
  tc_emit_ctx *s = p->s;
  tc_val from = times(s, stage, x->stage), vec;
  int64_t stride;
  for (int i = 0; i < pieces_of(p, x) && s->st == TC_OK; i++) {
    piece at = piece_of(p, x, i);
    enter(p, x, i, k0, p->of.k % p->by.steps != 0);
    tc_val here = s->mask, base = tc_emit_index_value(s, x->flat, &stride, &vec);
    for (int c = 0; c < x->n_cond; c++) {
      tc_val index = tc_emit_whole_index(s, &x->cond[c].at);
      if (x->cond[c].low) here = tc_emit_both(s, here, bin(s, TC_IR_GE, index, i64(s, 0)));
      if (x->cond[c].high) here = tc_emit_both(s, here, bin(s, TC_IR_LT, index, i64(s, x->cond[c].extent)));
    }
    if (vec != TC_NONE) base = add(s, base, vec);
    if (here != TC_NONE) here = splat(s, here, p->threads);
    tc_val to = splat(s, add(s, tc_gemm_side_place(p, x, at.line, at.k), from), p->threads);
    tc_val copy = tc_build_raw(&s->e, TC_IR_COPY, x->type, p->threads, splat(s, base, p->threads), to, here,
                               tc_emit_buffer(s, x->source));
    (void)set_flags(s, copy, (uint32_t)(x->tile - TC_MAX_BUFS));
    leave(p, x);
  }
}

// ---- chunks of k through registers ----

void tc_gemm_load(tc_gemm *p, tc_val k0, bool may_end, tc_gemm_chunk *c) {
  load_side(p, &p->a, k0, may_end, c->a);
  load_side(p, &p->b, k0, may_end, c->b);
}

void tc_gemm_put(tc_gemm *p, tc_val stage, const tc_gemm_chunk *c) {
  put_side(p, &p->a, stage, c->a);
  put_side(p, &p->b, stage, c->b);
}

void tc_gemm_chunks_begin(tc_gemm *p, tc_gemm_chunk *c) {
  tc_emit_ctx *s = p->s;
  tc_val zero = i64(s, 0);
  tc_gemm_load(p, zero, p->of.k < p->by.steps, c);
  tc_gemm_put(p, zero, c);
  c->k0 = loop(s, zero, i64(s, p->of.k), p->by.steps);
  c->stage = tc_gemm_low(s, tc_gemm_high(s, c->k0, p->by.steps), 2);
  tc_gemm_load(p, add_i64(s, c->k0, p->by.steps), true, c);
}

void tc_gemm_chunks_end(tc_gemm *p, const tc_gemm_chunk *c) {
  tc_gemm_put(p, sub(p->s, i64(p->s, 1), c->stage), c);
  end(p->s);
}
