// Tensors on a GPU, simulated: where values are and how they come and go, two memories in one thread, memory of the caller, bad indices, training that meets
// its plan again, attention beside the processor's, and memory that returns.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tc/tc.h>

#include "tests/plain/expect.h"

static float item(tc_tensor t) {
  float v = NAN;
  EXPECT(tc_item_f32(t, &v) == TC_OK, "%s", tc_last_error()->message);
  return v;
}

static void test_where_values_are(void) {
  tc_scope s = tc_scope_begin();
  const float x[] = {1, -2, 3, 4};
  float got[4];
  tc_tensor a = tc_from_host(x, TC_SHAPE(4), TC_F32), b = tc_relu(tc_mul(a, 2));
  EXPECT(strcmp(tc_device_of(b), "tc:cuda") == 0, "%s", tc_device_of(b));
  EXPECT(tc_to_host(b, got, sizeof got) == TC_OK, "%s", tc_last_error()->message);
  EXPECT(got[0] == 2 && got[1] == 0 && got[2] == 6 && got[3] == 8, "%g %g %g %g", got[0], got[1], got[2], got[3]);
  const float *seen = tc_map(b);
  EXPECT(seen && seen[2] == 6, "%s", tc_last_error()->message);
  EXPECT(tc_unmap(b) == TC_OK, "%s", tc_last_error()->message);
  tc_tensor here = tc_to(b, "tc:cpu"), there = tc_to(tc_add(here, 1), "tc:cuda");
  EXPECT(strcmp(tc_device_of(here), "tc:cpu") == 0 && strcmp(tc_device_of(there), "tc:cuda") == 0, "%s %s", tc_device_of(here), tc_device_of(there));
  EXPECT(item(tc_sum(there, tc_dims_all(), false)) == 20, "%g", item(tc_sum(there, tc_dims_all(), false)));
  tc_scope_end(s);
}

static void test_two_memories(void) {
  tc_scope s = tc_scope_begin();
  tc_tensor here, there = tc_add(tc_ones(TC_SHAPE(3), TC_F32), 1);  // pending
  EXPECT(tc_push_device("tc:cpu") == TC_OK, "%s", tc_last_error()->message);
  here = tc_add(tc_ones(TC_SHAPE(3), TC_F32), 2);
  EXPECT(tc_pop_device() == TC_OK, "%s", tc_last_error()->message);
  EXPECT(!tc_is_valid(tc_add(here, there)) && tc_last_error()->status == TC_ERR_DEVICE, "%s", tc_last_error()->message);
  tc_clear_error();
  EXPECT(item(tc_sum(there, tc_dims_all(), false)) == 6 && item(tc_sum(here, tc_dims_all(), false)) == 9, "both go on");
  tc_tensor p = tc_param(tc_ones(TC_SHAPE(2), TC_F32));
  EXPECT(!tc_is_valid(tc_to(tc_mul(p, 2), "tc:cpu")) && strstr(tc_last_error()->message, "gradients do not cross"), "%s", tc_last_error()->message);
  tc_clear_error();
  tc_release(p);
  tc_scope_end(s);
}

static int n_released;
static void release(void *arg) {
  (void)arg;
  n_released++;
}

static void test_memory_of_the_caller(void) {
  tc_scope s = tc_scope_begin();
  float x[] = {1, 2, 3}, y[] = {1, 2, 3};
  tc_tensor a = tc_borrow(x, TC_SHAPE(3), TC_F32, TC_READ_ONLY, release, NULL), b = tc_borrow(y, TC_SHAPE(3), TC_F32, TC_WRITABLE, NULL, NULL);
  EXPECT(n_released == 1, "%d", n_released);
  x[0] = 100;
  EXPECT(item(tc_sum(a, tc_dims_all(), false)) == 6, "what was copied");
  EXPECT(tc_assign(b, tc_mul(b, 2)) == TC_OK && tc_sync(NULL) == TC_OK, "%s", tc_last_error()->message);
  EXPECT(y[0] == 2 && y[2] == 6, "%g %g", y[0], y[2]);
  y[0] = 10;  // read again by the next run
  EXPECT(item(tc_sum(b, tc_dims_all(), false)) == 20, "%g %g %g", y[0], y[1], y[2]);
  tc_scope_end(s);
}

static void test_bad_index(void) {
  tc_scope s = tc_scope_begin();
  const int64_t at[] = {0, 7, 1};
  tc_tensor table = tc_retain(tc_ones(TC_SHAPE(4, 2), TC_F32)), index = tc_from_host(at, TC_SHAPE(3), TC_I64);
  EXPECT(tc_sync(NULL) == TC_OK, "%s", tc_last_error()->message);
  EXPECT(tc_assign(table, tc_mul(table, tc_sum(tc_index_select(table, 0, index), tc_dims_all(), false))) == TC_OK, "%s", tc_last_error()->message);
  float v;
  tc_status st = tc_item_f32(tc_sum(table, tc_dims_all(), false), &v);
  EXPECT(st == TC_ERR_INDEX && strstr(tc_last_error()->message, "index 7 at position 1 is out of range for extent 4"), "%s",
         tc_last_error()->message);
  tc_clear_error();
  EXPECT(item(tc_sum(table, tc_dims_all(), false)) == 8, "the old value");
  tc_release(table);
  tc_scope_end(s);
}

