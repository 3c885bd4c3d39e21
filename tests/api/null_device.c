// tc:null computes nothing: every result has its shape, its type and zeros, whatever was recorded;
// data put there can still be read.
#include <string.h>

#include "tests/expect.h"

static void results_are_zeros(void) {
  float v[12];
  memset(v, 0xFF, sizeof v);
  tc_tensor x = tc_ones(TC_SHAPE(3, 4), TC_F32);
  tc_tensor y = tc_softmax(tc_matmul(tc_add(tc_exp(x), 1), tc_reshape(x, TC_SHAPE(4, 3))), 1);
  EXPECT(tc_shape(y).rank == 2 && tc_shape(y).dim[0] == 3 && tc_shape(y).dim[1] == 3, "a wrong shape");
  EXPECT_OK(tc_to_host(y, v, 9 * sizeof *v));
  for (int i = 0; i < 9; i++) EXPECT(v[i] == 0, "element %d is %g", i, (double)v[i]);
  EXPECT_OK(tc_to_host(tc_flip(x, TC_AXES(0)), v, sizeof v));
  for (int i = 0; i < 12; i++) EXPECT(v[i] == 0, "element %d of a view is %g", i, (double)v[i]);
}

static void data_is_kept(void) {
  float v[2];
  tc_tensor x = tc_from_host((const float[]){1, 2}, TC_SHAPE(2), TC_F32);
  EXPECT_OK(tc_to_host(x, v, sizeof v));
  EXPECT(v[0] == 1 && v[1] == 2, "data is %g %g", (double)v[0], (double)v[1]);
}

static void other_devices_read_zeros(void) {
  float v[2] = {9, 9};
  tc_tensor x = tc_add(tc_from_host((const float[]){1, 2}, TC_SHAPE(2), TC_F32), 1);
  EXPECT_OK(tc_to_host(tc_add(tc_to(x, "tc:cpu"), 3), v, sizeof v));
  EXPECT(v[0] == 3 && v[1] == 3, "zeros plus three are %g %g", (double)v[0], (double)v[1]);
}

static void training_costs_no_kernel(void) {
  tc_tensor w = tc_param(tc_zeros(TC_SHAPE(4), TC_F32));
  tc_optimizer *opt = tc_sgd(&w, 1, (tc_sgd_options){.lr = 0.1});
  uint64_t compiles = tc_cache_stats().compiles;
  for (int step = 0; step < 3; step++) {
    tc_scope s = tc_scope_begin();
    float loss = 1;
    tc_tensor y = tc_mse_loss(tc_mul(w, 2), tc_ones(TC_SHAPE(4), TC_F32));
    EXPECT_OK(tc_backward(y));
    EXPECT_OK(tc_optimizer_step(opt));
    EXPECT_OK(tc_zero_grad(opt));
    EXPECT_OK(tc_item_f32(y, &loss));
    EXPECT(loss == 0, "the loss is %g", (double)loss);
    tc_scope_end(s);
  }
  EXPECT(tc_cache_stats().compiles == compiles, "kernels were compiled");
  tc_optimizer_destroy(opt);
  tc_release(w);
}

int main(void) {
  EXPECT_OK(tc_set_default_device("tc:null"));
  tc_scope s = tc_scope_begin();
  results_are_zeros();
  data_is_kept();
  other_devices_read_zeros();
  training_costs_no_kernel();
  tc_scope_end(s);
  return expect_done("api-null_device");
}
