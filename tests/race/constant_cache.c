// Race checks of cached constants, a plain program for -fsanitize=thread: threads run one plan over
// shared parameters and find, make and keep the same values, while one drops what is kept and the
// owner assigns. Exit code 0: every value was right.
#include <pthread.h>
#include <stdatomic.h>

#include "tests/expect.h"

enum { N_THREADS = 3, N_ROUNDS = 30, N = 24 };

static tc_tensor w;
static pthread_barrier_t barrier;

// ones [2, N] times (k of w): its elements are w's times k times N.
static void run(float want, int rows) {
  float got[3 * N];
  tc_scope s = tc_scope_begin();
  tc_tensor y = tc_matmul(tc_ones(TC_SHAPE(rows, N), TC_F32), tc_mul(tc_neg(w), 2));
  EXPECT_OK(tc_to_host(y, got, (size_t)rows * N * sizeof *got));
  EXPECT(got[0] == want && got[rows * N - 1] == want, "%g, should be %g", (double)got[0], (double)want);
  tc_scope_end(s);
}

static void *work(void *arg) {
  int id = *(int *)arg;
  for (int round = 0; round < N_ROUNDS; round++) {
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 4; i++) {
      run(-2.0f * N * (float)(round + 1), 1 + (id + i) % 3);
      if (id == 1 && i == 2) tc_trim();
    }
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

int main(void) {
  pthread_t thread[N_THREADS];
  int id[N_THREADS];
  w = tc_param(tc_zeros(TC_SHAPE(N, N), TC_F32));
  EXPECT_OK(tc_sync(NULL));
  pthread_barrier_init(&barrier, NULL, N_THREADS + 1);
  for (int i = 0; i < N_THREADS; i++) {
    id[i] = i;
    EXPECT(pthread_create(&thread[i], NULL, work, &id[i]) == 0, "no thread");
  }
  for (int round = 0; round < N_ROUNDS; round++) {
    tc_scope s = tc_scope_begin();
    EXPECT_OK(tc_assign(w, tc_add(w, 1)));  // in place, since between rounds nobody else holds the value
    tc_scope_end(s);
    EXPECT_OK(tc_sync(NULL));
    pthread_barrier_wait(&barrier);
    run(-2.0f * N * (float)(round + 1), 2);
    pthread_barrier_wait(&barrier);
  }
  for (int i = 0; i < N_THREADS; i++) pthread_join(thread[i], NULL);
  tc_release(w);
  EXPECT_OK(tc_sync(NULL));
  EXPECT(tc_memory_stats().prepared_bytes == 0, "%zu bytes kept", tc_memory_stats().prepared_bytes);
  return expect_done("prepared");
}
