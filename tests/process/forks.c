// fork() while other threads record, train, compile and read the forking thread's tensors: the
// child goes on with its own handles, pending ones too, compiles new kernels and starts threads; a
// handle of another thread is an error there. A child that hangs is ended by its alarm.
//   forks [forks = 10]
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/expect.h"
#include "tests/mlp.h"

enum { N_STEPS = 3, CHILD_SECONDS = 20 };

static atomic_bool over;
static tc_tensor theirs;          // of the training thread, kept pending
static _Atomic uint64_t ours;     // of the forking thread, read by another
static pthread_barrier_t started;

static void *train(void *arg) {
  mlp m;
  float loss;
  (void)arg;
  EXPECT_OK(mlp_init(&m, 77));
  theirs = tc_retain(tc_add(tc_scalar(1), 1));
  pthread_barrier_wait(&started);
  for (int k = 0; !atomic_load(&over); k++) {
    EXPECT_OK(mlp_step(&m, &loss));
    if (k % 10 == 0) tc_cache_clear();  // so that it compiles again and again
  }
  mlp_fini(&m);
  tc_release(theirs);
  return NULL;
}

static void *read_ours(void *arg) {
  (void)arg;
  pthread_barrier_wait(&started);
  while (!atomic_load(&over)) {
    uint64_t word = atomic_load(&ours);
    float v = 0;
    tc_tensor h = {(uint32_t)word, (uint32_t)(word >> 32)};
    tc_status st = tc_item_f32(h, &v);
    EXPECT(st == TC_ERR_HANDLE || v == 6, "another thread reads %g", (double)v);
    tc_clear_error();
    usleep(50);
  }
  return NULL;
}

static void *compute(void *arg) {
  float v = 0;
  EXPECT_OK(tc_item_f32(tc_sum(tc_full(TC_SHAPE(50), 2, TC_F32), TC_ALL, false), &v));
  EXPECT(v == 100, "a thread of the child gets %g", (double)v);
  (void)arg;
  return NULL;
}

static void handles_of_other_threads_are_errors(void) {
  float v;
  tc_clear_error();
  EXPECT(!tc_is_valid(theirs) && tc_last_error()->status == TC_OK, "another thread's tensor is valid in the child");
  EXPECT(tc_item_f32(theirs, &v) == TC_ERR_HANDLE, "reading another thread's tensor in the child");
  EXPECT(strstr(tc_last_error()->message, "fork") != NULL, "the text does not say why: %s", tc_last_error()->message);
  EXPECT(tc_item_f32(tc_add(theirs, 1), &v) == TC_ERR_HANDLE, "an op on another thread's tensor in the child");
  EXPECT(tc_shape(theirs).rank == -1 && tc_dtype(theirs) == TC_N_TYPES && tc_grad(theirs).gen == 0,
         "what is known of another thread's tensor");
  EXPECT(tc_assign(theirs, tc_scalar(1)) != TC_OK && !tc_map(theirs) && tc_unmap(theirs) != TC_OK,
         "writing or mapping another thread's tensor");
  tc_release(theirs), (void)tc_retain(theirs), (void)tc_keep(theirs);
  tc_clear_error();
}

static int child(mlp *m, tc_tensor pending, int n, const float *want) {
  float v = 0, loss;
  alarm(CHILD_SECONDS);
  EXPECT_OK(tc_item_f32(pending, &v));
  EXPECT(v == (float)n + 3, "what was pending gives %g in the child", (double)v);
  for (int k = 0; k < N_STEPS; k++)
    EXPECT(mlp_step(m, &loss) == TC_OK && loss == want[k], "step %d in the child: %g", k, (double)loss);
  // a shape that nobody has used
  EXPECT_OK(tc_item_f32(tc_sum(tc_rand(TC_SHAPE(33, 5 + n), TC_F32), TC_ALL, false), &v));
  handles_of_other_threads_are_errors();
  pthread_t t;
  EXPECT(pthread_create(&t, NULL, compute, NULL) == 0 && pthread_join(t, NULL) == 0, "a thread in the child");
  tc_shutdown();
  fflush(stdout);
  return atomic_load(&expect_n_failed) != 0;
}

// The losses of the steps that the forked model is about to take.
static void losses_to_come(int n_done, float want[N_STEPS]) {
  mlp m;
  float loss;
  EXPECT_OK(mlp_init(&m, 5));
  for (int k = 0; k < n_done; k++) EXPECT_OK(mlp_step(&m, &loss));
  for (int k = 0; k < N_STEPS; k++) EXPECT_OK(mlp_step(&m, &want[k]));
  mlp_fini(&m);
}

int main(int n_words, char **words) {
#if defined(__SANITIZE_ADDRESS__) && __GNUC__ < 14
  puts(
      "forks: skipped, the allocator of this compiler's address sanitizer is not locked around fork, so that a child may wait for it for ever");
  return 77;
#endif
  int n_forks = n_words > 1 ? atoi(words[1]) : 10;
  pthread_t t[2];
  mlp m;
  float loss, want[N_STEPS];
  EXPECT_OK(tc_set_num_threads(2));
  EXPECT_OK(mlp_init(&m, 5));
  EXPECT_OK(mlp_step(&m, &loss));
  pthread_barrier_init(&started, NULL, 3);
  pthread_create(&t[0], NULL, train, NULL);
  pthread_create(&t[1], NULL, read_ours, NULL);
  pthread_barrier_wait(&started);
  for (int n = 0; n < n_forks; n++) {
    tc_scope s = tc_scope_begin();
    losses_to_come(n + 1, want);
    tc_tensor pending = tc_add(tc_scalar(n), 3), shared = tc_mul(tc_add(tc_scalar(1), 2), 2);
    atomic_store(&ours, (uint64_t)shared.gen << 32 | shared.slot);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) _exit(child(&m, pending, n, want));
    int status = -1;
    EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0, "child %d: status %x%s", n,
           (unsigned)status, WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? ", it hangs" : "");
    EXPECT_OK(tc_item_f32(pending, &loss));  // the parent goes on too
    EXPECT_OK(mlp_step(&m, &loss));
    EXPECT(loss == want[0], "the parent's step after fork %d", n);
    tc_scope_end(s);
  }
  atomic_store(&over, true);
  pthread_join(t[0], NULL), pthread_join(t[1], NULL);
  mlp_fini(&m);
  tc_shutdown();
  return expect_done("process-forks");
}
