// Chooses the kernels of this machine, once. See kernels.h.
#include "kernels/blas/kernels.h"

#include <stdatomic.h>
#include <string.h>

#include "runtime/options.h"
#include "runtime/status.h"

// The tables of an instruction set, by type.
typedef struct kernel_set {
  const tc_blas_kernels *f32, *f64;
} kernel_set;

static const kernel_set *choose_set(void) {
  static const kernel_set baseline = {&tc_blas_f32_baseline, &tc_blas_f64_baseline};
#if defined(__x86_64__)
  static const kernel_set avx2 = {&tc_blas_f32_avx2, &tc_blas_f64_avx2},
                          avx512 = {&tc_blas_f32_avx512, &tc_blas_f64_avx512};
  const char *most = tc_options_get()->isa;
  bool wide = !most || strncmp(most, "avx512", 6) == 0;
  __builtin_cpu_init();
  if (wide && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
    return &avx512;
  if ((wide || strcmp(most, "avx2") == 0) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return &avx2;
#endif
  return &baseline;
}

const tc_blas_kernels *tc_blas_kernels_of(tc_type type) {
  static _Atomic(const kernel_set *) chosen;  // any thread may write it: all choose the same
  const kernel_set *set = atomic_load_explicit(&chosen, memory_order_relaxed);
  if (TC_UNLIKELY(!set)) {
    set = choose_set();
    atomic_store_explicit(&chosen, set, memory_order_relaxed);
  }
  return type == TC_F64 ? set->f64 : set->f32;
}
