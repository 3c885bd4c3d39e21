// Race check of training, a plain program for -fsanitize=thread: eight threads train eight models
// on one library, each bit for bit as alone.
#include <pthread.h>
#include <string.h>

#include "tests/expect.h"
#include "tests/mlp.h"

enum { N_THREADS = 8, N_STEPS = 12 };

typedef struct worker {
  pthread_t thread;
  int id;
  float loss[N_STEPS];
} worker;

static void *train(void *arg) {
  worker *w = arg;
  mlp m;
  EXPECT_OK(mlp_init(&m, (uint64_t)(w->id + 1) * 10));
  for (int k = 0; k < N_STEPS; k++) EXPECT(mlp_step(&m, &w->loss[k]) == TC_OK, "thread %d, step %d", w->id, k);
  mlp_fini(&m);
  return NULL;
}

int main(void) {
  worker together[N_THREADS] = {0}, alone[N_THREADS] = {0};
  for (int i = 0; i < N_THREADS; i++) {
    together[i].id = alone[i].id = i;
    pthread_create(&together[i].thread, NULL, train, &together[i]);
  }
  for (int i = 0; i < N_THREADS; i++) pthread_join(together[i].thread, NULL);
  for (int i = 0; i < N_THREADS; i++) {
    train(&alone[i]);
    EXPECT(memcmp(alone[i].loss, together[i].loss, sizeof alone[i].loss) == 0,
           "model %d learns otherwise beside others", i);
    EXPECT(alone[i].loss[N_STEPS - 1] < alone[i].loss[0], "model %d does not learn", i);
  }
  tc_shutdown();
  return expect_done("training");
}
