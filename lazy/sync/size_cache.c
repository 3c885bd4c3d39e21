// Families of keys that differ in sizes, found by their pattern. See size_cache.h.
#include "lazy/sync/size_cache.h"

#include <pthread.h>
#include <string.h>

#include "lazy/lowering.h"
#include "lazy/sync/plan_build.h"
#include "lazy/sync/size_guess.h"
#include "lazy/sync/size_map.h"
#include "lazy/trace/thread_trace.h"
#include "runtime/arena.h"
#include "runtime/fork.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/profile.h"

#define MOST_FAMILIES 256  // the one that was not used for longest goes first
#define MOST_NODES 4096  // of a graph
#define MOST_PIECES 16  // programs for many sizes of one graph
#define MOST_REFUSED 16  // boxes for which there is none
#define MOST_BOUND 64  // bound plans of one graph
#define MOST_BOUND_BYTES ((size_t)1 << 20)  // of them, but for the latest
// Time spent for nothing, of what lowering the graph took so far; and what is spent in any case.
#define MOST_TRIED 2
#define ANY_TRIED_TICKS 30000000
// A graph that takes longer to lower is lowered for many sizes once it was for so many. A program's
// last batch, which is smaller than the others, is no reason.
#define LONG_TICKS 15000000
#define LONG_SIZES 4

typedef struct family {
  uint64_t pattern, used;
  uint32_t refs;  // guarded by the lock: the table's, and those of threads that bind
  tc_plan *base;  // retained
  const uint64_t *key[TC_MOST_KEYS];  // the base's word, then copies
  uint32_t n_key;
  tc_size_map *map;  // NULL: one size was met
  struct {
    void *general;
    tc_size_box box;
  } piece[MOST_PIECES];
  uint32_t n_piece;
  tc_size_box refused[MOST_REFUSED];
  uint32_t n_refused, n_maps;  // n_maps: keys that the map did not have
  bool building;  // true: a thread lowers for many sizes, or makes another map
  uint32_t n_lowered;  // sizes
  uint64_t lowered, tried;  // ticks: of lowering for one size each; of tries that gave nothing
  tc_plan *bound[MOST_BOUND];  // retained
  uint32_t next_bound;
  size_t bound_bytes;
} family;

static struct {
  pthread_mutex_t lock;
  family *of[MOST_FAMILIES];
  uint32_t n;
  uint64_t clock, n_bound;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 2)

// ---- whether sizes are bound ----

typedef enum dynamic { DYNAMIC_NEVER, DYNAMIC_AUTOMATIC, DYNAMIC_ALWAYS } dynamic;

static dynamic dynamic_now(void) {
  const tc_options *o = tc_options_get();
  if (strcmp(o->dynamic, "0") == 0 || strcmp(o->backend, "default") != 0 || !o->generic_kernels || o->autotune ||
      !tc_lowering.lower_any_size)
    return DYNAMIC_NEVER;
  return strcmp(o->dynamic, "1") == 0 ? DYNAMIC_ALWAYS : DYNAMIC_AUTOMATIC;
}

// ---- families ----

static void destroy_family(family *f) {
  for (uint32_t i = 0; i < MOST_BOUND; i++) {
    if (!f->bound[i]) continue;
    tc_trace_forget_plan(f->bound[i]);
    tc_plan_release(f->bound[i]);
  }
  for (uint32_t i = 0; i < f->n_piece; i++) {
    tc_memory_of_plans(-(ptrdiff_t)tc_lowering.any_size_bytes(f->piece[i].general));
    tc_lowering.drop_any_size(f->piece[i].general);
  }
  for (uint32_t i = 1; i < f->n_key; i++) tc_free((void *)(uintptr_t)f->key[i]);
  if (f->map) tc_size_map_destroy(f->map);
  tc_plan_release(f->base);
  tc_free(f);
}

static void release_family(family *f) {
  if (!f) return;
  pthread_mutex_lock(&self.lock);
  bool last = --f->refs == 0;
  pthread_mutex_unlock(&self.lock);
  if (last) destroy_family(f);
}

static family *create_family(tc_plan *base, uint64_t pattern) {
  family *f = tc_calloc(1, sizeof *f);
  if (!f) return NULL;
  f->pattern = pattern, f->refs = 1, f->base = tc_plan_retain(base);
  f->key[0] = base->word, f->n_key = 1;
  return f;
}

