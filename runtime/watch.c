// The list of what is watched, and the thread that looks at it. See watch.h.
//
// Planning a graph takes a millisecond and is left as soon: so beginning wakes nobody. The thread
// sleeps until the earliest of the list would be told, and looks again then; while the list is
// empty it lingers for as long as a new one would have, which is told in time all the same, and
// then ends.
#include "runtime/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/fork.h"
#include "runtime/log.h"
#include "runtime/reentry.h"
#include "runtime/thread.h"

_Atomic uint64_t tc_watch_limit_ns = TC_WATCH_LIMIT_NS;

static struct {
  pthread_mutex_t lock;
  pthread_cond_t change;  // of monotonic time
  tc_watch *first;
  pthread_t thread;
  bool runs, stops;  // runs: the thread is to be joined
  bool left;  // it looks no more
  bool idle;  // it waits for no time: all there is was told
  bool unable;  // there is no clock, or the process ends
  pthread_once_t once;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};
TC_FORK_SAFE(&self.lock, 8)

static _Thread_local tc_watch *mine;

static uint64_t limit_ns(void) {
  return atomic_load_explicit(&tc_watch_limit_ns, memory_order_relaxed);
}

static void tell(const tc_watch *w, uint64_t now) {
  char site[160];
  tc_site_text(w->call.site, site, sizeof site);
  tc_log_line(TC_LOG_WARN, "%s %u %s takes long: %.1f s so far, for %s%s%s", w->doing, w->n, w->of, (double)(now - w->began_ns) * 1e-9,
              w->call.op ? w->call.op : "a run", site[0] ? " at " : "", site);
}

// pre: locked. The one that is to be told next; NULL: none is.
static tc_watch *next_due(void) {
  tc_watch *due = NULL;
  for (tc_watch *w = self.first; w; w = w->next)
    if (!w->told && (!due || w->began_ns < due->began_ns)) due = w;
  return due;
}

// pre: locked. False: the time has come.
static bool sleep_until(uint64_t at_ns) {
  struct timespec t = {(time_t)(at_ns / UINT64_C(1000000000)), (long)(at_ns % UINT64_C(1000000000))};
  return pthread_cond_timedwait(&self.change, &self.lock, &t) != ETIMEDOUT;
}

static void *look(void *arg) {
  (void)arg;
  tc_inside = 1;  // a log sink is called here, too
  pthread_mutex_lock(&self.lock);
  while (!self.stops) {
    uint64_t now = tc_now_ns();
    tc_watch *due = next_due();
    if (!self.first) {
      if (!sleep_until(now + limit_ns()) && !self.first) break;
    } else if (!due) {
      self.idle = true;
      pthread_cond_wait(&self.change, &self.lock);
      self.idle = false;
    } else if (now < due->began_ns + limit_ns()) {
      (void)sleep_until(due->began_ns + limit_ns());
    } else {
      due->told = true;
      tc_watch copy = *due;  // which may end meanwhile
      pthread_mutex_unlock(&self.lock);
      tell(&copy, now);
      pthread_mutex_lock(&self.lock);
    }
  }
  self.left = true;
  pthread_mutex_unlock(&self.lock);
  return NULL;
}

static void make_clock(void) {
  pthread_condattr_t attr;
  self.unable = pthread_condattr_init(&attr) != 0;
  if (self.unable) return;
  self.unable = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) != 0 || pthread_cond_init(&self.change, &attr) != 0;
  pthread_condattr_destroy(&attr);
}

// A child has nobody who looks, and nothing to look at: who forks makes no plan.
static void forked(void) {
  self.first = NULL;
  self.runs = self.stops = self.left = self.idle = false;
  make_clock();
}

static void stop_at_exit(void) {
  if (tc_inside) return;
  tc_watch_stop();
  pthread_mutex_lock(&self.lock);
  self.unable = true;
  pthread_mutex_unlock(&self.lock);
}

// At exit, and where the library is unloaded.
static void init(void) {
  make_clock();
  pthread_atfork(NULL, NULL, forked);
  if (atexit(stop_at_exit) != 0) self.unable = true;
}

void tc_watch_begin(tc_watch *w, uint32_t n_nodes) {
  pthread_once(&self.once, init);
  *w = (tc_watch){.call = tc_inside_call, .began_ns = tc_now_ns(), .doing = "planning", .of = "nodes", .n = n_nodes};
  pthread_mutex_lock(&self.lock);
  w->next = self.first;
  self.first = mine = w;
  if (self.runs && self.left && !self.stops) {
    pthread_join(self.thread, NULL);  // which is at its end
    self.runs = false;
  }
  if (!self.runs && !self.unable) self.left = false, self.runs = tc_thread_start(&self.thread, look, NULL) == 0;
  if (self.idle) pthread_cond_signal(&self.change);
  pthread_mutex_unlock(&self.lock);
}

void tc_watch_doing(const char *doing, uint32_t n, const char *of) {
  if (!mine) return;
  pthread_mutex_lock(&self.lock);
  mine->doing = doing, mine->n = n, mine->of = of;
  pthread_mutex_unlock(&self.lock);
}

void tc_watch_end(tc_watch *w) {
  pthread_mutex_lock(&self.lock);
  tc_watch **at = &self.first;
  while (*at && *at != w) at = &(*at)->next;
  if (*at) *at = w->next;
  mine = NULL;
  if (self.idle) pthread_cond_signal(&self.change);
  pthread_mutex_unlock(&self.lock);
}

void tc_watch_stop(void) {
  pthread_mutex_lock(&self.lock);
  bool joins = self.runs && !self.stops;
  self.stops |= joins;
  if (joins) pthread_cond_signal(&self.change);
  pthread_mutex_unlock(&self.lock);
  if (!joins) return;
  pthread_join(self.thread, NULL);
  pthread_mutex_lock(&self.lock);
  self.runs = self.stops = false;
  pthread_mutex_unlock(&self.lock);
}
