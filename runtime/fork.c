// See fork.h.
#include "runtime/fork.h"

#define MAX_LOCKS 16

static struct {
  pthread_mutex_t *lock;
  int rank;
} locks[MAX_LOCKS];
static int n_locks;

static void before(void) {
  for (int i = 0; i < n_locks; i++) pthread_mutex_lock(locks[i].lock);
}

static void after(void) {
  for (int i = n_locks; i-- > 0;) pthread_mutex_unlock(locks[i].lock);
}

void tc_fork_register(pthread_mutex_t *lock, int rank) {
  if (n_locks == 0) pthread_atfork(before, after, after);
  if (n_locks == MAX_LOCKS) return;
  int at = n_locks++;
  for (; at > 0 && locks[at - 1].rank > rank; at--) locks[at] = locks[at - 1];
  locks[at].lock = lock, locks[at].rank = rank;
}