// pre: locked.
static uint32_t find_locked(uint64_t pattern) {
  uint32_t i = 0;
  while (i < self.n && self.of[i]->pattern != pattern) i++;
  return i;
}

// Puts the family, whose reference it takes, in the place of one with its pattern, or of the one
// used longest ago.
static void put_family(family *f) {
  pthread_mutex_lock(&self.lock);
  uint32_t i = find_locked(f->pattern);
  family *gone = i < self.n ? self.of[i] : NULL;
  if (!gone && self.n < MOST_FAMILIES) {
    i = self.n++;
  } else if (!gone) {
    i = 0;
    for (uint32_t k = 1; k < self.n; k++)
      if (self.of[k]->used < self.of[i]->used) i = k;
    gone = self.of[i];
  }
  f->used = ++self.clock;
  self.of[i] = f;
  pthread_mutex_unlock(&self.lock);
  release_family(gone);
}

// ---- bound plans ----

// pre: locked.
static tc_plan *find_bound_locked(const family *f, const uint64_t *word, uint32_t n_word, tc_hash hash) {
  for (uint32_t i = 0; i < MOST_BOUND; i++) {
    tc_plan *p = f->bound[i];
    if (p && p->hash.lo == hash.lo && p->hash.hi == hash.hi && p->n_word == n_word &&
        memcmp(p->word, word, n_word * sizeof *word) == 0)
      return p;
  }
  return NULL;
}

// Retains the plan for the family; the latest ones stay.
static void keep_bound(family *f, tc_plan *p) {
  tc_plan *gone[MOST_BOUND];
  uint32_t n_gone = 0;
  pthread_mutex_lock(&self.lock);
  self.n_bound++;
  uint32_t at = f->next_bound++ % MOST_BOUND;
  for (uint32_t i = 0; i < MOST_BOUND; i++) {  // from the one kept for longest on
    tc_plan **old = &f->bound[(at + i) % MOST_BOUND];
    if (!*old || (i > 0 && f->bound_bytes + p->entry.bytes <= MOST_BOUND_BYTES)) continue;
    f->bound_bytes -= (*old)->entry.bytes;
    gone[n_gone++] = *old, *old = NULL;
  }
  f->bound[at] = tc_plan_retain(p), f->bound_bytes += p->entry.bytes;
  pthread_mutex_unlock(&self.lock);
  while (n_gone > 0) tc_plan_release(gone[--n_gone]);
}

static tc_plan *bind_plan(family *f, const void *general, const int64_t *size, const uint64_t *word, tc_hash hash) {
  tc_error_mark before = tc_error_now();
  tc_plan *p = tc_plan_copy(f->base, word);
  if (!p) return NULL;
  p->hash = hash, p->is_bound = true, p->options = tc_options_get();
  tc_status st = tc_lowering.bind(general, size, p);
  if (st != TC_OK) {
    if (st != TC_ERR_STATE) (void)tc_error_tell(before);
    return tc_plan_release(p), NULL;
  }
  tc_plan_count_bytes(p);
  keep_bound(f, p);
  return p;
}

// ---- programs for many sizes ----

typedef struct source {
  tc_size_source is;
  const tc_size_map *map;
} source;

static bool plan_at(const tc_size_source *from, const int64_t *size, tc_plan *out) {
  return tc_size_map_plan_at(((const source *)(const void *)from)->map, size, out);
}

static bool has_sizes(const tc_size_box *b, const int64_t *size, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (size[i] < b->low[i] || size[i] > b->high[i]) return false;
  return true;
}

static void log_general(const family *f, const tc_size_box *b, const char *why) {
  char text[160] = "";
  size_t at = 0;
  if (!tc_log_on(TC_LOG_CACHE)) return;
  for (uint32_t i = 0; i < tc_size_map_count(f->map) && at < sizeof text; i++)
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld to %lld", i ? ", " : "", (long long)b->low[i],
                           (long long)b->high[i]);
  tc_log_line(TC_LOG_CACHE, why ? "plan %016llx: sizes %s are not bound: %s" : "plan %016llx: lowered for sizes %s%s",
              (unsigned long long)f->base->hash.lo, text, why ? why : "");
}

