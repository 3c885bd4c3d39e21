// How long work takes, and numbers into and out of the device.
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "tools/gpu_check/check.h"

enum { MOST_SLICES = 15 };
static const double slice_seconds = 0.02, row_seconds = 1;

double check_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool check_drain(void) {
  return tc_sync(check.device) == TC_OK;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double slice(check_work *work, void *arg, int n) {
  double start = check_now();
  for (int i = 0; i < n; i++)
    if (!work(arg)) return -1;
  return check_drain() ? (check_now() - start) / n : -1;
}

double check_seconds(check_work *work, void *arg) {
  double each[MOST_SLICES], seconds = slice(work, arg, 1);  // the first call compiles
  if (seconds < 0 || !check.timed) return seconds;
  seconds = slice(work, arg, 1);
  int calls = seconds > 0 && seconds < slice_seconds ? (int)fmin(slice_seconds / seconds, 1e5) : 1, n = 0;
  double end = check_now() + (check.small ? 0.1 : 1) * row_seconds;
  while (seconds >= 0 && (n == 0 || (n < MOST_SLICES && check_now() < end))) {
    seconds = slice(work, arg, calls);
    each[n++] = seconds;
  }
  if (seconds < 0) return seconds;
  qsort(each, (size_t)n, sizeof *each, compare_doubles);
  return each[n / 2];
}

tc_tensor check_random(tc_dims shape, tc_type type, uint64_t seed) {
  tc_seed(seed);
  tc_tensor x = tc_cast(tc_add(tc_mul(tc_rand(shape, TC_F32), 2), -1), type);
  return tc_eval(1, &x) == TC_OK ? x : (tc_tensor){0, 0};
}

bool check_fetch(tc_tensor t, int64_t first, int64_t n, double *out) {
  tc_scope scope = tc_scope_begin();
  tc_tensor part = tc_cast(tc_slice(tc_reshape(t, TC_SHAPE(-1)), 0, first, first + n, 1), TC_F64);
  tc_status st = tc_to_host(part, out, (size_t)n * sizeof *out);
  tc_scope_end(scope);
  return st == TC_OK;
}
