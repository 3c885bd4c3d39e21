// Places temporaries, and counts what op by op would hold. See memory_plan.h.
//
// Blocks are placed one by one. What is taken is known for ranges of stages, in a binary tree of
// halves, as lists of pieces; so a block meets a few lists, whatever lies there, and the offset is
// the lowest that is free. Where lists would become long, small gaps are given up.
#include "lowering/program/memory_plan.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/passes.h"

// The stages in which each block is alive; made[o]: the stage in which output o is written, if it
// has memory of its own.
static void find_lives(tc_program *p, const tc_plan *plan, uint32_t *made) {
  for (uint32_t i = 0; i < p->n_allocation; i++)
    p->allocation[i].first = UINT32_MAX, p->allocation[i].last = 0, p->allocation[i].called = false;
  for (uint32_t o = 0; o < plan->n_out; o++) made[o] = plan->out[o].donor == TC_LEAF_NONE ? UINT32_MAX : 0;
  for (uint32_t i = 0; i < p->n_step; i++)
    for (uint32_t j = 0; j < p->step[i].n_binding; j++) {
      uint32_t storage = p->binding[p->step[i].first_binding + j], stage = p->step[i].stage;
      tc_count(TC_PASS_MEMORY, 1);
      if (storage & ARENA_BIT) {
        tc_allocation *k = &p->allocation[storage & ~ARENA_BIT];
        k->first = TC_MIN(k->first, stage), k->last = TC_MAX_OF(k->last, stage);
        k->called |= p->step[i].kind == TC_STEP_CALL;
      } else if (storage >= plan->n_leaf && storage < plan->n_leaf + plan->n_out) {
        made[storage - plan->n_leaf] = TC_MIN(made[storage - plan->n_leaf], stage);
      }
    }
}

// ---- where bytes are free for a time ----

#define MOST_MOVES 4096  // of a block, past what is taken; then it goes behind all that is
#define MOST_PIECES 64  // of a range; then half of the gaps between them, the smaller ones, count as taken
#define MOST_OUTPUTS 64  // that hold a block already, in which room is looked for before one that is empty is taken

// Bytes taken, as pieces in order, none of which touch.
typedef struct pieces {
  struct piece {
    size_t from, to;
  } *at;
  uint32_t n, cap;
} pieces;

// A range of stages, of which the halves are ranges again. A block is noted in the ranges that its
// life fills, and in all that contain some of it.
typedef struct range {
  struct range *half[2];
  pieces filled, touched;  // by blocks that are there for all of it; by those that are there for some of it, too
  // the greatest number of bytes from 0 on, all of which are taken in one of its stages. That of
  // the halves may be behind (full_of)
  size_t full;
} range;

typedef struct placing {
  tc_program *p;
  const tc_plan *plan;
  uint32_t n_stage;
  range **space;  // of each output, then of the arena; NULL: nothing is in it
  uint32_t *made;  // per output: the stage in which it is written, UINT32_MAX: it has no memory of its own
  // a tree over the outputs that are large enough and empty: how late the latest of them is made,
  // plus one
  uint32_t *latest;
  uint32_t n_leaf;  // of that tree
  uint32_t *began;  // outputs that hold something
  uint32_t n_began;
  tc_arena arena;
} placing;

// The first of n pieces that ends behind a place.
static uint32_t first_behind(const struct piece *x, uint32_t n, size_t from) {
  uint32_t low = 0, high = n;
  while (low < high) {
    uint32_t mid = (low + high) / 2;
    *(x[mid].to <= from ? &low : &high) = x[mid].to <= from ? mid + 1 : mid;
  }
  return low;
}

static size_t gap_before(const pieces *x, uint32_t i) {
  return x->at[i].from - x->at[i - 1].to;
}

// Half as many pieces: of two gaps side by side the smaller one counts as taken.
static void close_gaps(pieces *x) {
  uint32_t cached = 0, n = x->n;
  tc_count(TC_PASS_MEMORY, n);
  for (uint32_t i = 1; i < n; i += 2) {
    bool next = i + 1 < n, closes_next = next && gap_before(x, i + 1) < gap_before(x, i);
    if (closes_next) {
      x->at[++cached] = (struct piece){x->at[i].from, x->at[i + 1].to};
      continue;
    }
    x->at[cached].to = x->at[i].to;
    if (next) x->at[++cached] = x->at[i + 1];
  }
  x->n = cached + 1;
}