// Lowers for sizes around these. pre: the family is building. NULL: it is not possible.
static void *lower_any_size(family *f, const int64_t *size) {
  source from = {{.n_size = tc_size_map_count(f->map), .plan_at = plan_at}, f->map};
  tc_size_box box;
  const char *why = NULL;
  memcpy(from.is.at, size, sizeof from.is.at);
  uint64_t start = tc_ticks();
  void *general = tc_lowering.lower_any_size(&from.is, &box, &why);
  log_general(f, &box, why);
  pthread_mutex_lock(&self.lock);
  if (general) {
    tc_memory_of_plans((ptrdiff_t)tc_lowering.any_size_bytes(general));
    f->piece[f->n_piece].general = general, f->piece[f->n_piece++].box = box;
  } else {
    f->refused[f->n_refused++] = box;
    f->tried += tc_ticks_between(start, tc_ticks());
  }
  pthread_mutex_unlock(&self.lock);
  return general;
}

// pre: locked. Whether the family may be lowered for sizes around these.
static bool may_try_locked(const family *f, const int64_t *size) {
  bool is_long = f->lowered > f->n_lowered * (uint64_t)LONG_TICKS && f->n_lowered < LONG_SIZES;
  if (is_long || f->building || f->n_piece == MOST_PIECES || f->n_refused == MOST_REFUSED) return false;
  for (uint32_t i = 0; i < f->n_refused; i++)
    if (has_sizes(&f->refused[i], size, tc_size_map_count(f->map))) return false;
  return f->tried <= MOST_TRIED * f->lowered + ANY_TRIED_TICKS;
}

static void stop_building(family *f) {
  pthread_mutex_lock(&self.lock);
  f->building = false;
  pthread_mutex_unlock(&self.lock);
}

// A plan bound to these sizes, by a program that is there, or that is made. NULL: there is none.
static tc_plan *bind_or_make(family *f, const int64_t *size, const uint64_t *word, tc_hash hash) {
  tc_plan *p = NULL;
  pthread_mutex_lock(&self.lock);
  uint32_t n = f->n_piece;
  pthread_mutex_unlock(&self.lock);
  for (uint32_t i = 0; i < n && !p; i++)  // pieces do not change
    if (has_sizes(&f->piece[i].box, size, tc_size_map_count(f->map)))
      p = bind_plan(f, f->piece[i].general, size, word, hash);
  if (p) return p;
  pthread_mutex_lock(&self.lock);
  bool tries = f->n_piece == n && may_try_locked(f, size);
  f->building |= tries;
  pthread_mutex_unlock(&self.lock);
  if (!tries) return NULL;
  const void *general = lower_any_size(f, size);
  stop_building(f);
  return general ? bind_plan(f, general, size, word, hash) : NULL;
}

// A family of the same base whose map has this key, too. NULL: there is no such map.
static family *family_with(family *f, const uint64_t *word) {
  const tc_plan *b = f->base;
  family *g = NULL;
  pthread_mutex_lock(&self.lock);
  bool tries = !f->building && f->n_key < TC_MOST_KEYS && f->n_maps < TC_MOST_KEYS;
  f->building |= tries, f->n_maps++;
  pthread_mutex_unlock(&self.lock);
  if (!tries) return NULL;
  if ((g = create_family(f->base, f->pattern)) != NULL) {
    g->lowered = f->lowered, g->n_lowered = f->n_lowered, g->tried = f->tried;
    bool room = true;
    for (uint32_t i = 1; i <= f->n_key && room; i++) {
      uint64_t *copy = tc_malloc(b->n_word * sizeof *copy);
      room = copy != NULL;
      if (room) memcpy(copy, i < f->n_key ? f->key[i] : word, b->n_word * sizeof *copy), g->key[g->n_key++] = copy;
    }
    if (room) g->map = tc_size_map_create(b, g->key, g->n_key);
    if (!g->map) destroy_family(g), g = NULL;
  }
  if (tc_log_on(TC_LOG_CACHE) && !g)
    tc_log_line(TC_LOG_CACHE, "plan %016llx: another key differs from it by more than sizes",
                (unsigned long long)b->hash.lo);
  stop_building(f);
  return g;
}

