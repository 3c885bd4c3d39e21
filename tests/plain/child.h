// A number found in a process of its own, such as a peak, which is never less than the one before.
// pre: this process has not used tc yet, whose threads would not be in the child.
#ifndef TC_TESTS_CHILD_H
#define TC_TESTS_CHILD_H

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/plain/expect.h"

// What find(arg) gives there; -1 if the child failed, or one of its expectations did.
static double in_child(double (*find)(const void *arg), const void *arg) {
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

#endif
