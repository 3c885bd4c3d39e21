// Race check of compiled functions, a plain program for -fsanitize=thread: six threads call one over
// weights of the main thread, and each trains a model of its own by a compiled step.
#include <pthread.h>
#include <tc/compile.h>

#include "tests/expect.h"

enum { N_THREADS = 6, N_CALLS = 30, N = 4 };

static tc_tensor shared;
static tc_compiled *forward_of_all;

static tc_status forward(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  out[0] = tc_sum(tc_mul(in[0], shared), TC_ALL, false);
  return TC_OK;
}

typedef struct model {
  tc_tensor w;
  tc_optimizer *opt;
} model;

static tc_status train(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  model *m = user;
  tc_status st = tc_compiled_call(forward_of_all, in, n_in, out, n_out);
  tc_tensor off = tc_sub(tc_sum(tc_mul(in[0], m->w), TC_ALL, false), out[0]);
  out[0] = tc_mul(off, off);
  if (st == TC_OK) st = tc_backward(out[0]);
  if (st == TC_OK) st = tc_optimizer_step(m->opt);
  return st == TC_OK ? tc_zero_grad(m->opt) : st;
}

static void *work(void *arg) {
  int id = (int)(size_t)arg;
  model m = {tc_param(tc_zeros(TC_SHAPE(N), TC_F32)), NULL};
  m.opt = tc_adam(&m.w, 1, (tc_adam_options){.lr = 0.05});
  tc_compiled *c = tc_compile(train, &m, NULL);
  float first = 0, last = 0;
  for (int i = 0; i < N_CALLS; i++) {
    tc_scope s = tc_scope_begin();
    tc_tensor x = tc_full(TC_SHAPE(N), 1 + id % 3, TC_F32), y;
    float got = 0;
    EXPECT_OK(tc_compiled_call(forward_of_all, &x, 1, &y, 1));
    EXPECT_OK(tc_item_f32(y, &got));
    EXPECT(got == (float)(N * 2 * (1 + id % 3)), "%g", (double)got);
    EXPECT_OK(tc_compiled_call(c, &x, 1, &y, 1));
    EXPECT_OK(tc_item_f32(y, i ? &last : &first));
    tc_scope_end(s);
  }
  EXPECT(last < first, "thread %d does not learn: %g, then %g", id, (double)first, (double)last);
  EXPECT(tc_compiled_stats(c).n_taken == N_CALLS - 1, "%s", tc_compiled_stats(c).why_recorded);
  tc_compiled_destroy(c);
  tc_optimizer_destroy(m.opt);
  tc_release(m.w);
  return NULL;
}

int main(void) {
  pthread_t thread[N_THREADS];
  shared = tc_full(TC_SHAPE(N), 2, TC_F32);
  EXPECT_OK(tc_eval(1, &shared));
  forward_of_all = tc_compile(forward, NULL, &(tc_compile_options){.limit = 64});
  for (size_t i = 0; i < N_THREADS; i++) pthread_create(&thread[i], NULL, work, (void *)i);
  for (int i = 0; i < N_THREADS; i++) pthread_join(thread[i], NULL);
  EXPECT(tc_compiled_stats(forward_of_all).n_recorded == 0, "%s", tc_compiled_stats(forward_of_all).why_recorded);
  tc_compiled_destroy(forward_of_all);
  tc_shutdown();
  return expect_done("compiled");
}
