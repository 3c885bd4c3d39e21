// Kernels that are interpreted first and compiled meanwhile: results have the same bits before and
// after, what would be interpreted for long is compiled at once, and a process may end, fork, clear
// its caches and run other threads at any moment of it.
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/child.h"
#include "tests/expect.h"

enum { N = 3000, N_EXITS = 24, N_FORKS = 6, N_CLEARS = 6, N_THREADS = 3 };
#define MOST_NS 20e9  // until a kernel is compiled, on a machine that does other things too

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

// A run of two kernels, of which kind has others.
static uint32_t run(int kind) {
  float v = 0;
  uint32_t bits;
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_arange(0, N, 1, TC_F32);
  EXPECT_OK(tc_item_f32(tc_sum(tc_sin(tc_mul(x, kind % 2 ? tc_cos(x) : tc_exp(tc_neg(x)))), TC_ALL, false), &v));
  tc_scope_end(scope);
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

static const char *tier(void) {
  tc_sync_point p;
  return tc_sync_points(1, &p) == 1 ? p.tier : "none";
}

// Runs until it is all compiled code; false: that took too long, or another value came.
static bool runs_until_compiled(int kind, uint32_t want) {
  double start = now_ns();
  do {
    if (run(kind) != want) return false;
    if (strcmp(tier(), "llvm") == 0) return run(kind) == want;
  } while (now_ns() - start < MOST_NS);
  return false;
}

static void bits_stay_the_same(void) {
  uint32_t want = run(0);
  EXPECT(strcmp(tier(), "interp") == 0, "the first run is %s", tier());
  uint64_t compiles = tc_cache_stats().compiles;
  EXPECT(runs_until_compiled(0, want), "tier %s", tier());
  EXPECT(tc_cache_stats().compiles == compiles, "kernels were counted twice");
}

static void what_takes_long_is_compiled_at_once(void) {
  float v = 0;
  tc_scope scope = tc_scope_begin();
  tc_tensor a = tc_div(tc_full(TC_SHAPE(768, 768), 1, TC_F32), tc_full(TC_SHAPE(768), 2, TC_F32)),
            b = tc_mul(a, tc_full(TC_SHAPE(768), 4, TC_F32));
  EXPECT_OK(tc_eval(2, (tc_tensor[]){a, b}));
  tc_tensor c = tc_matmul(a, b);
  EXPECT_OK(tc_eval(1, &c));
  EXPECT(strcmp(tier(), "llvm") == 0, "a product of 768 rows is %s", tier());
  EXPECT_OK(tc_item_f32(tc_mean(c, TC_ALL, false), &v));
  EXPECT(v == 768, "%g", (double)v);
  tc_scope_end(scope);
}

// Ends after so many milliseconds of runs, wherever the compiler is then.
static int run_for(const void *arg) {
  double start = now_ns(), ns = 1e6 * *(const int *)arg;
  uint32_t want = run(1);
  for (int kind = 0; now_ns() - start < ns; kind++) (void)run(kind);
  EXPECT(run(1) == want, "another value");
  return child_failed();
}

static void a_process_may_end_at_any_moment(void) {
  for (int i = 0; i < N_EXITS; i++) {
    int ms = 4 + 4 * i;
    EXPECT(child_status(run_for, &ms) == 0, "a process that ends after %d ms", ms);
  }
}

static int first_run_is_compiled(const void *arg) {
  (void)arg;
  setenv("TC_INTERPRET_FIRST", "0", 1);
  (void)run(0);
  EXPECT(strcmp(tier(), "llvm") == 0, "tier %s", tier());
  return child_failed();
}

static void children_compile_what_is_left(uint32_t want) {
  for (int i = 0; i < N_FORKS; i++) {
    tc_cache_clear();
    for (int k = 0; k < 20 * i; k++) EXPECT(run(0) == want, "another value");
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      _exit(!runs_until_compiled(0, want));
    }
    int status = -1;
    EXPECT(runs_until_compiled(0, want), "the parent's kernels are not compiled");
    EXPECT(waitpid(child, &status, 0) == child && status == 0, "child %d ended with %d", i, status);
  }
}

static void caches_may_be_cleared(uint32_t want) {
  for (int i = 0; i < N_CLEARS; i++) {
    for (int k = 0; k < 40 * i; k++) EXPECT(run(0) == want, "another value");
    if (i % 2)
      tc_cache_clear();
    else
      tc_shutdown();
  }
  EXPECT(runs_until_compiled(0, want), "not compiled after caches were cleared");
}

static uint32_t value[2];

static void *run_both(void *arg) {
  (void)arg;
  for (int kind = 0; kind < 2; kind++) EXPECT(runs_until_compiled(kind, value[kind]), "kind %d of a thread", kind);
  return NULL;
}

static void threads_share_kernels(void) {
  pthread_t t[N_THREADS];
  tc_cache_clear();
  for (int kind = 0; kind < 2; kind++) value[kind] = run(kind);
  for (int i = 0; i < N_THREADS; i++) EXPECT(pthread_create(&t[i], NULL, run_both, NULL) == 0, "no thread");
  for (int i = 0; i < N_THREADS; i++) pthread_join(t[i], NULL);
}

static int has_compiler(const void *arg) {
  (void)arg;
  setenv("TC_INTERPRET_FIRST", "0", 1);
  (void)run(0);
  return strcmp(tier(), "llvm") == 0;
}

int main(void) {
  setenv("TC_INTERPRET_FIRST", "1", 1);
  if (child_status(has_compiler, NULL) != 1) {
    puts("skipped: there is no compiler, kernels are interpreted");
    return 77;
  }
  a_process_may_end_at_any_moment();
  EXPECT(child_status(first_run_is_compiled, NULL) == 0, "TC_INTERPRET_FIRST=0");
  bits_stay_the_same();
  what_takes_long_is_compiled_at_once();
  uint32_t want = run(0);
  children_compile_what_is_left(want);
  caches_may_be_cleared(want);
  threads_share_kernels();
  tc_shutdown();
  return expect_done("planning-tier_up");
}
