// The cache of plans. See plan_cache.h.
#include "lazy/trace/thread_trace.h"
#include "lazy/sync/plan_cache.h"

#include <string.h>

#include "lazy/lowering.h"
#include "lazy/sync/plan_build.h"
#include "lazy/sync/size_cache.h"
#include "lazy/trace/body.h"
#include "lazy/trace/latest_plans.h"
#include "runtime/fork.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/profile.h"
#include "runtime/reentry.h"
#include "runtime/watch.h"

#define N_LEFT 1024  // plans that left the cache, whose hashes are kept

static struct {
  pthread_mutex_t lock;
  tc_lru plans;
  uint64_t misses;
  _Atomic uint64_t uses;  // hits and misses
  struct left {  // plans that left the cache, by their hash
    uint64_t hash;
    tc_prof_miss by;
  } left[N_LEFT];
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 2)

// pre: locked.
static tc_plan *find_locked(const uint64_t *word, uint32_t n_word, tc_hash hash) {
  for (tc_lru_entry *e = tc_lru_first(&self.plans, hash.lo); e; e = e->next) {
    tc_plan *p = (tc_plan *)e;
    if (p->hash.lo == hash.lo && p->hash.hi == hash.hi && p->n_word == n_word &&
        memcmp(p->word, word, (size_t)n_word * sizeof word[0]) == 0)
      return p;
  }
  return NULL;
}

// pre: locked. Marks plans that left the cache, before traces' latest plans are looked through: see
// remember.
static tc_lru_entry *mark_gone(tc_lru_entry *gone, tc_prof_miss by) {
  for (tc_lru_entry *e = gone; e; e = e->next) {
    tc_plan *p = (tc_plan *)e;
    atomic_store(&p->gone, true);
    self.left[p->hash.lo % N_LEFT] = (struct left){p->hash.lo, by};
  }
  return gone;
}

tc_prof_miss tc_plan_miss(const tc_plan *p) {
  if (p->is_bound) return TC_PROF_MISS_BOUND;
  pthread_mutex_lock(&self.lock);
  const struct left *l = &self.left[p->hash.lo % N_LEFT];
  tc_prof_miss by = l->hash == p->hash.lo && l->by ? l->by : TC_PROF_MISS_NEW;
  pthread_mutex_unlock(&self.lock);
  return by;
}

// Releases plans that were taken out of the cache, for the cache and for the traces that had them
// among their latest.
static void drop_evicted(tc_lru_entry *gone) {
  for (tc_lru_entry *next; gone; gone = next) {
    next = gone->next;
    tc_trace_forget_plan((tc_plan *)gone);
    tc_size_cache_forget((const tc_plan *)gone);
    tc_plan_release((tc_plan *)gone);
  }
}

// Counts a use of the cache.
static tc_plan *count_use(tc_plan *p) {
  uint64_t now = atomic_fetch_add_explicit(&self.uses, 1, memory_order_relaxed) + 1;
  atomic_store_explicit(&p->entry.used, now, memory_order_relaxed);
  return p;
}

static void log_hit(const tc_plan *p) {
  if (tc_log_on(TC_LOG_CACHE)) tc_log_line(TC_LOG_CACHE, "plan %016llx: hit", (unsigned long long)p->hash.lo);
}

// The cached plan of these words, retained, or NULL.
static tc_plan *find_plan(const uint64_t *word, uint32_t n_word, tc_hash hash) {
  pthread_mutex_lock(&self.lock);
  tc_plan *p = find_locked(word, n_word, hash);
  if (p) (void)tc_plan_retain(count_use(p));
  pthread_mutex_unlock(&self.lock);
  if (p) log_hit(p);
  return p;
}

