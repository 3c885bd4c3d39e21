// Forks of programs: what waits runs before, by whatever function of the C library they fork.
// In: fork, _Fork, forkpty, daemon; syscall(SYS_fork or SYS_clone ..) by way of raw.S. Out: a child
// whose memory has everything. Invariants: no lock is held during the fork. Threads: any; handlers,
// too, once the library is loaded.
#include <errno.h>
#include <pty.h>
#include <unistd.h>

#include "shim/memory/guard.h"
#include "shim/memory/raw.h"
#include "shim/memory/thread.h"

#define EXPORT __attribute__((visibility("default")))

static struct {
  pid_t (*fork)(void), (*_Fork)(void);
  int (*forkpty)(int *, char *, const struct termios *, const struct winsize *);
  int (*daemon)(int, int);
} real;

// Handlers cannot look a name up.
__attribute__((constructor)) static void find_real(void) {
  if (real.fork) return;
  real._Fork = (__typeof__(real._Fork))tc_shim_next_function("_Fork");
  real.forkpty = (__typeof__(real.forkpty))tc_shim_next_function("forkpty");
  real.daemon = (__typeof__(real.daemon))tc_shim_next_function("daemon");
  real.fork = (__typeof__(real.fork))tc_shim_next_function("fork");
}

#define FORK(result, name, params, args) \
  EXPORT result name params { \
    find_real(); \
    tc_shim_guards_before_fork(); \
    result child = real.name args; \
    tc_shim_guards_after_fork(); \
    return child; \
  }

FORK(pid_t, fork, (void), ())
FORK(pid_t, _Fork, (void), ())
FORK(int, forkpty, (int *out, char *name, const struct termios *t, const struct winsize *w), (out, name, t, w))
FORK(int, daemon, (int stays, int keeps_files), (stays, keeps_files))

// The C library's syscall, where it copies the process.
__attribute__((visibility("hidden"))) long tc_shim_fork_by_number(long number, long a, long b, long c, long d, long e);
long tc_shim_fork_by_number(long number, long a, long b, long c, long d, long e) {
  tc_shim_guards_before_fork();
  long child = tc_shim_raw(number, a, b, c, d, e, 0);
  tc_shim_guards_after_fork();
  if (child >= 0) return child;
  errno = (int)-child;
  return -1;
}
