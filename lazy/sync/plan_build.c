// Plans: what a sync stores, keeps and drops, decided once per key; and their cache. See plan.h.
#include "lazy/trace/plan.h"

#include <string.h>

#include "runtime/arena.h"
#include "runtime/fork.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/passes.h"
#include "runtime/profile.h"
#include "runtime/reentry.h"
#include "runtime/watch.h"

#define N_BUCKETS 2048
#define SMALL_BYTES 65536  // of a dear live value that is stored though nobody asked

static struct {
  pthread_mutex_t lock;
  tc_plan *bucket[N_BUCKETS];
  size_t n, bytes;  // of its plans
  uint64_t misses;
  _Atomic uint64_t uses;  // hits and misses
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 2)

static void destroy(tc_plan *p) {
  tc_memory_of_plans(-(ptrdiff_t)p->bytes);
  if (p->program) tc_lowering.destroy(p->program);
  void *const owned[] = {p->word, p->at, p->leaf_of, p->dev, p->out};
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) tc_free(owned[i]);
  tc_free(p);
}

void tc_plan_release(tc_plan *p) {
  if (p && atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) == 1) destroy(p);
}

// A value worth storing rather than making again: what reads much more than it writes, or works hard.
static bool is_dear(const tc_plan *p, uint32_t node) {
  switch (tc_op_kind_of(tc_rec_op(tc_plan_rec(p, node)))) {
    case TC_KIND_RNG:
    case TC_KIND_FOLD:
    case TC_KIND_SCAN:
    case TC_KIND_CONTRACT:
    case TC_KIND_ATTENTION:
    case TC_KIND_INDEX:
    case TC_KIND_COMPOSED: return true;
    default: return false;
  }
}

static bool is_leaf(const tc_plan *p, uint32_t node) {
  return tc_rec_op(tc_plan_rec(p, node)) == TC_OP_LEAF;
}

static void find_same_bytes(tc_plan *p) {
  for (uint32_t n = 0; n < p->n_node; n++) {
    const tc_rec *r = tc_plan_rec(p, n);
    p->same_bytes[n] = tc_op_is_alias(tc_rec_op(r)) ? p->same_bytes[tc_rec_in(r)[0]] : n;
  }
}

uint32_t tc_plan_alias(const tc_plan *p, uint32_t n) {
  uint32_t a = p->same_bytes[n];
  if ((p->flag[n] & TC_NODE_TAPE) && !(p->flag[n] & TC_NODE_WANT)) return TC_LEAF_NONE;
  if (a == n || !is_leaf(p, a) || p->dev[a] != p->dev[n] || (p->flag[a] & TC_NODE_USER)) return TC_LEAF_NONE;
  return (p->flag[a] & TC_NODE_SOLE) && p->over_leaf[p->leaf_of[a]] ? TC_LEAF_NONE : p->leaf_of[a];
}

// Marks the leaves and outputs that values are made from; held: per node, the bits it is held for, on return also what it is made from.
static void hold(tc_plan *p, uint8_t *held) {
  for (uint32_t n = p->n_node; n-- > 0;) {
    if (!held[n]) continue;
    if (is_leaf(p, n)) {
      p->hold_leaf[p->leaf_of[n]] |= held[n];
    } else if (p->out_of[n] != TC_LEAF_NONE) {
      p->hold_out[p->out_of[n]] |= held[n];
    } else {
      const tc_rec *r = tc_plan_rec(p, n);
      const uint32_t *in = tc_rec_in(r);
      for (int i = 0; i < tc_rec_arity(r); i++) held[in[i]] |= held[n];
    }
  }
}

