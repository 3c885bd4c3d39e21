// Each of many layers has extents of its own, and so a graph. Mended: all have the same.
#include "tests/advice/check.h"

static bool mended;
static float most;

static tc_tensor layer(int n, int wide) {
  tc_tensor x = tc_rand(TC_SHAPE(8 + n, mended ? 32 : 16 + wide), TC_F32);
  for (int i = 0; i < 120; i++) x = tc_softmax(tc_matmul(tc_sin(x), tc_permute(x, TC_SHAPE(1, 0))), 1);
  return tc_max(x, TC_AXES(0, 1), false);
}

static void run(int n) {
  for (int wide = 0; wide < 6; wide++) {
    tc_scope scope = tc_scope_begin();
    switch (mended ? 0 : n) {
      case 0: check(tc_item_f32(layer(0, wide), &most)); break;  // FAULT
      case 1: check(tc_item_f32(layer(1, wide), &most)); break;  // FAULT
      case 2: check(tc_item_f32(layer(2, wide), &most)); break;  // FAULT
      case 3: check(tc_item_f32(layer(3, wide), &most)); break;  // FAULT
      case 4: check(tc_item_f32(layer(4, wide), &most)); break;  // FAULT
    }
    tc_scope_end(scope);
  }
}

int main(int argc, char **argv) {
  mended = argc > 1 && argv[1];
  for (int n = 0; n < 5; n++) run(n);
  return !(most > 0);
}
