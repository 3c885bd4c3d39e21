// Part a: what the device is, what its memory gives to tc's simplest kernels, and what the host
// pays for plans of trivial kernels.
// Bytes are the least that must move: every operand read once, every result written once.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/gpu_check/check.h"

#define DRIVERS_COPY "copy: the driver's"

// ---- Facts ----

static void preflight(check_row *row, const void *arg) {
  (void)arg;
  float v = 0;
  tc_tensor x = tc_arange(0, 1000, 1, TC_F32);
  if (!check_ok(row, tc_item_f32(tc_sum(tc_mul(x, 2), TC_ALL, false), &v))) return;
  if (v != 999000) check_wrong(row, "the sum of 0 to 1998 by twos is 999000, not %g", (double)v);
  if (!check.gpu) return;
  const tc_gpu_facts *f = tc_gpu_facts_of(check.gpu);
  row->value = (double)f->memory_bytes / (1 << 30), row->unit = "GiB";
  snprintf(row->note, sizeof row->note,
           "%s, %d processors, warps of %d, %zu KiB shared a block, %zu MiB of second-level cache, %s", f->arch,
           f->processors, f->warp, f->shared_bytes >> 10, f->l2_bytes >> 20,
           f->matrix == TC_GPU_NO_MATRIX ? "no matrix instructions" : "matrix instructions");
}

// ---- Memory ----

typedef struct memory_case {
  const char *name;
  int reads, writes;  // of tensors as long as the operand
  tc_tensor (*make)(tc_tensor a, tc_tensor b);
  double (*want)(double a, double b);  // NULL: a fold
} memory_case;

static tc_tensor make_copy(tc_tensor a, tc_tensor b) {
  (void)b;
  return tc_neg(a);
}
static double want_copy(double a, double b) {
  (void)b;
  return -a;
}
static tc_tensor make_triad(tc_tensor a, tc_tensor b) {
  return tc_add(a, tc_mul(b, 3));
}
static double want_triad(double a, double b) {
  return a + 3 * b;
}
static tc_tensor make_read(tc_tensor a, tc_tensor b) {
  (void)b;
  return tc_max(a, TC_ALL, false);
}
static tc_tensor make_write(tc_tensor a, tc_tensor b) {
  (void)b;
  return tc_full(tc_shape(a), 0.5, TC_F32);
}
static double want_write(double a, double b) {
  (void)a, (void)b;
  return 0.5;
}

static const memory_case memory_cases[] = {
    {"copy: -a", 1, 1, make_copy, want_copy},
    {"triad: a + 3 b", 2, 1, make_triad, want_triad},
    {"read: the greatest of a", 1, 0, make_read, NULL},
    {"write: a constant", 0, 1, make_write, want_write},
};

typedef struct memory_work {
  const memory_case *c;
  tc_tensor a, b;
} memory_work;

static bool run_memory(void *arg) {
  memory_work *w = arg;
  tc_scope scope = tc_scope_begin();
  tc_tensor y = w->c->make(w->a, w->b);
  tc_status st = tc_eval(1, &y);
  tc_scope_end(scope);
  return st == TC_OK;
}

// Some elements, or the greatest of all against that of the host's.
static void check_memory(check_row *row, memory_work *w, int64_t n) {
  enum { SEEN = 64 };
  double a[SEEN], b[SEEN], y[SEEN];
  tc_tensor made = w->c->make(w->a, w->b);
  if (!check_ok(row, tc_eval(1, &made))) return;
  for (int k = 0; k < 5; k++) {
    int64_t first = k * (n - SEEN) / 4;
    bool there = check_fetch(w->a, first, SEEN, a) && check_fetch(w->b, first, SEEN, b);
    if (!there || !check_fetch(made, w->c->want ? first : 0, w->c->want ? SEEN : 1, y)) {
      check_wrong(row, "%s", tc_last_error()->message);
      return;
    }
    for (int i = 0; i < SEEN; i++) {
      double want = w->c->want ? w->c->want(a[i], b[i]) : 0;
      if (w->c->want ? fabs(y[i] - want) > 1e-6 : y[0] < a[i] || y[0] > 1)
        check_wrong(row, "element %lld is %.9g, not %.9g", (long long)(first + i), y[w->c->want ? i : 0],
                    w->c->want ? want : a[i]);
    }
  }
}

