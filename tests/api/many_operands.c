// Expressions over more tensors and numbers than one kernel can name: joins, sums, chains and
// optimizers over hundreds, and cuts of all axes there can be, each at a place of its own. Values
// are small integers in f32, so every order of summation gives the same; parameters trained
// together have the bits of one trained alone.
#include <math.h>
#include <string.h>

#include "tests/expect.h"

enum { MOST = 300, LONG = 4 };

static tc_tensor x[MOST];
static float out[MOST * LONG];

static float value(int i, int k) {
  return (float)(i % 50 + k);
}

static void make_operands(void) {
  for (int i = 0; i < MOST; i++) {
    float v[LONG];
    for (int k = 0; k < LONG; k++) v[k] = value(i, k);
    x[i] = tc_from_host(v, TC_SHAPE(LONG), TC_F32);
  }
  EXPECT_OK(tc_eval(MOST, x));
}

static void joins(int n) {
  EXPECT_OK(tc_to_host(tc_cat(n, x, 0), out, (size_t)n * LONG * sizeof out[0]));
  for (int i = 0; i < n * LONG; i++)
    EXPECT(out[i] == value(i / LONG, i % LONG), "cat of %d: [%d] is %g", n, i, (double)out[i]);
  EXPECT_OK(tc_to_host(tc_mul(tc_stack(n, x, 1), 2), out, (size_t)n * LONG * sizeof out[0]));
  for (int i = 0; i < n * LONG; i++)
    EXPECT(out[i] == 2 * value(i % n, i / n), "stack of %d: [%d] is %g", n, i, (double)out[i]);
  int part = n / 4;  // four joins in one expression
  tc_tensor y =
      tc_add(tc_cat(part, x, 0),
             tc_mul(tc_cat(part, x + part, 0), tc_add(tc_cat(part, x + 2 * part, 0), tc_cat(part, x + 3 * part, 0))));
  EXPECT_OK(tc_to_host(y, out, (size_t)part * LONG * sizeof out[0]));
  for (int i = 0; i < part * LONG; i++) {
    int a = i / LONG, k = i % LONG;
    float want = value(a, k) + value(part + a, k) * (value(2 * part + a, k) + value(3 * part + a, k));
    EXPECT(out[i] == want, "four joins of %d: [%d] is %g, should be %g", part, i, (double)out[i], (double)want);
  }
}

static void the_gradient_of_a_join_reaches_every_part(int n) {
  tc_tensor p[MOST], weight = tc_arange(0, n * LONG, 1, TC_F32);
  for (int i = 0; i < n; i++) p[i] = tc_param(x[i]);
  EXPECT_OK(tc_backward(tc_sum(tc_mul(tc_cat(n, p, 0), weight), TC_ALL, false)));
  for (int i = 0; i < n; i++) {
    EXPECT_OK(tc_to_host(tc_grad(p[i]), out, LONG * sizeof out[0]));
    for (int k = 0; k < LONG; k++)
      EXPECT(out[k] == (float)(i * LONG + k), "gradient %d of %d: %g", i, n, (double)out[k]);
    tc_release(p[i]);
  }
}

static void sums(int n) {
  float want = 0;
  for (int i = 0; i < n; i++) want += value(i, 1);
  tc_tensor line = x[0], y[MOST];
  for (int i = 1; i < n; i++) line = tc_add(line, x[i]);
  EXPECT_OK(tc_to_host(line, out, LONG * sizeof out[0]));
  EXPECT(out[1] == want, "a sum of %d in a row is %g, should be %g", n, (double)out[1], (double)want);
  memcpy(y, x, sizeof y);
  for (int m = n; m > 1; m = (m + 1) / 2) {
    for (int i = 0; i < m / 2; i++) y[i] = tc_add(y[2 * i], y[2 * i + 1]);
    if (m & 1) y[m / 2] = y[m - 1];
  }
  EXPECT_OK(tc_to_host(y[0], out, LONG * sizeof out[0]));
  EXPECT(out[1] == want, "a sum of %d as a tree is %g, should be %g", n, (double)out[1], (double)want);
}

static void numbers_and_outputs(int n) {
  tc_tensor y[MOST], chain = x[3], constant = tc_scalar(1);
  float want = value(3, 2), want_constant = 1, v;
  for (int i = 0; i < n; i++) {
    y[i] = tc_add(i ? y[i - 1] : x[1], i);
    chain = tc_add(tc_mul(chain, i % 3 - 1), i), want = want * (float)(i % 3 - 1) + (float)i;
    constant = tc_add(constant, tc_scalar(i)), want_constant += (float)i;
  }
  EXPECT_OK(tc_eval(n, y));  // every value of the chain is stored
  for (int i = 0; i < n; i++) {
    EXPECT_OK(tc_to_host(y[i], out, LONG * sizeof out[0]));
    EXPECT(out[2] == value(1, 2) + (float)(i * (i + 1) / 2), "value %d of a chain of %d is %g", i, n, (double)out[2]);
  }
  EXPECT_OK(tc_to_host(chain, out, LONG * sizeof out[0]));
  EXPECT(out[2] == want, "a chain of %d numbers gives %g, should be %g", n, (double)out[2], (double)want);
  EXPECT_OK(tc_item_f32(constant, &v));
  EXPECT(v == want_constant, "%d constants sum to %g, should be %g", n, (double)v, (double)want_constant);
}

// ---- Optimizers ----

