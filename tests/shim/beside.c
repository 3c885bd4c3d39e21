// A program that uses libtc itself beside the shim: borrowed memory, assigns that wait, errors of its own. beside LEVEL
#include <tc/tc.h>

#include "tests/shim/defer.h"

static void scale(double by, double *p) {
  dscal_(&size, &by, p, &one);
}

// The shim computes with tensors, fails or not, and leaves what the program has to be told.
static void use_shim(void) {
  double *p = pending(1), *t = malloc(BYTES);
  dgemm_("N", "N", &n, &n, &n, &(const double){1}, p, &n, p, &n, &(const double){0}, t, &n);
  scale(.5, t);
  assert(t[0] != 99);
  check_doubled(p, 1);
  free(t);
  free(p);
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "late") == 0) use_shim();  // libtc is linked, and not used yet
  double *p = pending(1), sum = 0, want = 0;
  tc_tensor b = tc_borrow(p, TC_SHAPE(SIZE), TC_F64, TC_READ_ONLY, NULL, NULL);
  assert(tc_item(tc_sum(b, TC_ALL, false), &sum) == TC_OK);
  for (int i = 0; i < SIZE; i++) want += 2 * (1 + i % 7);
  assert(sum == want);
  double *q = take(3);
  tc_tensor d = tc_borrow(q, TC_SHAPE(SIZE), TC_F64, TC_WRITABLE, NULL, NULL);
  assert(tc_assign(d, tc_mul(d, 2.0)) == TC_OK && tc_sync(NULL) == TC_OK);
  scale(5, q);
  for (int i = 0; i < SIZE; i++) assert(q[i] == 10 * (3 + i % 7));
  tc_tensor f32 = tc_zeros(TC_SHAPE(2, 3), TC_F32), bad = tc_matmul(f32, f32);
  use_shim();
  assert(tc_last_error()->status == TC_ERR_SHAPE);
  (void)!tc_assign(d, bad);
  use_shim();
  assert(tc_sync(NULL) == TC_ERR_SHAPE);
  tc_clear_error();
  use_shim();
  assert(tc_last_error()->status == TC_OK && tc_sync(NULL) == TC_OK);
  return 0;
}