static void measure_memory(check_row *row, const void *arg) {
  memory_work w = {.c = arg};
  int64_t n = (check.small ? (int64_t)64 << 20 : (int64_t)3 << 30) / (w.c->reads + w.c->writes) / 4;
  if (!check.timed) n = 100003;
  w.a = check_random(TC_SHAPE(n), TC_F32, 1), w.b = check_random(TC_SHAPE(n), TC_F32, 2);
  check_rate(row, 4e-9 * (w.c->reads + w.c->writes) * (double)n, "GB/s", check_seconds(run_memory, &w), 0);
  if (!row->wrong) check_memory(row, &w, n);
}

// What the driver's own copy within the device gives, and copies over the bus from and to pageable
// memory.
typedef enum transfer { WITHIN, TO_DEVICE, FROM_DEVICE } transfer;

typedef struct transfer_work {
  transfer which;
  size_t bytes;
  void *a, *b, *host;
} transfer_work;

static bool run_transfer(void *arg) {
  transfer_work *w = arg;
  if (w->which == WITHIN) return tc_gpu_copy(check.gpu, w->b, w->a, w->bytes) == TC_OK;
  return (w->which == TO_DEVICE ? tc_gpu_write(check.gpu, w->a, w->host, w->bytes)
                                : tc_gpu_read(check.gpu, w->host, w->a, w->bytes)) == TC_OK;
}

static void check_transfer(check_row *row, transfer_work *w) {
  unsigned char *host = w->host;
  for (size_t i = 0; i < w->bytes; i++) host[i] = (unsigned char)(i * 7 + (i >> 8));
  bool moved = check_ok(row, tc_gpu_write(check.gpu, w->a, host, w->bytes)) &&
               check_ok(row, tc_gpu_copy(check.gpu, w->b, w->a, w->bytes));
  memset(host, 0, w->bytes);
  if (!moved || !check_ok(row, tc_gpu_read(check.gpu, host, w->b, w->bytes))) return;
  for (size_t i = 0; i < w->bytes && !row->wrong; i++)
    if (host[i] != (unsigned char)(i * 7 + (i >> 8))) check_wrong(row, "byte %zu came back as another", i);
}

static void measure_transfer(check_row *row, const void *arg) {
  transfer_work w = {.which = *(const transfer *)arg};
  w.bytes = (size_t)(!check.timed ? 100003 : check.small ? 32 << 20 : w.which == WITHIN ? 1 << 30 : 256 << 20);
  w.host = calloc(w.bytes, 1);
  if (!w.host) check_wrong(row, "no room for %zu bytes", w.bytes);
  if (w.host && check_ok(row, tc_gpu_alloc(check.gpu, w.bytes, &w.a)) &&
      check_ok(row, tc_gpu_alloc(check.gpu, w.bytes, &w.b))) {
    check_rate(row, (w.which == WITHIN ? 2e-9 : 1e-9) * (double)w.bytes, "GB/s", check_seconds(run_transfer, &w), 0);
    if (!row->wrong) check_transfer(row, &w);
  }
  if (w.a) tc_gpu_free(check.gpu, w.a);
  if (w.b) tc_gpu_free(check.gpu, w.b);
  free(w.host);
}

// ---- What the host pays ----

typedef struct plan_work {
  int n_kernels;
  tc_tensor x;
  double eval_seconds;  // of the last call of tc_eval alone
} plan_work;

// Softmax along one axis and the other by turns: no two are one kernel.
static tc_tensor chain(tc_tensor x, int n) {
  for (int i = 0; i < n; i++) x = tc_softmax(x, i % 2);
  return x;
}

