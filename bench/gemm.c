// Products at one thread and at all, square ones and those of layers, against the FMA roof or that
// of bf16, OpenBLAS and oneDNN, which are opened with dlopen where they are installed; and one with
// a bias and gelu done where it is made, against the same without. Of bf16 oneDNN is measured
// through PyTorch, which calls it.
// OpenBLAS takes its AVX2 kernels on CPUs it does not know, so the best core type for this machine
// is forced before it is opened.
#include "bench/bench.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef void cblas_sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a,
                            int lda, const float *b, int ldb, float beta, float *c, int ldc);

typedef int dnnl_sgemm_fn(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                          int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

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

// [m, k] by [k, n]; turned operands lie transposed in memory, as the weight [n, k] of a layer does,
// or the left factor of a weight's gradient.
typedef struct shape {
  const char *name;
  int64_t m, k, n;
  bool transposed_a, transposed_b;
  // of b in memory; a narrower one is widened, and whole numbers times a scale a column are what is
  // multiplied
  tc_type type, type_b;
  bool activated;  // a bias is added and gelu taken; what it is compared with is the product alone
  bool bytes;  // a layer of bytes, tc_linear_int8; what it is compared with is the same layer in f32
} shape;

typedef struct product {
  const shape *shape;
  tc_tensor a, b, scale, bias;
  float *host_a, *host_b, *host_c, *host_bias;
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
  // its workers spin 2^20 cycles, not 2^26: they must be asleep when tc's slice comes
  setenv("OPENBLAS_THREAD_TIMEOUT", "20", 0);
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

static tc_tensor recorded(const product *p) {
  if (p->shape->bytes) return tc_linear_int8(p->a, p->b, p->scale, (tc_tensor){0, 0});
  tc_tensor a = p->shape->transposed_a ? tc_transpose(p->a, 0, 1) : p->a,
            b = p->shape->transposed_b ? tc_transpose(p->b, 0, 1) : p->b;
  if (p->shape->type_b != p->shape->type) b = tc_cast(b, p->shape->type);
  if (p->shape->type_b == TC_I8) b = tc_mul(b, p->scale);
  return tc_matmul(a, b);
}

static tc_tensor activated(const product *p) {
  return tc_gelu(tc_add(recorded(p), p->bias));
}

static double run(const product *p, int n, tc_tensor (*record)(const product *p)) {
  double start = bench_now();
  for (int i = 0; i < n; i++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor c = record(p);
    tc_status st = tc_eval(1, &c);
    tc_scope_end(scope);
    if (st != TC_OK) return -1;
  }
  return bench_now() - start;
}

static double multiply(void *arg, int n) {
  return run(arg, n, recorded);
}

static double multiply_and_activate(void *arg, int n) {
  return run(arg, n, activated);
}

static double multiply_openblas(void *arg, int n) {
  const product *p = arg;
  const shape *s = p->shape;
  enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };
  int rows = (int)s->m, inner = (int)s->k, columns = (int)s->n;
  double start = bench_now();
  for (int i = 0; i < n; i++)
    openblas.sgemm(ROW_MAJOR, s->transposed_a ? TRANS : NO_TRANS, s->transposed_b ? TRANS : NO_TRANS, rows, columns,
                   inner, 1, p->host_a, s->transposed_a ? rows : inner, p->host_b, s->transposed_b ? inner : columns, 0,
                   p->host_c, columns);
  return bench_now() - start;
}

static double multiply_onednn(void *arg, int n) {
  const product *p = arg;
  const shape *s = p->shape;
  double start = bench_now();
  for (int i = 0; i < n; i++)
    if (onednn.sgemm(s->transposed_a ? 'T' : 'N', s->transposed_b ? 'T' : 'N', s->m, s->n, s->k, 1, p->host_a,
                     s->transposed_a ? s->m : s->k, p->host_b, s->transposed_b ? s->k : s->n, 0, p->host_c, s->n) != 0)
      return -1;
  return bench_now() - start;
}

static bool product_right(void *arg) {
  const product *p = arg;
  const shape *s = p->shape;
  int64_t row = s->m / 3, column = s->n / 2;
  double want = 0;
  for (int64_t k = 0; k < s->k; k++) {
    float a = p->host_a[s->transposed_a ? k * s->m + row : row * s->k + k],
          b = p->host_b[s->transposed_b ? column * s->k + k : k * s->n + column];
    want += (double)a * (double)b;
  }
  tc_scope scope = tc_scope_begin();
  if (s->activated) want += p->host_bias[column], want = 0.5 * want * (1 + erf(want * sqrt(0.5)));
  float got = bench_element(tc_cast(s->activated ? activated(p) : recorded(p), TC_F32), row * s->n + column);
  tc_scope_end(scope);
  return bench_near(got, want, s->type == TC_BF16 ? 1.0 / 256 : 1e-4);
}

// A factor on the device, and on the host what its type keeps of it.
static tc_tensor factor(float *host, int64_t rows, int64_t columns, tc_type type) {
  tc_tensor t = tc_cast(tc_from_host(host, TC_SHAPE(rows, columns), TC_F32), type);
  if (type != TC_F32 && tc_to_host(tc_cast(t, TC_F32), host, (size_t)(rows * columns) * sizeof(float)) != TC_OK)
    host[0] = NAN;
  return t;
}

// Bytes b and scales of its columns; on the host what they stand for.
static tc_tensor quantized(product *p) {
  const shape *s = p->shape;
  int64_t rows = s->transposed_b ? s->n : s->k, columns = s->transposed_b ? s->k : s->n, n = rows * columns;
  float *scale = malloc((size_t)s->n * sizeof *scale);
  for (int64_t i = 0; i < s->n && scale; i++) scale[i] = (float)(1 + i % 7) / 512;
  for (int64_t i = 0; i < n; i++) p->host_b[i] = roundf(127 * p->host_b[i]);
  tc_tensor b = tc_cast(tc_from_host(p->host_b, TC_SHAPE(rows, columns), TC_F32), TC_I8);
  if (tc_to_host(tc_cast(b, TC_F32), p->host_b, (size_t)n * sizeof(float)) != TC_OK || scale == NULL)
    p->host_b[0] = NAN;
  p->scale = tc_from_host(scale, TC_SHAPE(s->n), TC_F32);
  for (int64_t i = 0; i < n && scale; i++) p->host_b[i] *= scale[s->transposed_b ? i / s->k : i % s->n];
  free(scale);
  return b;
}

// Numbers that a row's scale makes bytes exactly: whole multiples of a 127th, and a 1 in each row.
static void make_multiples(float *host, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows * columns; i++) host[i] = i % columns ? roundf(127 * host[i]) / 127 : 1;
}

