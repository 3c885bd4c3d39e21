// Chooses steps that run again. See memory_plan.h.
//
// The steps form a schedule: items in the order in which they run. A candidate is another schedule.
// In it an allocation that is idle at the peak ends at its last use before the peak, and is
// recomputed before its next use. An operand of the recomputed step may be alive there, held until
// then, or recomputed too. If it is recomputed later anyway, that step moves forward. Candidates
// differ in how deep this recursion goes. The candidate that costs the least time per byte saved at
// the peak is taken, until the budget holds.
// Invariants: a candidate is taken only if the peak, or the number of items at it, falls, so the
// search ends. MOST_VISITS bounds its work besides.

#include <stdlib.h>
#include <string.h>

#include "lowering/program/memory_plan.h"
#include "lowering/program/program.h"
#include "runtime/arena.h"

#define NONE UINT32_MAX
#define MOST_VISITS 2e8  // most operands of steps visited by all candidates
#define MOST_PLACED 8  // most rounds of placing allocations
#define MOST_CHAIN 64  // most steps that run again for one value
#define SMALL_SOURCE 8  // an operand this many times smaller than the value is held, not recomputed
#define SMALL_VALUE 512  // a value below this fraction of the peak is no candidate
#define KERNEL_NS 300.0

// One run of a step. Its bindings lie in the program's list; those of candidates are at the end.
typedef struct item {
  uint32_t step;  // number of the step in w->step
  uint32_t binding;
  bool recomputed;
} item;

typedef struct schedule {
  item *item;
  uint32_t n;
  size_t peak;
  uint32_t at, n_at;  // the first item at the peak; the number of items at it
  double cost;  // estimated nanoseconds of all items
} schedule;

typedef struct work {
  tc_program *p;
  const tc_plan *plan;
  tc_step *step;  // the steps before the pass
  uint32_t n_step, cap_item, cap_side;
  uint32_t *n_runs;  // per step: items that run it
  uint32_t *content;  // per allocation: the first allocation with the same value
  uint32_t *writer;  // per allocation: the item that writes it; NONE: none, or several
  uint32_t *became;  // per allocation: in a candidate, the allocation read instead from `before` on; NONE: itself
  bool *used;
  size_t *held;  // bytes alive, per item
  schedule now, best, candidate;
  item chain[MOST_CHAIN];
  uint32_t n_chain, before;  // the item that the chain is inserted before
  bool drawn[MOST_CHAIN];  // per chain item: true if it moves here from a later position
  uint32_t victim;
  bool extends;  // true: the candidate extends the life of an allocation
  double visits;
  bool failed;
} work;

static uint32_t allocation_of(uint32_t storage) {
  return storage & ARENA_BIT ? storage & ~ARENA_BIT : NONE;
}

static uint32_t *bindings(const work *w, const item *i) {
  return w->p->binding + i->binding;
}

static bool writes_storage(const work *w, const item *i, uint32_t storage) {
  const tc_step *s = &w->step[i->step];
  for (uint32_t j = 0; j < s->n_binding; j++)
    if (bindings(w, i)[j] == storage && tc_step_writes(s, j)) return true;
  return false;
}

static bool can_recompute(const tc_step *s) {
  return s->kind == TC_STEP_KERNEL || s->kind == TC_STEP_ROW;
}

// Adds an allocation for the result of a repeated step. NONE without memory.
static uint32_t add_allocation(work *w, size_t bytes, uint32_t content) {
  tc_program *p = w->p;
  uint32_t b = p->n_allocation, cap[3] = {w->cap_side, w->cap_side, w->cap_side};
  bool room = TC_GROW(p->allocation, p->cap_allocation, b + 1) && TC_GROW(w->content, cap[0], b + 1) &&
              TC_GROW(w->writer, cap[1], b + 1) && TC_GROW(w->became, cap[2], b + 1);
  if (room && cap[0] != w->cap_side) {
    bool *used = tc_realloc(w->used, cap[0] * sizeof *used);
    room = used != NULL;
    if (room) w->used = used, w->cap_side = cap[0];
  }
  if (!room) return w->failed = true, NONE;
  p->allocation[b] =
      (tc_allocation){TC_MAX_OF((bytes + 63) & ~(size_t)63, (size_t)64), 0, IN_ARENA, UINT32_MAX, 0, false};
  w->content[b] = content == NONE ? b : content, w->writer[b] = NONE, w->became[b] = NONE;
  return p->n_allocation++;
}

