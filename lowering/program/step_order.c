// Orders steps. See memory_plan.h.
//
// Steps move in a list whose labels rise along it, so comparing two positions needs no walk. See
// Bender et al., Two Simplified Algorithms for Maintaining Order in a List, 2002. The users of a
// step's storages tell what it must stay behind, and what must stay behind it.

#include <string.h>

#include "lowering/program/memory_plan.h"
#include "lowering/program/storage_users.h"
#include "runtime/arena.h"
#include "runtime/passes.h"

// A list of steps with labels that rise along it. Where two neighbours leave no label between them,
// the labels around them are spread out.
typedef struct list {
  uint32_t *next, *prev;  // per step; element `end` closes the ring
  uint64_t *label;
  uint32_t end;
} list;

#define LABEL_BITS 62
#define SPARSE 0.75  // factor of the labels that may be in use, for each doubling of the range

// Spreads out the labels of the shortest range around step `at` that is sparse enough.
static void spread(list *l, uint32_t at) {
  uint32_t first = at, last = at, n = 1;
  double share = 1;
  for (int bits = 1; bits <= LABEL_BITS; bits++) {
    uint64_t low = l->label[at] >> bits << bits, size = UINT64_C(1) << bits;
    for (; l->prev[first] != l->end && l->label[l->prev[first]] >= low; n++)
      first = l->prev[first], tc_count(TC_PASS_ORDER, 1);
    for (; l->next[last] != l->end && l->label[l->next[last]] - low < size; n++)
      last = l->next[last], tc_count(TC_PASS_ORDER, 1);
    share *= SPARSE;
    if ((double)n > share * (double)size || size / n < 2) continue;
    tc_count(TC_PASS_ORDER, n);
    for (uint32_t s = first, i = 0; i < n; s = l->next[s], i++) l->label[s] = low + size / n * i;
    return;
  }
}

// Whether a comes before b.
static bool is_before(const list *l, uint32_t a, uint32_t b) {
  return l->label[a] < l->label[b];
}

// Moves step s to just behind step `to`; `to` may be the list's end: to the front.
static void move_behind(list *l, uint32_t s, uint32_t to) {
  if (to == s || to == l->prev[s]) return;
  l->next[l->prev[s]] = l->next[s], l->prev[l->next[s]] = l->prev[s];
  uint32_t next = l->next[to];
  l->next[to] = s, l->prev[s] = to, l->next[s] = next, l->prev[next] = s;
  uint64_t low = to == l->end ? 0 : l->label[to], high = next == l->end ? UINT64_C(1) << LABEL_BITS : l->label[next];
  l->label[s] = low + (high - low) / 2;
  if (high - low < 2) spread(l, s);
}

static bool list_init(list *l, uint32_t n, tc_arena *arena) {
  *l = (list){.next = tc_arena_alloc(arena, (n + 1) * sizeof *l->next),
              .prev = tc_arena_alloc(arena, (n + 1) * sizeof *l->prev),
              .label = tc_arena_alloc(arena, (n + 1) * sizeof *l->label),
              .end = n};
  if (!l->next || !l->prev || !l->label) return false;
  for (uint32_t i = 0; i <= n; i++) l->next[i] = i < n ? i + 1 : 0, l->prev[i] = i > 0 ? i - 1 : n;
  for (uint32_t i = 0; i < n; i++) l->label[i] = (UINT64_C(1) << LABEL_BITS) / (n + 1) * (i + 1);
  return true;
}

typedef struct ordering {
  tc_program *p;
  const tc_plan *plan;
  tc_storage_users users, writers;
  list list;
  uint32_t *over;  // per leaf: the output assigned to it, or TC_STORAGE_NONE
  uint32_t *assigns;  // per output: the leaf it is assigned to, or TC_STORAGE_NONE
  bool *used;  // per allocation: true if a later step reads it
} ordering;

typedef enum side { BEFORE, AFTER } side;

