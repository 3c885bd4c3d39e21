// The list of kernels to be compiled, and the thread that does it. See tier_up.h.
#include "lowering/jit/tier_up.h"

#include <stdlib.h>

#include "lowering/jit/compiler.h"
#include "runtime/fork.h"
#include "runtime/reentry.h"
#include "runtime/thread.h"

static struct {
  pthread_mutex_t lock;
  pthread_cond_t more;
  tc_kernel *first, **last;
  tc_kernel *now;  // what the thread compiles, taken from the list
  pthread_t thread;
  bool runs, stops, ended;  // ended: with the process, for good
  pthread_once_t once;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .last = &self.first, .once = PTHREAD_ONCE_INIT};
TC_FORK_SAFE(&self.lock, 8)

atomic_bool tc_promote_waiting;

void tc_promote_ask(tc_kernel *k) {
  pthread_mutex_lock(&self.lock);
  if (!self.ended) {
    atomic_fetch_add_explicit(&k->refs, 1, memory_order_relaxed);
    k->next_asked = NULL;
    *self.last = k, self.last = &k->next_asked;
    atomic_store_explicit(&tc_promote_waiting, true, memory_order_relaxed);
  }
  pthread_mutex_unlock(&self.lock);
}

// pre: locked.
static tc_kernel *take_all(void) {
  tc_kernel *all = self.first;
  self.first = NULL, self.last = &self.first;
  return all;
}

static tc_kernel *take_first(void) {
  tc_kernel *k = self.first;
  self.first = k->next_asked;
  if (!self.first) self.last = &self.first;
  return k;
}

static void *compile_all(void *arg) {
  (void)arg;
  pthread_mutex_lock(&self.lock);
  while (!self.stops) {
    if (!self.first) {
      pthread_cond_wait(&self.more, &self.lock);
      continue;
    }
    tc_kernel *k = self.now = take_first();
    pthread_mutex_unlock(&self.lock);
    tc_kernel_compile(k);
    pthread_mutex_lock(&self.lock);
    self.now = NULL;
    tc_kernel_release(k);
  }
  pthread_mutex_unlock(&self.lock);
  return NULL;
}

// A child has the list, but nobody who works at it.
static void forked(void) {
  if (self.now) {
    self.now->next_asked = self.first;
    if (!self.first) self.last = &self.now->next_asked;
    self.first = self.now, self.now = NULL;
  }
  self.runs = self.stops = false;
  self.more = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
  atomic_store_explicit(&tc_promote_waiting, self.first != NULL, memory_order_relaxed);
}

static void stop_at_exit(void) {
  if (tc_inside) return;
  pthread_mutex_lock(&self.lock);
  self.ended = true;
  pthread_mutex_unlock(&self.lock);
  tc_promote_stop();
}

// At exit, and where the library is unloaded.
static void watch(void) {
  pthread_atfork(NULL, NULL, forked);
  if (atexit(stop_at_exit) != 0) self.ended = true;
}

// pre: locked. Whether a thread has the list from now on.
static bool hand_over(void) {
  if (self.stops || self.ended) return false;
  if (!self.runs && self.first) self.runs = tc_thread_start(&self.thread, compile_all, NULL) == 0;
  pthread_cond_signal(&self.more);
  return self.runs;
}

void tc_promote_start(void) {
  bool lasting;
  atomic_store_explicit(&tc_promote_waiting, false, memory_order_relaxed);
  bool compiles = tc_compiler_open(&lasting);
  pthread_once(&self.once, watch);
  pthread_mutex_lock(&self.lock);
  tc_kernel *own = lasting && hand_over() ? NULL : take_all();
  pthread_mutex_unlock(&self.lock);
  for (tc_kernel *next; own; own = next) {
    next = own->next_asked;
    if (compiles) tc_kernel_compile(own);
    tc_kernel_release(own);
  }
}

void tc_promote_stop(void) {
  pthread_mutex_lock(&self.lock);
  bool joins = self.runs && !self.stops;
  self.stops |= joins;
  pthread_cond_signal(&self.more);
  pthread_mutex_unlock(&self.lock);
  if (joins) pthread_join(self.thread, NULL);
  pthread_mutex_lock(&self.lock);
  if (joins) self.runs = self.stops = false;
  tc_kernel *rest = take_all();
  pthread_mutex_unlock(&self.lock);
  for (tc_kernel *next; rest; rest = next) {
    next = rest->next_asked;
    tc_kernel_release(rest);
  }
}
