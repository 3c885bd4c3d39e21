// Compiled functions: what a call does is what the function would do, to the bit; when it is traced
// again, and what is refused.
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tc/amp.h>
#include <tc/compile.h>
#include <tc/control.h>
#include <tc/nn.h>
#include <tc/train.h>
#include <unistd.h>

#include "tests/lazy/expect_errors.h"

#define EXPECT_SAME(a, b, n) cr_expect_eq(memcmp((a), (b), (n) * sizeof *(a)), 0, "%s and %s differ", #a, #b)
enum { N = 6 };

static tc_tensor vector(float first) {
  float v[N];
  for (int i = 0; i < N; i++) v[i] = first + 0.5f * (float)i;
  return tc_from_host(v, TC_SHAPE(N), TC_F32);
}

static void read_out(tc_tensor t, float *out, size_t n) {
  OK(tc_to_host(t, out, n * sizeof *out));
}

static void expect_stats(const tc_compiled *c, int n_graphs, uint64_t n_taken, uint64_t n_traced, uint64_t n_recorded) {
  tc_compiled_info info = tc_compiled_stats(c);
  cr_expect_eq(info.n_graphs, n_graphs, "%d graphs, should be %d", info.n_graphs, n_graphs);
  cr_expect_eq(info.n_taken, n_taken, "%d taken", (int)info.n_taken);
  cr_expect_eq(info.n_traced, n_traced, "%d traced", (int)info.n_traced);
  cr_expect_eq(info.n_recorded, n_recorded, "%d recorded: %s", (int)info.n_recorded, info.why_recorded);
}

// ---- the log's lines of guards ----

static char lines[4096];

static void add_line(const char *line, void *arg) {
  (void)arg;
  if (strlen(lines) + strlen(line) + 2 < sizeof lines) strcat(strcat(lines, line), "\n");
}

static void log_guards(void) {
  setenv("TC_LOG", "guards", 1);
  tc_set_log(add_line, NULL);
}

static void expect_line(const char *words) {
  cr_expect(strstr(lines, words), "'%s' should say '%s'", lines, words);
  lines[0] = '\0';
}

// ---- forward ----

static int n_runs;

static tc_status two_ops(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  n_runs++;
  out[0] = tc_exp(tc_sub(in[0], in[1]));
  return TC_OK;
}

Test(compile, later_calls_do_not_run_the_function) {
  tc_compiled *c = tc_compile(two_ops, NULL, NULL);
  tc_tensor a = vector(1), b = vector(2), out;
  float want[N], got[N];
  for (int i = 0; i < 3; i++) {
    tc_tensor in[] = {i % 2 ? b : a, i % 2 ? a : b};
    read_out(tc_exp(tc_sub(in[0], in[1])), want, N);
    OK(tc_compiled_call(c, in, 2, &out, 1));
    read_out(out, got, N);
    EXPECT_SAME(got, want, N);
  }
  cr_expect_eq(n_runs, 1);
  expect_stats(c, 1, 2, 1, 0);
  tc_compiled_destroy(c);
}

Test(compile, a_graph_that_ran_before_needs_no_plan) {
  tc_compiled *c = tc_compile(two_ops, NULL, NULL);
  tc_tensor in[] = {vector(1), vector(2)}, out;
  float got[N];
  uint64_t misses = 0;
  for (int i = 0; i < 4; i++) {
    tc_scope s = tc_scope_begin();
    OK(tc_compiled_call(c, in, 2, &out, 1));
    read_out(out, got, N);
    tc_scope_end(s);
    if (i == 1) misses = tc_cache_stats().plan_misses;
  }
  cr_expect_eq(tc_cache_stats().plan_misses, misses);
  tc_compiled_destroy(c);
}

// A body of n ops that a seed chooses, over two arguments and a tensor that it finds.
typedef struct chosen {
  uint32_t seed;
  tc_tensor found;
} chosen;

static tc_status chosen_ops(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  const chosen *c = user;
  uint32_t s = c->seed * 2654435761u + 1;
  tc_tensor v[32] = {in[0], in[1], c->found};
  int n = 3;
  for (; n < 24; n++) {
    s = s * 1664525u + 1013904223u;
    tc_tensor a = v[(s >> 8) % (uint32_t)n], b = v[(s >> 16) % (uint32_t)n];
    switch (s >> 28) {
      case 0: v[n] = tc_add(a, b); break;
      case 1: v[n] = tc_mul(a, b); break;
      case 2: v[n] = tc_relu(a); break;
      case 3: v[n] = tc_tanh(a); break;
      case 4: v[n] = tc_softmax(a, 1); break;
      case 5: v[n] = tc_matmul(a, tc_transpose(b, 0, 1)); break;
      case 6: v[n] = tc_add(tc_sum(a, TC_AXES(1), true), b); break;
      case 7: v[n] = tc_mul(a, 0.25 + (double)(s % 7)); break;
      case 8: v[n] = tc_flip(a, TC_AXES(0)); break;
      case 9: v[n] = tc_where(tc_gt(a, b), a, tc_neg(b)); break;
      case 10: v[n] = tc_add(a, tc_rand(TC_SHAPE(4, 4), TC_F32)); break;
      case 11: v[n] = tc_cumsum(a, 1); break;
      case 12: v[n] = tc_maximum(a, b); break;
      case 13: v[n] = tc_sub(tc_cast(tc_cast(a, TC_F16), TC_F32), b); break;
      default: v[n] = tc_sigmoid(tc_sub(a, b)); break;
    }
    v[n] = tc_clamp(v[n], -8.0, 8.0);
  }
  for (int i = 0; i < n_out; i++) out[i] = v[n - 1 - i * 5];
  (void)n_in;
  return TC_OK;
}

static tc_tensor matrix(int seed) {
  float v[16];
  for (int i = 0; i < 16; i++) v[i] = (float)((i * 7 + seed * 5) % 11) * 0.25f - 1.0f;
  return tc_from_host(v, TC_SHAPE(4, 4), TC_F32);
}

Test(compile, bodies_of_all_kinds_compute_what_is_recorded) {
  for (uint32_t seed = 0; seed < 40; seed++) {
    chosen body = {seed, matrix((int)seed)};
    tc_compiled *c = tc_compile(chosen_ops, &body, NULL);
    for (int call = 0; call < 3; call++) {
      float want[3][16], got[3][16];
      tc_tensor in[] = {matrix(call), matrix(call + 4)}, out[3];
      tc_seed(seed + 10u * (uint32_t)call);
      OK(chosen_ops(&body, in, 2, out, 3));
      tc_rng_state after = tc_get_rng_state();
      for (int i = 0; i < 3; i++) read_out(out[i], want[i], 16);
      tc_seed(seed + 10u * (uint32_t)call);
      OK(tc_compiled_call(c, in, 2, out, 3));
      for (int i = 0; i < 3; i++) read_out(out[i], got[i], 16);
      EXPECT_SAME(got[0], want[0], 3 * 16);
      cr_expect_eq(tc_get_rng_state().counter, after.counter);
    }
    expect_stats(c, 1, 2, 1, 0);
    tc_compiled_destroy(c);
  }
}

// ---- training ----

typedef struct model {
  tc_tensor p[4];  // weights and biases
  tc_optimizer *opt;
} model;

