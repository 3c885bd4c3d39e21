// A plain C program, of malloc'd arrays and loops, in which three lines were added: the softmax of
// every row is taken by tc, in place.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tc/tc.h>  // added: 1

static void fill(float *scores, int n) {
  for (int i = 0; i < n; i++) scores[i] = sinf((float)i * 0.37f) * 5;
}

int main(void) {
  enum { ROWS = 1000, COLS = 64 };
  float *scores = malloc(sizeof(float) * ROWS * COLS);
  if (scores == NULL) return 1;
  fill(scores, ROWS * COLS);

  tc_tensor t = tc_borrow(scores, TC_SHAPE(ROWS, COLS), TC_F32, TC_WRITABLE, NULL, NULL);         // added: 2
  if (tc_assign(t, tc_softmax(t, 1)) || tc_sync(NULL)) return puts(tc_last_error()->message), 1;  // added: 3

  // The array holds the result: the rest of the program goes on as before.
  double worst = 0, entropy = 0;
  for (int i = 0; i < ROWS; i++) {
    double sum = 0;
    for (int j = 0; j < COLS; j++) {
      double p = scores[i * COLS + j];
      sum += p;
      if (p > 0) entropy -= p * log(p) / ROWS;
    }
    if (fabs(sum - 1) > worst) worst = fabs(sum - 1);
  }
  printf("rows sum to one within %.1g; mean entropy %.3f nats\n", worst, entropy);
  free(scores);
  return worst < 1e-5 ? 0 : 1;
}
