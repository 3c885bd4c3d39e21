// Every allocation of the library fails in turn, once and then for good, in the making of a model and two steps of its training: the call says
// TC_ERR_MEMORY, nothing crashes, a parameter keeps a usable value, and afterwards a fresh model trains to the same bits. Run under ASan for leaks.
// Linked with the static library: it needs runtime/arena.h. Interpreted every allocation, compiled a sample: a compile takes a hundred times as long.
//   alloc_fail [device = tc:cpu]
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/arena.h"
#include "tests/plain/expect.h"
#include "tests/plain/mlp.h"

// The losses of two steps of a fresh model; the first failure.
static tc_status train(float loss[2]) {
  mlp m = {0};
  tc_status st = mlp_init(&m, 3);
  for (int k = 0; k < 2 && st == TC_OK; k++) st = mlp_step(&m, &loss[k]);
  mlp_fini(&m);
  return st;
}

// A failure while a step of a living model runs: the model goes on, its parameters finite.
static void expect_model_survives(long n, bool sticky) {
  mlp m = {0};
  float loss;
  EXPECT_OK(mlp_init(&m, 5));
  EXPECT_OK(mlp_step(&m, &loss));
  tc_alloc_fail_at(n, sticky);
  tc_status st = mlp_step(&m, &loss);
  tc_alloc_fail_at(0, 0);
  EXPECT(st == TC_OK || st == TC_ERR_MEMORY, "allocation %ld: %s", n, tc_status_text(st));
  tc_clear_error();
  float w[8 * 32];
  EXPECT(tc_to_host(m.params[0], w, sizeof w) == TC_OK, "after allocation %ld a parameter is lost", n);
  bool finite = true;
  for (int i = 0; i < 8 * 32; i++) finite = finite && isfinite(w[i]);
  EXPECT(finite, "after allocation %ld a parameter is damaged", n);
  EXPECT_OK(tc_zero_grad(m.opt));
  EXPECT(mlp_step(&m, &loss) == TC_OK && isfinite(loss), "after allocation %ld the model does not train", n);
  mlp_fini(&m);
}

static void count_released(void *n_released) {
  ++*(int *)n_released;
}

// Memory that could not be borrowed is not released: it is still the caller's. The process is fresh, so recording allocates.
static void borrow_or_leave(void) {
  float data[4] = {0};
  int n_released = 0, n_failed = 0;
  tc_tensor t = {0, 0};
  tc_scope scope = {0, 0};
  for (long n = 1; n < 100 && !tc_is_valid(t); n++) {
    scope = tc_scope_begin();
    tc_alloc_fail_at(n, false);
    t = tc_borrow(data, TC_SHAPE(4), TC_F32, TC_READ_ONLY, count_released, &n_released);
    tc_alloc_fail_at(0, 0);
    if (tc_is_valid(t)) break;
    tc_scope_end(scope);
    n_failed++;
  }
  tc_clear_error();
  EXPECT(n_failed > 3 && n_released == 0, "%d borrows failed, %d released", n_failed, n_released);
  tc_scope_end(scope);
  EXPECT_OK(tc_sync(NULL));
  EXPECT(n_released == 1, "%d released", n_released);
}

static int fail_each(const char *device, const char *compiler, long stride) {
  float want[2], got[2];
  setenv("TC_COMPILER", compiler, 1);
  borrow_or_leave();
  EXPECT_OK(tc_set_default_device(device));
  long n_failed_calls = 0;
  for (int sticky = 0; sticky < 2; sticky++) {
    // Cold: caches are empty, so planning and compiling allocate too.
    tc_shutdown();
    EXPECT_OK(tc_set_default_device(device));
    tc_alloc_fail_at(0, 0);
    EXPECT_OK(train(want));
    long total = tc_alloc_fail_at(0, 0);
    EXPECT(total > 0, "tc_alloc_fail_at counts nothing");
    for (long n = 1; n <= total; n += stride) {
      tc_cache_clear();
      tc_trim();
      tc_clear_error();
      tc_alloc_fail_at(n, sticky);
      tc_status st = train(got);
      tc_alloc_fail_at(0, 0);
      // A failed cache entry or profile record may be done without: TC_OK with the right losses is as good.
      EXPECT(st == TC_ERR_MEMORY || (st == TC_OK && memcmp(got, want, sizeof got) == 0), "allocation %ld of %ld: %s", n, total, tc_status_text(st));
      n_failed_calls += st != TC_OK;
      tc_clear_error();
      EXPECT(train(got) == TC_OK && memcmp(got, want, sizeof got) == 0, "after allocation %ld of %ld: losses %g %g, should be %g %g", n, total,
             (double)got[0], (double)got[1], (double)want[0], (double)want[1]);
    }
    for (long n = 1; n <= 60; n += stride) expect_model_survives(n, sticky);
  }
  EXPECT(n_failed_calls > 0, "no allocation failed");
  tc_shutdown();
  return expect_done(compiler);
}

// A process each: the compiler is chosen once. They end by exit, so that leaks are looked for.
int main(int n_words, char **words) {
  const char *device = n_words > 1 ? words[1] : "tc:cpu";
  int n_failed = 0;
  for (int compiled = 0; compiled < 2; compiled++) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) exit(compiled ? fail_each(device, "llvm", 17) : fail_each(device, "interp", 1));
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child, "no child");
    n_failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  EXPECT(n_failed == 0, "%d of 2 compilers failed", n_failed);
  return expect_done("alloc_fail");
}
