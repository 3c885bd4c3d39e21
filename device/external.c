// The live buffers over memory of callers, and which of them share bytes. See external.h.
#include "device/external.h"

#include "runtime/fork.h"

static struct {
  pthread_mutex_t lock;
  tc_buffer *user, *borrowed;  // by origin, the newest first
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 7)

static bool share_bytes(const tc_buffer *a, const tc_buffer *b) {
  return tc_ranges_overlap(a->ptr, a->bytes, b->ptr, b->bytes);
}

static void mark_aliases(tc_buffer *list, tc_buffer *b) {
  for (tc_buffer *x = list; x; x = x->older) {
    if (!share_bytes(x, b)) continue;
    atomic_store_explicit(&x->aliased, true, memory_order_release);
    atomic_store_explicit(&b->aliased, true, memory_order_release);
  }
}

static tc_buffer **list_of(const tc_buffer *b) {
  return b->origin == TC_ORIGIN_USER ? &self.user : &self.borrowed;
}

void tc_external_add(tc_buffer *b) {
  pthread_mutex_lock(&self.lock);
  mark_aliases(self.user, b);
  if (b->origin == TC_ORIGIN_USER) mark_aliases(self.borrowed, b);
  tc_buffer **list = list_of(b);
  b->newer = NULL, b->older = *list, b->listed = true;
  if (*list) (*list)->newer = b;
  *list = b;
  pthread_mutex_unlock(&self.lock);
}

void tc_external_remove(tc_buffer *b) {
  if (!b->listed) return;
  pthread_mutex_lock(&self.lock);
  *(b->newer ? &b->newer->older : list_of(b)) = b->older;
  if (b->older) b->older->newer = b->newer;
  b->newer = b->older = NULL, b->listed = false;
  pthread_mutex_unlock(&self.lock);
}

bool tc_external_find(const void *ptr, size_t bytes, uint32_t nth, uint64_t *out_handle) {
  pthread_mutex_lock(&self.lock);
  const tc_buffer *b = self.user;
  while (b && (b->ptr != ptr || b->bytes != bytes || nth-- > 0)) b = b->older;
  if (b) *out_handle = atomic_load_explicit(&b->handle, memory_order_relaxed);
  pthread_mutex_unlock(&self.lock);
  return b != NULL;
}

// A buffer of the list with that handle, and a new reference. One whose last reference is going is
// passed by.
static tc_buffer *retain_of(tc_buffer *list, uint64_t handle) {
  for (tc_buffer *b = list; b; b = b->older) {
    uint32_t refs = atomic_load_explicit(&b->refs, memory_order_relaxed);
    if (atomic_load_explicit(&b->handle, memory_order_relaxed) != handle) continue;
    while (refs && !atomic_compare_exchange_weak(&b->refs, &refs, refs + 1)) {
    }
    if (refs) return b;
  }
  return NULL;
}

tc_buffer *tc_external_of(uint64_t handle) {
  pthread_mutex_lock(&self.lock);
  tc_buffer *b = retain_of(self.user, handle);
  if (!b) b = retain_of(self.borrowed, handle);
  pthread_mutex_unlock(&self.lock);
  return b;
}
