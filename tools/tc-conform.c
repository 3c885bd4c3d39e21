// tc-conform: checks a back end outside the tree (docs/add-a-back-end.md).
//
// In: the shared object's path. Out: a line a group of checks, `N passed, N failed, N not taken`;
// exit status 1 if something failed, 2 if it could not be loaded.
// Results are compared with tc:ref, within the tolerances of tests/samples.def.
#include "tools/conform/conform.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char help[] =
    "tc-conform [--all] BACKEND.so\n"
    "Checks a back end of tc: a line for each group of checks, then the sum.\n"
    "  --all   every case of the ops, not a sample\n"
    "Exit status: 0 all passed, 1 something failed, 2 the back end was not loaded.\n"
    "Ops that the back end does not take are run by the CPU and counted as not taken.\n";

#define MOST_SHOWN 5  // failures of a group

static struct {
  pthread_mutex_t lock;
  const char *group;
  int n_passed, n_failed, n_left;  // of the group
  int all_passed, all_failed, all_left;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};

void conform_begin(const char *group) {
  self.group = group, self.n_passed = self.n_failed = self.n_left = 0;
}

bool conform_check(bool ok, const char *fmt, ...) {
  pthread_mutex_lock(&self.lock);
  *(ok ? &self.n_passed : &self.n_failed) += 1;
  if (!ok && self.n_failed <= MOST_SHOWN) {
    va_list args;
    va_start(args, fmt);
    printf("  FAILED %s: ", self.group);
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
  }
  pthread_mutex_unlock(&self.lock);
  return ok;
}

void conform_left(void) {
  self.n_left++;
}

void conform_end(void) {
  if (self.n_failed > MOST_SHOWN) printf("  .. and %d more\n", self.n_failed - MOST_SHOWN);
  if (self.n_passed + self.n_failed + self.n_left > 0)
    printf("%-18s %5d passed, %d failed, %d not taken\n", self.group, self.n_passed, self.n_failed, self.n_left);
  self.all_passed += self.n_passed, self.all_failed += self.n_failed, self.all_left += self.n_left;
  fflush(stdout);
}

int main(int argc, char **argv) {
  const char *path = NULL, *device;
  bool all = false;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return fputs(help, stdout), 0;
    if (strcmp(argv[i], "--all") == 0)
      all = true;
    else if (path || argv[i][0] == '-')
      return fprintf(stderr, "tc-conform: there is no '%s'\n%s", argv[i], help), 2;
    else
      path = argv[i];
  }
  if (!path) return fputs(help, stderr), 2;
  if (tc_backend_load(path, &device) != TC_OK) return fprintf(stderr, "tc-conform: %s\n", tc_last_error()->message), 2;
  if (tc_set_default_device(device) != TC_OK) return fprintf(stderr, "tc-conform: %s\n", tc_last_error()->message), 2;
  printf("%s is %s\n", device, path);
  conform_table(path);
  conform_memory(device);
  conform_moves(device);
  conform_ops(device, all);  // leaves tc:ref or the device as the default
  if (tc_set_default_device(device) != TC_OK) return 1;
  conform_order(device);
  conform_threads(device);
  conform_training(device);
  conform_reopening(device);
  tc_shutdown();
  printf("%s: %d passed, %d failed, %d not taken\n", device, self.all_passed, self.all_failed, self.all_left);
  return self.all_failed > 0;
}