static bool run_plan(void *arg) {
  plan_work *w = arg;
  tc_scope scope = tc_scope_begin();
  tc_tensor y = chain(w->x, w->n_kernels);
  double start = check_now();
  tc_status st = tc_eval(1, &y);
  w->eval_seconds = check_now() - start;
  tc_scope_end(scope);
  return st == TC_OK;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Rows sum to one after a softmax along the last axis, columns after one along the first.
static void check_plan(check_row *row, plan_work *w) {
  enum { N = 16 };
  float y[N * N], sum = 0;
  tc_sync_point point;
  if (!check_ok(row, tc_to_host(chain(w->x, w->n_kernels), y, sizeof y))) return;
  if (tc_sync_points(1, &point) != 1 || point.n_kernels != (uint32_t)w->n_kernels)
    check_wrong(row, "the plan has %u kernels, not %d", point.n_kernels, w->n_kernels);
  for (int i = 0; i < N; i++) sum += w->n_kernels % 2 ? y[i * N] : y[i];
  if (fabsf(sum - 1) > 1e-5f) check_wrong(row, "a softmax sums to %.9g", (double)sum);
}

static void measure_plan(check_row *row, const void *arg) {
  enum { CALLS = 301 };
  static double each[CALLS];
  plan_work w = {.n_kernels = *(const int *)arg, .x = check_random(TC_SHAPE(16, 16), TC_F32, 3)};
  int calls = check.timed ? CALLS : 4;
  check_plan(row, &w);
  for (int i = 0; i < calls && !row->wrong; i++) {
    if (!run_plan(&w) || !check_drain()) check_wrong(row, "%s", tc_last_error()->message);
    each[i] = w.eval_seconds;
  }
  qsort(each, (size_t)calls, sizeof *each, compare_doubles);
  check_time(row, "us", row->wrong ? 0 : each[calls / 2]);
  if (!check.gpu) snprintf(row->note, sizeof row->note, "with the work itself");
}

// A call with everything done, less that of a plan of one kernel, for each kernel more.
static void measure_kernel(check_row *row, const void *arg) {
  (void)arg;
  plan_work one = {.n_kernels = 1, .x = check_random(TC_SHAPE(16, 16), TC_F32, 3)},
            many = {.n_kernels = 100, .x = one.x};
  double a = check_seconds(run_plan, &one), b = check_seconds(run_plan, &many);
  check_time(row, "us", a < 0 ? a : b < 0 ? b : (b - a) / 99);
}

static bool run_sync(void *arg) {
  (void)arg;
  return tc_sync(NULL) == TC_OK;
}

static void measure_sync(check_row *row, const void *arg) {
  (void)arg;
  check_time(row, "us", check_seconds(run_sync, NULL));
}

void check_plans(void) {
  static const int kernels[] = {1, 10, 100};
  char name[64];
  for (int i = 0; i < 3; i++) {
    snprintf(name, sizeof name, "host: a known plan of %d kernel%s", kernels[i], kernels[i] == 1 ? "" : "s");
    check_do(name, measure_plan, &kernels[i]);
  }
  check_do("a trivial kernel of a plan of 100", measure_kernel, NULL);
  check_do("host: a sync with nothing to do", measure_sync, NULL);
}

void check_copies(void) {
  static const transfer within = WITHIN;
  check_do(memory_cases[0].name, measure_memory, &memory_cases[0]);
  if (check.gpu) check_do(DRIVERS_COPY, measure_transfer, &within);
}

double check_best_copy(void) {
  return fmax(check_value_of(memory_cases[0].name), check_value_of(DRIVERS_COPY));
}

void check_roofs(void) {
  static const transfer to = TO_DEVICE, from = FROM_DEVICE;
  check_do("preflight", preflight, NULL);
  check_copies();
  for (size_t i = 1; i < sizeof memory_cases / sizeof *memory_cases; i++)
    check_do(memory_cases[i].name, measure_memory, &memory_cases[i]);
  if (check.gpu) {
    check_do("to the device", measure_transfer, &to);
    check_do("from the device", measure_transfer, &from);
  }
  check_plans();
}
