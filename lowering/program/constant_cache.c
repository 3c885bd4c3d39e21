// The hash table of cached constants, and their tc_keeper. See constant_cache.h.
// It is no tc_lru: an entry goes when an operand is freed or overwritten, not by its last use.
#include "lowering/program/constant_cache.h"

#include <pthread.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/fork.h"

#define N_BUCKETS 256
// Most spare entries. With them, constants recomputed after each parameter change allocate nothing.
#define MOST_SPARE 64

typedef struct entry {
  struct entry *next;  // the next in its bucket, in the spare list, or in an eviction list
  tc_kernel *kernel;    // retained
  int64_t extent;
  uint32_t n_stamp, n_num, n_out;
  tc_buffer **out;      // retained
  size_t bytes;  // size of this entry's allocation
  uint64_t word[];  // stamps, then scalars; `out` points behind them
} entry;

static struct {
  pthread_mutex_t lock;
  entry *bucket[N_BUCKETS], *spare;
  size_t bytes;
  int n_spare;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 4)

static entry **bucket_of(const tc_kernel *kernel, const uint64_t *stamp, uint32_t n) {
  uint64_t h = (uintptr_t)kernel >> 4;
  for (uint32_t i = 0; i < n; i++) h = (h ^ stamp[i]) * UINT64_C(0x9E3779B97F4A7C15);
  return &self.bucket[h >> 56];
}

static bool same_contents(const entry *e, const tc_constant_key *k) {
  return e->kernel == k->kernel && e->extent == k->extent && e->n_stamp == k->n_stamp &&
         memcmp(e->word, k->stamp, k->n_stamp * sizeof e->word[0]) == 0;
}

static bool same_scalars(const entry *e, const tc_constant_key *k) {
  return e->n_num == k->n_num &&
         (k->n_num == 0 || memcmp(e->word + e->n_stamp, k->num, k->n_num * sizeof e->word[0]) == 0);
}

// pre: locked. Moves the entry to the eviction list.
static void take_out(entry **at, entry **evicted) {
  entry *e = *at;
  *at = e->next;
  for (uint32_t i = 0; i < e->n_out; i++) self.bytes -= e->out[i]->bytes;
  e->next = *evicted, *evicted = e;
}

// pre: not locked: releasing a buffer may evict entries that were computed from it.
static void destroy_entries(entry *evicted) {
  while (evicted) {
    entry *e = evicted;
    evicted = e->next;
    for (uint32_t i = 0; i < e->n_out; i++) tc_buffer_release(e->out[i]);
    tc_kernel_release(e->kernel);
    pthread_mutex_lock(&self.lock);
    bool keep = self.n_spare < MOST_SPARE;
    if (keep) e->next = self.spare, self.spare = e, self.n_spare++;
    pthread_mutex_unlock(&self.lock);
    if (!keep) tc_free(e);
  }
}

static entry *new_entry(size_t bytes) {
  pthread_mutex_lock(&self.lock);
  entry **at = &self.spare, *e;
  while (*at && (*at)->bytes < bytes) at = &(*at)->next;
  if ((e = *at)) *at = e->next, bytes = e->bytes, self.n_spare--;
  pthread_mutex_unlock(&self.lock);
  if (e || (e = tc_malloc(bytes))) *e = (entry){.bytes = bytes};
  return e;
}

static void free_spare(void) {
  pthread_mutex_lock(&self.lock);
  entry *e = self.spare;
  self.spare = NULL, self.n_spare = 0;
  pthread_mutex_unlock(&self.lock);
  while (e) {
    entry *next = e->next;
    tc_free(e);
    e = next;
  }
}

bool tc_constant_cache_find(const tc_constant_key *k, uint32_t n_out, tc_buffer **out) {
  pthread_mutex_lock(&self.lock);
  entry *e = *bucket_of(k->kernel, k->stamp, k->n_stamp);
  while (e && !(same_contents(e, k) && same_scalars(e, k))) e = e->next;
  for (uint32_t i = 0; e && i < n_out; i++) out[i] = tc_buffer_retain(e->out[i]);
  pthread_mutex_unlock(&self.lock);
  return e != NULL;
}

