// Numbers that choose what functions record. See watched.h.
#include "lazy/trace/watched.h"

#include <stdatomic.h>

#include "runtime/arena.h"

struct tc_watched {
  _Atomic uint32_t refs;
  _Atomic uint64_t value;  // relaxed: who sets it while others record has a race of its own
  const char *name;
};

tc_watched *tc_watched_create(const char *name, uint64_t value) {
  tc_watched *w = tc_malloc(sizeof *w);
  if (w) *w = (tc_watched){1, value, name};
  return w;
}

tc_watched *tc_watched_retain(tc_watched *w) {
  atomic_fetch_add_explicit(&w->refs, 1, memory_order_relaxed);
  return w;
}

void tc_watched_release(tc_watched *w) {
  if (w && atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) == 1) tc_free(w);
}

uint64_t tc_watched_value(const tc_watched *w) {
  return atomic_load_explicit(&w->value, memory_order_relaxed);
}

void tc_watched_set(tc_watched *w, uint64_t value) {
  atomic_store_explicit(&w->value, value, memory_order_relaxed);
}

const char *tc_watched_name(const tc_watched *w) {
  return w->name;
}