// Puts a new plan into the cache, which takes a reference of its own.
static void keep_plan(tc_plan *p) {
  const tc_options *o = tc_options_get();
  pthread_mutex_lock(&self.lock);
  self.misses++;
  (void)tc_plan_retain(count_use(p));
  tc_lru_add(&self.plans, &p->entry, p->hash.lo);
  // What was used last is kept, however large it is: a loop would else plan each step.
  tc_lru_entry *gone =
      mark_gone(tc_lru_evict(&self.plans, (size_t)TC_MAX_OF(o->plan_cache, 1), (size_t)o->plan_cache_bytes),
                TC_PROF_MISS_EVICTED);
  pthread_mutex_unlock(&self.lock);
  if (tc_log_on(TC_LOG_CACHE)) {
    tc_log_line(TC_LOG_CACHE, "plan %016llx: miss", (unsigned long long)p->hash.lo);
    for (const tc_lru_entry *e = gone; e; e = e->next)
      tc_log_line(TC_LOG_CACHE, "plan %016llx: evicted", (unsigned long long)((const tc_plan *)e)->hash.lo);
  }
  drop_evicted(gone);
}

// A mode asks that the plan stays.
static void pin_plan(tc_plan *p) {
  if (TC_UNLIKELY(tc_options_get()->pin_plans)) atomic_store_explicit(&p->entry.pinned, true, memory_order_relaxed);
}

tc_status tc_plan_get(tc_trace *t, uint32_t n_rec_words, uint32_t n_word, tc_plan **out, bool *hit,
                      uint64_t *compile_ticks) {
  *hit = true;
  if ((*out = tc_latest_find(t, n_word)) != NULL) {
    log_hit(count_use(*out));
    pin_plan(*out);
    return TC_OK;
  }
  tc_hash hash = tc_hash_bytes(t->word, (size_t)n_word * sizeof t->word[0]);
  uint64_t pattern = 0;
  bool bound = false;
  if (!(*out = find_plan(t->word, n_word, hash)) &&
      (*out = tc_size_cache_find(t, n_rec_words, n_word, hash, &pattern, &bound, compile_ticks)) != NULL)
    (void)count_use(*out);
  *hit = *out && !bound;
  if (!*out) {
    uint64_t start = tc_ticks(), took;
    tc_watch watch;
    tc_watch_begin(&watch, t->n_node);
    tc_status st = tc_plan_build(t, n_rec_words, n_word, hash, out);
    tc_watch_end(&watch);
    TC_TRY(st);
    *compile_ticks += took = tc_ticks_between(start, tc_ticks());
    pin_plan(*out);
    keep_plan(*out);
    tc_size_cache_note(*out, pattern, took - TC_MIN(took, (*out)->compile_ticks));
  } else {
    pin_plan(*out);
  }
  tc_latest_add(t, *out);
  return TC_OK;
}

// The records stand as they would in a trace, where no TO leads to another memory: so no trace has
// this key.
tc_status tc_plan_of_carried(tc_type type, uint32_t shape, tc_device from, tc_device to, tc_plan **out) {
  // behind the records are the flags' and the environment's words, 0
  enum { TO_WORD = 2, N_REC_WORDS = 5, N_WORD = 7 };
  uint64_t word[N_WORD] = {[TO_WORD + 2] = to};
  const tc_rec leaf = {.op_args = TC_OP_LEAF, .dtype = (uint8_t)type, .shape = shape, .in = {from}};
  const tc_rec there = {.op_args = TC_OP_TO, .dtype = (uint8_t)type, .n_extra = 1, .shape = shape};
  memcpy(word, &leaf, sizeof leaf), memcpy(word + TO_WORD, &there, sizeof there);
  tc_hash hash = tc_hash_bytes(word, sizeof word);
  if ((*out = find_plan(word, N_WORD, hash)) != NULL) return TC_OK;
  tc_plan *p = tc_plan_allocate(2, 1, 0, N_REC_WORDS, N_WORD);
  if (!p) return TC_FAIL(TC_ERR_MEMORY, "no room for a plan");
  memcpy(p->word, word, sizeof word);
  p->hash = hash;
  p->at[0] = 0, p->at[1] = TO_WORD;
  p->arg_at[0] = p->arg_at[1] = 0;
  p->leaf_of[0] = 0, p->leaf_of[1] = p->out_of[0] = p->out_of[1] = TC_LEAF_NONE;
  p->dev[0] = (uint8_t)from, p->dev[1] = (uint8_t)to;
  tc_plan_find_same_bytes(p);
  tc_plan_shrink(p);
  tc_plan_count_bytes(p);
  keep_plan(p);
  *out = p;
  return TC_OK;
}

