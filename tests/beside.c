// Settings of a test program that is run by hand, as those that Meson gives it: the compiler's
// plug-in and the back ends that lie beside the program. Part of every test of Criterion's and of
// cases, whose processes do not know by which path they were started.
// Invariants: what is set already stays.
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void set_if_there(const char *name, const char *text, const char *file) {
  if (access(file, R_OK) == 0) setenv(name, text, 0);
}

__attribute__((constructor)) static void set_beside(void) {
  char program[PATH_MAX], far[PATH_MAX + 32], both[2 * sizeof far];
  ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  if (n <= 0) return;
  program[n] = 0;
  const char *folder = dirname(program);
  snprintf(far, sizeof far, "%s/libtc-llvm.so", folder);
  set_if_there("TC_LLVM_PATH", far, far);
  snprintf(far, sizeof far, "%s/backend-far.so", folder);
  snprintf(both, sizeof both, "%s:%s/backend-slow.so", far, folder);
  set_if_there("TC_BACKEND_PATH", both, far);
}
