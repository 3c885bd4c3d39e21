// Shapes in chunks that never move, found by hash. See dims.h.
// It is no tc_lru: a shape keeps its number and its place for ever, so none is evicted.
#include "lazy/trace/dims.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/fork.h"

#define MEMO 64

static struct {
  pthread_mutex_t lock;
  uint32_t n;
  uint32_t *table;  // open addressing; id + 1, 0 is empty
  uint32_t cap;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 5)

_Atomic(tc_shape_info *) tc_shape_chunk[TC_SHAPE_CHUNKS];

static _Thread_local uint32_t memo[MEMO];  // id + 1 by hash

bool tc_dims_product(const tc_dims *d, int64_t *out) {
  *out = 0;
  if (d->rank < 0 || d->rank > TC_MAX_RANK) return false;
  int64_t n = 1, top;
  bool empty = false;
  for (int i = 0; i < d->rank; i++) {
    if (d->dim[i] < 0) return false;
    if (d->dim[i] == 0)
      empty = true;
    else if (__builtin_mul_overflow(n, d->dim[i], &n))
      return false;
  }
  if (__builtin_mul_overflow(n, (int64_t)8, &top)) return false;
  *out = empty ? 0 : n;
  return true;
}

void tc_dims_broadcast(const tc_dims *own, const tc_dims *d, int64_t *dim, int64_t *stride) {
  int64_t next = 1;
  for (int i = d->rank, k = own->rank; i-- > 0;) {
    k--;
    dim[i] = d->dim[i];
    stride[i] = k < 0 || (own->dim[k] == 1 && d->dim[i] != 1) ? 0 : next;
    if (k >= 0) next *= own->dim[k];
  }
}

static uint32_t hash_of(const tc_dims *d) {
  uint64_t h = (uint64_t)d->rank + 1;
  for (int i = 0; i < d->rank; i++) h = (h ^ (uint64_t)d->dim[i]) * UINT64_C(0x9E3779B97F4A7C15), h ^= h >> 29;
  return (uint32_t)(h ^ h >> 32);
}

// pre: locked.
static bool grow_locked(void) {
  uint32_t cap = self.cap ? self.cap * 2 : 1024;
  uint32_t *table = tc_calloc(cap, sizeof *table);
  if (!table) return false;
  for (uint32_t id = 0; id < self.n; id++) {
    uint32_t i = hash_of(&tc_dims_at(id)->d) & (cap - 1);
    while (table[i]) i = (i + 1) & (cap - 1);
    table[i] = id + 1;
  }
  tc_free(self.table);
  self.table = table;
  self.cap = cap;
  return true;
}

// pre: locked.
static uint32_t intern_locked(const tc_dims *d, uint32_t h) {
  if (self.n * 2 >= self.cap && !grow_locked()) return TC_SHAPE_NONE;
  uint32_t i = h & (self.cap - 1);
  for (; self.table[i]; i = (i + 1) & (self.cap - 1))
    if (tc_dims_equal(&tc_dims_at(self.table[i] - 1)->d, d)) return self.table[i] - 1;
  if (self.n == TC_SHAPES_EACH * TC_SHAPE_CHUNKS) return TC_SHAPE_NONE;
  if (self.n % TC_SHAPES_EACH == 0) {
    tc_shape_info *chunk = tc_calloc(TC_SHAPES_EACH, sizeof *chunk);
    if (!chunk) return TC_SHAPE_NONE;
    atomic_store_explicit(&tc_shape_chunk[self.n / TC_SHAPES_EACH], chunk, memory_order_release);
  }
  tc_shape_info *info = tc_shape_chunk[self.n / TC_SHAPES_EACH] + self.n % TC_SHAPES_EACH;
  info->d.rank = d->rank;
  memcpy(info->d.dim, d->dim, (size_t)d->rank * sizeof d->dim[0]);
  tc_dims_product(d, &info->count);
  self.table[i] = self.n + 1;
  return self.n++;
}

uint32_t tc_dims_intern(const tc_dims *d) {
  uint32_t h = hash_of(d), *m = &memo[h % MEMO];
  if (*m && tc_dims_equal(&tc_dims_at(*m - 1)->d, d)) return *m - 1;
  pthread_mutex_lock(&self.lock);
  uint32_t id = intern_locked(d, h);
  pthread_mutex_unlock(&self.lock);
  if (id != TC_SHAPE_NONE) *m = id + 1;
  return id;
}

void tc_dims_free_all(void) {
  pthread_mutex_lock(&self.lock);
  for (uint32_t c = 0; c * TC_SHAPES_EACH < self.n; c++) tc_free(atomic_exchange(&tc_shape_chunk[c], NULL));
  tc_free(self.table);
  self.table = NULL;
  self.n = self.cap = 0;
  memset(memo, 0, sizeof memo);
  pthread_mutex_unlock(&self.lock);
}
