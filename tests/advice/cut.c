// Values are centred by the mean of all of them, which is known when all are stored. Mended: by the
// mean of the step before.
#include "tests/advice/check.h"

int main(int argc, char **argv) {
  bool mended = argc > 1 && argv[1];
  float last = 0;
  tc_tensor x = made(tc_rand(TC_SHAPE(1024, 1024), TC_F32)), mean = made(tc_scalar(0.5));
  for (int i = 0; i < 60; i++) {
    tc_scope step = tc_scope_begin();
    tc_tensor y = tc_tanh(tc_add(x, 0.5)), now = tc_mean(y, TC_AXES(0, 1), false);
    tc_tensor centred = tc_sub(y, mended ? mean : now);  // FAULT
    check(tc_eval(2, (tc_tensor[]){centred, now}));
    tc_release(mean);
    tc_release(x);
    mean = tc_retain(now), x = tc_retain(centred);
    tc_scope_end(step);
  }
  check(tc_item_f32(mean, &last));
  return last != last;
}
