// What the host pays: recording without running, and steps so small that recording, lookup and launch are all there is.
#include "bench/bench.h"

#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

typedef struct pair {
  tc_tensor a, b;
} pair;

// ---- Heap allocations: the program's malloc stands before the C library's, for libtc.so too ----

static atomic_uint_fast64_t n_mallocs;

uint64_t bench_n_mallocs(void) {
  return atomic_load_explicit(&n_mallocs, memory_order_relaxed);
}

static void count_malloc(void) {
  atomic_fetch_add_explicit(&n_mallocs, 1, memory_order_relaxed);
}

#if defined(__GLIBC__)
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

void *malloc(size_t bytes) {
  return count_malloc(), __libc_malloc(bytes);
}
void *calloc(size_t n, size_t bytes) {
  return count_malloc(), __libc_calloc(n, bytes);
}
void *realloc(void *p, size_t bytes) {
  return count_malloc(), __libc_realloc(p, bytes);
}
void *aligned_alloc(size_t align, size_t bytes) {
  return count_malloc(), __libc_memalign(align, bytes);
}
#endif

// ---- record: ns an op ----

static double record_adds(void *arg, int n) {
  pair *p = arg;
  double seconds = 0;
  for (int i = 0; i < n; i++) {
    tc_scope scope = tc_scope_begin();
    double start = bench_now();
    tc_tensor t = p->a;
    for (int k = 0; k < 100; k++) t = tc_add(t, p->b);
    seconds += bench_now() - start;
    bool valid = tc_is_valid(t);
    tc_scope_end(scope);
    // Nobody holds the result, so nothing is computed; the sync only clears what was recorded.
    if (!valid || tc_sync(NULL) != TC_OK) return -1;
  }
  return seconds;
}

// Recording in the steady state allocates nothing.
static bool record_allocates_nothing(void *arg) {
  for (int warm = 0; warm < 3; warm++)
    if (record_adds(arg, 1) < 0) return false;
  uint64_t before = bench_n_mallocs();
  double seconds = record_adds(arg, 10);
  uint64_t n = bench_n_mallocs() - before;
  if (n > 0) fprintf(stderr, "  %llu heap allocations in 1000 ops\n", (unsigned long long)n);
  return seconds >= 0 && n == 0;
}

void bench_record(void) {
  pair p = {bench_tensor(TC_SHAPE(16), 1), bench_tensor(TC_SHAPE(16), 2)};
  bench_measure(&(bench_row){
      .bench = "record", .name = "chain100", .unit = "ns", .n_items = 100, .run = record_adds, .arg = &p, .check = record_allocates_nothing});
}

// ---- step: us a step of 100 ops, from the first record to the value ----

static tc_tensor mixed_ops(const pair *p) {
  tc_tensor t = p->a;
  for (int k = 0; k < 10; k++) {
    t = tc_add(t, p->b);
    t = tc_mul(t, p->a);
    t = tc_relu(t);
    t = tc_sub(t, p->b);
    t = tc_abs(t);
    t = tc_maximum(t, p->a);
    t = tc_mul(t, 0.5);
    t = tc_neg(t);
    t = tc_add(t, 1.0);
    t = tc_minimum(t, p->b);
  }
  return t;
}

static double step_once(void *arg, int n) {
  float out[100];
  double start = bench_now();
  for (int i = 0; i < n; i++) {
    tc_scope scope = tc_scope_begin();
    tc_status st = tc_to_host(mixed_ops(arg), out, sizeof(out));
    tc_scope_end(scope);
    if (st != TC_OK) return -1;
  }
  return bench_now() - start;
}

static bool step_right(void *arg) {
  pair *p = arg;
  float a = bench_element(p->a, 7), b = bench_element(p->b, 7), t = a;
  for (int k = 0; k < 10; k++) {
    t = fmaxf((t + b) * a, 0);
    t = fmaxf(fabsf(t - b), a);
    t = fminf(1 - t * 0.5f, b);
  }
  tc_scope scope = tc_scope_begin();
  float got = bench_element(mixed_ops(p), 7);
  tc_scope_end(scope);
  return bench_near(got, t, 1e-6);
}

void bench_step(void) {
  pair p = {bench_tensor(TC_SHAPE(10, 10), 1), bench_tensor(TC_SHAPE(10, 10), 2)};
  bench_measure(&(bench_row){.bench = "step", .name = "step100", .unit = "us", .run = step_once, .arg = &p, .check = step_right});
}
