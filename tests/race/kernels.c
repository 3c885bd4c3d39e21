// Kernels made together, a plain program for -fsanitize=thread as well: a list of kernels gives the
// kernels that they give one by one, equal ones once; of several that cannot be compiled the first
// one's error is told, and nothing is left; threads that ask for the same lists at once, while
// others clear the cache, all get what computes the right values, shape-generic kernels too; so do those
// whose kernels come from disk.
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "lowering/jit/compiler.h"
#include "lowering/jit/kernel_cache.h"
#include "runtime/options.h"
#include "runtime/team.h"
#include "tests/lowering/kir_build.h"
#include "tests/expect.h"
#include "tests/files/files.h"

enum { N_KERNELS = 24, N_DISTINCT = 17, N_THREADS = 3, N_ROUNDS = 4 };

// Stores a number everywhere; kind -1: takes the remainder of two, for which there is no code.
static void build(tc_kir *n, int kind) {
  *n = (tc_kir){0};
  float value = (float)kind;
  int32_t bits;
  memcpy(&bits, &value, sizeof bits);
  put_buffer(n, TC_F32);
  uint32_t b = OP0(n, BEGIN, TC_I64, 1, 0), e = OP0(n, FINISH, TC_I64, 1, 0), i = OP2(n, LOOP, TC_I64, 1, 1, b, e),
           v = OP0(n, CONST, TC_F32, 1, bits);
  if (kind < 0) v = OP2(n, REM, TC_F32, 1, 0, v, v);
  for (int k = 0; k < kind % 5; k++) v = OP2(n, MIN, TC_F32, 1, 0, v, v);  // of several lengths
  OP2(n, STORE, TC_F32, 1, 0, i, v);
  OP0(n, ENDLOOP, TC_BOOL, 1, 0);
}

typedef struct list {
  tc_kir kir[N_KERNELS];
  tc_kernel_request request[N_KERNELS];
  char stem[N_KERNELS][16];
} list;

// place: see tc_kernel_request.
static void list_make(list *l, uint64_t place) {
  for (int i = 0; i < N_KERNELS; i++) {
    build(&l->kir[i], i % N_DISTINCT);
    snprintf(l->stem[i], sizeof l->stem[i], "kind%d", i % N_DISTINCT);
    // too much to be interpreted first
    l->request[i] = (tc_kernel_request){.kir = &l->kir[i], .stem = l->stem[i], .site = place, .work = INFINITY};
  }
}

static void list_release(list *l) {
  for (int i = 0; i < N_KERNELS; i++) {
    tc_kernel_release(l->request[i].kernel);
    tc_kir_destroy(&l->kir[i]);
  }
}

static void expect_right(const list *l) {
  for (int i = 0; i < N_KERNELS; i++) {
    tc_kernel *k = l->request[i].kernel;
    float out[3] = {-1, -1, -1};
    void *scratch = calloc(1, k ? k->scratch_bytes + 64 : 1);
    tc_worker w = {.scratch = (void *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63), .n = 1};
    if (k) atomic_load (&k->fn)(k->ctx, (void *[]){out}, NULL, 0, 2, &w);
    EXPECT(out[0] == (float)(i % N_DISTINCT) && out[1] == out[0] && out[2] == -1, "kernel %d stores %g", i,
           (double)out[0]);
    free(scratch);
  }
}

static void equal_ones_are_one(void) {
  static list l;
  uint32_t compiled = 0, again = 0;
  list_make(&l, 0);
  tc_kernel_cache_clear();
  EXPECT_OK(tc_kernel_get_all(l.request, N_KERNELS, NULL, &compiled));
  EXPECT(compiled == N_DISTINCT, "%u compiled", compiled);
  expect_right(&l);
  for (int i = N_DISTINCT; i < N_KERNELS; i++)
    EXPECT(l.request[i].kernel == l.request[i - N_DISTINCT].kernel, "kernel %d has a kernel of its own", i);
  for (int i = 0; i < N_KERNELS; i++) {
    tc_kernel *k;
    EXPECT_OK(tc_kernel_get(&l.kir[i], l.stem[i], NULL, &k, &again));
    EXPECT(k == l.request[i].kernel, "kernel %d alone has another kernel", i);
    tc_kernel_release(k);
  }
  EXPECT(again == 0, "%u compiled again", again);
  list_release(&l);
}

static void first_error_is_told(void) {
  static list l;
  static const int bad[] = {5, 11, 20};
  uint32_t compiled = 0;
  list_make(&l, 0);
  tc_kernel_cache_clear();
  tc_cache_info before = {0}, after = {0};
  tc_kernel_stats(&before);
  for (int i = 0; i < 3; i++) {
    tc_kir_destroy(&l.kir[bad[i]]);
    build(&l.kir[bad[i]], -1 - i);
    snprintf(l.stem[bad[i]], sizeof l.stem[0], "bad%d", bad[i]);
  }
  tc_clear_error();
  EXPECT(tc_kernel_get_all(l.request, N_KERNELS, NULL, &compiled) == TC_ERR_COMPILE, "no error");
  const char *text = tc_last_error()->message;
  EXPECT(strstr(text, "tc_bad5_") && strstr(text, "rem"), "not the first one's error");
  for (int i = 0; i < N_KERNELS; i++) EXPECT(!l.request[i].kernel, "kernel %d has a kernel", i);
  tc_kernel_stats(&after);
  EXPECT(after.compiles - before.compiles == compiled, "%u compiled", compiled);
  tc_clear_error();
  list_release(&l);
}

static void *ask(void *arg) {
  list *l = calloc(1, sizeof *l);
  for (int round = 0; round < N_ROUNDS && l; round++) {
    uint32_t compiled = 0;
    list_make(l, (uint64_t)round % 2);  // every other time those of a length are a family
    EXPECT_OK(tc_kernel_get_all(l->request, N_KERNELS, NULL, &compiled));
    expect_right(l);
    list_release(l);
    if (arg) tc_kernel_cache_clear();
  }
  free(l);
  return NULL;
}

static void threads_ask_at_once(void) {
  pthread_t t[N_THREADS];
  tc_kernel_cache_clear();
  for (int i = 0; i < N_THREADS; i++) EXPECT(pthread_create(&t[i], NULL, ask, i == 0 ? t : NULL) == 0, "no thread");
  for (int i = 0; i < N_THREADS; i++) pthread_join(t[i], NULL);
}

int main(void) {
  setenv("TC_NUM_THREADS", "2", 0);
  setenv("TC_CACHE_BYTES", "0", 1);
  bool compiles = strncmp(tc_compiler_sentence(), "LLVM", 4) == 0;
  equal_ones_are_one();
  if (compiles) first_error_is_told();
  threads_ask_at_once();
  setenv("TC_CACHE_DIR", files_path("kept"), 1);
  unsetenv("TC_CACHE_BYTES");
  tc_options_reload();
  threads_ask_at_once();
  uint64_t n = 0;
  for (int round = 0; round < 2; round++) {
    tc_cache_info info = {0};
    tc_kernel_stats(&info);
    EXPECT(round == 0 || !compiles || info.compiles == n, "%d compiled though they are on disk",
           (int)(info.compiles - n));
    n = info.compiles;
    threads_ask_at_once();
  }
  (void)files_fini();
  tc_team_stop();
  return expect_done("kernels");
}
