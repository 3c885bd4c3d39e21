// Starts threads without the caller's signals. See thread.h.
#include "runtime/thread.h"

#include <signal.h>

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