// Marks what may still be differentiated through: ancestors on the tape of live values on the tape.
static void mark_history(const tc_plan *p, uint8_t *history) {
  for (uint32_t n = p->n_node; n-- > 0;) {
    if ((p->flag[n] & (TC_NODE_LIVE | TC_NODE_TAPE)) == (TC_NODE_LIVE | TC_NODE_TAPE) && !(p->flag[n] & TC_NODE_WANT)) history[n] = 1;
    if (!history[n] || (p->flag[n] & TC_NODE_WANT)) continue;
    const tc_rec *r = tc_plan_rec(p, n);
    const uint32_t *in = tc_rec_in(r);
    for (int i = 0; i < tc_rec_arity(r); i++)
      if (p->flag[in[i]] & TC_NODE_TAPE) history[in[i]] = 1;
  }
}

// Whether the record is differentiated itself; one on the tape whose operands are not has its history in an older run.
static bool on_tape_here(const tc_plan *p, const tc_rec *r) {
  for (int i = 0; i < tc_rec_arity(r); i++)
    if (p->flag[tc_rec_in(r)[i]] & TC_NODE_TAPE) return true;
  return false;
}

// Marks in need[] the values that vjps of history will read.
static void mark_saved(const tc_plan *p, const uint8_t *history, uint8_t *need) {
  for (uint32_t n = 0; n < p->n_node; n++) {
    const tc_rec *r = tc_plan_rec(p, n);
    if (!history[n] || is_leaf(p, n) || (p->flag[n] & TC_NODE_WANT) || !on_tape_here(p, r)) continue;
    uint8_t saves = tc_op_rows[tc_rec_op(r)].saves;
    const uint32_t *in = tc_rec_in(r);
    if (saves & TC_SAVES_out) need[n] = 1;
    if (saves & TC_SAVES_in)
      for (int i = 0; i < tc_rec_arity(r); i++) need[in[i]] = 1;
  }
}

static bool is_effect(const tc_plan *p, uint32_t n) {
  return tc_op_kind_of(tc_rec_op(tc_plan_rec(p, n))) == TC_KIND_EFFECT;
}

static size_t bytes_of(const tc_plan *p, uint32_t n) {
  const tc_rec *r = tc_plan_rec(p, n);
  return (size_t)tc_dims_at(r->shape)->count * tc_type_bytes((tc_type)r->dtype);
}

// What a value that is not stored would be made from again.
typedef struct recipe {
  bool dear, again;  // with dear work; with a value that was made again already
  double sole;       // bytes of leaves that nobody else holds, at most
} recipe;

static recipe recipe_of(const tc_plan *p, const recipe *all, uint32_t n) {
  recipe r = {0};
  if (is_leaf(p, n)) {
    if (p->flag[n] & TC_NODE_SOLE) r.sole = (double)bytes_of(p, n);
    return r;
  }
  r.dear = is_dear(p, n), r.again = p->flag[n] & TC_NODE_AGAIN;
  const tc_rec *x = tc_plan_rec(p, n);
  for (int i = 0; i < tc_rec_arity(x); i++) {
    uint32_t in = tc_rec_in(x)[i];
    if (p->out_of[in] != TC_LEAF_NONE) continue;
    r.dear |= all[in].dear, r.again |= all[in].again, r.sole += all[in].sole;
  }
  return r;
}

// Stored: asked; assigned; kept; tips (live, no reader); saved for backward and dear. Of other live values: what is made of a recipe used again, so that
// nothing is made a third time and recipes do not grow from sync to sync; what is smaller than the leaves it would hold; what is dear and small.
static bool choose_outputs(tc_plan *p, const uint8_t *need, const uint8_t *read) {
  recipe *all = tc_malloc((p->n_node + 1) * sizeof *all);
  if (!all) return false;
  for (uint32_t n = 0; n < p->n_node; n++) {
    uint8_t f = p->flag[n];
    bool live = f & TC_NODE_LIVE;
    p->out_of[n] = TC_LEAF_NONE;
    all[n] = recipe_of(p, all, n);
    bool store = (f & TC_NODE_ASKED) || (live && ((f & TC_NODE_KEEP) || !read[n] || is_effect(p, n))) || (need[n] && is_dear(p, n));
    if (live) store |= all[n].again || all[n].sole > (double)bytes_of(p, n) || (all[n].dear && bytes_of(p, n) <= SMALL_BYTES);
    if (!store || is_leaf(p, n) || tc_plan_alias(p, n) != TC_LEAF_NONE) continue;
    p->out_of[n] = p->n_out;
    p->out[p->n_out++] = (tc_out){n, TC_LEAF_NONE, bytes_of(p, n)};
  }
  tc_free(all);
  return true;
}

