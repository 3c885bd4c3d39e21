// A value is live at a sync that stores another; what reads it later recomputes it. Mended: one
// sync stores both results.
#include "tests/advice/check.h"

int main(int argc, char **argv) {
  bool mended = argc > 1 && argv[1];
  float sum, norm = 0;
  tc_tensor x = made(tc_rand(TC_SHAPE(1 << 17), TC_F32));
  for (int i = 0; i < 100; i++) {
    tc_scope step = tc_scope_begin();
    tc_tensor y = tc_tanh(tc_exp(tc_sin(tc_mul(x, 0.01 * i))));
    tc_tensor both[] = {tc_sum(y, TC_AXES(0), false), tc_sum(tc_square(y), TC_AXES(0), false)};
    if (mended) check(tc_eval(2, both));
    check(tc_item_f32(both[0], &sum));
    tc_tensor all = mended ? both[1] : tc_sum(tc_square(y), TC_AXES(0), false);
    check(tc_item_f32(all, &norm));  // FAULT
    tc_scope_end(step);
  }
  return !(norm > 0 && sum > 0);
}