static model make_model(int rule) {
  model m;
  tc_seed(5);
  m.p[0] = tc_param(tc_mul(tc_randn(TC_SHAPE(4, 8), TC_F32), 0.5)), m.p[1] = tc_param(tc_zeros(TC_SHAPE(8), TC_F32));
  m.p[2] = tc_param(tc_mul(tc_randn(TC_SHAPE(8, 2), TC_F32), 0.5)), m.p[3] = tc_param(tc_zeros(TC_SHAPE(2), TC_F32));
  switch (rule) {
    case 0: m.opt = tc_sgd(m.p, 4, (tc_sgd_options){.lr = 0.1}); break;
    case 1:
      m.opt = tc_sgd(m.p, 4, (tc_sgd_options){.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.01});
      break;
    case 2: m.opt = tc_adam(m.p, 4, (tc_adam_options){.lr = 0.01}); break;
    case 3: m.opt = tc_adamw(m.p, 4, (tc_adam_options){.lr = 0.01}); break;
    case 4: m.opt = tc_rmsprop(m.p, 4, (tc_rmsprop_options){.lr = 0.01, .momentum = 0.5}); break;
    case 5: m.opt = tc_adagrad(m.p, 4, (tc_adagrad_options){.lr = 0.1, .lr_decay = 0.2}); break;
    case 6: m.opt = tc_nadam(m.p, 4, (tc_nadam_options){.lr = 0.01}); break;
    case 7: m.opt = tc_radam(m.p, 4, (tc_radam_options){.lr = 0.01}); break;
    case 8: m.opt = tc_adamax(m.p, 4, (tc_adamax_options){.lr = 0.01}); break;
    default: m.opt = tc_lion(m.p, 4, (tc_lion_options){.lr = 0.01}); break;
  }
  cr_assert(m.opt);
  return m;
}

static void end_model(model *m) {
  tc_optimizer_destroy(m->opt);
  for (int i = 0; i < 4; i++) tc_release(m->p[i]);
}

static tc_status train(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  model *m = user;
  (void)n_in, (void)n_out;
  tc_scope s = tc_scope_begin();
  tc_tensor hidden = tc_dropout(tc_relu(tc_add(tc_matmul(in[0], m->p[0]), m->p[1])), 0.25);
  out[0] = tc_keep(tc_mse_loss(tc_add(tc_matmul(hidden, m->p[2]), m->p[3]), in[1]));
  tc_status st = tc_backward(out[0]);
  if (st == TC_OK) st = tc_optimizer_step(m->opt);
  if (st == TC_OK) st = tc_zero_grad(m->opt);
  tc_scope_end(s);
  return st;
}

// The losses and the last parameters of 20 steps, with a learning rate that changes.
static void train_steps(int rule, bool compiled, float *losses, float *params) {
  model m = make_model(rule);
  tc_compiled *c = compiled ? tc_compile(train, &m, &(tc_compile_options){.name = "train", .fullgraph = true}) : NULL;
  tc_seed(11);
  for (int i = 0; i < 20; i++) {
    tc_scope s = tc_scope_begin();
    float x[12], y[6];
    for (int k = 0; k < 12; k++) x[k] = (float)((k * 5 + i * 3) % 7) * 0.3f - 1.0f;
    for (int k = 0; k < 6; k++) y[k] = (float)((k + i) % 4) * 0.5f;
    tc_tensor in[] = {tc_from_host(x, TC_SHAPE(3, 4), TC_F32), tc_from_host(y, TC_SHAPE(3, 2), TC_F32)}, loss;
    if (i == 7) OK(tc_set_lr(m.opt, 0.003));
    OK(c ? tc_compiled_call(c, in, 2, &loss, 1) : train(&m, in, 2, &loss, 1));
    OK(tc_item_f32(loss, &losses[i]));
    tc_scope_end(s);
  }
  if (c) expect_stats(c, 1, 19, 1, 0);
  const size_t sizes[] = {32, 8, 16, 2};
  for (int i = 0; i < 4; params += sizes[i++]) read_out(m.p[i], params, sizes[i]);
  tc_compiled_destroy(c);
  end_model(&m);
}

Test(compile, a_training_step_does_what_is_recorded_over_20_steps) {
  for (int rule = 0; rule < 10; rule++) {
    float want[20 + 58], got[20 + 58];
    train_steps(rule, false, want, want + 20);
    train_steps(rule, true, got, got + 20);
    EXPECT_SAME(got, want, 20 + 58);
  }
}

// Words of a large embedding, batch norm with its statistics, clipped gradients, bf16 in the middle.
typedef struct network {
  tc_nn_params *p;
  tc_optimizer *opt;
} network;

static tc_status train_network(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  const network *m = user;
  (void)n_in, (void)n_out;
  tc_tensor x = tc_reshape(tc_nn_embedding(m->p, "words", in[0]), TC_SHAPE(6, 4));
  x = tc_nn_dropout(m->p, tc_relu(tc_nn_batch_norm(m->p, "norm", x, 0.1, 1e-5)), 0.1);
  x = tc_cast(tc_nn_linear(m->p, "out", tc_cast(x, TC_F32)), TC_BF16);
  out[0] = tc_mean(tc_square(tc_cast(x, TC_F32)), TC_ALL, false);
  tc_status st = tc_backward(out[0]);
  out[1] = tc_clip_grad_norm(tc_nn_tensors(m->p), tc_nn_count(m->p), 0.05);
  if (st == TC_OK) st = tc_optimizer_step(m->opt);
  return st == TC_OK ? tc_zero_grad(m->opt) : st;
}

static void train_network_steps(bool adam, bool compiled, float *out) {
  tc_seed(3);
  network m = {tc_nn_params_create(), NULL};
  OK(tc_nn_add_embedding(m.p, "words", 5000, 4));
  OK(tc_nn_add_batch_norm(m.p, "norm", 4));
  OK(tc_nn_add_linear(m.p, "out", 4, 3, true));
  const tc_tensor *params = tc_nn_tensors(m.p);
  int n = tc_nn_count(m.p);
  m.opt = adam ? tc_adamw(params, n, (tc_adam_options){.lr = 0.01}) : tc_sgd(params, n, (tc_sgd_options){.lr = 0.5});
  tc_compiled *c = compiled ? tc_compile(train_network, &m, NULL) : NULL;
  for (int i = 0; i < 6; i++) {
    tc_scope s = tc_scope_begin();
    int64_t ids[6];
    for (int k = 0; k < 6; k++) ids[k] = (k * 7 + i * 11) % 40 + 100 * (k % 3);
    tc_tensor in = tc_from_host(ids, TC_SHAPE(2, 3), TC_I64), y[2];
    OK(c ? tc_compiled_call(c, &in, 1, y, 2) : train_network(&m, &in, 1, y, 2));
    OK(tc_item_f32(y[0], &out[2 * i]));
    OK(tc_item_f32(y[1], &out[2 * i + 1]));
    tc_scope_end(s);
  }
  read_out(tc_sum(tc_square(tc_nn_get(m.p, "words.weight")), TC_AXES(0), false), out + 12, 4);
  read_out(tc_nn_get(m.p, "norm.running_var"), out + 16, 4);
  if (c) expect_stats(c, 1, 5, 1, 0);
  tc_compiled_destroy(c);
  tc_optimizer_destroy(m.opt);
  tc_nn_params_destroy(m.p);
}

Test(compile, embeddings_batch_norm_and_clipping_train_as_recorded) {
  for (int adam = 0; adam < 2; adam++) {
    float want[20], got[20];
    train_network_steps(adam, false, want);
    train_network_steps(adam, true, got);
    EXPECT_SAME(got, want, 20);
  }
}

static tc_status forward(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  const model *m = user;
  (void)n_in, (void)n_out;
  out[0] = tc_mean(tc_matmul(tc_relu(tc_add(tc_matmul(in[0], m->p[0]), m->p[1])), m->p[2]), TC_ALL, false);
  return TC_OK;
}

