// relu(Linear(100, 10)) of a batch of four rows. No call in between is checked: a wrong one gives a
// poisoned handle, and the sync point tells.
#include <stdio.h>
#include <tc/tc.h>

int main(void) {
  tc_seed(1);
  tc_tensor x = tc_randn(TC_SHAPE(4, 100), TC_F32);
  // Uniform within 1 / sqrt(100), as PyTorch's Linear starts; the layout [out, in] is PyTorch's,
  // too.
  tc_tensor weight = tc_mul(tc_sub(tc_rand(TC_SHAPE(10, 100), TC_F32), 0.5), 0.2);
  tc_tensor bias = tc_zeros(TC_SHAPE(10), TC_F32);
  // Made before, so that what is printed runs the layer alone: a product, and what follows it.
  if (tc_eval(3, (tc_tensor[]){x, weight, bias}) == TC_OK && tc_print(tc_relu(tc_linear(x, weight, bias))) == TC_OK)
    return 0;
  fprintf(stderr, "%s\n", tc_last_error()->message);
  return 1;
}