static tc_status analyse(tc_plan *p) {
  uint8_t *scratch = tc_calloc(p->n_node + 1, 4);
  if (!scratch) return TC_FAIL(TC_ERR_MEMORY, "no room for a plan");
  tc_count(TC_PASS_OUTPUTS, p->n_node);
  uint8_t *history = scratch, *need = history + p->n_node, *read = need + p->n_node, *held = read + p->n_node;
  for (uint32_t n = 0; n < p->n_node; n++) {
    const tc_rec *r = tc_plan_rec(p, n);
    const uint32_t *in = tc_rec_in(r);
    for (int i = 0; i < tc_rec_arity(r); i++) read[in[i]] = 1;
    if (tc_rec_op(r) == TC_OP_ASSIGN && is_leaf(p, in[1])) p->over_leaf[p->leaf_of[in[1]]] = 1;
  }
  mark_history(p, history);
  mark_saved(p, history, need);
  if (!choose_outputs(p, need, read)) return tc_free(scratch), TC_FAIL(TC_ERR_MEMORY, "no room for a plan");
  for (uint32_t n = 0; n < p->n_node; n++) {
    if (history[n]) p->leaves_run = true;
    if (need[n]) held[n] |= TC_HELD_FOR_HISTORY;
    if ((p->flag[n] & TC_NODE_LIVE) && !is_leaf(p, n) && p->out_of[n] == TC_LEAF_NONE && tc_plan_alias(p, n) == TC_LEAF_NONE) {
      p->leaves_run = true;
      held[n] |= TC_HELD_FOR_RECIPES;
    }
  }
  hold(p, held);
  tc_free(scratch);
  return TC_OK;
}

// The bytes per node, leaf and output, one list behind the other.
static void place_bytes(tc_plan *p) {
  p->hold_leaf = p->dev + p->n_node;
  p->over_leaf = p->hold_leaf + p->n_leaf;
  p->hold_out = p->over_leaf + p->n_leaf;
}

// A plan with room for what these counts ask for, and for as many outputs as nodes.
static tc_plan *allocate(uint32_t n_node, uint32_t n_leaf, uint32_t n_arg, uint32_t n_rec_words, uint32_t n_word) {
  tc_plan *p = tc_calloc(1, sizeof *p);
  if (!p) return NULL;
  atomic_store_explicit(&p->refs, 1, memory_order_relaxed);
  p->n_node = n_node, p->n_leaf = n_leaf, p->n_arg = n_arg;
  p->n_rec_words = n_rec_words, p->n_word = n_word;
  p->word = tc_malloc((size_t)n_word * sizeof p->word[0]);
  p->at = tc_malloc((size_t)(p->n_node + 1) * 2 * sizeof p->at[0]);
  p->leaf_of = tc_malloc((size_t)(p->n_node + 1) * 3 * sizeof p->leaf_of[0]);
  p->dev = tc_calloc(((size_t)p->n_node + p->n_leaf) * 2 + 1, 1);
  p->out = tc_malloc((size_t)(p->n_node + 1) * sizeof p->out[0]);
  if (!p->word || !p->at || !p->leaf_of || !p->dev || !p->out) return destroy(p), NULL;
  p->arg_at = p->at + p->n_node + 1;
  p->out_of = p->leaf_of + p->n_node + 1, p->same_bytes = p->out_of + p->n_node + 1;
  place_bytes(p);
  p->flag = (const uint8_t *)(p->word + n_rec_words);
  return p;
}