Test(compile, a_momentum_that_changes_the_steps_ops_is_traced_again) {
  log_guards();
  float want[8], got[8];
  for (int k = 0; k < 2; k++) {
    model m = make_model(2);
    tc_compiled *c = tc_compile(train, &m, NULL);
    tc_tensor in[] = {tc_ones(TC_SHAPE(3, 4), TC_F32), tc_ones(TC_SHAPE(3, 2), TC_F32)}, loss;
    tc_seed(4);
    for (int i = 0; i < 8; i++) {
      if (i == 2) OK(tc_set_momentum(m.opt, 0.8));
      if (i == 4) OK(tc_set_momentum(m.opt, 0.3));  // lerp goes from the other end
      OK(k ? tc_compiled_call(c, in, 2, &loss, 1) : train(&m, in, 2, &loss, 1));
      OK(tc_item_f32(loss, &(k ? got : want)[i]));
    }
    if (k) expect_stats(c, 2, 6, 2, 0);
    tc_compiled_destroy(c);
    end_model(&m);
  }
  EXPECT_SAME(got, want, 8);
  expect_line("an optimizer that it steps has ended, or is another than it was");
}

Test(compile, gradients_go_through_a_call_and_accumulate) {
  model m = make_model(0);
  tc_compiled *c = tc_compile(forward, &m, NULL);
  float want[32], got[32];
  tc_tensor x = tc_ones(TC_SHAPE(3, 4), TC_F32), out;
  for (int i = 0; i < 2; i++) {
    OK(forward(&m, &x, 1, &out, 1));
    OK(tc_backward(out));
  }
  read_out(tc_grad(m.p[0]), want, 32);
  OK(tc_zero_grad(m.opt));
  for (int i = 0; i < 2; i++) {
    OK(tc_compiled_call(c, &x, 1, &out, 1));
    OK(tc_backward(out));
  }
  read_out(tc_grad(m.p[0]), got, 32);
  EXPECT_SAME(got, want, 32);
  expect_stats(c, 1, 1, 1, 0);
  tc_compiled_destroy(c);
  end_model(&m);
}

// The gradient of a gradient: x is made a parameter in the function, and ends there.
static tc_status fits_slope(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  tc_tensor w = *(tc_tensor *)user, x = tc_param(in[0]), slope;
  (void)n_in, (void)n_out;
  tc_tensor y = tc_sum(tc_sin(tc_mul(x, w)), TC_ALL, false);
  tc_status st = tc_grads_of(y, &x, 1, &slope, TC_CREATE_GRAPH);
  out[0] = tc_mean(tc_square(tc_sub(slope, 0.5)), TC_ALL, false);
  if (st == TC_OK) st = tc_backward(out[0]);
  tc_release(x);
  return st;
}

static tc_status keeps_its_parameter(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  tc_tensor *kept = user;
  *kept = tc_param(in[0]);
  out[0] = tc_exp(*kept);
  return TC_OK;
}

Test(compile, gradients_of_gradients_and_parameters_of_the_function) {
  tc_tensor w = tc_param(vector(0.25f)), w2 = tc_param(vector(0.25f)), kept = {0, 0}, out;
  float want[4][N], got[4][N];
  tc_compiled *c = tc_compile(fits_slope, &w, NULL), *d = tc_compile(keeps_its_parameter, &kept, NULL);
  for (int i = 0; i < 4; i++) {
    tc_tensor x = vector((float)i);
    OK(fits_slope(&w2, &x, 1, &out, 1));
    OK(tc_compiled_call(c, &x, 1, &out, 1));
    read_out(tc_grad(w2), want[i], N), read_out(tc_grad(w), got[i], N);
    if (i % 2) OK(tc_zero_grad_of(2, (tc_tensor[]){w, w2}));
  }
  EXPECT_SAME(got[0], want[0], 4 * N);
  expect_stats(c, 2, 2, 2, 0);
  tc_tensor x = vector(1);
  for (int i = 0; i < 2; i++) {
    OK(tc_compiled_call(d, &x, 1, &out, 1));
    cr_expect(tc_is_valid(kept));
    tc_release(kept);
  }
  cr_expect(strstr(tc_compiled_stats(d).why_recorded, "a tensor that outlives it"));
  tc_compiled_destroy(c), tc_compiled_destroy(d);
  tc_release(w), tc_release(w2);
}

// Borrowed memory that the function assigns is written when its value is needed.
static tc_status counts_up(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  out[0] = tc_mul(in[0], *(tc_tensor *)user);
  tc_status st = tc_assign(in[0], tc_add(in[0], 1.0));
  return st == TC_OK ? tc_assign(*(tc_tensor *)user, tc_mul(*(tc_tensor *)user, 2.0)) : st;
}

Test(compile, memory_of_the_callers_is_assigned) {
  float a[4] = {1, 2, 3, 4}, b[4] = {1, 1, 2, 2};
  tc_tensor x = tc_borrow(a, TC_SHAPE(4), TC_F32, TC_WRITABLE, NULL, NULL),
            w = tc_borrow(b, TC_SHAPE(4), TC_F32, TC_WRITABLE, NULL, NULL), out;
  tc_compiled *c = tc_compile(counts_up, &w, NULL);
  for (int i = 0; i < 4; i++) {
    OK(tc_compiled_call(c, &x, 1, &out, 1));
    OK(tc_sync(NULL));
    cr_expect_eq(a[3], (float)(5 + i), "%g", (double)a[3]);
    cr_expect_eq(b[3], (float)(4 << i), "%g", (double)b[3]);
  }
  expect_stats(c, 1, 3, 1, 0);
  tc_compiled_destroy(c);
}

Test(compile, an_optimizer_may_end_before_its_compiled_step) {
  log_guards();
  model m = make_model(2);
  tc_compiled *c = tc_compile(train, &m, NULL);
  tc_tensor in[] = {tc_ones(TC_SHAPE(3, 4), TC_F32), tc_ones(TC_SHAPE(3, 2), TC_F32)}, loss;
  OK(tc_compiled_call(c, in, 2, &loss, 1));
  tc_optimizer_destroy(m.opt);
  m.opt = tc_sgd(m.p, 4, (tc_sgd_options){.lr = 0.1});
  lines[0] = '\0';
  OK(tc_compiled_call(c, in, 2, &loss, 1));
  expect_line("an optimizer that it steps has ended");
  OK(tc_compiled_call(c, in, 2, &loss, 1));
  expect_stats(c, 2, 1, 2, 0);
  end_model(&m);
  tc_compiled_destroy(c);
}

// ---- compiled functions in compiled functions ----

static tc_status nests(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_out;
  tc_status st = tc_compiled_call(user, in, n_in, out, 1);
  out[0] = tc_mul(out[0], 2.0);
  return st;
}

Test(compile, a_compiled_function_may_call_another) {
  model m[2] = {make_model(2), make_model(2)};
  tc_compiled *inner = tc_compile(train, &m[0], NULL), *outer = tc_compile(nests, inner, NULL);
  tc_tensor in[] = {tc_ones(TC_SHAPE(3, 4), TC_F32), tc_ones(TC_SHAPE(3, 2), TC_F32)}, out;
  float want[4], got[4];
  tc_seed(2);
  for (int i = 0; i < 4; i++) {
    OK(train(&m[1], in, 2, &out, 1));
    OK(tc_item_f32(tc_mul(out, 2.0), &want[i]));
  }
  tc_seed(2);
  for (int i = 0; i < 4; i++) {
    OK(tc_compiled_call(outer, in, 2, &out, 1));
    OK(tc_item_f32(out, &got[i]));
  }
  EXPECT_SAME(got, want, 4);
  expect_stats(outer, 1, 3, 1, 0);
  tc_compiled_destroy(outer), tc_compiled_destroy(inner);
  end_model(&m[0]), end_model(&m[1]);
}

// ---- numbers and statics ----

typedef struct config {
  int power, unused;
} config;

static tc_status scaled(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  const config *c = user;
  (void)n_out;
  n_runs++;
  out[0] = tc_mul(in[0], in[1]);
  for (int i = 1; i < c->power; i++) out[0] = tc_mul(out[0], in[n_in - 1]);
  return TC_OK;
}