static void add_libraries(bench_row *row, product *p, int threads) {
  if (have_openblas() && openblas.set_threads) openblas.set_threads(threads);
  if (have_onednn()) onednn.set_threads(threads);
  row->peers[row->n_peers++] = (bench_peer){"openblas", openblas.sgemm ? multiply_openblas : NULL, p};
  row->peers[row->n_peers++] = (bench_peer){"onednn", onednn.sgemm ? multiply_onednn : NULL, p};
}

static void measure_shape(const shape *s, int threads) {
  if (!bench_wants(s->name)) return;
  product p = {.shape = s, .host_a = bench_floats(s->m * s->k, 1), .host_b = bench_floats(s->k * s->n, 2)};
  p.host_c = calloc((size_t)(s->m * s->n), sizeof(float));
  p.host_bias = bench_floats(s->n, 3);
  shape of_numbers = {s->name, s->m, s->k, s->n, false, true, TC_F32, TC_F32};
  product numbers = {.shape = &of_numbers};
  if (s->bytes && p.host_a) make_multiples(p.host_a, s->m, s->k);
  bool reads = s->m == 1;  // such a product takes as long as reading the right factor
  tc_scope scope = tc_scope_begin();
  if (p.host_a && p.host_b && p.host_c && p.host_bias) {
    p.a = s->transposed_a ? factor(p.host_a, s->k, s->m, s->type) : factor(p.host_a, s->m, s->k, s->type);
    p.b = s->type_b == TC_I8 ? quantized(&p)
          : s->transposed_b  ? factor(p.host_b, s->n, s->k, s->type_b)
                             : factor(p.host_b, s->k, s->n, s->type_b);
    bench_row row = {.bench = "gemm",
                     .name = s->name,
                     .unit = reads ? "GB/s" : "GFLOP/s",
                     .work = reads ? (double)tc_type_bytes(s->type_b) * (double)(s->k * s->n)
                                   : 2.0 * (double)(s->m * s->n) * (double)s->k,
                     .roof = reads                ? BENCH_READ
                             : s->type == TC_BF16 ? BENCH_BF16
                                                  : BENCH_FMA,
                     .threads = threads,
                     .run = s->activated ? multiply_and_activate : multiply,
                     .arg = &p,
                     .check = product_right};
    if (s->activated)
      p.bias = tc_from_host(p.host_bias, TC_SHAPE(s->n), TC_F32),
      row.peers[row.n_peers++] = (bench_peer){"plain", multiply, &p};
    else if (s->bytes)
      numbers.a = p.a, numbers.b = factor(p.host_b, s->n, s->k, TC_F32),
      row.peers[row.n_peers++] = (bench_peer){"f32", multiply, &numbers};
    else if (s->type_b == TC_F32)
      add_libraries(&row, &p, threads);
    bench_measure(&row);
  }
  tc_scope_end(scope);
  free(p.host_a);
  free(p.host_b);
  free(p.host_c);
  free(p.host_bias);
}

