// Triangular and symmetric products (tc/blas.h) at one thread and at all, beside OpenBLAS, which is
// opened with dlopen where it is installed, at the best core type for this machine.
// A solve and a triangular product work in place. Their triangles have ones on the diagonal and
// small elements beside it: so numbers stay of one size however often they run.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <tc/blas.h>

#include "bench/bench.h"

typedef enum routine { TRSM, TRMM, SYMM, SYRK, SYR2K, N_ROUTINES } routine;
static const char *const names[] = {"trsm", "trmm", "symm", "syrk", "syr2k"};
static tc_status (*const routines[])(const tc_blas3_call *) = {tc_trsm, tc_trmm, tc_symm, tc_syrk, tc_syr2k};

// Fortran's spelling: every argument by address.
typedef void triangular_fn(const char *side, const char *uplo, const char *trans, const char *diag, const int *m,
                           const int *n, const void *alpha, const void *a, const int *lda, void *b, const int *ldb);
typedef void two_operands_fn(const char *first, const char *second, const int *m, const int *n, const void *alpha,
                             const void *a, const int *lda, const void *b, const int *ldb, const void *beta, void *c,
                             const int *ldc);
typedef void update_fn(const char *uplo, const char *trans, const int *n, const int *k, const void *alpha,
                       const void *a, const int *lda, const void *beta, void *c, const int *ldc);

static struct {
  void *library;
  void (*set_threads)(int n);
} openblas;

typedef struct work {
  routine routine;
  tc_blas3_call call;
  void *peer;  // of OpenBLAS
} work;

static void open_openblas(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
  else if (__builtin_cpu_supports("avx2"))
    setenv("OPENBLAS_CORETYPE", "Haswell", 0);
#endif
  setenv("OPENBLAS_THREAD_TIMEOUT", "20", 0);  // its workers sleep when tc's slice comes
  openblas.library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!openblas.library) return;
  openblas.set_threads = (void (*)(int))dlsym(openblas.library, "openblas_set_num_threads");
}

static double run(void *arg, int n) {
  const work *w = arg;
  double start = bench_now();
  for (int i = 0; i < n; i++)
    if (routines[w->routine](&w->call) != TC_OK) return -1;
  return bench_now() - start;
}

static double run_openblas(void *arg, int n) {
  const work *w = arg;
  const tc_blas3_call *g = &w->call;
  const char *side = g->side ? "R" : "L", *uplo = g->uplo ? "U" : "L", *trans = g->trans ? "T" : "N";
  int size = (int)g->n;
  float alpha_f32 = (float)g->alpha, beta_f32 = (float)g->beta;
  const void *alpha = g->type == TC_F64 ? (const void *)&g->alpha : &alpha_f32;
  const void *beta = g->type == TC_F64 ? (const void *)&g->beta : &beta_f32;
  double start = bench_now();
  for (int i = 0; i < n; i++) {
    if (w->routine <= TRMM)
      ((triangular_fn *)w->peer)(side, uplo, trans, "N", &size, &size, alpha, g->a, &size, g->c, &size);
    else if (w->routine == SYRK)
      ((update_fn *)w->peer)(uplo, trans, &size, &size, alpha, g->a, &size, beta, g->c, &size);
    else
      ((two_operands_fn *)w->peer)(w->routine == SYMM ? side : uplo, w->routine == SYMM ? uplo : trans, &size, &size,
                                   alpha, g->a, &size, g->b, &size, beta, g->c, &size);
  }
  return bench_now() - start;
}

// Numbers of a type, n x n; a triangle has ones on its diagonal. Freed with free().
static void *numbers(tc_type type, int64_t n, uint32_t seed, bool is_triangle) {
  float *from = bench_floats(n * n, seed);
  double *to = malloc((size_t)(n * n) * sizeof *to);
  for (int64_t i = 0; from && to && i < n * n; i++) {
    double x = is_triangle ? (i % (n + 1) == 0 ? 1 : (double)from[i] / (double)(n * n)) : (double)from[i];
    if (type == TC_F64)
      to[i] = x;
    else
      ((float *)to)[i] = (float)x;
  }
  free(from);
  return to;
}

static void measure(routine r, tc_type type, int64_t n, bool transposed, int threads) {
  char name[48], symbol[16];
  snprintf(name, sizeof name, "%s-%s-%d%s", tc_type_name(type), names[r], (int)n, transposed ? "-rut" : "");
  if (!bench_wants(name)) return;
  work w = {.routine = r};
  w.call = (tc_blas3_call){.type = type, .m = n, .n = n, .k = n, .alpha = 1, .lda = n, .ldb = n, .ldc = n};
  w.call.side = transposed ? TC_RIGHT : TC_LEFT;
  w.call.uplo = transposed ? TC_UPPER : TC_LOWER;
  w.call.trans = transposed ? TC_TRANS : TC_NO_TRANS;
  w.call.max_threads = threads;
  void *a = numbers(type, n, 1, r <= TRMM), *b = numbers(type, n, 2, false), *c = numbers(type, n, 3, false);
  w.call.a = a;
  w.call.b = b;
  w.call.c = c;
  snprintf(symbol, sizeof symbol, "%c%s_", type == TC_F64 ? 'd' : 's', names[r]);
  w.peer = openblas.library ? dlsym(openblas.library, symbol) : NULL;
  bench_row row = {.bench = "blas_level3", .name = name, .unit = "GFLOP/s", .threads = threads};
  row.roof = type == TC_F32 ? BENCH_FMA : BENCH_NO_ROOF;
  row.run = run;
  row.arg = &w;
  row.work = (r == SYMM || r == SYR2K ? 2.0 : 1.0) * (double)n * (double)n * (double)n;
  if (openblas.set_threads) openblas.set_threads(threads);
  row.peers[row.n_peers++] = (bench_peer){"openblas", w.peer ? run_openblas : NULL, &w};
  if (a && b && c) bench_measure(&row);
  free(a);
  free(b);
  free(c);
}

void bench_blas_level3(void) {
  static const int sizes[] = {8, 32, 64, 128, 256, 512, 1024};
  static const tc_type types[] = {TC_F64, TC_F32};
  int threads[2], n_threads = bench_threads(threads);
  open_openblas();
  for (int type = 0; type < 2; type++)
    for (routine r = TRSM; r < N_ROUTINES; r++)
      for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int t = 0; t < (sizes[s] > 64 ? n_threads : 1); t++) {
          measure(r, types[type], sizes[s], false, threads[t]);
          if (sizes[s] == 512) measure(r, types[type], sizes[s], true, threads[t]);
        }
}