Test(compile, numbers_vary_without_another_graph_and_statics_do_not) {
  log_guards();
  config cfg = {2, 0};
  tc_static statics[] = {{"power", &cfg.power, sizeof cfg.power}};
  tc_compiled *c =
      tc_compile(scaled, &cfg, &(tc_compile_options){.name = "scaled", .statics = statics, .n_statics = 1});
  tc_tensor x = vector(1), out;
  float want[N], got[N];
  for (int i = 0; i < 4; i++) {
    cfg.unused = i;
    double number = 1.5 * i - 1;
    read_out(tc_mul(tc_mul(x, number), number), want, N);
    OK(tc_compiled_call_with(c, &x, 1, &number, 1, &out, 1));
    read_out(out, got, N);
    EXPECT_SAME(got, want, N);
  }
  expect_stats(c, 1, 3, 1, 0);
  expect_line("scaled: traced for graph 0, 2 records");
  cfg.power = 3;
  OK(tc_compiled_call_with(c, &x, 1, (double[]){2}, 1, &out, 1));
  read_out(out, got, N);
  cr_expect_eq(got[0], 8);
  expect_line("graph 1, 3 records: static 0, power holds other bytes");
  cfg.power = 2;
  OK(tc_compiled_call_with(c, &x, 1, (double[]){2}, 1, &out, 1));
  read_out(out, got, N);
  cr_expect_eq(got[0], 4);
  expect_stats(c, 2, 4, 2, 0);
  tc_compiled_destroy(c);
}

// ---- guards ----

static tc_status uses_found(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  out[0] = tc_add(in[0], tc_sum(tc_mul(*(tc_tensor *)user, 2.0), TC_ALL, false));
  return TC_OK;
}

typedef struct mode_case {
  tc_nn_params *p;
  bool sets;  // true: the function sets the mode
} mode_case;

static tc_status drops_out(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  const mode_case *m = user;
  (void)n_in, (void)n_out;
  if (m->sets) tc_nn_set_training(m->p, false);
  out[0] = tc_nn_dropout(m->p, in[0], 1);
  return TC_OK;
}

static tc_status calls_drops_out(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  return tc_compiled_call(*(tc_compiled **)user, in, n_in, out, n_out);
}

Test(compile, the_training_mode_of_a_model_is_a_guard) {
  log_guards();
  mode_case m = {tc_nn_params_create(), false};
  tc_compiled *c = tc_compile(drops_out, &m, NULL), *outer = tc_compile(calls_drops_out, &c, NULL);
  tc_tensor x = vector(1), out;
  float got[N];
  for (int i = 0; i < 8; i++) {
    tc_nn_set_training(m.p, i % 2 == 0);
    OK(tc_compiled_call(i < 4 ? c : outer, &x, 1, &out, 1));
    read_out(out, got, N);
    cr_expect_eq(got[0], i % 2 ? 1 : 0, "call %d", i);
  }
  expect_line("the training mode of a model is 0, was 1");
  cr_expect_eq(tc_compiled_stats(c).n_graphs, 2);
  cr_expect_eq(tc_compiled_stats(outer).n_graphs, 2);
  tc_compiled_destroy(c), tc_compiled_destroy(outer);
  m.sets = true;
  c = tc_compile(drops_out, &m, NULL);
  for (int i = 0; i < 4; i++) {
    tc_nn_set_training(m.p, i % 2 == 0);
    OK(tc_compiled_call(c, &x, 1, &out, 1));
    cr_expect_not(tc_nn_training(m.p));
  }
  cr_expect(strstr(tc_compiled_stats(c).why_recorded, "a training mode that it sets"));
  tc_nn_params_destroy(m.p);
  tc_compiled_destroy(c);
}

static tc_status scales(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  out[0] = tc_grad_scaler_scale(user, in[0]);
  return TC_OK;
}

Test(compile, a_gradient_scalers_state_is_a_guard) {
  tc_grad_scaler *s = tc_grad_scaler_create((tc_grad_scaler_options){.init_scale = 4});
  tc_compiled *c = tc_compile(scales, s, NULL);
  tc_tensor x = tc_scalar(3), out, tracker = tc_full_int(TC_SCALAR, 0, TC_I32);
  static const float want[] = {12, 12, 48, 96};
  float v;
  for (int i = 0; i < 4; i++) {
    if (i == 2) OK(tc_grad_scaler_use_state(s, tc_full(TC_SCALAR, 16, TC_F32), tracker));
    if (i == 3) OK(tc_grad_scaler_set_scale(s, 32));
    OK(tc_compiled_call(c, &x, 1, &out, 1));
    OK(tc_item_f32(out, &v));
    cr_expect_eq(v, want[i], "call %d: %g", i, (double)v);
  }
  cr_expect_eq(tc_compiled_stats(c).n_graphs, 2);
  tc_compiled_destroy(c);
  tc_grad_scaler_destroy(s);
}

Test(compile, each_guard_says_what_is_and_what_was) {
  log_guards();
  tc_tensor w = tc_param(vector(3)), w2 = tc_param(vector(4)), x = vector(1), y = vector(2), out[2];
  OK(tc_eval(2, (tc_tensor[]){w, w2}));
  tc_compiled *c = tc_compile(two_ops, NULL, &(tc_compile_options){.name = "f", .limit = 32});
#define CALL(a, b) OK(tc_compiled_call(c, (tc_tensor[]){a, b}, 2, out, 1))
  CALL(x, y);
  expect_line("f: traced for graph 0, 2 records");
  CALL(x, tc_ones(TC_SHAPE(2, N), TC_F32));
  expect_line("argument 1 is f32[2, 6], was f32[6]");
  CALL(x, y);
  CALL(tc_cast(x, TC_F64), y);
  expect_line("argument 0 is f64[6], was f32[6]");
  CALL(x, y);
  CALL(x, tc_mul(w, 1.0));
  expect_line("argument 1 is f32[6], with history, was f32[6]");
  CALL(x, y);
  CALL(x, x);
  expect_line("argument 1 is f32[6], the same tensor as argument 0, was f32[6]");
  CALL(x, y);
  CALL(x, w);
  expect_line("argument 1 is f32[6], a parameter, was f32[6]");
  CALL(x, w2);
  expect_line("argument 1 is f32[6], a parameter, was another one: f32[6], a parameter");
  CALL(x, y);
  tc_no_grad_begin();
  CALL(x, y);
  tc_no_grad_end();
  expect_line("gradients are off, were on");
  int n = tc_compiled_stats(c).n_graphs;
  CALL(x, y);
  CALL(x, w);
  CALL(x, w2);
  CALL(x, x);
  cr_expect_eq(tc_compiled_stats(c).n_graphs, n, "all are known");
  cr_expect_eq(lines[0], '\0', "%s", lines);
  tc_compiled_destroy(c);
  c = tc_compile(uses_found, &w, &(tc_compile_options){.name = "g"});
  OK(tc_compiled_call(c, &x, 1, out, 1));
  lines[0] = '\0';
  OK(tc_set_requires_grad(w, false));
  OK(tc_compiled_call(c, &x, 1, out, 1));
  expect_line("the tensor that mul at");
  OK(tc_set_default_device("tc:ref"));
  OK(tc_compiled_call(c, &x, 1, out, 1));
  expect_line("the default device is tc:ref, was tc:cpu");
  OK(tc_set_default_device("tc:cpu"));
  char text[1024];
  size_t length = tc_compiled_guards(c, 0, text, sizeof text);
  cr_expect_eq(length, strlen(text));
  cr_expect(strstr(text, "argument 0 is f32[6]\n") && strstr(text, "is f32[6], a parameter\n"), "%s", text);
  cr_expect_eq(tc_compiled_guards(c, 0, text, 5), length);
  cr_expect_eq(strlen(text), 4);
  cr_expect_eq(tc_compiled_guards(c, 9, text, sizeof text), 0);
  tc_compiled_destroy(c);
  tc_release(w), tc_release(w2);
}

