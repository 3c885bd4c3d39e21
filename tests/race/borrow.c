// Threads that borrow one memory, the first tensors of the process among it; and memory that its borrower
// gives up, and then writes, while others read it: they see what it held, or a dead tensor.
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "tests/expect.h"

enum { N_THREADS = 4, N = 1 << 20, N_ROUNDS = 30 };

static pthread_barrier_t step;
static double common[64], data[N];
static tc_tensor lent;

static void *borrow_common(void *arg) {
  pthread_barrier_wait(&step);
  for (int i = 0; i < N_ROUNDS; i++) {
    tc_scope s = tc_scope_begin();
    tc_tensor x = tc_borrow(common, TC_SHAPE(64), TC_F64, TC_WRITABLE, NULL, NULL);
    EXPECT(tc_is_assignable(x), "it is another thread's");
    if (i % 2) EXPECT_OK(tc_forget(x));
    tc_scope_end(s);
  }
  return arg;
}

static void *read_lent(void *arg) {
  double *all = malloc(N * sizeof *all);
  for (int round = 0; round < N_ROUNDS; round++) {
    pthread_barrier_wait(&step);
    tc_scope s = tc_scope_begin();
    tc_tensor y = tc_mul(lent, 2), sum = tc_sum(lent, TC_ALL, false);
    double v = 0;
    bool read = tc_item(sum, &v) == TC_OK, got = tc_to_host(y, all, N * sizeof *all) == TC_OK;
    EXPECT(!read || v == (double)N * round, "%g in round %d", v, round);
    EXPECT(!got || (all[0] == 2 * round && all[N - 1] == 2 * round), "%g in round %d", all[0], round);
    if (!read || !got) tc_clear_error();
    tc_scope_end(s);
    (void)!tc_sync(NULL);
    pthread_barrier_wait(&step);
  }
  free(all);
  return arg;
}

static void *lend(void *arg) {
  for (int round = 0; round < N_ROUNDS; round++) {
    tc_scope s = tc_scope_begin();
    for (int i = 0; i < N; i++) data[i] = round;
    lent = tc_borrow(data, TC_SHAPE(N), TC_F64, TC_READ_ONLY, NULL, NULL);
    pthread_barrier_wait(&step);
    (void)nanosleep(&(struct timespec){.tv_nsec = round * 100000}, NULL);
    tc_status st;
    while ((st = tc_forget(lent)) == TC_ERR_STATE) {
    }
    EXPECT_OK(st);
    for (int i = 0; i < N; i++) data[i] = -1;  // a reader that is left would see it
    tc_clear_error();
    pthread_barrier_wait(&step);
    tc_scope_end(s);
  }
  return arg;
}

static void run_threads(void *(*first)(void *), void *(*others)(void *)) {
  pthread_t thread[N_THREADS];
  pthread_barrier_init(&step, NULL, N_THREADS);
  for (int i = 0; i < N_THREADS; i++) pthread_create(&thread[i], NULL, i ? others : first, NULL);
  for (int i = 0; i < N_THREADS; i++) pthread_join(thread[i], NULL);
  pthread_barrier_destroy(&step);
}

int main(void) {
  run_threads(borrow_common, borrow_common);
  run_threads(lend, read_lent);
  return expect_done("borrow");
}
