// Where AMD's libraries lie, and the kernels that they read from files: of an architecture for
// which there are none they end the process.
#ifndef TC_DEVICE_HIP_LIBRARY_PATHS_H
#define TC_DEVICE_HIP_LIBRARY_PATHS_H

#include <stdbool.h>
#include <stddef.h>

// The library of this name as the loader finds it, or below /opt/rocm; NULL: there is none.
void *tc_hip_places_open(const char *name);
// Whether there are files for arch ("gfx90a:sramecc+:xnack-") in `given`, or, without it, where the
// library that `function` is of has its directory ("rocblas/library"): beside itself, or below a
// version's name.
bool tc_hip_places_kernels(void *function, const char *given, const char *stem, const char *arch);

#endif
