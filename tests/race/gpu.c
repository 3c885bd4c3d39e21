// Threads on simulated GPUs at once: memory, copies, compiling, one sequence that all run and
// sequences of their own, waiting, and reading at once and later.
#include <pthread.h>
#include <stdlib.h>

#include "device/gpu.h"
#include "runtime/options.h"
#include "runtime/status.h"
#include "tests/expect.h"
#include "tests/sim/built.h"

enum { THREADS = 4, ROUNDS = 12, N = 128 };

static const char source[] =
    "#include \"tc_words.h\"\n"
    "TC_KERNEL(step, 64) {\n"
    "  u64 *x = (u64 *)tc_table[0];\n"
    "  i32 i = TC_BLOCK * 64 + TC_THREAD;\n"
    "  x[i] = x[i] + tc_table[1];\n"
    "}\n";

typedef struct shared {
  tc_gpu *g;
  tc_gpu_sequence *all;  // that every thread runs
  void *sum;
} shared;

static tc_status make(tc_gpu *g, tc_gpu_sequence **s, void **x) {
  static const uint64_t zeros[N];
  tc_gpu_code *c;
  TC_TRY(tc_gpu_alloc(g, sizeof zeros, x));
  TC_TRY(tc_gpu_write(g, *x, zeros, sizeof zeros));
  TC_TRY(tc_gpu_compile(g, "step", source, &c));
  tc_status st = tc_gpu_sequence_create(g, &(tc_gpu_launch){c, N / 64, 64, 0, 0}, 1, 2, s);
  tc_gpu_code_release(c);
  return st;
}

static void *work(void *arg) {
  shared *s = arg;
  for (int round = 0; round < ROUNDS; round++) {
    static _Thread_local uint64_t got[N], later[N];
    tc_gpu_sequence *own = NULL;
    void *x = NULL;
    uint64_t words[2] = {(uint64_t)(uintptr_t)s->sum, 1};
    EXPECT_OK(tc_gpu_sequence_run(s->all, words));
    EXPECT_OK(make(s->g, &own, &x));
    words[0] = (uint64_t)(uintptr_t)x;
    for (int i = 0; i < 3; i++) EXPECT_OK(tc_gpu_sequence_run(own, words));
    tc_gpu_sequence_destroy(own);
    EXPECT_OK(tc_gpu_read_begin(s->g, later, x, sizeof later));
    if (round % 4 == 0) EXPECT_OK(tc_gpu_wait(s->g));
    EXPECT_OK(tc_gpu_read(s->g, got, x, sizeof got));
    EXPECT(got[0] == 3 && got[N - 1] == 3, "%d and %d", (int)got[0], (int)got[N - 1]);
    EXPECT_OK(round % 3 ? tc_gpu_read_end(s->g, later) : tc_gpu_read_end_all(NULL));
    EXPECT(later[0] == 3 && later[N - 1] == 3, "%d and %d", (int)later[0], (int)later[N - 1]);
    EXPECT_OK(tc_gpu_write(s->g, x, got, sizeof got));
    tc_gpu_free(s->g, x);
    EXPECT(!tc_gpu_absent(TC_DEVICE_CUDA) && tc_gpu_sentence(TC_DEVICE_CUDA)[0], "it is gone");
  }
  return NULL;
}

static void *open_first(void *arg) {
  tc_gpu *g;
  EXPECT_OK(tc_gpu_get(tc_device_of_row(TC_DEVICE_CUDA, *(int *)arg % 2), &g));
  return NULL;
}

int main(void) {
  pthread_t thread[THREADS];
  int ordinal[THREADS];
  uint64_t got[N];
  shared s = {0};
  if (!built_simulators()) {
    printf("skipped: the simulated driver is not built\n");
    return 77;
  }
  setenv("TC_CACHE_BYTES", "0", 1);
  setenv("TC_SIM_DEVICES", "2", 1);
  setenv("TC_SIM_MEMORY_MIB", "64", 1);
  tc_options_reload();
  for (int i = 0; i < THREADS; i++) {
    ordinal[i] = i;
    pthread_create(&thread[i], NULL, open_first, &ordinal[i]);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  EXPECT_OK(tc_gpu_get(TC_DEVICE_CUDA, &s.g));
  EXPECT_OK(make(s.g, &s.all, &s.sum));
  for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, work, &s);
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  EXPECT_OK(tc_gpu_read(s.g, got, s.sum, sizeof got));
  EXPECT(got[0] == THREADS * ROUNDS && got[N - 1] == THREADS * ROUNDS, "%d and %d", (int)got[0], (int)got[N - 1]);
  tc_gpu_sequence_destroy(s.all);
  tc_gpu_free(s.g, s.sum);
  tc_shutdown();
  return expect_done("gpu");
}