#define SQUARE(n) {#n, n, n, n, false, false, TC_F32, TC_F32}
#define ACTIVATED(n) {#n "_bias_gelu", n, n, n, false, false, TC_F32, TC_F32, true}
#define PLAIN(m, k, n) {#m "x" #k "x" #n, m, k, n, false, false, TC_F32, TC_F32}
#define LINEAR(m, k, n) {"linear-" #m "x" #k "x" #n, m, k, n, false, true, TC_F32, TC_F32}
#define WEIGHT_GRADIENT(m, k, n) {"grad-" #m "x" #k "x" #n, m, k, n, true, false, TC_F32, TC_F32}
#define SQUARE_BF16(n) {"bf16-" #n, n, n, n, false, false, TC_BF16, TC_BF16}
#define PLAIN_BF16(m, k, n) {"bf16-" #m "x" #k "x" #n, m, k, n, false, false, TC_BF16, TC_BF16}
#define LINEAR_BF16(m, k, n) {"bf16-linear-" #m "x" #k "x" #n, m, k, n, false, true, TC_BF16, TC_BF16}
#define WEIGHT_ONLY(name, type, m, k, n) {name "-" #m "x" #k "x" #n, m, k, n, false, false, TC_F32, type}
#define LINEAR_BYTES(m, k, n) {"bytes-linear-" #m "x" #k "x" #n, m, k, n, false, true, TC_F32, TC_I8, .bytes = true}
#define LINEAR_WEIGHT_ONLY(name, type, m, k, n) {name "-" #m "x" #k "x" #n, m, k, n, false, true, TC_F32, type}

void bench_gemm(void) {
  static const shape shapes[] = {SQUARE(64),
                                 SQUARE(128),
                                 SQUARE(256),
                                 SQUARE(512),
                                 SQUARE(1024),
                                 ACTIVATED(1024),
                                 SQUARE(2048),
                                 SQUARE(4096),
                                 PLAIN(1, 4096, 4096),
                                 PLAIN(32, 4096, 4096),
                                 PLAIN(4096, 64, 4096),
                                 PLAIN(512, 3072, 768),
                                 LINEAR(1, 4096, 4096),
                                 LINEAR(8, 768, 3072),
                                 LINEAR(32, 4096, 4096),
                                 LINEAR(128, 768, 768),
                                 LINEAR(128, 768, 3072),
                                 LINEAR(128, 3072, 768),
                                 LINEAR(1024, 768, 768),
                                 LINEAR(1024, 768, 2304),
                                 LINEAR(1024, 768, 3072),
                                 LINEAR(1024, 3072, 768),
                                 LINEAR(1024, 1024, 1024),
                                 WEIGHT_GRADIENT(768, 512, 3072),
                                 WEIGHT_GRADIENT(3072, 512, 768),
                                 WEIGHT_GRADIENT(1024, 1024, 1024),
                                 SQUARE_BF16(1024),
                                 SQUARE_BF16(4096),
                                 PLAIN_BF16(1, 4096, 4096),
                                 LINEAR_BF16(1, 4096, 4096),
                                 LINEAR_BF16(32, 4096, 4096),
                                 LINEAR_BF16(128, 768, 3072),
                                 LINEAR_BF16(1024, 768, 3072),
                                 WEIGHT_ONLY("int8", TC_I8, 1, 4096, 4096),
                                 LINEAR_WEIGHT_ONLY("int8-linear", TC_I8, 1, 4096, 4096),
                                 WEIGHT_ONLY("bf16-weight", TC_BF16, 1, 4096, 4096),
                                 LINEAR_WEIGHT_ONLY("bf16-weight-linear", TC_BF16, 1, 4096, 4096),
                                 LINEAR_WEIGHT_ONLY("int8-linear", TC_I8, 32, 4096, 4096),
                                 LINEAR_BYTES(1, 4096, 4096),
                                 LINEAR_BYTES(32, 4096, 4096),
                                 LINEAR_BYTES(1024, 768, 3072)};
  int threads[2], n_threads = bench_threads(threads);
  for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
    for (int t = 0; t < n_threads; t++) measure_shape(&shapes[s], threads[t]);
}
