// Roofs of this machine: what the arithmetic units and the memory give to plain loops written for
// nothing else.
// The instruction set is chosen at run time. Each slice starts its threads, pinned one to a core of
// the caller's mask, and ends them; the time counted is from a common start to the last thread's
// end. Owns the buffers of the last footprint.
#include "bench/bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/peak_rates.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define MAX_THREADS 256

static struct {
  size_t bytes;
  float *data;
} buffer;

typedef struct slice {
  bench_roof roof;
  int n_threads;
  int64_t n;          // floats of the footprint
  double seconds;     // at least so long
  pthread_barrier_t barrier;
} slice;

typedef struct lane {
  slice *s;
  int id, cpu;
  double work, began, ended;
  double fastest;  // the best rate of a unit
  float sink;
} lane;

#if defined(__x86_64__)

// Twelve independent chains hide the latency of four or five cycles at two a cycle. Named
// registers: gcc 12 spills arrays of them.
#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define DOT_ROUNDS 20000

__attribute__((target("avx512f,avx512bf16"))) static float dots512(void) {
  __m512i word = _mm512_set1_epi32(0x3A833F80);  // 0.001 and 1, about
  __m512bh m = (__m512bh)word;
#define X(i) __m512 r##i = _mm512_set1_ps(1.0f + (float)i);
  TWELVE(X)
#undef X
  for (int k = 0; k < DOT_ROUNDS; k++) {
#define X(i) r##i = _mm512_dpbf16_ps(r##i, m, m);
    TWELVE(X)
#undef X
    __asm__ volatile("" : "+x"(m));
  }
  __m512 sum = _mm512_setzero_ps();
#define X(i) sum = _mm512_add_ps(sum, r##i);
  TWELVE(X)
#undef X
  return _mm512_reduce_add_ps(sum);
}

__attribute__((target("avx512f"))) static float read512(const float *a, int64_t n) {
  __m512 r0 = _mm512_setzero_ps(), r1 = r0, r2 = r0, r3 = r0;
  for (int64_t i = 0; i + 64 <= n; i += 64) {
    r0 = _mm512_add_ps(r0, _mm512_load_ps(a + i));
    r1 = _mm512_add_ps(r1, _mm512_load_ps(a + i + 16));
    r2 = _mm512_add_ps(r2, _mm512_load_ps(a + i + 32));
    r3 = _mm512_add_ps(r3, _mm512_load_ps(a + i + 48));
  }
  return _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(r0, r1), _mm512_add_ps(r2, r3)));
}

__attribute__((target("avx2"))) static float read256(const float *a, int64_t n) {
  __m256 r0 = _mm256_setzero_ps(), r1 = r0, r2 = r0, r3 = r0;
  for (int64_t i = 0; i + 32 <= n; i += 32) {
    r0 = _mm256_add_ps(r0, _mm256_load_ps(a + i));
    r1 = _mm256_add_ps(r1, _mm256_load_ps(a + i + 8));
    r2 = _mm256_add_ps(r2, _mm256_load_ps(a + i + 16));
    r3 = _mm256_add_ps(r3, _mm256_load_ps(a + i + 24));
  }
  return _mm256_cvtss_f32(_mm256_add_ps(_mm256_add_ps(r0, r1), _mm256_add_ps(r2, r3)));
}

// Whether pairs of bf16 are multiplied faster than floats; found once, before lanes run.
static bool has_fast_dots(void) {
  static int known = -1;
  if (known >= 0 || !__builtin_cpu_supports("avx512bf16")) return known > 0;
  double best[2] = {1, 1};  // seconds of as many operations, a dot product being two multiply-adds
  float sink = 0;
  for (int i = 0; i < 20; i++) {
    double start = bench_now(), between = (sink += dots512(), bench_now());
    (void)tc_peak_fma(&sink), (void)tc_peak_fma(&sink);
    double took[] = {between - start, bench_now() - between};
    for (int k = 0; k < 2; k++) best[k] = took[k] < best[k] ? took[k] : best[k];
  }
  __asm__ volatile("" : : "x"(sink));
  known = best[0] < best[1];
  return known > 0;
}

