// Loops that measure a machine. See peak_rates.h.
#include "kernels/peak_rates.h"

#if defined(__x86_64__)
#include <immintrin.h>

// Twelve independent chains hide the latency of four or five cycles at two a cycle. Named
// registers: gcc 12 spills arrays of them.
#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define FMA_ROUNDS 20000

__attribute__((target("avx512f"))) static float fma512(void) {
  __m512 m = _mm512_set1_ps(0.999f), c = _mm512_set1_ps(0.001f);
#define X(i) __m512 r##i = _mm512_set1_ps(1.0f + (float)i);
  TWELVE(X)
#undef X
  for (int k = 0; k < FMA_ROUNDS; k++) {
#define X(i) r##i = _mm512_fmadd_ps(r##i, m, c);
    TWELVE(X)
#undef X
    __asm__ volatile("" : "+x"(m));  // keeps the loop from being shortened
  }
  __m512 sum = c;
#define X(i) sum = _mm512_add_ps(sum, r##i);
  TWELVE(X)
#undef X
  return _mm512_reduce_add_ps(sum);
}

__attribute__((target("avx2,fma"))) static float fma256(void) {
  __m256 m = _mm256_set1_ps(0.999f), c = _mm256_set1_ps(0.001f);
#define X(i) __m256 r##i = _mm256_set1_ps(1.0f + (float)i);
  TWELVE(X)
#undef X
  for (int k = 0; k < FMA_ROUNDS; k++) {
#define X(i) r##i = _mm256_fmadd_ps(r##i, m, c);
    TWELVE(X)
#undef X
    __asm__ volatile("" : "+x"(m));
  }
  __m256 sum = c;
#define X(i) sum = _mm256_add_ps(sum, r##i);
  TWELVE(X)
#undef X
  return _mm256_cvtss_f32(sum);
}

__attribute__((target("avx512f"))) static void triad512(float *a, const float *b, const float *c, int64_t n) {
  __m512 s = _mm512_set1_ps(3.0f);
  for (int64_t i = 0; i + 16 <= n; i += 16)
    _mm512_stream_ps(a + i, _mm512_fmadd_ps(s, _mm512_load_ps(c + i), _mm512_load_ps(b + i)));
  _mm_sfence();
}

__attribute__((target("avx2,fma"))) static void triad256(float *a, const float *b, const float *c, int64_t n) {
  __m256 s = _mm256_set1_ps(3.0f);
  for (int64_t i = 0; i + 8 <= n; i += 8)
    _mm256_stream_ps(a + i, _mm256_fmadd_ps(s, _mm256_load_ps(c + i), _mm256_load_ps(b + i)));
  _mm_sfence();
}

int tc_peak_width(void) {
  if (__builtin_cpu_supports("avx512f")) return 16;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 8 : 0;
}

double tc_peak_fma(float *sink) {
  int width = tc_peak_width();
  *sink += width == 16 ? fma512() : fma256();
  return 2.0 * 12 * FMA_ROUNDS * width;
}

double tc_peak_triad(float *a, const float *b, const float *c, int64_t n) {
  (tc_peak_width() == 16 ? triad512 : triad256)(a, b, c, n);
  return 12.0 * (double)n;
}

#else

int tc_peak_width(void) {
  return 0;
}

double tc_peak_fma(float *sink) {
  return *sink = 0;
}

double tc_peak_triad(float *a, const float *b, const float *c, int64_t n) {
  (void)a, (void)b, (void)c, (void)n;
  return 0;
}

#endif
