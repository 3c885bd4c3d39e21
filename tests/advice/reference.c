// The largest value of each row is found by sorting, for which no code is generated. Mended: max.
#include "tests/advice/check.h"

enum { ROWS = 256 };

int main(int argc, char **argv) {
  static float largest[ROWS];
  bool mended = argc > 1 && argv[1];
  tc_tensor x = made(tc_rand(TC_SHAPE(ROWS, 256), TC_F32));
  for (int i = 0; i < 100; i++) {
    tc_scope step = tc_scope_begin();
    tc_tensor y = tc_mul(x, 1.0 + i);
    tc_tensor max = mended ? tc_max(y, TC_AXES(1), false) : tc_select(tc_sort(y, 1, true), 1, 0);  // FAULT
    check(tc_to_host(max, largest, sizeof largest));
    tc_scope_end(step);
  }
  return !(largest[ROWS - 1] > 0);
}
