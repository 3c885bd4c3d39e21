// Writing all of some bytes, in whoever's process. In a header, since the shim links libc alone.
// Threads: thread-safe. Owner: nobody.
#pragma once

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

static inline bool tc_signal_is_pending(int number) {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, number) == 1;
}

// Writes all bytes; false with errno. A file above the process's size limit is an error and does
// not end the process: the signal is blocked and taken off. One that was there before stays.
static inline bool tc_write_whole(int fd, const char *data, size_t bytes) {
  sigset_t too_large, before;
  bool done = true;
  sigemptyset(&too_large);
  sigaddset(&too_large, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &too_large, &before);
  bool was_raised = tc_signal_is_pending(SIGXFSZ);
  while (bytes > 0 && done) {
    ssize_t n = write(fd, data, bytes);
    done = n > 0 || (n < 0 && errno == EINTR);
    if (n > 0) data += n, bytes -= (size_t)n;
  }
  int why = errno;
  if (!done && why == EFBIG && !was_raised && tc_signal_is_pending(SIGXFSZ)) {
    const struct timespec now = {0};
    (void)sigtimedwait(&too_large, NULL, &now);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = why;
  return done;
}
