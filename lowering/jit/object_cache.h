// Object files of kernels: found on disk by all that they depend on, else compiled and stored
// there.
// In: a kernel with its key and its kernel IR. Out: the kernel's code is loaded.
// Always called between tc_compiler_begin and tc_compiler_end.
// Threads: thread-safe.
#pragma once

#include "lowering/jit/kernel.h"

// Loads the kernel's object from disk. False: there is none, or it does not load.
bool tc_object_find(tc_kernel *k, const tc_kir *kir);
// Compiles the kernel, stores the object on disk, and loads it.
tc_status tc_object_make(tc_kernel *k, const tc_kir *kir);
