// Waiting in a loop: for how long, and with which pauses.
// Threads: a tc_spin is one thread's.
#pragma once

#include <stdatomic.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "runtime/status.h"

// How long a thread spins before it sleeps. Measured: virtual machine, 2 cores: a futex wake costs
// 12 to 38 us, so parking sooner costs more than it saves.
#define TC_SPIN_NS 50000
#define TC_SPIN_PAUSES_PER_CLOCK 32  // reading the clock costs 22 ns, a pause 20 to 60
#define TC_SPIN_BARE_LOOKS 4096  // looks before the first pause, some 4 us: a longer wait does not feel a pause

static inline void tc_spin_pause(void) {
#if defined(__x86_64__)
  _mm_pause();
#else
  atomic_signal_fence(memory_order_seq_cst);
#endif
}

// A wait; all zero at its start. tc_spin_over returns true once TC_SPIN_NS have passed.
typedef struct tc_spin {
  unsigned n;
  int64_t until_ns;
} tc_spin;

static inline bool tc_spin_over(tc_spin *s) {
  if (++s->n < TC_SPIN_BARE_LOOKS) return false;
  tc_spin_pause();
  if (s->n % TC_SPIN_PAUSES_PER_CLOCK != 0) return false;
  int64_t now = (int64_t)tc_now_ns();
  if (s->until_ns == 0) s->until_ns = now + TC_SPIN_NS;
  return now >= s->until_ns;
}
