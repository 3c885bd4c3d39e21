// Where CUDA's libraries lie that the loader does not find by their names alone: toolkits, and what
// pip installed.
#ifndef TC_DEVICE_CUDA_LIBRARY_PATHS_H
#define TC_DEVICE_CUDA_LIBRARY_PATHS_H

#include <stdbool.h>
#include <stddef.h>

// Calls each for every file of this name in CUDA_HOME, /usr/local/cuda and the packages of Pythons,
// until it returns true.
bool tc_cuda_places(const char *name, bool (*each)(const char *path, void *arg), void *arg);
// Opens the library of this name as the loader finds it, or there. why: of the last one there that
// was refused, and "" without one.
typedef bool tc_cuda_opener(int driver_major, const char *path, char *why, size_t bytes);
bool tc_cuda_library_find(tc_cuda_opener *open, int driver_major, const char *name, char *why, size_t bytes);

#endif
