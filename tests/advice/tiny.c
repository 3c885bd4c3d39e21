// Each row is summed and read on its own. Mended: all rows are summed and read at once.
#include "tests/advice/check.h"

enum { ROWS = 20000 };

int main(int argc, char **argv) {
  static float sum[ROWS];
  bool mended = argc > 1 && argv[1];
  tc_tensor x = made(tc_rand(TC_SHAPE(ROWS, 32), TC_F32));
  for (int i = 0; i < ROWS && !mended; i++) {
    tc_scope scope = tc_scope_begin();
    check(tc_item_f32(tc_sum(tc_select(x, 0, i), TC_AXES(0), false), &sum[i]));  // FAULT
    tc_scope_end(scope);
  }
  if (mended) check(tc_to_host(tc_sum(x, TC_AXES(1), false), sum, sizeof sum));
  return !(sum[ROWS - 1] > 0);
}
