// Writing of files, whatever limits the process has. Threads: any.
#include "shim/file.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static bool is_raised(int number) {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, number) == 1;
}

bool tc_shim_write(int file, const char *text, size_t bytes) {
  sigset_t too_large, before;
  sigemptyset(&too_large);
  sigaddset(&too_large, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &too_large, &before);
  bool was_raised = is_raised(SIGXFSZ), done = true;
  while (bytes > 0 && done) {
    ssize_t n = write(file, text, bytes);
    done = n > 0 || (n < 0 && errno == EINTR);
    if (n > 0) {
      text += n;
      bytes -= (size_t)n;
    }
  }
  int why = errno;
  if (!was_raised && is_raised(SIGXFSZ)) (void)sigtimedwait(&too_large, NULL, &(struct timespec){0});
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = why;
  return done;
}
