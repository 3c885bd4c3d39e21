// Measures multiply-adds on one core and counts the cores.
// In: nothing. Out: GFLOP/s in f64; f32 has twice as many. Threads: runs in the caller's alone, 4
// ms.
#include "shim/peak.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { ROUNDS = 20000, CHAINS = 12 };  // chains: latency of 4 cycles by two units, and some more

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static volatile double sink;

// A function of one instruction set: flops of one call.
#define CHAIN_FUNCTION(name, attribute, vector, set1, multiply_add, lanes) \
  attribute static double name(void) { \
    vector sum[CHAINS], x = set1(0.999), y = set1(1e-3); \
    for (int i = 0; i < CHAINS; i++) sum[i] = set1((double)i); \
    for (int r = 0; r < ROUNDS; r++) \
      _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) sum[i] = multiply_add(sum[i], x, y); \
    for (int i = 1; i < CHAINS; i++) sum[0] += sum[i]; \
    sink = sum[0][0]; \
    return 2.0 * ROUNDS * CHAINS * (lanes); \
  }

#if defined(__x86_64__)
CHAIN_FUNCTION(run_avx512, __attribute__((target("avx512f"))), __m512d, _mm512_set1_pd, _mm512_fmadd_pd, 8)
CHAIN_FUNCTION(run_avx2, __attribute__((target("avx2,fma"))), __m256d, _mm256_set1_pd, _mm256_fmadd_pd, 4)
#endif

#if defined(__aarch64__)
CHAIN_FUNCTION(run_two_lanes, , float64x2_t, vdupq_n_f64, vfmaq_f64, 2)
#else
typedef double two_lanes __attribute__((vector_size(16)));
static inline two_lanes set_two(double x) {
  return (two_lanes){x, x};
}
static inline two_lanes multiply_add_two(two_lanes a, two_lanes b, two_lanes c) {
  return a * b + c;
}
CHAIN_FUNCTION(run_two_lanes, , two_lanes, set_two, multiply_add_two, 2)
#endif

#if defined(__x86_64__)
// By hand: __builtin_cpu_supports would bring a constructor, and cpuid takes some microseconds in a
// virtual machine.
static bool has_feature(uint32_t leaf_bit, bool needs_zmm) {
  uint32_t a, b, c, d, low, high;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_FMA)) return false;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  uint32_t state = needs_zmm ? 0xe6 : 0x6;
  return (low & state) == state && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & leaf_bit);
}
#endif

double tc_shim_measure_peak(void) {
  double (*run)(void) = run_two_lanes;
  double best = 0, begin = seconds();
  cpu_set_t set;
#if defined(__x86_64__)
  if (has_feature(bit_AVX512F, true))
    run = run_avx512;
  else if (has_feature(bit_AVX2, false))
    run = run_avx2;
#endif
  while (seconds() < begin + 4e-3) {
    double start = seconds(), flops = run(), rate = flops / (seconds() - start);
    if (rate > best) best = rate;
  }
  int n_cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return best * 1e-9 * n_cores;
}
