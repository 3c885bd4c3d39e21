// Compiled functions (tc/compile.h) on the default device: training as recorded, threads, each
// allocation of a call failing in turn, arguments in several memories, and memory that returns.
#include <pthread.h>
#include <string.h>
#include <tc/compile.h>

#include "runtime/arena.h"
#include "tests/expect.h"

enum { N_STEPS = 20, N_THREADS = 4, N = 8 };

typedef struct model {
  tc_tensor w[2], b[2];
  tc_optimizer *opt;
} model;

static void make_model(model *m) {
  tc_seed(5);
  for (int i = 0; i < 2; i++) {
    m->w[i] = tc_param(tc_mul(tc_randn(TC_SHAPE(N, N), TC_F32), 0.4));
    m->b[i] = tc_param(tc_zeros(TC_SHAPE(N), TC_F32));
  }
  m->opt = tc_adam((tc_tensor[]){m->w[0], m->w[1], m->b[0], m->b[1]}, 4, (tc_adam_options){.lr = 0.01});
  EXPECT(m->opt, "no optimizer");
}

static void end_model(model *m) {
  tc_optimizer_destroy(m->opt);
  for (int i = 0; i < 2; i++) tc_release(m->w[i]), tc_release(m->b[i]);
}

static tc_status train(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  model *m = user;
  (void)n_in, (void)n_out;
  tc_tensor h = tc_dropout(tc_tanh(tc_linear(in[0], m->w[0], m->b[0])), 0.2);
  out[0] = tc_mse_loss(tc_linear(h, m->w[1], m->b[1]), in[1]);
  tc_status st = tc_backward(out[0]);
  if (st == TC_OK) st = tc_optimizer_step(m->opt);
  return st == TC_OK ? tc_zero_grad(m->opt) : st;
}

static tc_tensor batch(int seed) {
  float v[4 * N];
  for (int i = 0; i < 4 * N; i++) v[i] = (float)((i * 7 + seed * 3) % 13) * 0.1f - 0.6f;
  return tc_from_host(v, TC_SHAPE(4, N), TC_F32);
}

static void steps(model *m, tc_compiled *c, float *losses) {
  tc_seed(9);
  for (int i = 0; i < N_STEPS; i++) {
    tc_scope outer = tc_scope_begin(), inner = tc_scope_begin();
    tc_tensor in[] = {batch(i), batch(i + 1)}, loss;
    if (i == 5) EXPECT_OK(tc_set_lr(m->opt, 0.002));
    EXPECT_OK(c ? tc_compiled_call(c, in, 2, &loss, 1) : train(m, in, 2, &loss, 1));
    tc_keep(loss);
    tc_scope_end(inner);
    EXPECT_OK(tc_item_f32(loss, &losses[i]));
    tc_scope_end(outer);
  }
}

static void training(void) {
  model m[2];
  float want[N_STEPS], got[N_STEPS];
  make_model(&m[0]), make_model(&m[1]);
  tc_compiled *c = tc_compile(train, &m[1], &(tc_compile_options){.name = "train", .fullgraph = true});
  steps(&m[0], NULL, want);
  steps(&m[1], c, got);
  EXPECT(memcmp(got, want, sizeof got) == 0, "step 0: %g and %g, the last %g and %g", (double)got[0], (double)want[0],
         (double)got[N_STEPS - 1], (double)want[N_STEPS - 1]);
  tc_compiled_info info = tc_compiled_stats(c);
  EXPECT(info.n_graphs == 1 && info.n_taken == N_STEPS - 1, "%d graphs, %d taken", info.n_graphs, (int)info.n_taken);
  tc_compiled_destroy(c);
  end_model(&m[0]), end_model(&m[1]);
}

// ---- threads ----

static tc_status forward(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  const model *m = user;
  (void)n_in, (void)n_out;
  out[0] = tc_sum(tc_linear(tc_tanh(tc_linear(in[0], m->w[0], m->b[0])), m->w[1], m->b[1]), TC_ALL, false);
  return TC_OK;
}

static float expected[N_STEPS];

static void *call_often(void *arg) {
  for (int i = 0; i < N_STEPS; i++) {
    tc_scope s = tc_scope_begin();
    tc_tensor x = batch(i), y;
    float got = 0;
    EXPECT_OK(tc_compiled_call(arg, &x, 1, &y, 1));
    EXPECT_OK(tc_item_f32(y, &got));
    EXPECT(got == expected[i], "%g, should be %g", (double)got, (double)expected[i]);
    tc_scope_end(s);
  }
  return NULL;
}

