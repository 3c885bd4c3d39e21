// Object files of kernels: found on disk by all that they depend on, else made by the compiler and
// kept there. Between tc_compiler_begin and tc_compiler_end.
// Threads: thread-safe.
#ifndef TC_LOWERING_JIT_OBJECT_CACHE_H
#define TC_LOWERING_JIT_OBJECT_CACHE_H

#include "lowering/jit/kernel.h"

// Whether the kernel's object was on disk, and could be loaded.
bool tc_object_find(tc_kernel *k, const tc_kir *kir);
// Compiles the kernel, keeps the object, and loads it.
tc_status tc_object_make(tc_kernel *k, const tc_kir *kir);

#endif
