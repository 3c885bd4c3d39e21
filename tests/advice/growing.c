// Each step sums all earlier losses anew. Mended: a running sum, which each step reads.
#include "tests/advice/check.h"

enum { STEPS = 48 };

int main(int argc, char **argv) {
  bool mended = argc > 1 && argv[1];
  float now;
  tc_tensor x = made(tc_rand(TC_SHAPE(64, 64), TC_F32)), loss[STEPS], total = tc_zeros(TC_SHAPE(0), TC_F32);
  for (int i = 0; i < STEPS; i++) {
    loss[i] = tc_sum(tc_mul(x, 1.0 + i), TC_AXES(0, 1), false);
    tc_tensor sum = i ? total : loss[0];
    if (mended) {
      sum = i ? tc_add(total, loss[i]) : loss[0];
    } else {
      sum = tc_mul(loss[0], 1);
      for (int k = 1; k <= i; k++) sum = tc_add(sum, loss[k]);
    }
    check(tc_item_f32(sum, &now));  // FAULT
    total = sum;
  }
  return !(now > 0);
}
