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

bool tc_external_find(const void *ptr, size_t bytes, uint32_t *out_slot) {
  pthread_mutex_lock(&self.lock);
  const tc_buffer *b = self.user;
  while (b && (b->ptr != ptr || b->bytes != bytes)) b = b->older;
  if (b) *out_slot = atomic_load_explicit(&b->slot, memory_order_relaxed);
  pthread_mutex_unlock(&self.lock);
  return b != NULL;
}
