// A context grows by a row in each step, and each length is a graph of its own. Mended: the context
// has its full length from the start, and rows that are not there yet are masked.
#include "tests/advice/check.h"

enum { LENGTH = 48, WIDE = 32 };

int main(int argc, char **argv) {
  bool mended = argc > 1 && argv[1];
  float most;
  tc_tensor keys = made(tc_rand(TC_SHAPE(LENGTH, WIDE), TC_F32)), query = made(tc_rand(TC_SHAPE(WIDE, 1), TC_F32));
  for (int n = 1; n <= LENGTH; n++) {
    tc_scope step = tc_scope_begin();
    tc_tensor known = mended ? keys : tc_slice(keys, 0, 0, n, 1);
    tc_tensor score = tc_matmul(known, query);
    tc_tensor rows = tc_reshape(tc_arange(0, LENGTH, 1, TC_F32), TC_SHAPE(LENGTH, 1));
    if (mended) score = tc_where(tc_lt(rows, n), score, -1e30);
    check(tc_item_f32(tc_max(tc_softmax(score, 0), TC_AXES(0, 1), false), &most));  // FAULT
    tc_scope_end(step);
  }
  return !(most > 0);
}
