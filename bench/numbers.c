// What the cases need whoever runs them: the time, made-up numbers into tensors, results out of
// them, and this process's memory.
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/bench.h"

double bench_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

float *bench_floats(int64_t n, uint32_t seed) {
  float *out = malloc((size_t)n * sizeof(float));
  uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
  for (int64_t i = 0; out && i < n; i++) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    out[i] = (float)(int32_t)(state >> 32) * 0x1p-31f;
  }
  return out;
}

tc_tensor bench_tensor(tc_dims shape, uint32_t seed) {
  int64_t n = 1;
  for (int i = 0; i < shape.rank; i++) n *= shape.dim[i];
  float *data = bench_floats(n, seed);
  if (data == NULL) return (tc_tensor){0, 0};
  tc_tensor t = tc_from_host(data, shape, TC_F32);
  free(data);
  return t;
}

float bench_element(tc_tensor t, int64_t i) {
  const float *p = tc_map(t);
  if (p == NULL) return NAN;
  float v = p[i];
  return tc_unmap(t) == TC_OK ? v : NAN;
}

bool bench_near(double got, double want, double tolerance) {
  if (fabs(got - want) <= tolerance * (1 + fabs(want))) return true;
  fprintf(stderr, "  got %.9g, want %.9g\n", got, want);
  return false;
}

// ---- Memory of this process, from /proc ----

static double status_mib(const char *field) {
  char line[256];
  double kib = 0;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof(line), f))
    if (strncmp(line, field, strlen(field)) == 0) kib = atof(line + strlen(field) + 1);
  if (f) fclose(f);
  return kib / 1024;
}

double bench_restart_peak(void) {
  tc_trim();
  malloc_trim(0);
  FILE *f = fopen("/proc/self/clear_refs", "w");
  if (f) fputs("5", f), fclose(f);
  return status_mib("VmRSS:");
}

double bench_peak(void) {
  return status_mib("VmHWM:");
}
