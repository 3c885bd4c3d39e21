// A lock that one thread, its owner, takes all the time and others hardly ever: biased towards the
// owner, who then takes it by a store and a load, without an atomic read-modify-write or a fence
// (some 40 cycles a pair, a third of what recording an op costs).
//
// While biased, the owner sets `held` and looks whether it is still `biased`. Another thread takes
// the mutex, clears `biased`, makes every thread of the process pass a full barrier
// (membarrier(2)), and waits until `held` is clear. If the owner saw `biased` set, its store of
// `held` came before the barrier, so the other sees it; if not, the owner goes to the mutex. From
// then on everybody takes the mutex, until tc_biased_lock_begin gives the bias anew. The idea is
// that of biased locks in virtual machines, and of the asymmetric fence in userspace RCU. Where
// there is no membarrier, and under the thread sanitizer, which cannot follow it, the lock is never
// biased and is a mutex.
//
// Threads: one owner at a time, which the user of the lock knows. Not recursive.
#ifndef TC_RUNTIME_BIASED_LOCK_H
#define TC_RUNTIME_BIASED_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "runtime/status.h"

typedef struct tc_biased_lock {
  pthread_mutex_t mutex;
  atomic_bool biased;  // only the owner uses the lock; cleared by others under the mutex, set by the owner under it
  atomic_bool held;  // written by the owner: it holds the lock by its bias, or is about to look whether it may
  // others that are about to take the mutex: an owner that takes it all the time lets them first
  atomic_uint n_waiting;
} tc_biased_lock;

void tc_biased_lock_init(tc_biased_lock *l);
void tc_biased_lock_fini(tc_biased_lock *l);
// By the thread that is the owner from now on, which does not hold it. Waits for others that do.
void tc_biased_lock_begin(tc_biased_lock *l);

void tc_biased_lock_slow(tc_biased_lock *l);
static inline void tc_biased_lock_own(tc_biased_lock *l) {
  atomic_store_explicit(&l->held, true, memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst);
  if (TC_UNLIKELY(!atomic_load_explicit(&l->biased, memory_order_acquire))) tc_biased_lock_slow(l);
}
// Without its bias the owner has cleared `held` before it took the mutex.
static inline void tc_biased_unlock_own(tc_biased_lock *l) {
  if (TC_LIKELY(atomic_load_explicit(&l->held, memory_order_relaxed)))
    atomic_store_explicit(&l->held, false, memory_order_release);
  else
    pthread_mutex_unlock(&l->mutex);
}

// By any thread but the owner.
void tc_biased_lock_other(tc_biased_lock *l);
static inline void tc_biased_unlock_other(tc_biased_lock *l) {
  pthread_mutex_unlock(&l->mutex);
}

// Around fork, by the owner: no other thread holds the lock or is about to take it in the child.
void tc_biased_lock_fork(tc_biased_lock *l);
void tc_biased_unlock_fork(tc_biased_lock *l, bool in_child);

#endif