static void threads(void) {
  model m;
  pthread_t thread[N_THREADS];
  make_model(&m);
  tc_no_grad_begin();
  for (int i = 0; i < N_STEPS; i++) {
    tc_scope s = tc_scope_begin();
    tc_tensor x = batch(i), y;
    EXPECT_OK(forward(&m, &x, 1, &y, 1));
    EXPECT_OK(tc_item_f32(y, &expected[i]));
    tc_scope_end(s);
  }
  tc_no_grad_end();
  tc_compiled *c = tc_compile(forward, &m, &(tc_compile_options){.limit = 2 * N_THREADS});
  for (int i = 0; i < N_THREADS; i++) pthread_create(&thread[i], NULL, call_often, c);
  for (int i = 0; i < N_THREADS; i++) pthread_join(thread[i], NULL);
  tc_compiled_info info = tc_compiled_stats(c);
  EXPECT(info.n_calls == N_THREADS * N_STEPS && info.n_recorded == 0, "%s", info.why_recorded);
  tc_compiled_destroy(c);
  end_model(&m);
}

// ---- allocations that fail ----

// With the n-th allocation failing, a call fails or does not, and the next one is right.
static void fail_each(void) {
  long n = 1;
  for (bool reached = true; reached && n < 400; n++) {
    model m;
    float got = 0, want = 0;
    tc_scope s = tc_scope_begin();
    make_model(&m);
    tc_tensor in[] = {batch(1), batch(2)}, y = {0, 0};
    EXPECT_OK(tc_eval(2, in));
    tc_compiled *c = tc_compile(forward, &m, NULL);
    tc_alloc_fail_at(n, 0);
    tc_status st = tc_compiled_call(c, in, 1, &y, 1);
    reached = tc_alloc_fail_at(0, 0) >= n;
    EXPECT(st == TC_OK || (st == TC_ERR_MEMORY && !tc_is_valid(y)), "allocation %ld: %s", n, tc_last_error()->message);
    tc_clear_error();
    EXPECT_OK(forward(&m, in, 1, &y, 1));
    EXPECT_OK(tc_item_f32(y, &want));
    EXPECT_OK(tc_compiled_call(c, in, 1, &y, 1));
    EXPECT_OK(tc_item_f32(y, &got));
    EXPECT(tc_compiled_stats(c).n_graphs == 1, "allocation %ld: %s", n, tc_compiled_stats(c).why_recorded);
    EXPECT(got == want, "allocation %ld: %g, should be %g", n, (double)got, (double)want);
    tc_compiled_destroy(c);
    end_model(&m);
    tc_scope_end(s);
  }
  EXPECT(n > 10 && n < 400, "%ld allocations", n);
}

// ---- several memories ----

static tc_status adds_there(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  out[0] = tc_add(in[0], tc_to(in[1], user));
  return TC_OK;
}

static void memories(void) {
  char device[32];
  snprintf(device, sizeof device, "%s", tc_get_default_device());
  if (strcmp(device, "tc:cpu") == 0) return;
  tc_tensor x = batch(1), in[] = {x, tc_to(batch(2), "tc:cpu")}, y;
  float got[4 * N], want[4 * N];
  tc_compiled *c = tc_compile(adds_there, device, NULL);
  EXPECT(expect_floats(tc_add(x, batch(2)), want, 4 * N) == 4 * N, "size");
  for (int i = 0; i < 2; i++) {
    EXPECT_OK(tc_compiled_call(c, in, 2, &y, 1));
    (void)expect_floats(y, got, 4 * N);
    EXPECT(memcmp(got, want, sizeof got) == 0, "call %d", i);
  }
  tc_compiled_destroy(c);
}

int main(void) {
  size_t before = 0, after;
  for (int i = 0; i < 3; i++) {
    tc_scope s = tc_scope_begin();
    training(), threads(), memories();
    tc_scope_end(s);
    tc_cache_clear();
    tc_trim();
    tc_memory now = tc_memory_stats();
    after = now.live_bytes + now.gpu_live_bytes;
    if (i == 0) before = after;
    EXPECT(after <= before, "%zu bytes are live after round %d, %zu after the first", after, i, before);
  }
  fail_each();
  model m;
  make_model(&m);
  tc_compiled *c = tc_compile(forward, &m, NULL);
  tc_tensor x = batch(0), y;
  EXPECT_OK(tc_compiled_call(c, &x, 1, &y, 1));
  tc_optimizer_destroy(m.opt);
  tc_shutdown();
  tc_compiled_destroy(c);
  return expect_done("compiled");
}
