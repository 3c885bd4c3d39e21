// A kernel: its key (the kernel IR's bytes) and its code.
// It is called through one atomic pointer with a context, so compiled code replaces the interpreter
// without a change to plans.
// Life: interpreted, or run by a shape-generic kernel; queued for compilation (compile_queue.h);
// compiled (tier_up.h).
// Threads: thread-safe, except the functions that make a kernel, which only its maker calls.
#pragma once

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
  tc_lru_entry entry;  // in the cache; bytes counts key, interpreter and code at insertion
  _Atomic(tc_kernel_fn *) fn;
  // first argument of fn: the kernel or the interpreter's program; compiled code ignores it
  const void *ctx;
  // shape-generic kernel that runs until this one has its own code; NULL: none
  struct tc_kernel *generic;
  uint64_t *extra;  // arguments passed to `generic` behind those of a run
  uint32_t n_num, n_extra_args;
  _Atomic uint32_t refs;
  tc_hash hash;
  uint64_t *key;  // the kernel IR's bytes
  size_t key_bytes, scratch_bytes;
  tc_interp *interp;
  struct tc_elf_code *code;
  _Atomic uint64_t spent_ns;  // run time without own code, summed over all threads
  uint64_t tier_up_after_ns;  // spent_ns after which the kernel is queued for compilation
  atomic_bool queued;  // true: was queued for compilation
  tc_compile_link in_queue;
  // The GPU that the code is for; NULL: the host's CPU. It is not part of the key, since names must
  // be equal in every process.
  tc_gpu *gpu;
  bool is_interpreted;  // true: for good, since a region asks for the interpreter. Not part of the key either
  tc_gpu_code *gpu_code;  // code of a GPU kernel, whose fn is NULL
  tc_gpu_shape gpu_shape;
  bool from_disk;  // true: loaded from the disk cache, not compiled by this process
  char name[48];
} tc_kernel;

typedef enum tc_tier { TC_COMPILED, TC_INTERPRETED_FIRST, TC_INTERPRETED } tc_tier;
tc_tier tc_kernel_tier(const tc_kernel *k);  // at this moment
static inline tc_kernel *tc_kernel_retain(tc_kernel *k) {
  atomic_fetch_add_explicit(&k->refs, 1, memory_order_relaxed);
  return k;
}
void tc_kernel_release(tc_kernel *k);

// ---- how it runs, for who makes it ----

// Whether interpreting one run is much cheaper than compiling. work: estimated nanoseconds of
// compiled code.
bool tc_kernel_is_soon_interpreted(const tc_kir *kir, double work);
// The first interprets for good, the second until the kernel has compiled code.
tc_status tc_kernel_interpret(tc_kernel *k, const tc_kir *kir);
tc_status tc_kernel_interpret_first(tc_kernel *k, const tc_kir *kir);
// Runs the kernel through `generic` until it has code of its own. Consumes the reference and the
// arguments.
void tc_kernel_run_generic(tc_kernel *k, const tc_kir *kir, tc_kernel *generic, uint64_t *extra, uint32_t n_extra_args);
// Loads the code of an object file. Code that replaces another tier needs at most that tier's
// scratch memory.
tc_status tc_kernel_load(tc_kernel *k, const tc_kir *kir, const void *object, size_t bytes);
// Whether the kernel still runs in a lower tier that compiled code would replace.
bool tc_kernel_awaits_code(const tc_kernel *k);
