// Race check of programs in files, a plain program for -fsanitize=thread: six threads begin to run
// one at the same moment, by tensors and by memory of their own, while each loads and closes
// another.
#include <pthread.h>
#include <stdlib.h>
#include <tc/control.h>
#include <tc/program.h>
#include <unistd.h>

#include "tests/expect.h"

enum { N_THREADS = 6, N_RUNS = 30, ROWS = 32, N = 16 };

static tc_tensor weight;
static char path[] = "/tmp/tc-race-XXXXXX";
static tc_program_file *shared;
static pthread_barrier_t begin;

static tc_status step(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  out[0] = out[1] = tc_tanh(tc_add(in[0], in[1]));
  return TC_OK;
}

static tc_status fn(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  tc_tensor y = tc_matmul(in[0], weight), carry = tc_zeros(TC_SHAPE(N), TC_F32), both[2];
  tc_status st = tc_scan(step, NULL, &carry, 1, &y, 1, both, 1, NULL);
  out[0] = both[1];
  return st;
}

static float *run(const tc_program_file *p) {
  float *x = malloc(sizeof(float[ROWS * N])), *y = malloc(sizeof(float[ROWS * N]));
  for (int i = 0; i < ROWS * N; i++) x[i] = (float)(i % 7) / 7;
  EXPECT_OK(tc_program_run_arrays(p, 1, (tc_program_array[]){{"x", x, TC_F32, TC_SHAPE(ROWS, N)}}, 1,
                                  (tc_program_array[]){{"output", y, TC_F32, TC_SHAPE(ROWS, N)}}));
  free(x);
  return y;
}

static void *work(void *arg) {
  const float *want = NULL;
  (void)arg;
  pthread_barrier_wait(&begin);
  for (int i = 0; i < N_RUNS; i++) {
    float *got = run(shared);
    if (!want) want = got;
    EXPECT(memcmp(got, want, sizeof(float[ROWS * N])) == 0, "run %d", i);
    tc_scope s = tc_scope_begin();
    tc_tensor x = tc_ones(TC_SHAPE(ROWS, N), TC_F32), y;
    EXPECT_OK(tc_program_run(shared, 1, (tc_program_input[]){{"x", x}}, &y));
    tc_scope_end(s);
    if (i % 10 == 0) {
      tc_program_file *own = tc_program_load(path);
      EXPECT(own != NULL, "load");
      free(own ? run(own) : NULL);
      tc_program_close(own);
    }
    if (got != want) free(got);
  }
  free((void *)(uintptr_t)want);
  return NULL;
}

int main(void) {
  pthread_t thread[N_THREADS];
  int fd = mkstemp(path);
  if (fd < 0) return perror(path), 1;
  close(fd);
  weight = tc_param(tc_randn(TC_SHAPE(N, N), TC_F32));
  tc_tensor x = tc_zeros(TC_SHAPE(ROWS, N), TC_F32);
  tc_status st = tc_export(fn, NULL, 1, (tc_export_input[]){{"x", x}}, &(tc_export_options){.targets = "native"}, path);
  if (st == TC_ERR_STATE) return printf("%s\n", tc_last_error()->message), unlink(path), 77;
  EXPECT_OK(st);
  shared = tc_program_load(path);
  EXPECT(shared != NULL, "load");
  pthread_barrier_init(&begin, NULL, N_THREADS);
  for (size_t i = 0; i < N_THREADS && shared; i++) pthread_create(&thread[i], NULL, work, NULL);
  for (size_t i = 0; i < N_THREADS && shared; i++) pthread_join(thread[i], NULL);
  tc_program_close(shared);
  tc_release(weight);
  unlink(path);
  return expect_done("programs");
}