// ---- autocast, regions, control flow ----

static tc_status product(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  out[0] = tc_add(tc_matmul(in[0], *(tc_tensor *)user), 1.0);
  return TC_OK;
}

Test(compile, autocast_and_the_options_of_regions_are_guards) {
  log_guards();
  tc_tensor x = matrix(1), w = tc_param(matrix(2)), out;
  float want[16], got[16];
  tc_compiled *c = tc_compile(product, &w, &(tc_compile_options){.name = "product"});
  OK(tc_compiled_call(c, &x, 1, &out, 1));
  for (int i = 0; i < 2; i++) {
    lines[0] = '\0';
    OK(tc_autocast_begin(TC_BF16));
    OK(product(&w, &x, 1, &out, 1));
    cr_expect_eq(tc_dtype(out), TC_BF16);
    read_out(tc_cast(out, TC_F32), want, 16);
    OK(tc_compiled_call(c, &x, 1, &out, 1));
    cr_expect_eq(tc_dtype(out), TC_BF16);
    OK(tc_autocast_end());
    read_out(tc_cast(out, TC_F32), got, 16);
    EXPECT_SAME(got, want, 16);
    if (i == 0) expect_line("autocast is another than it was");
  }
  expect_stats(c, 2, 1, 2, 0);
  OK(tc_region_begin(&(tc_region_options){.name = "strict", .options = "strict=1"}));
  OK(tc_compiled_call(c, &x, 1, &out, 1));
  tc_region_end();
  expect_line("graph 2");
  OK(tc_compiled_call(c, &x, 1, &out, 1));
  expect_stats(c, 3, 2, 3, 0);
  tc_compiled_destroy(c);
  tc_release(w);
}

Test(compile, calls_are_made_in_the_region_that_is_given) {
  tc_tensor x = matrix(1), w = matrix(2), out;
  float want[16], got[16];
  const tc_region_options strict = {.name = "calls", .options = "strict=1"}, eager = {.disable = TC_ON},
                          wrong = {.options = "strct=1"};
  tc_compiled *c = tc_compile(product, &w, &(tc_compile_options){.region = &strict}),
              *d = tc_compile(product, &w, &(tc_compile_options){.region = &eager}),
              *e = tc_compile(product, &w, &(tc_compile_options){.region = &wrong});
  OK(product(&w, &x, 1, &out, 1));
  read_out(out, want, 16);
  for (int i = 0; i < 3; i++) {
    OK(tc_compiled_call(c, &x, 1, &out, 1));
    read_out(out, got, 16);
    EXPECT_SAME(got, want, 16);
    OK(tc_compiled_call(d, &x, 1, &out, 1));
    read_out(out, got, 16);
    EXPECT_SAME(got, want, 16);
  }
  expect_stats(c, 1, 2, 1, 0);
  expect_stats(d, 0, 0, 0, 3);
  EXPECT_FAILS(tc_compiled_call(e, &x, 1, &out, 1), TC_ERR_ARG, "strct");
  cr_expect_not(tc_is_valid(out));
  OK(tc_region_begin(&strict));  // none is open still: the next end is this one's
  tc_region_end();
  tc_compiled_destroy(c), tc_compiled_destroy(d), tc_compiled_destroy(e);
}

static tc_status noisy_step(void *user, const tc_tensor *in, tc_tensor *out) {
  out[0] = tc_tanh(tc_add(tc_mul(in[0], *(tc_tensor *)user), tc_mul(tc_rand(TC_SHAPE(N), TC_F32), in[1])));
  return TC_OK;
}

static tc_status negated(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  out[0] = tc_neg(in[0]);
  return TC_OK;
}

static tc_status doubled(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  out[0] = tc_mul(in[0], 2.0);
  return TC_OK;
}

static tc_status loops(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  tc_tensor last, signs = tc_gt(tc_sum(in[0], TC_ALL, false), 0);
  (void)n_in, (void)n_out;
  tc_status st = tc_scan(noisy_step, user, &in[0], 1, &in[1], 1, &last, 0, NULL);
  if (st == TC_OK) st = tc_cond(signs, negated, doubled, NULL, &last, 1, &out[0], 1);
  return st == TC_OK ? tc_backward(tc_sum(out[0], TC_ALL, false)) : st;
}

Test(compile, control_flow_in_a_compiled_function) {
  tc_tensor w = tc_param(vector(0.5f)), w2 = tc_param(vector(0.5f));
  tc_compiled *c = tc_compile(loops, &w, &(tc_compile_options){.fullgraph = true});
  float want[4][2][N], got[4][2][N];
  for (int k = 0; k < 2; k++) {
    tc_seed(6);
    for (int i = 0; i < 4; i++) {
      tc_tensor in[] = {vector((float)(i - 3)), tc_linspace(0, 1 + i, 5, TC_F32)}, out;
      OK(k ? tc_compiled_call(c, in, 2, &out, 1) : loops(&w2, in, 2, &out, 1));
      read_out(out, (k ? got : want)[i][0], N);
      read_out(tc_grad(k ? w : w2), (k ? got : want)[i][1], N);
      OK(tc_zero_grad_of(1, k ? &w : &w2));
    }
  }
  EXPECT_SAME(got[0][0], want[0][0], 4 * 2 * N);
  expect_stats(c, 1, 3, 1, 0);
  tc_compiled_destroy(c);
  tc_release(w), tc_release(w2);
}

static tc_status accumulates(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  out[0] = tc_sum(tc_mul(*(tc_tensor *)user, in[0]), TC_ALL, false);
  return tc_backward(out[0]);
}

Test(compile, whether_a_parameter_has_a_gradient_is_a_guard) {
  log_guards();
  tc_tensor w = tc_param(vector(3)), x = vector(1), out;
  tc_compiled *c = tc_compile(accumulates, &w, NULL);
  float want[N], got[N];
  for (int i = 0; i < 4; i++) OK(tc_compiled_call(c, &x, 1, &out, 1));
  expect_line("a parameter has a gradient, had none");
  expect_stats(c, 2, 2, 2, 0);
  read_out(tc_grad(w), got, N);
  read_out(tc_mul(x, 4.0), want, N);
  EXPECT_SAME(got, want, N);
  tc_compiled_destroy(c);
  tc_release(w);
}

Test(compile, a_profile_tells_which_guard_failed_before_a_new_plan) {
  static char bytes[1 << 16];
  char file[] = "/tmp/tc-compiled-XXXXXX";
  close(mkstemp(file));
  tc_compiled *c = tc_compile(two_ops, NULL, &(tc_compile_options){.name = "two_ops"});
  OK(tc_profile_start(file));
  for (int n = 2; n < 4; n++) {
    tc_tensor x = tc_ones(TC_SHAPE(n), TC_F32), out;
    float got[4];
    OK(tc_compiled_call(c, (tc_tensor[]){x, x}, 2, &out, 1));
    read_out(out, got, (size_t)n);
  }
  OK(tc_profile_stop());
  FILE *f = fopen(file, "r");
  size_t n = fread(bytes, 1, sizeof bytes, f);
  fclose(f), remove(file);
  const char words[] = "two_ops was traced for graph 1: argument 0 is f32[3], was f32[2]";
  cr_expect(memmem(bytes, n, words, strlen(words)));
  tc_compiled_destroy(c);
}