static tc_plan *of_trace(const tc_trace *t, uint32_t n_rec_words, uint32_t n_word) {
  tc_plan *p = allocate(t->n_node, t->n_leaf, t->n_arg, n_rec_words, n_word);
  if (!p) return NULL;
  memcpy(p->word, t->word, (size_t)n_word * sizeof p->word[0]);
  memcpy(p->at, t->at, p->n_node * sizeof p->at[0]);
  memcpy(p->arg_at, t->arg_at, p->n_node * sizeof p->at[0]);
  memcpy(p->dev, t->dev, p->n_node);
  memset(p->leaf_of, 0xFF, p->n_node * sizeof p->leaf_of[0]);
  for (uint32_t i = 0; i < t->n_leaf; i++) p->leaf_of[t->leaf[i].node] = i;
  find_same_bytes(p);
  return p;
}

// Gives back room for outputs that there are not.
static void shrink(tc_plan *p) {
  tc_out *out = tc_realloc(p->out, ((size_t)p->n_out + 1) * sizeof *out);
  if (out) p->out = out;
  uint8_t *dev = tc_realloc(p->dev, (size_t)p->n_node + 2 * (size_t)p->n_leaf + p->n_out + 1);
  if (!dev) return;
  p->dev = dev;
  place_bytes(p);
}

// Counts what the plan, which is whole, holds.
static void count_bytes(tc_plan *p) {
  size_t per_node = 2 * sizeof p->at[0] + 3 * sizeof p->leaf_of[0] + sizeof p->dev[0];
  p->bytes = sizeof *p + p->n_word * sizeof p->word[0] + (p->n_node + 1) * per_node + 2 * (size_t)p->n_leaf +
             (p->n_out + 1) * (sizeof p->out[0] + sizeof p->hold_out[0]) + (p->program ? tc_lowering.bytes(p->program) : 0);
  tc_memory_of_plans((ptrdiff_t)p->bytes);
}

static tc_status make(const tc_trace *t, uint32_t n_rec_words, uint32_t n_word, tc_hash hash, tc_plan **out) {
  tc_plan *p = of_trace(t, n_rec_words, n_word);
  if (!p) return TC_FAIL(TC_ERR_MEMORY, "no room for a plan");
  p->hash = hash;
  tc_status st = analyse(p);
  if (st == TC_OK) shrink(p);
  if (st == TC_OK) st = tc_lowering.lower(p);
  if (st != TC_OK) return destroy(p), st;
  count_bytes(p);
  *out = p;
  return TC_OK;
}

// ---- the budget ----

static _Atomic uint64_t said_budget = UINT64_MAX;  // relaxed: it is a number that goes into keys; UINT64_MAX: nobody said one

uint64_t tc_plan_budget_now(void) {
  uint64_t said = atomic_load_explicit(&said_budget, memory_order_relaxed);
  return said == UINT64_MAX ? (uint64_t)tc_options_get()->memory_budget : said;
}

tc_status tc_set_memory_budget_at(size_t bytes, tc_site site) {
  if (!tc_enter("set_memory_budget", site)) return TC_ERR_STATE;
  atomic_store_explicit(&said_budget, bytes, memory_order_relaxed);
  tc_leave();
  return TC_OK;
}

