// The simulator's libraries, which the build puts beside the test programs.
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// The path of what is called so beside this program; one of two static texts by turns.
static inline const char *built(const char *name) {
  static char path[2][512];
  static int k;
  k ^= 1;
  ssize_t n = readlink("/proc/self/exe", path[k], sizeof path[k] - 64);
  path[k][n < 0 ? 0 : n] = 0;
  char *slash = strrchr(path[k], '/');
  strcpy(slash ? slash + 1 : path[k], name);
  return path[k];
}

// Has tc open the simulated drivers of both vendors; false: they were not built.
static inline bool built_simulators(void) {
  if (access(built("libsim-cuda.so"), R_OK) != 0) return false;
  setenv("TC_CUDA_LIBRARY", built("libsim-cuda.so"), 1);
  setenv("TC_NVRTC_LIBRARY", built("libsim-nvrtc.so"), 1);
  setenv("TC_HIP_LIBRARY", built("libsim-hip.so"), 1);
  return true;
}

// AMD's libraries of products look for files of kernels for the device: a directory of this
// program's, with one for this architecture.
static inline bool built_kernels(const char *gfx) {
  char directory[640], path[704];
  snprintf(directory, sizeof directory, "%s", built("sim-kernels"));
  snprintf(path, sizeof path, "%s/TensileLibrary_%s.dat", directory, gfx);
  (void)mkdir(directory, 0777);
  int fd = open(path, O_CREAT | O_WRONLY, 0666);
  if (fd < 0) return false;
  close(fd);
  setenv("HIPBLASLT_TENSILE_LIBPATH", directory, 1);
  setenv("ROCBLAS_TENSILE_LIBPATH", directory, 1);
  return true;
}
