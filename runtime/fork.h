// fork() in the caller: locks of the library are taken around it, so that the child finds what they
// guard whole.
//
// TC_FORK_SAFE(lock, rank) registers a static lock when the library is loaded. Locks are taken by
// rising rank: a lock that is held while another is taken has the smaller one. TC_FORK_WAITS does
// so with a lock that is held for reading by threads in code that a fork must not cut: it is taken
// for writing. A fork in a signal handler that interrupted the library takes none: such a child
// must exec or exit.
#ifndef TC_RUNTIME_FORK_H
#define TC_RUNTIME_FORK_H

#include <pthread.h>

// One of the two.
void tc_fork_register(pthread_mutex_t *lock, pthread_rwlock_t *readers, int rank);

#define TC_FORK_SAFE(lock, rank) \
  static void register_lock(void) __attribute__((constructor)); \
  static void register_lock(void) { \
    tc_fork_register(lock, NULL, rank); \
  }
#define TC_FORK_WAITS(readers, rank) \
  static void register_readers(void) __attribute__((constructor)); \
  static void register_readers(void) { \
    tc_fork_register(NULL, readers, rank); \
  }

#endif
