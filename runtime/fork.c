// The list of locks, taken and released around a fork. See fork.h.
#include "runtime/fork.h"

#include <string.h>

#include "runtime/assert.h"
#include "runtime/inside.h"

#define MAX_LOCKS 64

static struct {
  pthread_mutex_t *lock;
  pthread_rwlock_t *readers;
  int rank;
} locks[MAX_LOCKS];
static int n_locks;

static void lock_before(void) {
  for (int i = 0; i < n_locks && !tc_inside; i++) {
    if (locks[i].lock)
      pthread_mutex_lock(locks[i].lock);
    else
      pthread_rwlock_wrlock(locks[i].readers);
  }
}

static void unlock_after(void) {
  for (int i = n_locks; i-- > 0 && !tc_inside;) {
    if (locks[i].lock)
      pthread_mutex_unlock(locks[i].lock);
    else
      pthread_rwlock_unlock(locks[i].readers);
  }
}

// Readers that waited in the parent do not exist here, so their marks are cleared.
static void unlock_in_child(void) {
  static const pthread_rwlock_t fresh = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
  for (int i = n_locks; i-- > 0 && !tc_inside;) {
    if (locks[i].lock)
      pthread_mutex_unlock(locks[i].lock);
    else
      memcpy(locks[i].readers, &fresh, sizeof fresh);
  }
}

void tc_fork_register(pthread_mutex_t *lock, pthread_rwlock_t *readers, int rank) {
  if (n_locks == 0) pthread_atfork(lock_before, unlock_after, unlock_in_child);
  TC_ASSERT(n_locks < MAX_LOCKS);
  int at = n_locks++;
  for (; at > 0 && locks[at - 1].rank > rank; at--) locks[at] = locks[at - 1];
  locks[at].lock = lock, locks[at].readers = readers, locks[at].rank = rank;
}
