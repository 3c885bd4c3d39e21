// A lock that its owner thread takes all the time, and others hardly ever. It is biased towards the
// owner, who takes it by a store and a load, without an atomic read-modify-write or a fence.
// Measured: a pair of those costs some 40 cycles, a third of what recording an op costs.
//
// While the lock is biased, the owner sets `held` and then checks that it is still `biased`.
// Another thread takes the mutex, clears `biased`, makes every thread pass a full barrier
// (membarrier(2)) and waits until `held` is clear. If the owner saw `biased` set, its store of
// `held` precedes the barrier, so the other thread sees it. If not, the owner takes the mutex. From
// then on everybody takes the mutex, until tc_biased_lock_begin restores the bias.
// Without membarrier the lock is never biased and is a plain mutex. The same holds under the thread
// sanitizer, which cannot follow the protocol.
// Source: biased locks in virtual machines; the asymmetric fence in userspace RCU.
//
// Threads: one owner at a time, which the user of the lock knows. Not recursive.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "runtime/status.h"

typedef struct tc_biased_lock {
  pthread_mutex_t mutex;
  // True: only the owner uses the lock. Others clear it under the mutex; the owner sets it under
  // the mutex
  atomic_bool biased;
  atomic_bool held;  // true: the owner holds the lock by its bias, or is about to check the bias. Written by the owner
  // Other threads about to take the mutex. A busy owner lets them go first.
  atomic_uint n_waiting;
} tc_biased_lock;

void tc_biased_lock_init(tc_biased_lock *l);
void tc_biased_lock_fini(tc_biased_lock *l);
// Called by the thread that becomes the owner and does not hold the lock. Waits for threads that
// do.
void tc_biased_lock_begin(tc_biased_lock *l);

void tc_biased_lock_slow(tc_biased_lock *l);
// Takes the lock by its bias. False: it has none; tc_biased_lock_slow or tc_biased_lock_own must
// follow.
static inline bool tc_biased_lock_by_bias(tc_biased_lock *l) {
  atomic_store_explicit(&l->held, true, memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst);
  return TC_LIKELY(atomic_load_explicit(&l->biased, memory_order_acquire));
}
static inline void tc_biased_lock_own(tc_biased_lock *l) {
  if (!tc_biased_lock_by_bias(l)) tc_biased_lock_slow(l);
}
// Without its bias the owner has cleared `held` before it took the mutex.
static inline void tc_biased_unlock_own(tc_biased_lock *l) {
  if (TC_LIKELY(atomic_load_explicit(&l->held, memory_order_relaxed)))
    atomic_store_explicit(&l->held, false, memory_order_release);
  else
    pthread_mutex_unlock(&l->mutex);
}

// Called by any thread but the owner.
void tc_biased_lock_other(tc_biased_lock *l);
static inline void tc_biased_unlock_other(tc_biased_lock *l) {
  pthread_mutex_unlock(&l->mutex);
}

// Called around fork by the owner. In the child no other thread holds the lock or waits for it.
void tc_biased_lock_fork(tc_biased_lock *l);
void tc_biased_unlock_fork(tc_biased_lock *l, bool in_child);
