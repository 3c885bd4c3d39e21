// Starting threads without the caller's signals, and pinning them. See thread.h.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // pthread_setaffinity_np
#endif
#include "runtime/thread.h"

#include <signal.h>

#include "runtime/topology.h"

int tc_thread_start(pthread_t *thread, void *(*main)(void *arg), void *arg) {
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
  sigset_t blocked, before;
  sigfillset(&blocked);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&blocked, faults[i]);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  int error = pthread_create(thread, NULL, main, arg);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return error;
}

bool tc_thread_pin(pthread_t thread, int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)tc_topology_get()->pu_of_core[core], &set);
  return pthread_setaffinity_np(thread, sizeof set, &set) == 0;
}

void tc_thread_unpin(pthread_t thread) {
  const tc_topology *t = tc_topology_get();
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core = 0; core < t->n_cores; core++)
    if (t->pu_of_core[core] < CPU_SETSIZE) CPU_SET((size_t)t->pu_of_core[core], &set);
  // If it is refused, the thread stays where it is.
  (void)pthread_setaffinity_np(thread, sizeof set, &set);
}
