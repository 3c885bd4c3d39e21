// The thread that compiles queued kernels. See tier_up.h.
#include "lowering/jit/tier_up.h"

#include <stddef.h>
#include <stdlib.h>

#include "lowering/jit/compiler.h"
#include "lowering/jit/kernel_cache.h"
#include "runtime/options.h"
#include "runtime/reentry.h"
#include "runtime/thread.h"

// Guarded by the queue's lock.
static struct {
  tc_kernel *now;  // the kernel being compiled, removed from the queue; NULL: none
  pthread_t thread;
  bool runs, stops;
  pthread_once_t once;
} self = {.once = PTHREAD_ONCE_INIT};

static tc_kernel *kernel_of(tc_compile_link *l) {
  return (tc_kernel *)(void *)((char *)l - offsetof(tc_kernel, in_queue));
}

static void *compile_all(void *arg) {
  (void)arg;
  pthread_mutex_lock(&tc_compiles.lock);
  while (!self.stops) {
    if (!tc_compiles.first) {
      pthread_cond_wait(&tc_compiles.more, &tc_compiles.lock);
      continue;
    }
    tc_kernel *k = self.now = kernel_of(tc_compile_queue_take_first());
    pthread_mutex_unlock(&tc_compiles.lock);
    tc_kernel_compile(k);
    pthread_mutex_lock(&tc_compiles.lock);
    self.now = NULL;
    tc_kernel_release(k);
  }
  pthread_mutex_unlock(&tc_compiles.lock);
  return NULL;
}

// After a fork the child has the queue but no thread: the kernel in progress is queued again.
static void forked(void) {
  if (self.now) {
    tc_compile_link *l = &self.now->in_queue;
    l->next = tc_compiles.first;
    if (!tc_compiles.first) tc_compiles.last = &l->next;
    tc_compiles.first = l, self.now = NULL;
  }
  self.runs = self.stops = false;
  tc_compiles.more = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
  atomic_store_explicit(&tc_compiles.waiting, tc_compiles.first != NULL, memory_order_relaxed);
}

static void stop_at_exit(void) {
  if (tc_inside) return;
  pthread_mutex_lock(&tc_compiles.lock);
  tc_compiles.ended = true;
  pthread_mutex_unlock(&tc_compiles.lock);
  tc_tier_up_stop();
}

// Registers the fork handler and the handler for exit and for unloading the library.
static void watch(void) {
  pthread_atfork(NULL, NULL, forked);
  if (atexit(stop_at_exit) != 0) tc_compiles.ended = true;
}

// pre: locked. Wakes or starts the thread. False: there is none, so the caller must compile.
static bool hand_over(void) {
  if (self.stops || tc_compiles.ended || tc_options_get()->embed) return false;
  if (!self.runs && tc_compiles.first) self.runs = tc_thread_start(&self.thread, compile_all, NULL) == 0;
  pthread_cond_signal(&tc_compiles.more);
  return self.runs;
}

void tc_tier_up_start(void) {
  bool no_atexit;
  atomic_store_explicit(&tc_compiles.waiting, false, memory_order_relaxed);
  bool compiles = tc_compiler_open(&no_atexit);
  pthread_once(&self.once, watch);
  pthread_mutex_lock(&tc_compiles.lock);
  tc_compile_link *own = no_atexit && hand_over() ? NULL : tc_compile_queue_take_all();
  pthread_mutex_unlock(&tc_compiles.lock);
  for (tc_compile_link *next; own; own = next) {
    next = own->next;
    if (compiles) tc_kernel_compile(kernel_of(own));
    tc_kernel_release(kernel_of(own));
  }
}

void tc_tier_up_stop(void) {
  pthread_mutex_lock(&tc_compiles.lock);
  bool joins = self.runs && !self.stops;
  self.stops |= joins;
  pthread_cond_signal(&tc_compiles.more);
  pthread_mutex_unlock(&tc_compiles.lock);
  if (joins) pthread_join(self.thread, NULL);
  pthread_mutex_lock(&tc_compiles.lock);
  if (joins) self.runs = self.stops = false;
  tc_compile_link *rest = tc_compile_queue_take_all();
  pthread_mutex_unlock(&tc_compiles.lock);
  for (tc_compile_link *next; rest; rest = next) {
    next = rest->next;
    tc_kernel_release(kernel_of(rest));
  }
}
