// The program draws each step's numbers itself. Mended: drawing them is a recorded op.
#include "tests/advice/check.h"

#include <math.h>

enum { N = 1 << 17 };

static float draw_normal(void) {
  double a = (rand() + 1.0) / (RAND_MAX + 2.0), b = (rand() + 1.0) / (RAND_MAX + 2.0);
  return (float)(sqrt(-2 * log(a)) * cos(6.283185307 * b));
}

int main(int argc, char **argv) {
  static float number[N];
  bool mended = argc > 1 && argv[1];
  float sum;
  for (int i = 0; i < 40; i++) {
    tc_scope step = tc_scope_begin();
    for (int k = 0; k < N && !mended; k++) number[k] = draw_normal();
    tc_tensor x = mended ? tc_randn(TC_SHAPE(N), TC_F32) : tc_from_host(number, TC_SHAPE(N), TC_F32);
    check(tc_item_f32(tc_sum(tc_square(x), TC_AXES(0), false), &sum));  // FAULT
    tc_scope_end(step);
  }
  return !(sum > 0);
}
