// Trains a 32 -> 256 -> 256 -> 10 network in mixed precision: in f32, under autocast to bf16, and
// under autocast to f16 with a gradient scaler, whose scale begins so high that the first steps are
// left out until it fits. Exits 1 unless the losses of 20 steps or more end near each other.
//   example-amp [steps = 20]
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tc/amp.h>

static void check(tc_status st) {
  if (st == TC_OK) return;
  fprintf(stderr, "%s\n", tc_last_error()->message);
  exit(1);
}

static tc_tensor forward(const tc_nn_params *model, tc_tensor x) {
  tc_tensor h = tc_relu(tc_nn_linear(model, "fc1", x));  // products and relu in the low type
  h = tc_relu(tc_nn_linear(model, "fc2", tc_nn_layer_norm(model, "norm", h, 1e-5)));  // the norm in f32
  return tc_nn_linear(model, "fc3", h);
}

// Returns the last loss. type: TC_F32 for no autocast.
static float train(tc_type type, int n_steps) {
  tc_seed(1);
  tc_tensor x = tc_randn(TC_SHAPE(512, 32), TC_F32), teacher = tc_randn(TC_SHAPE(32, 10), TC_F32);
  tc_tensor y = tc_argmax(tc_matmul(x, teacher), 1, false);
  check(tc_eval(2, (tc_tensor[]){x, y}));
  tc_nn_params *model = tc_nn_params_create();
  check(tc_nn_add_linear(model, "fc1", 32, 256, true));
  check(tc_nn_add_layer_norm(model, "norm", 256));
  check(tc_nn_add_linear(model, "fc2", 256, 256, true));
  check(tc_nn_add_linear(model, "fc3", 256, 10, true));
  tc_optimizer *opt = tc_adamw(tc_nn_tensors(model), tc_nn_count(model), (tc_adam_options){.lr = 2e-3});
  tc_grad_scaler *scaler =
      tc_grad_scaler_create((tc_grad_scaler_options){.init_scale = 0x1p24, .disabled = type != TC_F16});
  float loss_now = NAN;
  for (int step = 0; step < n_steps; step++) {
    tc_scope scope = tc_scope_begin();
    check(tc_autocast_begin_with(
        (tc_autocast_options){.type = type == TC_F32 ? TC_BF16 : type, .disabled = type == TC_F32}));
    tc_tensor loss = tc_cross_entropy(forward(model, x), y);
    check(tc_autocast_end());  // the backward runs in the types of the forward
    check(tc_backward(tc_grad_scaler_scale(scaler, loss)));
    check(tc_grad_scaler_step(scaler, opt));  // left out on the device if a gradient is not finite
    check(tc_grad_scaler_update(scaler));
    check(tc_zero_grad(opt));
    if (step == n_steps - 1) check(tc_item_f32(loss, &loss_now));
    tc_scope_end(scope);
  }
  printf("%-4s loss %.2f, scale %g\n", tc_type_name(type), (double)loss_now, tc_grad_scaler_get_scale(scaler));
  tc_grad_scaler_destroy(scaler);
  tc_optimizer_destroy(opt);
  tc_nn_params_destroy(model);
  return loss_now;
}

int main(int argc, char **argv) {
  int n_steps = argc > 1 ? atoi(argv[1]) : 20;
  float f32 = train(TC_F32, n_steps), bf16 = train(TC_BF16, n_steps), f16 = train(TC_F16, n_steps);
  if (n_steps < 20) return 0;  // f16 has left out most of them
  return fabsf(bf16 - f32) < 0.05f && fabsf(f16 - f32) < 0.3f ? 0 : 1;
}
