// Six threads solve and update at once, alone and by the team: each gets the bits that one thread
// gets.
#include <pthread.h>
#include <stdlib.h>
#include <tc/blas.h>

#include "tests/expect.h"

enum { N_THREADS = 6, N_SIZES = 4, N_ROUTINES = 5, N_ROUNDS = 10, LONGEST = 190 };
static const int64_t sizes[N_SIZES] = {5, 64, 130, LONGEST};
static tc_status (*const routines[N_ROUTINES])(const tc_blas3_call *) = {tc_trsm, tc_trmm, tc_symm, tc_syrk, tc_syr2k};
static float *operand, *want[N_SIZES][N_ROUTINES];

// Runs one call on a fresh c.
static void run(int size, int routine, float *c, int threads) {
  int64_t n = sizes[size];
  tc_blas3_call g = {.type = TC_F32, .trans = size % 2, .diag = TC_UNIT, .m = n, .n = n, .k = n, .alpha = 0.5};
  g.a = operand;
  g.lda = n;
  g.b = operand + 1;
  g.ldb = n;
  g.beta = 1;
  g.c = c;
  g.ldc = n;
  g.max_threads = threads;
  memcpy(c, operand, (size_t)(n * n) * sizeof *c);
  EXPECT_OK(routines[routine](&g));
}

static void *run_all(void *arg) {
  int me = (int)(intptr_t)arg;
  float *c = malloc(LONGEST * LONGEST * sizeof *c);
  for (int i = 0; i < N_ROUNDS; i++) {
    int size = (i + me) % N_SIZES, routine = (i * 3 + me) % N_ROUTINES;
    run(size, routine, c, i % 3);
    EXPECT(memcmp(c, want[size][routine], (size_t)(sizes[size] * sizes[size]) * sizeof *c) == 0,
           "thread %d, size %d, routine %d", me, (int)sizes[size], routine);
  }
  free(c);
  return NULL;
}

int main(void) {
  pthread_t thread[N_THREADS];
  operand = malloc((LONGEST * LONGEST + 1) * sizeof *operand);
  for (int i = 0; i <= LONGEST * LONGEST; i++) operand[i] = (float)(i * 37 % 101 - 50) / 5000;
  (void)tc_set_num_threads(2);
  for (int s = 0; s < N_SIZES; s++)
    for (int r = 0; r < N_ROUTINES; r++) {
      want[s][r] = malloc((size_t)(sizes[s] * sizes[s]) * sizeof(float));
      run(s, r, want[s][r], 1);
    }
  for (int i = 0; i < N_THREADS; i++)
    EXPECT(pthread_create(&thread[i], NULL, run_all, (void *)(intptr_t)i) == 0, "no thread");
  for (int i = 0; i < N_THREADS; i++) pthread_join(thread[i], NULL);
  for (int s = 0; s < N_SIZES; s++)
    for (int r = 0; r < N_ROUTINES; r++) free(want[s][r]);
  free(operand);
  tc_shutdown();
  return expect_done("race-level3");
}
