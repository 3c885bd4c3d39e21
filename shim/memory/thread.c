// The state of a thread, and the kernel's switch that shows us its system calls.
// In: what the thread begins and ends. Out: the selector that the kernel reads before each call.
// Invariants: no system call but those of raw.S. Threads: each has its own.
#include "shim/memory/thread.h"

#include <dlfcn.h>
#include <sys/prctl.h>

#include "shim/memory/process.h"
#include "shim/memory/raw.h"

enum { SET_DISPATCH = 59, DISPATCH_OFF = 0, DISPATCH_ON = 1, ALLOWED = 0, BLOCKED = 1 };

extern const char tc_shim_raw_begin[], tc_shim_raw_end[];

static __thread bool is_inside __attribute__((tls_model("initial-exec")));
static __thread volatile char selector __attribute__((tls_model("initial-exec")));
static __thread bool is_on __attribute__((tls_model("initial-exec")));

bool tc_shim_dispatch_is_there(void) {
  return tc_shim_raw(SYS_prctl, SET_DISPATCH, DISPATCH_OFF, 0, 0, 0, 0) == 0;
}

bool tc_shim_dispatch_begin(void) {
  if (!is_on || !tc_shim_process.sees_calls)
    is_on = tc_shim_process.sees_calls = tc_shim_raw(SYS_prctl, SET_DISPATCH, DISPATCH_ON, (long)tc_shim_raw_begin,
                                                     tc_shim_raw_end - tc_shim_raw_begin, (long)&selector, 0) == 0;
  return is_on;
}

void tc_shim_dispatch_set(bool blocks) {
  selector = blocks && is_on ? BLOCKED : ALLOWED;
}

bool tc_shim_is_inside(void) {
  return is_inside;
}

void tc_shim_set_inside(bool inside) {
  is_inside = inside;
}

void *tc_shim_next_function(const char *name) {
  return dlsym(RTLD_NEXT, name);
}
