// The list of buffers in use, and its highest point. See live_buffers.h.
#include "device/live_buffers.h"

#include <pthread.h>
#include <string.h>

#include "runtime/fork.h"
#include "runtime/inside.h"

static struct {
  pthread_mutex_t lock;
  tc_buffer *newest;
  tc_high high;  // n_row 0: it was taken
  uint64_t high_bytes;  // of the last highest point
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 7)

// Puts a buffer among the largest, if it is one.
static void add_row(tc_high *h, const tc_buffer *b) {
  uint32_t at = h->n_row;
  h->n_live++;
  while (at > 0 && h->row[at - 1].bytes < b->bytes) at--;
  if (at == TC_HIGH_ROWS) return;
  if (h->n_row < TC_HIGH_ROWS) h->n_row++;
  memmove(&h->row[at + 1], &h->row[at], (h->n_row - 1 - at) * sizeof h->row[0]);
  h->row[at].buffer = b, h->row[at].maker = b->maker, h->row[at].bytes = b->bytes;
}

void tc_live_add(tc_buffer *b, uint64_t in_use_bytes) {
  pthread_mutex_lock(&self.lock);
  b->is_live = true, b->live_older = self.newest, b->live_newer = NULL;
  b->maker = (tc_call){tc_call_op(NULL), tc_inside ? tc_inside_call.site : 0};
  if (self.newest) self.newest->live_newer = b;
  self.newest = b;
  if (in_use_bytes > self.high_bytes + self.high_bytes / 10) {
    self.high = (tc_high){.at_ns = tc_now_ns(), .bytes = in_use_bytes}, self.high_bytes = in_use_bytes;
    for (const tc_buffer *x = b; x; x = x->live_older) add_row(&self.high, x);
  }
  pthread_mutex_unlock(&self.lock);
}

void tc_live_remove(tc_buffer *b) {
  pthread_mutex_lock(&self.lock);
  if (b->live_newer) b->live_newer->live_older = b->live_older;
  if (b->live_older) b->live_older->live_newer = b->live_newer;
  if (self.newest == b) self.newest = b->live_older;
  b->is_live = false;
  pthread_mutex_unlock(&self.lock);
}

void tc_live_tell(tc_buffer *b, tc_holding holding, tc_call made) {
  const char *what = holding == TC_HOLDS_ARENA            ? "temporaries of a run"
                     : holding == TC_HOLDS_CONSTANT_CACHE ? "cached constants"
                                                          : b->maker.op;
  pthread_mutex_lock(&self.lock);
  b->maker = made.op ? made : (tc_call){what, b->maker.site};
  for (uint32_t i = 0; i < self.high.n_row; i++)
    if (self.high.row[i].buffer == b) self.high.row[i].maker = b->maker;
  pthread_mutex_unlock(&self.lock);
}

bool tc_live_high_take(tc_high *out) {
  pthread_mutex_lock(&self.lock);
  bool any = self.high.n_row > 0;
  if (any) *out = self.high;
  self.high.n_row = 0;
  pthread_mutex_unlock(&self.lock);
  return any;
}

void tc_live_high_begin(void) {
  pthread_mutex_lock(&self.lock);
  self.high_bytes = 0;
  pthread_mutex_unlock(&self.lock);
}
