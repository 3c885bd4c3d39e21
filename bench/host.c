// What the host pays: recording without running, and steps so small that recording, lookup and launch are all there is.
#include "bench/bench.h"

#include <math.h>

typedef struct pair {
  tc_tensor a, b;
} pair;

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

void bench_record(void) {
  pair p = {bench_tensor(TC_SHAPE(16), 1), bench_tensor(TC_SHAPE(16), 2)};
  bench_measure(&(bench_row){.bench = "record", .name = "chain100", .unit = "ns", .n_items = 100, .run = record_adds, .arg = &p});
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
