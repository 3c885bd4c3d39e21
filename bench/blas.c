// Direct products (tc/blas.h) at one thread and at all, against the FMA roof and OpenBLAS, which is
// opened with dlopen where it is installed: square ones in every transposition, the same with gaps
// between columns and beta 1 beside the dense ones, and a thousand shapes once each.
// OpenBLAS takes its AVX2 kernels on CPUs it does not know, so the best core type for this machine
// is forced before it is opened, whatever the environment says.
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tc/blas.h>

#include "bench/bench.h"

enum { COL_MAJOR = 102, NO_TRANS = 111 };
typedef void cblas_dgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, double alpha, const void *a,
                            int lda, const void *b, int ldb, double beta, void *c, int ldc);
typedef void cblas_sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const void *a,
                            int lda, const void *b, int ldb, float beta, void *c, int ldc);

static struct {
  cblas_dgemm_fn *dgemm;
  cblas_sgemm_fn *sgemm;
  void (*set_threads)(int n);
} openblas;

enum { N_SHAPES = 1000, LONGEST = 512 };

// What is multiplied: one shape, or many.
typedef struct product {
  int n_shapes;
  int64_t (*shape)[3];  // m, n, k
  int64_t pad;  // elements between columns
  tc_gemm_call call;
} product;

static void open_openblas(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
  else if (__builtin_cpu_supports("avx2"))
    setenv("OPENBLAS_CORETYPE", "Haswell", 1);
#endif
  setenv("OPENBLAS_THREAD_TIMEOUT", "20", 0);  // its workers spin 2^20 cycles: they sleep when tc's slice comes
  void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library) library = dlopen("libopenblas.so", RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  openblas.dgemm = (cblas_dgemm_fn *)dlsym(library, "cblas_dgemm");
  openblas.sgemm = (cblas_sgemm_fn *)dlsym(library, "cblas_sgemm");
  openblas.set_threads = (void (*)(int))dlsym(library, "openblas_set_num_threads");
}

// The call of one shape.
static tc_gemm_call call_of(const product *p, int i) {
  tc_gemm_call g = p->call;
  g.m = p->shape[i][0];
  g.n = p->shape[i][1];
  g.k = p->shape[i][2];
  g.lda = (g.transa ? g.k : g.m) + p->pad;
  g.ldb = (g.transb ? g.n : g.k) + p->pad;
  g.ldc = g.m + p->pad;
  return g;
}

static double multiply(void *arg, int n) {
  const product *p = arg;
  double start = bench_now();
  for (int r = 0; r < n; r++)
    for (int i = 0; i < p->n_shapes; i++) {
      tc_gemm_call g = call_of(p, i);
      if (tc_gemm(&g) != TC_OK) return -1;
    }
  return bench_now() - start;
}

static double multiply_openblas(void *arg, int n) {
  const product *p = arg;
  double start = bench_now();
  for (int r = 0; r < n; r++)
    for (int i = 0; i < p->n_shapes; i++) {
      tc_gemm_call g = call_of(p, i);
      int ta = NO_TRANS + (int)g.transa, tb = NO_TRANS + (int)g.transb;
      if (g.type == TC_F64)
        openblas.dgemm(COL_MAJOR, ta, tb, (int)g.m, (int)g.n, (int)g.k, g.alpha, g.a, (int)g.lda, g.b, (int)g.ldb,
                       g.beta, g.c, (int)g.ldc);
      else
        openblas.sgemm(COL_MAJOR, ta, tb, (int)g.m, (int)g.n, (int)g.k, (float)g.alpha, g.a, (int)g.lda, g.b,
                       (int)g.ldb, (float)g.beta, g.c, (int)g.ldc);
    }
  return bench_now() - start;
}

