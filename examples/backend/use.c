// Loads a back end and trains on its device: use BACKEND.so
//
// The loss falls as on any device. At the end it says what ran where.
#include <stdio.h>
#include <tc/backend.h>

int main(int argc, char **argv) {
  const char *device;
  if (argc != 2) return fprintf(stderr, "use BACKEND.so\n"), 2;
  if (tc_backend_load(argv[1], &device) != TC_OK || tc_set_default_device(device) != TC_OK)
    return fprintf(stderr, "%s\n", tc_last_error()->message), 1;
  printf("device %s\n", tc_get_default_device());
  tc_seed(1);
  tc_tensor x = tc_randn(TC_SHAPE(64, 4), TC_F32);
  tc_tensor y = tc_sum(tc_mul(x, tc_arange(1, 5, 1, TC_F32)), TC_AXES(1), false);  // 1 2 3 4 are to be found
  tc_tensor w = tc_param(tc_zeros(TC_SHAPE(4), TC_F32));
  tc_optimizer *opt = tc_sgd(&w, 1, (tc_sgd_options){.lr = 0.1});
  for (int step = 0; step < 100; step++) {
    float v;
    tc_scope outer = tc_scope_begin(), inner = tc_scope_begin();
    tc_tensor loss = tc_mse_loss(tc_sum(tc_mul(x, w), TC_AXES(1), false), y);
    (void)tc_backward(loss);
    (void)tc_optimizer_step(opt);
    (void)tc_zero_grad(opt);
    tc_keep(loss);
    tc_scope_end(inner);
    if (tc_item_f32(loss, &v) != TC_OK) return fprintf(stderr, "%s\n", tc_last_error()->message), 1;
    if (step % 25 == 0) printf("step %d: loss %.4f\n", step, (double)v);
    tc_scope_end(outer);
  }
  if (tc_print(tc_round(w)) != TC_OK) return 1;
  tc_tensor on_cpu = tc_to(w, "tc:cpu");  // a copy, which the CPU computes with
  if (tc_print(tc_round(tc_mul(on_cpu, on_cpu))) != TC_OK) return 1;
  tc_tensor z = tc_erf(w);  // no op of toy.c: the CPU runs it
  if (tc_eval(1, &z) != TC_OK) return 1;
  tc_sync_point last;
  if (tc_sync_points(1, &last) == 1)
    printf("of %u kernels the CPU ran %u, and %llu bytes were copied\n", last.n_kernels, last.n_fallbacks,
           (unsigned long long)last.fallback_bytes);
  tc_optimizer_destroy(opt);
  tc_release(w);
  return 0;
}
