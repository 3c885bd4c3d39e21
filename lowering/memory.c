// Places temporaries, orders steps, and counts what op by op would hold. See memory.h.
#include "lowering/memory.h"

#include <string.h>

#include "runtime/arena.h"

// The waves in which each block is alive; made[o]: the wave in which output o is written, if it has memory of its own.
static void find_lives(tc_program *p, const tc_plan *plan, uint32_t *made) {
  for (uint32_t i = 0; i < p->n_block; i++) p->block[i].first = UINT32_MAX, p->block[i].last = 0, p->block[i].called = false;
  for (uint32_t o = 0; o < plan->n_out; o++) made[o] = plan->out[o].home == TC_LEAF_NONE ? UINT32_MAX : 0;
  for (uint32_t i = 0; i < p->n_step; i++)
    for (uint32_t j = 0; j < p->step[i].n_bind; j++) {
      uint32_t place = p->bind[p->step[i].first_bind + j], wave = p->step[i].wave;
      if (place & ARENA_BIT) {
        block *k = &p->block[place & ~ARENA_BIT];
        k->first = TC_MIN(k->first, wave), k->last = TC_MAX_OF(k->last, wave);
        k->called |= p->step[i].kind == TC_STEP_CALL;
      } else if (place >= plan->n_leaf && place < plan->n_leaf + plan->n_out) {
        made[place - plan->n_leaf] = TC_MIN(made[place - plan->n_leaf], wave);
      }
    }
}

// The lowest offset in k->in at which k meets none of the blocks order[0..n) that are there while it lives.
static size_t free_offset(const tc_program *p, const block *k, const uint32_t *order, uint32_t n) {
  size_t at = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t j = 0; j < n; j++) {
      const block *o = &p->block[order[j]];
      bool together = o->in == k->in && o->first <= k->last && k->first <= o->last, overlap = at < o->offset + o->bytes && o->offset < at + k->bytes;
      if (together && overlap) at = o->offset + o->bytes, moved = true;
    }
  }
  return at;
}

// Places for blocks, greatest first: in an output that is written after they die, unless a library has to do with them, else in the arena, each at the lowest
// offset free while it lives.
bool tc_memory_place(tc_program *p, const tc_plan *plan) {
  uint32_t *order = tc_malloc((p->n_block + plan->n_out + 1) * sizeof *order), *made = order + p->n_block;
  if (!order) return false;
  find_lives(p, plan, made);
  p->arena_bytes = 0;
  for (uint32_t i = 0; i < p->n_block; i++) {
    uint32_t j = i;
    for (; j > 0 && p->block[order[j - 1]].bytes < p->block[i].bytes; j--) order[j] = order[j - 1];
    order[j] = i;
  }
  for (uint32_t i = 0; i < p->n_block; i++) {
    block *k = &p->block[order[i]];
    bool placed = false;
    for (uint32_t o = 0; o < plan->n_out && !placed && !k->called; o++) {
      if (made[o] == UINT32_MAX || k->last >= made[o] || plan->out[o].bytes < k->bytes) continue;
      k->in = o, k->offset = free_offset(p, k, order, i);
      placed = k->offset + k->bytes <= plan->out[o].bytes;
    }
    if (placed) continue;
    k->in = IN_ARENA, k->offset = free_offset(p, k, order, i);
    p->arena_bytes = TC_MAX_OF(p->arena_bytes, k->offset + k->bytes);
  }
  tc_free(order);
  return true;
}

// Whether `later` must stay behind s: it reads what s writes, or assigns what s reads. over: per leaf, the output assigned over it, or TC_PLACE_NONE.
static bool must_follow(const tc_program *p, const tc_plan *plan, const uint32_t *over, const tc_step *s, const tc_step *later) {
  for (uint32_t j = 0; j < s->n_bind; j++) {
    uint32_t place = p->bind[s->first_bind + j], other = place;
    if (place < plan->n_leaf && over[place] == TC_PLACE_NONE) continue;
    if (place < plan->n_leaf) other = plan->n_leaf + over[place];
    for (uint32_t k = 0; k < later->n_bind; k++)
      if (p->bind[later->first_bind + k] == other && (place < plan->n_leaf || tc_step_writes(s, j))) return true;
  }
  return false;
}

// Bytes of blocks that s begins to hold less those it is the last to read. used: per block, whether a later step reads it.
static int64_t grows_by(const tc_program *p, const tc_step *s, const bool *used, bool *begins) {
  int64_t sum = 0;
  *begins = false;
  for (uint32_t j = 0; j < s->n_bind; j++) {
    uint32_t place = p->bind[s->first_bind + j];
    if (!(place & ARENA_BIT)) continue;
    int64_t bytes = (int64_t)p->block[place & ~ARENA_BIT].bytes;
    if (tc_step_writes(s, j))
      sum += bytes, *begins = true;
    else if (!used[place & ~ARENA_BIT])
      sum -= bytes;
  }
  return sum;
}

static bool begins_block(const tc_program *p, const tc_step *s) {
  for (uint32_t j = 0; j < s->n_bind; j++)
    if ((p->bind[s->first_bind + j] & ARENA_BIT) && tc_step_writes(s, j)) return true;
  return false;
}

