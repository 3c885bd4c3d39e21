// A value in the middle of a step is evaluated on its own. Mended: the end of the step runs it.
#include "tests/advice/check.h"

int main(int argc, char **argv) {
  bool mended = argc > 1 && argv[1];
  float mean;
  tc_tensor x = made(tc_rand(TC_SHAPE(1 << 18), TC_F32));
  for (int i = 0; i < 300; i++) {
    tc_scope step = tc_scope_begin();
    tc_tensor h = tc_mul(tc_add(tc_mul(x, 0.5), 0.1 * i), x);
    if (!mended) check(tc_eval(1, &h));  // FAULT
    tc_tensor out = tc_mean(tc_relu(tc_sub(h, 1)), TC_AXES(-1), false);
    check(tc_item_f32(out, &mean));
    tc_scope_end(step);
  }
  return !(mean >= 0);
}
