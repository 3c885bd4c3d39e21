// Begins to guard: a keeper, handlers, what happens around fork.
// In: a keeper. Out: handlers of SIGSEGV and SIGSYS. Threads: the first that defers a call.
#include <errno.h>
#include <pthread.h>
#include <pty.h>
#include <unistd.h>

#include "shim/memory/block.h"
#include "shim/memory/dispatch.h"
#include "shim/memory/guard.h"
#include "shim/memory/signals.h"
#include "shim/memory/thread.h"

static void on_fault(int number, siginfo_t *info, void *context) {
  int kept = errno;
  bool done = tc_shim_resolve_fault(info, context);
  errno = kept;
  if (!done) tc_shim_signal_chain(number, info, context);
}

// libtc's own handlers take its locks, so that what waits runs before all handlers.
__attribute__((visibility("default"))) pid_t fork(void) {
  static pid_t (*real)(void);
  if (!real) real = (pid_t(*)(void))tc_shim_next_function("fork");
  bool locked = tc_shim_guards_before_fork();
  pid_t child = real();
  if (child == 0) tc_shim_dispatch_forked();
  if (locked) tc_shim_guards_after_fork();
  return child;
}

__attribute__((visibility("default"))) int forkpty(int *out, char *name, const struct termios *t,
                                                   const struct winsize *w) {
  static int (*real)(int *, char *, const struct termios *, const struct winsize *);
  if (!real) real = (__typeof__(real))tc_shim_next_function("forkpty");
  bool locked = tc_shim_guards_before_fork();
  int child = real(out, name, t, w);
  if (child == 0) tc_shim_dispatch_forked();
  if (locked) tc_shim_guards_after_fork();
  return child;
}

bool tc_shim_memory_start(const tc_shim_keeper *keeper, const char **out_why) {
  *out_why = NULL;
  if (!tc_shim_dispatch_is_there())
    *out_why = "the kernel has no Syscall User Dispatch";
  else if (!tc_shim_guards_start(keeper))
    *out_why = "there is no memory for a stack";
  else if (!tc_shim_handlers_install(on_fault, tc_shim_on_dispatch) ||
           pthread_atfork(tc_shim_blocks_lock, tc_shim_blocks_unlock, tc_shim_blocks_unlock) != 0)
    *out_why = "the handler of SIGSEGV cannot be installed";
  return !*out_why;
}