// TC_DYNAMIC=1: lowers for many sizes before a second key comes. A guess that leads to nothing is
// forgotten.
static void guess_sizes(family *f) {
  const tc_plan *b = f->base;
  int64_t size[TC_MAX_SIZES];
  uint64_t *word = tc_malloc(b->n_word * sizeof *word);
  if (word && tc_size_guess_key(b, word)) {
    f->key[f->n_key++] = word;
    f->map = tc_size_map_create(b, f->key, f->n_key);
    if (f->map && tc_size_map_find(f->map, b->word, size) && lower_any_size(f, size)) return;
    if (f->map) tc_size_map_destroy(f->map);
    f->map = NULL, f->n_key = 1, f->n_refused = 0, f->tried = 0;
  }
  tc_free(word);
}

// ---- the interface ----

tc_plan *tc_size_cache_find(const tc_trace *t, uint32_t n_rec_words, uint32_t n_word, tc_hash hash, uint64_t *pattern,
                            bool *is_new, uint64_t *ticks) {
  *pattern = 0;
  *is_new = false;
  if (dynamic_now() == DYNAMIC_NEVER || t->n_node > MOST_NODES || t->word[n_word - 1] != 0) return NULL;
  uint64_t start = tc_ticks();
  *pattern = tc_size_pattern(t->word, n_rec_words, n_word, t->at, t->n_node);
  if (!*pattern) return NULL;
  pthread_mutex_lock(&self.lock);
  uint32_t i = find_locked(*pattern);
  family *f = i < self.n ? self.of[i] : NULL;
  tc_plan *p = f ? find_bound_locked(f, t->word, n_word, hash) : NULL;
  if (f) f->used = ++self.clock, f->refs++;
  if (p) (void)tc_plan_retain(p);
  pthread_mutex_unlock(&self.lock);
  if (!f || p) return release_family(f), p;
  int64_t size[TC_MAX_SIZES];
  bool same = f->base->n_node == t->n_node && f->base->n_word == n_word && f->base->n_rec_words == n_rec_words;
  if (same && !(f->map && tc_size_map_find(f->map, t->word, size))) {
    family *g = family_with(f, t->word);
    same = g && tc_size_map_find(g->map, t->word, size);
    if (g) {
      release_family(f);
      f = g;
      f->refs++;  // nobody else has it yet
      put_family(f);
    }
  }
  if (same) p = bind_or_make(f, size, t->word, hash);
  *is_new = p != NULL;
  release_family(f);
  *ticks += tc_ticks_between(start, tc_ticks());
  return p;
}

void tc_size_cache_note(tc_plan *p, uint64_t pattern, uint64_t ticks) {
  if (!pattern || p->by_rows || p->runner.run) return;
  pthread_mutex_lock(&self.lock);
  uint32_t i = find_locked(pattern);
  if (i < self.n) self.of[i]->lowered += ticks, self.of[i]->n_lowered++;
  bool known = i < self.n;
  pthread_mutex_unlock(&self.lock);
  family *f = known ? NULL : create_family(p, pattern);
  if (!f) return;
  f->lowered = ticks, f->n_lowered = 1;
  if (dynamic_now() == DYNAMIC_ALWAYS) guess_sizes(f);
  put_family(f);
}

void tc_size_cache_forget(const tc_plan *gone) {
  family *f = NULL;
  pthread_mutex_lock(&self.lock);
  for (uint32_t i = 0; i < self.n && !f; i++) {
    if (self.of[i]->base != gone || self.of[i]->map) continue;
    f = self.of[i];
    self.of[i] = self.of[--self.n];
  }
  pthread_mutex_unlock(&self.lock);
  release_family(f);
}

void tc_size_cache_clear(void) {
  for (;;) {
    pthread_mutex_lock(&self.lock);
    family *f = self.n ? self.of[--self.n] : NULL;
    pthread_mutex_unlock(&self.lock);
    if (!f) return;
    release_family(f);
  }
}

uint64_t tc_size_cache_count(void) {
  pthread_mutex_lock(&self.lock);
  uint64_t n = self.n_bound;
  pthread_mutex_unlock(&self.lock);
  return n;
}