// Among the users b of a storage on one side of s, finds the one nearest to s. *near: the nearest
// so far, or the list's end.
static void find_nearest(const list *l, uint32_t s, const tc_storage_users *b, uint32_t storage, side where,
                         uint32_t *near) {
  for (uint32_t i = tc_storage_users_first(b, storage); i < tc_storage_users_end(b, storage); i++) {
    uint32_t t = b->step[i];
    tc_count(TC_PASS_ORDER, 1);
    if (t == s || is_before(l, t, s) != (where == BEFORE)) continue;
    if (*near == l->end || is_before(l, t, *near) == (where == AFTER)) *near = t;
  }
}

// The last step that s must stay behind: it writes what s binds, or reads the leaf that s is
// assigned to. The list's end: there is none.
static uint32_t last_needed(const ordering *o, uint32_t s) {
  const tc_step *x = &o->p->step[s];
  uint32_t near = o->list.end;
  for (uint32_t j = 0; j < x->n_binding; j++) {
    uint32_t storage = o->p->binding[x->first_binding + j];
    if (storage < o->plan->n_leaf) continue;
    find_nearest(&o->list, s, &o->writers, storage, BEFORE, &near);
    bool output = storage < o->plan->n_leaf + o->plan->n_out;
    uint32_t leaf = output ? o->assigns[storage - o->plan->n_leaf] : TC_STORAGE_NONE;
    if (leaf != TC_STORAGE_NONE && tc_step_writes(x, j)) find_nearest(&o->list, s, &o->users, leaf, BEFORE, &near);
  }
  return near;
}

// The first step that must stay behind s. The list's end: there is none.
static uint32_t first_needing(const ordering *o, uint32_t s) {
  const tc_step *x = &o->p->step[s];
  uint32_t near = o->list.end;
  for (uint32_t j = 0; j < x->n_binding; j++) {
    uint32_t storage = o->p->binding[x->first_binding + j];
    if (storage >= o->plan->n_leaf && tc_step_writes(x, j)) find_nearest(&o->list, s, &o->users, storage, AFTER, &near);
    if (storage < o->plan->n_leaf && o->over[storage] != TC_STORAGE_NONE)
      find_nearest(&o->list, s, &o->writers, o->plan->n_leaf + o->over[storage], AFTER, &near);
  }
  return near;
}

static bool begins_allocation(const tc_program *p, const tc_step *s) {
  for (uint32_t j = 0; j < s->n_binding; j++)
    if ((p->binding[s->first_binding + j] & ARENA_BIT) && tc_step_writes(s, j)) return true;
  return false;
}

// Bytes that s allocates, less those that it is the last to read. used: per allocation, true if a
// later step reads it.
static int64_t grows_by(const tc_program *p, const tc_step *s, const bool *used) {
  int64_t sum = 0;
  for (uint32_t j = 0; j < s->n_binding; j++) {
    uint32_t storage = p->binding[s->first_binding + j];
    if (!(storage & ARENA_BIT)) continue;
    int64_t bytes = (int64_t)p->allocation[storage & ~ARENA_BIT].bytes;
    sum += tc_step_writes(s, j) ? bytes : used[storage & ~ARENA_BIT] ? 0 : -bytes;
  }
  return sum;
}

// Moves steps that allocate nothing to just behind what they must follow. An optimizer's update,
// for example, frees its gradient, but is recorded after all gradients.
static void advance_steps(ordering *o) {
  for (uint32_t i = 1; i < o->p->n_step; i++)
    if (!begins_allocation(o->p, &o->p->step[i])) move_behind(&o->list, i, last_needed(o, i));
}

// Moves steps that allocate at least as much as they free to just before their first reader.
static void delay_steps(ordering *o) {
  const tc_program *p = o->p;
  for (uint32_t i = o->list.prev[o->list.end], before; i != o->list.end; i = before) {
    const tc_step *s = &p->step[i];
    int64_t more = grows_by(p, s, o->used);
    before = o->list.prev[i];
    for (uint32_t j = 0; j < s->n_binding; j++) {
      uint32_t storage = p->binding[s->first_binding + j];
      if ((storage & ARENA_BIT) && !tc_step_writes(s, j)) o->used[storage & ~ARENA_BIT] = true;
    }
    if (more >= 0 && begins_allocation(p, s)) move_behind(&o->list, i, o->list.prev[first_needing(o, i)]);
  }
}

