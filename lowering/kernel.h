// A kernel: a nest with its key and its code, and the cache that makes equal nests share one. Called through one atomic pointer with a context, so
// that better code can be swapped in without touching plans. Threads: thread-safe.
#ifndef TC_LOWERING_KERNEL_H
#define TC_LOWERING_KERNEL_H

#include <stdatomic.h>

#include "device/gpu.h"
#include "lowering/gpu/print.h"
#include "lowering/isa.h"
#include "lowering/nest.h"
#include "runtime/hash.h"

struct tc_elf_code;

typedef struct tc_kernel {
  _Atomic(tc_kernel_fn *) fn;
  const void *ctx;         // of fn: the interpreter's program; compiled code ignores it
  _Atomic uint32_t refs;
  tc_hash hash;
  uint64_t *key;           // the nest's bytes
  size_t key_bytes, scratch_bytes;
  tc_interp *interp;
  struct tc_elf_code *code;
  tc_gpu *gpu;             // whose code it is, NULL: of this processor. No part of the key: names say what a kernel is, in every process alike
  tc_gpu_code *gpu_code;   // of a GPU's kernel, which has no fn
  tc_gpu_shape gpu_shape;
  bool from_disk;          // and not compiled by this process
  uint64_t used;
  struct tc_kernel *next;  // in its bucket
  char name[48];
} tc_kernel;

// The kernel of a nest: found by the nest's bytes in this process or on disk, or compiled (interpreted without a compiler). nest is borrowed. stem: part of
// the name.
// compiled is added to when a compile was needed.
// gpu: what a nest with threads is compiled for; NULL of others.
tc_status tc_kernel_get(const tc_nest *nest, const char *stem, tc_gpu *gpu, tc_kernel **out, uint32_t *compiled);
// The kernels of many nests; those that must be compiled are, by the threads of the team. Each kernel is a reference; on failure there is none, and the
// error is that of the first nest that has one.
typedef struct tc_kernel_wish {
  const tc_nest *nest;  // borrowed, as stem is
  const char *stem;
  tc_kernel *kernel;
} tc_kernel_wish;
tc_status tc_kernel_get_all(tc_kernel_wish *wish, uint32_t n, tc_gpu *gpu, uint32_t *compiled);
// The same of a GPU's kernel that is given as text, with its threads and memory said by who launches it.
tc_status tc_kernel_of_text(const char *name, const char *text, tc_gpu *gpu, tc_kernel **out, uint32_t *compiled);
void tc_kernel_release(tc_kernel *k);
void tc_kernel_cache_clear(void);
void tc_kernel_stats(tc_cache_info *info);
// The instruction set that kernels are planned for: the widest that this machine has, or at most what TC_ISA names; where TC_ISA names another machine's,
// that one, and kernels are interpreted here.
const tc_isa *tc_kernel_isa(void);
int tc_kernel_vector_bytes(void);  // of its vectors: 64, 32 or 16
// The object file of function `name` for that instruction set, malloc'ed; TC_ERR_COMPILE without a compiler for it. nest is borrowed.
tc_status tc_kernel_object(const tc_nest *nest, const char *name, void **out, size_t *bytes);
// One sentence for tc-info: which compiler and target, or why there is none.
const char *tc_kernel_compiler(void);

#endif
