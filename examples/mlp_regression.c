// Trains a 10 -> 128 -> 1 network with Adam to give the sum of the sines of its inputs. Exits 1 if
// the loss does not fall tenfold.
//   example-mlp_regression [--small] [steps = 500]     --small: fewer rows, units and steps (60), for slow devices
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tc/tc.h>

enum { N_IN = 10 };

static void check(tc_status st) {
  if (st == TC_OK) return;
  fprintf(stderr, "%s\n", tc_last_error()->message);
  exit(1);
}

// A parameter, uniform within bound. It outlives the scope it is made in, until tc_release.
static tc_tensor uniform(tc_dims shape, double bound) {
  return tc_param(tc_mul(tc_sub(tc_rand(shape, TC_F32), 0.5), 2 * bound));
}

int main(int argc, char **argv) {
  bool small = argc > 1 && strcmp(argv[1], "--small") == 0;
  if (small) argc--, argv++;
  int n_steps = argc > 1 ? atoi(argv[1]) : small ? 60 : 500, n_rows = small ? 32 : 256, n_hidden = small ? 32 : 128;
  tc_seed(1);
  tc_tensor x = tc_randn(TC_SHAPE(n_rows, N_IN), TC_F32);
  tc_tensor y = tc_sum(tc_sin(x), TC_AXES(1), true);
  double in = 1 / sqrt(N_IN), hidden = 1 / sqrt(n_hidden);
  tc_tensor p[] = {uniform(TC_SHAPE(n_hidden, N_IN), in), uniform(TC_SHAPE(n_hidden), in),
                   uniform(TC_SHAPE(1, n_hidden), hidden), uniform(TC_SHAPE(1), hidden)};
  check(tc_eval(2, (tc_tensor[]){x, y}));
  tc_optimizer *opt = tc_adam(p, 4, (tc_adam_options){.lr = small ? 3e-2 : 3e-3, TC_ADAM_DEFAULTS});

  float first = 0, now = 0;
  for (int i = 0; i < n_steps; i++) {
    tc_scope scope = tc_scope_begin();  // what a step makes dies with the step
    tc_tensor out = tc_linear(tc_relu(tc_linear(x, p[0], p[1])), p[2], p[3]);
    tc_tensor loss = tc_mse_loss(out, y);
    check(tc_backward(loss));
    check(tc_optimizer_step(opt));
    check(tc_zero_grad(opt));
    // of the step only the loss is left: then parameters are updated in place, and a step that is
    // read is like any other
    tc_keep(loss);
    tc_scope_end(scope);
    if (i % 50 == 0 || i == n_steps - 1) {  // reading the loss waits for it, so not at every step
      check(tc_item_f32(loss, &now));
      if (i == 0) first = now;
      printf("step %3d  loss %.4f\n", i, (double)now);
    }
    tc_release(loss);
  }
  tc_optimizer_destroy(opt);
  for (int i = 0; i < 4; i++) tc_release(p[i]);
  if (now < first / 10) return 0;
  fprintf(stderr, "the loss did not fall: %g at first, %g at last\n", (double)first, (double)now);
  return 1;
}
