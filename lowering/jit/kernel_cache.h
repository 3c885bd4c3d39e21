// The cache that makes equal kernels share a kernel: by the kernel's bytes in this process, by its
// objects on disk (object_cache.h), else compiled or interpreted.
// Threads: thread-safe. Owns a reference to each kernel that it keeps.
#ifndef TC_LOWERING_JIT_KERNEL_CACHE_H
#define TC_LOWERING_JIT_KERNEL_CACHE_H

#include "lowering/jit/kernel.h"
#include "lowering/jit/shape_generic.h"

// The kernel of a kernel: found by the kernel's bytes in this process or on disk, or compiled
// (interpreted without a compiler). kernel is borrowed. stem: part of the name. compiled is added
// to when neither had it. gpu: what a kernel with threads is compiled for; NULL of others.
tc_status tc_kernel_get(const tc_kir *kir, const char *stem, tc_gpu *gpu, tc_kernel **out, uint32_t *compiled);
// Many kernels; those that must be compiled are, by the threads of the team, the longest first, and
// those whose run is interpreted sooner than they are compiled are interpreted first, unless
// TC_INTERPRET_FIRST=0; those that differ by constants alone from one that had their place share a
// general one (shape_generic.h), unless TC_GENERIC_KERNELS=0. Each kernel is a reference; on
// failure there is none, and the error is that of the first request that has one.
typedef struct tc_kernel_request {
  const tc_kir *kir;  // borrowed, as text and stem are; NULL: it is made from text
  const char *text;  // of a GPU's kernel, called stem, whose launch is said by who asks; NULL, too: it is the GPU's own
  uint32_t own;  // which of the GPU's (tc_gpu_own_make), which keeps it: none is given
  const char *stem;
  uint64_t site;  // equal for kernels that do the same at different sizes; 0: none
  double work;  // of a run: estimated nanoseconds of one thread in compiled code
  tc_generic_kernel *generic;  // taken: a kernel that does the same, and more; NULL or without instructions: none
  tc_kernel *kernel;
} tc_kernel_request;
tc_status tc_kernel_get_all(tc_kernel_request *request, uint32_t n, tc_gpu *gpu, uint32_t *compiled);
// Code of its own for one that is interpreted, or done by a general one, which it is until that is
// there. An error is told in the log: it stays so.
void tc_kernel_compile(tc_kernel *k);
void tc_kernel_cache_clear(void);
void tc_kernel_stats(tc_cache_info *info);

#endif
