// Calls inside a call of the same thread, by a signal handler or a callback, are TC_ERR_STATE, for
// every public function that takes a lock; nothing hangs, and the interrupted computation has the
// bits of an undisturbed one.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/child.h"
#include "tests/expect.h"
#include "tests/mlp.h"

enum { N_STEPS = 400 };

static tc_tensor known;  // retained, stored
static tc_optimizer *idle;
static int n_refused, n_done;

static void is_refused(const char *what) {
  EXPECT(tc_last_error()->status == TC_ERR_STATE, "%s inside a call", what);
  tc_clear_error();
  n_refused++;
}

#define REFUSED(call) (tc_clear_error(), (void)(call), is_refused(#call))
#define REFUSED_STATUS(call) \
  do { \
    tc_clear_error(); \
    EXPECT((call) != TC_OK, "its status"); \
    is_refused(#call); \
  } while (0)

// While this thread is inside a call.
static void call_everything(void *arg) {
  float v, four[4];
  bool same;
  (void)arg;
  REFUSED(tc_add(known, 1));
  REFUSED(tc_zeros(TC_SHAPE(2), TC_F32));
  REFUSED(tc_from_host(four, TC_SHAPE(4), TC_F32));
  REFUSED(tc_borrow(four, TC_SHAPE(4), TC_F32, TC_READ_ONLY, NULL, NULL));
  REFUSED(tc_cat(1, &known, 0));
  REFUSED_STATUS(tc_item_f32(known, &v));
  REFUSED_STATUS(tc_to_host(known, four, sizeof four));
  REFUSED(tc_map(known));
  REFUSED_STATUS(tc_unmap(known));
  REFUSED_STATUS(tc_eval(1, &known));
  REFUSED_STATUS(tc_sync(NULL));
  REFUSED_STATUS(tc_print(known));
  REFUSED_STATUS(tc_allclose(known, known, 0, 0, &same));
  REFUSED(tc_nonzero(known));
  REFUSED(tc_shape(known));
  REFUSED(tc_dtype(known));
  REFUSED(tc_numel(known));
  REFUSED(tc_device_of(known));
  REFUSED(tc_is_valid(known));
  REFUSED(tc_keep(known));
  REFUSED(tc_retain(known));
  REFUSED(tc_release(known));
  tc_scope none;
  REFUSED(none = tc_scope_begin());
  EXPECT(none.depth == 0, "a scope inside a call");
  tc_scope_end(none);
  REFUSED_STATUS(tc_assign(known, known));
  REFUSED(tc_param(known));
  REFUSED_STATUS(tc_set_requires_grad(known, true));
  REFUSED(tc_requires_grad(known));
  REFUSED_STATUS(tc_backward(known));
  REFUSED(tc_grad(known));
  REFUSED_STATUS(tc_zero_grad_of(1, &known));
  REFUSED_STATUS(tc_optimizer_step(idle));
  REFUSED_STATUS(tc_zero_grad(idle));
  REFUSED(tc_clip_grad_norm(&known, 1, 1));
  REFUSED(tc_no_grad_begin());
  REFUSED(tc_no_grad_end());
  REFUSED(tc_seed(1));
  REFUSED(tc_get_rng_state());
  REFUSED_STATUS(tc_set_rng_state((tc_rng_state){0}));
  const void *data;
  void *share;
  REFUSED_STATUS(tc_map_shared(known, &data, &share));
  EXPECT(data == NULL && share == NULL, "something was lent inside a call");
  REFUSED(tc_cache_stats());
  REFUSED(tc_cache_clear());
  REFUSED(tc_memory_stats());
  REFUSED_STATUS(tc_set_memory_cap(0));
  REFUSED_STATUS(tc_set_num_threads(1));
  REFUSED(tc_trim());
  REFUSED(tc_set_log(NULL, NULL));
  REFUSED(tc_shutdown());
  n_done++;
}

static void callbacks_cannot_call(void) {
  float memory[4] = {1, 2, 3, 4}, v = 0;
  tc_scope s = tc_scope_begin();
  (void)tc_borrow(memory, TC_SHAPE(4), TC_F32, TC_READ_ONLY, call_everything, NULL);
  tc_scope_end(s);  // calls it
  EXPECT_OK(tc_sync(NULL));
  EXPECT(n_done == 1, "the callback ran %d times", n_done);
  EXPECT_OK(tc_item_f32(tc_sum(known, TC_ALL, false), &v));  // the library goes on
  EXPECT(v == 10, "after a callback: %g", (double)v);
}

// ---- Signals at any time ----

static volatile sig_atomic_t n_signals, n_inside, n_outside, n_wrong;

// Inside a call everything here is an error; between calls it works.
static void on_signal(int number) {
  float v = 0;
  (void)number;
  n_signals++;
  tc_clear_error();
  tc_scope s = tc_scope_begin();
  if (tc_last_error()->status == TC_ERR_STATE) {
    n_inside++;
    n_wrong += tc_item_f32(known, &v) != TC_ERR_STATE || tc_shape(known).rank != -1 || tc_is_valid(known);
    tc_tensor poison = tc_add(known, 1);
    n_wrong += poison.slot < 0xFFFFFF00u;
    tc_release(known), tc_scope_end(s), tc_cache_clear(), tc_trim();
    (void)tc_memory_stats(), (void)tc_cache_stats();
  } else {
    n_outside++;
    n_wrong += tc_item_f32(tc_sum(tc_add(known, 1), TC_ALL, false), &v) != TC_OK || v != 14;
    tc_scope_end(s);
  }
  tc_clear_error();
}

static void train(float *loss, bool *all_ok) {
  mlp m;
  EXPECT_OK(mlp_init(&m, 9));
  struct itimerval often = {{0, 300}, {0, 300}}, off = {{0, 0}, {0, 0}};
  if (all_ok) setitimer(ITIMER_REAL, &often, NULL);
  bool ok = true;
  for (int k = 0; k < N_STEPS; k++) {
    ok = mlp_step(&m, &loss[k]) == TC_OK && ok;
    if (k % 50 == 0) tc_cache_clear();
  }
  setitimer(ITIMER_REAL, &off, NULL);
  if (all_ok) *all_ok = ok;
  mlp_fini(&m);
}

static void signals_cannot_disturb(void) {
  static float quiet[N_STEPS], disturbed[N_STEPS];
  bool ok = false;
  float v;
  train(quiet, NULL);
  EXPECT_OK(tc_item_f32(tc_sum(tc_add(known, 1), TC_ALL, false), &v));
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  train(disturbed, &ok);
  signal(SIGALRM, SIG_DFL);
  EXPECT(ok, "a step failed under signals");
  EXPECT(memcmp(quiet, disturbed, sizeof quiet) == 0, "signals change the losses");
  EXPECT(n_wrong == 0, "%d calls in a handler went wrong", (int)n_wrong);
  EXPECT(n_inside > 10, "of %d signals only %d came inside a call", (int)n_signals, (int)n_inside);
  EXPECT(tc_is_valid(known), "a refused release released");
}

// ---- A process that ends inside a call ----

enum { STATUS = 7, PATIENCE = 20 };  // seconds

static void leave(void *arg) {
  (void)arg;
  exit(STATUS);
}

static void leave_in_child(void *arg) {
  int status = -1;
  pid_t child = fork();
  if (child == 0) alarm(PATIENCE), leave(arg);
  _exit(waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static int leave_inside(const void *by_child) {
  static float memory[4];
  float v = 0;
  alarm(PATIENCE);
  tc_scope s = tc_scope_begin();
  tc_tensor kept = tc_retain(tc_full(TC_SHAPE(64, 64), 1, TC_F32)),
            lent = tc_borrow(memory, TC_SHAPE(4), TC_F32, 0, by_child ? leave_in_child : leave, NULL);
  EXPECT_OK(tc_item_f32(tc_add(tc_sum(tc_matmul(kept, kept), TC_ALL, false), tc_sum(lent, TC_ALL, false)), &v));
  tc_scope_end(s);
  EXPECT_OK(tc_sync(NULL));
  return 1;  // nobody called back
}

static tc_tensor read_meanwhile;

static void *read_on(void *nothing) {
  static float all[1 << 16];
  for (;;)
    if (tc_to_host(read_meanwhile, all, sizeof all) != TC_OK) tc_clear_error();
  return nothing;
}

// Another thread, which has made nothing, reads a tensor of the one that ends the process.
static int leave_beside_a_reader(const void *nothing) {
  pthread_t t;
  (void)nothing;
  alarm(PATIENCE);
  read_meanwhile = tc_full(TC_SHAPE(1 << 16), 1, TC_F32);
  EXPECT_OK(tc_eval(1, &read_meanwhile));
  pthread_create(&t, NULL, read_on, NULL);
  usleep(2000);
  return STATUS;
}

static void a_process_may_end_inside_a_call(void) {
  static const bool yes = true;
  EXPECT(child_status(leave_inside, NULL) == STATUS, "a callback's exit does not end the process");
  EXPECT(child_status(leave_inside, &yes) == STATUS, "nor that of a child forked in a callback");
  for (int i = 0; i < 20; i++)
    EXPECT(child_status(leave_beside_a_reader, NULL) == STATUS, "an exit beside a thread that reads");
}

int main(void) {
  a_process_may_end_inside_a_call();
  tc_tensor one = tc_param(tc_from_host((const float[]){1, 2, 3, 4}, TC_SHAPE(4), TC_F32));
  idle = tc_sgd(&one, 1, (tc_sgd_options){.lr = 0.1});
  known = tc_retain(tc_from_host((const float[]){1, 2, 3, 4}, TC_SHAPE(4), TC_F32));
  EXPECT_OK(tc_eval(1, &known));
  callbacks_cannot_call();
  signals_cannot_disturb();
  EXPECT(n_refused > 40, "only %d calls were tried", n_refused);
  tc_optimizer_destroy(idle);
  tc_release(one), tc_release(known);
  tc_shutdown();
  return expect_done("errors-signals");
}