// ---- the keeper ----

static bool reads_content(const entry *e, uint64_t stamp) {
  for (uint32_t i = 0; i < e->n_stamp; i++)
    if (e->word[i] == stamp) return true;
  return false;
}

// Evicts what was made of the content; NULL: everything.
static void evict_entries(const uint64_t *stamp) {
  entry *evicted = NULL;
  pthread_mutex_lock(&self.lock);
  for (int b = 0; b < N_BUCKETS; b++)
    for (entry **e = &self.bucket[b]; *e;) {
      if (!stamp || reads_content(*e, *stamp))
        take_out(e, &evicted);
      else
        e = &(*e)->next;
    }
  pthread_mutex_unlock(&self.lock);
  destroy_entries(evicted);
}

static void changed(uint64_t stamp) {
  evict_entries(&stamp);
}

void tc_constant_cache_clear(void) {
  evict_entries(NULL);
  free_spare();
}

static size_t cached_bytes(void) {
  pthread_mutex_lock(&self.lock);
  size_t bytes = self.bytes;
  pthread_mutex_unlock(&self.lock);
  return bytes;
}

static size_t idle_bytes(void) {
  size_t bytes = 0;
  pthread_mutex_lock(&self.lock);
  for (int b = 0; b < N_BUCKETS; b++)
    for (const entry *e = self.bucket[b]; e; e = e->next)
      for (uint32_t i = 0; i < e->n_out; i++)
        bytes += tc_buffer_refs(e->out[i]) == 1 && !e->out[i]->memory ? e->out[i]->bytes : 0;
  pthread_mutex_unlock(&self.lock);
  return bytes;
}

static const tc_keeper keeper = {changed, tc_constant_cache_clear, cached_bytes, idle_bytes};

void tc_constant_cache_keep(const tc_constant_key *k, uint32_t n_out, tc_buffer *const *out, tc_buffer *const *in) {
  entry *e = new_entry(sizeof *e + (k->n_stamp + k->n_num) * sizeof e->word[0] + n_out * sizeof e->out[0]),
        *evicted = NULL;
  if (!e) return;
  e->kernel = k->kernel, e->extent = k->extent, e->n_stamp = k->n_stamp, e->n_num = k->n_num, e->n_out = n_out;
  memcpy(e->word, k->stamp, k->n_stamp * sizeof e->word[0]);
  if (k->n_num) memcpy(e->word + k->n_stamp, k->num, k->n_num * sizeof e->word[0]);
  e->out = (tc_buffer **)(void *)(e->word + k->n_stamp + k->n_num);
  atomic_fetch_add_explicit(&k->kernel->refs, 1, memory_order_relaxed);
  for (uint32_t i = 0; i < n_out; i++) e->out[i] = tc_buffer_retain(out[i]);
  tc_buffer_set_keeper(&keeper);
  for (uint32_t i = 0; i < k->n_stamp; i++) tc_buffer_watch(in[i]);
  pthread_mutex_lock(&self.lock);
  entry **bucket = bucket_of(k->kernel, k->stamp, k->n_stamp);
  for (entry **at = bucket; *at;) {  // entries of another thread, or with other scalars
    if (same_contents(*at, k))
      take_out(at, &evicted);
    else
      at = &(*at)->next;
  }
  e->next = *bucket, *bucket = e;
  for (uint32_t i = 0; i < n_out; i++) self.bytes += e->out[i]->bytes;
  pthread_mutex_unlock(&self.lock);
  destroy_entries(evicted);
  for (uint32_t i = 0; i < k->n_stamp; i++)
    // the content changed hands before it was watched
    if (tc_buffer_stamp(in[i]) != k->stamp[i]) changed(k->stamp[i]);
}
