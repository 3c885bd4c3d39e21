// Runs kernels before they have code of their own, and destroys them. See kernel.h.
#include "lowering/jit/kernel.h"

#include <string.h>

#include "lowering/codegen/elf_loader.h"
#include "lowering/jit/compiler.h"
#include "lowering/jit/shape_generic.h"
#include "runtime/arena.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/status.h"
#include "runtime/team.h"

// Estimated compile time, by instructions, and the interpreter's run time relative to compiled
// code.
// Measured: Zen 3, ResNet18: 183 kernels of 282 instructions take 27 ms each, one of 188 takes 10
// ms.
#define COMPILE_NS 2e6
#define COMPILE_INST_NS 8e4
#define INTERPRETED 60.0
// Fraction of the estimated compile time. If one run interprets in less, interpret first; once all
// runs together have spent that much, compile.
// A cold ResNet18, whose expensive kernels are compiled or on disk, would otherwise take twice as
// long.
#define FIRST_SHARE 0.125
// Run time in the shape-generic kernel, in compile times, after which these sizes get a kernel of
// their own. That one knows its extents.
#define GENERIC_SHARE 20.0

static void destroy_kernel(tc_kernel *k) {
  if (k->interp) tc_interp_destroy(k->interp);
  tc_kernel_release(k->generic);
  tc_free(k->extra);
  if (k->code) tc_elf_unload(k->code);
  tc_gpu_code_release(k->gpu_code);
  tc_free(k->key);
  tc_free(k);
}

void tc_kernel_release(tc_kernel *k) {
  if (k && atomic_fetch_sub_explicit(&k->refs, 1, memory_order_acq_rel) == 1) destroy_kernel(k);
}

static tc_status create_interp(tc_kernel *k, const tc_kir *kir) {
  tc_codegen_code code;
  TC_TRY(tc_codegen_interp.load(kir, k->name, NULL, 0, NULL, &code));
  k->interp = code.interp;
  k->scratch_bytes = tc_interp_scratch(k->interp);
  return TC_OK;
}

tc_status tc_kernel_interpret(tc_kernel *k, const tc_kir *kir) {
  tc_compiler_tell();
  TC_TRY(create_interp(k, kir));
  k->ctx = k->interp;
  atomic_store_explicit(&k->fn, tc_interp_run, memory_order_release);
  return TC_OK;
}

static double compile_ns(const tc_kir *kir) {
  return COMPILE_NS + COMPILE_INST_NS * kir->n_inst;
}

bool tc_kernel_is_soon_interpreted(const tc_kir *kir, double work) {
  return tc_options_get()->interpret_first && work * INTERPRETED < FIRST_SHARE * compile_ns(kir);
}

// The queue retains the kernel.
static void queue_kernel(tc_kernel *k) {
  atomic_fetch_add_explicit(&k->refs, 1, memory_order_relaxed);
  if (!tc_compile_queue_add(&k->in_queue)) tc_kernel_release(k);
}

// Adds the time of a run without own code, and queues the kernel when enough was spent.
static void spend(tc_kernel *k, uint64_t start) {
  uint64_t spent = tc_now_ns() - start;
  spent += atomic_fetch_add_explicit(&k->spent_ns, spent, memory_order_relaxed);
  if (spent >= k->tier_up_after_ns && !atomic_load_explicit(&k->queued, memory_order_relaxed) &&
      !atomic_exchange(&k->queued, true))
    queue_kernel(k);
}

static void run_at_first(const void *ctx, void *const *buf, const uint64_t *num, int64_t begin, int64_t end,
                         tc_worker *worker) {
  tc_kernel *k = (tc_kernel *)(uintptr_t)ctx;
  uint64_t start = tc_now_ns();
  tc_interp_run(k->interp, buf, num, begin, end, worker);
  spend(k, start);
}

static void run_generic(const void *ctx, void *const *buf, const uint64_t *num, int64_t begin, int64_t end,
                        tc_worker *worker) {
  tc_kernel *k = (tc_kernel *)(uintptr_t)ctx, *g = k->generic;
  uint64_t start = tc_now_ns(), all[TC_MAX_EXTRA_SCALARS];
  if (k->n_num) memcpy(all, num, k->n_num * sizeof all[0]);
  memcpy(all + k->n_num, k->extra, k->n_extra_args * sizeof all[0]);
  atomic_load_explicit(&g->fn, memory_order_acquire)(g->ctx, buf, all, begin, end, worker);
  spend(k, start);
}

// For tests: alternates units between the shape-generic kernel and the interpreter, as if the
// kernel got its own code during a run.
static void run_alternating(const void *ctx, void *const *buf, const uint64_t *num, int64_t begin, int64_t end,
                            tc_worker *worker) {
  const tc_kernel *k = ctx;
  for (int64_t i = begin; i < end; i++) {
    if (i % 2)
      tc_interp_run(k->interp, buf, num, i, i + 1, worker);
    else
      run_generic(k, buf, num, i, i + 1, worker);
  }
}

tc_status tc_kernel_interpret_first(tc_kernel *k, const tc_kir *kir) {
  TC_TRY(create_interp(k, kir));
  k->ctx = k;
  k->tier_up_after_ns = (uint64_t)(FIRST_SHARE * compile_ns(kir));
  atomic_store_explicit(&k->fn, run_at_first, memory_order_release);
  return TC_OK;
}

void tc_kernel_run_generic(tc_kernel *k, const tc_kir *kir, tc_kernel *generic, uint64_t *extra,
                           uint32_t n_extra_args) {
  k->generic = generic, k->extra = extra, k->n_extra_args = n_extra_args;
  k->ctx = k;
  k->scratch_bytes = TC_MAX_OF(k->generic->scratch_bytes, (size_t)kir->scratch_bytes);
  bool alternates = tc_options_get()->generic_kernels > 1 && tc_interp_create(kir, &k->interp) == TC_OK;
  if (alternates) k->scratch_bytes = TC_MAX_OF(k->scratch_bytes, tc_interp_scratch(k->interp));
  k->tier_up_after_ns = alternates ? UINT64_MAX : (uint64_t)(GENERIC_SHARE * compile_ns(kir));
  atomic_store_explicit(&k->fn, alternates ? run_alternating : run_generic, memory_order_release);
}

tc_status tc_kernel_load(tc_kernel *k, const tc_kir *kir, const void *object, size_t bytes) {
  tc_codegen_code code;
  TC_TRY(tc_compiler_load(kir, k->name, object, bytes, &code));
  k->code = code.elf;
  if (!k->interp && !k->generic) k->scratch_bytes = (size_t)kir->scratch_bytes;
  atomic_store_explicit(&k->fn, code.fn, memory_order_release);
  return TC_OK;
}

tc_tier tc_kernel_tier(const tc_kernel *k) {
  tc_kernel_fn *fn = atomic_load_explicit(&k->fn, memory_order_relaxed);
  if (fn == run_generic) return tc_kernel_tier(k->generic);
  return fn == tc_interp_run ? TC_INTERPRETED : fn == run_at_first ? TC_INTERPRETED_FIRST : TC_COMPILED;
}

bool tc_kernel_awaits_code(const tc_kernel *k) {
  tc_kernel_fn *fn = atomic_load_explicit(&k->fn, memory_order_relaxed);
  return fn == run_at_first || fn == run_generic;
}