// One unit of a lane's work; returns flops or bytes.
static double work_once(lane *l) {
  const slice *s = l->s;
  int width = tc_peak_width();
  if (s->roof == BENCH_BF16 && has_fast_dots()) {
    l->sink += dots512();
    return 2.0 * 2 * 12 * DOT_ROUNDS * width;
  }
  if (s->roof == BENCH_FMA || s->roof == BENCH_BF16) return tc_peak_fma(&l->sink);
  int64_t part = s->roof == BENCH_TRIAD ? s->n / 3 : s->n;  // floats of one array
  part = part / 64 * 64;
  int64_t share = part / s->n_threads / 64 * 64;
  int64_t first = share * l->id, n = l->id == s->n_threads - 1 ? part - first : share;
  float *a = buffer.data + first;
  if (s->roof == BENCH_TRIAD) return tc_peak_triad(a, a + part, a + 2 * part, n);
  l->sink += (width == 16 ? read512 : read256)(a, n);
  return 4.0 * (double)n;
}

#else

static bool has_fast_dots(void) {
  return false;
}
static double work_once(lane *l) {
  (void)l;
  return 0;
}

#endif

static void *lane_main(void *arg) {
  lane *l = arg;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(l->cpu, &mask);
  pthread_setaffinity_np(pthread_self(), sizeof(mask), &mask);
  pthread_barrier_wait(&l->s->barrier);
  l->began = l->ended = bench_now();
  do {
    double work = work_once(l), now = bench_now(), rate = work / (now - l->ended);
    if (rate > l->fastest) l->fastest = rate;
    l->work += work;
    l->ended = now;
  } while (l->ended - l->began < l->s->seconds);
  return NULL;
}

static bool reserve(double bytes) {
  size_t want = ((size_t)bytes + (2u << 20)) & ~(size_t)((2u << 20) - 1);
  if (buffer.bytes == want) return true;
  bench_roof_reset();
  void *p = mmap(NULL, want, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return false;
  madvise(p, want, MADV_HUGEPAGE);
  memset(p, 0, want);
  buffer.data = p, buffer.bytes = want;
  return true;
}

void bench_roof_reset(void) {
  if (buffer.data) munmap(buffer.data, buffer.bytes);
  buffer.data = NULL, buffer.bytes = 0;
}

// The rate of all lanes together, and that of the fastest unit of work of one.
static double run_lanes(slice *s, double *fastest) {
  cpu_set_t mask;
  sched_getaffinity(0, sizeof(mask), &mask);
  lane lanes[MAX_THREADS];
  pthread_t threads[MAX_THREADS];
  pthread_barrier_init(&s->barrier, NULL, (unsigned)s->n_threads);
  int cpu = -1;
  for (int i = 0; i < s->n_threads; i++) {
    for (int tried = 0; tried < CPU_SETSIZE; tried++) {  // the next CPU of the mask, round and round
      cpu = (cpu + 1) % CPU_SETSIZE;
      if (CPU_ISSET(cpu, &mask)) break;
    }
    lanes[i] = (lane){.s = s, .id = i, .cpu = cpu};
    if (pthread_create(&threads[i], NULL, lane_main, &lanes[i]) != 0) abort();  // others wait at the barrier for ever
  }
  double work = 0, began = 0, ended = 0;
  *fastest = 0;
  for (int i = 0; i < s->n_threads; i++) {
    pthread_join(threads[i], NULL);
    work += lanes[i].work;
    if (lanes[i].fastest > *fastest) *fastest = lanes[i].fastest;
    if (i == 0 || lanes[i].began < began) began = lanes[i].began;
    if (lanes[i].ended > ended) ended = lanes[i].ended;
  }
  pthread_barrier_destroy(&s->barrier);
  return work / (ended - began);
}

double bench_roof_slice(bench_roof roof, int n_threads, double bytes, double seconds) {
  double fastest;
  if (roof == BENCH_NO_ROOF || tc_peak_width() == 0 || n_threads > MAX_THREADS) return 0;
  if (roof == BENCH_BF16) (void)has_fast_dots();
  if (roof != BENCH_FMA && roof != BENCH_BF16 && !reserve(bytes)) return 0;
  return run_lanes(&(slice){.roof = roof, .n_threads = n_threads, .n = (int64_t)(bytes / 4), .seconds = seconds},
                   &fastest);
}

bool bench_has_cores(int n_threads) {
  static double best;  // of a core, since the process began
  double fastest;
  cpu_set_t mask;
  if (tc_peak_width() == 0 || n_threads > MAX_THREADS || sched_getaffinity(0, sizeof(mask), &mask) != 0 ||
      CPU_COUNT(&mask) < n_threads)
    return true;
  double rate = run_lanes(&(slice){.roof = BENCH_FMA, .n_threads = n_threads, .seconds = 0.002}, &fastest);
  if (fastest > best) best = fastest;
  return rate > 0.6 * n_threads * best;
}
