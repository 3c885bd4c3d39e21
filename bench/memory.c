// Work bound by memory: elementwise chains, activations, reductions, softmax. Each result is
// evaluated and dropped, so its buffer is reused.
#include "bench/bench.h"

#include <math.h>
#include <stddef.h>

typedef struct job {
  tc_tensor a, b, c;
  tc_tensor (*make)(const struct job *j);
  tc_dims axes;
} job;

static double run_job(void *arg, int n) {
  const job *j = arg;
  double start = bench_now();
  for (int i = 0; i < n; i++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor t = j->make(j);
    tc_status st = tc_eval(1, &t);
    tc_scope_end(scope);
    if (st != TC_OK) return -1;
  }
  return bench_now() - start;
}

static float job_element(const job *j, int64_t i) {
  tc_scope scope = tc_scope_begin();
  float v = bench_element(j->make(j), i);
  tc_scope_end(scope);
  return v;
}

static void release(job *j) {
  tc_release(j->a);
  if (j->b.gen) tc_release(j->b);
  if (j->c.gen) tc_release(j->c);
  tc_trim();
}

// A tensor of one's own, which release gives back: outside every scope a handle lives until the
// end.
static tc_tensor own(tc_dims shape, uint32_t seed) {
  tc_scope scope = tc_scope_begin();
  tc_tensor t = tc_retain(bench_tensor(shape, seed));
  tc_scope_end(scope);
  return t;
}

// ---- sincos ----

static tc_tensor sin_plus_cos(const job *j) {
  return tc_add(tc_sin(j->a), tc_cos(j->b));
}

static bool sincos_right(void *arg) {
  const job *j = arg;
  double want = sin(bench_element(j->a, 42)) + cos(bench_element(j->b, 42));
  return bench_near(job_element(j, 42), want, 1e-6);
}

static double sincos_value(void *arg, int n) {  // with the value in hand
  const job *j = arg;
  float out[100];
  double start = bench_now();
  for (int i = 0; i < n; i++) {
    tc_scope scope = tc_scope_begin();
    tc_status st = tc_to_host(sin_plus_cos(j), out, sizeof(out));
    tc_scope_end(scope);
    if (st != TC_OK) return -1;
  }
  return bench_now() - start;
}

void bench_sincos(void) {
  job small = {.a = own(TC_SHAPE(10, 10), 1), .b = own(TC_SHAPE(10, 10), 2), .make = sin_plus_cos};
  bench_measure(&(bench_row){
      .bench = "sincos", .name = "10x10", .unit = "us", .run = sincos_value, .arg = &small, .check = sincos_right});
  release(&small);
  job big = {.a = own(TC_SHAPE(4096, 4096), 1), .b = own(TC_SHAPE(4096, 4096), 2), .make = sin_plus_cos};
  bench_measure(&(bench_row){.bench = "sincos",
                             .name = "4096x4096",
                             .unit = "ms",
                             .work = 3 * 4.0 * 4096 * 4096,
                             .roof = BENCH_TRIAD,
                             .run = run_job,
                             .arg = &big,
                             .check = sincos_right});
  release(&big);
}

// ---- gelu ----

static tc_tensor gelu(const job *j) {
  return tc_gelu(j->a);
}

static tc_tensor gelu_tanh(const job *j) {
  return tc_gelu_tanh(j->a);
}

static bool gelu_right(void *arg) {
  const job *j = arg;
  double x = bench_element(j->a, 77), cube = 0.044715 * x * x * x;
  double phi = j->make == gelu ? erf(x * sqrt(0.5)) : tanh(sqrt(2 / acos(-1)) * (x + cube));
  return bench_near(job_element(j, 77), 0.5 * x * (1 + phi), 1e-6);
}

void bench_gelu(void) {
  job j = {.a = own(TC_SHAPE(16 << 20), 1)};
  for (int i = 0; i < 2; i++) {
    j.make = i == 0 ? gelu_tanh : gelu;
    bench_measure(&(bench_row){.bench = "gelu",
                               .name = i == 0 ? "gelu16m_tanh" : "gelu16m_erf",
                               .unit = "ms",
                               .work = 2 * 4.0 * (16 << 20),
                               .roof = BENCH_TRIAD,
                               .run = run_job,
                               .arg = &j,
                               .check = gelu_right});
  }
  release(&j);
}