Test(compile, beyond_the_limit_calls_are_recorded) {
  log_guards();
  tc_compiled *c = tc_compile(two_ops, NULL, &(tc_compile_options){.name = "f", .limit = 2}),
              *full = tc_compile(two_ops, NULL, &(tc_compile_options){.name = "f", .limit = 1, .fullgraph = true});
  tc_tensor out;
  for (int n = 1; n <= 4; n++) {
    tc_tensor x = tc_full(TC_SHAPE(n), 1.0, TC_F32);
    float got[4], want[4];
    OK(tc_compiled_call(c, (tc_tensor[]){x, x}, 2, &out, 1));
    read_out(out, got, (size_t)n);
    read_out(tc_ones(TC_SHAPE(n), TC_F32), want, (size_t)n);
    EXPECT_SAME(got, want, (size_t)n);
    if (n == 1) OK(tc_compiled_call(full, (tc_tensor[]){x, x}, 2, &out, 1));
    if (n == 2)
      EXPECT_FAILS(tc_compiled_call(full, (tc_tensor[]){x, x}, 2, &out, 1), TC_ERR_STATE,
                   "f needs another graph than its 1, the limit: argument 0 is f32[2], was f32[1]");
  }
  expect_stats(c, 2, 0, 2, 2);
  expect_line("calls that none of its 2 graphs, the limit, serves are recorded");
  cr_expect(strstr(tc_compiled_stats(c).why_recorded, "more than 2 graphs"));
  tc_compiled_destroy(c), tc_compiled_destroy(full);
}

// ---- functions without a graph ----

static tc_status branches(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  float v;
  n_runs++;
  tc_status st = tc_item_f32(tc_sum(in[0], TC_ALL, false), &v);
  out[0] = v > 0 ? tc_neg(in[0]) : tc_exp(in[0]);
  return st;
}

// Reads a value that is there already, which runs nothing.
static tc_status by_a_stored_sign(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  const tc_tensor *sign = user;
  float v[N];
  (void)n_in, (void)n_out;
  tc_status st = tc_to_host(*sign, v, sizeof v);
  out[0] = v[0] > 0 ? tc_mul(in[0], 2) : tc_neg(in[0]);
  return st;
}

static tc_status add_to_found(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  const tc_tensor *found = user;
  (void)n_in, (void)n_out;
  tc_status st = tc_assign(*found, tc_add(*found, 1));
  out[0] = tc_mul(in[0], 2);
  return st;
}

Test(compile, a_value_that_is_read_or_an_argument_that_is_found_has_no_graph) {
  tc_tensor sign = vector(1), x = vector(2), out;
  float got[N], want[N];
  tc_tensor both[] = {sign, x};
  OK(tc_eval(2, both));
  tc_compiled *c = tc_compile(by_a_stored_sign, &sign, NULL), *d = tc_compile(add_to_found, &sign, NULL);
  for (int i = 0; i < 4; i++) {
    OK(tc_assign(sign, tc_full(TC_SHAPE(N), i % 2 ? 1 : -1, TC_F32)));
    OK(tc_eval(1, &sign));
    OK(tc_compiled_call(c, &x, 1, &out, 1));
    read_out(out, got, N);
    read_out(i % 2 ? tc_mul(x, 2) : tc_neg(x), want, N);
    EXPECT_SAME(got, want, N);
  }
  OK(tc_compiled_call(d, &x, 1, &out, 1));
  for (int i = 0; i < 2; i++) {
    OK(tc_assign(sign, tc_full(TC_SHAPE(N), 3, TC_F32)));
    OK(tc_compiled_call(d, &sign, 1, &out, 1));
    read_out(out, got, N);
    read_out(tc_full(TC_SHAPE(N), 8, TC_F32), want, N);
    EXPECT_SAME(got, want, N);
  }
  tc_compiled_destroy(c), tc_compiled_destroy(d);
}

Test(compile, a_function_with_a_sync_point_is_recorded_each_time) {
  log_guards();
  tc_compiled *c = tc_compile(branches, NULL, &(tc_compile_options){.name = "branches"}),
              *full = tc_compile(branches, NULL, &(tc_compile_options){.name = "branches", .fullgraph = true});
  tc_tensor x = vector(1), y = tc_neg(x), out;
  float got[N], want[N];
  for (int i = 0; i < 4; i++) {
    OK(tc_compiled_call(c, i % 2 ? &x : &y, 1, &out, 1));
    read_out(out, got, N);
    read_out(i % 2 ? tc_neg(x) : tc_exp(y), want, N);
    EXPECT_SAME(got, want, N);
  }
  cr_expect_eq(n_runs, 4);
  expect_stats(c, 0, 0, 1, 3);
  expect_line("is recorded in each call: it has a value that it reads (item at");
  EXPECT_FAILS(tc_compiled_call(full, &x, 1, &out, 1), TC_ERR_STATE,
               "fullgraph asks for: it has a value that it reads (item at");
  cr_expect_not(tc_is_valid(out));
  EXPECT_FAILS(tc_compiled_call(full, &x, 1, &out, 1), TC_ERR_STATE, "a value that it reads (item at");
  tc_compiled_destroy(c), tc_compiled_destroy(full);
}

static tc_status sets_lr(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  model *m = user;
  tc_status st = tc_set_lr(m->opt, 0.005);
  return st == TC_OK ? train(user, in, n_in, out, n_out) : st;
}

Test(compile, a_function_that_sets_a_learning_rate_is_recorded) {
  model m[2] = {make_model(0), make_model(0)};
  tc_compiled *c = tc_compile(sets_lr, &m[0], NULL);
  tc_tensor in[] = {tc_ones(TC_SHAPE(3, 4), TC_F32), tc_ones(TC_SHAPE(3, 2), TC_F32)}, out;
  float want[3], got[3];
  for (int k = 0; k < 2; k++) {
    tc_seed(1);
    for (int i = 0; i < 3; i++) {
      OK(k ? tc_compiled_call(c, in, 2, &out, 1) : sets_lr(&m[1], in, 2, &out, 1));
      OK(tc_item_f32(out, k ? &got[i] : &want[i]));
    }
  }
  EXPECT_SAME(got, want, 3);
  cr_expect(strstr(tc_compiled_stats(c).why_recorded, "a learning rate that it sets (set_lr at"));
  tc_compiled_destroy(c);
  end_model(&m[0]), end_model(&m[1]);
}

static tc_status leaves_grads_off(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  tc_no_grad_begin();
  out[0] = tc_neg(in[0]);
  return TC_OK;
}

static tc_status seeds(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  tc_seed(12);
  out[0] = tc_add(in[0], tc_rand(TC_SHAPE(N), TC_F32));
  return TC_OK;
}

Test(compile, a_function_that_changes_the_threads_state_is_recorded) {
  tc_tensor x = vector(1), out;
  float first[N], second[N];
  tc_compiled *c = tc_compile(seeds, NULL, NULL), *d = tc_compile(leaves_grads_off, NULL, NULL);
  OK(tc_compiled_call(c, &x, 1, &out, 1));
  read_out(out, first, N);
  OK(tc_compiled_call(c, &x, 1, &out, 1));
  read_out(out, second, N);
  EXPECT_SAME(first, second, N);
  cr_expect(strstr(tc_compiled_stats(c).why_recorded, "a random state that it sets"));
  for (int i = 0; i < 2; i++) {
    OK(tc_compiled_call(d, &x, 1, &out, 1));
    tc_no_grad_end();
  }
  cr_expect(strstr(tc_compiled_stats(d).why_recorded, "tc_no_grad_begin"));
  tc_compiled_destroy(c), tc_compiled_destroy(d);
}

// ---- state of the library that the function reads ----

typedef struct reads {
  int which;
  tc_tensor w;
  tc_optimizer *opt;
  tc_schedule *schedule;
  tc_ema *ema;
} reads;

static tc_status reads_one(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  const reads *r = user;
  (void)n_in, (void)n_out;
  double by = r->which == 0   ? tc_get_lr(r->opt)
              : r->which == 1 ? tc_get_momentum(r->opt)
              : r->which == 2 ? (double)tc_schedule_n_steps(r->schedule)
              : r->which == 3 ? (double)tc_ema_n_averaged(r->ema)
              : r->which == 4 ? (tc_requires_grad(r->w) ? 2 : 3)
              : r->which == 5 ? (double)tc_get_rng_state().counter
                              : tc_get_initial_lr(r->opt, 0);
  out[0] = tc_mul(in[0], by);
  return TC_OK;
}

