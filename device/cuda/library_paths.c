// See library_paths.h.
#include "device/cuda/library_paths.h"

#include <stdio.h>

#include "device/gpu/library.h"
#include "runtime/files.h"
#include "runtime/options.h"

#define PYTHON "lib/python3*/site-packages/nvidia/*/lib"

bool tc_cuda_library_paths(const char *name, bool (*each)(const char *path, void *arg), void *arg) {
  const tc_options *o = tc_options_get();
  char home[TC_PATH_BYTES], venv[TC_PATH_BYTES], user[TC_PATH_BYTES];
  snprintf(home, sizeof home, "%.4000s/lib64", o->cuda_home ? o->cuda_home : "/usr/local/cuda");
  snprintf(venv, sizeof venv, "%.4000s/" PYTHON, o->virtual_env ? o->virtual_env : "/usr");
  snprintf(user, sizeof user, "%.4000s/.local/" PYTHON, o->home ? o->home : "");
  const char *const where[] = {
      home,
      "/usr/local/cuda/lib64",
      "/usr/local/cuda-*/lib64",
      venv,
      user,
      "/usr/local/" PYTHON,
      "/usr/local/lib/python3*/dist-packages/nvidia/*/lib",
      "/usr/lib/python3/dist-packages/nvidia/*/lib",
  };
  return tc_library_search(name, where, sizeof where / sizeof *where, each, arg);
}

typedef struct attempt {
  tc_cuda_opener *open;
  int driver_major;
  char *why;
  size_t bytes;
} attempt;

static bool try_path(const char *path, void *arg) {
  const attempt *a = arg;
  return a->open(a->driver_major, path, a->why, a->bytes);
}

bool tc_cuda_library_find(tc_cuda_opener *open, int driver_major, const char *name, char *why, size_t bytes) {
  attempt a = {open, driver_major, why, bytes};
  bool found = open(driver_major, name, why, bytes);
  *why = 0;
  return found || tc_cuda_library_paths(name, try_path, &a);
}
