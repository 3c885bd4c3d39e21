// Six threads multiply at once, alone and by the team: each gets the bits that one thread gets.
#include <pthread.h>
#include <stdlib.h>
#include <tc/blas.h>

#include "tests/expect.h"

enum { N_THREADS = 6, N_SHAPES = 5, N_ROUNDS = 12 };
static const int64_t sizes[N_SHAPES] = {5, 64, 130, 170, 250};
static float *operand, *want[N_SHAPES];

static tc_gemm_call product(int shape, float *c, int threads) {
  int64_t n = sizes[shape];
  return (tc_gemm_call){.type = TC_F32,
                        .transa = shape % 2,
                        .m = n,
                        .n = n,
                        .k = n,
                        .alpha = 1,
                        .a = operand,
                        .lda = n,
                        .b = operand + 1,
                        .ldb = n,
                        .beta = 0,
                        .c = c,
                        .ldc = n,
                        .max_threads = threads};
}

static void *multiply(void *arg) {
  int me = (int)(intptr_t)arg;
  float *c = malloc(250 * 250 * sizeof *c);
  for (int i = 0; i < N_ROUNDS; i++) {
    int shape = (i + me) % N_SHAPES;
    tc_gemm_call g = product(shape, c, i % 3);
    EXPECT_OK(tc_gemm(&g));
    EXPECT(memcmp(c, want[shape], (size_t)(g.m * g.n) * sizeof *c) == 0, "thread %d, size %d", me, (int)g.n);
  }
  free(c);
  return NULL;
}

int main(void) {
  pthread_t thread[N_THREADS];
  operand = malloc((250 * 250 + 1) * sizeof *operand);
  for (int i = 0; i <= 250 * 250; i++) operand[i] = (float)(i * 37 % 101 - 50) / 17;
  (void)tc_set_num_threads(2);
  for (int s = 0; s < N_SHAPES; s++) {
    want[s] = malloc((size_t)(sizes[s] * sizes[s]) * sizeof(float));
    tc_gemm_call g = product(s, want[s], 1);
    EXPECT_OK(tc_gemm(&g));
  }
  for (int i = 0; i < N_THREADS; i++)
    EXPECT(pthread_create(&thread[i], NULL, multiply, (void *)(intptr_t)i) == 0, "no thread");
  for (int i = 0; i < N_THREADS; i++) pthread_join(thread[i], NULL);
  for (int s = 0; s < N_SHAPES; s++) free(want[s]);
  free(operand);
  tc_shutdown();
  return expect_done("gemm");
}
