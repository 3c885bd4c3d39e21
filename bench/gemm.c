// Square f32 products at one thread and at all, against the FMA roof, OpenBLAS and oneDNN, which are opened with dlopen where they are installed.
// OpenBLAS takes its AVX2 kernels on CPUs it does not know, so the best core type for this machine is forced before it is opened.
#include "bench/bench.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef void cblas_sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb,
                            float beta, float *c, int ldc);

typedef int dnnl_sgemm_fn(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, const float *b,
                          int64_t ldb, float beta, float *c, int64_t ldc);

static struct {
  bool tried;
  cblas_sgemm_fn *sgemm;
  void (*set_threads)(int n);
} openblas;

static struct {
  bool tried;
  dnnl_sgemm_fn *sgemm;
  void (*set_threads)(int n);  // of its OpenMP runtime
} onednn;

typedef struct product {
  int64_t n;
  tc_tensor a, b;
  float *host_a, *host_b, *host_c;
} product;

static void *open_first(const char *const *names) {
  void *library = NULL;
  for (; *names && library == NULL; names++) library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
  return library;
}

static bool have_openblas(void) {
  if (openblas.tried) return openblas.sgemm != NULL;
  openblas.tried = true;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
  else if (__builtin_cpu_supports("avx2"))
    setenv("OPENBLAS_CORETYPE", "Haswell", 0);
#endif
  setenv("OPENBLAS_THREAD_TIMEOUT", "20", 0);  // its workers spin 2^20 cycles, not 2^26: they must be asleep when tc's slice comes
  void *library = open_first((const char *const[]){"libopenblas.so.0", "libopenblas.so", NULL});
  if (library == NULL) return false;
  openblas.sgemm = (cblas_sgemm_fn *)dlsym(library, "cblas_sgemm");
  openblas.set_threads = (void (*)(int))dlsym(library, "openblas_set_num_threads");
  return openblas.sgemm != NULL;
}

static bool have_onednn(void) {
  if (onednn.tried) return onednn.sgemm != NULL;
  onednn.tried = true;
  setenv("GOMP_SPINCOUNT", "100000", 0);  // as for OpenBLAS
  void *library = open_first((const char *const[]){"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so", NULL});
  void *openmp = library ? open_first((const char *const[]){"libgomp.so.1", NULL}) : NULL;
  if (openmp == NULL) return false;
  onednn.sgemm = (dnnl_sgemm_fn *)dlsym(library, "dnnl_sgemm");
  onednn.set_threads = (void (*)(int))dlsym(openmp, "omp_set_num_threads");
  return onednn.sgemm != NULL && onednn.set_threads != NULL;
}

static double multiply(void *arg, int n) {
  const product *p = arg;
  double start = bench_now();
  for (int i = 0; i < n; i++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor c = tc_matmul(p->a, p->b);
    tc_status st = tc_eval(1, &c);
    tc_scope_end(scope);
    if (st != TC_OK) return -1;
  }
  return bench_now() - start;
}

static double multiply_openblas(void *arg, int n) {
  const product *p = arg;
  enum { ROW_MAJOR = 101, NO_TRANS = 111 };
  int size = (int)p->n;
  double start = bench_now();
  for (int i = 0; i < n; i++)
    openblas.sgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, size, size, size, 1, p->host_a, size, p->host_b, size, 0, p->host_c, size);
  return bench_now() - start;
}

static double multiply_onednn(void *arg, int n) {
  const product *p = arg;
  double start = bench_now();
  for (int i = 0; i < n; i++)
    if (onednn.sgemm('N', 'N', p->n, p->n, p->n, 1, p->host_a, p->n, p->host_b, p->n, 0, p->host_c, p->n) != 0) return -1;
  return bench_now() - start;
}

static bool product_right(void *arg) {
  const product *p = arg;
  int64_t row = p->n / 3, column = p->n / 2;
  double want = 0;
  for (int64_t k = 0; k < p->n; k++) want += (double)p->host_a[row * p->n + k] * (double)p->host_b[k * p->n + column];
  tc_scope scope = tc_scope_begin();
  float got = bench_element(tc_matmul(p->a, p->b), row * p->n + column);
  tc_scope_end(scope);
  return bench_near(got, want, 1e-4);
}

static void measure_size(int64_t n, int threads) {
  char name[16];
  snprintf(name, sizeof(name), "%d", (int)n);
  product p = {.n = n, .host_a = bench_floats(n * n, 1), .host_b = bench_floats(n * n, 2), .host_c = calloc((size_t)(n * n), sizeof(float))};
  tc_scope scope = tc_scope_begin();
  if (p.host_a && p.host_b && p.host_c) {
    p.a = tc_from_host(p.host_a, TC_SHAPE(n, n), TC_F32);
    p.b = tc_from_host(p.host_b, TC_SHAPE(n, n), TC_F32);
    bench_row row = {.bench = "gemm",
                     .name = name,
                     .unit = "GFLOP/s",
                     .work = 2.0 * (double)n * (double)n * (double)n,
                     .roof = BENCH_FMA,
                     .threads = threads,
                     .run = multiply,
                     .arg = &p,
                     .check = product_right};
    if (have_openblas() && openblas.set_threads) openblas.set_threads(threads);
    if (have_onednn()) onednn.set_threads(threads);
    row.peers[row.n_peers++] = (bench_peer){"openblas", openblas.sgemm ? multiply_openblas : NULL, &p};
    row.peers[row.n_peers++] = (bench_peer){"onednn", onednn.sgemm ? multiply_onednn : NULL, &p};
    bench_measure(&row);
  }
  tc_scope_end(scope);
  free(p.host_a);
  free(p.host_b);
  free(p.host_c);
}

void bench_gemm(void) {
  static const int64_t sizes[] = {64, 128, 256, 512, 1024, 2048, 4096};
  int threads[2], n_threads = bench_threads(threads);
  for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
    for (int t = 0; t < n_threads; t++) measure_size(sizes[s], threads[t]);
}