static uint32_t copy_bindings(work *w, const item *i) {
  tc_program *p = w->p;
  uint32_t first = p->n_binding, n = w->step[i->step].n_binding;
  if (!TC_GROW(p->binding, p->cap_binding, first + n)) return w->failed = true, i->binding;
  memcpy(p->binding + first, p->binding + i->binding, n * sizeof *p->binding);
  p->n_binding += n;
  return first;
}

// ---- what a schedule holds ----

// Computes lives and writers of allocations, and the schedule's peak and cost.
static void weigh_schedule(work *w, schedule *s) {
  tc_program *p = w->p;
  for (uint32_t b = 0; b < p->n_allocation; b++)
    p->allocation[b].first = UINT32_MAX, p->allocation[b].last = 0, w->writer[b] = NONE;
  memset(w->held, 0, (s->n + 1) * sizeof *w->held);
  s->cost = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    const tc_step *t = &w->step[s->item[i].step];
    s->cost += t->work + KERNEL_NS, w->visits += t->n_binding + 1;
    for (uint32_t j = 0; j < t->n_binding; j++) {
      uint32_t b = allocation_of(bindings(w, &s->item[i])[j]);
      if (b == NONE) continue;
      tc_allocation *k = &p->allocation[b];
      if (tc_step_writes(t, j)) w->writer[b] = k->first == UINT32_MAX ? i : w->writer[b] == i ? i : NONE;
      k->first = TC_MIN(k->first, i), k->last = i;
    }
  }
  for (uint32_t b = 0; b < p->n_allocation; b++) {
    const tc_allocation *k = &p->allocation[b];
    if (k->first != UINT32_MAX && k->in == IN_ARENA) w->held[k->first] += k->bytes, w->held[k->last + 1] -= k->bytes;
  }
  s->peak = s->at = s->n_at = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    if (i) w->held[i] += w->held[i - 1];
    if (w->held[i] > s->peak) s->peak = w->held[i], s->at = i, s->n_at = 0;
    s->n_at += w->held[i] == s->peak;
  }
}

// ---- a candidate ----

// Whether the item's step may also run just before item `before`: nothing that it reads has been
// overwritten by then.
static bool may_rematerialize(const work *w, const item *from) {
  const tc_step *s = &w->step[from->step];
  if (!can_recompute(s)) return false;
  for (uint32_t j = 0; j < s->n_binding; j++) {
    uint32_t storage = bindings(w, from)[j];
    for (uint32_t o = 0; storage < w->plan->n_leaf && o < w->plan->n_out; o++) {
      if (w->plan->out[o].donor != storage) continue;
      for (uint32_t i = 0; i < w->before; i++) {
        const tc_step *t = &w->step[w->now.item[i].step];
        for (uint32_t k = 0; k < t->n_binding; k++)
          if (bindings(w, &w->now.item[i])[k] == w->plan->n_leaf + o) return false;
      }
    }
    if (tc_step_writes(s, j) && allocation_of(storage) != NONE && w->writer[allocation_of(storage)] == NONE)
      return false;
  }
  return true;
}

static bool is_there(const work *w, uint32_t b) {
  const tc_allocation *k = &w->p->allocation[b];
  return b != w->victim && k->first < w->before && k->last >= w->before;
}

static uint32_t supply(work *w, uint32_t b, int depth);

// Appends the item to the chain, and before it what it reads. Unless it moves here from a later
// position (drawn), its results get new allocations. False: it cannot run here.
static bool add_to_chain(work *w, const item *from, bool drawn, int depth) {
  const tc_step *s = &w->step[from->step];
  item made = {.step = from->step, .recomputed = true};
  made.binding = copy_bindings(w, from);
  for (uint32_t j = 0; j < s->n_binding && !w->failed; j++) {
    uint32_t b = allocation_of(bindings(w, &made)[j]);
    if (b == NONE || tc_step_writes(s, j)) continue;
    bool own = writes_storage(w, &made, ARENA_BIT | b);  // a filled operand, named by the result's own storage
    uint32_t source = own ? b : supply(w, b, depth);
    if (source == NONE) return false;
    bindings(w, &made)[j] = ARENA_BIT | source;
  }
  for (uint32_t j = 0; j < s->n_binding && !drawn && !w->failed; j++) {
    uint32_t storage = bindings(w, &made)[j], b = allocation_of(storage);
    if (!tc_step_writes(s, j)) continue;
    if (b == NONE && storage - w->plan->n_leaf >= w->plan->n_out) return false;
    uint32_t to =
        add_allocation(w, b == NONE ? w->plan->out[storage - w->plan->n_leaf].bytes : w->p->allocation[b].bytes,
                       b == NONE ? NONE : w->content[b]);
    for (uint32_t k = 0; k < s->n_binding && to != NONE; k++)
      if (bindings(w, &made)[k] == storage) bindings(w, &made)[k] = ARENA_BIT | to;
  }
  if (w->n_chain == MOST_CHAIN || w->failed) return false;
  w->drawn[w->n_chain] = drawn, w->chain[w->n_chain++] = made;
  return true;
}

