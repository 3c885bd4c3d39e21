// Rows that one block of a GPU has no room for, simulated: softmax, norms, losses and their
// gradients beside the reference, by clusters on a device that has them and without on one that has
// not; the same bits again when the plan is replayed.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tc/tc.h>

#include "tests/child.h"
#include "tests/sim/built.h"

typedef tc_tensor make(tc_tensor x, tc_tensor w);

static tc_tensor softmax(tc_tensor x, tc_tensor w) {
  (void)w;
  return tc_softmax(x, 1);
}

static tc_tensor norm(tc_tensor x, tc_tensor w) {
  return tc_layer_norm(x, w, w, 1e-5);
}

static tc_tensor norm_gradient(tc_tensor x, tc_tensor w) {
  tc_tensor out[1], y = tc_sum(tc_mul(tc_cast(tc_layer_norm(x, w, w, 1e-5), TC_F32), w), tc_dims_all(), false);
  EXPECT(tc_grads_of(y, &x, 1, out, 0) == TC_OK, "%s", tc_last_error()->message);
  return out[0];
}

static tc_tensor loss_gradient(tc_tensor x, tc_tensor w) {
  (void)w;
  int64_t rows = tc_shape(x).dim[0];
  tc_tensor out[1], at = tc_mul(tc_arange(0, rows, 1, TC_I64), 2000), y = tc_cross_entropy(x, at);
  EXPECT(tc_grads_of(y, &x, 1, out, 0) == TC_OK, "%s", tc_last_error()->message);
  return tc_mul(out[0], (double)rows);
}

static tc_tensor greatest(tc_tensor x, tc_tensor w) {
  (void)w;
  return tc_cast(tc_argmax(x, 1, false), TC_F32);
}

static const struct row {
  const char *name;
  make *of;
  tc_type type;
  int64_t rows, n;
  float within;  // of the greatest
} rows[] = {
    {"softmax", softmax, TC_F32, 16, 65600, 2e-5f},    {"softmax of halves", softmax, TC_BF16, 16, 32777, 2e-2f},
    {"norm", norm, TC_F32, 17, 33000, 2e-5f},          {"norm's gradient", norm_gradient, TC_F32, 16, 32801, 5e-5f},
    {"loss", loss_gradient, TC_F32, 18, 40003, 2e-5f}, {"greatest", greatest, TC_F32, 16, 32770, 0},
};
enum { LONGEST = 65600, MOST = 16 * LONGEST };

static float x[MOST], w[LONGEST];

static size_t run(const struct row *r, const char *device, float *got) {
  EXPECT(tc_push_device(device) == TC_OK, "%s", tc_last_error()->message);
  tc_scope s = tc_scope_begin();
  tc_tensor a = tc_cast(tc_from_host(x, TC_SHAPE(r->rows, r->n), TC_F32), r->type),
            b = tc_from_host(w, TC_SHAPE(r->n), TC_F32);
  EXPECT(tc_eval(2, (tc_tensor[]){a, b}) == TC_OK && tc_set_requires_grad(a, true) == TC_OK, "%s",
         tc_last_error()->message);
  tc_tensor y = tc_cast(r->of(a, b), TC_F32);
  size_t n = 1;
  for (int i = 0; i < tc_shape(y).rank; i++) n *= (size_t)tc_shape(y).dim[i];
  EXPECT(tc_to_host(y, got, n * sizeof *got) == TC_OK, "%s: %s", r->name, tc_last_error()->message);
  tc_scope_end(s);
  EXPECT(tc_pop_device() == TC_OK, "%s", tc_last_error()->message);
  return n;
}

static int as_the_reference(const void *arch) {
  static float there[MOST], again[MOST], here[MOST];
  size_t n_rows = strcmp(arch, "sm_90") == 0 ? sizeof rows / sizeof *rows : 2;
  setenv("TC_SIM_ARCH", arch, 1);
  for (size_t i = 0; i < n_rows; i++) {
    const struct row *r = &rows[i];
    size_t n = run(r, "tc:cuda", there);
    if (i == 0) (void)run(r, "tc:cuda", again);
    (void)run(r, "tc:ref", here);
    float most = 0, apart = 0;
    for (size_t k = 0; k < n; k++) most = fmaxf(most, fabsf(here[k])), apart = fmaxf(apart, fabsf(here[k] - there[k]));
    EXPECT(apart <= r->within * most, "%s, %s: %g of %g", (const char *)arch, r->name, apart, most);
    EXPECT(i > 0 || memcmp(there, again, n * sizeof *there) == 0, "%s, %s: other bits", (const char *)arch, r->name);
  }
  tc_shutdown();
  return child_failed();
}

int main(void) {
  if (!built_simulators()) return puts("skipped: the simulated driver was not built"), 77;
  uint32_t seed = 1;
  for (int k = 0; k < MOST; k++)
    seed = seed * 1664525 + 1013904223, x[k] = (float)((int)(seed >> 16) % 2049 - 1024) / 256;
  for (int k = 0; k < LONGEST; k++)
    seed = seed * 1664525 + 1013904223, w[k] = (float)((int)(seed >> 16) % 257 - 128) / 64;
  EXPECT(child_status(as_the_reference, "sm_90") == 0, "with clusters");
  EXPECT(child_status(as_the_reference, "sm_80") == 0, "without");
  return expect_done("gpu-clusters");
}