// ---- chain ----

static tc_tensor relu_mul_add(const job *j) {
  return tc_relu(tc_add(tc_mul(j->a, j->b), j->c));
}

static bool chain_right(void *arg) {
  const job *j = arg;
  float want = fmaxf(bench_element(j->a, 99) * bench_element(j->b, 99) + bench_element(j->c, 99), 0);
  return bench_near(job_element(j, 99), want, 1e-6);
}

void bench_chain(void) {
  tc_dims shape = TC_SHAPE(16 << 20);
  job j = {.a = own(shape, 1), .b = own(shape, 2), .c = own(shape, 3), .make = relu_mul_add};
  int threads[2], n_threads = bench_threads(threads);
  for (int t = 0; t < n_threads; t++)
    bench_measure(&(bench_row){.bench = "chain",
                               .name = "chain16m",
                               .unit = "ms",
                               .work = 4 * 4.0 * (16 << 20),
                               .roof = BENCH_TRIAD,
                               .threads = threads[t],
                               .run = run_job,
                               .arg = &j,
                               .check = chain_right});
  release(&j);
}

// ---- reduce ----

static tc_tensor sum_axes(const job *j) {
  return tc_sum(j->a, j->axes, false);
}

// The first result against a sum made here in double.
static bool sum_right(void *arg) {
  const job *j = arg;
  const float *a = tc_map(j->a);
  if (a == NULL) return false;
  bool rows = j->axes.rank == 1 && j->axes.dim[0] == 0, all = j->axes.rank == -1;
  int64_t n = all ? 4096 * 4096 : 4096, stride = rows ? 4096 : 1;
  double want = 0;
  for (int64_t i = 0; i < n; i++) want += (double)a[i * stride];
  if (tc_unmap(j->a) != TC_OK) return false;
  return bench_near(job_element(j, 0), want, all ? 1e-2 : 1e-4);  // f32 sums of values of both signs
}

void bench_reduce(void) {
  job j = {.a = own(TC_SHAPE(4096, 4096), 1), .make = sum_axes};
  const struct {
    const char *name;
    tc_dims axes;
  } cases[] = {{"sum4096_axis0", TC_AXES(0)}, {"sum4096_axis1", TC_AXES(1)}, {"sum4096_all", TC_ALL}};
  for (int i = 0; i < 3; i++) {
    j.axes = cases[i].axes;
    bench_measure(&(bench_row){.bench = "reduce",
                               .name = cases[i].name,
                               .unit = "ms",
                               .work = 4.0 * 4096 * 4096,
                               .roof = BENCH_READ,
                               .run = run_job,
                               .arg = &j,
                               .check = sum_right});
  }
  release(&j);
}

// ---- softmax ----

static tc_tensor softmax_rows(const job *j) {
  return tc_softmax(j->a, -1);
}

static bool softmax_right(void *arg) {
  const job *j = arg;
  int64_t n = tc_shape(j->a).dim[1];
  const float *a = tc_map(j->a);
  if (a == NULL) return false;
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += exp((double)a[i]);
  double want = exp((double)a[5]) / sum;
  if (tc_unmap(j->a) != TC_OK) return false;
  return bench_near((double)job_element(j, 5) / want, 1, 1e-5);
}

void bench_softmax(void) {
  const struct {
    const char *name;
    int64_t rows, columns;
  } cases[] = {{"4096x1024", 4096, 1024}, {"64x32000", 64, 32000}};
  for (int i = 0; i < 2; i++) {
    job j = {.a = own(TC_SHAPE(cases[i].rows, cases[i].columns), 1), .make = softmax_rows};
    bench_measure(&(bench_row){.bench = "softmax",
                               .name = cases[i].name,
                               .unit = "ms",
                               .work = 2 * 4.0 * (double)(cases[i].rows * cases[i].columns),
                               .roof = BENCH_TRIAD,
                               .run = run_job,
                               .arg = &j,
                               .check = softmax_right});
    release(&j);
  }
}
