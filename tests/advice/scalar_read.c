// The loss is read in the middle of each step. Mended: it is read at the end of every 100th one.
#include "tests/advice/check.h"

int main(int argc, char **argv) {
  bool mended = argc > 1 && argv[1];
  float loss_now = 0;
  tc_tensor x = made(tc_randn(TC_SHAPE(16, 16), TC_F32)), y = made(tc_randn(TC_SHAPE(16, 1), TC_F32));
  tc_tensor p[] = {tc_param(tc_randn(TC_SHAPE(16, 16), TC_F32)), tc_param(tc_zeros(TC_SHAPE(16), TC_F32)),
                   tc_param(tc_randn(TC_SHAPE(1, 16), TC_F32)), tc_param(tc_zeros(TC_SHAPE(1), TC_F32))};
  tc_optimizer *opt = tc_sgd(p, 4, (tc_sgd_options){.lr = 1e-3});
  for (int i = 0; i < 2000; i++) {
    tc_scope step = tc_scope_begin();
    tc_tensor loss = tc_mse_loss(tc_linear(tc_relu(tc_linear(x, p[0], p[1])), p[2], p[3]), y);
    if (!mended) check(tc_item_f32(loss, &loss_now));  // FAULT
    check(tc_backward(loss));
    check(tc_optimizer_step(opt));
    check(tc_zero_grad(opt));
    tc_keep(loss);
    tc_scope_end(step);
    if (mended && i % 100 == 99) check(tc_item_f32(loss, &loss_now));
    tc_release(loss);
  }
  tc_optimizer_destroy(opt);
  return !(loss_now > 0);
}