Test(compile, state_of_the_library_that_a_function_reads_is_followed) {
  static const char *const why[] = {"a learning rate that it reads (get_lr at",
                                    "a momentum that it reads (get_momentum at",
                                    "a schedule's count that it reads",
                                    "an average's count that it reads",
                                    "a tensor from outside of which it asks for gradients",
                                    "a random state that it reads",
                                    "a learning rate that it reads (get_initial_lr at"};
  tc_nn_params *model = tc_nn_params_create();
  tc_nn_add_linear(model, "a", 2, 2, true);
  for (int k = 0; k < 7; k++) {
    reads r = {.which = k, .w = tc_param(vector(1)), .ema = tc_ema_create(model, (tc_ema_options){0})};
    r.opt = tc_sgd(&r.w, 1, (tc_sgd_options){.lr = 1, .momentum = 0.5});
    r.schedule = tc_exponential_lr(r.opt, 0.5);
    tc_compiled *c = tc_compile(reads_one, &r, NULL);
    tc_tensor x = vector(2), out;
    float want[N], got[N];
    for (int i = 0; i < 2; i++) {
      OK(reads_one(&r, &x, 1, &out, 1));
      read_out(out, want, N);
      OK(tc_compiled_call(c, &x, 1, &out, 1));
      read_out(out, got, N);
      cr_expect_eq(memcmp(got, want, sizeof got), 0, "%s, call %d: %g, should be %g", why[k], i, got[0], want[0]);
      OK(tc_schedule_step(r.schedule));
      OK(tc_set_momentum(r.opt, 0.9));
      OK(tc_set_initial_lr(r.opt, 0, 7));
      OK(tc_ema_update(r.ema));
      tc_tensor drawn = tc_rand(TC_SHAPE(N), TC_F32);
      OK(tc_eval(1, &drawn));
      OK(tc_set_requires_grad(r.w, false));
    }
    cr_expect(strstr(tc_compiled_stats(c).why_recorded, why[k]), "%s", tc_compiled_stats(c).why_recorded);
    tc_compiled_destroy(c);
    tc_schedule_destroy(r.schedule), tc_optimizer_destroy(r.opt), tc_ema_destroy(r.ema), tc_release(r.w);
  }
  tc_nn_params_destroy(model);
}

static tc_status asks_for_gradients(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  out[0] = tc_mul(in[0], tc_requires_grad(in[0]) || tc_requires_grad(tc_neg(in[0])) ? 2.0 : 3.0);
  return TC_OK;
}

Test(compile, whether_an_argument_has_history_is_a_guard) {
  tc_tensor x = vector(1), w = tc_param(vector(1)), in[] = {x, tc_mul(w, 1.0), x}, out;
  tc_compiled *c = tc_compile(asks_for_gradients, NULL, NULL);
  for (int i = 0; i < 3; i++) {
    float got[N];
    OK(tc_compiled_call(c, &in[i], 1, &out, 1));
    read_out(out, got, N);
    cr_expect_eq(got[0], i == 1 ? 2 : 3);
  }
  expect_stats(c, 2, 1, 2, 0);
  tc_compiled_destroy(c), tc_release(w);
}

// ---- what the function leaves open ----

static tc_status leaves_open(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  tc_status st = TC_OK;
  out[0] = tc_neg(in[0]);
  switch (*(int *)user) {
    case 0: return tc_push_device("tc:cpu");
    case 1: st = tc_pop_device(); break;
    case 2: tc_record_only_begin(); break;
    case 3: tc_record_only_end(); break;
    default: break;
  }
  return st;
}

Test(compile, what_a_function_leaves_open_is_ended_and_an_error) {
  static const char *const words[] = {
      "the function has not ended its tc_push_device: call tc_pop_device",
      "the function has ended a tc_push_device of its caller's: remove that tc_pop_device",
      "the function has not ended its tc_record_only_begin: call tc_record_only_end",
      "the function has ended a tc_record_only_begin of its caller's: remove that tc_record_only_end"};
  for (int k = 0; k < 4; k++) {
    tc_tensor x = vector(1), out;
    float v[N];
    tc_compiled *c = tc_compile(leaves_open, &k, NULL);
    for (int i = 0; i < 2; i++) {
      if (k == 1) OK(tc_push_device("tc:cpu"));
      if (k == 3) tc_record_only_begin();
      EXPECT_FAILS(tc_compiled_call(c, &x, 1, &out, 1), TC_ERR_STATE, words[k]);
      if (k == 3) tc_record_only_end();
      cr_expect_neq(tc_pop_device(), TC_OK, "a device is pushed");
      tc_clear_error();
      read_out(tc_neg(x), v, N);  // this thread does not only record
    }
    expect_stats(c, 0, 0, 2, 0);
    tc_compiled_destroy(c);
  }
}

static tc_status ends_callers_scope(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  tc_scope_end(*(tc_scope *)user);
  out[0] = tc_neg(in[0]);
  return TC_OK;
}

Test(compile, to_end_the_callers_scope_is_an_error) {
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_retain(vector(1)), out;
  tc_compiled *c = tc_compile(ends_callers_scope, &scope, NULL);
  EXPECT_FAILS(tc_compiled_call(c, &x, 1, &out, 1), TC_ERR_STATE,
               "the function has ended a tc_scope_begin of its caller's: remove that tc_scope_end");
  float v[N];
  read_out(tc_neg(x), v, N);
  cr_expect_eq(v[0], -1);
  tc_compiled_destroy(c), tc_release(x);
}

static tc_status leaves_second_open(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  tc_no_grad_begin();
  out[0] = tc_neg(in[0]);
  return TC_OK;
}

Test(compile, an_open_no_grad_under_another_is_recorded) {
  tc_tensor x = vector(1), w = tc_param(vector(1)), out;
  tc_compiled *c = tc_compile(leaves_second_open, NULL, NULL);
  for (int i = 0; i < 2; i++) {
    tc_no_grad_begin();
    OK(tc_compiled_call(c, &x, 1, &out, 1));
    tc_no_grad_end();
    cr_expect_not(tc_requires_grad(tc_neg(w)));
    tc_no_grad_end();
    cr_expect(tc_requires_grad(tc_neg(w)));
  }
  tc_compiled_destroy(c), tc_release(w);
}

// ---- what the function reads in C ----

static tc_status counts(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  int *n = user;
  (void)n_in, (void)n_out;
  out[0] = tc_mul(tc_neg(in[0]), (double)++*n);
  return TC_OK;
}

static tc_status toggles(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  bool *neg = user;
  (void)n_in, (void)n_out;
  *neg = !*neg;
  out[0] = *neg ? tc_neg(in[0]) : tc_exp(in[0]);
  return TC_OK;
}

