// Steps whose instructions cost.py counts, with a profile and without: measured_steps runs after a
// warm-up, and callgrind counts what is called from it.
//   profile_cost step100|mlptrain_mid
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tc/nn.h>
#include <tc/tc.h>

static tc_tensor a, b, x, y, w[3], bias[3];
static tc_optimizer *optimizer;

static tc_status small_step(void) {
  float out[100];
  tc_scope scope = tc_scope_begin();
  tc_tensor t = a;
  for (int k = 0; k < 10; k++) {
    t = tc_relu(tc_mul(tc_add(t, b), a));
    t = tc_maximum(tc_abs(tc_sub(t, b)), a);
    t = tc_minimum(tc_add(tc_neg(tc_mul(t, 0.5)), 1.0), b);
  }
  tc_status st = tc_to_host(t, out, sizeof out);
  tc_scope_end(scope);
  return st;
}

static tc_status train_step(void) {
  float loss;
  tc_scope scope = tc_scope_begin();
  tc_tensor h = x;
  for (int i = 0; i < 3; i++) {
    h = tc_add(tc_matmul(h, w[i]), bias[i]);
    if (i < 2) h = tc_relu(h);
  }
  tc_tensor l = tc_mse_loss(h, y);
  tc_status st = tc_backward(l);
  if (st == TC_OK) st = tc_optimizer_step(optimizer);
  if (st == TC_OK) st = tc_zero_grad(optimizer);
  if (st == TC_OK) st = tc_item_f32(l, &loss);
  tc_scope_end(scope);
  return st;
}

__attribute__((noinline)) static tc_status run_steps(tc_status (*step)(void), int n) {
  tc_status st = TC_OK;
  for (int i = 0; i < n && st == TC_OK; i++) st = step();
  return st;
}

__attribute__((noinline, noipa)) static tc_status measured_steps(tc_status (*step)(void), int n) {
  return run_steps(step, n);
}

int main(int argc, char **argv) {
  static const int extent[] = {784, 512, 512, 10};
  bool small = argc > 1 && strcmp(argv[1], "step100") == 0;
  tc_seed(1);
  a = tc_retain(tc_rand(TC_SHAPE(10, 10), TC_F32)), b = tc_retain(tc_rand(TC_SHAPE(10, 10), TC_F32));
  x = tc_retain(tc_rand(TC_SHAPE(128, 784), TC_F32)), y = tc_retain(tc_rand(TC_SHAPE(128, 10), TC_F32));
  for (int i = 0; i < 3; i++) {
    w[i] = tc_param(tc_mul(tc_randn(TC_SHAPE(extent[i], extent[i + 1]), TC_F32), 0.05));
    bias[i] = tc_param(tc_zeros(TC_SHAPE(extent[i + 1]), TC_F32));
  }
  tc_tensor params[] = {w[0], bias[0], w[1], bias[1], w[2], bias[2]};
  optimizer = tc_adam(params, 6, (tc_adam_options){.lr = 1e-3, TC_ADAM_DEFAULTS});
  tc_status (*step)(void) = small ? small_step : train_step;
  tc_status st = run_steps(step, 6);
  if (st == TC_OK) st = measured_steps(step, small ? 50 : 3);
  if (st != TC_OK) return fprintf(stderr, "%s\n", tc_last_error()->message), 1;
  return 0;
}
