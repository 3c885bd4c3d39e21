// The dilation of a convolution is part of the graph, and changes in each step. Mended: the signal
// is rolled by a number, which is an argument.
#include "tests/advice/check.h"

enum { N = 256, STEPS = 48 };

int main(int argc, char **argv) {
  bool mended = argc > 1 && argv[1];
  float sum;
  tc_tensor x = made(tc_rand(TC_SHAPE(1, 1, N), TC_F32)), w = made(tc_rand(TC_SHAPE(1, 1, 3), TC_F32)), none = {0, 0};
  for (int i = 1; i <= STEPS; i++) {
    tc_scope step = tc_scope_begin();
    tc_tensor y;
    if (mended)
      y = tc_add(tc_add(tc_mul(tc_roll(x, i, 2), tc_select(w, 2, 0)), tc_mul(x, tc_select(w, 2, 1))),
                 tc_mul(tc_roll(x, -i, 2), tc_select(w, 2, 2)));
    else
      y = tc_conv1d(x, w, none, (tc_conv_options){.dilation = TC_SHAPE(i), .padding = TC_SHAPE(i)});
    check(tc_item_f32(tc_sum(tc_square(y), TC_AXES(0, 1, 2), false), &sum));  // FAULT
    tc_scope_end(step);
  }
  return !(sum > 0);
}
