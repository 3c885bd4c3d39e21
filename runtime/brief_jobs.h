// Brief jobs, which take less time than waking a worker: when they wake workers, and when they stay
// alone on the caller.
// Threads: a tc_brief is one thread's.
#pragma once

#include <stdbool.h>

#include "runtime/status.h"

// So many jobs too short to wake workers for, each within TC_BRIEF_NS of the last, wake them. They
// are awake for those that follow.
#define TC_BRIEF_JOBS 32
#define TC_BRIEF_NS 20000
// Where other processes want the cores too, a worker that spins for brief jobs takes the caller's
// time. A worker that lost its core keeps the caller waiting for 4 ms. So brief jobs stay alone for
// a while after a worker came late, or after TC_BRIEF_MISSES jobs that no worker came to. If that
// happens again soon, the pause doubles.
#define TC_BRIEF_MISSES 400
#define TC_BRIEF_LATE_NS 1000000  // a virtual machine stops a core for less
#define TC_BRIEF_LEAST_PAUSE_NS 10000000
#define TC_BRIEF_MOST_PAUSE_NS 1000000000

// The brief jobs of a thread; all zero at first.
typedef struct tc_brief {
  unsigned n_close;  // jobs in a row that followed closely and found workers asleep
  unsigned n_missed;  // jobs in a row that no worker came to, though they were awake
  int64_t latest_ns;  // when the latest job that found workers asleep began
  int64_t pause_ns, until_ns;  // the latest pause, and its end; brief jobs stay alone for it
  bool paused;
} tc_brief;

// Returns whether brief jobs stay alone for now.
static inline bool tc_brief_is_paused(tc_brief *b) {
  if (TC_UNLIKELY(b->paused)) b->paused = (int64_t)tc_now_ns() < b->until_ns;
  return b->paused;
}

// Counts a job that found workers asleep. Returns whether so many followed closely that it wakes
// them.
static inline bool tc_brief_wakes(tc_brief *b) {
  int64_t now = (int64_t)tc_now_ns();
  b->n_close = now - b->latest_ns <= TC_BRIEF_NS ? b->n_close + 1 : 0;
  b->latest_ns = now;
  if (b->n_close < TC_BRIEF_JOBS) return false;
  b->n_close = 0;
  return true;
}

// Judges a job that was shared: whether workers helped, and whether one came late.
static inline void tc_brief_judge(tc_brief *b, bool helped, bool late) {
  b->n_missed = helped ? 0 : b->n_missed + 1;
  if (TC_LIKELY(!late && b->n_missed < TC_BRIEF_MISSES)) return;
  int64_t now = (int64_t)tc_now_ns();
  bool soon = now - b->until_ns < 8 * b->pause_ns;
  b->pause_ns = soon ? TC_MIN(2 * b->pause_ns, TC_BRIEF_MOST_PAUSE_NS) : TC_BRIEF_LEAST_PAUSE_NS;
  b->until_ns = now + b->pause_ns;
  b->paused = true;
  b->n_missed = b->n_close = 0;
}