// The allocation that has b's value before item `before`; NONE: there is none. It is alive there,
// computed by the chain, recomputed here, or held until here.
static uint32_t supply(work *w, uint32_t b, int depth) {
  uint32_t content = w->content[b], held = NONE, later = NONE;
  for (uint32_t c = 0; c < w->p->n_allocation; c++) {
    if (w->content[c] != content) continue;
    const tc_allocation *k = &w->p->allocation[c];
    if (is_there(w, c)) return c;
    for (uint32_t i = 0; i < w->n_chain; i++)
      if (writes_storage(w, &w->chain[i], ARENA_BIT | c)) return c;
    if (k->first == UINT32_MAX) continue;
    if (k->first >= w->before && w->writer[c] != NONE && w->now.item[w->writer[c]].recomputed) later = c;
    if (c != w->victim && k->last < w->before && (held == NONE || w->p->allocation[held].last < k->last)) held = c;
  }
  w->visits += w->p->n_allocation;
  if (later != NONE) return add_to_chain(w, &w->now.item[w->writer[later]], true, depth) ? later : NONE;
  bool small = w->p->allocation[b].bytes * SMALL_SOURCE <= w->p->allocation[w->victim].bytes;
  const item *from = held != NONE && w->writer[held] != NONE ? &w->now.item[w->writer[held]] : NULL;
  if (depth > 0 && !small && from && may_rematerialize(w, from)) {
    const tc_step *s = &w->step[from->step];
    if (!add_to_chain(w, from, false, depth - 1)) return NONE;
    for (uint32_t i = w->n_chain - 1; i != NONE; i--)
      for (uint32_t j = 0; j < w->step[w->chain[i].step].n_binding && w->chain[i].step == from->step; j++) {
        uint32_t made = allocation_of(bindings(w, &w->chain[i])[j]);
        if (tc_step_writes(s, j) && made != NONE && w->content[made] == content) return made;
      }
    return NONE;
  }
  w->extends |= held != NONE;
  return held;
}

// From `before` on, redirects readers to the chain's results. This applies to other allocations of
// the same value that are alive there.
static void read_anew(work *w, const item *made) {
  const tc_step *s = &w->step[made->step];
  for (uint32_t j = 0; j < s->n_binding; j++) {
    uint32_t to = allocation_of(bindings(w, made)[j]);
    if (to == NONE || !tc_step_writes(s, j)) continue;
    for (uint32_t c = 0; c < w->p->n_allocation; c++)
      if (c != to && w->content[c] == w->content[to] && w->p->allocation[c].first < w->before &&
          w->p->allocation[c].last >= w->before)
        w->became[c] = to;
  }
}

// renamed: the item reads what other allocations became.
static void append_item(work *w, schedule *t, const item *from, bool renamed) {
  const tc_step *s = &w->step[from->step];
  item i = *from;
  for (uint32_t j = 0; j < s->n_binding && renamed && !w->failed; j++) {
    uint32_t b = allocation_of(bindings(w, from)[j]);
    if (b == NONE || w->became[b] == NONE || tc_step_writes(s, j)) continue;
    if (i.binding == from->binding) i.binding = copy_bindings(w, from);
    if (!w->failed) bindings(w, &i)[j] = ARENA_BIT | w->became[b];
  }
  t->item[t->n++] = i;
}

// Removes items whose results nobody reads. A value that was read only late is then computed only
// late.
static void drop_unread(work *w, schedule *t) {
  uint32_t to = t->n;
  memset(w->used, 0, w->p->n_allocation * sizeof *w->used);
  for (uint32_t i = t->n; i-- > 0;) {
    const tc_step *s = &w->step[t->item[i].step];
    bool needed = !can_recompute(s);
    for (uint32_t j = 0; j < s->n_binding && !needed; j++) {
      uint32_t b = allocation_of(bindings(w, &t->item[i])[j]);
      needed = tc_step_writes(s, j) && (b == NONE || w->used[b]);
    }
    if (!needed) continue;
    for (uint32_t j = 0; j < s->n_binding; j++) {
      uint32_t b = allocation_of(bindings(w, &t->item[i])[j]);
      if (b != NONE && !tc_step_writes(s, j)) w->used[b] = true;
    }
    t->item[--to] = t->item[i];
  }
  t->n -= to;
  memmove(t->item, t->item + to, t->n * sizeof *t->item);
}