Test(compile, a_check_finds_c_state_that_changed_the_graph) {
  setenv("TC_CHECK_COMPILED", "2", 1);
  int n = 0;
  bool neg = false;
  tc_tensor x = vector(1), out, in[] = {x, vector(2)};
  tc_compiled *c = tc_compile(counts, &n, &(tc_compile_options){.name = "counts"}),
              *d = tc_compile(toggles, &neg, NULL), *fine = tc_compile(two_ops, NULL, NULL);
  OK(tc_compiled_call(c, &x, 1, &out, 1));
  EXPECT_FAILS(tc_compiled_call(c, &x, 1, &out, 1), TC_ERR_STATE,
               "what counts reads in C has changed its graph: mul at");
  cr_expect_eq(n, 2);
  OK(tc_compiled_call(d, &x, 1, &out, 1));
  EXPECT_FAILS(tc_compiled_call(d, &x, 1, &out, 1), TC_ERR_STATE, "is recorded as exp, neg at");
  for (int i = 0; i < 4; i++) OK(tc_compiled_call(fine, in, 2, &out, 1));
  cr_expect_eq(tc_compiled_stats(fine).n_checked, 2);
  model m = make_model(2);
  tc_compiled *step = tc_compile(train, &m, NULL);
  tc_tensor batch[] = {tc_ones(TC_SHAPE(3, 4), TC_F32), tc_ones(TC_SHAPE(3, 2), TC_F32)};
  for (int i = 0; i < 6; i++) OK(tc_compiled_call(step, batch, 2, &out, 1));
  cr_expect_eq(tc_compiled_stats(step).n_checked, 3);
  tc_compiled_destroy(c), tc_compiled_destroy(d), tc_compiled_destroy(fine), tc_compiled_destroy(step);
  end_model(&m);
}

// ---- wrong use, and errors inside ----

static tc_status fails(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  out[0] = tc_matmul(in[0], tc_zeros(TC_SHAPE(2, 2), TC_F32));
  return TC_OK;
}

static tc_status assigns_number(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_out;
  out[0] = tc_mul(in[0], 1.0);
  return tc_assign(in[n_in - 1], tc_zeros(TC_SCALAR, TC_F32));
}

Test(compile, wrong_use_is_an_error_that_says_what) {
  tc_tensor x = vector(1), out;
  cr_expect_null(tc_compile(NULL, NULL, NULL));
  cr_expect(strstr(tc_last_error()->message, "fn is NULL"));
  cr_expect_null(tc_compile(fails, NULL, &(tc_compile_options){.limit = -1}));
  cr_expect(strstr(tc_last_error()->message, "limit is -1"));
  cr_expect_null(tc_compile(fails, NULL, &(tc_compile_options){.n_statics = 1}));
  cr_expect(strstr(tc_last_error()->message, "1 statics at a null pointer"));
  cr_expect_null(tc_compile(fails, NULL, &(tc_compile_options){.statics = &(tc_static){.bytes = 4}, .n_statics = 1}));
  cr_expect(strstr(tc_last_error()->message, "static 0 has 4 bytes at a null pointer"));
  tc_compiled *c = tc_compile(fails, NULL, NULL);
  EXPECT_FAILS(tc_compiled_call(NULL, &x, 1, &out, 1), TC_ERR_ARG, "no compiled function");
  EXPECT_FAILS(tc_compiled_call(c, NULL, 1, &out, 1), TC_ERR_ARG, "1 arguments at a null pointer");
  EXPECT_FAILS(tc_compiled_call(c, &x, -1, &out, 1), TC_ERR_ARG, "-1 arguments");
  EXPECT_FAILS(tc_compiled_call(c, &x, 1, NULL, 1), TC_ERR_ARG, "1 results at a null pointer");
  EXPECT_FAILS(tc_compiled_call(c, &x, 1, &out, 1), TC_ERR_SHAPE, "matmul");
  cr_expect_not(tc_is_valid(out));
  EXPECT_FAILS(tc_compiled_call(c, &x, 1, &out, 1), TC_ERR_SHAPE, "matmul");
  tc_scope s = tc_scope_begin();
  tc_tensor dead = vector(1);
  tc_scope_end(s);
  EXPECT_FAILS(tc_compiled_call(c, &dead, 1, &out, 1), TC_ERR_HANDLE, "the tensor was released");
  expect_stats(c, 0, 1, 2, 0);
  tc_compiled *d = tc_compile(assigns_number, NULL, NULL);
  cr_expect_neq(tc_compiled_call_with(d, &x, 1, (double[]){1}, 1, &out, 1), TC_ERR_MEMORY);
  cr_expect(strstr(tc_compiled_stats(d).why_recorded, "a number that it assigns"));
  cr_expect_eq(tc_compiled_stats(NULL).n_calls, 0);
  tc_compiled_destroy(NULL);
  tc_compiled_destroy(c), tc_compiled_destroy(d);
}

static tc_status differentiates_root(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  out[0] = tc_sum(tc_sqrt(tc_mul(*(tc_tensor *)user, in[0])), TC_ALL, false);
  return tc_backward(out[0]);
}

Test(compile, an_anomaly_names_the_gradients_op_in_each_call) {
  setenv("TC_ANOMALY", "1", 1);
  tc_tensor w = tc_param(vector(1)), out;
  tc_compiled *c = tc_compile(differentiates_root, &w, NULL);
  for (int i = 0; i < 3; i++) {
    tc_tensor x = tc_full(TC_SHAPE(N), i == 1 ? 1.0 : 0.0, TC_F32);
    OK(tc_compiled_call(c, &x, 1, &out, 1));
    tc_tensor g = tc_grad(w);
    if (i == 1)
      OK(tc_eval(1, &g));
    else
      EXPECT_FAILS(tc_eval(1, &g), TC_ERR_ANOMALY, "a part of the gradient of sqrt at");
    OK(tc_zero_grad_of(1, &w));
  }
  expect_stats(c, 1, 2, 1, 0);
  tc_compiled_destroy(c);
  tc_release(w);
}

// ---- lives ----

Test(compile, results_belong_to_the_callers_scope_and_found_tensors_to_the_graph) {
  tc_tensor w = tc_retain(vector(3)), x = vector(1), out;
  tc_compiled *c = tc_compile(uses_found, &w, NULL);
  for (int i = 0; i < 2; i++) {
    tc_scope s = tc_scope_begin();
    OK(tc_compiled_call(c, &x, 1, &out, 1));
    cr_expect(tc_is_valid(out));
    tc_scope_end(s);
    cr_expect_not(tc_is_valid(out));
  }
  tc_scope s = tc_scope_begin();
  w = tc_retain(vector(5));
  tc_scope_end(s);
  tc_release(w);
  OK(tc_compiled_call(c, &x, 1, &out, 1));  // of the first w, which the graph holds
  float got[N], want[N];
  read_out(out, got, N);
  read_out(tc_add(x, 51.0), want, N);
  EXPECT_SAME(got, want, N);
  tc_compiled_destroy(c);
}

// ---- threads ----

typedef struct worker {
  tc_compiled *c;
  pthread_t thread;
  float got[50];
} worker;

static void *work(void *arg) {
  worker *w = arg;
  for (int i = 0; i < 50; i++) {
    tc_scope s = tc_scope_begin();
    tc_tensor x = tc_full(TC_SHAPE(N), (double)i, TC_F32), out;
    float v[N];
    if (tc_compiled_call(w->c, &x, 1, &out, 1) == TC_OK && tc_to_host(out, v, sizeof v) == TC_OK) w->got[i] = v[0];
    tc_scope_end(s);
  }
  return NULL;
}

Test(compile, several_threads_call_one) {
  tc_tensor w = tc_full(TC_SHAPE(N), 0.5, TC_F32);
  OK(tc_eval(1, &w));
  tc_compiled *c = tc_compile(uses_found, &w, &(tc_compile_options){.limit = 16});
  worker all[4];
  memset(all, 0, sizeof all);
  for (int i = 0; i < 4; i++) {
    all[i].c = c;
    cr_assert_eq(pthread_create(&all[i].thread, NULL, work, &all[i]), 0);
  }
  for (int i = 0; i < 4; i++) pthread_join(all[i].thread, NULL);
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 50; k++) cr_expect_eq(all[i].got[k], (float)k + N, "%g", (double)all[i].got[k]);
  tc_compiled_info info = tc_compiled_stats(c);
  cr_expect_eq(info.n_recorded, 0, "%s", info.why_recorded);
  cr_expect_eq(info.n_calls, 200);
  cr_expect_leq(info.n_traced, 4);
  tc_compiled_destroy(c);
}
