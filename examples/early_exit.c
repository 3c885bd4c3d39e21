// Early exit: a cheap classifier answers where it is sure, else a network does. The branch is in the
// graph, so all points are classified by one compiled loop, and a network that is not asked does not
// run.
#include <stdio.h>
#include <tc/control.h>
#include <tc/tc.h>

enum { N = 8, HIDDEN = 16 };

typedef struct model {
  tc_tensor coarse, hidden, last;
} model;

static tc_status answer(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  out[0] = in[1];
  out[1] = tc_full(TC_SHAPE(), 1, TC_I32);
  return TC_OK;
}

static tc_status ask_network(void *user, const tc_tensor *in, tc_tensor *out) {
  const model *m = user;
  tc_tensor h = tc_tanh(tc_matmul(in[0], m->hidden));
  out[0] = tc_sum(tc_mul(h, m->last), TC_ALL, false);
  out[1] = tc_full(TC_SHAPE(), 2, TC_I32);
  return TC_OK;
}

// One point: its score, and who gave it.
static tc_status classify(void *user, const tc_tensor *in, tc_tensor *out) {
  const model *m = user;
  tc_tensor score = tc_sum(tc_mul(in[0], m->coarse), TC_ALL, false);
  tc_tensor sure = tc_gt(tc_abs(score), 1);
  return tc_cond(sure, answer, ask_network, user, (tc_tensor[]){in[0], score}, 2, out, 2);
}

int main(void) {
  float points[N][2], hidden[2][HIDDEN], last[HIDDEN], score[N];
  int32_t by[N];
  for (int i = 0; i < N; i++) points[i][0] = 0.25f * (float)(i - 4), points[i][1] = 0.125f * (float)(i * 5 % 8) - 0.5f;
  for (int k = 0; k < HIDDEN; k++) {
    hidden[0][k] = 0.5f * (float)(k % 5 - 2), hidden[1][k] = 0.25f * (float)(k % 7 - 3),
    last[k] = k % 2 ? 0.5f : -0.25f;
  }
  model m = {.coarse = tc_from_host((float[]){2, 0.5f}, TC_SHAPE(2), TC_F32),
             .hidden = tc_from_host(hidden, TC_SHAPE(2, HIDDEN), TC_F32),
             .last = tc_from_host(last, TC_SHAPE(HIDDEN), TC_F32)};
  tc_tensor x = tc_from_host(points, TC_SHAPE(N, 2), TC_F32), out[2];
  if (tc_scan(classify, &m, NULL, 0, &x, 1, out, 2, NULL) == TC_OK &&
      tc_to_host(out[0], score, sizeof score) == TC_OK && tc_to_host(out[1], by, sizeof by) == TC_OK) {
    for (int i = 0; i < N; i++)
      printf("(%5.2f, %6.3f) scores %6.3f by the %s\n", (double)points[i][0], (double)points[i][1], (double)score[i],
             by[i] == 1 ? "cheap classifier" : "network");
    return 0;
  }
  fprintf(stderr, "%s\n", tc_last_error()->message);
  return 1;
}