// Moves steps that begin no block to just behind what they must follow: an optimizer's update frees its gradient, and is recorded after all of them.
static void advance_steps(tc_program *p, const tc_plan *plan, const uint32_t *over) {
  for (uint32_t i = 1; i < p->n_step; i++) {
    tc_step s = p->step[i];
    if (begins_block(p, &s)) continue;
    uint32_t to = i;
    while (to > 0 && !must_follow(p, plan, over, &p->step[to - 1], &s)) to--;
    memmove(&p->step[to + 1], &p->step[to], (i - to) * sizeof s);
    p->step[to] = s;
  }
}

// Moves steps that hold more afterwards than before to just before their first reader. used: per block, false.
static void delay_steps(tc_program *p, const tc_plan *plan, const uint32_t *over, bool *used) {
  for (uint32_t i = p->n_step; i-- > 0;) {
    tc_step s = p->step[i];
    bool begins;
    int64_t more = grows_by(p, &s, used, &begins);
    for (uint32_t j = 0; j < s.n_bind; j++) {
      uint32_t place = p->bind[s.first_bind + j];
      if ((place & ARENA_BIT) && !tc_step_writes(&s, j)) used[place & ~ARENA_BIT] = true;
    }
    if (!begins || more < 0) continue;
    uint32_t to = i;
    while (to + 1 < p->n_step && !must_follow(p, plan, over, &s, &p->step[to + 1])) to++;
    memmove(&p->step[i], &p->step[i + 1], (to - i) * sizeof s);
    p->step[to] = s;
  }
}

// Steps in the order of their waves, each as early as its operands are there. They were added output by output: all that a first layer's gradient takes
// before any other layer's, which would keep the activations of all.
static bool sort_by_wave(tc_program *p) {
  tc_step *sorted = tc_malloc((p->n_step + 1) * sizeof *sorted);
  if (!sorted) return false;
  uint32_t n = 0;
  for (uint32_t wave = 0; n < p->n_step; wave++)
    for (uint32_t i = 0; i < p->n_step; i++)
      if (p->step[i].wave == wave) sorted[n++] = p->step[i];
  memcpy(p->step, sorted, p->n_step * sizeof *sorted);
  tc_free(sorted);
  return true;
}

static bool reorder(tc_program *p, const tc_plan *plan) {
  bool *used = tc_calloc(p->n_block + 1, sizeof *used);
  uint32_t *over = tc_malloc((plan->n_leaf + 1) * sizeof *over);
  bool ok = used && over && sort_by_wave(p);
  if (ok) {
    memset(over, 0xFF, plan->n_leaf * sizeof *over);
    for (uint32_t o = 0; o < plan->n_out; o++) {
      const tc_rec *r = tc_plan_rec(plan, plan->out[o].node);
      if (tc_rec_op(r) == TC_OP_ASSIGN && plan->leaf_of[r->in[1]] != TC_LEAF_NONE) over[plan->leaf_of[r->in[1]]] = o;
    }
    advance_steps(p, plan, over);
    delay_steps(p, plan, over, used);
  }
  tc_free(used);
  tc_free(over);
  return ok;
}

bool tc_memory_order(tc_program *p, const tc_plan *plan, size_t budget) {
  if (!tc_memory_place(p, plan)) return false;
  size_t early = p->arena_bytes;
  bool much = budget && early > budget;
  if (early < LARGE_ARENA && !much) return true;
  if (!reorder(p, plan)) return false;
  uint32_t *wave = tc_malloc((p->n_step + 1) * sizeof *wave);
  if (!wave) return false;
  for (uint32_t i = 0; i < p->n_step; i++) wave[i] = p->step[i].wave, p->step[i].wave = i;
  bool ok = tc_memory_place(p, plan);
  if (ok && p->arena_bytes > early - (much ? 0 : early / 8)) {
    for (uint32_t i = 0; i < p->n_step; i++) p->step[i].wave = wave[i];
    ok = tc_memory_place(p, plan);
  }
  tc_free(wave);
  return ok;
}

// The node whose memory n shares: PyTorch's views.
static uint32_t viewed(const tc_plan *plan, uint32_t n) {
  for (;;) {
    const tc_rec *r = tc_plan_rec(plan, n);
    switch (tc_rec_op(r)) {
      case TC_OP_RESHAPE:
      case TC_OP_PERMUTE:
      case TC_OP_EXPAND:
      case TC_OP_SLICE:
      case TC_OP_DETACH:
      case TC_OP_ASSIGN: n = tc_rec_in(r)[0]; break;
      default: return n;
    }
  }
}

bool tc_memory_op_by_op(const tc_plan *plan, size_t *bytes) {
  size_t live = 0, *freed = tc_calloc(plan->n_node + 1, sizeof *freed);
  uint32_t *last = tc_calloc(plan->n_node + 1, sizeof *last);
  *bytes = 0;
  if (!freed || !last) return tc_free(freed), tc_free(last), false;
  for (uint32_t n = 0; n < plan->n_node; n++) {
    const tc_rec *r = tc_plan_rec(plan, n);
    for (int k = 0; k < tc_rec_arity(r); k++) last[viewed(plan, tc_rec_in(r)[k])] = n;
    if (plan->out_of[n] != TC_LEAF_NONE) last[viewed(plan, n)] = UINT32_MAX;
  }
  for (uint32_t n = 0; n < plan->n_node; n++) {
    const tc_rec *r = tc_plan_rec(plan, n);
    if (last[n] != 0 && plan->leaf_of[n] == TC_LEAF_NONE && viewed(plan, n) == n) {
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
