// A list of holders for each device. See holders.h.
//
// Entries come and go in constant time, and are read only when memory is short.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // dladdr
#endif
#include "device/holders.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "runtime/fork.h"

#define LARGEST 3

typedef struct sum {
  size_t n, bytes;
} sum;

static struct {
  pthread_mutex_t lock;
  tc_holder *first[256];  // by tc_device; NULL: nothing holds memory there
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 8)

void tc_holder_add(tc_holder *h, tc_device d, tc_holding holding, size_t bytes) {
  pthread_mutex_lock(&self.lock);
  *h = (tc_holder){.next = self.first[d], .bytes = bytes, .device = d, .holding = holding, .listed = true};
  if (h->next) h->next->before = h;
  self.first[d] = h;
  pthread_mutex_unlock(&self.lock);
}

void tc_holder_set(tc_holder *h, tc_holding holding, tc_call made) {
  pthread_mutex_lock(&self.lock);
  h->holding = holding, h->made = made;
  pthread_mutex_unlock(&self.lock);
}

void tc_holder_remove(tc_holder *h) {
  pthread_mutex_lock(&self.lock);
  if (h->listed) {
    if (h->next) h->next->before = h->before;
    *(h->before ? &h->before->next : &self.first[h->device]) = h->next;
    h->listed = false;
  }
  pthread_mutex_unlock(&self.lock);
}

// ---- telling ----

typedef struct text {
  char *out;
  size_t bytes;
} text;

static void append_size(const text *t, size_t bytes) {
  if (bytes < (size_t)1 << 20)
    tc_text_append(t->out, t->bytes, "%zu bytes", bytes);
  else
    tc_text_append(t->out, t->bytes, "%.1f MiB", (double)bytes / (1 << 20));
}

// A site may be an address in the caller's module. If that was unloaded, the site is unknown.
static void append_call(const text *t, const tc_call *call) {
  char place[96];
  Dl_info info;
  const void *at = (const void *)(uintptr_t)(call->site & ~(UINT64_C(1) << 63));
  if (!call->op) return;
  tc_text_append(t->out, t->bytes, " of %s", call->op);
  if (!call->site || !dladdr(at, &info)) return;
  tc_site_text(call->site, place, sizeof place);
  tc_text_append(t->out, t->bytes, " at %s", place);
}

// pre: locked. Copies the largest tensors, largest first; returns how many.
static int find_largest(tc_device d, tc_holder largest[LARGEST]) {
  int n = 0;
  for (const tc_holder *h = self.first[d]; h; h = h->next) {
    if (h->holding != TC_HOLDS_TENSOR) continue;
    int at = n;
    while (at > 0 && largest[at - 1].bytes < h->bytes) at--;
    if (at == LARGEST) continue;
    if (n < LARGEST) n++;
    for (int i = n - 1; i > at; i--) largest[i] = largest[i - 1];
    largest[at] = *h;
  }
  return n;
}

static void append_tensors(const text *t, const sum *tensors, const tc_holder *largest, int n) {
  tc_text_append(t->out, t->bytes, "%zu tensor%s hold%s ", tensors->n, tensors->n == 1 ? "" : "s",
                 tensors->n == 1 ? "s" : "");
  append_size(t, tensors->bytes);
  for (int i = 0; i < n; i++) {
    tc_text_append(t->out, t->bytes, i ? ", " : n > 1 ? " (the largest " : " (");
    append_size(t, largest[i].bytes);
    append_call(t, &largest[i].made);
  }
  if (n) tc_text_append(t->out, t->bytes, ")");
}

// The loader's lock, under which libraries come and go, is not taken inside the list's.
const char *tc_holders_tell(tc_device d, size_t used_bytes, char *out, size_t bytes) {
  static const char *const names[TC_N_HOLDINGS] = {
      [TC_HOLDS_ARENA] = "arenas of runs",
      [TC_HOLDS_CONSTANT_CACHE] = "cached constants",
      [TC_HOLDS_POOLED] = "pooled buffers",
      [TC_HOLDS_TABLE] = "plans' tables",
      [TC_HOLDS_OPERANDS] = "copies of libraries' operands",
      [TC_HOLDS_CODE] = "kernels, by their images,",
  };
  const text t = {out, bytes};
  sum of[TC_N_HOLDINGS] = {{0, 0}};
  tc_holder largest[LARGEST];
  size_t all = 0;
  out[0] = 0;
  pthread_mutex_lock(&self.lock);
  for (const tc_holder *h = self.first[d]; h; h = h->next)
    of[h->holding].n++, of[h->holding].bytes += h->bytes, all += h->bytes;
  int n = find_largest(d, largest);
  pthread_mutex_unlock(&self.lock);
  append_tensors(&t, &of[TC_HOLDS_TENSOR], largest, n);
  for (int i = TC_HOLDS_ARENA; i < TC_N_HOLDINGS; i++) {
    if (of[i].n == 0) continue;
    tc_text_append(t.out, t.bytes, ", %zu %s ", of[i].n, names[i]);
    append_size(&t, of[i].bytes);
  }
  tc_text_append(t.out, t.bytes, ", the driver, libraries and other programs ");
  append_size(&t, used_bytes - TC_MIN(used_bytes, all));
  return out;
}