tc_status tc_plan_of_record(const tc_plan *p, uint32_t node, tc_device device, tc_plan **out) {
  *out = NULL;
  const tc_rec *r = tc_plan_rec(p, node);
  uint32_t n_in = (uint32_t)tc_rec_arity(r), n_rec_words = 2 * n_in + 2 + r->n_extra;
  tc_plan *q = allocate(n_in + 1, n_in, tc_rec_args(r), n_rec_words, n_rec_words + n_in / 8 + 2);
  if (!q) return TC_FAIL(TC_ERR_MEMORY, "no room for a plan");
  memset(q->word, 0, q->n_word * sizeof q->word[0]);
  memset(q->dev, (int)device, q->n_node);
  for (uint32_t i = 0; i < n_in; i++) {
    const tc_rec *from = tc_plan_rec(p, tc_rec_in(r)[i]);
    q->at[i] = 2 * i, q->leaf_of[i] = i, q->out_of[i] = TC_LEAF_NONE;
    *(tc_rec *)(void *)(q->word + 2 * i) = (tc_rec){.op_args = TC_OP_LEAF, .dtype = from->dtype, .shape = from->shape, .in = {(uint32_t)device}};
  }
  q->at[n_in] = 2 * n_in, q->leaf_of[n_in] = TC_LEAF_NONE, q->out_of[n_in] = 0;
  memset(q->arg_at, 0, q->n_node * sizeof q->arg_at[0]);
  memcpy(q->word + 2 * n_in, r, (2 + (size_t)r->n_extra) * sizeof q->word[0]);
  uint32_t *in = (uint32_t *)(uintptr_t)tc_rec_in(tc_plan_rec(q, n_in));
  for (uint32_t i = 0; i < n_in; i++) in[i] = i;
  find_same_bytes(q);
  q->out[q->n_out++] = (tc_out){n_in, TC_LEAF_NONE, (size_t)tc_dims_at(r->shape)->count * tc_type_bytes((tc_type)r->dtype)};
  tc_status st = tc_lowering.lower(q);
  if (st != TC_OK) return destroy(q), st;
  *out = q;
  return TC_OK;
}

// pre: locked.
static tc_plan *find_locked(const uint64_t *word, uint32_t n_word, tc_hash hash) {
  for (tc_plan *p = self.bucket[hash.lo % N_BUCKETS]; p; p = p->next)
    if (p->hash.lo == hash.lo && p->hash.hi == hash.hi && p->n_word == n_word && memcmp(p->word, word, (size_t)n_word * sizeof word[0]) == 0)
      return p;
  return NULL;
}

// pre: locked. Takes out the plan that was not used for longest, if any; its reference is the caller's.
static tc_plan *evict_locked(void) {
  tc_plan **oldest = NULL;
  for (int b = 0; b < N_BUCKETS; b++)
    for (tc_plan **p = &self.bucket[b]; *p; p = &(*p)->next)
      if (!oldest || atomic_load_explicit(&(*p)->used, memory_order_relaxed) < atomic_load_explicit(&(*oldest)->used, memory_order_relaxed))
        oldest = p;
  if (!oldest) return NULL;
  tc_plan *p = *oldest;
  *oldest = p->next;
  self.n--, self.bytes -= p->bytes;
  atomic_store(&p->gone, true);  // before traces' latest plans are looked through: see remember
  return p;
}

// pre: locked. The cache holds more than it should. What was used last is kept, however large it is: a loop would else plan each step.
static bool is_full(void) {
  const tc_options *o = tc_options_get();
  return self.n > (size_t)TC_MAX_OF(o->plan_cache, 1) || (self.n > 1 && self.bytes > (size_t)o->plan_cache_bytes);
}

// Releases plans that were taken out of the cache, linked by next, for the cache and for the traces that had them among their latest.
static void drop_evicted(tc_plan *gone) {
  for (tc_plan *next; gone; gone = next) {
    next = gone->next;
    tc_trace_forget_plan(gone);
    tc_plan_release(gone);
  }
}

// Counts a use of the cache, which retains the plan.
static tc_plan *use(tc_plan *p) {
  uint64_t now = atomic_fetch_add_explicit(&self.uses, 1, memory_order_relaxed) + 1;
  atomic_store_explicit(&p->used, now, memory_order_relaxed);
  return tc_plan_retain(p);
}

static void log_hit(const tc_plan *p) {
  if (tc_log_on(TC_LOG_CACHE)) tc_log_line(TC_LOG_CACHE, "plan %016llx: hit", (unsigned long long)p->hash.lo);
}

