// Places temporaries, and computes the peak of op-by-op execution. See memory_plan.h.
//
// Allocations are placed one by one, at the lowest offset that is free while they live. A binary
// tree over ranges of stages holds the occupied bytes, as lists of pieces. So a placement visits
// few lists, however many allocations there are. A list that becomes long gives up small gaps.
#include "lowering/program/memory_plan.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/passes.h"

// Finds the stages in which each allocation lives. made[o]: the stage in which output o is written,
// 0 if it is written over a leaf, UINT32_MAX if no step writes it.
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

#define MOST_MOVES 4096  // most steps of one search; then the allocation goes behind all others
#define MOST_PIECES 64  // most pieces of a list; then the smaller one of each two gaps is given up
// most outputs holding an allocation that are tried before an empty one is taken
#define MOST_OUTPUTS 64

// Occupied bytes, as pieces in order, none of which touch.
typedef struct pieces {
  struct piece {
    size_t from, to;
  } *at;
  uint32_t n, cap;
} pieces;

// A range of stages, whose halves are ranges again. An allocation is noted in the ranges that its
// life fills, and in all that it overlaps.
typedef struct range {
  struct range *half[2];
  // filled: occupied by allocations that live for the whole range; touched: for some of it
  pieces filled, touched;
  // The greatest number of bytes from offset 0 on that are all occupied in one of its stages. The
  // halves' own values may be out of date (full_of).
  size_t full;
} range;

typedef struct placing {
  tc_program *p;
  const tc_plan *plan;
  uint32_t n_stage;
  range **space;  // per output, then for the arena; NULL: it is empty
  // per output: the stage in which it is written (find_lives); UINT32_MAX: it takes no allocation
  uint32_t *made;
  // a tree of maxima over the outputs that are large enough and empty: one more than the stage in
  // which each is written
  uint32_t *latest;
  uint32_t n_leaf;  // leaves of that tree
  uint32_t *began;  // outputs that hold an allocation
  uint32_t n_began;
  tc_arena arena;
} placing;

// The first of n pieces that ends behind offset `from`.
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

// Halves the pieces: the smaller one of two neighbouring gaps counts as occupied.
static void close_gaps(pieces *x) {
  uint32_t last = 0, n = x->n;
  tc_count(TC_PASS_MEMORY, n);
  for (uint32_t i = 1; i < n; i += 2) {
    bool next = i + 1 < n, closes_next = next && gap_before(x, i + 1) < gap_before(x, i);
    if (closes_next) {
      x->at[++last] = (struct piece){x->at[i].from, x->at[i + 1].to};
      continue;
    }
    x->at[last].to = x->at[i].to;
    if (next) x->at[++last] = x->at[i + 1];
  }
  x->n = last + 1;
}

static bool take_piece(tc_arena *arena, pieces *x, size_t from, size_t to) {
  uint32_t i = first_behind(x->at, x->n, from), end = i;
  if (i > 0 && x->at[i - 1].to == from) i--;
  while (end < x->n && x->at[end].from <= to) end++;
  if (end > i) from = TC_MIN(from, x->at[i].from), to = TC_MAX_OF(to, x->at[end - 1].to);
  if (end == i && !TC_ARENA_GROW(arena, x->at, x->cap, x->n)) return false;
  tc_count(TC_PASS_MEMORY, 1);
  memmove(x->at + i + 1, x->at + end, (x->n - end) * sizeof *x->at);
  x->n = x->n - (end - i) + 1;
  x->at[i] = (struct piece){from, to};
  if (x->n > MOST_PIECES) close_gaps(x);
  return true;
}

// The `full` of half i, given r's. Raising r's raised only the halves that had the greatest value.
static size_t full_of(const range *r, int i, size_t full) {
  size_t was[2];
  for (int k = 0; k < 2; k++) was[k] = r->half[k] ? r->half[k]->full : 0;
  return was[i] == TC_MAX_OF(was[0], was[1]) ? full : was[i];
}

// Notes the allocation in range *r of stages [low, high]. False without memory.
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

// Pieces that may conflict with an allocation. A binary heap holds each list's next piece, the
// lowest first. full: nothing below that offset is free.
typedef struct taken {
  struct ahead {
    const struct piece *piece, *end;
  } of[4 * 32];
  uint32_t n;
  size_t full;
} taken;

// Restores the heap where element i may be too large for its position.
static void sift(taken *t, uint32_t i) {
  for (uint32_t least = i;; i = least) {
    for (uint32_t k = 2 * i + 1; k <= 2 * i + 2 && k < t->n; k++)
      if (t->of[k].piece->from < t->of[least].piece->from) least = k;
    if (least == i) return;
    struct ahead x = t->of[i];
    t->of[i] = t->of[least], t->of[least] = x;
  }
}

// Lists the pieces that conflict with k. A range within k's life gives all pieces that touch it, a
// range around it only those that fill it.
static void list_taken(const range *r, uint32_t low, uint32_t high, size_t full, const tc_allocation *k, taken *out) {
  bool within = k->first <= low && high <= k->last;
  if (!r || within) out->full = TC_MAX_OF(out->full, full);
  if (!r) return;
  const pieces *x = within ? &r->touched : &r->filled;
  tc_count(TC_PASS_MEMORY, 1);
  if (x->n) out->of[out->n++] = (struct ahead){x->at, x->at + x->n};
  if (within) return;
  uint32_t mid = low + (high - low) / 2;
  if (k->first <= mid) list_taken(r->half[0], low, mid, full_of(r, 0, full), k, out);
  if (k->last > mid) list_taken(r->half[1], mid + 1, high, full_of(r, 1, full), k, out);
}

// Skips pieces that end at or below `at`. False: none is left.
static bool skip_pieces(struct ahead *x, size_t at) {
  if (x->end[-1].to <= at) return false;
  x->piece += first_behind(x->piece, (uint32_t)(x->end - x->piece), at);
  return true;
}

// The lowest offset at which the allocation overlaps no other one that lives at the same time.
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

// ---- outputs that allocations may lie in ----

// Marks output o as empty and large enough for the allocations to come, or as in use.
static void offer_output(placing *w, uint32_t o, bool empty) {
  uint32_t i = w->n_leaf + o;
  w->latest[i] = empty && w->made[o] != UINT32_MAX ? w->made[o] + 1 : 0;
  for (i /= 2; i > 0; i /= 2) w->latest[i] = TC_MAX_OF(w->latest[2 * i], w->latest[2 * i + 1]);
}

// The first empty output that is written after the stage; UINT32_MAX: none.
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

// Places the allocation in an output that is written after it dies. Outputs in use with enough
// space come first, then the first empty one.
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

// Places allocations, largest first. Each goes into an output that is written after it dies, unless
// a library call uses it. Else it goes into the arena, at the lowest offset that is free while it
// lives.
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
      k->in = IN_ARENA, k->offset = 0;  // no step uses it
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

// ---- peak of op-by-op execution ----

// The node whose memory n shares, as PyTorch's views do. viewed: the same for the nodes before n.
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
  tc_arena arena = {0};
  size_t live = 0, *freed = tc_arena_alloc(&arena, (plan->n_node + 1) * sizeof *freed);
  uint32_t *last = tc_arena_alloc(&arena, (plan->n_node + 1) * sizeof *last);
  uint32_t *viewed = tc_arena_alloc(&arena, (plan->n_node + 1) * sizeof *viewed);
  *bytes = 0;
  if (!freed || !last || !viewed) return tc_arena_fini(&arena), false;
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
  tc_arena_fini(&arena);
  return true;
}
