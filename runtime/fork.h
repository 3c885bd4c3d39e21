// fork() in the caller: locks of the library are taken around it, so that the child finds what they guard whole.
//
// TC_FORK_SAFE(lock, rank) registers a static lock when the library is loaded. Locks are taken by rising rank: a lock that is held while another is
// taken has the smaller one.
#ifndef TC_RUNTIME_FORK_H
#define TC_RUNTIME_FORK_H

#include <pthread.h>

void tc_fork_register(pthread_mutex_t *lock, int rank);

#define TC_FORK_SAFE(lock, rank) \
  static void register_lock(void) __attribute__((constructor)); \
  static void register_lock(void) { \
    tc_fork_register(lock, rank); \
  }

#endif