static bool take_piece(tc_arena *arena, pieces *x, size_t from, size_t to) {
  uint32_t i = first_behind(x->at, x->n, from), end = i;
  if (i > 0 && x->at[i - 1].to == from) i--;
  while (end < x->n && x->at[end].from <= to) end++;
  if (end > i) from = TC_MIN(from, x->at[i].from), to = TC_MAX_OF(to, x->at[end - 1].to);
  if (end == i && x->n == x->cap) {
    uint32_t cap = TC_MAX_OF(2 * x->cap, 2);
    struct piece *more = tc_arena_alloc(arena, cap * sizeof *more);
    if (!more) return false;
    if (x->n) memcpy(more, x->at, x->n * sizeof *more);
    x->at = more, x->cap = cap;
  }
  tc_count(TC_PASS_MEMORY, 1);
  memmove(x->at + i + 1, x->at + end, (x->n - end) * sizeof *x->at);
  x->n = x->n - (end - i) + 1;
  x->at[i] = (struct piece){from, to};
  if (x->n > MOST_PIECES) close_gaps(x);
  return true;
}

// What `full` of half i is, where r's is `full`: the stages in which it is greatest are raised
// there alone.
static size_t full_of(const range *r, int i, size_t full) {
  size_t was[2];
  for (int k = 0; k < 2; k++) was[k] = r->half[k] ? r->half[k]->full : 0;
  return was[i] == TC_MAX_OF(was[0], was[1]) ? full : was[i];
}

// Notes the block in range *r of stages [low, high].
static bool take_range(placing *w, range **r, uint32_t low, uint32_t high, const tc_allocation *k) {
  if (!*r && !(*r = tc_arena_alloc(&w->arena, sizeof **r))) return false;
  range *x = *r;
  size_t end = k->offset + k->bytes, full[2] = {full_of(x, 0, x->full), full_of(x, 1, x->full)};
  uint32_t mid = low + (high - low) / 2;
  if (!take_piece(&w->arena, &x->touched, k->offset, end)) return false;
  if (k->first <= low && high <= k->last) {
    if (x->full == k->offset) x->full = end;
    return take_piece(&w->arena, &x->filled, k->offset, end);
  }
  for (int i = 0; i < 2; i++) {
    if (full[i] && !x->half[i] && !(x->half[i] = tc_arena_alloc(&w->arena, sizeof **r))) return false;
    if (x->half[i]) x->half[i]->full = full[i];
  }
  if (k->first <= mid && !take_range(w, &x->half[0], low, mid, k)) return false;
  if (k->last > mid && !take_range(w, &x->half[1], mid + 1, high, k)) return false;
  x->full = 0;
  for (int i = 0; i < 2; i++) x->full = TC_MAX_OF(x->full, x->half[i] ? x->half[i]->full : 0);
  return true;
}

// What may be in a block's way: of each list of pieces the first that ends behind a place, the
// lowest of them first (a binary heap), and below what nothing is free.
typedef struct taken {
  struct ahead {
    const struct piece *piece, *end;
  } of[4 * 32];
  uint32_t n;
  size_t full;
} taken;

static bool is_lower(const struct ahead *a, const struct ahead *b) {
  return a->piece->from < b->piece->from;
}

// The heap again, where number i may be too high for its place.
static void sift(taken *t, uint32_t i) {
  for (uint32_t least = i;; i = least) {
    for (uint32_t k = 2 * i + 1; k <= 2 * i + 2 && k < t->n; k++)
      if (is_lower(&t->of[k], &t->of[least])) least = k;
    if (least == i) return;
    struct ahead x = t->of[i];
    t->of[i] = t->of[least], t->of[least] = x;
  }
}

static void list_pieces(taken *t, const pieces *x) {
  tc_count(TC_PASS_MEMORY, 1);
  if (x->n) t->of[t->n++] = (struct ahead){x->at, x->at + x->n};
}

// Of ranges that the block's life fills all that touches them is in its way, of those around what
// fills them.
static void list_taken(const range *r, uint32_t low, uint32_t high, size_t full, const tc_allocation *k, taken *out) {
  bool within = k->first <= low && high <= k->last;
  if (!r || within) out->full = TC_MAX_OF(out->full, full);
  if (!r) return;
  list_pieces(out, within ? &r->touched : &r->filled);
  if (within) return;
  uint32_t mid = low + (high - low) / 2;
  if (k->first <= mid) list_taken(r->half[0], low, mid, full_of(r, 0, full), k, out);
  if (k->last > mid) list_taken(r->half[1], mid + 1, high, full_of(r, 1, full), k, out);
}

