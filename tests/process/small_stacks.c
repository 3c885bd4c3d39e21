// Threads with small stacks: a training step with planning and compiling, and recipes, groups and
// runs that hold one another, as long as programs are, which nothing may follow by recursion.
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "tests/expect.h"
#include "tests/mlp.h"

// Runs work on a thread with a stack of so many KiB.
static void on_stack(int kib, void *(*work)(void *), void *arg) {
  pthread_attr_t attr;
  pthread_t thread;
  pthread_attr_init(&attr);
  EXPECT(pthread_attr_setstacksize(&attr, (size_t)kib << 10) == 0, "no stack of %d KiB", kib);
  EXPECT(pthread_create(&thread, &attr, work, arg) == 0 && pthread_join(thread, NULL) == 0, "no thread");
  pthread_attr_destroy(&attr);
}

static void *train(void *arg) {
  mlp m;
  float *loss = arg;
  EXPECT_OK(mlp_init(&m, 1));
  for (int k = 0; k < 3; k++) EXPECT_OK(mlp_step(&m, &loss[k]));
  mlp_fini(&m);
  return NULL;
}

enum { N_CHAIN = 100000, EVERY = 10000 };

// x + 1 + 1 ..., every handle alive and none read until the end; then some of the middle, which are
// recipes.
static void *chain(void *arg) {
  tc_scope s = tc_scope_begin();
  static tc_tensor at[N_CHAIN / EVERY + 1];
  tc_tensor x = tc_zeros(TC_SHAPE(4), TC_F32);
  (void)arg;
  for (int k = 1; k <= N_CHAIN; k++) {
    x = tc_add(x, 1);
    if (k % EVERY == 0) at[k / EVERY] = x;
  }
  for (int k = N_CHAIN / EVERY; k > 0; k -= 3) {
    float v[4] = {0};
    EXPECT_OK(tc_to_host(at[k], v, sizeof v));
    EXPECT(v[3] == (float)k * EVERY, "link %d is %g", k * EVERY, (double)v[3]);
  }
  tc_scope_end(s);
  return NULL;
}

// Every link reads the one before it elsewhere, so that it is made again in place, as deep as a
// kernel goes.
static void *shifts(void *arg) {
  enum { N = 100, N_SHIFT = 60 };
  float v[N];
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_arange(0, N, 1, TC_F32);
  (void)arg;
  for (int k = 0; k < N_SHIFT; k++) x = tc_add(tc_pad(tc_slice(x, 0, 1, N, 1), TC_SHAPE(0), TC_SHAPE(1), 0), 1);
  EXPECT_OK(tc_to_host(x, v, sizeof v));
  for (int i = 0; i < N; i++) {
    int want = i + N_SHIFT < N ? i + N_SHIFT + N_SHIFT : N - i;  // from the end on, links since a zero came in
    EXPECT(v[i] == (float)want, "element %d is %g, not %d", i, (double)v[i], want);
  }
  tc_scope_end(s);
  return NULL;
}

// A million ops in one expression: cut by the bound of pending nodes. With history the gradient's
// records cannot be cut.
static void *million(void *arg) {
  enum { N = 1000000 };
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_zeros(TC_SHAPE(4), TC_F32);
  float v[4] = {0};
  (void)arg;
  for (int k = 0; k < N; k++) x = tc_add(x, 1);
  EXPECT_OK(tc_to_host(x, v, sizeof v));
  EXPECT(v[3] == (float)N, "a million ones are %g", (double)v[3]);
  tc_scope_end(s);
  return NULL;
}

// Groups that are begun in one order and need one another in the other, as deep as the graph.
static void *reversed(void *arg) {
  enum { N = 4000 };
  static tc_tensor x[N];
  tc_scope s = tc_scope_begin();
  tc_tensor p = tc_param(tc_full(TC_SHAPE(4), 1, TC_F32)), y = tc_zeros(TC_SCALAR, TC_F32);
  float v = 0;
  (void)arg;
  for (int i = 0; i < N; i++) x[i] = tc_softmax(tc_mul(p, i + 1), 0);
  for (int i = N; i-- > 0;) y = tc_max(tc_add(x[i], tc_mul(y, .5)), TC_ALL, false);
  EXPECT_OK(tc_backward(y));
  EXPECT_OK(tc_item_f32(y, &v));
  EXPECT(v == .5f, "the sum of halves of quarters is %g", (double)v);
  tc_release(p);
  tc_scope_end(s);
  return NULL;
}

// A run for each step, each of which holds the two before it: the last reference frees them all.
static void *held_runs(void *arg) {
  enum { N = 20000 };
  tc_scope s = tc_scope_begin();
  tc_tensor p = tc_param(tc_full(TC_SHAPE(4), 1, TC_F32)), before = tc_mul(p, 1), x = tc_mul(p, 1);
  float v[4] = {0};
  (void)arg;
  for (int k = 0; k < N; k++) {
    tc_scope inner = tc_scope_begin();
    tc_tensor next = tc_mul(tc_add(x, before), .5);
    tc_keep(next), tc_keep(x);
    EXPECT_OK(tc_to_host(next, v, sizeof v));
    before = x, x = next;
    tc_scope_end(inner);
  }
  EXPECT(v[3] == 1, "the mean of ones is %g", (double)v[3]);
  tc_release(p);
  tc_scope_end(s);
  return NULL;
}

int main(void) {
  static const int kib[] = {128, 256, 512, 8192};
  float loss[4][3] = {{0}};
  for (int i = 0; i < 4; i++) {
    tc_cache_clear();
    on_stack(kib[i], train, loss[i]);
    for (int k = 0; k < 3; k++)
      EXPECT(loss[i][k] == loss[0][k] && loss[i][k] > 0, "%d KiB, step %d: loss %g", kib[i], k, (double)loss[i][k]);
  }
  on_stack(256, chain, NULL);
  on_stack(128, shifts, NULL);
  on_stack(1024, million, NULL);
  on_stack(128, reversed, NULL);
  on_stack(128, held_runs, NULL);
  return expect_done("process-small_stacks");
}
