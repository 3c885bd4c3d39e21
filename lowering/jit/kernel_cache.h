// A kernel: a nest with its key and its code, and the cache that makes equal nests share one. Called through one atomic pointer with a context, so
// that compiled code takes the interpreter's place without touching plans (tier_up.h). Threads: thread-safe.
#ifndef TC_LOWERING_JIT_KERNEL_CACHE_H
#define TC_LOWERING_JIT_KERNEL_CACHE_H

#include <stdatomic.h>

#include "device/gpu.h"
#include "lowering/codegen/interp/interp.h"
#include "lowering/jit/shape_generic.h"
#include "lowering/codegen/gpu/kernel_abi.h"
#include "lowering/kir/kir.h"
#include "runtime/hash.h"

struct tc_elf_code;

typedef struct tc_kernel {
  _Atomic(tc_kernel_fn *) fn;
  const void *ctx;         // of fn: the kernel, or the interpreter's program; compiled code ignores it
  struct tc_kernel *general;  // runs in its place until it has code of its own; NULL: none
  uint64_t *more;          // arguments that it takes behind those of a run
  uint32_t n_num, n_more;
  _Atomic uint32_t refs;
  tc_hash hash;
  uint64_t *key;           // the nest's bytes
  size_t key_bytes, scratch_bytes;
  tc_interp *interp;
  struct tc_elf_code *code;
  _Atomic uint64_t spent_ns;  // of all threads, while it had no code of its own
  uint64_t patience_ns;       // so much of it, and it is compiled
  atomic_bool asked;          // for that
  struct tc_kernel *next_asked;
  tc_gpu *gpu;             // whose code it is, NULL: of this processor. No part of the key: names say what a kernel is, in every process alike
  tc_gpu_code *gpu_code;   // of a GPU's kernel, which has no fn
  tc_gpu_shape gpu_shape;
  bool from_disk;          // and not compiled by this process
  uint64_t used;
  size_t bytes;            // of key, interpreter and code, as it was kept
  struct tc_kernel *next;  // in its bucket
  char name[48];
} tc_kernel;

// The kernel of a nest: found by the nest's bytes in this process or on disk, or compiled (interpreted without a compiler). nest is borrowed. stem: part of
// the name.
// compiled is added to when neither had it.
// gpu: what a nest with threads is compiled for; NULL of others.
tc_status tc_kernel_get(const tc_nest *nest, const char *stem, tc_gpu *gpu, tc_kernel **out, uint32_t *compiled);
// Many kernels; those that must be compiled are, by the threads of the team, the longest first, and those whose run is interpreted sooner than they are compiled
// are interpreted first, unless TC_INTERPRET_FIRST=0; those that differ by constants alone from one that had their place share a general one (shape_generic.h), unless
// TC_GENERAL_KERNELS=0. Each kernel is a reference; on failure there is none, and the error is that of the first wish that has one.
typedef struct tc_kernel_wish {
  const tc_nest *nest;  // borrowed, as text and stem are; NULL: it is made from text
  const char *text;  // of a GPU's kernel, called stem, whose launch is said by who asks; NULL, too: it is the GPU's own
  uint32_t own;  // which of the GPU's (tc_gpu_own_make), which keeps it: none is given
  const char *stem;
  uint64_t place;  // equal for nests that do the same at different sizes; 0: none
  double work;  // of a run: estimated nanoseconds of one thread in compiled code
  tc_general *general;  // taken: a nest that does the same, and more; NULL or without instructions: none
  tc_kernel *kernel;
} tc_kernel_wish;
tc_status tc_kernel_get_all(tc_kernel_wish *wish, uint32_t n, tc_gpu *gpu, uint32_t *compiled);
void tc_kernel_release(tc_kernel *k);
// Code of its own for one that is interpreted, or done by a general one, which it is until that is there. An error is told in the log: it stays so.
void tc_kernel_compile(tc_kernel *k);
typedef enum tc_tier { TC_COMPILED, TC_INTERPRETED_FIRST, TC_INTERPRETED } tc_tier;
tc_tier tc_kernel_tier(const tc_kernel *k);  // at this moment
void tc_kernel_cache_clear(void);
void tc_kernel_stats(tc_cache_info *info);

#endif
