// Begins to guard: a keeper, handlers.
// In: a keeper. Out: handlers of SIGSEGV and SIGSYS. Threads: the first that defers a call.
#include <errno.h>

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

bool tc_shim_memory_start(const tc_shim_keeper *keeper, const char **out_why) {
  *out_why = NULL;
  if (tc_shim_allocator_is_other())
    *out_why = "the program has an allocator of its own";
  else if (tc_shim_memory_is_limited())
    *out_why = "the process's memory is limited (ulimit -v or -d)";
  else if (!tc_shim_dispatch_is_there())
    *out_why = "the kernel has no Syscall User Dispatch";
  else if (!tc_shim_guards_start(keeper))
    *out_why = "there is no memory for a stack, or the kernel cannot empty a page in a child";
  else if (!tc_shim_handlers_install(on_fault, tc_shim_on_dispatch))
    *out_why = "the handler of SIGSEGV cannot be installed";
  return !*out_why;
}