static double number(tc_type type, const void *p, int64_t i) {
  return type == TC_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static bool product_right(void *arg) {
  const product *p = arg;
  tc_gemm_call g = call_of(p, p->n_shapes - 1);
  int64_t row = g.m / 3, column = g.n / 2;
  double want = g.beta * number(g.type, g.c, row + column * g.ldc);
  for (int64_t k = 0; k < g.k; k++)
    want += number(g.type, g.a, g.transa ? k + row * g.lda : row + k * g.lda) *
            number(g.type, g.b, g.transb ? column + k * g.ldb : k + column * g.ldb);
  if (tc_gemm(&g) != TC_OK) return false;
  return bench_near(number(g.type, g.c, row + column * g.ldc), want, g.type == TC_F64 ? 1e-10 : 1e-4);
}

// Numbers of a type; freed with free().
static void *numbers(tc_type type, int64_t n, uint32_t seed) {
  float *from = bench_floats(n, seed);
  double *to = type == TC_F64 && from ? malloc((size_t)n * sizeof *to) : NULL;
  for (int64_t i = 0; to && i < n; i++) to[i] = (double)from[i];
  if (type != TC_F64) return from;
  free(from);
  return to;
}

// longest: of the shapes, with gaps. other: measured beside it, if it is not NULL.
static void measure(const char *name, product *p, int64_t longest, int threads, bool beside_dense) {
  if (!bench_wants(name)) return;
  int64_t n = longest * longest;
  void *a = numbers(p->call.type, n, 1), *b = numbers(p->call.type, n, 2), *c = numbers(p->call.type, n, 3);
  p->call.a = a;
  p->call.b = b;
  p->call.c = c;
  p->call.max_threads = threads;
  product dense = *p;
  dense.pad = 0;
  dense.call.beta = 0;
  bench_row row = {.bench = "blas", .name = name, .unit = "GFLOP/s", .threads = threads};
  row.roof = p->call.type == TC_F32 ? BENCH_FMA : BENCH_NO_ROOF;
  row.run = multiply;
  row.arg = p;
  row.check = product_right;
  for (int i = 0; i < p->n_shapes; i++)
    row.work += 2.0 * (double)(p->shape[i][0] * p->shape[i][1]) * (double)p->shape[i][2];
  if (openblas.set_threads) openblas.set_threads(threads);
  row.peers[row.n_peers++] = (bench_peer){"openblas", openblas.dgemm ? multiply_openblas : NULL, p};
  if (beside_dense) row.peers[row.n_peers++] = (bench_peer){"dense", multiply, &dense};
  if (a && b && c) bench_measure(&row);
  free(a);
  free(b);
  free(c);
}

static void measure_square(tc_type type, int64_t n, int trans, bool gaps, int threads) {
  char name[40];
  int64_t shape[1][3] = {{n, n, n}};
  product p = {.n_shapes = 1, .shape = shape, .pad = gaps ? 3 : 0};
  p.call = (tc_gemm_call){.type = type, .transa = trans / 2, .transb = trans % 2, .alpha = 1, .beta = gaps};
  snprintf(name, sizeof name, "%s-%d-%c%c%s", tc_type_name(type), (int)n, trans / 2 ? 't' : 'n', trans % 2 ? 't' : 'n',
           gaps ? "-gaps" : "");
  measure(name, &p, n + p.pad, threads, gaps);
}

static void measure_shapes(tc_type type, int threads) {
  static int64_t shapes[N_SHAPES][3];
  char name[40];
  uint32_t state = 1;
  for (int i = 0; i < N_SHAPES; i++)
    for (int x = 0; x < 3; x++) {
      state = state * 1664525u + 1013904223u;
      shapes[i][x] = 16 + (state >> 8) % (LONGEST - 15);
    }
  product p = {.n_shapes = N_SHAPES, .shape = shapes, .call = {.type = type, .alpha = 1, .beta = 0}};
  snprintf(name, sizeof name, "%s-shapes", tc_type_name(type));
  measure(name, &p, LONGEST, threads, false);
}

void bench_blas(void) {
  static const int sizes[] = {8, 16, 24, 32, 48, 64, 128, 256, 512, 1024, 2048};
  static const tc_type types[] = {TC_F64, TC_F32};
  int threads[2], n_threads = bench_threads(threads);
  open_openblas();
  for (int type = 0; type < 2; type++) {
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (int trans = 0; trans < 4; trans++)
        for (int t = 0; t < (sizes[s] > 64 ? n_threads : 1); t++)
          measure_square(types[type], sizes[s], trans, false, threads[t]);
    for (size_t s = 5; s < sizeof sizes / sizeof *sizes; s++)
      for (int t = 0; t < (sizes[s] > 64 ? n_threads : 1); t++)
        measure_square(types[type], sizes[s], 0, true, threads[t]);
    for (int t = 0; t < n_threads; t++) measure_shapes(types[type], threads[t]);
  }
}
