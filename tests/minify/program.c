// A step of training whose one trace has far more than 100 nodes, with the ops that plants.c breaks.
#include <stdio.h>

#include <tc/tc.h>

enum { LAYERS = 8, WIDTH = 12, ROWS = 6 };

int main(void) {
  tc_seed(1);
  tc_tensor x = tc_randn(TC_SHAPE(ROWS, WIDTH), TC_F32), w[LAYERS];
  for (int i = 0; i < LAYERS; i++) w[i] = tc_param(tc_mul(tc_randn(TC_SHAPE(WIDTH, WIDTH), TC_F32), 0.4));
  tc_tensor all[LAYERS + 1] = {x};
  for (int i = 0; i < LAYERS; i++) all[i + 1] = w[i];
  if (tc_eval(LAYERS + 1, all) != TC_OK) return fprintf(stderr, "%s\n", tc_last_error()->message), 1;
  tc_optimizer *opt = tc_sgd(w, LAYERS, (tc_sgd_options){.lr = 0.1});
  tc_tensor h = x;
  for (int i = 0; i < LAYERS; i++) {
    h = tc_maximum(tc_tanh(tc_matmul(h, w[i])), tc_mul(h, 0.25));
    if (i % 3 == 2) h = tc_add(tc_softmax(h, 1), tc_transpose(tc_transpose(h, 0, 1), 0, 1));
  }
  tc_tensor loss = tc_mean(tc_square(h), TC_ALL, false);
  float v = 0;
  (void)tc_backward(loss);
  (void)tc_optimizer_step(opt);
  if (tc_item_f32(loss, &v) != TC_OK) return fprintf(stderr, "%s\n", tc_last_error()->message), 1;
  printf("%g\n", (double)v);
  tc_optimizer_destroy(opt);
  return 0;
}
