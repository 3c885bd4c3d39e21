// Each step evaluates a value that nobody reads. Mended: it is not asked for.
#include "tests/advice/check.h"

int main(int argc, char **argv) {
  bool mended = argc > 1 && argv[1];
  float sum;
  tc_tensor x = made(tc_rand(TC_SHAPE(1 << 19), TC_F32));
  for (int i = 0; i < 100; i++) {
    tc_scope step = tc_scope_begin();
    tc_tensor debug = tc_exp(tc_mul(x, 0.01 * i));  // VALUE exp
    if (mended) tc_release(debug);
    if (!mended) check(tc_eval(1, &debug));  // FAULT
    check(tc_item_f32(tc_sum(tc_mul(x, i), TC_AXES(0), false), &sum));
    tc_scope_end(step);
  }
  return !(sum > 0);
}