// Forgets what ends at or below a place. False: nothing is left.
static bool skip_pieces(struct ahead *x, size_t at) {
  if (x->end[-1].to <= at) return false;
  x->piece += first_behind(x->piece, (uint32_t)(x->end - x->piece), at);
  return true;
}

// The lowest offset at which the block meets none that is there while it lives.
static size_t free_offset(const placing *w, const range *r, const tc_allocation *k) {
  taken t = {.n = 0};
  uint32_t n = 0;
  list_taken(r, 0, w->n_stage - 1, r ? r->full : 0, k, &t);
  size_t at = t.full, end = at;
  for (uint32_t i = 0; i < t.n; i++) {
    end = TC_MAX_OF(end, t.of[i].end[-1].to);
    if (skip_pieces(&t.of[i], at)) t.of[n++] = t.of[i];
  }
  t.n = n;
  for (uint32_t i = n / 2; i-- > 0;) sift(&t, i);
  for (uint32_t moves = 0; t.n && t.of[0].piece->from < at + k->bytes; moves++) {
    tc_count(TC_PASS_MEMORY, 1);
    if (moves == MOST_MOVES) return end;
    at = TC_MAX_OF(at, t.of[0].piece->to);
    if (!skip_pieces(&t.of[0], at)) t.of[0] = t.of[--t.n];
    sift(&t, 0);
  }
  return at;
}

// ---- outputs that blocks may lie in ----

// Output o is large enough for what is placed from now on, or has something in it.
static void offer_output(placing *w, uint32_t o, bool empty) {
  uint32_t i = w->n_leaf + o;
  w->latest[i] = empty && w->made[o] != UINT32_MAX ? w->made[o] + 1 : 0;
  for (i /= 2; i > 0; i /= 2) w->latest[i] = TC_MAX_OF(w->latest[2 * i], w->latest[2 * i + 1]);
}

// The first empty one that is made after a stage; UINT32_MAX: there is none.
static uint32_t empty_output(const placing *w, uint32_t stage) {
  uint32_t i = 1;
  if (w->latest[1] <= stage + 1) return UINT32_MAX;
  while (i < w->n_leaf) {
    tc_count(TC_PASS_MEMORY, 1);
    i = 2 * i + (w->latest[2 * i] <= stage + 1);
  }
  return i - w->n_leaf;
}

static bool fits_output(placing *w, tc_allocation *k, uint32_t o) {
  if (w->made[o] == UINT32_MAX || k->last >= w->made[o] || w->plan->out[o].bytes < k->bytes) return false;
  k->in = o, k->offset = free_offset(w, w->space[o], k);
  return k->offset + k->bytes <= w->plan->out[o].bytes;
}

// In an output that is written after the block dies: one that holds others and has room, or the
// first that is empty.
static bool place_in_output(placing *w, tc_allocation *k) {
  uint32_t empty = empty_output(w, k->last);
  if (k->called) return false;
  for (uint32_t i = 0; i < w->n_began && i < MOST_OUTPUTS; i++) {
    tc_count(TC_PASS_MEMORY, 1);
    if (fits_output(w, k, w->began[i])) return true;
  }
  if (empty == UINT32_MAX) return false;
  w->began[w->n_began++] = empty;
  k->in = empty, k->offset = 0;
  offer_output(w, empty, false);
  return true;
}

static bool place_allocation(placing *w, tc_allocation *k) {
  if (!place_in_output(w, k)) {
    k->in = IN_ARENA, k->offset = free_offset(w, w->space[w->plan->n_out], k);
    w->p->arena_bytes = TC_MAX_OF(w->p->arena_bytes, k->offset + k->bytes);
  }
  return take_range(w, &w->space[k->in == IN_ARENA ? w->plan->n_out : k->in], 0, w->n_stage - 1, k);
}

typedef struct sized {
  size_t bytes;
  uint32_t number;
} sized;

static int greatest_first(const void *a, const void *b) {
  const sized *x = a, *y = b;
  return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : (x->number > y->number) - (x->number < y->number);
}