// The cached plan of these words, retained, or NULL.
static tc_plan *find(const uint64_t *word, uint32_t n_word, tc_hash hash) {
  pthread_mutex_lock(&self.lock);
  tc_plan *p = find_locked(word, n_word, hash);
  if (p) (void)use(p);
  pthread_mutex_unlock(&self.lock);
  if (p) log_hit(p);
  return p;
}

// Puts a new plan into the cache, which takes a reference of its own.
static void keep(tc_plan *p) {
  pthread_mutex_lock(&self.lock);
  self.misses++;
  (void)use(p);
  p->next = self.bucket[p->hash.lo % N_BUCKETS];
  self.bucket[p->hash.lo % N_BUCKETS] = p;
  self.n++, self.bytes += p->bytes;
  tc_plan *gone = NULL;
  while (is_full()) {
    tc_plan *oldest = evict_locked();
    oldest->next = gone;
    gone = oldest;
  }
  pthread_mutex_unlock(&self.lock);
  if (tc_log_on(TC_LOG_CACHE)) {
    tc_log_line(TC_LOG_CACHE, "plan %016llx: miss", (unsigned long long)p->hash.lo);
    for (const tc_plan *g = gone; g; g = g->next) tc_log_line(TC_LOG_CACHE, "plan %016llx: evicted", (unsigned long long)g->hash.lo);
  }
  drop_evicted(gone);
}

// ---- a trace's latest plans ----

// By the trace's owner, or by others.
static void lock_latest(tc_trace *t) {
  if (t == tc_trace_mine)
    tc_biased_lock_own(&t->latest_lock);
  else
    tc_biased_lock_other(&t->latest_lock);
}

static void unlock_latest(tc_trace *t) {
  if (t == tc_trace_mine)
    tc_biased_unlock_own(&t->latest_lock);
  else
    tc_biased_unlock_other(&t->latest_lock);
}

// A plan, which may be NULL, in a place among them; what was there, with its reference.
static tc_plan *replace_latest(tc_trace *t, uint32_t i, tc_plan *p) {
  lock_latest(t);
  tc_plan *was = t->latest[i];
  t->latest[i] = p;
  unlock_latest(t);
  return was;
}

void tc_plan_forget_latest(tc_trace *t) {
  for (uint32_t i = 0; i < TC_LATEST_PLANS; i++) tc_plan_release(replace_latest(t, i, NULL));
}

void tc_plan_forget(tc_trace *t, tc_plan *gone) {
  uint32_t n = 0;
  lock_latest(t);
  for (int i = 0; i < TC_LATEST_PLANS; i++) {
    if (t->latest[i] != gone) continue;
    t->latest[i] = NULL;
    n++;
  }
  unlock_latest(t);
  while (n--) tc_plan_release(gone);
}

// One of the latest that has the key, retained; without the key's hash and the cache's lock.
static tc_plan *find_latest(tc_trace *t, uint32_t n_word) {
  tc_plan *found = NULL;
  lock_latest(t);
  for (int i = 0; i < TC_LATEST_PLANS && !found; i++) {
    tc_plan *p = t->latest[i];
    if (p && p->n_word == n_word && memcmp(p->word, t->word, (size_t)n_word * sizeof t->word[0]) == 0) found = use(p);
  }
  unlock_latest(t);
  if (found) log_hit(found);
  return found;
}

// One that was evicted since it was found goes again: who evicted it has looked already.
static void remember(tc_trace *t, tc_plan *p) {
  uint32_t i = t->next_latest++ % TC_LATEST_PLANS;
  tc_plan_release(replace_latest(t, i, tc_plan_retain(p)));
  if (atomic_load(&p->gone)) tc_plan_forget(t, p);
}

