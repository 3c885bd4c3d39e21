// See library_paths.h.
#include "device/hip/library_paths.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "device/gpu/library.h"
#include "runtime/files.h"

void *tc_hip_library_paths_open(const char *name) {
  static const char *const where[] = {"/opt/rocm/lib", "/opt/rocm-*/lib"};
  void *handle = NULL;
  if (!tc_library_open_at(name, &handle))
    (void)tc_library_search(name, where, sizeof where / sizeof *where, tc_library_open_at, &handle);
  return handle;
}

static bool is_there(const char *path, void *unused) {
  (void)path, (void)unused;
  return true;
}

bool tc_hip_library_paths_kernels(void *function, const char *given, const char *stem, const char *arch) {
  char directory[TC_PATH_BYTES], beside[TC_PATH_BYTES], versioned[TC_PATH_BYTES], pattern[64];
  const char *const where[] = {given ? given : beside, given ? NULL : versioned};
  Dl_info info;
  snprintf(pattern, sizeof pattern, "*%.*s*", (int)strcspn(arch, ":"), arch);
  if (!given) {
    if (!dladdr(function, &info) || !info.dli_fname) return false;
    snprintf(directory, sizeof directory, "%.4000s", info.dli_fname);
    char *slash = strrchr(directory, '/');
    if (!slash) return false;
    *slash = 0;
    snprintf(beside, sizeof beside, "%.4000s/%s/library", directory, stem);
    snprintf(versioned, sizeof versioned, "%.4000s/%s/*/library", directory, stem);
  }
  return tc_library_search(pattern, where, 2, is_there, NULL);
}