// Places for blocks, greatest first: in an output that is written after they die, unless a library
// has to do with them, else in the arena, each at the lowest offset free while it lives.
static bool place_allocations(placing *w) {
  tc_program *p = w->p;
  uint32_t n_out = w->plan->n_out, offered = 0;
  sized *order = tc_arena_alloc(&w->arena, (p->n_allocation + 1) * sizeof *order),
        *output = tc_arena_alloc(&w->arena, (n_out + 1) * sizeof *output);
  while (w->n_leaf < n_out) w->n_leaf *= 2;
  w->made = tc_arena_alloc(&w->arena, (n_out + 1) * sizeof *w->made);
  w->space = tc_arena_alloc(&w->arena, (n_out + 1) * sizeof *w->space);
  w->latest = tc_arena_alloc(&w->arena, 2 * (size_t)w->n_leaf * sizeof *w->latest);
  w->began = tc_arena_alloc(&w->arena, (n_out + 1) * sizeof *w->began);
  if (!order || !output || !w->made || !w->space || !w->latest || !w->began) return false;
  find_lives(p, w->plan, w->made);
  for (uint32_t i = 0; i < p->n_step; i++) w->n_stage = TC_MAX_OF(w->n_stage, p->step[i].stage + 1);
  for (uint32_t i = 0; i < p->n_allocation; i++) order[i] = (sized){p->allocation[i].bytes, i};
  for (uint32_t o = 0; o < n_out; o++) output[o] = (sized){w->plan->out[o].bytes, o};
  qsort(order, p->n_allocation, sizeof *order, greatest_first);
  qsort(output, n_out, sizeof *output, greatest_first);
  for (uint32_t i = 0; i < p->n_allocation; i++) {
    tc_allocation *k = &p->allocation[order[i].number];
    while (offered < n_out && output[offered].bytes >= k->bytes) offer_output(w, output[offered++].number, true);
    if (k->first == UINT32_MAX)
      k->in = IN_ARENA, k->offset = 0;  // of no step
    else if (!place_allocation(w, k))
      return false;
  }
  return true;
}

bool tc_memory_plan_place(tc_program *p, const tc_plan *plan) {
  placing w = {.p = p, .plan = plan, .n_leaf = 1};
  p->arena_bytes = 0;
  bool ok = place_allocations(&w);
  tc_arena_fini(&w.arena);
  return ok;
}

// ---- what op by op would hold ----

// The node whose memory n shares: PyTorch's views. viewed: of those before it.
static uint32_t viewed_by(const tc_rec *r, uint32_t n, const uint32_t *viewed) {
  switch (tc_rec_op(r)) {
    case TC_OP_RESHAPE:
    case TC_OP_PERMUTE:
    case TC_OP_EXPAND:
    case TC_OP_SLICE:
    case TC_OP_DETACH:
    case TC_OP_ASSIGN: return viewed[tc_rec_in(r)[0]];
    default: return n;
  }
}

bool tc_memory_op_by_op(const tc_plan *plan, size_t *bytes) {
  size_t live = 0, *freed = tc_calloc(plan->n_node + 1, sizeof *freed);
  uint32_t *last = tc_calloc((size_t)plan->n_node + 1, 2 * sizeof *last),
           *viewed = last ? last + plan->n_node + 1 : NULL;
  *bytes = 0;
  if (!freed || !last) return tc_free(freed), tc_free(last), false;
  for (uint32_t n = 0; n < plan->n_node; n++) {
    const tc_rec *r = tc_plan_rec(plan, n);
    viewed[n] = viewed_by(r, n, viewed);
    for (int k = 0; k < tc_rec_arity(r); k++) last[viewed[tc_rec_in(r)[k]]] = n;
    if (plan->out_of[n] != TC_LEAF_NONE) last[viewed[n]] = UINT32_MAX;
  }
  for (uint32_t n = 0; n < plan->n_node; n++) {
    const tc_rec *r = tc_plan_rec(plan, n);
    if (last[n] != 0 && plan->leaf_of[n] == TC_LEAF_NONE && viewed[n] == n) {
      size_t own = (size_t)tc_dims_at(r->shape)->count * tc_type_bytes((tc_type)r->dtype);
      live += own;
      if (last[n] != UINT32_MAX) freed[last[n]] += own;
    }
    *bytes = TC_MAX_OF(*bytes, live);
    live -= freed[n];
  }
  tc_free(freed);
  tc_free(last);
  return true;
}
