// Maps equal kernel IR to one kernel: found by its bytes in this process, then on disk
// (object_cache.h), else compiled or interpreted.
// Threads: thread-safe. Owner: the cache owns a reference to each kernel in it.
#pragma once

#include "lowering/jit/kernel.h"
#include "lowering/jit/shape_generic.h"

// The kernel of some kernel IR. Without a compiler it is interpreted. kir is borrowed.
// stem: part of the name. *compiled is incremented if neither memory nor disk had the kernel.
// gpu: the device to compile for; NULL: the host's CPU.
tc_status tc_kernel_get(const tc_kir *kir, const char *stem, tc_gpu *gpu, tc_kernel **out, uint32_t *compiled);
// The kernels of many requests.
// The team compiles what must be compiled, the longest first.
// A kernel whose run costs little is interpreted first, unless TC_INTERPRET_FIRST=0.
// Kernels of one site that differ by constants alone share a shape-generic kernel
// (shape_generic.h), unless TC_GENERIC_KERNELS=0.
// Each kernel is a new reference. On failure there is none, and the error is that of the first
// request that fails.
typedef struct tc_kernel_request {
  const tc_kir *kir;  // borrowed, as text and stem are; NULL: made from text
  // source of a GPU kernel named stem; the requester knows its launch. NULL, and kir too: built
  // into the GPU
  const char *text;
  // index of the built-in kernel (tc_gpu_own_make); the GPU keeps it, `kernel` stays NULL
  uint32_t own;
  const char *stem;
  uint64_t site;  // equal for kernels that do the same at different sizes; 0: none
  double work;  // estimated nanoseconds of one run in compiled code on one thread
  // consumed: kernel IR that does the same and covers more sizes; NULL or without instructions:
  // none
  tc_generic_kernel *generic;
  tc_kernel *kernel;
} tc_kernel_request;
tc_status tc_kernel_get_all(tc_kernel_request *request, uint32_t n, tc_gpu *gpu, uint32_t *compiled);
// Compiles a kernel that is interpreted or run by a shape-generic kernel. On failure it stays so,
// and the error is logged.
void tc_kernel_compile(tc_kernel *k);
void tc_kernel_cache_clear(void);
void tc_kernel_stats(tc_cache_info *info);