static tc_optimizer *make_optimizer(int kind, const tc_tensor *p, int n) {
  switch (kind) {
    case 0: return tc_sgd(p, n, (tc_sgd_options){.lr = 0.1, .momentum = 0.9});
    case 1: return tc_adam(p, n, (tc_adam_options){.lr = 0.1});
    case 2: return tc_adamw(p, n, (tc_adam_options){.lr = 0.1, .weight_decay = 0.01});
    default: return tc_rmsprop(p, n, (tc_rmsprop_options){.lr = 0.1});
  }
}

// Three steps of sum of squares over n parameters; the values of each afterwards.
static void train(int kind, int n, int first, float (*values)[LONG]) {
  tc_tensor p[MOST];
  for (int i = 0; i < n; i++) p[i] = tc_param(x[first + i]);
  tc_optimizer *opt = make_optimizer(kind, p, n);
  for (int step = 0; step < 3; step++) {
    tc_scope s = tc_scope_begin();
    tc_tensor loss = tc_scalar(0);
    for (int i = 0; i < n; i++) loss = tc_add(loss, tc_sum(tc_square(p[i]), TC_ALL, false));
    EXPECT_OK(tc_backward(loss));
    EXPECT_OK(tc_optimizer_step(opt));
    EXPECT_OK(tc_zero_grad(opt));
    tc_scope_end(s);
    EXPECT_OK(tc_sync(NULL));
  }
  tc_optimizer_destroy(opt);
  for (int i = 0; i < n; i++) {
    EXPECT_OK(tc_to_host(p[i], values[i], sizeof values[i]));
    tc_release(p[i]);
  }
}

static void parameters_learn_as_alone(int kind, int n) {
  static float together[MOST][LONG], alone[1][LONG];
  train(kind, n, 0, together);
  for (int i = 0; i < n; i += n / 4) {
    train(kind, 1, i, alone);
    EXPECT(memcmp(alone[0], together[i], sizeof alone[0]) == 0, "optimizer %d: parameter %d of %d is %g, alone %g",
           kind, i, n, (double)together[i][1], (double)alone[0][1]);
  }
}

// Gradients of sum(p^2) are 2p.
static void gradients_are_clipped_together(int n) {
  tc_tensor p[MOST], loss = tc_scalar(0);
  double square = 0;
  float norm = 0;
  for (int i = 0; i < n; i++) {
    p[i] = tc_param(x[i]);
    loss = tc_add(loss, tc_sum(tc_square(p[i]), TC_ALL, false));
    for (int k = 0; k < LONG; k++) square += 4.0 * (double)value(i, k) * (double)value(i, k);
  }
  EXPECT_OK(tc_backward(loss));
  tc_tensor total = tc_clip_grad_norm(p, n, 1.0);
  EXPECT_OK(tc_item_f32(total, &norm));
  EXPECT(fabs((double)norm - sqrt(square)) <= 1e-5 * sqrt(square), "norm of %d gradients: %g, should be %g", n,
         (double)norm, sqrt(square));
  for (int i = 0; i < n; i++) {
    EXPECT_OK(tc_to_host(tc_grad(p[i]), out, LONG * sizeof out[0]));
    double want = 2.0 * (double)value(i, 3) / sqrt(square);
    EXPECT(fabs((double)out[3] - want) <= 1e-5 * want, "clipped gradient %d of %d: %g, should be %g", i, n,
           (double)out[3], want);
    tc_release(p[i]);
  }
}

// The cube of 2^8 that lies in one of 3^8, which counts its elements, and its gradient.
static void every_axis_is_cut(void) {
  enum { OUTER = 6561, INNER = 256 };
  static float g[OUTER];
  const int64_t start[8] = {1, 0, 1, 1, 0, 1, 1, 1};
  tc_tensor all = tc_reshape(tc_arange(0, OUTER, 1, TC_F32), TC_SHAPE(3, 3, 3, 3, 3, 3, 3, 3)), cut, grad;
  EXPECT_OK(tc_eval(1, &all));
  EXPECT_OK(tc_set_requires_grad(all, true));
  cut = all;
  for (int k = 0; k < 8; k++) cut = tc_slice(cut, k, start[k], start[k] + 2, 1);
  EXPECT_OK(tc_grads_of(tc_sum(tc_mul(cut, 2), TC_ALL, false), &all, 1, &grad, 0));
  EXPECT_OK(tc_to_host(cut, out, INNER * sizeof out[0]));
  EXPECT_OK(tc_to_host(grad, g, sizeof g));
  for (int i = 0; i < INNER; i++) {
    int at = 0;
    for (int k = 0; k < 8; k++) at = 3 * at + (int)start[k] + (i >> (7 - k)) % 2;
    EXPECT(out[i] == (float)at && g[at] == 2, "cut [%d] is %g, should be %d; its gradient %g, should be 2", i,
           (double)out[i], at, (double)g[at]);
    g[at] = 0;
  }
  for (int i = 0; i < OUTER; i++) EXPECT(g[i] == 0, "the gradient [%d], which is cut away, is %g", i, (double)g[i]);
}

int main(void) {
  const char *const devices[] = {"tc:cpu", "tc:ref"};
  for (int d = 0; d < 2; d++) {
    EXPECT_OK(tc_set_default_device(devices[d]));
    tc_scope all = tc_scope_begin();
    make_operands();
    every_axis_is_cut();
    for (int n = 60; n <= MOST; n += 80) {
      tc_scope s = tc_scope_begin();
      joins(n);
      the_gradient_of_a_join_reaches_every_part(n);
      sums(n);
      numbers_and_outputs(n);
      gradients_are_clipped_together(n);
      tc_scope_end(s);
    }
    for (int kind = 0; kind < 4 && d == 0; kind++)
      for (int n = 20; n <= 200; n += 180) parameters_learn_as_alone(kind, n);
    tc_scope_end(all);
  }
  return expect_done("api-many_operands");
}