// Sorts steps by stage, so each runs as early as its operands allow. The order of outputs would
// compute all of the first layer's gradient first, and so keep the activations of all layers.
static void sort_by_stage(tc_program *p, tc_step *sorted, uint32_t *at, uint32_t n_stage) {
  for (uint32_t i = 0; i < p->n_step; i++) at[p->step[i].stage + 1]++;
  for (uint32_t w = 1; w <= n_stage; w++) at[w] += at[w - 1];
  for (uint32_t i = 0; i < p->n_step; i++) sorted[at[p->step[i].stage]++] = p->step[i];
  memcpy(p->step, sorted, p->n_step * sizeof *sorted);
}

static bool reorder(tc_program *p, const tc_plan *plan, tc_arena *arena) {
  ordering o = {.p = p, .plan = plan};
  uint32_t n_stage = 0, n = 0;
  for (uint32_t i = 0; i < p->n_step; i++) n_stage = TC_MAX_OF(n_stage, p->step[i].stage + 1);
  tc_step *ordered = tc_arena_alloc(arena, (p->n_step + 1) * sizeof *ordered);
  uint32_t *at = tc_arena_alloc(arena, (n_stage + 1) * sizeof *at);
  o.used = tc_arena_alloc(arena, p->n_allocation + 1);
  o.over = tc_arena_alloc(arena, (plan->n_leaf + 1) * sizeof *o.over);
  o.assigns = tc_arena_alloc(arena, (plan->n_out + 1) * sizeof *o.assigns);
  if (!ordered || !at || !o.used || !o.over || !o.assigns || !list_init(&o.list, p->n_step, arena)) return false;
  sort_by_stage(p, ordered, at, n_stage);
  if (!tc_storage_users_init(&o.users, p, plan, false, arena) ||
      !tc_storage_users_init(&o.writers, p, plan, true, arena))
    return false;
  memset(o.over, 0xFF, plan->n_leaf * sizeof *o.over), memset(o.assigns, 0xFF, plan->n_out * sizeof *o.assigns);
  for (uint32_t i = 0; i < plan->n_out; i++) {
    const tc_rec *r = tc_plan_rec(plan, plan->out[i].node);
    uint32_t leaf = tc_rec_op(r) == TC_OP_ASSIGN ? plan->leaf_of[r->in[1]] : TC_LEAF_NONE;
    if (leaf != TC_LEAF_NONE) o.over[leaf] = i, o.assigns[i] = leaf;
  }
  advance_steps(&o);
  delay_steps(&o);
  for (uint32_t i = o.list.next[o.list.end]; i != o.list.end; i = o.list.next[i]) ordered[n++] = p->step[i];
  memcpy(p->step, ordered, n * sizeof *ordered);
  return true;
}

// Takes the order, if it needs at most so many bytes; else the stages stay. False without memory.
static bool order_steps(tc_program *p, const tc_plan *plan, size_t most, tc_arena *arena) {
  if (!reorder(p, plan, arena)) return false;
  uint32_t *stage = tc_arena_alloc(arena, (p->n_step + 1) * sizeof *stage);
  if (!stage) return false;
  for (uint32_t i = 0; i < p->n_step; i++) stage[i] = p->step[i].stage, p->step[i].stage = i;
  if (!tc_memory_plan_place(p, plan)) return false;
  if (p->arena_bytes <= most) return true;
  for (uint32_t i = 0; i < p->n_step; i++) p->step[i].stage = stage[i];
  return tc_memory_plan_place(p, plan);
}

bool tc_memory_order(tc_program *p, const tc_plan *plan, size_t budget) {
  if (!tc_memory_plan_place(p, plan)) return false;
  size_t early = p->arena_bytes;
  bool much = budget && early > budget;
  if (early < LARGE_ARENA && !much) return true;
  tc_arena arena = {0};
  bool ok = order_steps(p, plan, early - (much ? 0 : early / 8), &arena);
  tc_arena_fini(&arena);
  return ok;
}