tc_status tc_plan_get(tc_trace *t, uint32_t n_rec_words, uint32_t n_word, tc_plan **out, bool *hit, uint64_t *compile_ticks) {
  *hit = true;
  if ((*out = find_latest(t, n_word)) != NULL) return TC_OK;
  tc_hash hash = tc_hash_bytes(t->word, (size_t)n_word * sizeof t->word[0]);
  *out = find(t->word, n_word, hash);
  *hit = *out != NULL;
  if (!*hit) {
    uint64_t start = tc_ticks();
    tc_watch watch;
    tc_watch_begin(&watch, t->n_node);
    tc_status st = make(t, n_rec_words, n_word, hash, out);
    tc_watch_end(&watch);
    TC_TRY(st);
    *compile_ticks += tc_ticks_between(start, tc_ticks());
    keep(*out);
  }
  remember(t, *out);
  return TC_OK;
}

// The records stand as they would in a trace, where no TO leads to another memory: so no trace has this key.
tc_status tc_plan_of_carried(tc_type type, uint32_t shape, tc_device from, tc_device to, tc_plan **out) {
  enum { TO_WORD = 2, N_REC_WORDS = 5, N_WORD = 7 };  // behind the records are the flags' and the environment's words, 0
  uint64_t word[N_WORD] = {[TO_WORD + 2] = to};
  const tc_rec leaf = {.op_args = TC_OP_LEAF, .dtype = (uint8_t)type, .shape = shape, .in = {from}};
  const tc_rec there = {.op_args = TC_OP_TO, .dtype = (uint8_t)type, .n_extra = 1, .shape = shape};
  memcpy(word, &leaf, sizeof leaf), memcpy(word + TO_WORD, &there, sizeof there);
  tc_hash hash = tc_hash_bytes(word, sizeof word);
  if ((*out = find(word, N_WORD, hash)) != NULL) return TC_OK;
  tc_plan *p = allocate(2, 1, 0, N_REC_WORDS, N_WORD);
  if (!p) return TC_FAIL(TC_ERR_MEMORY, "no room for a plan");
  memcpy(p->word, word, sizeof word);
  p->hash = hash;
  p->at[0] = 0, p->at[1] = TO_WORD;
  p->arg_at[0] = p->arg_at[1] = 0;
  p->leaf_of[0] = 0, p->leaf_of[1] = p->out_of[0] = p->out_of[1] = TC_LEAF_NONE;
  p->dev[0] = (uint8_t)from, p->dev[1] = (uint8_t)to;
  find_same_bytes(p);
  shrink(p);
  count_bytes(p);
  keep(p);
  *out = p;
  return TC_OK;
}

// Empties the cache. What runs are held for holds its plan on.
static void clear(void) {
  tc_plan *gone = NULL;
  pthread_mutex_lock(&self.lock);
  for (int b = 0; b < N_BUCKETS; b++) {
    for (tc_plan *p = self.bucket[b], *next; p; p = next) {
      next = p->next;
      atomic_store(&p->gone, true);
      p->next = gone;
      gone = p;
    }
    self.bucket[b] = NULL;
  }
  self.n = self.bytes = 0;
  pthread_mutex_unlock(&self.lock);
  drop_evicted(gone);
}

static void clear_at_exit(void) __attribute__((destructor));
static void clear_at_exit(void) {
  if (!tc_inside) clear();
}

void tc_cache_clear(void) {
  if (!tc_enter("cache_clear", 0)) return;
  clear();
  tc_lowering.clear();
  tc_leave();
}

tc_cache_info tc_cache_stats(void) {
  tc_cache_info info = {0};
  if (!tc_enter("cache_stats", 0)) return info;
  pthread_mutex_lock(&self.lock);
  info.plan_hits = atomic_load_explicit(&self.uses, memory_order_relaxed) - self.misses, info.plan_misses = self.misses, info.n_plans = self.n;
  pthread_mutex_unlock(&self.lock);
  tc_lowering.stats(&info);
  tc_leave();
  return info;
}
