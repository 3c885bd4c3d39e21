// A kernel: a kernel with its key and its code. Called through one atomic pointer with a context,
// so that compiled code takes the interpreter's place without touching plans. A kernel's life:
// interpreted, or done by a shape-generic kernel; queued for compilation (compile_queue.h);
// compiled (tier_up.h).
// Threads: thread-safe, but for what makes a kernel, which is its maker's.
#ifndef TC_LOWERING_JIT_KERNEL_H
#define TC_LOWERING_JIT_KERNEL_H

#include <stdatomic.h>

#include "device/gpu.h"
#include "lowering/codegen/gpu/kernel_abi.h"
#include "lowering/codegen/interp/interp.h"
#include "lowering/jit/compile_queue.h"
#include "lowering/kir/kir.h"
#include "runtime/hash.h"
#include "runtime/lru.h"

struct tc_elf_code;

typedef struct tc_kernel {
  tc_lru_entry entry;  // of the cache; bytes: of key, interpreter and code, as it was kept
  _Atomic(tc_kernel_fn *) fn;
  const void *ctx;  // of fn: the kernel, or the interpreter's program; compiled code ignores it
  struct tc_kernel *generic;  // runs in its place until it has code of its own; NULL: none
  uint64_t *extra;  // arguments that it takes behind those of a run
  uint32_t n_num, n_extra_args;
  _Atomic uint32_t refs;
  tc_hash hash;
  uint64_t *key;  // the kernel's bytes
  size_t key_bytes, scratch_bytes;
  tc_interp *interp;
  struct tc_elf_code *code;
  _Atomic uint64_t spent_ns;  // of all threads, while it had no code of its own
  uint64_t tier_up_after_ns;  // so much of it, and it is compiled
  atomic_bool queued;  // for that
  tc_compile_link in_queue;
  // whose code it is, NULL: of this processor. No part of the key: names say what a kernel is, in
  // every process alike
  tc_gpu *gpu;
  tc_gpu_code *gpu_code;  // of a GPU's kernel, which has no fn
  tc_gpu_shape gpu_shape;
  bool from_disk;  // and not compiled by this process
  char name[48];
} tc_kernel;

typedef enum tc_tier { TC_COMPILED, TC_INTERPRETED_FIRST, TC_INTERPRETED } tc_tier;
tc_tier tc_kernel_tier(const tc_kernel *k);  // at this moment
void tc_kernel_release(tc_kernel *k);

// ---- how it runs, for who makes it ----

// Whether a run of so many nanoseconds of compiled code is interpreted much sooner than the kernel
// is compiled.
bool tc_kernel_is_soon_interpreted(const tc_kir *kir, double work);
// For good; until it has code of its own.
tc_status tc_kernel_interpret(tc_kernel *k, const tc_kir *kir);
tc_status tc_kernel_interpret_first(tc_kernel *k, const tc_kir *kir);
// Until then by another kernel with more arguments; takes the reference and the arguments.
void tc_kernel_run_generic(tc_kernel *k, const tc_kir *kir, tc_kernel *generic, uint64_t *extra, uint32_t n_extra_args);
// By the code of an object file. Code that takes another's place needs no more scratch memory than
// that did.
tc_status tc_kernel_load(tc_kernel *k, const tc_kir *kir, const void *object, size_t bytes);
// Whether code of its own would take the place of what runs it.
bool tc_kernel_awaits_code(const tc_kernel *k);

#endif
