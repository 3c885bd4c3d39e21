// Revoking the bias, and the lock's part in a fork. See biased_lock.h.
#include "runtime/biased_lock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define MAY_BIAS 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MAY_BIAS 0
#endif
#endif
#if !defined(MAY_BIAS)
#define MAY_BIAS 1
#endif

// Commands of membarrier(2). Old systems lack its header.
#define MEMBARRIER_PRIVATE_EXPEDITED 8
#define MEMBARRIER_REGISTER_PRIVATE_EXPEDITED 16

#define MOST_PAUSES 50  // 20 us each, how long the owner makes way for others: some milliseconds

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool has_barrier;

static bool call_membarrier(int command) {
#ifdef SYS_membarrier
  return syscall(SYS_membarrier, command, 0, 0) == 0;
#else
  (void)command;
  return false;
#endif
}

// A registration lasts as long as the process, and its children inherit it.
static void find_barrier(void) {
  has_barrier = MAY_BIAS && call_membarrier(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED) &&
                call_membarrier(MEMBARRIER_PRIVATE_EXPEDITED);
}

void tc_biased_lock_init(tc_biased_lock *l) {
  pthread_mutex_init(&l->mutex, NULL);
  atomic_init(&l->biased, false);
  atomic_init(&l->held, false);
  atomic_init(&l->n_waiting, 0);
}

void tc_biased_lock_fini(tc_biased_lock *l) {
  pthread_mutex_destroy(&l->mutex);
}

void tc_biased_lock_begin(tc_biased_lock *l) {
  pthread_once(&once, find_barrier);
  pthread_mutex_lock(&l->mutex);
  atomic_store_explicit(&l->biased, has_barrier, memory_order_relaxed);
  pthread_mutex_unlock(&l->mutex);
}

static void pause_20us(void) {
  nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

// The owner found its bias revoked. It makes way for waiting threads first. A mutex goes to whoever
// runs, so an owner that comes back at once would starve a woken thread.
void tc_biased_lock_slow(tc_biased_lock *l) {
  atomic_store_explicit(&l->held, false, memory_order_relaxed);
  for (int i = 0; i < MOST_PAUSES && atomic_load_explicit(&l->n_waiting, memory_order_relaxed) != 0; i++) pause_20us();
  pthread_mutex_lock(&l->mutex);
}

void tc_biased_lock_other(tc_biased_lock *l) {
  atomic_fetch_add_explicit(&l->n_waiting, 1, memory_order_relaxed);
  pthread_mutex_lock(&l->mutex);
  atomic_fetch_sub_explicit(&l->n_waiting, 1, memory_order_relaxed);
  if (TC_LIKELY(!atomic_load_explicit(&l->biased, memory_order_acquire))) return;
  atomic_store_explicit(&l->biased, false, memory_order_relaxed);
  // The call does not fail once the process is registered. If a fork lost the registration, only
  // waiting is left.
  (void)call_membarrier(MEMBARRIER_PRIVATE_EXPEDITED);
  // This runs once per bias, so a queue is not worth it; the owner may be in a long run. Acquire:
  // sees what the owner wrote while it held the lock.
  while (atomic_load_explicit(&l->held, memory_order_acquire)) pause_20us();
}

// Another thread may be revoking the bias while the owner forks. It holds the mutex then, and the
// owner waits for it.
void tc_biased_lock_fork(tc_biased_lock *l) {
  // Release: a thread that takes the mutex first and sees this needs no barrier to see what the
  // owner wrote before.
  atomic_store_explicit(&l->biased, false, memory_order_release);
  pthread_mutex_lock(&l->mutex);
}

void tc_biased_unlock_fork(tc_biased_lock *l, bool in_child) {
  // Those threads do not exist in the child.
  if (in_child) atomic_store_explicit(&l->n_waiting, 0, memory_order_relaxed);
  atomic_store_explicit(&l->biased, has_barrier, memory_order_relaxed);
  pthread_mutex_unlock(&l->mutex);
}