// Builds the schedule in which the victim is recomputed before item `before`. False: it cannot be.
static bool make_candidate(work *w, int depth) {
  schedule *t = &w->candidate;
  t->n = w->n_chain = 0, w->extends = false;
  for (uint32_t b = 0; b < w->p->n_allocation; b++) w->became[b] = NONE;
  const item *from = &w->now.item[w->writer[w->victim]];
  if (!may_rematerialize(w, from) || !add_to_chain(w, from, false, depth) || w->failed) return false;
  if (w->now.n + w->n_chain > w->cap_item) return false;
  for (uint32_t i = 0; i < w->n_chain; i++)
    if (!w->drawn[i]) read_anew(w, &w->chain[i]);
  for (uint32_t i = 0; i < w->now.n && !w->failed; i++) {
    for (uint32_t c = 0; c < w->n_chain && i == w->before; c++) t->item[t->n++] = w->chain[c];
    bool drawn = false;
    for (uint32_t c = 0; c < w->n_chain && i >= w->before && w->now.item[i].recomputed; c++)
      for (uint32_t j = 0;
           w->drawn[c] && j < w->step[w->chain[c].step].n_binding && w->chain[c].step == w->now.item[i].step; j++)
        drawn |= tc_step_writes(&w->step[w->chain[c].step], j) &&
                 bindings(w, &w->chain[c])[j] == bindings(w, &w->now.item[i])[j];
    if (!drawn) append_item(w, t, &w->now.item[i], i >= w->before);
  }
  if (!w->failed) drop_unread(w, t);
  return !w->failed;
}

// ---- the choice ----

// The next item behind the peak that reads the allocation, if it is idle at the peak; else NONE.
static uint32_t next_reader(const work *w, uint32_t b) {
  const tc_allocation *k = &w->p->allocation[b];
  if (k->first >= w->now.at || k->last <= w->now.at || k->in != IN_ARENA || w->writer[b] == NONE) return NONE;
  for (uint32_t i = w->now.at; i <= k->last; i++)
    for (uint32_t j = 0; j < w->step[w->now.item[i].step].n_binding; j++)
      if (bindings(w, &w->now.item[i])[j] == (ARENA_BIT | b)) return i == w->now.at ? NONE : i;
  return NONE;
}

// Bytes that the candidate, which was weighed last, saves at the item of the present peak.
static double bytes_less(const work *w) {
  for (uint32_t i = 0; i < w->candidate.n; i++)
    if (w->candidate.item[i].binding == w->now.item[w->now.at].binding) return (double)w->now.peak - (double)w->held[i];
  return 0;
}

// Takes the candidate with the least time per byte saved. False: there is none.
static bool improve_schedule(work *w) {
  static const int depths[] = {0, 1, 3, 12, 48};
  tc_program *p = w->p;
  uint32_t n_allocation = p->n_allocation, keep_allocation = n_allocation, keep_binding = p->n_binding;
  double least = 0;
  w->best.n = 0;
  for (uint32_t v = 0; v < n_allocation && w->visits < MOST_VISITS; v++) {
    if (p->allocation[v].bytes < w->now.peak / SMALL_VALUE) continue;
    w->victim = v, w->before = next_reader(w, v), w->extends = true;
    for (size_t d = 0; d < sizeof depths / sizeof depths[0] && w->before != NONE && w->extends; d++) {
      p->n_allocation = keep_allocation, p->n_binding = keep_binding;
      if (w->failed) return false;
      if (!make_candidate(w, depths[d])) continue;
      weigh_schedule(w, &w->candidate);
      bool better =
          w->candidate.peak < w->now.peak || (w->candidate.peak == w->now.peak && w->candidate.n_at < w->now.n_at);
      double price = TC_MAX_OF(w->candidate.cost - w->now.cost, 1) / TC_MAX_OF(bytes_less(w), 1);
      if (better && (w->best.n == 0 || price < least)) {
        schedule had = w->best;
        w->best = w->candidate, w->candidate = had;
        least = price, keep_allocation = p->n_allocation, keep_binding = p->n_binding;
      }
      weigh_schedule(w, &w->now);
    }
  }
  p->n_allocation = keep_allocation, p->n_binding = keep_binding;
  if (w->failed || w->best.n == 0) return false;
  schedule was = w->now;
  w->now = w->best, w->best = was;
  weigh_schedule(w, &w->now);
  return true;
}

