// Where CUDA's libraries lie that the loader does not find by their names alone: toolkits, and what pip installed.
#ifndef TC_DEVICE_CUDA_LIBRARY_PATHS_H
#define TC_DEVICE_CUDA_LIBRARY_PATHS_H

#include <stdbool.h>

// Calls each for every file of this name in CUDA_HOME, /usr/local/cuda and the packages of Pythons, until it returns true.
bool tc_cuda_places(const char *name, bool (*each)(const char *path, void *arg), void *arg);

#endif
