// Race checks of the plan and kernel caches, a plain program for -fsanitize=thread: threads record,
// sync and share few plans and kernels in caches so small that they evict all the time, while one
// thread clears them, trims memory and reads statistics. Exit code 0: every value was right.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/expect.h"

enum { N_THREADS = 4, N_ROUNDS = 120, N_SHAPES = 7 };

static atomic_bool over;

// Shape and expression by k: threads meet at the same plans at different times.
static void compute(int k) {
  int64_t n = 40 + k % N_SHAPES;
  float v = 0;
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_full(TC_SHAPE(n, 3), k, TC_F32), y = k % 2 ? tc_add(x, 1) : tc_mul(x, 2);
  if (k % 3 == 0) y = tc_sum(y, TC_AXES(1), true);
  EXPECT_OK(tc_item_f32(tc_max(y, TC_ALL, false), &v));
  float want = (float)(k % 2 ? k + 1 : 2 * k) * (k % 3 == 0 ? 3 : 1);
  EXPECT(v == want, "program %d gives %g, should be %g", k, (double)v, (double)want);
  tc_scope_end(s);
}

static void *work(void *arg) {
  int id = *(int *)arg;
  for (int round = 0; round < N_ROUNDS; round++) compute((round * (id + 1)) % 29);
  return NULL;
}

static void *disturb(void *arg) {
  (void)arg;
  for (int k = 0; !atomic_load(&over); k++) {
    if (k % 4 == 0) tc_cache_clear();
    if (k % 4 == 1) tc_trim();
    tc_cache_info info = tc_cache_stats();
    EXPECT(info.n_plans <= 3 && info.n_kernels <= 4, "%zu plans and %zu kernels are kept", info.n_plans,
           info.n_kernels);
    (void)tc_memory_stats();
    compute(k % 11);
    EXPECT_OK(tc_set_num_threads(k % 2 + 1));
  }
  return NULL;
}

int main(void) {
  setenv("TC_PLAN_CACHE", "3", 1);
  setenv("TC_KERNEL_CACHE", "4", 1);
  setenv("TC_PROFILE", "1", 0);
  pthread_t t[N_THREADS], disturber;
  int id[N_THREADS];
  pthread_create(&disturber, NULL, disturb, NULL);
  for (int i = 0; i < N_THREADS; i++) id[i] = i, pthread_create(&t[i], NULL, work, &id[i]);
  for (int i = 0; i < N_THREADS; i++) pthread_join(t[i], NULL);
  atomic_store(&over, true);
  pthread_join(disturber, NULL);
  tc_cache_info all = tc_cache_stats();  // a plan bound to its sizes was not in the cache either
  EXPECT(all.plan_misses + all.plan_bound > (uint64_t)N_THREADS * 3, "nothing was evicted");
  return expect_done("caches");
}
