// The table of the step before is kept in each step, so that all of the table is copied for a few
// new rows. Mended: it is kept every 100 steps.
#include "tests/advice/check.h"

int main(int argc, char **argv) {
  bool mended = argc > 1 && argv[1];
  float now = 0;
  tc_tensor table = tc_param(tc_rand(TC_SHAPE(1 << 15, 16), TC_F32)), kept = {0, 0};
  tc_tensor ids = made(tc_randint(0, 1000, TC_SHAPE(32), TC_I64));
  tc_optimizer *opt = tc_sgd(&table, 1, (tc_sgd_options){.lr = 1e-3});
  for (int i = 0; i < 300; i++) {
    tc_scope step = tc_scope_begin();
    if (!mended || i % 100 == 0) tc_release(kept), kept = tc_retain(tc_detach(table)), check(tc_eval(1, &kept));
    tc_tensor loss = tc_mean(tc_square(tc_embedding(table, ids)), TC_AXES(0, 1), false);
    check(tc_backward(loss));
    check(tc_optimizer_step(opt));  // FAULT
    check(tc_zero_grad(opt));
    tc_keep(loss);
    tc_scope_end(step);
    if (i % 100 == 99) check(tc_item_f32(loss, &now));
    tc_release(loss);
  }
  tc_release(kept);
  tc_optimizer_destroy(opt);
  return !(now > 0);
}
