// Nanoseconds of calls that do little, by the best of some rounds: costs N. Linked to a BLAS.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void daxpy_(const int *, const double *, const double *, const int *, double *, const int *);
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *,
            const int *, const double *, const int *, const double *, double *, const int *);
void cblas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);

static double nanoseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

enum { CALLS = 20000, ROUNDS = 30 };
#define MEASURE(name, call) \
  best = 1e18; \
  for (int r = 0; r < ROUNDS; r++) { \
    double start = nanoseconds(); \
    for (int i = 0; i < CALLS; i++) call; \
    double t = (nanoseconds() - start) / CALLS; \
    if (t < best) best = t; \
  } \
  printf(name " %.2f\n", best)

int main(int argc, char **argv) {
  static double x[4096], y[4096], z[4096];
  int n = argc > 1 ? atoi(argv[1]) : 0, one = 1, ld = n > 0 ? n : 1;
  double a = 1, b = 0, best;
  MEASURE("daxpy", daxpy_(&n, &a, x, &one, y, &one));
  MEASURE("dgemm", dgemm_("N", "N", &n, &n, &n, &a, x, &ld, y, &ld, &b, z, &ld));
  MEASURE("cblas_dgemm", cblas_dgemm(102, 111, 111, n, n, n, a, x, ld, y, ld, b, z, ld));
  return 0;
}
