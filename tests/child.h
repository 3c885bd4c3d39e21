// What is found in a process of its own: a number, such as a peak, which is never less than the one
// before; or how such a process ends.
// pre: this process has not used tc yet, whose threads would not be in the child.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/expect.h"

// What find(arg) gives there; -1 if the child failed, or one of its expectations did.
static inline double in_child(double (*find)(const void *arg), const void *arg) {
  int end[2], status = 0;
  double figure = -1;
  if (pipe(end) != 0) return figure;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    atomic_store(&expect_n_failed, 0);
    figure = find(arg);
    if (write(end[1], &figure, sizeof figure) != sizeof figure) _exit(1);
    _exit(atomic_load(&expect_n_failed) != 0);
  }
  close(end[1]);
  if (read(end[0], &figure, sizeof figure) != sizeof figure) figure = -1;
  close(end[0]);
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? figure : -1;
}

// The status that run(arg) gives there, or that whatever looks at the end of a process makes of it;
// -1: it was killed.
static inline int child_status(int (*run)(const void *arg), const void *arg) {
  int status = 0;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    atomic_store(&expect_n_failed, 0);
    exit(run(arg));
  }
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// For run above: whether an expectation of the child failed.
static inline int child_failed(void) {
  return atomic_load(&expect_n_failed) != 0;
}
