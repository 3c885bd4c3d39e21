// What a plan on a GPU wants compiled, simulated, is one list, whatever it is for: kernels of
// kernels, of rows, of what is prepared of parameters, and the one that writes the plan's table are
// made beside each other, the longest first; and where one of them cannot be made, assigned tensors
// keep their values, the error names it, and the next plan compiles no more than what was missing.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tc/tc.h>
#include <time.h>

#include "device/gpu.h"
#include "runtime/status.h"
#include "runtime/team.h"
#include "tests/expect.h"
#include "tests/sim/built.h"

enum { MOST = 64, WAIT_SECONDS = 10 };

// What the device was asked to compile, in the order in which it began.
static struct {
  pthread_mutex_t lock;
  pthread_cond_t begun;
  char name[MOST][64];
  size_t length[MOST];  // of its source
  int n, together;  // the first one ends when so many have begun; 0: at once
  bool waited_in_vain;
  const char *broken;  // part of a name; NULL: none is
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER, .begun = PTHREAD_COND_INITIALIZER};

static void await_others(void) {
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += WAIT_SECONDS;
  while (seen.n < seen.together && !seen.waited_in_vain)
    seen.waited_in_vain = pthread_cond_timedwait(&seen.begun, &seen.lock, &end) != 0;
}

tc_status __real_tc_gpu_compile(tc_gpu *g, const char *name, const char *source, tc_gpu_code **out);
tc_status __wrap_tc_gpu_compile(tc_gpu *g, const char *name, const char *source, tc_gpu_code **out);
tc_status __wrap_tc_gpu_compile(tc_gpu *g, const char *name, const char *source, tc_gpu_code **out) {
  pthread_mutex_lock(&seen.lock);
  int i = seen.n++ % MOST;
  snprintf(seen.name[i], sizeof seen.name[i], "%s", name);
  seen.length[i] = strlen(source);
  bool broken = seen.broken && strstr(name, seen.broken);
  pthread_cond_broadcast(&seen.begun);
  if (i == 0) await_others();
  pthread_mutex_unlock(&seen.lock);
  *out = NULL;
  return broken ? TC_FAIL(TC_ERR_COMPILE, "%s is broken", name) : __real_tc_gpu_compile(g, name, source, out);
}

// From now on nothing was compiled: kernels are forgotten, and so is the device with its own.
static void start_again(int together) {
  tc_shutdown();
  EXPECT_OK(tc_set_default_device("tc:cuda"));
  seen.n = 0, seen.together = together;
}

static int find(const char *part) {
  for (int i = 0; i < seen.n && i < MOST; i++)
    if (strstr(seen.name[i], part)) return i;
  return -1;
}

static tc_tensor given(int64_t rows, int64_t columns, float value) {
  static float data[64 * 64];
  for (int64_t i = 0; i < rows * columns; i++) data[i] = value;
  return tc_from_host(data, TC_SHAPE(rows, columns), TC_F32);
}

// One plan: a product with what is prepared of a parameter, a check of indices and what reads by
// them, a running sum, and an assign. How many kernels were compiled for it, and what the assigned
// tensor, 1 before and 2 after it, holds then.
static tc_status work(int *n, float *assigned) {
  tc_scope s = tc_scope_begin();
  const int64_t at[] = {3, 0, 2, 3};
  char message[256] = "";
  float sum = 0;
  tc_tensor w = tc_param(given(64, 48, 0.5f)), x = given(32, 48, 0.25f), count = given(1, 4, 1),
            rows = tc_from_host(at, TC_SHAPE(4), TC_I64);
  int before = seen.n;
  tc_assign(count, tc_add(count, 1));
  tc_tensor y = tc_cumsum(tc_index_select(tc_matmul(x, tc_softmax(tc_transpose(w, 0, 1), 1)), 0, rows), 1);
  tc_status st = tc_item_f32(tc_sum(y, TC_ALL, false), &sum);
  *n = seen.n - before;
  if (st == TC_OK) EXPECT(sum > 1559.9f && sum < 1560.1f, "%g", (double)sum);
  if (st != TC_OK) snprintf(message, sizeof message, "%s", tc_last_error()->message);
  EXPECT(st == TC_OK || strstr(message, "cumsum_across is broken"), "%s", message);
  EXPECT_OK(tc_item_f32(tc_max(count, TC_ALL, false), assigned));
  tc_clear_error();
  tc_scope_end(s);
  return st;
}

static void test_all_are_made_together(int n) {
  int made;
  float assigned;
  start_again(n);
  EXPECT_OK(work(&made, &assigned));
  EXPECT(made == n && assigned == 2, "%d kernels, then %d; %g", n, made, (double)assigned);
  EXPECT(!seen.waited_in_vain, "not beside each other: %d of %d", seen.n, n);
  // The dearest is held up until the other thread has begun all others, one after the other.
  int check = find("tc_row_check"), fill = find("tc_fill_");
  EXPECT(find("cumsum") == 0 && check > 0 && fill > check, "a running sum %d, a check %d, a table %d", find("cumsum"),
         check, fill);
}

static void test_what_fails_changes_nothing(void) {
  int made;
  float assigned;
  start_again(1);
  seen.broken = "cumsum";
  EXPECT(work(&made, &assigned) == TC_ERR_COMPILE, "no error");
  EXPECT(assigned == 1, "%g", (double)assigned);
  seen.broken = NULL;
  EXPECT_OK(work(&made, &assigned));
  EXPECT(made == 1 && assigned == 2, "%d kernels, %g", made, (double)assigned);
}

int main(void) {
  int n;
  float assigned;
  if (!built_simulators()) return printf("skipped: the simulated driver was not built\n"), 77;
  setenv("TC_NUM_THREADS", "2", 1);
  setenv("TC_CACHE_BYTES", "0", 1);
  start_again(1);
  EXPECT_OK(work(&n, &assigned));
  EXPECT(n > 5, "%d kernels", n);
  if (tc_team_threads() > 1) test_all_are_made_together(n);
  test_what_fails_changes_nothing();
  tc_shutdown();
  return expect_done("gpu-compiles");
}
