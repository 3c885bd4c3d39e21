// The list of watches, and the thread that looks at it. See watch.h.
//
// Planning a graph takes a millisecond, and its watch ends as soon, so beginning one wakes nobody.
// The thread sleeps until the earliest watch of the list is due, and looks again then. While the
// list is empty it lingers for as long as a new watch would take to be due, and then ends.
#include "runtime/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/fork.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/reentry.h"
#include "runtime/thread.h"

_Atomic uint64_t tc_watch_limit_ns = TC_WATCH_LIMIT_NS;

static struct {
  pthread_mutex_t lock;
  pthread_cond_t change;  // waits by the monotonic clock
  tc_watch *first;
  pthread_t thread;
  bool runs, stops;  // runs: the thread must be joined; stops: it is asked to end
  bool left;  // true: the thread looks no more
  bool idle;  // true: it sleeps without a time limit, because every watch was notified
  bool unable;  // true: there is no clock, or the process ends
  pthread_once_t once;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};
TC_FORK_SAFE(&self.lock, 8)

static _Thread_local tc_watch *mine;

static uint64_t limit_ns(void) {
  return atomic_load_explicit(&tc_watch_limit_ns, memory_order_relaxed);
}

static void tell_watch(const tc_watch *w, uint64_t now) {
  char site[160];
  tc_site_text(w->call.site, site, sizeof site);
  tc_log_line(TC_LOG_WARN, "%s %u %s takes long: %.1f s so far, for %s%s%s", w->doing, w->n, w->of,
              (double)(now - w->began_ns) * 1e-9, w->call.op ? w->call.op : "a run", site[0] ? " at " : "", site);
}

// pre: locked. Returns the watch that is due next; NULL: none is.
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

static void *look_for_hangs(void *arg) {
  (void)arg;
  tc_inside = 1;  // a log sink is called from here, too
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
      tc_watch copy = *due;  // the watch may end meanwhile
      pthread_mutex_unlock(&self.lock);
      tell_watch(&copy, now);
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

// A child has no such thread and no watches: a thread that forks makes no plan.
static void forget_in_child(void) {
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

// Registers what happens at exit, and where the library is unloaded.
static void init_watch(void) {
  make_clock();
  pthread_atfork(NULL, NULL, forget_in_child);
  if (tc_options_get()->embed || atexit(stop_at_exit) != 0) self.unable = true;
}

void tc_watch_begin(tc_watch *w, uint32_t n_nodes) {
  pthread_once(&self.once, init_watch);
  *w = (tc_watch){.call = tc_inside_call, .began_ns = tc_now_ns(), .doing = "planning", .of = "nodes", .n = n_nodes};
  pthread_mutex_lock(&self.lock);
  w->next = self.first;
  self.first = mine = w;
  if (self.runs && self.left && !self.stops) {
    pthread_join(self.thread, NULL);  // the thread is at its end
    self.runs = false;
  }
  if (!self.runs && !self.unable)
    self.left = false, self.runs = tc_thread_start(&self.thread, look_for_hangs, NULL) == 0;
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
