// sin(x) + cos(y) over a 10 x 10 grid: the ops are recorded, and printing runs them.
#include <stdio.h>
#include <tc/tc.h>

int main(void) {
  tc_tensor x = tc_linspace(0, 3, 10, TC_F32);
  tc_tensor y = tc_reshape(x, TC_SHAPE(10, 1));
  tc_tensor z = tc_add(tc_sin(x), tc_cos(y));  // [10] and [10, 1] broadcast to [10, 10]
  if (tc_print(z) == TC_OK) return 0;
  fprintf(stderr, "%s\n", tc_last_error()->message);
  return 1;
}