static void test_training(void) {
  tc_scope s = tc_scope_begin();
  tc_tensor w = tc_param(tc_mul(tc_ones(TC_SHAPE(4, 1), TC_F32), 0.5f));
  tc_optimizer *opt = tc_sgd(&w, 1, (tc_sgd_options){.lr = 0.1});
  const float x[] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, y[] = {1, 2, 3, 4};
  float first = 0, last = 0;
  uint64_t compiles = 0;
  for (int step = 0; step < 6; step++) {
    tc_scope inner = tc_scope_begin();
    tc_tensor loss = tc_mean(tc_square(tc_sub(tc_matmul(tc_from_host(x, TC_SHAPE(4, 4), TC_F32), w), tc_from_host(y, TC_SHAPE(4, 1), TC_F32))),
                             tc_dims_all(), false);
    EXPECT(tc_backward(loss) == TC_OK && tc_optimizer_step(opt) == TC_OK, "%s", tc_last_error()->message);
    tc_zero_grad(opt);
    last = item(loss);
    tc_scope_end(inner);
    if (step == 0) first = last;
    if (step == 2) compiles = tc_cache_stats().compiles;
  }
  // By hand: each weight w moves by 0.1 * 2 (y - w) / 4, so that the loss is multiplied by 0.95^2 a step.
  EXPECT(fabsf(last - first * powf(0.95f, 10)) < 1e-4f * first, "%g of %g", last, first);
  EXPECT(tc_cache_stats().compiles == compiles, "compiled after the third step");
  tc_optimizer_destroy(opt);
  tc_release(w);
  tc_scope_end(s);
}

// Grouped heads, causal, over rows that are no whole blocks: a result and its gradients, as floats; from what the device has to `got`.
static void attend(const char *device, tc_type type, float *const *x, float got[4][2 * 4 * 40 * 24]) {
  tc_scope s = tc_scope_begin();
  EXPECT(tc_push_device(device) == TC_OK, "%s", tc_last_error()->message);
  const tc_dims d[3] = {TC_SHAPE(2, 4, 40, 24), TC_SHAPE(2, 2, 40, 24), TC_SHAPE(2, 2, 40, 24)};
  tc_tensor in[3], out[4];
  for (int i = 0; i < 3; i++) {
    in[i] = tc_cast(tc_from_host(x[i], d[i], TC_F32), type);
    EXPECT(tc_set_requires_grad(in[i], true) == TC_OK, "%s", tc_last_error()->message);
  }
  out[0] = tc_scaled_dot_product_attention(in[0], in[1], in[2], (tc_tensor){0, 0}, (tc_attention_options){.causal = true});
  tc_tensor loss = tc_sum(tc_square(tc_cast(out[0], TC_F32)), tc_dims_all(), false);
  EXPECT(tc_grads_of(loss, in, 3, out + 1, 0) == TC_OK, "%s", tc_last_error()->message);
  for (int i = 0; i < 4; i++) {
    size_t n = (i < 2 ? 2 * 4 : 2 * 2) * 40 * 24;
    EXPECT(tc_to_host(tc_cast(out[i], TC_F32), got[i], n * sizeof(float)) == TC_OK, "%s", tc_last_error()->message);
  }
  EXPECT(tc_pop_device() == TC_OK, "%s", tc_last_error()->message);
  tc_scope_end(s);
}

static void test_attention(void) {
  static float x[3][2 * 4 * 40 * 24], there[4][2 * 4 * 40 * 24], here[4][2 * 4 * 40 * 24];
  static const struct {
    tc_type type;
    float within;
  } of[] = {{TC_F32, 2e-5f}, {TC_BF16, 3e-2f}};
  uint32_t seed = 1;
  for (int i = 0; i < 3; i++)
    for (size_t k = 0; k < sizeof x[i] / sizeof x[i][0]; k++)
      seed = seed * 1664525 + 1013904223, x[i][k] = (float)((int)(seed >> 16) % 257 - 128) / 64;
  for (size_t t = 0; t < sizeof of / sizeof *of; t++) {
    attend("tc:cuda", of[t].type, (float *[]){x[0], x[1], x[2]}, there);
    attend("tc:cpu", of[t].type, (float *[]){x[0], x[1], x[2]}, here);
    for (int i = 0; i < 4; i++) {
      float most = 0, apart = 0;
      for (size_t k = 0; k < sizeof here[i] / sizeof here[i][0]; k++)
        most = fmaxf(most, fabsf(here[i][k])), apart = fmaxf(apart, fabsf(here[i][k] - there[i][k]));
      EXPECT(apart <= of[t].within * most, "type %zu, result %d: %g of %g", t, i, apart, most);
    }
  }
}

int main(void) {
  char dir[400], path[2][450];
  ssize_t n = readlink("/proc/self/exe", dir, sizeof dir - 1);
  if (n <= 0) return 77;
  dir[n] = 0;
  *strrchr(dir, '/') = 0;
  snprintf(path[0], sizeof path[0], "%s/libsim-cuda.so", dir);
  snprintf(path[1], sizeof path[1], "%s/libsim-nvrtc.so", dir);
  if (access(path[0], R_OK) || access(path[1], R_OK)) return puts("skipped: the simulated driver was not built"), 77;
  setenv("TC_CUDA_LIBRARY", path[0], 1);
  setenv("TC_NVRTC_LIBRARY", path[1], 1);
  EXPECT(tc_set_default_device("tc:cuda") == TC_OK, "%s", tc_last_error()->message);
  test_where_values_are();
  test_two_memories();
  test_memory_of_the_caller();
  test_bad_index();
  test_training();
  test_attention();
  EXPECT(tc_memory_stats().gpu_live_bytes == 0, "%zu bytes are held", tc_memory_stats().gpu_live_bytes);
  tc_shutdown();
  EXPECT(tc_memory_stats().gpu_pooled_bytes == 0, "%zu bytes are pooled", tc_memory_stats().gpu_pooled_bytes);
  return expect_done("gpu_tensors");
}
