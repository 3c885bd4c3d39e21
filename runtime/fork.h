// fork() in the caller: the library's locks are taken around it, so that the child finds the data
// they guard whole.
//
// TC_FORK_SAFE(lock, rank) registers a static lock when the library is loaded. TC_FORK_WAITS does
// so with a lock that threads hold for reading in code that a fork must not cut; it is taken for
// writing.
// Invariants: locks are taken by rising rank, so a lock held while another is taken has the smaller
// rank. A fork in a signal handler that interrupted the library takes no locks. Such a child must
// exec or exit.
// Threads: registration happens before there are any.
#pragma once

#include <pthread.h>

// Registers one of the two; the other is NULL.
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