// ---- the program ----

static int by_stage(const void *a, const void *b) {
  const tc_step *s = a, *t = b;
  if (s->stage != t->stage) return s->stage < t->stage ? -1 : 1;
  if ((s->kind == TC_STEP_CHECK) != (t->kind == TC_STEP_CHECK)) return s->kind == TC_STEP_CHECK ? -1 : 1;
  return s->first_binding < t->first_binding ? -1 : s->first_binding > t->first_binding;
}

static bool init_work(work *w) {
  tc_program *p = w->p;
  uint32_t n = p->n_step, most = 4 * n + MOST_CHAIN;
  w->cap_item = most, w->cap_side = p->n_allocation + 64, w->n_step = n;
  if (!TC_GROW(p->step, p->cap_step, most)) return false;
  w->step = tc_malloc((n + 1) * sizeof *w->step), w->n_runs = tc_calloc(n + 1, sizeof *w->n_runs);
  w->now.item = tc_malloc(most * sizeof(item)), w->best.item = tc_malloc(most * sizeof(item)),
  w->candidate.item = tc_malloc(most * sizeof(item));
  w->held = tc_malloc((most + 2) * sizeof *w->held);
  w->content = tc_malloc(w->cap_side * sizeof *w->content), w->writer = tc_malloc(w->cap_side * sizeof *w->writer);
  w->became = tc_malloc(w->cap_side * sizeof *w->became), w->used = tc_malloc(w->cap_side * sizeof *w->used);
  bool lists = w->step && w->n_runs && w->now.item && w->best.item && w->candidate.item && w->held;
  if (!lists || !w->content || !w->writer || !w->became || !w->used) return false;
  qsort(p->step, n, sizeof *p->step, by_stage);
  memcpy(w->step, p->step, n * sizeof *w->step);
  w->now.n = n;
  for (uint32_t i = 0; i < n; i++) w->now.item[i] = (item){i, w->step[i].first_binding, false};
  for (uint32_t b = 0; b < p->n_allocation; b++) w->content[b] = b;
  return true;
}

static void fini_work(work *w) {
  void *const owned[] = {w->step, w->n_runs,  w->now.item, w->best.item, w->candidate.item,
                         w->held, w->content, w->writer,   w->became,    w->used};
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) tc_free(owned[i]);
}

// Writes the schedule to the program, one stage a step. own_pending_kernels assigns pending
// kernels.
static bool place_schedule(work *w) {
  tc_program *p = w->p;
  for (uint32_t i = 0; i < w->now.n; i++) {
    p->step[i] = w->step[w->now.item[i].step];
    p->step[i].first_binding = w->now.item[i].binding, p->step[i].stage = i;
  }
  p->n_step = w->now.n;
  for (uint32_t b = 0; b < p->n_allocation; b++)
    if (p->allocation[b].first == UINT32_MAX) p->allocation[b].bytes = 0;
  return tc_memory_plan_place(p, w->plan);
}

// The first run of a step owns its pending kernel. That of a step that no longer runs is freed.
static void own_pending_kernels(work *w) {
  for (uint32_t i = 0; i < w->now.n; i++) w->p->step[i].shares_pending = w->n_runs[w->now.item[i].step]++ > 0;
  for (uint32_t i = 0; i < w->n_step; i++)
    if (w->n_runs[i] == 0) tc_steps_drop_pending(&w->step[i]);
}

bool tc_rematerialize_fit(tc_program *p, const tc_plan *plan, size_t budget) {
  work w = {.p = p, .plan = plan};
  if (!init_work(&w)) return fini_work(&w), false;
  size_t target = budget;
  bool more = place_schedule(&w), ok = more;
  weigh_schedule(&w, &w.now);
  for (int i = 0; i < MOST_PLACED && more && p->arena_bytes > budget; i++) {
    target -= TC_MIN(target, i > 0 ? p->arena_bytes - budget : 0);  // gaps between allocations count, too
    while (w.now.peak > target && more) more = improve_schedule(&w);
    ok = place_schedule(&w) && !w.failed;
    more = more && ok;
  }
  own_pending_kernels(&w);
  fini_work(&w);
  return ok;
}
