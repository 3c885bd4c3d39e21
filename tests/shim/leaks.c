// 100,000 calls of many shapes, small products and vectors that wait: memory does not grow by 4 MiB, two vectors, after
// the first tenth.
#include "tests/shim/defer.h"
#include "tests/shim/resident.h"

static void multiply(int i, const double *a, const double *b, double *c) {
  const int rows = 9 + i % 80, columns = 50 + i % 7, depth = 1 + i % 90, ld = 300;
  dgemm_("N", i & 1 ? "T" : "N", &rows, &columns, &depth, &(const double){1}, a, &ld, b, &ld, &(const double){0}, c,
         &ld);
}

// Some of what waits is read, some dropped.
static void work(int i, double *x, double *y) {
  double *t = malloc(BYTES);
  dcopy_(&size, x, &one, t, &one);
  dscal_(&size, &(const double){.5}, t, &one);
  daxpy_(&size, &(const double){1e-9}, t, &one, y, &one);
  assert(i % 3 || ddot_(&size, y, &one, y, &one) > 0);
  assert(i % 5 || t[5] > 0);
  free(t);
}

int main(void) {
  enum { CALLS = 100000 };
  double *a = take(1), *b = take(1), *c = take(0), *x = take(1), *y = take(1);
  long first = 0;
  for (int i = 0; i < CALLS; i++) {
    if (i % 40)
      multiply(i, a, b, c);
    else
      work(i / 40, x, y);
    if (i == CALLS / 10) first = resident_kb();
  }
  long last = resident_kb();
  if (last > first + 4096) printf("%ld KB after a tenth, %ld KB at the end\n", first, last);
  return last > first + 4096;
}