tc_plan *tc_plan_allocate_of_body(const tc_body *b, tc_device device, const tc_plan *like) {
  uint32_t flag_words = (b->n_node + 7) / 8, n_word = b->n_word + flag_words + b->n_out + 2;
  tc_plan *p = tc_plan_allocate(b->n_node, b->n_in, b->n_arg, b->n_word, n_word);
  if (!p) return NULL;
  memset(p->word, 0, n_word * sizeof p->word[0]);
  memcpy(p->word, b->word, b->n_word * sizeof p->word[0]);
  memcpy(p->at, b->at, b->n_node * sizeof p->at[0]);
  memcpy(p->arg_at, b->arg_at, b->n_node * sizeof p->at[0]);
  memset(p->dev, (int)device, b->n_node);
  memset(p->leaf_of, 0xFF, b->n_node * sizeof p->leaf_of[0]);
  memset(p->out_of, 0xFF, b->n_node * sizeof p->out_of[0]);
  for (uint32_t i = 0; i < b->n_in; i++) p->leaf_of[i] = i;
  for (uint32_t n = 0; n < b->n_node; n++) {
    tc_rec *r = (tc_rec *)(void *)(p->word + p->at[n]);
    if (tc_rec_arity(r) == 0) r->in[0] = (uint32_t)device;
  }
  uint8_t *flag = (uint8_t *)(p->word + b->n_word);
  for (uint32_t i = 0; i < b->n_out; i++) {
    const tc_rec *r = tc_body_rec(b, b->out[i]);
    size_t bytes = (size_t)tc_dims_at(r->shape)->count * tc_type_bytes((tc_type)r->dtype);
    flag[b->out[i]] = TC_NODE_ASKED;
    p->out_of[b->out[i]] = i;
    p->out[p->n_out++] = (tc_out){b->out[i], TC_LEAF_NONE, bytes};
  }
  for (uint32_t i = 0; i < b->n_out; i++)
    p->word[b->n_word + flag_words + i] = b->out[i];  // their order is in no record
  p->word[n_word - 2] = like->word[like->n_word - 2] & ~TC_KEY_PREPARES;
  p->word[n_word - 1] = tc_plan_budget(like);
  tc_plan_find_same_bytes(p);
  tc_plan_shrink(p);
  return p;
}

tc_status tc_plan_of_body(const tc_body *b, tc_device device, const tc_plan *like, tc_plan **out) {
  *out = NULL;
  tc_plan *p = tc_plan_allocate_of_body(b, device, like);
  if (!p) return TC_FAIL(TC_ERR_MEMORY, "no room for a plan");
  p->hash = tc_hash_bytes(p->word, (size_t)p->n_word * sizeof p->word[0]);
  if ((*out = find_plan(p->word, p->n_word, p->hash)) != NULL) return tc_plan_release(p), TC_OK;
  tc_status st = tc_lowering.lower(p);
  if (st != TC_OK) return tc_plan_release(p), st;
  tc_plan_count_bytes(p);
  keep_plan(p);
  *out = p;
  return TC_OK;
}

// Empties the cache. What runs are held for holds its plan on.
static void clear_cache(void) {
  pthread_mutex_lock(&self.lock);
  tc_lru_entry *gone = mark_gone(tc_lru_take_all(&self.plans), TC_PROF_MISS_CLEARED);
  pthread_mutex_unlock(&self.lock);
  tc_size_cache_clear();
  drop_evicted(gone);
}

static void clear_at_exit(void) __attribute__((destructor));
static void clear_at_exit(void) {
  if (tc_frees_at_exit()) clear_cache();
}

void tc_cache_clear(void) {
  if (!tc_enter("cache_clear", 0)) return;
  clear_cache();
  tc_lowering.clear();
  tc_leave();
}

tc_cache_info tc_cache_stats(void) {
  tc_cache_info info = {0};
  if (!tc_enter("cache_stats", 0)) return info;
  pthread_mutex_lock(&self.lock);
  info.plan_hits = atomic_load_explicit(&self.uses, memory_order_relaxed) - self.misses, info.plan_misses = self.misses,
  info.n_plans = self.plans.n;
  pthread_mutex_unlock(&self.lock);
  info.plan_bound = tc_size_cache_count();
  tc_lowering.stats(&info);
  tc_leave();
  return info;
}
