// Chains of calls over matrices and vectors that no call changes otherwise: chains gemm | vectors.
// gemm: t = a b, t /= 2, y += t, z -= t / 4, y *= .999 at n = 1000; t is freed before y and z are read.
// vectors: what an iteration of conjugate gradients does with its vectors, of 8 MB.
// Prints the seconds of all but the first repetitions.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *,
            const int *, const double *, const int *, const double *, double *, const int *);
void daxpy_(const int *, const double *, const double *, const int *, double *, const int *);
void dscal_(const int *, const double *, double *, const int *);
double ddot_(const int *, const double *, const int *, const double *, const int *);

enum { N = 1000, SIZE = N * N, WARM = 5 };
static const int n = N, size = SIZE, one = 1;
static const double unit = 1, zero = 0, half = .5, quarter = -.25, shrink = .999, step = .01, back = -.01, mix = .3;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double *take(int period, double scale) {
  double *p = malloc(SIZE * sizeof *p);
  if (!p) exit(1);
  for (int i = 0; i < SIZE; i++) p[i] = (i % period) * scale;
  return p;
}

static double chain(const double *a, const double *b, double *y, double *z, int r) {
  double *t = malloc(SIZE * sizeof *t);
  dgemm_("N", "N", &n, &n, &n, &unit, a, &n, b, &n, &zero, t, &n);
  dscal_(&size, &half, t, &one);
  daxpy_(&size, &unit, t, &one, y, &one);
  daxpy_(&size, &quarter, t, &one, z, &one);
  dscal_(&size, &shrink, y, &one);
  free(t);
  return y[r] + z[SIZE - 1];
}

static double iterate(double *x, double *p, const double *q, double *r) {
  daxpy_(&size, &step, p, &one, x, &one);
  daxpy_(&size, &back, q, &one, r, &one);
  double rho = ddot_(&size, r, &one, r, &one);
  dscal_(&size, &mix, p, &one);
  daxpy_(&size, &unit, r, &one, p, &one);
  return rho;
}

int main(int argc, char **argv) {
  int is_gemm = argc > 1 && strcmp(argv[1], "gemm") == 0, times = is_gemm ? 25 : 250;
  double *a = take(13, 1. / N), *b = take(7, 1. / N), *y = take(5, 1), *z = take(3, 1), begin = 0, check = 0;
  for (int r = 0; r < WARM + times; r++) {
    if (r == WARM) begin = now();
    check += is_gemm ? chain(a, b, y, z, r) : iterate(a, b, z, y);
  }
  double seconds = now() - begin;
  for (int i = 0; i < SIZE; i++) check += a[i] + b[i] * .5 + y[i] * (i % 3) + z[i];
  printf("seconds %.5f check %.12e\n", seconds, check);
}
