// Folders of CUDA's libraries in which the loader does not look: toolkits, and packages of Python.
// Threads: thread-safe.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Calls each with every file of this name in CUDA_HOME, /usr/local/cuda and Python's packages,
// until it returns true; false if it never does.
bool tc_cuda_library_paths(const char *name, bool (*each)(const char *path, void *arg), void *arg);
// Opens the library of this name as the loader finds it, else from those folders. False: why tells
// what the last file there lacked; "" if there was none.
typedef bool tc_cuda_opener(int driver_major, const char *path, char *why, size_t bytes);
bool tc_cuda_library_find(tc_cuda_opener *open, int driver_major, const char *name, char *why, size_t bytes);
