// Folders of AMD's libraries, and of the kernels that they read from files. Those libraries end the
// process on a device for which they find no kernels.
// Threads: thread-safe.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Returns the library of this name as the loader finds it, or from below /opt/rocm; NULL: there is
// none.
void *tc_hip_library_paths_open(const char *name);
// Returns whether there are kernel files for arch ("gfx90a:sramecc+:xnack-"), in the folder `given`
// if it is not NULL. Else it looks for the folder ("rocblas/library") beside the library that
// defines `function`, or below a version's name.
bool tc_hip_library_paths_kernels(void *function, const char *given, const char *stem, const char *arch);
