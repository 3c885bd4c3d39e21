// Chooses the kernels of this machine, once. See kernels.h.
#include "kernels/blas/kernels.h"

#include <string.h>

#include "runtime/options.h"

_Atomic(const tc_blas_set *) tc_blas_chosen;

static const tc_blas_set *widest_set(void) {
  static const tc_blas_set baseline = {&tc_blas_f32_baseline, &tc_blas_f64_baseline};
#if defined(__x86_64__)
  static const tc_blas_set avx2 = {&tc_blas_f32_avx2, &tc_blas_f64_avx2},
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

// Any number of threads may choose at once: all choose the same.
const tc_blas_set *tc_blas_choose(void) {
  const tc_blas_set *set = widest_set();
  atomic_store_explicit(&tc_blas_chosen, set, memory_order_relaxed);
  return set;
}
