// Threads with different regions, for -fsanitize=thread: each has its own options, plans and
// values; pending tensors of one are read by another, whose options they are not; another thread
// sets the process's options and forgets all plans meanwhile.
#include <pthread.h>
#include <stdatomic.h>

#include "runtime/options.h"
#include "tests/expect.h"

enum { THREADS = 4, ROUNDS = 60, N = 256 };
static atomic_bool ends;
static _Atomic uint64_t shared[THREADS];  // a handle that its thread has pending; 0: none

static const char *const options[THREADS] = {"strict=1", "strict=0,max_nodes=100", "disable=1", "backend=interp"};

static uint64_t word_of(tc_tensor t) {
  return (uint64_t)t.gen << 32 | t.slot;
}

static void *work(void *arg) {
  int me = *(int *)arg;
  for (int i = 0; i < ROUNDS; i++) {
    tc_scope s = tc_scope_begin();
    EXPECT_OK(tc_region_begin(&(tc_region_options){.name = "outer", .options = options[me]}));
    EXPECT(tc_options_get()->strict == (me == 0), "another thread's options");
    tc_tensor x = tc_full(TC_SHAPE(N), i % 7, TC_F32), y = tc_retain(tc_sub(tc_mul(x, 2), x));
    uint64_t old = atomic_exchange(&shared[me], word_of(y)), theirs = atomic_exchange(&shared[(me + 1) % THREADS], 0);
    tc_tensor mine = {(uint32_t)old, (uint32_t)(old >> 32)}, read = {(uint32_t)theirs, (uint32_t)(theirs >> 32)};
    float v = 0;
    EXPECT_OK(tc_region_begin(&(tc_region_options){.mode = i % 2 ? "reduce-overhead" : "default"}));
    EXPECT_OK(tc_item(tc_sum(tc_exp(tc_mul(x, 0)), TC_ALL, false), &v));
    EXPECT(v == N, "%g", (double)v);
    tc_region_end();
    if (theirs) {
      EXPECT_OK(tc_item(tc_sum(read, TC_ALL, false), &v));
      EXPECT(v >= 0 && v <= 6.0f * N && (int)v % N == 0, "%g", (double)v);
      tc_release(read);
    }
    if (old) tc_release(mine);
    tc_region_end();
    tc_scope_end(s);
  }
  return NULL;
}

static void *set(void *arg) {
  (void)arg;
  for (int i = 0; !atomic_load(&ends); i++) {
    EXPECT_OK(tc_set_options(&(tc_region_options){.options = i % 2 ? "plan_cache=4" : "plan_cache=64"}));
    if (i % 8 == 0) EXPECT_OK(tc_reset());
  }
  return NULL;
}

int main(void) {
  pthread_t thread[THREADS], setter;
  int id[THREADS];
  EXPECT(pthread_create(&setter, NULL, set, NULL) == 0, "no thread");
  for (int i = 0; i < THREADS; i++) {
    id[i] = i;
    EXPECT(pthread_create(&thread[i], NULL, work, &id[i]) == 0, "no thread");
  }
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  atomic_store(&ends, true);
  pthread_join(setter, NULL);
  for (int i = 0; i < THREADS; i++) {
    uint64_t left = atomic_load(&shared[i]);
    if (left) tc_release((tc_tensor){(uint32_t)left, (uint32_t)(left >> 32)});
  }
  return expect_done("race-regions");
}
