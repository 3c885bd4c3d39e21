// A vendor's library, simulated, for programs that look at who makes what: what the driver counts
// and lets fail, options, choices that other processes find.
#pragma once

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <tc/tc.h>

#include "runtime/options.h"
#include "tests/expect.h"
#include "tests/files/files.h"
#include "tests/sim/built.h"

static const char *simulated_driver = "libsim-cuda.so";

static inline void *simulated(const char *name) {
  void *handle = dlopen(built(simulated_driver), RTLD_NOW | RTLD_LOCAL), *at = handle ? dlsym(handle, name) : NULL;
  EXPECT(at, "no %s", name);
  return at;
}

// How often the function was called.
static inline uint64_t calls(const char *name) {
  return ((uint64_t (*)(const char *))simulated("sim_calls"))(name);
}

static inline void fail(const char *spec) {
  EXPECT(((bool (*)(const char *))simulated("sim_fail"))(spec), "%s", spec);
}

static inline void set(const char *variable, const char *value) {
  setenv(variable, value, 1);
  tc_options_reload();
  tc_cache_clear();
}

// This program again, with these settings, which keeps and finds choices in the directory of
// files_path, and expects so.
static inline void child(const char *settings, const char *expected) {
  char command[2048], self[512];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  self[n < 0 ? 0 : n] = 0;
  snprintf(command, sizeof command, "TC_GPU_LIBRARIES=rule TC_AUTOTUNE=1 TC_CACHE_DIR='%s' %s '%s' '%s'",
           files_path(""), settings, self, expected);
  fflush(stdout);
  int status = system(command);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: status %d", command, status);
}

// Edits the one file of choices about that by sed; false: there is none.
static inline bool edit_choice(const char *about, const char *expression) {
  char command[768];
  snprintf(command, sizeof command, "sed -i -E '%s' '%s'/gpu-%s-*.txt", expression, files_path(""), about);
  return system(command) == 0;
}
