// The rounding mode of a thread: the default during a job, the caller's own afterwards.
// Threads: per thread.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
typedef unsigned tc_float_mode;

// Sets the default and returns the mode before.
static inline tc_float_mode tc_float_mode_default(void) {
  unsigned before = _mm_getcsr();
  _mm_setcsr(0x1f80);  // rounds to nearest, keeps denormals, traps no exception
  return before;
}
static inline void tc_float_mode_restore(tc_float_mode mode) {
  _mm_setcsr(mode);
}
#else
#include <fenv.h>
typedef fenv_t tc_float_mode;

static inline tc_float_mode tc_float_mode_default(void) {
  fenv_t before;
  fegetenv(&before);
  fesetenv(FE_DFL_ENV);
  return before;
}
static inline void tc_float_mode_restore(tc_float_mode mode) {
  fesetenv(&mode);
}
#endif
